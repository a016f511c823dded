"""Faults planted in kernels, one at a time: the kernel tests must find each of them."""
