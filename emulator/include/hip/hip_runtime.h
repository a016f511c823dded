// HIP for the emulated device: what a kernel sees when the host's C++ compiler compiles it.
//
// A kernel's threads are coroutines of one operating-system thread. Whatever makes a thread wait (barriers, shuffles,
// votes) is a call into libamdhip64, which runs other threads of the block meanwhile.
// Reference: https://rocm.docs.amd.com/projects/HIP/en/latest/how-to/hip_cpp_language_extensions.html
#pragma once

#define __HIP__ 1
#define __HIPCC__ 1
#define __HIP_PLATFORM_AMD__ 1
#define HIP_VERSION_MAJOR 7
#define HIP_VERSION_MINOR 2
#define HIP_VERSION_PATCH 0
#define HIP_VERSION (HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH)

#ifdef CANDLE_ROCM_EMULATOR_MODULE
#define __HIP_DEVICE_COMPILE__ 1
#endif

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Attributes with which the emulator marks kernels are its own; to g++ they are unknown.
#pragma GCC diagnostic ignored "-Wattributes"

#include <hip/emulator/vector_types.h>
#include <hip/emulator/abi.h>
#include <hip/emulator/qualifiers.h>
#include <hip/emulator/index.h>
#include <hip/emulator/integer.h>
#include <hip/emulator/floating.h>
#include <hip/emulator/atomics.h>
#include <hip/emulator/cross_lane.h>
#include <hip/emulator/synchronize.h>

#ifdef CANDLE_ROCM_EMULATOR_CHECKED
#include <hip/emulator/checks.h>
#endif

#ifndef CANDLE_ROCM_EMULATOR_MODULE
#include <hip/hip_runtime_api.h>
#include <hip/emulator/launch.h>
#endif
