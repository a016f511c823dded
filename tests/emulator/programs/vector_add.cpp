// A plain HIP program, host and device code in one file: adds two vectors and sums the result in a block.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    const hipError_t error = (call);                                                                                   \
    if (error != hipSuccess) {                                                                                         \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, hipGetErrorString(error));                               \
      return 1;                                                                                                        \
    }                                                                                                                  \
  } while (0)

template <typename T>
__global__ void add(const T *a, const T *b, T *c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__global__ void sum(const float *x, float *total, int n) {
  __shared__ float partial[64];
  float mine = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine += x[i];
  for (int distance = warpSize / 2; distance > 0; distance /= 2) mine += __shfl_down(mine, distance);
  if (threadIdx.x % warpSize == 0) partial[threadIdx.x / warpSize] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned wave = 1; wave < blockDim.x / warpSize; ++wave) mine += partial[wave];
    atomicAdd(total, mine);
  }
}

int main() {
  hipDeviceProp_t properties;
  CHECK(hipGetDeviceProperties(&properties, 0));

  const int n = 100003;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) a[i] = i % 7, b[i] = i % 5;

  float *a_device, *b_device, *c_device, *total_device;
  for (float **pointer : {&a_device, &b_device, &c_device}) CHECK(hipMalloc(pointer, n * sizeof(float)));
  CHECK(hipMalloc(&total_device, sizeof(float)));
  CHECK(hipMemcpy(a_device, a.data(), n * sizeof(float), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(b_device, b.data(), n * sizeof(float), hipMemcpyHostToDevice));
  CHECK(hipMemset(total_device, 0, sizeof(float)));

  hipStream_t stream;
  CHECK(hipStreamCreate(&stream));
  hipLaunchKernelGGL(HIP_KERNEL_NAME(add<float>), dim3((n + 255) / 256), dim3(256), 0, stream, a_device, b_device,
                     c_device, n);
  CHECK(hipGetLastError());
  hipLaunchKernelGGL(sum, 1, 256, 0, stream, c_device, total_device, n);
  CHECK(hipGetLastError());
  CHECK(hipMemcpyAsync(c.data(), c_device, n * sizeof(float), hipMemcpyDeviceToHost, stream));
  float total;
  CHECK(hipMemcpyAsync(&total, total_device, sizeof(float), hipMemcpyDeviceToHost, stream));
  CHECK(hipStreamSynchronize(stream));

  double expected = 0;
  for (int i = 0; i < n; ++i) {
    if (c[i] != a[i] + b[i]) return std::printf("wrong at %d: %g\n", i, c[i]), 1;
    expected += c[i];
  }
  if (std::abs(total - expected) > 1e-3 * expected) return std::printf("wrong sum: %g\n", total), 1;
  for (float *pointer : {a_device, b_device, c_device, total_device}) CHECK(hipFree(pointer));
  CHECK(hipStreamDestroy(stream));
  std::printf("%s: %d elements, wave size %d\n", properties.gcnArchName, n, properties.warpSize);
}
