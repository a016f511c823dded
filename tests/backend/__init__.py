"""The ROCm backend of a patched Candle on the emulated HIP device: what Candle's own tests do not ask."""
