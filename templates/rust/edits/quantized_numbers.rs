// A row is rounded to 8 bits: each of its elements by at most 1/254 of the largest, which the weights multiply.
Device::Rocm(_) => {
    let weights = quantized::QTensor::quantize(&tensor_rhs.t()?, GgmlDType::Q4_0)?;
    let weights = weights.dequantize(device)?;
    let error = (&res - lhs.matmul(&weights.t()?)?)?.abs()?.to_vec2::<f32>()?;
    let largest = lhs.abs()?.max_keepdim(1)?;
    let weights = weights.abs()?.sum_keepdim(1)?.t()?;
    let most = (largest.broadcast_mul(&weights)? / 254.)?.to_vec2::<f32>()?;
    let mut pairs = error.concat().into_iter().zip(most.concat());
    assert!(pairs.all(|(error, most)| error <= most), "{error:?} {most:?}")
}
