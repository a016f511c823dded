/// ROCm: Use fused SDPA kernel
fn attention_rocm(
    &self,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    scale: f64,
) -> Result<Tensor> {
    let mask = self.prepare_sdpa_mask(mask, q)?;
    candle_nn::ops::sdpa(q, k, v, mask.as_ref(), false, scale as f32, 1.0)
}
