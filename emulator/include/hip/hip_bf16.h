// bfloat16: the upper half of a float, rounded to nearest even.
#pragma once

#include <hip/hip_runtime.h>

namespace candle_rocm_emulator {
static inline unsigned short to_bfloat16(float value) {
  const unsigned int bits = __float_as_uint(value);
  // A NaN stays one whatever its lower bits are.
  if (value != value) return static_cast<unsigned short>(bits >> 16 | 0x40);
  return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
} // namespace candle_rocm_emulator

struct __hip_bfloat16 {
  unsigned short data;
  __hip_bfloat16() = default;
  __hip_bfloat16(float value) : data(candle_rocm_emulator::to_bfloat16(value)) {}
  operator float() const { return __uint_as_float(static_cast<unsigned int>(data) << 16); }
};

struct alignas(4) __hip_bfloat162 {
  __hip_bfloat16 x, y;
};

#define CANDLE_ROCM_EMULATOR_ARITHMETIC(op, name)                                                                      \
  static inline __hip_bfloat16 operator op(__hip_bfloat16 a, __hip_bfloat16 b) {                                       \
    return static_cast<float>(a) op static_cast<float>(b);                                                             \
  }                                                                                                                    \
  static inline __hip_bfloat16 &operator op## = (__hip_bfloat16 & a, __hip_bfloat16 b) { return a = a op b; }          \
  static inline __hip_bfloat16 name(__hip_bfloat16 a, __hip_bfloat16 b) { return a op b; }
CANDLE_ROCM_EMULATOR_ARITHMETIC(+, __hadd)
CANDLE_ROCM_EMULATOR_ARITHMETIC(-, __hsub)
CANDLE_ROCM_EMULATOR_ARITHMETIC(*, __hmul)
CANDLE_ROCM_EMULATOR_ARITHMETIC(/, __hdiv)
#undef CANDLE_ROCM_EMULATOR_ARITHMETIC

static inline __hip_bfloat16 __float2bfloat16(float x) { return x; }
static inline float __bfloat162float(__hip_bfloat16 x) { return x; }
static inline unsigned short __bfloat16_as_ushort(__hip_bfloat16 x) { return x.data; }
static inline __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __hip_bfloat16 x;
  x.data = bits;
  return x;
}
