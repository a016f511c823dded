// A program of its own kernels whose blocks share nothing: each turns what it keeps in LDS around.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

constexpr int THREADS = 64, BLOCKS = 48;

__global__ void turned(int *y) {
  __shared__ int kept[THREADS];
  kept[threadIdx.x] = 1000 * blockIdx.x + threadIdx.x;
  __syncthreads();
  y[blockIdx.x * THREADS + threadIdx.x] = kept[THREADS - 1 - threadIdx.x];
}

int main() {
  std::vector<int> y(THREADS * BLOCKS);
  const size_t bytes = y.size() * sizeof(int);
  int *device;
  if (hipMalloc(&device, bytes) != hipSuccess) return 2;
  hipLaunchKernelGGL(turned, dim3(BLOCKS), dim3(THREADS), 0, nullptr, device);
  if (hipMemcpy(y.data(), device, bytes, hipMemcpyDeviceToHost) != hipSuccess) return 3;
  int wrong = 0;
  for (int i = 0; i < THREADS * BLOCKS; ++i) wrong += y[i] != 1000 * (i / THREADS) + THREADS - 1 - i % THREADS;
  std::printf("%d blocks, %d values wrong\n", BLOCKS, wrong);
  return hipFree(device) != hipSuccess;
}
