// threadIdx and its kin, and the lane of a thread in its wave.
#pragma once

extern "C" {
extern const uint3 threadIdx __asm__("candle_rocm_emulator_thread_index") __attribute__((visibility("hidden")));
extern const uint3 blockIdx __asm__("candle_rocm_emulator_block_index") __attribute__((visibility("hidden")));
extern const uint3 blockDim __asm__("candle_rocm_emulator_block_dim") __attribute__((visibility("hidden")));
extern const uint3 gridDim __asm__("candle_rocm_emulator_grid_dim") __attribute__((visibility("hidden")));
extern const int warpSize __asm__("candle_rocm_emulator_wave_size") __attribute__((visibility("hidden")));
}

static inline unsigned int __lane_id() { return candle_rocm_emulator::place.lane; }
