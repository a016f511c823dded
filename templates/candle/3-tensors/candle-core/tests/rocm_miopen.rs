//! Convolutions and activations by MIOpen, and by own kernels where it is not asked, against the CPU.
//!
//! Tests that need a GPU write `SKIPPED: <test>: <reason>` to stderr where there is none, and return. cargo shows it,
//! because it does not go through the captured output.
#![cfg(feature = "rocm-miopen")]
use candle_core::rocm::{is_available, miopen_activations, set_miopen_activations};
use candle_core::{DType, Device, Result, Tensor};
use std::io::Write;

/// What MIOpen computes with, and a type that own kernels have alone.
const DTYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// GPU 0, or None with a message, past libtest's capture, so that nobody takes a skipped test for a passed one.
fn device(test: &str) -> Option<Device> {
    if is_available() {
        return Some(Device::new_rocm(0).expect("GPU 0 of a runtime that counts at least one"));
    }
    let line = format!("SKIPPED: {test}: no ROCm device\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
    None
}

/// Quarters between -2 and 2, which every type has: in f64, on the CPU.
fn quarters(shape: &[usize], salt: usize) -> Result<Tensor> {
    let count = shape.iter().product::<usize>();
    let values = (0..count).map(|i| ((i * 7 + i / 5 + salt) % 17) as f64 / 4. - 2.);
    Tensor::from_iter(values, &Device::Cpu)?.reshape(shape)
}

/// The distance from 1 to the next larger number.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 2f64.powi(-7),
        DType::F16 => 2f64.powi(-10),
        DType::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// Fails unless each result is as near to the expected one as the bound beside that says.
fn assert_near(result: &Tensor, expected: &Tensor, bounds: &Tensor, what: &str) -> Result<()> {
    assert_eq!(result.dims(), expected.dims(), "{what}");
    let values = |tensor: &Tensor| -> Result<Vec<f64>> {
        let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
        tensor.flatten_all()?.to_vec1()
    };
    let (result, expected) = (values(result)?, values(expected)?);
    for (i, bound) in values(bounds)?.into_iter().enumerate() {
        let (got, wanted) = (result[i], expected[i]);
        assert!(
            (got - wanted).abs() <= bound,
            "{what}, {i}: {got} instead of {wanted}"
        );
    }
    Ok(())
}

/// Padding, stride, dilation and groups.
type Parameters = (usize, usize, usize, usize);

const PARAMETERS: [Parameters; 8] = [
    (0, 1, 1, 1),
    (1, 1, 1, 1),
    (2, 2, 1, 1),
    (3, 1, 2, 1),
    (4, 3, 2, 1),
    (1, 1, 1, 2),
    (2, 2, 2, 4),
    (0, 5, 1, 1),
];

/// A convolution on ROCm against that of the CPU in f64. Transforms as Winograd's round sums of what is larger than the
/// result, so the bound is two units in the last place of the sum of all magnitudes.
fn check_convolution(
    device: &Device,
    dtype: DType,
    shapes: [&[usize]; 2],
    parameters: Parameters,
    convolve: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<()> {
    let [x, w] = [(shapes[0], 0), (shapes[1], 3)].map(|(shape, salt)| quarters(shape, salt));
    let (x, w) = (x?, w?);
    let on_rocm = |tensor: &Tensor| tensor.to_dtype(dtype)?.to_device(device);
    let result = convolve(&on_rocm(&x)?, &on_rocm(&w)?)?;
    assert_eq!(result.dtype(), dtype);
    let magnitudes = convolve(&x.abs()?, &w.abs()?)?;
    let bounds = (magnitudes * (2. * epsilon(dtype)))?;
    let what = format!("{dtype:?} {shapes:?} {parameters:?}");
    assert_near(&result, &convolve(&x, &w)?, &bounds, &what)
}

#[test]
fn conv2d_is_the_cpus() -> Result<()> {
    let Some(device) = device("conv2d_is_the_cpus") else {
        return Ok(());
    };
    for dtype in DTYPES {
        for parameters in PARAMETERS {
            let (padding, stride, dilation, groups) = parameters;
            for (kernel_height, kernel_width) in [(1, 1), (3, 3), (5, 2)] {
                let x = [2, 4, 11, 13];
                let w = [8, 4 / groups, kernel_height, kernel_width];
                check_convolution(&device, dtype, [&x, &w], parameters, |x, w| {
                    x.conv2d(w, padding, stride, dilation, groups)
                })?;
            }
        }
    }
    Ok(())
}

#[test]
fn conv1d_is_the_cpus() -> Result<()> {
    let Some(device) = device("conv1d_is_the_cpus") else {
        return Ok(());
    };
    for dtype in DTYPES {
        for parameters in PARAMETERS {
            let (padding, stride, dilation, groups) = parameters;
            for width in [1, 3, 4] {
                let (x, w) = ([3, 4, 17], [8, 4 / groups, width]);
                check_convolution(&device, dtype, [&x, &w], parameters, |x, w| {
                    x.conv1d(w, padding, stride, dilation, groups)
                })?;
            }
        }
    }
    Ok(())
}

#[test]
fn views_are_left_to_own_kernels() -> Result<()> {
    let Some(device) = device("views_are_left_to_own_kernels") else {
        return Ok(());
    };
    for dtype in DTYPES {
        let parameters = (1, 1, 1, 1);
        check_convolution(
            &device,
            dtype,
            [&[13, 11, 4, 2], &[3, 3, 4, 8]],
            parameters,
            |x, w| {
                let turned = |tensor: &Tensor| tensor.permute((3, 2, 1, 0));
                turned(x)?.conv2d(&turned(w)?, 1, 1, 1, 1)
            },
        )?;
        // Contiguous, with an offset.
        check_convolution(
            &device,
            dtype,
            [&[5, 4, 7, 6], &[9, 4, 3, 3]],
            parameters,
            |x, w| x.narrow(0, 2, 3)?.conv2d(&w.narrow(0, 1, 5)?, 1, 1, 1, 1),
        )?;
    }
    Ok(())
}

#[test]
fn a_convolution_is_the_same_each_time() -> Result<()> {
    let Some(device) = device("a_convolution_is_the_same_each_time") else {
        return Ok(());
    };
    let on_rocm = |tensor: Tensor| tensor.to_dtype(DType::F32)?.to_device(&device);
    let x = on_rocm(quarters(&[1, 3, 19, 19], 0)?)?;
    let w = on_rocm(quarters(&[5, 3, 3, 3], 1)?)?;
    let convolved = || x.conv2d(&w, 1, 1, 1, 1)?.flatten_all()?.to_vec1::<f32>();
    // The first one is searched for.
    let first = convolved()?;
    assert_eq!(convolved()?, first);
    assert_eq!(convolved()?, first);
    Ok(())
}

#[test]
fn activations_are_the_cpus_by_whomever() -> Result<()> {
    let Some(device) = device("activations_are_the_cpus_by_whomever") else {
        return Ok(());
    };
    assert!(!miopen_activations());
    for wanted in [true, false] {
        set_miopen_activations(wanted);
        assert_eq!(miopen_activations(), wanted);
        for dtype in DTYPES {
            let x = quarters(&[7, 33], 5)?;
            let ours = x.to_dtype(dtype)?.to_device(&device)?;
            let what = format!("{dtype:?}, by MIOpen: {wanted}");
            let check = |result: Tensor, expected: Tensor| {
                let bounds = (expected.abs()? + 1.)?.affine(2. * epsilon(dtype), 0.)?;
                assert_near(&result, &expected, &bounds, &what)
            };
            check(ours.relu()?, x.relu()?)?;
            check(ours.tanh()?, x.tanh()?)?;
            check(ours.elu(0.75)?, x.elu(0.75)?)?;
            // Not packed, and so not MIOpen's.
            check(ours.t()?.tanh()?, x.t()?.tanh()?)?;
            check(ours.narrow(0, 3, 0)?.relu()?, x.narrow(0, 3, 0)?.relu()?)?;
        }
    }
    Ok(())
}
