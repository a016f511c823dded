//! Sums, extremes and their indices over dimensions.
use super::fill::zeros_impl;
use super::operand::{kernel_form, uninit, Operand};
use crate::op::ReduceOp;
use crate::rocm_backend::plan;
use crate::rocm_backend::plan::table::reduce as table;
use crate::rocm_backend::RocmStorage;
use crate::{DType, Error, Layout, Result, Shape};

/// A tensor in which each of `dims` has a size of 1; indices are u32.
pub(in crate::rocm_backend) fn reduce_op(
    x: &RocmStorage,
    op: ReduceOp,
    layout: &Layout,
    dims: &[usize],
) -> Result<RocmStorage> {
    let x = Operand::new(x, layout);
    let empty = layout.shape().elem_count() == 0;
    if op != ReduceOp::Sum {
        if dims.len() != 1 {
            let (op, dims) = (op.name(), dims.to_vec());
            return Err(Error::OnlySingleDimension { op, dims }.bt());
        }
        if empty {
            return Err(Error::EmptyTensor { op: "reduce" }.bt());
        }
    }
    let (name, element) = (op.name(), x.element(op.name())?);
    let (op, dtype) = match op {
        ReduceOp::Sum => (table::SUM, x.dtype()),
        ReduceOp::Min => (table::MIN, x.dtype()),
        ReduceOp::Max => (table::MAX, x.dtype()),
        ReduceOp::ArgMin => (table::ARGMIN, DType::U32),
        ReduceOp::ArgMax => (table::ARGMAX, DType::U32),
    };
    kernel_form(&op, table::FORM_ROWS, &[element], x.dtype(), name)?;
    let kept = layout.dims().iter().enumerate();
    let kept = kept.filter(|(d, _)| !dims.contains(d));
    let results = kept.map(|(_, size)| size).product();
    if empty {
        return zeros_impl(x.device(), &Shape::from(results), dtype);
    }
    let y = uninit(results, dtype, x.device())?;
    plan::reduce(x.device(), &op, x.planned(), element, dims, y.pointer())?;
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendDevice;
    use crate::rocm_backend::plan::{Card, Limits};
    use crate::rocm_backend::testing::{gpu, launches_of, Disguised};
    use crate::rocm_backend::RocmDevice;

    /// The device as if it had four multiprocessors, for launches of at most `elements`.
    fn of_four(device: &RocmDevice, elements: usize) -> Disguised<'_> {
        let usual = Disguised::as_usual(device);
        Disguised {
            card: Card {
                multiprocessors: 4,
                ..usual.card
            },
            limits: Limits {
                elements,
                ..usual.limits
            },
            ..usual
        }
    }

    /// The results over a dimension of x, which has elements of 32 bits.
    fn reduced(
        launcher: &Disguised<'_>,
        op: &plan::Op,
        x: Operand<'_>,
        dims: &[usize],
    ) -> Result<Vec<u32>> {
        let sizes = x.layout.dims().iter().enumerate();
        let kept = sizes.filter(|(d, _)| !dims.contains(d));
        let results = kept.map(|(_, size)| size).product();
        let y = uninit(results, DType::U32, x.device())?;
        let element = x.element("reduce")?;
        plan::reduce(launcher, op, x.planned(), element, dims, y.pointer())?;
        words(&y)
    }

    fn words(storage: &RocmStorage) -> Result<Vec<u32>> {
        let mut data = vec![0; storage.size()];
        storage.copy_to_host(&mut data)?;
        let words = data.chunks_exact(4);
        Ok(words
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }

    #[test]
    fn results_are_the_same_in_however_many_launches() -> Result<()> {
        let Some(device) = gpu("results_are_the_same_in_however_many_launches") else {
            return Ok(());
        };
        let data: Vec<u32> = (0..7 * 22 * 10).map(|i| i * 7919 % 1009).collect();
        let x = device.storage_from_slice(&data)?;
        let whole = Layout::contiguous((7, 22, 10));
        let part = whole.narrow(1, 3, 17)?.narrow(2, 1, 9)?;
        for (layout, first) in [(&whole, [0, 0]), (&part, [3, 1])] {
            let (_, b, c) = layout.shape().dims3()?;
            for dim in 0..3 {
                // Elements by line, in their order.
                let mut lines = vec![vec![]; 7 * b * c / [7, b, c][dim]];
                for place in 0..7 * b * c {
                    let (i, j, k) = (place / (b * c), place / c % b, place % c);
                    let line = [j * c + k, i * c + k, i * b + j][dim];
                    let at = (i * 22 + j + first[0]) * 10 + k + first[1];
                    lines[line].push(data[at]);
                }
                let of_each = |value: fn(&[u32]) -> u32| -> Vec<u32> {
                    lines.iter().map(|line| value(line)).collect()
                };
                for limit in [4, 16, 1024] {
                    let launcher = of_four(&device, limit);
                    let found = |op| reduced(&launcher, op, Operand::new(&x, layout), &[dim]);
                    let what = format!("{layout:?} over {dim}, {limit} at a time");
                    let wanted = of_each(|line| line.iter().sum());
                    assert_eq!(found(&table::SUM)?, wanted, "{what}");
                    let wanted = of_each(|line| line.iter().copied().max().unwrap_or(0));
                    assert_eq!(found(&table::MAX)?, wanted, "{what}");
                    // Of equals the first.
                    let wanted = of_each(|line| {
                        let least = (0..line.len()).min_by_key(|&at| line[at]);
                        least.unwrap_or(0) as u32
                    });
                    assert_eq!(found(&table::ARGMIN)?, wanted, "{what}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn what_a_cut_leaves_of_a_line_takes_fewer_blocks() -> Result<()> {
        let Some(device) = gpu("what_a_cut_leaves_of_a_line_takes_fewer_blocks") else {
            return Ok(());
        };
        let data: Vec<u32> = (0..20_480).map(|i| i * 7919 % 1009).collect();
        let x = device.storage_from_slice(&data)?;
        let layout = Layout::contiguous(data.len());
        let launcher = of_four(&device, 1 << 14);
        let x = Operand::new(&x, &layout);
        let (sum, launches) = launches_of(|| reduced(&launcher, &table::SUM, x, &[0]));
        assert_eq!(sum?, [data.iter().sum::<u32>()]);
        // 16384 elements are 16 packs to each thread of a block, and 4 are worth one; the other 4096 are just one.
        let grids: Vec<_> = launches.iter().map(|launch| launch.grid).collect();
        assert_eq!(grids, [[1, 4, 1], [1, 1, 1], [1, 1, 1]]);
        Ok(())
    }

    #[test]
    fn many_partial_results_are_put_together_twice() -> Result<()> {
        let Some(device) = gpu("many_partial_results_are_put_together_twice") else {
            return Ok(());
        };
        let data: Vec<u32> = (0..20_000 * 6).map(|i| i % 1013).collect();
        let x = device.storage_from_slice(&data)?;
        let layout = Layout::contiguous((20_000, 2, 3));
        let launcher = of_four(&device, Limits::USUAL.elements);
        let x = Operand::new(&x, &layout);
        let (sums, launches) = launches_of(|| reduced(&launcher, &table::SUM, x, &[0, 2]));
        let mut wanted = [0, 0];
        for (at, value) in data.iter().enumerate() {
            wanted[at / 3 % 2] += value;
        }
        assert_eq!(sums?, wanted);
        // 2 results of 20000 lines: 78 partial results to a thread of a block, of which 32 are worth a block.
        let finish = launches
            .iter()
            .filter(|launch| launch.kernel == "sum_u32_finish");
        let grids: Vec<_> = finish.map(|launch| launch.grid).collect();
        assert_eq!(grids, [[2, 2, 1], [1, 1, 1]]);
        Ok(())
    }

    #[test]
    fn extremes_are_of_one_dimension_that_has_elements() -> Result<()> {
        let Some(device) = gpu("extremes_are_of_one_dimension_that_has_elements") else {
            return Ok(());
        };
        let x = device.storage_from_slice(&[5u32, 3, 9, 4, 8, 1])?;
        let (layout, empty) = (Layout::contiguous((2, 3)), Layout::contiguous((0, 3)));
        let reduced = |op, layout: &Layout, dims: &[usize]| -> Result<Vec<u32>> {
            words(&reduce_op(&x, op, layout, dims)?)
        };
        let (sum, launches) = launches_of(|| reduced(ReduceOp::Sum, &layout, &[0, 1]));
        assert_eq!((sum?, launches.len()), (vec![30], 1));
        assert_eq!(reduced(ReduceOp::Sum, &layout, &[])?, [5, 3, 9, 4, 8, 1]);
        assert_eq!(reduced(ReduceOp::Sum, &empty, &[0])?, [0, 0, 0]);
        assert!(reduced(ReduceOp::Sum, &empty, &[1])?.is_empty());
        for (op, expected) in [
            (ReduceOp::Min, [3, 1]),
            (ReduceOp::Max, [9, 8]),
            (ReduceOp::ArgMin, [1, 2]),
            (ReduceOp::ArgMax, [2, 1]),
        ] {
            assert_eq!(reduced(op, &layout, &[1])?, expected, "{op:?}");
            assert!(reduced(op, &layout, &[0, 1]).is_err(), "{op:?}");
            assert!(reduced(op, &layout, &[]).is_err(), "{op:?}");
            assert!(reduced(op, &empty, &[0]).is_err(), "{op:?}");
        }
        Ok(())
    }
}
