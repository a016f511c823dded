//! This release has no quantized Qwen3 with experts.
