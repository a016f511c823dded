#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif

template <typename T> __device__ void square(unsigned long long count, const T *x, T *y) {
    unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] = x[i] * x[i];
    }
}

extern "C" __global__ void square_f32(unsigned long long count, const float *x, float *y) {
    square(count, x, y);
}

extern "C" __global__ void square_f64(unsigned long long count, const double *x, double *y) {
    square(count, x, y);
}

extern "C" __global__ void square_i64(unsigned long long count, const long long *x, long long *y) {
    square(count, x, y);
}
