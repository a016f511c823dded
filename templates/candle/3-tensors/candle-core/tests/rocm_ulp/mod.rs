//! Units in the last place.
use super::DType;

/// The distance of neighbouring numbers of a float type, near `value`; 0 for integers, and where there is no neighbour.
pub(crate) fn ulp(dtype: DType, value: f64) -> f64 {
    // Digits after the point, and the least exponent.
    let (digits, least) = match dtype {
        DType::F64 => (52, -1022),
        DType::F32 => (23, -126),
        DType::BF16 => (7, -126),
        DType::F16 => (10, -14),
        // f8e4m3, which old releases do not have.
        narrow if narrow.is_float() && narrow.size_in_bytes() == 1 => (3, -6),
        _ => return 0.,
    };
    if !value.is_finite() {
        return 0.;
    }
    let exponent = (value.abs().log2().floor() as i32).max(least);
    2f64.powi(exponent - digits)
}

#[test]
fn units_in_the_last_place() {
    assert_eq!(ulp(DType::F32, 1.), f64::from(f32::EPSILON));
    assert_eq!(ulp(DType::F32, -3.), 2. * f64::from(f32::EPSILON));
    assert_eq!(ulp(DType::F64, 1.), f64::EPSILON);
    assert_eq!(ulp(DType::F16, 1.), 2f64.powi(-10));
    assert_eq!(ulp(DType::BF16, 1.), 2f64.powi(-7));
    // Below the least normal number the distance stays.
    assert_eq!(ulp(DType::F32, 0.), 2f64.powi(-149));
    assert_eq!(ulp(DType::F16, 1e-7), 2f64.powi(-24));
    assert_eq!(ulp(DType::U32, 5.), 0.);
    for value in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        assert_eq!(ulp(DType::F32, value), 0., "{value}");
    }
}
