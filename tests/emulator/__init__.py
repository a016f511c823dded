"""The emulated HIP device itself: what it claims to detect is planted and detected."""
