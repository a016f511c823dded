//! In which order the blocks of a grid, the waves of a block and the lanes of a wave run.

use std::ops::Range;

use super::block::{Block, State};
use super::describe;
use super::engine::{Engine, engine};
use super::launch::Launch;
use super::threads::{resume, start_wave};
use crate::random::Order;
use crate::report::Report;

/// Blocks that take turns at barriers.
const RESIDENT: usize = 3;

/// How far a block got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// All threads have passed a barrier.
    AtBarrier,
    /// All threads have returned.
    Finished,
}

/// Runs the blocks of a launch for which the engine is prepared.
///
/// # Errors
/// The first report; nothing runs after it.
pub(super) fn run_grid(launch: &Launch) -> Result<(), Report> {
    let mut residents = Residents::new(launch);
    let mut fresh = Order::new(launch.blocks(), &mut current().random).map(|place| launch.block_at(place));
    let mut next = fresh.next();
    loop {
        let index = match next {
            Some(number) if residents.blocks.is_empty() || residents.admits_another() => {
                next = fresh.next();
                residents.begin(number)
            }
            _ if residents.blocks.is_empty() => return Ok(()),
            _ => current().random.below(residents.blocks.len() as u64) as usize,
        };
        residents.enter(index);
        if advance()? == Progress::Finished {
            residents.retire(index);
        }
    }
}

fn current() -> &'static mut Engine {
    // SAFETY: the scheduler runs under `EXECUTING` and calls this afresh after each switch of fibers.
    unsafe { engine() }
}

/// The blocks that have begun. At most one of them has its static LDS in the module's thread-local segment.
struct Residents<'a> {
    launch: &'a Launch,
    #[allow(clippy::vec_box, reason = "the engine points to a block while others come and go")]
    blocks: Vec<Box<Block>>,
    #[allow(clippy::vec_box, reason = "as above")]
    retired: Vec<Box<Block>>,
    /// Addresses of the kernel's LDS objects.
    static_lds: Vec<Range<usize>>,
    /// Number of the block whose LDS is in place.
    in_place: Option<u64>,
}

impl<'a> Residents<'a> {
    fn new(launch: &'a Launch) -> Self {
        let static_lds = launch.function.static_lds();
        Self { launch, blocks: Vec::new(), retired: Vec::new(), static_lds, in_place: None }
    }

    fn admits_another(&self) -> bool {
        self.launch.function.module.knows_its_lds() && self.blocks.len() < RESIDENT && current().random.below(2) == 0
    }

    fn begin(&mut self, number: u64) -> usize {
        let [width, height, _] = self.launch.grid.map(u64::from);
        let index = [number % width, number / width % height, number / (width * height)].map(|index| index as u32);
        let static_bytes = self.launch.function.kernel().static_lds_bytes();
        let new = || Box::new(Block::new(static_bytes, self.launch.dynamic_lds));
        let mut block = self.retired.pop().unwrap_or_else(new);
        let e = current();
        block.begin(index, number, self.launch.threads(), e.wave_size, e.checker.is_enabled());
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    /// Makes a block the one that runs, with its LDS in place.
    fn enter(&mut self, index: usize) {
        let number = self.blocks[index].number;
        if self.in_place != Some(number) && !self.static_lds.is_empty() {
            if let Some(other) = self.blocks.iter_mut().find(|block| Some(block.number) == self.in_place) {
                for (place, image) in images(&self.static_lds, &mut other.static_lds) {
                    image.copy_from_slice(place);
                }
            }
            for (place, image) in images(&self.static_lds, &mut self.blocks[index].static_lds) {
                place.copy_from_slice(image);
            }
        }
        self.in_place = Some(number);
        let e = current();
        e.enter_block(&mut self.blocks[index]);
        e.checker.enter_lds(&self.static_lds, &mut self.blocks[index]);
    }

    fn retire(&mut self, index: usize) {
        let block = self.blocks.swap_remove(index);
        self.in_place = None;
        self.retired.push(block);
    }
}

/// Each LDS object of a kernel on this thread, with its part of a block's copy.
fn images<'a>(objects: &[Range<usize>], copy: &'a mut [u8]) -> impl Iterator<Item = (&'a mut [u8], &'a mut [u8])> {
    let mut rest = copy;
    objects.iter().map(move |object| {
        let (image, after) = std::mem::take(&mut rest).split_at_mut(object.len());
        rest = after;
        // SAFETY: thread-local storage of the loaded module, which only the executing thread uses, and nobody while the
        // scheduler runs.
        (unsafe { std::slice::from_raw_parts_mut(object.start as *mut u8, object.len()) }, image)
    })
}

/// Runs all threads of the current block up to the next barrier, or to their end.
fn advance() -> Result<Progress, Report> {
    let waves = current().block().wave_synchronisations.len() as u64;
    for wave in Order::new(waves, &mut current().random) {
        advance_wave(wave as u32)?;
    }
    let block = current().block();
    if block.done() == block.threads.len() {
        return Ok(Progress::Finished);
    }
    block.pass_barrier().map_err(|arrivals| describe::barrier_divergence(&arrivals))?;
    Ok(Progress::AtBarrier)
}

/// Runs a wave until all its lanes are at a barrier of the block or have returned.
fn advance_wave(wave: u32) -> Result<(), Report> {
    let (e, wave_size) = (current(), current().wave_size);
    let first = wave * wave_size;
    let lanes = wave_size.min(e.block().threads.len() as u32 - first);
    let done_before = e.block().done();
    if e.block().threads[first as usize].state == State::Fresh {
        start_wave(first, lanes)?;
    } else {
        resume_ready(first, lanes)?;
    }
    // The common case of a kernel without waits.
    if current().block().done() - done_before == lanes as usize {
        return Ok(());
    }
    let diverged = |divergence| describe::wave_divergence(first as usize, divergence);
    while current().block().exchange(wave, wave_size).map_err(diverged)? {
        resume_ready(first, lanes)?;
    }
    Ok(())
}

fn resume_ready(first: u32, lanes: u32) -> Result<(), Report> {
    for lane in Order::new(u64::from(lanes), &mut current().random) {
        let thread = first + lane as u32;
        if current().block().threads[thread as usize].state == State::Ready {
            resume(thread)?;
        }
    }
    Ok(())
}
