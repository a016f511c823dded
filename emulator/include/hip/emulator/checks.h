// g++ calls these at every load and store that -fsanitize=thread instruments; no code of that sanitizer is linked.
#pragma once

#define CANDLE_ROCM_EMULATOR_CALLBACK                                                                                  \
  extern "C" __attribute__((visibility("hidden"), no_sanitize("thread"), used)) inline

#define CANDLE_ROCM_EMULATOR_ACCESS(name, kind, index)                                                                 \
  CANDLE_ROCM_EMULATOR_CALLBACK void __tsan_##name(void *address) {                                                    \
    candle_rocm_emulator::runtime.kind[index](address, __builtin_return_address(0));                                   \
  }
#define CANDLE_ROCM_EMULATOR_ACCESSES(bytes, index)                                                                    \
  CANDLE_ROCM_EMULATOR_ACCESS(read##bytes, read, index)                                                                \
  CANDLE_ROCM_EMULATOR_ACCESS(write##bytes, write, index)
CANDLE_ROCM_EMULATOR_ACCESSES(1, 0)
CANDLE_ROCM_EMULATOR_ACCESSES(2, 1)
CANDLE_ROCM_EMULATOR_ACCESSES(4, 2)
CANDLE_ROCM_EMULATOR_ACCESSES(8, 3)
CANDLE_ROCM_EMULATOR_ACCESSES(16, 4)
#undef CANDLE_ROCM_EMULATOR_ACCESSES
#undef CANDLE_ROCM_EMULATOR_ACCESS

// Of other sizes, and of types that may lie at any address.
CANDLE_ROCM_EMULATOR_CALLBACK void __tsan_read_range(void *address, size_t bytes) {
  candle_rocm_emulator::runtime.read_range(address, bytes, __builtin_return_address(0));
}
CANDLE_ROCM_EMULATOR_CALLBACK void __tsan_write_range(void *address, size_t bytes) {
  candle_rocm_emulator::runtime.write_range(address, bytes, __builtin_return_address(0));
}
CANDLE_ROCM_EMULATOR_CALLBACK void __tsan_init() {}

// Copies and fills that g++ leaves as calls are not instrumented; these stand in for the C library's.
CANDLE_ROCM_EMULATOR_CALLBACK void *memcpy(void *to, const void *from, size_t bytes) noexcept {
  candle_rocm_emulator::runtime.read_range(from, bytes, __builtin_return_address(0));
  candle_rocm_emulator::runtime.write_range(to, bytes, __builtin_return_address(0));
  void *end = to;
  __asm__ volatile("rep movsb" : "+D"(end), "+S"(from), "+c"(bytes)::"memory");
  return to;
}
#undef CANDLE_ROCM_EMULATOR_CALLBACK
