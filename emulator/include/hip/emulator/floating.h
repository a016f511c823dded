// Floating-point device functions that C's math.h lacks. The fast intrinsics (__expf, ...) are exact here.
#pragma once

#ifdef CANDLE_ROCM_EMULATOR_MODULE
// What C has as macros or for one type only, as overloads.
#undef isnan
#undef isinf
#undef isfinite
#undef signbit
#define CANDLE_ROCM_EMULATOR_CLASSIFY(type)                                                                            \
  static inline bool isnan(type x) { return __builtin_isnan(x); }                                                      \
  static inline bool isinf(type x) { return __builtin_isinf_sign(x) != 0; }                                            \
  static inline bool isfinite(type x) { return __builtin_isfinite(x); }                                                \
  static inline bool signbit(type x) { return __builtin_signbit(x) != 0; }
CANDLE_ROCM_EMULATOR_CLASSIFY(float)
CANDLE_ROCM_EMULATOR_CLASSIFY(double)
#undef CANDLE_ROCM_EMULATOR_CLASSIFY
extern "C" int abs(int) noexcept;
static inline long abs(long x) { return x < 0 ? -x : x; }
static inline long long abs(long long x) { return x < 0 ? -x : x; }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }
#endif

static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
static inline double rcbrt(double x) { return 1.0 / cbrt(x); }
static inline float normcdff(float x) { return 0.5f * erfcf(-x * static_cast<float>(M_SQRT1_2)); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
static inline float sinpif(float x) { return sinf(static_cast<float>(M_PI) * x); }
static inline float cospif(float x) { return cosf(static_cast<float>(M_PI) * x); }
static inline double sinpi(double x) { return sin(M_PI * x); }
static inline double cospi(double x) { return cos(M_PI * x); }
static inline void sincospif(float x, float *sine, float *cosine) { *sine = sinpif(x), *cosine = cospif(x); }
static inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }

// glibc declares some of these names without defining them; a definition must repeat its C linkage.
extern "C" {
#define CANDLE_ROCM_EMULATOR_FAST(name, exact)                                                                         \
  __attribute__((always_inline)) inline float name(float x) noexcept { return exact(x); }
CANDLE_ROCM_EMULATOR_FAST(__expf, expf)
CANDLE_ROCM_EMULATOR_FAST(__exp10f, exp10f)
CANDLE_ROCM_EMULATOR_FAST(__logf, logf)
CANDLE_ROCM_EMULATOR_FAST(__log2f, log2f)
CANDLE_ROCM_EMULATOR_FAST(__log10f, log10f)
CANDLE_ROCM_EMULATOR_FAST(__sinf, sinf)
CANDLE_ROCM_EMULATOR_FAST(__cosf, cosf)
CANDLE_ROCM_EMULATOR_FAST(__tanf, tanf)
#undef CANDLE_ROCM_EMULATOR_FAST
__attribute__((always_inline)) inline float __powf(float x, float y) noexcept { return powf(x, y); }
__attribute__((always_inline)) inline void __sincosf(float x, float *sine, float *cosine) noexcept {
  sincosf(x, sine, cosine);
}
}

#define CANDLE_ROCM_EMULATOR_ROUNDED(type, prefix, fma_name)                                                           \
  static inline type __##prefix##add_rn(type x, type y) { return x + y; }                                              \
  static inline type __##prefix##sub_rn(type x, type y) { return x - y; }                                              \
  static inline type __##prefix##mul_rn(type x, type y) { return x * y; }                                              \
  static inline type __##prefix##rcp_rn(type x) { return 1 / x; }                                                      \
  static inline type __##prefix##sqrt_rn(type x) { return static_cast<type>(sqrt(x)); }                                \
  static inline type __##fma_name##_rn(type x, type y, type z) { return __builtin_fma##prefix(x, y, z); }
#define __builtin_fmad(x, y, z) __builtin_fma(x, y, z)
CANDLE_ROCM_EMULATOR_ROUNDED(float, f, fmaf)
CANDLE_ROCM_EMULATOR_ROUNDED(double, d, fma)
#undef __builtin_fmad
#undef CANDLE_ROCM_EMULATOR_ROUNDED
static inline float __fdiv_rn(float x, float y) { return x / y; }

static inline int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
static inline int __float2int_rz(float x) { return static_cast<int>(x); }
static inline int __float2int_rd(float x) { return static_cast<int>(floorf(x)); }
static inline int __float2int_ru(float x) { return static_cast<int>(ceilf(x)); }
static inline unsigned int __float2uint_rn(float x) { return static_cast<unsigned int>(rintf(x)); }
static inline unsigned int __float2uint_rz(float x) { return static_cast<unsigned int>(x); }
static inline float __int2float_rn(int x) { return static_cast<float>(x); }
static inline float __uint2float_rn(unsigned int x) { return static_cast<float>(x); }
static inline float __double2float_rn(double x) { return static_cast<float>(x); }
