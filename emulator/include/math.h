// For kernels the C functions alone: libstdc++'s own math.h would bring much of that library into each of them.
#pragma once

#ifdef CANDLE_ROCM_EMULATOR_MODULE
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#endif
#include_next <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
