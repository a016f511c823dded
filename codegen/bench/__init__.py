"""How fast the kernels are on a GPU, beside a plain copy and PyTorch in the same run."""
