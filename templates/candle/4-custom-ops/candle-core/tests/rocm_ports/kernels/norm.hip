#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif

struct Bf16 {
    unsigned short bits;
};

__device__ float value(float x) {
    return x;
}

__device__ float value(Bf16 x) {
    return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

__device__ void store(float *to, float x) {
    *to = x;
}

// To the nearest number, and to the even one of two.
__device__ void store(Bf16 *to, float x) {
    unsigned bits = __float_as_uint(x);
    to->bits = static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// One thread for each row.
template <typename T>
__device__ void norm(const T *x, const T *alpha, T *y, unsigned rows, unsigned columns, float eps) {
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    x += static_cast<unsigned long long>(row) * columns;
    y += static_cast<unsigned long long>(row) * columns;
    float squares = 0.0f;
    for (unsigned i = 0; i < columns; ++i) {
        squares += value(x[i]) * value(x[i]);
    }
    float scale = 1.0f / sqrtf(squares / columns + eps);
    for (unsigned i = 0; i < columns; ++i) {
        store(&y[i], value(x[i]) * scale * value(alpha[i]));
    }
}

extern "C" __global__ void norm_f32(
    const float *x, const float *alpha, float *y, unsigned rows, unsigned columns, float eps) {
    norm(x, alpha, y, rows, columns, eps);
}

extern "C" __global__ void norm_bf16(
    const Bf16 *x, const Bf16 *alpha, Bf16 *y, unsigned rows, unsigned columns, float eps) {
    norm(x, alpha, y, rows, columns, eps);
}
