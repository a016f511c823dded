//! One value written to every element of a view.
use super::launch::Launch;
use super::launcher::{Launcher, Refusal};
use super::number::Pattern;
use super::table::{fill as table, Element};
use super::views::{Merged, Operand};
use super::widths::widened;

/// `pattern` has the bits of elements of type `element`, which `y` consists of.
pub(crate) fn fill<L: Launcher>(
    launcher: &L,
    y: Operand<'_>,
    element: Element,
    pattern: Pattern,
) -> Result<(), L::Error> {
    let target = widened(Merged::of([y.view])?, element, [y.base]);
    let size = target.width.size();
    let Some(kernel) = table::FILL.kernel(&[target.width]) else {
        return Err(Refusal(format!("no fill kernel for elements of {size} bytes")).into());
    };
    let limit = launcher.limits().elements;
    target.layout.launches(limit, &mut |_, piece| {
        let y = target.addresses[0].offset(piece.offsets[0] * size);
        let layout = piece.pack();
        let blocks = (piece.count() * size).div_ceil(16 * table::BLOCK);
        let launch = Launch::new(launcher, kernel).threads(blocks, table::BLOCK);
        // SAFETY: the arguments of fill kernels; the view stays within its memory.
        unsafe { launch.arg(&y).arg(&pattern).arg(&layout).enqueue() }
    })
}
