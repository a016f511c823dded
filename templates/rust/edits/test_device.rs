// No invocation names ROCm's test, so a module takes the name of CUDA's: modules and functions do not collide.
#[cfg(feature = "rocm")]
mod $test_cuda {
    use super::*;

    #[test]
    fn rocm() -> Result<()> {
        $fn_name(&Device::new_rocm(0)?)
    }
}
