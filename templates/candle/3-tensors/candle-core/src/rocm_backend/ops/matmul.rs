//! Matrix products: how views become matrices that rocBLAS takes, with as few calls and copies as may be.
use super::binary::same_types;
use super::copy::contiguous;
use super::fill::zeros_impl;
use super::operand::{uninit, Operand};
use crate::rocm_backend::blas::{Factor, Product, Types};
use crate::rocm_backend::blas_kernels::Multiplier;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::plan::table::{matmul::MATMUL, MAX_RANK};
use crate::rocm_backend::plan::{self, Merged, Pointer, View};
use crate::rocm_backend::product_choice;
#[cfg(test)]
use crate::rocm_backend::testing;
use crate::rocm_backend::{RocmDevice, RocmError, RocmStorage};
use crate::{Error, Layout, Result, Shape};

const OP: &str = "matmul";

/// Rows that count one by one: for these, code is the more different the fewer they are.
const FEW_ROWS: usize = 16;

/// The most rows that batches are stacked to.
const MAX_ROWS: usize = i32::MAX as usize;

pub(crate) fn matmul(
    lhs: &RocmStorage,
    rhs: &RocmStorage,
    (b, m, n, k): (usize, usize, usize, usize),
    lhs_layout: &Layout,
    rhs_layout: &Layout,
) -> Result<RocmStorage> {
    let (lhs, rhs) = same_types(lhs, rhs, lhs_layout, rhs_layout, OP)?;
    let (dtype, device) = (lhs.dtype(), lhs.device());
    let types = Types::of(lhs.element(OP)?);
    let types = types.ok_or_else(|| Error::UnsupportedDTypeForOp(dtype, OP).bt())?;
    if b * m * n == 0 || k == 0 {
        return zeros_impl(device, &Shape::from((b, m, n)), dtype);
    }
    let multiplied = |by: Multiplier| {
        let ordered = |x| match by {
            Multiplier::Rocblas => Ordered::of(x),
            Multiplier::Own => Ok(Ordered::Given(x)),
        };
        let (left, right) = (ordered(lhs)?, ordered(rhs)?);
        let y = uninit(b * m * n, dtype, device)?;
        let (left, right) = (left.matrices(), right.matrices());
        multiply(device, by, types, left, right, y.pointer())?;
        Ok(y)
    };
    let usual = device.gpu().multiplier()?;
    let is_open = usual == Multiplier::Rocblas && product_choice::is_asked_for();
    if !is_open || MATMUL.kernel(&[types.element()]).is_none() {
        return multiplied(usual);
    }
    let kind = kind_of(types, (b, m, n, k), lhs, rhs);
    multiplied(device.faster(&kind, |by| multiplied(by).map(drop))?)
}

/// What products have in common that take about as long: the sizes, of which many rows and many matrices count by powers of
/// two, and how the factors lie.
fn kind_of(
    types: Types,
    (b, m, n, k): (usize, usize, usize, usize),
    lhs: Operand<'_>,
    rhs: Operand<'_>,
) -> String {
    let lie = |x: Operand<'_>| {
        let strides = x.layout.stride();
        let matrices = &strides[..strides.len() - 2];
        let count = match matrices.iter().all(|&stride| stride == 0) {
            true => "one",
            false => "each",
        };
        match Matrices::from(x).factor() {
            Some(factor) if factor.by_columns => format!("{count} by columns"),
            Some(_) => format!("{count} by rows"),
            None => format!("{count} with gaps"),
        }
    };
    let (element, b) = (types.element(), b.next_power_of_two());
    let m = if m <= FEW_ROWS {
        m
    } else {
        m.next_power_of_two()
    };
    let (left, right) = (lie(lhs), lie(rhs));
    format!("{element:?}, {b} of {m} x {n} x {k}, {left}, {right}")
}

/// Matrices in memory, any number of them: the last two dimensions are rows and columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrices<'a> {
    /// Where the memory begins.
    pub(super) base: Pointer,
    pub(super) view: View<'a>,
}

