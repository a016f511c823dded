// Qualifiers of HIP's C++. What follows __global__ in the preprocessed source tells the emulator a kernel's name.
#pragma once

#define __device__
#define __host__
#define __constant__
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

#define __global__ __attribute__((candle_rocm_kernel))
#define CANDLE_ROCM_EMULATOR_FIRST(first, ...) (first)
#define __launch_bounds__(...) __attribute__((candle_rocm_launch_bounds(CANDLE_ROCM_EMULATOR_FIRST(__VA_ARGS__, 0))))

// The thread-local segment of a module is the LDS of the block that runs.
#define __shared__ __attribute__((candle_rocm_shared)) static thread_local
#define HIP_DYNAMIC_SHARED(type, name) type *const name = static_cast<type *>(candle_rocm_emulator::place.dynamic_lds);
#define HIP_DYNAMIC_SHARED_ATTRIBUTE

// Builtins of clang that kernels use.
#define __builtin_nontemporal_load(pointer) (*(pointer))
#define __builtin_nontemporal_store(value, pointer) (*(pointer) = (value))
#define __builtin_assume(condition) ((condition) ? static_cast<void>(0) : __builtin_unreachable())
#define __builtin_amdgcn_wavefrontsize() (static_cast<unsigned int>(candle_rocm_emulator::place.wave_size))
