//! Softmax along the last dimension.
use super::held_rows::{Holding, Rows};
use super::operand::{kernel_form, uninit, Operand};
use super::rows::{Card, Teams, PACK};
use crate::rocm_backend::plan::table::softmax as table;
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{Kernel, Pointer, Tuning};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Error, Layout, Result, Shape};

/// exp(x) over the sum of exp(x) along the last dimension, and its shape, which is that of `x`.
///
/// For bf16, f16, f32 and f64. An error for a scalar, and for a view that is not contiguous.
pub fn softmax_last_dim(x: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "softmax-last-dim";
    let x = Operand::new(x, layout);
    if !layout.is_contiguous() {
        return Err(Error::RequiresContiguous { op: OP }.bt());
    }
    if layout.dims().is_empty() {
        crate::bail!("{OP} of a scalar, which has no dimension")
    }
    let element = x.element(OP)?;
    let kernel = |form| kernel_form(&table::SOFTMAX, form, &[element], x.dtype(), OP);
    let streamed = kernel(table::FORM_STREAMED)?;
    let y = uninit(layout.shape().elem_count(), x.dtype(), x.device())?;
    let softmax = Softmax {
        device: x.device(),
        y: y.pointer(),
        x: x.start(),
        rows: Rows::of(layout.dims(), element, &[y.pointer(), x.start()]),
    };
    if softmax.rows.count > 0 {
        let (rows, card) = (&softmax.rows, Card::of(x.device()));
        let tuning = x.device().tuning();
        let holding = holding(element, tuning);
        let blocks = card.multiprocessors * table::BLOCKS_PER_PROCESSOR.on(tuning);
        if let Some(teams) = rows.held_teams(holding, card) {
            let op = match element.size() == 2 && teams.width > card.wave_size {
                true => &table::SOFTMAX_PACKED,
                false => &table::SOFTMAX,
            };
            let kernel = kernel_form(op, table::FORM_HELD, &[element], x.dtype(), OP)?;
            softmax.of_rows(kernel, teams)?;
        } else if let Some(chunks) = chunks(rows, blocks) {
            let (totals, results) = (kernel(table::FORM_TOTALS)?, kernel(table::FORM_CHUNKS)?);
            softmax.of_chunks(totals, results, &chunks)?;
        } else {
            softmax.of_rows(streamed, rows.streamed_teams(holding, card))?;
        }
    }
    Ok((y, layout.shape().clone()))
}

fn holding(element: Element, tuning: Tuning) -> Holding {
    let (by_wave, by_block) = match element {
        Element::F64 => (table::HELD_F64, table::HELD_F64),
        Element::F16 | Element::BF16 => (table::HELD_16, table::HELD_PACKED),
        _ => (table::HELD.on(tuning), table::HELD.on(tuning)),
    };
    Holding {
        by_wave,
        by_block,
        block: table::BLOCK,
        largest_block: table::LARGEST_BLOCK,
    }
}

/// The rows cut into chunks, as many as `blocks`, where they are long and too few to keep the card busy; `None` where
/// they are not.
fn chunks(rows: &Rows, blocks: usize) -> Option<Rows> {
    let in_row = (blocks / rows.count).min(rows.length.div_ceil(table::LEAST_CHUNK));
    if in_row < 2 {
        return None;
    }
    let lanes = PACK / rows.element.size();
    let length = rows.length.div_ceil(in_row * lanes) * lanes;
    Some(Rows {
        count: rows.count * rows.length.div_ceil(length),
        length,
        ..*rows
    })
}

/// What is computed, and where it goes.
struct Softmax<'a> {
    device: &'a RocmDevice,
    y: Pointer,
    x: Pointer,
    rows: Rows,
}

