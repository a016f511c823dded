// What libamdhip64 and a kernel module agree on. The same structs in Rust: emulator/runtime/src/module/abi.rs.
#pragma once

#define CANDLE_ROCM_EMULATOR_ABI 4

namespace candle_rocm_emulator {

// Operations among the lanes of a wave.
enum class CrossLane : unsigned int {
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  any,
  all,
  synchronize,
};

// What __syncthreads and its variants return.
enum class Barrier : unsigned int { plain, count, conjunction, disjunction };

// Functions of libamdhip64 that a kernel calls. `site` is the return address in the kernel, `line` the source line.
struct Runtime {
  // Of 1, 2, 4, 8, 16 bytes at a multiple of these or of 8.
  void (*read[5])(const void *address, const void *site);
  void (*write[5])(const void *address, const void *site);
  void (*read_range)(const void *address, size_t bytes, const void *site);
  void (*write_range)(const void *address, size_t bytes, const void *site);
  void (*atomic)(const void *address, size_t bytes, unsigned int line);
  int (*barrier)(Barrier kind, int predicate, unsigned int line);
  // Returns the value of the chosen lane (shuffles) or the mask or truth of the vote.
  uint64_t (*cross_lane)(CrossLane operation, uint64_t value, int operand, int width, uint64_t mask, unsigned int line);
};

// Where the running thread is. The emulator writes it whenever it switches to a thread or block.
struct Place {
  uint3 thread_index, block_index, block_dim, grid_dim;
  int wave_size;
  unsigned int lane;
  void *dynamic_lds;
};

struct Parameter {
  uint32_t size, alignment;
};

struct Kernel {
  const char *name;
  void (*invoke)(void *const *arguments);
  const Parameter *parameters;
  uint32_t parameter_count;
  uint32_t max_threads; // of __launch_bounds__, 0 without
};

struct Module {
  uint32_t abi;
  uint32_t kernel_count;
  const Kernel *kernels;
  Runtime *runtime;
  Place *place;
  const char *architecture;
};

// To g++ these two are constants that it cannot see. They do change, but only while another thread runs, so a thread
// may keep them in registers, and -fsanitize=thread has no reason to check reads of them.
extern const Runtime runtime __asm__("candle_rocm_emulator_runtime") __attribute__((visibility("hidden")));
extern const Place place __asm__("candle_rocm_emulator_place") __attribute__((visibility("hidden")));

__asm__(".pushsection .bss\n"
        ".weak candle_rocm_emulator_runtime, candle_rocm_emulator_place\n"
        ".hidden candle_rocm_emulator_runtime, candle_rocm_emulator_place\n"
        ".weak candle_rocm_emulator_thread_index, candle_rocm_emulator_block_index\n"
        ".hidden candle_rocm_emulator_thread_index, candle_rocm_emulator_block_index\n"
        ".weak candle_rocm_emulator_block_dim, candle_rocm_emulator_grid_dim, candle_rocm_emulator_wave_size\n"
        ".hidden candle_rocm_emulator_block_dim, candle_rocm_emulator_grid_dim, candle_rocm_emulator_wave_size\n"
        ".balign 16\n"
        "candle_rocm_emulator_runtime: .zero 120\n"
        "candle_rocm_emulator_place:\n"
        "candle_rocm_emulator_thread_index: .zero 12\n"
        "candle_rocm_emulator_block_index: .zero 12\n"
        "candle_rocm_emulator_block_dim: .zero 12\n"
        "candle_rocm_emulator_grid_dim: .zero 12\n"
        "candle_rocm_emulator_wave_size: .zero 16\n"
        ".popsection");
static_assert(sizeof(Runtime) == 120 && sizeof(Place) == 64, "the sizes written in the assembly above");

// The numbers below `count`, to expand a parameter pack with its positions.
template <size_t... indices>
struct IndexList {};
template <size_t count, size_t... indices>
struct CountDown : CountDown<count - 1, count - 1, indices...> {};
template <size_t... indices>
struct CountDown<0, indices...> {
  using type = IndexList<indices...>;
};
template <size_t count>
using Indices = typename CountDown<count>::type;

// Calls a kernel with arguments that lie behind an array of pointers, as hipModuleLaunchKernel gets them.
template <typename Function>
struct Entry;

template <typename... Arguments>
struct Entry<void (*)(Arguments...)> {
  static constexpr Parameter parameters[] = {{sizeof(Arguments), alignof(Arguments)}..., {0, 0}};

  template <void (*kernel)(Arguments...)>
  __attribute__((no_sanitize("thread"))) static void invoke(void *const *arguments) {
    call<kernel>(arguments, Indices<sizeof...(Arguments)>{});
  }

private:
  template <void (*kernel)(Arguments...), size_t... indices>
  __attribute__((no_sanitize("thread"), always_inline)) static void call([[maybe_unused]] void *const *arguments,
                                                                         IndexList<indices...>) {
    kernel(*static_cast<Arguments *>(arguments[indices])...);
  }
};

template <typename... Arguments>
struct Entry<void (*)(Arguments...) noexcept> : Entry<void (*)(Arguments...)> {};

template <auto kernel>
constexpr Kernel describe(const char *name, uint32_t max_threads) {
  using E = Entry<decltype(kernel)>;
  return {name, &E::template invoke<kernel>, E::parameters, sizeof(E::parameters) / sizeof(Parameter) - 1, max_threads};
}

} // namespace candle_rocm_emulator
