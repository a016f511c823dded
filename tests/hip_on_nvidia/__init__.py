"""The libraries of HIP on NVIDIA, without an NVIDIA GPU: what they export, and what they ask of CUDA's driver."""
