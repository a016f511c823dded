//! Normalisations along the last dimension.
use super::operand::{kernel_form, uninit, Operand};
use crate::rocm_backend::nn_plan;
use crate::rocm_backend::plan::table::norm as table;
use crate::rocm_backend::plan::{Contiguous, Op};
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

/// x + other and `rms_norm` of that, as contiguous rows, and the shape of both, which is that of `x` and `other`.
///
/// None for rows that are no multiple of 16 bytes, lie elsewhere than at such a boundary, or do not fit into a block's
/// registers. Otherwise as `rms_norm`.
pub fn add_rms_norm(
    (x, layout): (&RocmStorage, &Layout),
    (other, other_layout): (&RocmStorage, &Layout),
    (alpha, alpha_layout): (&RocmStorage, &Layout),
    eps: f32,
) -> Result<Option<([RocmStorage; 2], Shape)>> {
    const NAME: &str = "add-rms-norm";
    let (x, other) = (Operand::new(x, layout), Operand::new(other, other_layout));
    let alpha = Operand::new(alpha, alpha_layout);
    check(NAME, x, &[alpha])?;
    if other.dtype() != x.dtype() {
        let (lhs, rhs) = (x.dtype(), other.dtype());
        return Err(Error::DTypeMismatchBinaryOp { lhs, rhs, op: NAME }.bt());
    }
    let shape = layout.shape();
    if other_layout.shape() != shape {
        let (lhs, rhs) = (shape.clone(), other_layout.shape().clone());
        return Err(Error::ShapeMismatchBinaryOp { lhs, rhs, op: NAME }.bt());
    }
    if !other_layout.is_contiguous() {
        return Err(Error::RequiresContiguous { op: NAME }.bt());
    }
    let element = x.element(NAME)?;
    kernel_form(
        &table::ADD_RMS_NORM,
        table::FORM_HELD,
        &[element],
        x.dtype(),
        NAME,
    )?;
    let made = || uninit(shape.elem_count(), x.dtype(), x.device());
    let (sum, y) = (made()?, made()?);
    let rows = Contiguous {
        start: x.start(),
        element,
        shape: layout.dims(),
    };
    let inputs = [other.start(), alpha.start()];
    let results = [sum.pointer(), y.pointer()];
    let done = nn_plan::add_rms_norm(x.device(), rows, inputs, eps, results)?;
    Ok(done.then(|| ([sum, y], shape.clone())))
}

fn normalize<const N: usize>(
    op: &Op,
    name: &'static str,
    x: Operand<'_>,
    parameters: [Operand<'_>; N],
    eps: f32,
) -> Result<(RocmStorage, Shape)> {
    check(name, x, &parameters)?;
    let (element, layout) = (x.element(name)?, x.layout);
    kernel_form(op, table::FORM_STREAMED, &[element], x.dtype(), name)?;
    let y = uninit(layout.shape().elem_count(), x.dtype(), x.device())?;
    let rows = Contiguous {
        start: x.start(),
        element,
        shape: layout.dims(),
    };
    let vectors = parameters.map(|parameter| parameter.start());
    nn_plan::norm(x.device(), op, rows, &vectors, eps, y.pointer())?;
    Ok((y, layout.shape().clone()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::zeros_impl;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::DType;

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
