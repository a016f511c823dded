"""Kernels against references, on an AMD GPU or the emulated device."""
