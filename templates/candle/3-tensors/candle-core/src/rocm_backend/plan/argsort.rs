//! The places of each row's elements in sorted order.
use super::family::Kernel;
use super::launch::{Argument, Launch, Pointer};
use super::launcher::{Launcher, Refusal};
use super::table::{argsort as table, Element};
use super::views::Contiguous;

/// Pairs of a key and a place that a block sorts in LDS.
const TILE: usize = table::BLOCK * table::PER_THREAD;

/// Writes the u32 places that sort each row of the last dimension to `places`. Equal elements stay in order, and NaN counts
/// as larger than every number. A refusal for rows of 2^31 elements or more, and for a number without dimensions.
pub(crate) fn argsort<L: Launcher>(
    launcher: &L,
    x: Contiguous<'_>,
    ascending: bool,
    places: Pointer,
) -> Result<(), L::Error> {
    let Some((&length, outer)) = x.shape.split_last() else {
        return Err(Refusal("argsort of a number".to_string()).into());
    };
    let count: usize = outer.iter().product();
    if count * length == 0 {
        return Ok(());
    }
    if length >= 1 << 31 {
        let message = format!("argsort of rows of {length} elements");
        return Err(Refusal(message).into());
    }
    let kernel = |form| table::ARGSORT.form(form, &[x.element.bits()]);
    let sorting = Sorting {
        launcher,
        start: x.start,
        element: x.element,
        count: count as u64,
        length: length as u32,
        order: Order::of(x.element, ascending),
    };
    if length <= TILE {
        sorting.sort(kernel(table::FORM_PLAIN)?, places)
    } else {
        let (tiles, merge) = (kernel(table::FORM_TILES)?, kernel(table::FORM_MERGE)?);
        sorting.merge_sort(tiles, merge, places)
    }
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

/// The rows to sort.
struct Sorting<'a, L> {
    launcher: &'a L,
    start: Pointer,
    element: Element,
    count: u64,
    length: u32,
    order: Order,
}

impl<L: Launcher> Sorting<'_, L> {
    /// Rows of at most a tile, several to a tile if they are short.
    fn sort(&self, kernel: Kernel, places: Pointer) -> Result<(), L::Error> {
        let length = self.length as usize;
        let padded = length.next_power_of_two().max(table::PER_THREAD);
        let launch = self.launch(kernel, (self.count as usize).div_ceil(TILE / padded));
        let log2 = padded.trailing_zeros();
        let launch = launch.arg(&places).arg(&self.start).arg(&self.count);
        let launch = launch.arg(&self.length).arg(&log2).arg(&self.order);
        // SAFETY: the arguments of argsort kernels; there is room for each element's place.
        unsafe { launch.enqueue() }
    }

    /// Longer rows: every tile for itself, then runs of twice the length each time. Keys and places go from one memory
    /// to another each time, places to `places` in the end.
    fn merge_sort(&self, tiles: Kernel, merge: Kernel, places: Pointer) -> Result<(), L::Error> {
        let tiles_of_row = (self.length as usize).div_ceil(TILE);
        let merges = tiles_of_row.next_power_of_two().trailing_zeros() as usize;
        let blocks = self.count as usize * tiles_of_row;
        let elements = self.count as usize * self.length as usize;
        let keys_size = elements * self.element.size();
        let workspace = |bytes| self.launcher.workspace(bytes);
        let (_places, other_places) = workspace(elements * std::mem::size_of::<u32>())?;
        let (_keys, keys) = workspace(keys_size)?;
        // Not for the last: nobody reads its keys.
        let (_other_keys, other_keys) = workspace(if merges > 1 { keys_size } else { 0 })?;
        let after = |merged: usize| {
            let key = [keys, other_keys][merged % 2];
            let place = [places, other_places][(merges + merged) % 2];
            (if merged < merges { key } else { Pointer::NULL }, place)
        };
        let (key, place) = after(0);
        let launch = self.launch(tiles, blocks);
        let launch = launch.arg(&key).arg(&place).arg(&self.start);
        let launch = launch.arg(&self.count).arg(&self.length).arg(&self.order);
        // SAFETY: the arguments of tiles kernels; there is room for each element's key and place.
        unsafe { launch.enqueue() }?;
        for merged in 0..merges {
            let ((from_key, from_place), (key, place)) = (after(merged), after(merged + 1));
            let run = (TILE << merged) as u32;
            let launch = self.launch(merge, blocks);
            let launch = launch.arg(&key).arg(&place).arg(&from_key).arg(&from_place);
            let launch = launch.arg(&self.count).arg(&self.length).arg(&run);
            // SAFETY: the arguments of merge kernels; room as above, and memory that is given back is reused behind the
            // launches only.
            unsafe { launch.enqueue() }?;
        }
        Ok(())
    }

    /// A launch of so many blocks, or fewer that stride over the rest.
    fn launch(&self, kernel: Kernel, blocks: usize) -> Launch<'_, L> {
        // A tile's keys and 16-bit places, with a gap after every 32.
        let lds = (TILE + TILE / 32) * (self.element.size().max(2) + 2);
        let launch = Launch::new(self.launcher, kernel);
        launch.strided(blocks, table::BLOCK).lds(lds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::launcher::Card;
    use super::super::testing::Recorder;
    use super::*;

    #[test]
    fn the_last_merge_writes_no_keys() -> Result<(), Refusal> {
        for tiles in [2, 3, 4, 5] {
            let recorder = Recorder::of(Card {
                wave_size: 64,
                multiprocessors: 104,
            });
            let x = Contiguous {
                start: Pointer::NULL.offset(1 << 30),
                element: Element::F32,
                shape: &[2, tiles * TILE],
            };
            argsort(&recorder, x, true, Pointer::NULL.offset(1 << 35))?;
            let arguments = recorder.arguments.take();
            let writes_keys = arguments.iter().map(|launch| launch[0] != [0; 8]);
            let (last, others) = arguments.split_last().expect("there are launches");
            assert_eq!(last[0], [0; 8], "{tiles} tiles");
            assert_eq!(writes_keys.filter(|writes| *writes).count(), others.len());
        }
        Ok(())
    }

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
            (Element::F16, 0x1f << 10),
            (Element::F32, f32::INFINITY.to_bits().into()),
            (Element::F64, f64::INFINITY.to_bits()),
            (Element::F8E4M3, 0x7e),
        ] {
            assert_eq!(order(element, true), (2, 0, highest), "{element:?}");
        }
    }
}
