#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif

extern "C" __global__ void write_slots(const float *keys, float *cache, const long long *slots, unsigned width) {
    long long slot = slots[blockIdx.x];
    if (slot < 0) {
        return;
    }
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        cache[slot * width + i] = keys[static_cast<unsigned long long>(blockIdx.x) * width + i];
    }
}
