// Launches from a program that the host's compiler compiles as a whole, host and device code in one file.
#pragma once

#define hipGetDeviceProperties hipGetDevicePropertiesR0600
#define hipDeviceProp_t hipDeviceProp_tR0600

template <typename T>
static inline hipError_t hipMalloc(T **pointer, size_t bytes) {
  return hipMalloc(reinterpret_cast<void **>(pointer), bytes);
}

namespace candle_rocm_emulator {

// In libamdhip64. The arguments lie behind an array of pointers.
extern "C" hipError_t candle_rocm_emulator_launch(const Module *module, const Kernel *kernel, dim3 grid, dim3 block,
                                                  size_t dynamic_lds, hipStream_t stream, void *const *arguments);

// The program as a module without a table of kernels.
inline const Module program = {CANDLE_ROCM_EMULATOR_ABI,    0, nullptr, const_cast<Runtime *>(&runtime),
                               const_cast<Place *>(&place), ""};

// A kernel that is known by its address, which is the first of the arguments.
template <typename... Parameters>
struct ByAddress {
  using Function = void (*)(Parameters...);
  static constexpr Parameter parameters[] = {{sizeof(Function), alignof(Function)},
                                             {sizeof(Parameters), alignof(Parameters)}...};

  static void invoke(void *const *arguments) {
    call(*static_cast<Function *>(arguments[0]), arguments + 1, Indices<sizeof...(Parameters)>{});
  }

private:
  template <size_t... indices>
  static void call(Function kernel, [[maybe_unused]] void *const *arguments, IndexList<indices...>) {
    kernel(*static_cast<Parameters *>(arguments[indices])...);
  }
};

template <typename... Parameters>
static inline void launch_converted(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                    size_t dynamic_lds, hipStream_t stream, Parameters... arguments) {
  using Entry = ByAddress<Parameters...>;
  const Kernel description = {name, &Entry::invoke, Entry::parameters, sizeof...(Parameters) + 1, 0};
  void *pointers[] = {&kernel, &arguments...};
  candle_rocm_emulator_launch(&program, &description, grid, block, dynamic_lds, stream, pointers);
}

template <typename... Parameters, typename... Arguments>
static inline void launch(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_lds,
                          hipStream_t stream, const Arguments &...arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "a kernel gets as many arguments as it has parameters");
  launch_converted(name, kernel, grid, block, dynamic_lds, stream, static_cast<Parameters>(arguments)...);
}

} // namespace candle_rocm_emulator

#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define hipLaunchKernelGGL(kernel, grid, block, dynamic_lds, stream, ...)                                              \
  candle_rocm_emulator::launch(#kernel, kernel, dim3(grid), dim3(block), dynamic_lds, stream, ##__VA_ARGS__)
