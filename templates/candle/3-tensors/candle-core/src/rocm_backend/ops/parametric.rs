//! Elementwise functions of one tensor and of numbers that the launch gives.
#[cfg(feature = "rocm-miopen")]
use super::by_miopen;
use super::number::held;
use super::operand::{kernel, made, Operand};
use crate::rocm_backend::plan::table::parametric;
use crate::rocm_backend::plan::{self, Op};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// x * mul + add.
pub(in crate::rocm_backend) fn affine(
    x: &RocmStorage,
    layout: &Layout,
    mul: f64,
    add: f64,
) -> Result<RocmStorage> {
    launch(&parametric::AFFINE, x, layout, &[mul, add], "affine")
}

/// x to the power of `exponent`.
pub(in crate::rocm_backend) fn powf(
    x: &RocmStorage,
    layout: &Layout,
    exponent: f64,
) -> Result<RocmStorage> {
    launch(&parametric::POWF, x, layout, &[exponent], "powf")
}

/// x where it is not below zero, else alpha * (e^x - 1).
pub(in crate::rocm_backend) fn elu(
    x: &RocmStorage,
    layout: &Layout,
    alpha: f64,
) -> Result<RocmStorage> {
    #[cfg(feature = "rocm-miopen")]
    if let Some(y) = by_miopen::elu(Operand::new(x, layout), alpha)? {
        return Ok(y);
    }
    launch(&parametric::ELU, x, layout, &[alpha], "elu")
}

fn launch(
    op: &Op,
    x: &RocmStorage,
    layout: &Layout,
    numbers: &[f64],
    name: &'static str,
) -> Result<RocmStorage> {
    let x = Operand::new(x, layout);
    let element = x.element(name)?;
    let kernel = kernel(op, &[element], x.dtype(), name)?;
    let mut given = [held(0., element); 2];
    for (given, number) in given.iter_mut().zip(numbers) {
        *given = held(*number, element);
    }
    let given = &given[..numbers.len()];
    made(x, x.dtype(), |device, y| {
        plan::parametric(device, kernel, x.planned(), given, y)
    })
}
