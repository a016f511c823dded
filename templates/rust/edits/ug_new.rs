#[cfg(all(feature = "rocm", not(any(feature = "cuda", feature = "metal"))))]
{
    let func = crate::rocm_ug::UgFunc::new(device.as_rocm_device()?, name, kernel)?;
    Ok(Self { name, func })
}
