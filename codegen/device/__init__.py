"""Runs the kernels through HIP's C API: on an AMD GPU if one answers, else on the emulated device."""
