//! The places of each row's elements in sorted order.
use super::operand::{kernel_form, uninit, Operand};
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::launcher::MAX_GRID;
use crate::rocm_backend::plan::table::argsort as table;
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{Argument, Kernel, Launch, Pointer};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Error, Layout, Result, Shape};

/// Pairs of a key and a place that a block sorts in LDS.
const TILE: usize = table::BLOCK * table::PER_THREAD;

/// The u32 places that sort rows of `last_dim` elements, and their shape, which is that of `x`.
///
/// Equal elements stay in order, and NaN counts as larger than every number. An error for a view that is not contiguous,
/// and for rows of 2^31 elements or more.
pub fn argsort(
    x: &RocmStorage,
    layout: &Layout,
    last_dim: usize,
    ascending: bool,
) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "argsort";
    let x = Operand::new(x, layout);
    if !layout.is_contiguous() {
        return Err(Error::RequiresContiguous { op: OP }.bt());
    }
    let (count, element) = (layout.shape().elem_count(), x.element(OP)?);
    let places = uninit(count, DType::U32, x.device())?;
    if count > 0 {
        if last_dim == 0 || count % last_dim != 0 || last_dim >= 1 << 31 {
            crate::bail!("{OP} of {count} elements in rows of {last_dim}")
        }
        let types = [element.bits()];
        let kernel = |form| kernel_form(&table::ARGSORT, form, &types, x.dtype(), OP);
        let rows = Rows {
            device: x.device(),
            start: x.start(),
            element,
            count: (count / last_dim) as u64,
            length: last_dim as u32,
            order: Order::of(element, ascending),
        };
        if last_dim <= TILE {
            rows.sort(kernel(table::FORM_PLAIN)?, &places)?;
        } else {
            let (tiles, merge) = (kernel(table::FORM_TILES)?, kernel(table::FORM_MERGE)?);
            rows.merge_sort(tiles, merge, &places)?;
        }
    }
    Ok((places, layout.shape().clone()))
}

/// `candle::Order`: how elements order, by their bits.
#[derive(Clone, Copy)]
#[repr(C)]
struct Order {
    numbers: u32,
    descending: u32,
    /// The bits of the largest magnitude that is not NaN, for floats.
    highest: u64,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Order {}

impl Order {
    fn of(element: Element, ascending: bool) -> Self {
        const UNSIGNED: u32 = 0;
        const SIGNED: u32 = 1;
        const FLOATING: u32 = 2;
        let (numbers, highest) = match element {
            Element::I16 | Element::I32 | Element::I64 => (SIGNED, 0),
            Element::BF16 => (FLOATING, 0x7f80),
            Element::F16 => (FLOATING, 0x7c00),
            Element::F32 => (FLOATING, 0x7f80_0000),
            Element::F64 => (FLOATING, 0x7ff0_0000_0000_0000),
            Element::F8E4M3 => (FLOATING, 0x7e), // there is no infinity
            _ => (UNSIGNED, 0),
        };
        Self {
            numbers,
            descending: (!ascending).into(),
            highest,
        }
    }
}

/// What is sorted.
struct Rows<'a> {
    device: &'a RocmDevice,
    start: Pointer,
    element: Element,
    count: u64,
    length: u32,
    order: Order,
}

