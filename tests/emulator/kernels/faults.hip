// One fault in each kernel, for the emulator to find. Blocks of 64 threads; buffers of 64 floats.

extern "C" __global__ void write_past_the_end(float *x) {
  x[threadIdx.x + 1] = 1; // line 4
}

extern "C" __global__ void read_before_the_start(const float *x, float *y) {
  y[threadIdx.x] = x[int(threadIdx.x) - 1]; // line 8
}

extern "C" __global__ void vector_past_the_end(const float4 *x, float *y) {
  y[threadIdx.x] = x[threadIdx.x / 4 + 1].y; // line 12
}

extern "C" __global__ void read_uninitialized(const float *x, float *y) {
  y[threadIdx.x] = x[threadIdx.x]; // line 16
}

extern "C" __global__ void copy(const float *x, float *y) {
  y[threadIdx.x] = x[threadIdx.x]; // line 20
}

extern "C" __global__ void lds_race(float *y) {
  __shared__ float t[64];
  t[threadIdx.x] = threadIdx.x;
  __syncthreads();
  t[threadIdx.x] = t[threadIdx.x ^ 1]; // line 27
  y[threadIdx.x] = t[threadIdx.x];
}

extern "C" __global__ void lds_write_race(float *y) {
  __shared__ int t[1];
  t[0] = threadIdx.x; // line 33
  __syncthreads();
  y[threadIdx.x] = t[0];
}

// All threads write the same value: no harm is done.
extern "C" __global__ void lds_flag(float *y) {
  __shared__ int flag;
  flag = 7;
  __syncthreads();
  y[threadIdx.x] = flag;
}

extern "C" __global__ void lds_uninitialized(float *y) {
  __shared__ float t[64];
  if (threadIdx.x < 32) t[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = t[threadIdx.x]; // line 50
}

extern "C" __global__ void lds_past_the_end(float *y) {
  __shared__ float t[64];
  t[threadIdx.x + 1] = 1; // line 55
  __syncthreads();
  y[threadIdx.x] = t[threadIdx.x];
}

extern "C" __global__ void dynamic_lds(float *y) {
  HIP_DYNAMIC_SHARED(float, t)
  t[threadIdx.x] = threadIdx.x; // line 62
  __syncthreads();
  y[threadIdx.x] = t[threadIdx.x ^ 1];
}

extern "C" __global__ void barrier_for_some(float *y) {
  if (threadIdx.x < 10) __syncthreads(); // line 68
  y[threadIdx.x] = 1;
}

extern "C" __global__ void barriers_on_both_sides(float *y) {
  if (threadIdx.x < 10) {
    __syncthreads(); // line 74
  } else {
    __syncthreads(); // line 76
  }
  y[threadIdx.x] = 1;
}

extern "C" __global__ void shuffles_on_both_sides(float *y) {
  float v = threadIdx.x;
  if (threadIdx.x % 2 == 0) {
    v = __shfl_xor(v, 2); // line 84
  } else {
    v = __shfl_down(v, 2); // line 86
  }
  y[threadIdx.x] = v;
}

extern "C" __global__ void shuffle_from_nobody(float *y) {
  if (threadIdx.x < 10) y[threadIdx.x] = __shfl_xor(float(threadIdx.x), 16); // line 92
}

extern "C" __global__ void mask_names_the_absent(float *y) {
  if (threadIdx.x < 8) y[threadIdx.x] = __shfl_sync(0xffffull, float(threadIdx.x), 0); // line 96
}

extern "C" __global__ void shuffle_width(float *y) {
  y[threadIdx.x] = __shfl(float(threadIdx.x), 0, 24); // line 100
}

extern "C" __global__ void race_in_a_block(float *y) {
  y[threadIdx.x / 2] = threadIdx.x; // line 104
}

extern "C" __global__ void race_between_blocks(float *y) {
  y[threadIdx.x] = blockIdx.x; // line 108
}

extern "C" __global__ void read_of_another_block(float *y) {
  if (blockIdx.x == 0) {
    y[threadIdx.x] = 1;
  } else {
    y[64 + threadIdx.x] = y[threadIdx.x]; // line 115
  }
}

extern "C" __global__ void plain_update_of_a_counter(int *y) {
  if (threadIdx.x % 2 == 0) {
    atomicAdd(&y[0], 1); // line 121
  } else {
    y[0] = y[0] + 1; // line 123
  }
}

extern "C" __global__ void divide(int *y, int n) {
  y[threadIdx.x] = 100 / (n - int(threadIdx.x)); // line 128
}

__device__ int depth(int n, volatile int *p) {
  volatile int frame[1024];
  frame[n & 1023] = *p;
  return n == 0 ? 0 : depth(n + 1, p) + frame[(n + 1) & 1023];
}

extern "C" __global__ void recurse(int *y, int n) {
  int start = n;
  y[threadIdx.x] = depth(1, &start);
}

static const float table[4] = {1, 2, 3, 4};

extern "C" __global__ void write_to_a_constant(float *y) {
  float *constant = const_cast<float *>(table);
  asm volatile("" : "+r"(constant)); // hides from the compiler that this is undefined
  constant[threadIdx.x & 3] = y[0];  // line 147
}

extern "C" __global__ void another_stack(float *y) {
  __shared__ float *kept;
  float own = threadIdx.x;
  if (threadIdx.x == 0) kept = &own;
  __syncthreads();
  y[threadIdx.x] = *kept + own; // line 155
}

extern "C" __global__ void read_of_a_misaligned_word(const float *x, float *y) {
  y[threadIdx.x] = *reinterpret_cast<const unsigned long long *>(x + threadIdx.x % 2); // line 159
}

extern "C" __global__ void write_of_misaligned_lds(float *y) {
  __shared__ unsigned char bytes[8];
  unsigned short *word = reinterpret_cast<unsigned short *>(bytes + (~size_t(bytes) & 1));
  asm volatile("" : "+r"(word)); // hides from the compiler that the address is odd
  *word = threadIdx.x; // line 166
  __syncthreads();
  y[threadIdx.x] = *word;
}

extern "C" __global__ void write_to_any_address(unsigned char *y) {
  typedef unsigned short AtAnyAddress __attribute__((aligned(1)));
  *reinterpret_cast<AtAnyAddress *>(y + 1) = 1;
}

struct Two {
  double first, second;
};

extern "C" __global__ void copy_of_two_doubles(double *y) {
  if (threadIdx.x + blockIdx.x > 0) return;
  Two *two = reinterpret_cast<Two *>(y + 1);
  two->first = two->second = 1;
  asm volatile("" : "+r"(two)); // hides from the compiler what was written
  two[1] = two[0];
}
