// Atomics. Coroutines are switched only where a thread waits, so a plain read and write is atomic on the device; what
// makes it an atomic operation here is that it is checked as one.
#pragma once

namespace candle_rocm_emulator {

template <typename T>
__attribute__((always_inline)) static inline void check_atomic([[maybe_unused]] T *address,
                                                               [[maybe_unused]] unsigned line) {
#ifdef CANDLE_ROCM_EMULATOR_CHECKED
  runtime.atomic(address, sizeof(T), line);
#endif
}

template <typename T, typename Operation>
__attribute__((no_sanitize("thread"))) static inline T modify(T *address, unsigned line, Operation operation) {
  check_atomic(address, line);
  volatile T *target = address;
  const T old = *target;
  *target = operation(old);
  return old;
}

} // namespace candle_rocm_emulator

#define CANDLE_ROCM_EMULATOR_ATOMIC(type, name, expression)                                                            \
  __attribute__((no_sanitize("thread"))) static inline type name(type *address, type value,                            \
                                                                 unsigned line = __builtin_LINE()) {                   \
    return candle_rocm_emulator::modify(address, line, [value](type old) __attribute__((no_sanitize("thread"))) {      \
      return static_cast<type>(expression);                                                                            \
    });                                                                                                                \
  }
#define CANDLE_ROCM_EMULATOR_ARITHMETIC(type)                                                                          \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicAdd, old + value)                                                            \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicAdd_system, old + value)                                                     \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, unsafeAtomicAdd, old + value)                                                      \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicSub, old - value)                                                            \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicExch, ((void)old, value))                                                    \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicMin, value < old ? value : old)                                              \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicMax, old < value ? value : old)
#define CANDLE_ROCM_EMULATOR_BITWISE(type)                                                                             \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicAnd, old &value)                                                             \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicOr, old | value)                                                             \
  CANDLE_ROCM_EMULATOR_ATOMIC(type, atomicXor, old ^ value)

CANDLE_ROCM_EMULATOR_ARITHMETIC(int)
CANDLE_ROCM_EMULATOR_ARITHMETIC(unsigned int)
CANDLE_ROCM_EMULATOR_ARITHMETIC(long)
CANDLE_ROCM_EMULATOR_ARITHMETIC(unsigned long)
CANDLE_ROCM_EMULATOR_ARITHMETIC(long long)
CANDLE_ROCM_EMULATOR_ARITHMETIC(unsigned long long)
CANDLE_ROCM_EMULATOR_ARITHMETIC(float)
CANDLE_ROCM_EMULATOR_ARITHMETIC(double)
CANDLE_ROCM_EMULATOR_BITWISE(int)
CANDLE_ROCM_EMULATOR_BITWISE(unsigned int)
CANDLE_ROCM_EMULATOR_BITWISE(unsigned long)
CANDLE_ROCM_EMULATOR_BITWISE(unsigned long long)
CANDLE_ROCM_EMULATOR_ATOMIC(unsigned int, atomicInc, old >= value ? 0 : old + 1)
CANDLE_ROCM_EMULATOR_ATOMIC(unsigned int, atomicDec, old == 0 || old > value ? value : old - 1)

#undef CANDLE_ROCM_EMULATOR_BITWISE
#undef CANDLE_ROCM_EMULATOR_ARITHMETIC
#undef CANDLE_ROCM_EMULATOR_ATOMIC

#define CANDLE_ROCM_EMULATOR_COMPARE_AND_SWAP(type)                                                                    \
  __attribute__((no_sanitize("thread"))) static inline type atomicCAS(type *address, type expected, type desired,      \
                                                                      unsigned line = __builtin_LINE()) {              \
    return candle_rocm_emulator::modify(address, line, [=](type old) __attribute__((no_sanitize("thread"))) {          \
      return old == expected ? desired : old;                                                                          \
    });                                                                                                                \
  }
CANDLE_ROCM_EMULATOR_COMPARE_AND_SWAP(int)
CANDLE_ROCM_EMULATOR_COMPARE_AND_SWAP(unsigned int)
CANDLE_ROCM_EMULATOR_COMPARE_AND_SWAP(unsigned short)
CANDLE_ROCM_EMULATOR_COMPARE_AND_SWAP(unsigned long)
CANDLE_ROCM_EMULATOR_COMPARE_AND_SWAP(unsigned long long)
#undef CANDLE_ROCM_EMULATOR_COMPARE_AND_SWAP
