// A plain HIP program that compiles its kernel with hipRTC, an instance of a template among others.
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <cstdio>
#include <string>
#include <vector>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    if ((call) != 0) {                                                                                                 \
      std::fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call);                                           \
      return 1;                                                                                                        \
    }                                                                                                                  \
  } while (0)

static const char *const source = R"(
#include "scale.h"

template <typename T>
__global__ void saxpy(T factor, const T* x, T* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = SCALE * factor * x[i] + y[i];
}
)";

int main() {
  const char *header = "#define SCALE 2\n";
  const char *header_name = "scale.h";
  const char *options[] = {"-O3"};
  hiprtcProgram program;
  CHECK(hiprtcCreateProgram(&program, source, "saxpy.hip", 1, &header, &header_name));
  CHECK(hiprtcAddNameExpression(program, "saxpy<double>"));
  CHECK(hiprtcCompileProgram(program, 1, options));
  size_t size;
  CHECK(hiprtcGetCodeSize(program, &size));
  std::string code(size, '\0');
  CHECK(hiprtcGetCode(program, code.data()));
  const char *name;
  CHECK(hiprtcGetLoweredName(program, "saxpy<double>", &name));

  hipModule_t module;
  hipFunction_t function;
  CHECK(hipModuleLoadData(&module, code.data()));
  CHECK(hipModuleGetFunction(&function, module, name));
  CHECK(hiprtcDestroyProgram(&program));

  int n = 1000;
  std::vector<double> x(n, 3), y(n, 4);
  void *x_device, *y_device;
  CHECK(hipMalloc(&x_device, n * sizeof(double)));
  CHECK(hipMalloc(&y_device, n * sizeof(double)));
  CHECK(hipMemcpy(x_device, x.data(), n * sizeof(double), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(y_device, y.data(), n * sizeof(double), hipMemcpyHostToDevice));

  // The arguments once as an array of pointers, once as a buffer.
  double factor = 5;
  void *arguments[] = {&factor, &x_device, &y_device, &n};
  CHECK(hipModuleLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
  struct {
    double factor;
    void *x, *y;
    int n;
  } buffer = {1, x_device, y_device, n};
  size_t buffer_size = sizeof(buffer);
  void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &buffer, HIP_LAUNCH_PARAM_BUFFER_SIZE, &buffer_size,
                   HIP_LAUNCH_PARAM_END};
  CHECK(hipModuleLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));

  CHECK(hipMemcpy(y.data(), y_device, n * sizeof(double), hipMemcpyDeviceToHost));
  for (double value : y)
    if (value != 4 + 2 * 5 * 3 + 2 * 1 * 3) return std::printf("wrong: %g\n", value), 1;
  CHECK(hipModuleUnload(module));
  std::printf("saxpy<double>: %d elements\n", n);
}
