// Kernels that do nothing wrong: what the device functions compute. One block of 64 threads unless said otherwise.

#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>

#define EVERY(name, type, expression)                                                                                  \
  extern "C" __global__ void name(type *y) {                                                                           \
    const unsigned t = threadIdx.x;                                                                                    \
    y[blockIdx.x * blockDim.x + t] = (expression);                                                                     \
  }

EVERY(shuffle, unsigned, __shfl(t, 3, 8))
EVERY(shuffle_up, unsigned, __shfl_up(t, 2, 16))
EVERY(shuffle_down, unsigned, __shfl_down(t, 2))
EVERY(shuffle_xor, unsigned, __shfl_xor(t, warpSize / 2))
EVERY(shuffle_double, double, __shfl_xor(double(t) + 0.5, 1))
EVERY(shuffle_long, unsigned long long, __shfl_xor((1ull << 40) + t, 1))
EVERY(shuffle_masked, unsigned, __shfl_xor_sync(~0ull, t, 4))
EVERY(ballot, unsigned long long, __ballot(t % 3 == 0))
EVERY(any_odd, int, __any(t == 5))
EVERY(all_small, int, __all(t < 32))
EVERY(active, unsigned long long, __activemask())
EVERY(lane, unsigned, __lane_id())
EVERY(wave, unsigned, __builtin_amdgcn_wavefrontsize())
EVERY(count_barrier, int, __syncthreads_count(t % 4 == 0))
EVERY(and_barrier, int, __syncthreads_and(t < 64) + 2 * __syncthreads_and(t < 63))
EVERY(or_barrier, int, __syncthreads_or(t > 63) + 2 * __syncthreads_or(t == 63))
EVERY(bits, unsigned, __popc(t) + 100 * __clz(t) + 10000 * __ffs(t))
EVERY(reversed, unsigned, __brev(t))
EVERY(reciprocal_root, float, rsqrtf(t + 1.0f))
EVERY(exponential, float, __expf(t / 16.0f))
EVERY(contracted, float, (1.0f + t * 0x1p-13f) * (1.0f + t * 0x1p-13f) - 1.0f)
EVERY(half_precision, _Float16, (_Float16)(t / 3.0f))
EVERY(half_arithmetic, __half, __hfma(__half(0.1f * t), __half(3), __float2half(t)) / __half(7))
EVERY(half_comparison, int, (__half(0.1f * t) > __half(3)) + __hisnan(__half(t) / __half(0) - __half(t) / __half(0)))
EVERY(brain_float, unsigned short, hip_bfloat16(t / 3.0f).data)
EVERY(brain_not_a_number, unsigned short, hip_bfloat16(__uint_as_float(0x7f800001 + t)).data)

// A block of 1-3 dimensions: each thread writes its own number.
extern "C" __global__ void number(unsigned *y) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  y[i] = i;
}

extern "C" __global__ void atomics(unsigned *y) {
  const unsigned t = threadIdx.x;
  atomicAdd(&y[0], t);
  atomicMax(&y[1], t);
  atomicMin(&y[2], t);
  atomicOr(&y[3], 1u << (t & 31));
  atomicXor(&y[4], t);
  atomicAnd(&y[5], ~(1u << (t & 31)));
  unsigned seen = y[6], expected;
  do {
    expected = seen;
    seen = atomicCAS(&y[6], expected, expected + 2);
  } while (seen != expected);
  atomicAdd(reinterpret_cast<float *>(&y[7]), 0.5f);
}

// Half precision has no atomic: half of a word changes. The buffer may end in the middle of the word.
extern "C" __global__ void half_atomic(unsigned short *y) {
  unsigned *word = reinterpret_cast<unsigned *>(y);
  unsigned old = atomicOr(word, 0u), assumed;
  do {
    assumed = old;
    old = atomicCAS(word, assumed, (assumed & 0xffff0000) | ((assumed + 1) & 0xffff));
  } while (old != assumed);
}

// Each block's LDS is its own, also when blocks take turns at barriers.
extern "C" __global__ void own_lds(unsigned *y) {
  __shared__ unsigned kept[64];
  HIP_DYNAMIC_SHARED(unsigned, dynamic)
  const unsigned value = blockIdx.x * 64 + threadIdx.x;
  kept[threadIdx.x] = value;
  dynamic[threadIdx.x] = value + 1;
  for (int turn = 0; turn < 5; ++turn) {
    __syncthreads();
    const unsigned other = threadIdx.x ^ (1 << turn);
    const bool right = kept[other] == (value ^ (1u << turn)) && dynamic[other] == kept[other] + 1;
    __syncthreads();
    if (!right) return;
  }
  y[value] = value;
}

// The last block to finish adds up what all blocks have written; the ticket orders them.
extern "C" __global__ void two_stages(const float *x, float *partial, unsigned *ticket, float *total) {
  __shared__ float t[64];
  __shared__ bool last;
  t[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  for (int half = 32; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) t[threadIdx.x] += t[threadIdx.x + half];
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = t[0];
    __threadfence();
    last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float sum = 0;
    for (unsigned block = 0; block < gridDim.x; ++block) sum += partial[block];
    *total = sum;
  }
}

// Lanes of a wave may exchange LDS after __syncwarp.
extern "C" __global__ void wave_synchronous(unsigned *y) {
  __shared__ unsigned t[64];
  t[threadIdx.x] = threadIdx.x;
  __syncwarp();
  y[threadIdx.x] = t[threadIdx.x ^ 1];
}

// Part of a wave may exchange values among its own lanes.
extern "C" __global__ void half_a_wave(unsigned *y) {
  unsigned value = threadIdx.x;
  if (threadIdx.x % warpSize < 16) value = __shfl_xor(value, 8, 16);
  __syncthreads();
  y[threadIdx.x] = value;
}

// As Candle's CUDA kernels declare it.
extern "C" __global__ void unsized_array(float *y) {
  extern __shared__ float dynamic[];
  dynamic[threadIdx.x] = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = dynamic[63 - threadIdx.x];
}

struct Strides {
  unsigned char head;
  long long values[4];
};
extern "C" __global__ void by_value(long long *y, Strides strides, char last) {
  if (threadIdx.x < 4) y[threadIdx.x] = strides.values[threadIdx.x] + strides.head + last;
}

extern "C" __global__ void __launch_bounds__(64, 2) bounded(unsigned *y) { y[threadIdx.x] = 1; }

// Two big arrays, each within the limit of a block; together they would pass it.
extern "C" __global__ void big_lds_one(unsigned *y) {
  __shared__ unsigned t[12 << 10];
  t[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = t[threadIdx.x ^ 1];
}
extern "C" __global__ void big_lds_two(unsigned *y) {
  __shared__ unsigned t[12 << 10];
  t[threadIdx.x] = 2;
  __syncthreads();
  y[threadIdx.x] = t[threadIdx.x ^ 1];
}
