// Shuffles, votes and ballots: operations among the lanes of one wave.
#pragma once

namespace candle_rocm_emulator {

constexpr uint64_t every_lane = ~uint64_t{0};

template <typename T>
__attribute__((no_sanitize("thread"))) static inline T exchange(CrossLane operation, T value, int operand, int width,
                                                                uint64_t mask, unsigned line) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = runtime.cross_lane(operation, bits, operand, width, mask, line);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

static inline uint64_t vote(CrossLane operation, int predicate, uint64_t mask, unsigned line) {
  return runtime.cross_lane(operation, predicate != 0, 0, 0, mask, line);
}

} // namespace candle_rocm_emulator

template <typename T>
static inline T __shfl(T value, int lane, int width = warpSize, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return exchange(CrossLane::shuffle, value, lane, width, every_lane, line);
}
template <typename T>
static inline T __shfl_up(T value, unsigned int delta, int width = warpSize, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return exchange(CrossLane::shuffle_up, value, static_cast<int>(delta), width, every_lane, line);
}
template <typename T>
static inline T __shfl_down(T value, unsigned int delta, int width = warpSize, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return exchange(CrossLane::shuffle_down, value, static_cast<int>(delta), width, every_lane, line);
}
template <typename T>
static inline T __shfl_xor(T value, int lane_mask, int width = warpSize, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return exchange(CrossLane::shuffle_xor, value, lane_mask, width, every_lane, line);
}
template <typename T>
static inline T __shfl_sync(unsigned long long mask, T value, int lane, int width = warpSize,
                            unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return exchange(CrossLane::shuffle, value, lane, width, mask, line);
}
template <typename T>
static inline T __shfl_up_sync(unsigned long long mask, T value, unsigned int delta, int width = warpSize,
                               unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return exchange(CrossLane::shuffle_up, value, static_cast<int>(delta), width, mask, line);
}
template <typename T>
static inline T __shfl_down_sync(unsigned long long mask, T value, unsigned int delta, int width = warpSize,
                                 unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return exchange(CrossLane::shuffle_down, value, static_cast<int>(delta), width, mask, line);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned long long mask, T value, int lane_mask, int width = warpSize,
                                unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return exchange(CrossLane::shuffle_xor, value, lane_mask, width, mask, line);
}

static inline unsigned long long __ballot(int predicate, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return vote(CrossLane::ballot, predicate, every_lane, line);
}
static inline int __any(int predicate, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return static_cast<int>(vote(CrossLane::any, predicate, every_lane, line));
}
static inline int __all(int predicate, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return static_cast<int>(vote(CrossLane::all, predicate, every_lane, line));
}
static inline unsigned long long __ballot_sync(unsigned long long mask, int predicate,
                                               unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return vote(CrossLane::ballot, predicate, mask, line);
}
static inline int __any_sync(unsigned long long mask, int predicate, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return static_cast<int>(vote(CrossLane::any, predicate, mask, line));
}
static inline int __all_sync(unsigned long long mask, int predicate, unsigned line = __builtin_LINE()) {
  using namespace candle_rocm_emulator;
  return static_cast<int>(vote(CrossLane::all, predicate, mask, line));
}
static inline unsigned long long __activemask(unsigned line = __builtin_LINE()) { return __ballot(1, line); }
