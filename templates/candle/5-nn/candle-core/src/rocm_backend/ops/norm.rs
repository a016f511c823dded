//! Normalisations along the last dimension.
use super::held_rows::{Holding, Rows};
use super::operand::{kernel_form, uninit, Operand};
use super::rows::Card;
use crate::rocm_backend::plan::table::norm as table;
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{Op, Pointer, Tuning};
use crate::rocm_backend::RocmStorage;
use crate::{Error, Layout, Result, Shape};

/// x / sqrt(mean(x^2) + eps) * alpha along the last dimension, and its shape, which is that of `x`.
///
/// `alpha` has as many elements as a row, of x's type: bf16, f16, f32 or f64. An error for views that are not contiguous.
pub fn rms_norm(
    x: &RocmStorage,
    layout: &Layout,
    alpha: &RocmStorage,
    alpha_layout: &Layout,
    eps: f32,
) -> Result<(RocmStorage, Shape)> {
    let parameters = [Operand::new(alpha, alpha_layout)];
    normalize(
        &table::RMS_NORM,
        "rms-norm",
        Operand::new(x, layout),
        parameters,
        eps,
    )
}

/// (x - mean(x)) / sqrt(var(x) + eps) * alpha + beta along the last dimension, and its shape, which is that of `x`; var is
/// the biased variance.
///
/// `alpha` and `beta` have as many elements as a row, of x's type: bf16, f16, f32 or f64. An error for views that are not
/// contiguous.
pub fn layer_norm(
    x: &RocmStorage,
    layout: &Layout,
    alpha: &RocmStorage,
    alpha_layout: &Layout,
    beta: &RocmStorage,
    beta_layout: &Layout,
    eps: f32,
) -> Result<(RocmStorage, Shape)> {
    let parameters = [
        Operand::new(alpha, alpha_layout),
        Operand::new(beta, beta_layout),
    ];
    normalize(
        &table::LAYER_NORM,
        "layer-norm",
        Operand::new(x, layout),
        parameters,
        eps,
    )
}

