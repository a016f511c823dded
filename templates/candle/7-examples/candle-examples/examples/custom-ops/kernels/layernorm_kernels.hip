//
// RMS normalization of the rows of a matrix, one block for each. A block reads its row twice, neighbouring lanes
// neighbouring floats, so that every access is coalesced; the second time most of it comes from the cache.
#if !defined(__HIPCC_RTC__) // hipRTC has it built in, and need not have the file.
#include <hip/hip_runtime.h>
#endif

#define THREADS 256

extern "C" __global__ void __launch_bounds__(THREADS)
    rms_f32(float *__restrict__ output, const float *__restrict__ input, const float epsilon,
            const unsigned int columns) {
  __shared__ float squares[THREADS];
  const size_t row = static_cast<size_t>(blockIdx.x) * columns;

  float sum = 0.0f;
  for (unsigned int column = threadIdx.x; column < columns; column += THREADS) {
    const float x = input[row + column];
    sum += x * x;
  }
  squares[threadIdx.x] = sum;
  __syncthreads();

  // Halving the block works whatever the number of lanes in a wave is.
  for (unsigned int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      squares[threadIdx.x] += squares[threadIdx.x + half];
    }
    __syncthreads();
  }

  const float scale = rsqrtf(squares[0] / columns + epsilon);
  for (unsigned int column = threadIdx.x; column < columns; column += THREADS) {
    output[row + column] = input[row + column] * scale;
  }
}
