// dim3 and HIP's vector types: char2 ... ulonglong4, float1 ... double4, with element-wise arithmetic.
#pragma once

#include <stdint.h>

struct uint3 {
  unsigned int x, y, z;
};

struct dim3 {
  uint32_t x, y, z;
  constexpr dim3(uint32_t x = 1, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// HIP aligns vectors of two and four elements to their size, those of one and three to their element.
#define CANDLE_ROCM_EMULATOR_VECTOR(element, prefix)                                                                   \
  struct prefix##1 { element x; };                                                                                     \
  struct alignas(2 * sizeof(element)) prefix##2 { element x, y; };                                                     \
  struct alignas(4 * sizeof(element)) prefix##4 { element x, y, z, w; };                                               \
  static inline prefix##1 make_##prefix##1(element x) { return {x}; }                                                  \
  static inline prefix##2 make_##prefix##2(element x, element y) { return {x, y}; }                                    \
  static inline prefix##3 make_##prefix##3(element x, element y, element z) { return {x, y, z}; }                      \
  static inline prefix##4 make_##prefix##4(element x, element y, element z, element w) { return {x, y, z, w}; }        \
  CANDLE_ROCM_EMULATOR_VECTOR_OPERATOR(element, prefix, +)                                                             \
  CANDLE_ROCM_EMULATOR_VECTOR_OPERATOR(element, prefix, -)                                                             \
  CANDLE_ROCM_EMULATOR_VECTOR_OPERATOR(element, prefix, *)                                                             \
  CANDLE_ROCM_EMULATOR_VECTOR_OPERATOR(element, prefix, /)

#define CANDLE_ROCM_EMULATOR_VECTOR3(element, prefix)                                                                  \
  struct prefix##3 { element x, y, z; };

#define CANDLE_ROCM_EMULATOR_VECTOR_OPERATOR(element, prefix, op)                                                      \
  static inline prefix##2 operator op(const prefix##2 & a, const prefix##2 & b) {                                      \
    return {static_cast<element>(a.x op b.x), static_cast<element>(a.y op b.y)};                                       \
  }                                                                                                                    \
  static inline prefix##4 operator op(const prefix##4 & a, const prefix##4 & b) {                                      \
    return {static_cast<element>(a.x op b.x), static_cast<element>(a.y op b.y), static_cast<element>(a.z op b.z),      \
            static_cast<element>(a.w op b.w)};                                                                         \
  }

CANDLE_ROCM_EMULATOR_VECTOR3(signed char, char)
CANDLE_ROCM_EMULATOR_VECTOR3(unsigned char, uchar)
CANDLE_ROCM_EMULATOR_VECTOR3(short, short)
CANDLE_ROCM_EMULATOR_VECTOR3(unsigned short, ushort)
CANDLE_ROCM_EMULATOR_VECTOR3(int, int)
CANDLE_ROCM_EMULATOR_VECTOR3(long, long)
CANDLE_ROCM_EMULATOR_VECTOR3(unsigned long, ulong)
CANDLE_ROCM_EMULATOR_VECTOR3(long long, longlong)
CANDLE_ROCM_EMULATOR_VECTOR3(unsigned long long, ulonglong)
CANDLE_ROCM_EMULATOR_VECTOR3(float, float)
CANDLE_ROCM_EMULATOR_VECTOR3(double, double)

CANDLE_ROCM_EMULATOR_VECTOR(signed char, char)
CANDLE_ROCM_EMULATOR_VECTOR(unsigned char, uchar)
CANDLE_ROCM_EMULATOR_VECTOR(short, short)
CANDLE_ROCM_EMULATOR_VECTOR(unsigned short, ushort)
CANDLE_ROCM_EMULATOR_VECTOR(int, int)
CANDLE_ROCM_EMULATOR_VECTOR(unsigned int, uint)
CANDLE_ROCM_EMULATOR_VECTOR(long, long)
CANDLE_ROCM_EMULATOR_VECTOR(unsigned long, ulong)
CANDLE_ROCM_EMULATOR_VECTOR(long long, longlong)
CANDLE_ROCM_EMULATOR_VECTOR(unsigned long long, ulonglong)
CANDLE_ROCM_EMULATOR_VECTOR(float, float)
CANDLE_ROCM_EMULATOR_VECTOR(double, double)

#undef CANDLE_ROCM_EMULATOR_VECTOR
#undef CANDLE_ROCM_EMULATOR_VECTOR3
#undef CANDLE_ROCM_EMULATOR_VECTOR_OPERATOR
