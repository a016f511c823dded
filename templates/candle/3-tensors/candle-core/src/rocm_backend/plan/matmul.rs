//! Matrix products by a kernel of our own, which takes any strides.
use super::family::Kernel;
use super::launch::{Argument, Launch, Pointer};
use super::launcher::Launcher;
use super::table::matmul::{BLOCK, TILE};
use super::views::{KernelLayout, Merged, Operand};

/// `candle::Product`: products of matrices that lie alike.
#[repr(C)]
struct Product {
    rows: u64,
    columns: u64,
    depth: u64,
    left: Strides,
    right: Strides,
    /// Of the factors' first elements.
    batch: KernelLayout<2>,
}

/// `candle::Strides`: elements from a row to the next, and from a column to the next.
#[repr(C)]
struct Strides {
    row: i64,
    column: i64,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Product {}

impl Strides {
    fn of([(_, row), (_, column)]: [(usize, usize); 2]) -> Self {
        Self {
            row: row as i64,
            column: column as i64,
        }
    }
}

/// `y[.., m, n] = left[.., m, k] * right[.., k, n]`, `y` contiguous memory for the result; nothing where it has no element.
pub(crate) fn matmul<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    left: Operand<'_>,
    right: Operand<'_>,
    y: Pointer,
) -> Result<(), L::Error> {
    let [(rows, _), _] = left.view.sides();
    let [(depth, _), (columns, _)] = right.view.sides();
    if rows * columns == 0 {
        return Ok(());
    }
    let limits = launcher.limits();
    let batch = Merged::of([left.view.corners(), right.view.corners()])?;
    let size = left.size;
    batch.launches(limits.elements, &mut |first, part| {
        let product = Product {
            rows: rows as u64,
            columns: columns as u64,
            depth: depth as u64,
            left: Strides::of(left.view.sides()),
            right: Strides::of(right.view.sides()),
            batch: part.pack(),
        };
        let [from_left, from_right] = part.offsets;
        let pointers = [
            y.offset(first * rows * columns * size),
            left.base.offset(from_left * size),
            right.base.offset(from_right * size),
        ];
        let across = columns.div_ceil(TILE).min(limits.blocks);
        let launch = Launch::new(launcher, kernel).threads(across, BLOCK);
        let launch = launch.blocks_y(rows.div_ceil(TILE).min(limits.blocks_y));
        let launch = launch.blocks_z(part.count().min(limits.blocks_y));
        let launch = launch.arg(&pointers[0]).arg(&pointers[1]).arg(&pointers[2]);
        let launch = launch.arg(&product);
        // SAFETY: the kernel's arguments; y has all the results, the views stay within their memory.
        unsafe { launch.enqueue() }
    })
}

#[cfg(test)]
mod tests {
    use super::super::launcher::Card;
    use super::super::table::{matmul::MATMUL, Element};
    use super::super::testing::{contiguous, Recorder};
    use super::*;

    /// Where each launch puts its first result, for batches of a limited number of elements.
    #[test]
    fn launches_go_on_where_the_one_before_ended() {
        let mut recorder = Recorder::of(Card {
            wave_size: 64,
            multiprocessors: 104,
        });
        recorder.limits.elements = 2;
        let (left, right) = (contiguous(&[5, 3, 4]), contiguous(&[5, 4, 7]));
        let operand = |view| Operand {
            base: Pointer::NULL,
            size: 4,
            view,
        };
        let kernel = MATMUL.form(0, &[Element::F32]).unwrap();
        let (left, right) = (operand(left.view()), operand(right.view()));
        matmul(&recorder, kernel, left, right, Pointer::NULL).unwrap();
        let arguments = recorder.arguments.take();
        let pointers: Vec<[usize; 3]> = arguments
            .iter()
            .map(|each| {
                [0, 1, 2].map(|i| usize::from_ne_bytes(each[i].as_slice().try_into().unwrap()))
            })
            .collect();
        let of = |batch: usize| [batch * 3 * 7 * 4, batch * 3 * 4 * 4, batch * 4 * 7 * 4];
        assert_eq!(pointers, [of(0), of(2), of(4)]);
        let layers: Vec<_> = recorder.launches.take().iter().map(|l| l.grid[2]).collect();
        assert_eq!(layers, [2, 2, 1]);
    }
}
