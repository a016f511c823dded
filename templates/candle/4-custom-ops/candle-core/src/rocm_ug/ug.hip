// What kernels that are generated from ug's instructions have in common.
#include "candle_rocm/dtype.h"

using namespace candle;

// Any number as any other: rounded to the nearest float, or towards 0 and saturated for integers, 0 for NaN.
template <class To, class From> CANDLE_DEVICE To ug_cast(From x) { return narrow<To>(widen(x)); }

// As CUDA's fast exp: the nearest power of two of a product that is rounded.
template <class T> CANDLE_DEVICE T ug_exp(T x) { return narrow<T>(exp2f(widen(x) * 1.44269504f)); }
template <class T> CANDLE_DEVICE T ug_sin(T x) { return narrow<T>(sinf(widen(x))); }
template <class T> CANDLE_DEVICE T ug_cos(T x) { return narrow<T>(cosf(widen(x))); }
template <class T> CANDLE_DEVICE T ug_sqrt(T x) { return narrow<T>(sqrtf(widen(x))); }
template <class T> CANDLE_DEVICE T ug_neg(T x) { return narrow<T>(-widen(x)); }
template <> CANDLE_DEVICE i32 ug_neg(i32 x) { return i32(0u - u32(x)); }
template <> CANDLE_DEVICE i64 ug_neg(i64 x) { return i64(0ull - u64(x)); }

template <class T> CANDLE_DEVICE T ug_add(T x, T y) { return narrow<T>(widen(x) + widen(y)); }
template <> CANDLE_DEVICE i32 ug_add(i32 x, i32 y) { return i32(u32(x) + u32(y)); }
template <> CANDLE_DEVICE i64 ug_add(i64 x, i64 y) { return i64(u64(x) + u64(y)); }
template <class T> CANDLE_DEVICE T ug_sub(T x, T y) { return narrow<T>(widen(x) - widen(y)); }
template <> CANDLE_DEVICE i32 ug_sub(i32 x, i32 y) { return i32(u32(x) - u32(y)); }
template <> CANDLE_DEVICE i64 ug_sub(i64 x, i64 y) { return i64(u64(x) - u64(y)); }
template <class T> CANDLE_DEVICE T ug_mul(T x, T y) { return narrow<T>(widen(x) * widen(y)); }
template <> CANDLE_DEVICE i32 ug_mul(i32 x, i32 y) { return i32(u32(x) * u32(y)); }
template <> CANDLE_DEVICE i64 ug_mul(i64 x, i64 y) { return i64(u64(x) * u64(y)); }
// Of integers: 0 where the divisor is 0, and the least number where it is divided by -1.
template <class T> CANDLE_DEVICE T ug_quotient(T x, T y) { return y == 0 ? T(0) : y == T(-1) ? ug_neg(x) : x / y; }
template <class T> CANDLE_DEVICE T ug_remainder(T x, T y) { return y == 0 || y == T(-1) ? T(0) : x % y; }
template <class T> CANDLE_DEVICE T ug_div(T x, T y) { return narrow<T>(widen(x) / widen(y)); }
template <> CANDLE_DEVICE i32 ug_div(i32 x, i32 y) { return ug_quotient(x, y); }
template <> CANDLE_DEVICE i64 ug_div(i64 x, i64 y) { return ug_quotient(x, y); }
template <class T> CANDLE_DEVICE T ug_mod(T x, T y) { return narrow<T>(fmodf(widen(x), widen(y))); }
template <> CANDLE_DEVICE i32 ug_mod(i32 x, i32 y) { return ug_remainder(x, y); }
template <> CANDLE_DEVICE i64 ug_mod(i64 x, i64 y) { return ug_remainder(x, y); }
template <class T> CANDLE_DEVICE T ug_min(T x, T y) { return narrow<T>(fminf(widen(x), widen(y))); }
template <> CANDLE_DEVICE i32 ug_min(i32 x, i32 y) { return x < y ? x : y; }
template <> CANDLE_DEVICE i64 ug_min(i64 x, i64 y) { return x < y ? x : y; }
template <class T> CANDLE_DEVICE T ug_max(T x, T y) { return narrow<T>(fmaxf(widen(x), widen(y))); }
template <> CANDLE_DEVICE i32 ug_max(i32 x, i32 y) { return x > y ? x : y; }
template <> CANDLE_DEVICE i64 ug_max(i64 x, i64 y) { return x > y ? x : y; }

struct UgSum {
    template <class T> static CANDLE_DEVICE T of(T x, T y) { return ug_add(x, y); }
};
struct UgMin {
    template <class T> static CANDLE_DEVICE T of(T x, T y) { return ug_min(x, y); }
};
struct UgMax {
    template <class T> static CANDLE_DEVICE T of(T x, T y) { return ug_max(x, y); }
};

// The values of all threads of the block, of which there may be any number up to 1024, put together, in f32 if they are
// narrower. All threads get the result.
template <class Op, class T> CANDLE_DEVICE T ug_reduce(T value) {
    __shared__ Wide<T> values[1024];
    u32 thread = threadIdx.x, count = blockDim.x;
    // Behind an earlier reduction, whose result has been read then.
    __syncthreads();
    values[thread] = widen(value);
    __syncthreads();
    while (count > 1) {
        u32 half = (count + 1) / 2;
        if (thread < count - half) {
            values[thread] = Op::of(values[thread], values[thread + half]);
        }
        count = half;
        __syncthreads();
    }
    return narrow<T>(values[0]);
}
