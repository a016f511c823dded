//! Who multiplies the matrices of a test.
use super::alone::is_alone;

/// With which matrices are multiplied by a kernel of our own.
pub(crate) const OWN_PRODUCTS: [(&str, &str); 1] = [("CANDLE_ROCM_BLAS", "own")];

/// Whether rocBLAS multiplies here. Where the user has chosen otherwise, the test is done in a process without that.
pub(crate) fn by_rocblas(module: &str, test: &str) -> bool {
    let [(variable, own)] = OWN_PRODUCTS;
    std::env::var(variable).as_deref() != Ok(own)
        || is_alone(module, test, &[(variable, "rocblas")])
}
