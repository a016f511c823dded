//! This release has no qwen3.