impl<'a> From<Operand<'a>> for Matrices<'a> {
    fn from(x: Operand<'a>) -> Self {
        Self {
            base: x.base(),
            view: x.view(),
        }
    }
}

impl<'a> Matrices<'a> {
    /// One of them, `None` if rocBLAS does not take it as it lies.
    fn factor(&self) -> Option<Factor> {
        let [(rows, row_stride), (columns, column_stride)] = self.view.sides();
        Factor::of(rows, columns, row_stride, column_stride)
    }

    /// Whether rocBLAS takes them as they lie.
    pub(super) fn in_order(&self) -> bool {
        self.factor().is_some()
    }
}

/// An operand as rocBLAS takes it: as it is, or copied.
enum Ordered<'a> {
    Given(Operand<'a>),
    Copied(RocmStorage, Layout),
}

impl<'a> Ordered<'a> {
    fn of(x: Operand<'a>) -> Result<Self> {
        if Matrices::from(x).in_order() {
            return Ok(Self::Given(x));
        }
        // Of matrices that a broadcast repeats, one is copied.
        let matrices = x.layout.dims().len() - 2;
        let repeated = |d: usize| d < matrices && x.layout.stride()[d] == 0;
        let sizes = x.layout.dims().iter().enumerate();
        let once: Vec<usize> = sizes
            .map(|(d, &size)| if repeated(d) { 1 } else { size })
            .collect();
        let once = Layout::new(
            Shape::from(once),
            x.layout.stride().to_vec(),
            x.layout.start_offset(),
        );
        let copy = contiguous(Operand::new(x.storage, &once))?;
        let mut strides = once.shape().stride_contiguous();
        for d in (0..matrices).filter(|&d| repeated(d)) {
            strides[d] = 0;
        }
        let layout = Layout::new(x.layout.shape().clone(), strides, 0);
        Ok(Self::Copied(copy, layout))
    }

    fn matrices(&self) -> Matrices<'_> {
        match self {
            Self::Given(x) => Matrices::from(*x),
            Self::Copied(copy, layout) => Matrices::from(Operand::new(copy, layout)),
        }
    }
}

/// `y[.., m, n] = left[.., m, k] * right[.., k, n]`, none of the sizes 0. Both factors are in order where rocBLAS multiplies,
/// and `y` is contiguous memory for the result.
pub(super) fn multiply(
    device: &RocmDevice,
    by: Multiplier,
    types: Types,
    left: Matrices<'_>,
    right: Matrices<'_>,
    y: Pointer,
) -> HipResult<()> {
    if by == Multiplier::Own {
        let kernel = MATMUL.kernel(&[types.element()]);
        let refusal = || RocmError::from(format!("no kernel multiplies {:?}", types.element()));
        let [left, right] = [left, right].map(|factor| plan::Operand {
            base: factor.base,
            size: types.size(),
            view: factor.view,
        });
        return plan::matmul(device, kernel.ok_or_else(refusal)?, left, right, y);
    }
    let [(m, _), (k, _)] = left.view.sides();
    let [_, (n, _)] = right.view.sides();
    let (Some(mut left_factor), Some(mut right_factor)) = (left.factor(), right.factor()) else {
        return Err(RocmError::from(format!(
            "rocBLAS takes no {left:?} times {right:?}"
        )));
    };
    let mut batch = Merged::of([left.view.corners(), right.view.corners()])?;
    let y_strides = contiguous_strides(&batch, m * n);
    let mut rows = m;
    if let Some((stacked, factor)) = stack(&batch, &left) {
        (rows, left_factor) = (stacked, factor);
        batch.sizes[0] = 1;
    }
    // The longest dimension goes into one call, the others are called for one by one.
    let longest = (0..batch.rank).max_by_key(|&d| batch.sizes[d]).unwrap_or(0);
    left_factor.step = batch.strides[0][longest];
    right_factor.step = batch.strides[1][longest];
    let product = Product {
        types,
        m: rows,
        n,
        k,
        left: left_factor,
        right: right_factor,
        batch: batch.sizes[longest],
        step: y_strides[longest],
    };
    device.gpu().make_current()?;
    device.queue().with_blas(|blas| {
        for call in 0..batch.count() / product.batch {
            let places = corners_of(&batch, &y_strides, longest, call);
            let [left, right, y] = std::array::from_fn(|i| {
                [left.base, right.base, y][i].offset(places[i] * types.size())
            });
            #[cfg(test)]
            testing::record(testing::Launched::product(&product));
            // SAFETY: the GPU is the current device, Candle's views stay within their storages, and whatever is done
            // to those later is queued behind this.
            unsafe { blas.multiply(&product, left, right, y) }?;
        }
        Ok(())
    })
}

