#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif

struct Params {
    unsigned tokens;
    unsigned experts;
};

// dropped: how many tokens go to no expert, then their numbers in any order.
extern "C" __global__ void count_experts(const int *choices, unsigned *counts, unsigned *dropped, Params params) {
    unsigned token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= params.tokens) {
        return;
    }
    int choice = choices[token];
    if (choice >= 0 && static_cast<unsigned>(choice) < params.experts) {
        atomicAdd(&counts[choice], 1u);
    } else {
        dropped[1 + atomicAdd(&dropped[0], 1u)] = token;
    }
}