impl Rows<'_> {
    /// Rows of at most a tile, several to a tile if they are short.
    fn sort(&self, kernel: Kernel, places: &RocmStorage) -> Result<()> {
        let length = self.length as usize;
        let padded = length.next_power_of_two().max(table::PER_THREAD);
        let launch = self.launch(kernel, (self.count as usize).div_ceil(TILE / padded))?;
        let (places, log2) = (places.pointer(), padded.trailing_zeros());
        let launch = launch.arg(&places).arg(&self.start).arg(&self.count);
        let launch = launch.arg(&self.length).arg(&log2).arg(&self.order);
        // SAFETY: the arguments of argsort kernels; there is room for each element's place.
        unsafe { launch.enqueue() }?;
        Ok(())
    }

    /// Longer rows: every tile for itself, then runs of twice the length each time. Keys and places go from one memory
    /// to another each time, places to `places` in the end.
    fn merge_sort(&self, tiles: Kernel, merge: Kernel, places: &RocmStorage) -> Result<()> {
        let tiles_of_row = (self.length as usize).div_ceil(TILE);
        let merges = tiles_of_row.next_power_of_two().trailing_zeros() as usize;
        let blocks = self.count as usize * tiles_of_row;
        let elements = self.count as usize * self.length as usize;
        let other_places = uninit(elements, DType::U32, self.device)?;
        let keys = uninit(elements * self.element.size(), DType::U8, self.device)?;
        // Not for the last: nobody reads its keys.
        let other_keys = if merges > 1 { keys.size() } else { 0 };
        let other_keys = uninit(other_keys, DType::U8, self.device)?;
        let after = |merged: usize| {
            let key = [&keys, &other_keys][merged % 2].pointer();
            let place = [places, &other_places][(merges + merged) % 2].pointer();
            (if merged < merges { key } else { Pointer::NULL }, place)
        };
        let (key, place) = after(0);
        let launch = self.launch(tiles, blocks)?;
        let launch = launch.arg(&key).arg(&place).arg(&self.start);
        let launch = launch.arg(&self.count).arg(&self.length).arg(&self.order);
        // SAFETY: the arguments of tiles kernels; there is room for each element's key and place.
        unsafe { launch.enqueue() }?;
        for merged in 0..merges {
            let ((from_key, from_place), (key, place)) = (after(merged), after(merged + 1));
            let run = (TILE << merged) as u32;
            let launch = self.launch(merge, blocks)?;
            let launch = launch.arg(&key).arg(&place).arg(&from_key).arg(&from_place);
            let launch = launch.arg(&self.count).arg(&self.length).arg(&run);
            // SAFETY: the arguments of merge kernels; room as above, and memory that is given back is reused behind the
            // launches only.
            unsafe { launch.enqueue() }?;
        }
        Ok(())
    }

    /// A launch of so many blocks, or fewer that stride over the rest.
    fn launch(&self, kernel: Kernel, blocks: usize) -> HipResult<Launch<'_, RocmDevice>> {
        // A tile's keys and 16-bit places, with a gap after every 32.
        let lds = (TILE + TILE / 32) * (self.element.size().max(2) + 2);
        let launch = self.device.launch(kernel)?;
        Ok(launch.threads(blocks.min(MAX_GRID), table::BLOCK).lds(lds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::zeros_impl;
    use crate::rocm_backend::testing::{allocations_of, gpu, launches_of, Launched};

    #[test]
    fn elements_order_by_their_bits() {
        let order = |element, ascending| {
            let order = Order::of(element, ascending);
            (order.numbers, order.descending, order.highest)
        };
        for element in [Element::I16, Element::I32, Element::I64] {
            assert_eq!(order(element, true), (1, 0, 0), "{element:?}");
        }
        for element in [Element::U8, Element::U32] {
            assert_eq!(order(element, false), (0, 1, 0), "{element:?}");
        }
        // The bits of infinity, or of the largest number where there is none: 448.
        for (element, highest) in [
            (Element::BF16, f32::INFINITY.to_bits() as u64 >> 16),
            (Element::F16, half::f16::INFINITY.to_bits().into()),
            (Element::F32, f32::INFINITY.to_bits().into()),
            (Element::F64, f64::INFINITY.to_bits()),
            (Element::F8E4M3, 0x7e),
        ] {
            assert_eq!(order(element, true), (2, 0, highest), "{element:?}");
        }
    }

    /// What sorting `rows` rows launches.
    fn sorted(
        device: &RocmDevice,
        dtype: DType,
        rows: usize,
        length: usize,
    ) -> Result<Vec<Launched>> {
        let shape = Shape::from((rows, length));
        let x = zeros_impl(device, &shape, dtype)?;
        let layout = Layout::contiguous(shape);
        let (result, launches) = launches_of(|| argsort(&x, &layout, length, true));
        result?;
        Ok(launches)
    }

    #[test]
    fn short_rows_share_a_tile() -> Result<()> {
        let Some(device) = gpu("short_rows_share_a_tile") else {
            return Ok(());
        };
        // A tile of 4096 pairs: a key, and a place of 2 bytes; after every 32 one is left out.
        for (dtype, lds) in [
            (DType::U8, 4224 * 4),
            (DType::F16, 4224 * 4),
            (DType::F32, 4224 * 6),
            (DType::I64, 4224 * 10),
        ] {
            for (rows, length, blocks) in [
                (512, 8, 1),
                (513, 8, 2),
                (512, 3, 1),
                (513, 1, 2),
                (256, 9, 1),
                (257, 9, 2),
                (3, 4096, 3),
                (40, 4096, 32), // as many blocks as a launch has
            ] {
                let launches = sorted(&device, dtype, rows, length)?;
                let [launch] = &launches[..] else {
                    panic!("one launch: {launches:?}")
                };
                let found = (launch.grid, launch.block[0], launch.lds);
                assert_eq!(found, ([blocks, 1, 1], 512, lds), "{rows} x {length}");
            }
        }
        Ok(())
    }

    #[test]
    fn longer_rows_are_merged() -> Result<()> {
        let Some(device) = gpu("longer_rows_are_merged") else {
            return Ok(());
        };
        for (length, tiles, merges) in [(4097, 2, 1), (8192, 2, 1), (8193, 3, 2), (17_000, 5, 3)] {
            let launches = sorted(&device, DType::F32, 2, length)?;
            let names: Vec<_> = launches
                .iter()
                .map(|launch| launch.kernel.as_str())
                .collect();
            let mut expected = vec!["argsort_b32_tiles"];
            expected.extend(vec!["argsort_b32_merge"; merges]);
            assert_eq!(names, expected, "{length}");
            assert!(launches
                .iter()
                .all(|launch| launch.grid == [2 * tiles, 1, 1]));
            // Places twice and keys; keys twice where they are merged more than once.
            let own = RocmDevice::new_with_stream(0)?;
            let shape = Shape::from((2, length));
            let x = zeros_impl(&own, &shape, DType::F32)?;
            let layout = Layout::contiguous(shape);
            let (result, blocks) = allocations_of(&own, || argsort(&x, &layout, length, true));
            result?;
            assert_eq!(blocks, if merges > 1 { 4 } else { 3 }, "{length}");
        }
        Ok(())
    }

    #[test]
    fn rows_make_up_the_elements() -> Result<()> {
        let Some(device) = gpu("rows_make_up_the_elements") else {
            return Ok(());
        };
        let x = zeros_impl(&device, &Shape::from(12), DType::F32)?;
        let by = |layout: &Layout, length| argsort(&x, layout, length, true).map(|_| ());
        let all = Layout::contiguous(12);
        by(&all, 4)?;
        assert!(by(&all, 5).is_err());
        assert!(by(&all, 0).is_err());
        assert!(by(&Layout::contiguous((3, 4)).transpose(0, 1)?, 3).is_err());
        by(&Layout::contiguous(0), 0)
    }
}
