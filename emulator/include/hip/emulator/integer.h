// Integer device functions: bit counting, min and max, bit casts.
#pragma once

static inline int __popc(unsigned int value) { return __builtin_popcount(value); }
static inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
static inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned int>(value)); }
static inline int __clzll(long long value) {
  return value == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(value));
}
static inline int __ffs(int value) { return __builtin_ffs(value); }
static inline int __ffsll(long long value) { return __builtin_ffsll(value); }

static inline unsigned long long __brevll(unsigned long long value) {
  unsigned long long reversed = 0;
  for (int bit = 0; bit < 64; ++bit) reversed |= (value >> bit & 1) << (63 - bit);
  return reversed;
}
static inline unsigned int __brev(unsigned int value) { return static_cast<unsigned int>(__brevll(value) >> 32); }

static inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
static inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) {
  return static_cast<unsigned int>(static_cast<unsigned long long>(a) * b >> 32);
}
static inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

#define CANDLE_ROCM_EMULATOR_MIN_MAX(type)                                                                             \
  static inline constexpr type min(type a, type b) { return a < b ? a : b; }                                           \
  static inline constexpr type max(type a, type b) { return a < b ? b : a; }
CANDLE_ROCM_EMULATOR_MIN_MAX(int)
CANDLE_ROCM_EMULATOR_MIN_MAX(unsigned int)
CANDLE_ROCM_EMULATOR_MIN_MAX(long)
CANDLE_ROCM_EMULATOR_MIN_MAX(unsigned long)
CANDLE_ROCM_EMULATOR_MIN_MAX(long long)
CANDLE_ROCM_EMULATOR_MIN_MAX(unsigned long long)
#undef CANDLE_ROCM_EMULATOR_MIN_MAX

namespace candle_rocm_emulator {
template <typename To, typename From>
static inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  return __builtin_bit_cast(To, from);
}
} // namespace candle_rocm_emulator

static inline int __float_as_int(float value) { return candle_rocm_emulator::bit_cast<int>(value); }
static inline unsigned int __float_as_uint(float value) { return candle_rocm_emulator::bit_cast<unsigned int>(value); }
static inline float __int_as_float(int value) { return candle_rocm_emulator::bit_cast<float>(value); }
static inline float __uint_as_float(unsigned int value) { return candle_rocm_emulator::bit_cast<float>(value); }
static inline long long __double_as_longlong(double value) { return candle_rocm_emulator::bit_cast<long long>(value); }
static inline double __longlong_as_double(long long value) { return candle_rocm_emulator::bit_cast<double>(value); }
static inline int __double2hiint(double value) { return static_cast<int>(__double_as_longlong(value) >> 32); }
static inline int __double2loint(double value) { return static_cast<int>(__double_as_longlong(value)); }
static inline double __hiloint2double(int high, int low) {
  return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned int>(low));
}
