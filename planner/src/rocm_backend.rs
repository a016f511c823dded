//! As much of the backend's module as plans need.
#[path = "../../generated/kernels/table.rs"]
#[allow(dead_code)] // more than is asked for here
pub(crate) mod kernel_table;
#[path = "../../templates/candle/5-nn/candle-core/src/rocm_backend/nn_plan/mod.rs"]
pub(crate) mod nn_plan;
#[path = "../../templates/candle/3-tensors/candle-core/src/rocm_backend/plan/mod.rs"]
#[allow(dead_code, unused_imports)] // likewise
pub(crate) mod plan;