impl Softmax<'_> {
    /// A team to each row.
    fn of_rows(&self, kernel: Kernel, teams: Teams) -> Result<()> {
        let rows = self.rows.pack(teams);
        let launch = self.device.launch(kernel)?;
        let launch = launch.threads(teams.blocks(self.rows.count), teams.block);
        let launch = launch.arg(&self.y).arg(&self.x).arg(&rows);
        // SAFETY: the arguments of held and streamed kernels; x and y have an element for each of the rows'.
        unsafe { launch.enqueue() }?;
        Ok(())
    }

    /// A block to each chunk: first the largest element and the sum of every chunk, then the results.
    fn of_chunks(&self, totals: Kernel, results: Kernel, chunks: &Rows) -> Result<()> {
        let teams = Teams::of_blocks(table::CHUNK_BLOCK.on(self.device.tuning()));
        let blocks = teams.blocks(chunks.count);
        let size = 2 * chunks.element.wide_size();
        let memory = uninit(chunks.count * size, DType::U8, self.device)?;
        let total = memory.pointer();
        let length = self.rows.length as u64;
        let in_row = (chunks.count / self.rows.count) as u32;
        let packed = chunks.pack(teams);
        let launch = self.device.launch(totals)?.threads(blocks, teams.block);
        let launch = launch.arg(&total).arg(&self.x);
        let launch = launch.arg(&length).arg(&in_row).arg(&packed);
        // SAFETY: the arguments of totals kernels; there is room for two numbers of every chunk.
        unsafe { launch.enqueue() }?;
        let launch = self.device.launch(results)?.threads(blocks, teams.block);
        let launch = launch.arg(&self.y).arg(&self.x).arg(&total);
        let launch = launch.arg(&length).arg(&in_row).arg(&packed);
        // SAFETY: the arguments of chunks kernels; x and y have an element for each of the rows', and memory that is
        // given back is reused behind the launch only.
        unsafe { launch.enqueue() }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::{storage_from_slice, to_cpu_storage, zeros_impl};
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::CpuStorage;

    /// The count and length of rows' chunks, where 16 blocks keep the card busy.
    fn chunked(dims: &[usize], element: Element) -> Option<(usize, usize)> {
        let chunks = chunks(&Rows::of(dims, element, &[Pointer::NULL]), 16)?;
        Some((chunks.count, chunks.length))
    }

    #[test]
    fn few_long_rows_are_cut_into_whole_packs() {
        assert_eq!(
            chunked(&[1, table::LEAST_CHUNK], Element::F32),
            None,
            "short"
        );
        assert_eq!(chunked(&[9, 1 << 20], Element::F32), None, "many");
        assert_eq!(chunked(&[8, 1 << 20], Element::F32), Some((16, 1 << 19)));
        assert_eq!(chunked(&[1, 1 << 20], Element::F32), Some((16, 1 << 16)));
        assert_eq!(chunked(&[1, 32770], Element::F32), Some((3, 10924)));
        assert_eq!(chunked(&[1, 32770], Element::BF16), Some((3, 10928)));
    }

    /// The kernels for zeros of this shape.
    fn kernels(device: &RocmDevice, dtype: DType, shape: &[usize]) -> Result<Vec<String>> {
        let shape = Shape::from(shape);
        let x = zeros_impl(device, &shape, dtype)?;
        let layout = Layout::contiguous(shape);
        let (result, launches) = launches_of(|| softmax_last_dim(&x, &layout));
        result?;
        Ok(launches.into_iter().map(|launch| launch.kernel).collect())
    }

    #[test]
    fn kernels_suit_the_rows() -> Result<()> {
        let Some(device) = gpu("kernels_suit_the_rows") else {
            return Ok(());
        };
        let by = |dtype, length| kernels(&device, dtype, &[1, length]);
        let wave = Card::of(&device).wave_size;
        // A wave holds a row of a pack for each lane; more lanes are several waves, of which 16-bit floats have kernels
        // of their own.
        assert_eq!(by(DType::F16, wave * 8)?, ["softmax_f16_held"]);
        assert_eq!(by(DType::F16, wave * 8 + 8)?, ["softmax_packed_f16_held"]);
        assert_eq!(by(DType::BF16, wave * 16)?, ["softmax_packed_bf16_held"]);
        assert_eq!(by(DType::F32, wave * 8)?, ["softmax_f32_held"]);
        assert_eq!(by(DType::F64, wave * 8)?, ["softmax_f64_held"]);
        assert_eq!(
            by(DType::F16, 1001)?,
            ["softmax_f16_streamed"],
            "no whole packs"
        );
        // Rows longer than 1024 threads hold: in chunks, if they are few.
        let longest = 1024 * table::HELD.on(device.tuning());
        assert_eq!(by(DType::F32, longest)?, ["softmax_f32_held"]);
        let chunks = ["softmax_f32_totals", "softmax_f32_chunks"];
        assert_eq!(by(DType::F32, longest + 4)?, chunks);
        assert_eq!(by(DType::F64, 8 * 1024)?, ["softmax_f64_held"]);
        assert_eq!(by(DType::F64, 8 * 1024 + 2)?, ["softmax_f64_streamed"]);
        assert_eq!(by(DType::F16, 64 * 1024)?, ["softmax_packed_f16_held"]);
        assert_eq!(by(DType::F16, 64 * 1024 + 8)?[0], "softmax_f16_totals");
        let none: [&str; 0] = [];
        assert_eq!(kernels(&device, DType::F32, &[3, 0])?, none);
        assert_eq!(kernels(&device, DType::F32, &[0, 3])?, none);
        assert!(kernels(&device, DType::F32, &[]).is_err());
        Ok(())
    }

    #[test]
    fn a_long_row_keeps_the_card_busy() -> Result<()> {
        let Some(device) = gpu("a_long_row_keeps_the_card_busy") else {
            return Ok(());
        };
        let length = 20 * table::LEAST_CHUNK;
        let x = zeros_impl(&device, &Shape::from(length), DType::F32)?;
        let (result, launches) = launches_of(|| softmax_last_dim(&x, &Layout::contiguous(length)));
        result?;
        let room = table::BLOCKS_PER_PROCESSOR.on(device.tuning());
        let most = Card::of(&device).multiprocessors * room;
        for launch in launches {
            assert_eq!(launch.grid, [most.min(20) as u32, 1, 1]);
        }
        Ok(())
    }

    #[test]
    fn chunks_of_a_row_share_its_total() -> Result<()> {
        let Some(device) = gpu("chunks_of_a_row_share_its_total") else {
            return Ok(());
        };
        for (rows, length) in [(1, 40_003), (2, 50_000)] {
            let data: Vec<f32> = (0..rows * length)
                .map(|i| (i * 37 % 101) as f32 / 9.)
                .collect();
            let x = storage_from_slice(&device, &data)?;
            let layout = Layout::contiguous((rows, length));
            let (result, launches) = launches_of(|| softmax_last_dim(&x, &layout));
            assert_eq!(launches.len(), 2, "{rows} x {length}");
            let CpuStorage::F32(found) = to_cpu_storage(&result?.0)? else {
                panic!("f32 stays f32")
            };
            for (row, found) in data.chunks(length).zip(found.chunks(length)) {
                let powers = row.iter().map(|&x| f64::from(x).exp());
                let total: f64 = powers.clone().sum();
                for (power, &found) in powers.zip(found) {
                    let wanted = power / total;
                    let error = (f64::from(found) - wanted).abs() / wanted;
                    assert!(error < 1e-5, "{found} instead of {wanted}");
                }
            }
        }
        Ok(())
    }
}
