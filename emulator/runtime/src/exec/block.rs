//! A block: its threads, their waits, its LDS.

use std::ops::Range;

use super::describe;
use super::fiber::Fiber;
use super::lds::Touches;
use super::wave::{self, Lane, Request};
use crate::memory::POISON;
use crate::module::abi::Barrier;
use crate::report::Report;

/// How far a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started.
    Fresh,
    /// Waits for what its request says.
    Waiting,
    /// Has what it waited for.
    Ready,
    /// Has returned.
    Done,
}

/// A thread of a block.
#[derive(Debug)]
pub struct Thread {
    pub state: State,
    pub request: Option<Request>,
    /// Of what it waited for.
    pub result: u64,
    /// Its stack while it waits.
    pub fiber: Option<Fiber>,
}

/// Bytes that are aligned for every type.
#[derive(Debug)]
pub struct Aligned {
    storage: Vec<u128>,
    bytes: usize,
}

impl Aligned {
    fn new(bytes: usize) -> Self {
        Self { storage: vec![0; bytes.div_ceil(size_of::<u128>())], bytes }
    }

    fn poison(&mut self) {
        self.storage.fill(u128::from_ne_bytes([POISON; 16]));
    }

    /// Their addresses.
    pub fn addresses(&mut self) -> Range<usize> {
        let start = self.storage.as_mut_ptr() as usize;
        start..start + self.bytes
    }
}

/// A block that runs, or rests at a barrier while another one runs.
#[derive(Debug)]
pub struct Block {
    /// `blockIdx`.
    pub index: [u32; 3],
    /// The same, counted within the grid.
    pub number: u64,
    pub threads: Vec<Thread>,
    done: usize,
    /// Barriers passed.
    pub barriers: u32,
    /// `__syncwarp`s passed by each wave.
    pub wave_synchronisations: Vec<u32>,
    /// Whether a thread has used an atomic on device memory: it may have learnt what other blocks have done.
    pub has_used_atomics: bool,
    /// The module's static LDS while another block runs.
    pub static_lds: Vec<u8>,
    pub dynamic_lds: Aligned,
    /// Who touched each byte of the static, then of the dynamic LDS.
    pub touches: Touches,
}

impl Block {
    /// A block with nothing in it; `begin` fills it.
    pub fn new(static_bytes: usize, dynamic_bytes: usize) -> Self {
        Self {
            index: [0; 3],
            number: 0,
            threads: Vec::new(),
            done: 0,
            barriers: 0,
            wave_synchronisations: Vec::new(),
            has_used_atomics: false,
            static_lds: vec![POISON; static_bytes],
            dynamic_lds: Aligned::new(dynamic_bytes),
            touches: Touches::default(),
        }
    }

    /// Starts over as another block, all threads fresh, its LDS poisoned.
    pub fn begin(&mut self, index: [u32; 3], number: u64, threads: usize, wave_size: u32, checked: bool) {
        (self.index, self.number) = (index, number);
        self.threads.resize_with(threads, || Thread { state: State::Fresh, request: None, result: 0, fiber: None });
        self.threads.iter_mut().for_each(|thread| thread.state = State::Fresh);
        (self.done, self.barriers, self.has_used_atomics) = (0, 0, false);
        self.wave_synchronisations.clear();
        self.wave_synchronisations.resize(threads.div_ceil(wave_size as usize), 0);
        self.static_lds.fill(POISON);
        self.dynamic_lds.poison();
        if checked {
            self.touches.reset(self.static_lds.len() + self.dynamic_lds.bytes);
        }
    }

    /// Notes that a thread has returned.
    pub fn finish(&mut self, thread: u32) {
        self.threads[thread as usize].state = State::Done;
        self.done += 1;
    }

    /// Notes that a thread waits.
    pub fn wait(&mut self, thread: u32, request: Request) {
        let thread = &mut self.threads[thread as usize];
        thread.state = State::Waiting;
        thread.request = Some(request);
    }

    /// How many threads have returned.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Gives the lanes of a wave that wait for each other what they wait for; false if none does.
    ///
    /// # Errors
    /// The report of a divergence.
    pub fn exchange(&mut self, wave: u32, wave_size: u32) -> Result<bool, Report> {
        let first = (wave * wave_size) as usize;
        let end = self.threads.len().min(first + wave_size as usize);
        let threads = &self.threads[first..end];
        let lanes: Vec<_> = threads
            .iter()
            .map(|thread| match (thread.state, thread.request) {
                (State::Waiting, Some(request)) => Lane::At(request),
                _ => Lane::Gone,
            })
            .collect();
        let results = wave::resolve(&lanes, wave_size as usize)
            .map_err(|divergence| describe::wave_divergence(first, divergence))?;
        if results.is_empty() {
            return Ok(false);
        }
        if lanes.iter().any(|lane| lane.synchronizes()) {
            self.wave_synchronisations[wave as usize] += 1;
        }
        for (lane, result) in results {
            self.release(first + lane, result);
        }
        Ok(true)
    }

    /// Lets all threads pass the barrier at which they wait.
    ///
    /// # Errors
    /// The report of a divergence.
    pub fn pass_barrier(&mut self) -> Result<(), Report> {
        let at = |thread: &Thread| match (thread.state, thread.request) {
            (State::Waiting, Some(Request::Barrier { kind, predicate, line })) => Some((kind, predicate, line)),
            _ => None,
        };
        let arrivals: Vec<_> = self.threads.iter().map(at).collect();
        let first = arrivals.iter().flatten().next().expect("a block that is not finished waits");
        let place = |&(kind, _, line): &(Barrier, bool, u32)| (kind, line);
        if arrivals.iter().any(|arrival| arrival.as_ref().map(place) != Some(place(first))) {
            return Err(describe::barrier_divergence(&arrivals));
        }
        let (kind, _, _) = *first;
        let count = arrivals.iter().flatten().filter(|(_, predicate, _)| *predicate).count();
        let result = match kind {
            Barrier::Plain => 0,
            Barrier::Count => count,
            Barrier::Conjunction => usize::from(count == arrivals.len()),
            Barrier::Disjunction => usize::from(count > 0),
        };
        self.barriers += 1;
        for thread in 0..self.threads.len() {
            self.release(thread, result as u64);
        }
        Ok(())
    }

    fn release(&mut self, thread: usize, result: u64) {
        let thread = &mut self.threads[thread];
        thread.state = State::Ready;
        thread.result = result;
    }
}
