// Barriers of a block and of a wave, and memory fences.
#pragma once

static inline void __syncthreads(unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  runtime.barrier(Barrier::plain, 0, line);
}
static inline int __syncthreads_count(int predicate, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return runtime.barrier(Barrier::count, predicate != 0, line);
}
static inline int __syncthreads_and(int predicate, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return runtime.barrier(Barrier::conjunction, predicate != 0, line);
}
static inline int __syncthreads_or(int predicate, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return runtime.barrier(Barrier::disjunction, predicate != 0, line);
}
static inline void __syncwarp(unsigned long long mask = candle_rocm_emulator::every_lane,
                              unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  runtime.cross_lane(CrossLane::synchronize, 0, 0, 0, mask, line);
}

// A compiler barrier is all that the threads of one operating-system thread need.
static inline void __threadfence() { __asm__ volatile("" ::: "memory"); }
static inline void __threadfence_block() { __asm__ volatile("" ::: "memory"); }
static inline void __threadfence_system() { __asm__ volatile("" ::: "memory"); }
