//! Quantized models from GGUF files that the tests write, on ROCm and on the CPU; and files that nothing can be read from.
#![cfg(feature = "rocm")]
mod agreement;
mod broken;
mod gemma3;
mod gguf;
mod llama;
mod phi;
mod qwen3;
mod qwen3_moe;
mod t5;
mod whisper;
