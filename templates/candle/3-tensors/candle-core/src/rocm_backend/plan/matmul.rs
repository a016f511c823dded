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
