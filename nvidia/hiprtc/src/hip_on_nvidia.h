// What HIP has and CUDA spells otherwise. Included before every source that libhiprtc.so on NVIDIA compiles.
#pragma once

// What libamdhip64.so on NVIDIA asks every module for; nothing launches it.
extern "C" __global__ void CANDLE_ROCM_EDITION() {}

// clang's constant for infinity.
#define __builtin_huge_valf() __builtin_bit_cast(float, 0x7f800000u)

// All lanes of a warp come to a shuffle or a vote, as HIP's kernels must let them on AMD GPUs of 32 lanes.
#define CANDLE_ROCM_ALL_LANES 0xffffffffu

template <class T>
__device__ __forceinline__ T __shfl(T value, int lane, int width = 32) {
  return __shfl_sync(CANDLE_ROCM_ALL_LANES, value, lane, width);
}

template <class T>
__device__ __forceinline__ T __shfl_xor(T value, int mask, int width = 32) {
  return __shfl_xor_sync(CANDLE_ROCM_ALL_LANES, value, mask, width);
}

template <class T>
__device__ __forceinline__ T __shfl_up(T value, unsigned int by, int width = 32) {
  return __shfl_up_sync(CANDLE_ROCM_ALL_LANES, value, by, width);
}

template <class T>
__device__ __forceinline__ T __shfl_down(T value, unsigned int by, int width = 32) {
  return __shfl_down_sync(CANDLE_ROCM_ALL_LANES, value, by, width);
}

// NVRTC declares the old names of votes too, for GPUs that are older than those that it compiles for.
#define __ballot(predicate) ((unsigned long long)__ballot_sync(CANDLE_ROCM_ALL_LANES, predicate))
#define __any(predicate) __any_sync(CANDLE_ROCM_ALL_LANES, predicate)
#define __all(predicate) __all_sync(CANDLE_ROCM_ALL_LANES, predicate)