/// The kernel takes (y, x, parameters..., eps, rows).
fn normalize<const N: usize>(
    op: &Op,
    name: &'static str,
    x: Operand<'_>,
    parameters: [Operand<'_>; N],
    eps: f32,
) -> Result<(RocmStorage, Shape)> {
    check(name, x, &parameters)?;
    let (element, layout) = (x.element(name)?, x.layout);
    let kernel = |form| kernel_form(op, form, &[element], x.dtype(), name);
    let streamed = kernel(table::FORM_STREAMED)?;
    let output = uninit(layout.shape().elem_count(), x.dtype(), x.device())?;
    let (y, start) = (output.pointer(), x.start());
    let vectors = parameters.map(|parameter| parameter.start());
    let starts: Vec<Pointer> = [y, start].into_iter().chain(vectors).collect();
    let rows = Rows::of(layout.dims(), element, &starts);
    if rows.count > 0 {
        let card = Card::of(x.device());
        let holding = holding(element, x.device().tuning());
        let (kernel, teams) = match rows.held_teams(holding, card) {
            Some(teams) => (kernel(table::FORM_HELD)?, teams),
            None => (streamed, rows.streamed_teams(holding, card)),
        };
        let packed = rows.pack(teams);
        let launch = x.device().launch(kernel)?;
        let launch = launch.threads(teams.blocks(rows.count), teams.block);
        let launch = launch.arg(&y).arg(&start);
        let launch = vectors
            .iter()
            .fold(launch, |launch, vector| launch.arg(vector));
        // SAFETY: the arguments of the op's kernels; x and y have an element for each of the rows', and the parameters
        // are as long as a row.
        unsafe { launch.arg(&eps).arg(&packed).enqueue() }?;
    }
    Ok((output, layout.shape().clone()))
}

/// Parameters are of x's type and as long as its rows, and all are contiguous.
fn check(name: &'static str, x: Operand<'_>, parameters: &[Operand<'_>]) -> Result<()> {
    let length = x.layout.dims().last().copied().unwrap_or(1);
    for parameter in parameters {
        if parameter.dtype() != x.dtype() {
            return Err(Error::DTypeMismatchBinaryOp {
                lhs: x.dtype(),
                rhs: parameter.dtype(),
                op: name,
            }
            .bt());
        }
        if parameter.layout.shape().elem_count() != length {
            return Err(Error::ShapeMismatchBinaryOp {
                lhs: x.layout.shape().clone(),
                rhs: parameter.layout.shape().clone(),
                op: name,
            }
            .bt());
        }
    }
    let mut operands = parameters.iter().chain([&x]);
    if !operands.all(|operand| operand.layout.is_contiguous()) {
        return Err(Error::RequiresContiguous { op: name }.bt());
    }
    Ok(())
}

fn holding(element: Element, tuning: Tuning) -> Holding {
    let held = match element {
        Element::F64 => table::HELD_F64,
        Element::F16 | Element::BF16 => table::HELD_16.on(tuning),
        _ => table::HELD,
    };
    Holding {
        by_wave: held,
        by_block: held,
        block: table::BLOCK,
        largest_block: table::LARGEST_BLOCK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::zeros_impl;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::rocm_backend::RocmDevice;
    use crate::DType;

    /// The kernel that normalizes one row of so many elements.
    fn kernel(device: &RocmDevice, dtype: DType, length: usize) -> Result<String> {
        let (x, alpha) = (
            zeros_impl(device, &Shape::from((1, length)), dtype)?,
            zeros_impl(device, &Shape::from(length), dtype)?,
        );
        let layouts = (Layout::contiguous((1, length)), Layout::contiguous(length));
        let (result, launches) = launches_of(|| rms_norm(&x, &layouts.0, &alpha, &layouts.1, 1e-5));
        result?;
        Ok(launches[0].kernel.clone())
    }

    #[test]
    fn registers_hold_a_row_of_each_type() -> Result<()> {
        let Some(device) = gpu("registers_hold_a_row_of_each_type") else {
            return Ok(());
        };
        let narrow = table::HELD_16.on(device.tuning());
        for (dtype, name, held, pack) in [
            (DType::F64, "f64", table::HELD_F64, 2),
            (DType::F32, "f32", table::HELD, 4),
            (DType::F16, "f16", narrow, 8),
            (DType::BF16, "bf16", narrow, 8),
        ] {
            let longest = held * table::LARGEST_BLOCK;
            let (held, streamed) = (
                format!("rms_norm_{name}_held"),
                format!("rms_norm_{name}_streamed"),
            );
            assert_eq!(kernel(&device, dtype, longest)?, held);
            assert_eq!(kernel(&device, dtype, longest + pack)?, streamed);
            assert_eq!(kernel(&device, dtype, 2 * pack)?, held);
            assert_eq!(kernel(&device, dtype, 2 * pack + 1)?, streamed);
        }
        Ok(())
    }

    #[test]
    fn parameters_fit_a_row() -> Result<()> {
        let Some(device) = gpu("parameters_fit_a_row") else {
            return Ok(());
        };
        let zeros = |shape: &Shape, dtype| zeros_impl(&device, shape, dtype);
        let shape = Shape::from((3, 4));
        let x = zeros(&shape, DType::F32)?;
        let by = |layout: &Layout, alpha: &Layout, dtype| -> Result<()> {
            let parameter = zeros(alpha.shape(), dtype)?;
            let found = layer_norm(&x, layout, &parameter, alpha, &parameter, alpha, 1e-5)?;
            assert_eq!(found.1, *layout.shape());
            Ok(())
        };
        let plain = Layout::contiguous(shape);
        by(&plain, &Layout::contiguous(4), DType::F32)?;
        assert!(by(&plain, &Layout::contiguous(3), DType::F32).is_err());
        assert!(by(&plain, &Layout::contiguous(4), DType::F16).is_err());
        let turned = Layout::contiguous((4, 3)).transpose(0, 1)?;
        assert!(by(&turned, &Layout::contiguous(4), DType::F32).is_err());
        let (result, launches) = launches_of(|| {
            let alpha = zeros(&Shape::from(0), DType::F32)?;
            let layouts = (Layout::contiguous((3, 0)), Layout::contiguous(0));
            rms_norm(&x, &layouts.0, &alpha, &layouts.1, 1e-5)
        });
        assert_eq!(result?.1.dims(), [3, 0]);
        assert!(launches.is_empty());
        Ok(())
    }
}
