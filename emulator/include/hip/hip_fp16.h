// Half precision: __half and __half2 on the host compiler's _Float16, which rounds as the device does.
#pragma once

#include <hip/hip_runtime.h>

struct __half_raw {
  unsigned short x;
};

struct __half {
  _Float16 data;
  __half() = default;
  constexpr __half(_Float16 value) : data(value) {}
#define CANDLE_ROCM_EMULATOR_FROM(type)                                                                                \
  constexpr __half(type value) : data(static_cast<_Float16>(value)) {}
  CANDLE_ROCM_EMULATOR_FROM(float)
  CANDLE_ROCM_EMULATOR_FROM(double)
  CANDLE_ROCM_EMULATOR_FROM(short)
  CANDLE_ROCM_EMULATOR_FROM(unsigned short)
  CANDLE_ROCM_EMULATOR_FROM(int)
  CANDLE_ROCM_EMULATOR_FROM(unsigned int)
  CANDLE_ROCM_EMULATOR_FROM(long)
  CANDLE_ROCM_EMULATOR_FROM(unsigned long)
  CANDLE_ROCM_EMULATOR_FROM(long long)
  CANDLE_ROCM_EMULATOR_FROM(unsigned long long)
#undef CANDLE_ROCM_EMULATOR_FROM
  constexpr __half(__half_raw raw) : data(__builtin_bit_cast(_Float16, raw.x)) {}
  constexpr operator _Float16() const { return data; }
  constexpr operator float() const { return data; }
  constexpr operator __half_raw() const { return {__builtin_bit_cast(unsigned short, data)}; }
};
using half = __half;

struct alignas(4) __half2 {
  __half x, y;
};
using half2 = __half2;

#define CANDLE_ROCM_EMULATOR_ARITHMETIC(op, name)                                                                      \
  static inline __half operator op(__half a, __half b) { return static_cast<_Float16>(a.data op b.data); }             \
  static inline __half &operator op## = (__half & a, __half b) { return a = a op b; }                                  \
  static inline __half name(__half a, __half b) { return a op b; }                                                     \
  static inline __half2 operator op(__half2 a, __half2 b) { return {a.x op b.x, a.y op b.y}; }                         \
  static inline __half2 name##2(__half2 a, __half2 b) { return a op b; }
CANDLE_ROCM_EMULATOR_ARITHMETIC(+, __hadd)
CANDLE_ROCM_EMULATOR_ARITHMETIC(-, __hsub)
CANDLE_ROCM_EMULATOR_ARITHMETIC(*, __hmul)
CANDLE_ROCM_EMULATOR_ARITHMETIC(/, __hdiv)
#undef CANDLE_ROCM_EMULATOR_ARITHMETIC

#define CANDLE_ROCM_EMULATOR_COMPARISON(op, name)                                                                      \
  static inline bool operator op(__half a, __half b) { return a.data op b.data; }                                      \
  static inline bool name(__half a, __half b) { return a.data op b.data; }
CANDLE_ROCM_EMULATOR_COMPARISON(==, __heq)
CANDLE_ROCM_EMULATOR_COMPARISON(!=, __hne)
CANDLE_ROCM_EMULATOR_COMPARISON(<, __hlt)
CANDLE_ROCM_EMULATOR_COMPARISON(<=, __hle)
CANDLE_ROCM_EMULATOR_COMPARISON(>, __hgt)
CANDLE_ROCM_EMULATOR_COMPARISON(>=, __hge)
#undef CANDLE_ROCM_EMULATOR_COMPARISON

static inline __half operator-(__half a) { return static_cast<_Float16>(-a.data); }
static inline __half __hneg(__half a) { return -a; }
static inline __half __habs(__half a) { return static_cast<_Float16>(fabsf(a.data)); }
static inline bool __hisnan(__half a) { return a.data != a.data; }
// NaN gives way to a number, as in fminf.
static inline __half __hmin(__half a, __half b) { return static_cast<_Float16>(fminf(a.data, b.data)); }
static inline __half __hmax(__half a, __half b) { return static_cast<_Float16>(fmaxf(a.data, b.data)); }
// The product of two halves is exact in single precision, but its sum with a third rounds twice; double does not.
static inline __half __hfma(__half a, __half b, __half c) {
  return static_cast<_Float16>(static_cast<double>(a.data) * static_cast<double>(b.data) + static_cast<double>(c.data));
}
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

#define CANDLE_ROCM_EMULATOR_FUNCTION(name, exact)                                                                     \
  static inline __half name(__half a) { return static_cast<_Float16>(exact(static_cast<float>(a.data))); }
CANDLE_ROCM_EMULATOR_FUNCTION(hexp, expf)
CANDLE_ROCM_EMULATOR_FUNCTION(hlog, logf)
CANDLE_ROCM_EMULATOR_FUNCTION(hsin, sinf)
CANDLE_ROCM_EMULATOR_FUNCTION(hcos, cosf)
CANDLE_ROCM_EMULATOR_FUNCTION(hsqrt, sqrtf)
CANDLE_ROCM_EMULATOR_FUNCTION(hrsqrt, rsqrtf)
CANDLE_ROCM_EMULATOR_FUNCTION(hfloor, floorf)
CANDLE_ROCM_EMULATOR_FUNCTION(hceil, ceilf)
CANDLE_ROCM_EMULATOR_FUNCTION(hrint, rintf)
CANDLE_ROCM_EMULATOR_FUNCTION(htrunc, truncf)
#undef CANDLE_ROCM_EMULATOR_FUNCTION

static inline __half __float2half(float x) { return x; }
static inline __half __float2half_rn(float x) { return x; }
static inline __half __double2half(double x) { return x; }
static inline float __half2float(__half x) { return x.data; }
static inline float __low2float(__half2 x) { return x.x.data; }
static inline float __high2float(__half2 x) { return x.y.data; }
static inline __half __low2half(__half2 x) { return x.x; }
static inline __half __high2half(__half2 x) { return x.y; }
static inline __half2 __half2half2(__half x) { return {x, x}; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half2 make_half2(__half x, __half y) { return {x, y}; }
static inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
static inline __half2 __float22half2_rn(float2 x) { return {__half(x.x), __half(x.y)}; }
static inline float2 __half22float2(__half2 x) { return {static_cast<float>(x.x.data), static_cast<float>(x.y.data)}; }
static inline unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x.data); }
static inline short __half_as_short(__half x) { return __builtin_bit_cast(short, x.data); }
static inline __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(_Float16, x); }
static inline __half __short_as_half(short x) { return __builtin_bit_cast(_Float16, x); }
static inline int __half2int_rn(__half x) { return static_cast<int>(rintf(x.data)); }
static inline __half __int2half_rn(int x) { return static_cast<_Float16>(x); }