/// Rows of the innermost batches as those of one matrix: where all have the same factor on the right, and each begins
/// where the one before would go on. How many there are, and the left factor with them.
fn stack(batch: &Merged<2>, left: &Matrices<'_>) -> Option<(usize, Factor)> {
    let [(rows, row_stride), (columns, column_stride)] = left.view.sides();
    let (size, [from_left, from_right]) = (batch.sizes[0], batch.strides.map(|strides| strides[0]));
    let goes_on = rows == 1 || from_left == rows * row_stride;
    if batch.rank == 0 || from_right != 0 || !goes_on || rows * size > MAX_ROWS {
        return None;
    }
    let row_stride = if rows == 1 { from_left } else { row_stride };
    let factor = Factor::of(rows * size, columns, row_stride, column_stride)?;
    Some((rows * size, factor))
}

/// Elements between neighbours of each dimension of the results, which have `size` elements each.
fn contiguous_strides(batch: &Merged<2>, size: usize) -> [usize; MAX_RANK] {
    let mut strides = [size; MAX_RANK];
    for d in 1..batch.rank {
        strides[d] = strides[d - 1] * batch.sizes[d - 1];
    }
    strides
}

/// First elements of left factor, right factor and result of a call; calls count in all dimensions but `whole`.
fn corners_of(
    batch: &Merged<2>,
    y_strides: &[usize; MAX_RANK],
    whole: usize,
    mut call: usize,
) -> [usize; 3] {
    let [mut left, mut right] = batch.offsets;
    let mut y = 0;
    for d in (0..batch.rank).filter(|&d| d != whole) {
        let place = call % batch.sizes[d];
        call /= batch.sizes[d];
        left += place * batch.strides[0][d];
        right += place * batch.strides[1][d];
        y += place * y_strides[d];
    }
    [left, right, y]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::{by_rocblas, gpu, launches_of, Launched};
    use crate::{DType, Device, Tensor};

    #[test]
    fn calls_count_in_all_dimensions_but_the_whole_one() {
        let mut batch = Merged::starting_at([7, 9]);
        batch.rank = 3;
        batch.sizes[..3].copy_from_slice(&[2, 3, 5]);
        batch.strides[0][..3].copy_from_slice(&[1, 10, 100]);
        batch.strides[1][..3].copy_from_slice(&[0, 1000, 20]);
        let y_strides = contiguous_strides(&batch, 4);
        assert_eq!(y_strides[..3], [4, 8, 24]);
        for (whole, call, corners) in [
            (1, 0, [7, 9, 0]),
            (1, 1, [8, 9, 4]),
            (1, 2, [107, 29, 24]),
            (1, 9, [408, 89, 100]),
            (0, 4, [117, 1029, 32]),
            (2, 5, [28, 2009, 20]),
        ] {
            let found = corners_of(&batch, &y_strides, whole, call);
            assert_eq!(found, corners, "call {call} without dimension {whole}");
        }
    }

    /// Rows, columns and number of the products of each call of rocBLAS.
    fn calls(launches: &[Launched]) -> Vec<[u32; 3]> {
        let products = launches.iter().filter(|launch| launch.kernel == "product");
        products.map(|launch| launch.grid).collect()
    }

    fn integers(shape: &[usize], seed: usize) -> Result<Tensor> {
        let count: usize = shape.iter().product();
        let data: Vec<f32> = (0..count).map(|i| ((i + seed) * 7 % 11) as f32).collect();
        Tensor::from_vec(data, shape, &Device::Cpu)
    }

    fn flat(x: &Tensor) -> Result<Vec<f32>> {
        x.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
    }

    /// The elements of a product of contiguous factors, by the CPU, which takes no batches of so many dimensions.
    fn by_the_cpu(x: &Tensor, y: &Tensor) -> Result<Vec<f32>> {
        let batch = |x: &Tensor| x.contiguous()?.flatten_to(x.rank() - 3);
        flat(&batch(x)?.matmul(&batch(y)?)?)
    }

    #[test]
    fn as_few_calls_as_may_be() -> Result<()> {
        let Some(device) = gpu("as_few_calls_as_may_be") else {
            return Ok(());
        };
        if !by_rocblas(module_path!(), "as_few_calls_as_may_be") {
            return Ok(());
        }
        let device = Device::Rocm(device);
        // A view of each factor, as a function of plain ones, and the calls that compute their product.
        type View = fn(&Tensor) -> Result<Tensor>;
        type Case = (&'static str, [usize; 4], View, View, Vec<[u32; 3]>);
        let same: View = |x| Ok(x.clone());
        let cases: [Case; 11] = [
            ("one", [1, 1, 5, 4], same, same, vec![[5, 4, 1]]),
            ("a batch", [2, 3, 5, 4], same, same, vec![[5, 4, 6]]),
            (
                "one right factor: rows are stacked",
                [2, 3, 5, 4],
                same,
                |y| {
                    y.narrow(0, 0, 1)?
                        .narrow(1, 1, 1)?
                        .broadcast_as((2, 3, 6, 4))
                },
                vec![[30, 4, 1]],
            ),
            (
                "one right factor for each outer batch",
                [2, 3, 5, 4],
                same,
                |y| y.narrow(1, 1, 1)?.broadcast_as((2, 3, 6, 4)),
                vec![[15, 4, 2]],
            ),
            (
                "one left factor",
                [2, 3, 5, 4],
                |x| {
                    x.narrow(0, 0, 1)?
                        .narrow(1, 2, 1)?
                        .broadcast_as((2, 3, 5, 6))
                },
                same,
                vec![[5, 4, 6]],
            ),
            (
                "single rows with one right factor, as far apart as they like",
                [1, 3, 1, 4],
                |x| Tensor::cat(&[x, x], 3)?.narrow(3, 0, 6),
                |y| y.narrow(1, 1, 1)?.broadcast_as((1, 3, 6, 4)),
                vec![[3, 4, 1]],
            ),
            (
                "rows with gaps between them, as many as batches",
                [1, 5, 5, 4],
                |x| Tensor::cat(&[x, x], 3)?.narrow(3, 0, 6),
                |y| y.narrow(1, 1, 1)?.broadcast_as((1, 5, 6, 4)),
                vec![[25, 4, 1]],
            ),
            (
                "batches of one row that lie in columns",
                [1, 5, 1, 4],
                |x| {
                    let columns = x.squeeze(2)?.transpose(1, 2)?.contiguous()?;
                    columns.transpose(1, 2)?.unsqueeze(2)
                },
                |y| y.narrow(1, 1, 1)?.broadcast_as((1, 5, 6, 4)),
                vec![[5, 4, 1]],
            ),
            (
                "rows with gaps between the batches do not stack",
                [1, 3, 5, 4],
                |x| Tensor::cat(&[x, x], 2)?.narrow(2, 0, 5),
                |y| y.narrow(1, 1, 1)?.broadcast_as((1, 3, 6, 4)),
                vec![[5, 4, 3]],
            ),
            (
                "batches that do not merge: the longer ones in one call",
                [2, 3, 5, 4],
                |x| x.transpose(0, 1)?.contiguous()?.transpose(0, 1),
                same,
                vec![[5, 4, 3]; 2],
            ),
            (
                "likewise",
                [3, 2, 5, 4],
                |x| x.transpose(0, 1)?.contiguous()?.transpose(0, 1),
                same,
                vec![[5, 4, 3]; 2],
            ),
        ];
        for (what, [outer, inner, m, n], left, right, expected) in cases {
            let (x, y) = (
                integers(&[outer, inner, m, 6], 1)?,
                integers(&[outer, inner, 6, n], 2)?,
            );
            let wanted = flat(&left(&x)?.contiguous()?.matmul(&right(&y)?.contiguous()?)?)?;
            let (x, y) = (
                left(&x.to_device(&device)?)?,
                right(&y.to_device(&device)?)?,
            );
            let (found, launches) = launches_of(|| x.matmul(&y));
            assert_eq!(flat(&found?)?, wanted, "{what}");
            assert_eq!(calls(&launches), expected, "{what}");
            assert_eq!(launches.len(), expected.len(), "{what}: nothing is copied");
        }
        Ok(())
    }

    #[test]
    fn batches_in_three_dimensions_are_called_for_one_by_one() -> Result<()> {
        let Some(device) = gpu("batches_in_three_dimensions_are_called_for_one_by_one") else {
            return Ok(());
        };
        if !by_rocblas(
            module_path!(),
            "batches_in_three_dimensions_are_called_for_one_by_one",
        ) {
            return Ok(());
        }
        let device = Device::Rocm(device);
        // The longest dimension goes into one call, wherever it is; the left factors lie the other way round.
        for (sizes, expected) in [
            ([2, 3, 4], vec![[5, 7, 4]; 6]),
            ([2, 4, 3], vec![[5, 7, 4]; 6]),
            ([4, 2, 3], vec![[5, 7, 4]; 6]),
        ] {
            let [a, b, c] = sizes;
            let x = integers(&[c, b, a, 5, 6], 8)?.permute((2, 1, 0, 3, 4))?;
            let y = integers(&[a, b, c, 6, 7], 9)?;
            let wanted = by_the_cpu(&x, &y)?;
            let (x, y) = (
                integers(&[c, b, a, 5, 6], 8)?.to_device(&device)?,
                y.to_device(&device)?,
            );
            let (found, launches) = launches_of(|| x.permute((2, 1, 0, 3, 4))?.matmul(&y));
            assert_eq!(flat(&found?)?, wanted, "{sizes:?}");
            assert_eq!(calls(&launches), expected, "{sizes:?}");
        }
        Ok(())
    }

    #[test]
    fn of_repeated_matrices_one_is_copied() -> Result<()> {
        let Some(device) = gpu("of_repeated_matrices_one_is_copied") else {
            return Ok(());
        };
        if !by_rocblas(module_path!(), "of_repeated_matrices_one_is_copied") {
            return Ok(());
        }
        let device = Device::Rocm(device);
        // Every other element of a row, which rocBLAS does not take.
        let gaps = |x: &Tensor| -> Result<Tensor> {
            let zeros = x.zeros_like()?;
            Tensor::stack(&[x, &zeros], x.rank())?
                .narrow(x.rank(), 0, 1)?
                .squeeze(x.rank())
        };
        let copied = |x: &Tensor, y: &Tensor| -> Result<(Vec<f32>, u64)> {
            let (found, launches) = launches_of(|| x.matmul(y));
            let own = launches.iter().filter(|launch| launch.kernel != "product");
            let blocks = own
                .map(|l| u64::from(l.grid[0]) * u64::from(l.grid[1]))
                .sum();
            Ok((flat(&found?)?, blocks))
        };
        let x = integers(&[1, 1, 1, 64, 100], 3)?;
        let y = integers(&[1, 2, 7, 100, 5], 4)?;
        let often = &[1, 2, 7, 64, 100];
        let wanted = by_the_cpu(&x.broadcast_as(often)?, &y)?;
        let (x, y) = (x.to_device(&device)?, y.to_device(&device)?);
        let (found, blocks) = copied(&gaps(&x)?.broadcast_as(often)?, &y)?;
        assert_eq!(found, wanted);
        let (_, blocks_of_one) = copied(&gaps(&x)?, &y.narrow(1, 0, 1)?.narrow(2, 0, 1)?)?;
        assert_eq!(blocks, blocks_of_one);
        assert!(blocks_of_one > 1);
        // A matrix whose rows are repeated is not a matrix that is.
        let row = integers(&[3, 1, 6], 5)?;
        let other = integers(&[3, 6, 2], 6)?;
        let wanted = flat(&row.broadcast_as((3, 4, 6))?.contiguous()?.matmul(&other)?)?;
        let row = row.to_device(&device)?.broadcast_as((3, 4, 6))?;
        let found = row.matmul(&other.to_device(&device)?)?;
        assert_eq!(flat(&found)?, wanted);
        Ok(())
    }

    #[test]
    fn products_without_elements_are_zero() -> Result<()> {
        let Some(device) = gpu("products_without_elements_are_zero") else {
            return Ok(());
        };
        if !by_rocblas(module_path!(), "products_without_elements_are_zero") {
            return Ok(());
        }
        for (b, m, n, k) in [(1, 2, 3, 0), (1, 0, 3, 2), (1, 2, 0, 3), (0, 2, 3, 4)] {
            let zeros = |shape: &Shape| zeros_impl(&device, shape, DType::F32);
            let shapes = (Shape::from((b, m, k)), Shape::from((b, k, n)));
            let (x, y) = (zeros(&shapes.0)?, zeros(&shapes.1)?);
            let layouts = (Layout::contiguous(shapes.0), Layout::contiguous(shapes.1));
            let (found, launches) =
                launches_of(|| matmul(&x, &y, (b, m, n, k), &layouts.0, &layouts.1));
            let found = found?;
            let mut bytes = vec![1; b * m * n * 4];
            found.copy_to_host(&mut bytes)?;
            assert!(bytes.iter().all(|byte| *byte == 0), "{b}, {m}, {n}, {k}");
            assert_eq!(calls(&launches), [[0; 3]; 0]);
        }
        Ok(())
    }

    /// Rows, their distance and the batches of left factors, and what they are stacked to.
    #[test]
    fn no_more_rows_are_stacked_than_rocblas_counts() -> Result<()> {
        let stacked = |rows: usize, size: usize| -> Result<Option<usize>> {
            let (shape, strides) = ([size, rows, 8], [rows * 8, 8, 1]);
            let left = Matrices {
                base: Pointer::NULL,
                view: View {
                    shape: &shape,
                    strides: &strides,
                    offset: 0,
                },
            };
            let right = View {
                strides: &[0, 4, 1],
                ..left.view
            };
            let right = Matrices {
                view: right,
                ..left
            };
            let batch = Merged::of([left.view.corners(), right.view.corners()])?;
            Ok(stack(&batch, &left).map(|(rows, _)| rows))
        };
        assert_eq!(stacked(3, 5)?, Some(15));
        assert_eq!(stacked(3, 1)?, None, "nothing to stack");
        assert_eq!(stacked(MAX_ROWS / 7, 7)?, Some(MAX_ROWS / 7 * 7));
        assert_eq!(stacked(MAX_ROWS, 2)?, None);
        assert_eq!(stacked(1 << 30, 2)?, None);
        assert_eq!(stacked(1, MAX_ROWS)?, Some(MAX_ROWS));
        assert_eq!(stacked(1, MAX_ROWS + 1)?, None);
        Ok(())
    }
}
