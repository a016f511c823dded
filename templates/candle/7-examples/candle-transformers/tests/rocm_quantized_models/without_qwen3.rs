//! This release has no quantized Qwen3.
