"""Kernel specs (`specs/kernels/*.yaml`) to HIP sources and code objects."""
