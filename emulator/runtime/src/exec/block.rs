//! A block: its threads, their waits, its LDS.

use std::ops::Range;

use super::fiber::Fiber;
use super::lds::Touches;
use super::wave::{self, Divergence, Exchange, Request};
use crate::memory::POISON;
use crate::module::abi::{Barrier, CrossLane};

/// Lanes of the widest wave.
const MAX_WAVE: usize = 64;

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

impl Thread {
    /// What it asks the lanes of its wave, if it waits for them.
    fn exchange(&self) -> Option<&Exchange> {
        match (self.state, &self.request) {
            (State::Waiting, Some(Request::CrossLane(exchange))) => Some(exchange),
            _ => None,
        }
    }
}

/// At which barrier a thread waits, what it votes there, and at which line; nothing for one that has returned.
pub type Arrival = Option<(Barrier, bool, u32)>;

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
    /// What keeps them apart.
    pub fn exchange(&mut self, wave: u32, wave_size: u32) -> Result<bool, Divergence> {
        let first = (wave * wave_size) as usize;
        let end = self.threads.len().min(first + wave_size as usize);
        let mut lanes = [None; MAX_WAVE];
        for (lane, thread) in lanes.iter_mut().zip(&self.threads[first..end]) {
            *lane = thread.exchange();
        }
        let results = wave::resolve(&lanes[..end - first], wave_size as usize)?;
        let Some(&(lane, _)) = results.first() else { return Ok(false) };
        // All of them ask for the same.
        if lanes[lane].is_some_and(|asked| asked.operation == CrossLane::Synchronize) {
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
    /// Where each thread waits, if they are at different ones or some have returned.
    pub fn pass_barrier(&mut self) -> Result<(), Vec<Arrival>> {
        let at = |thread: &Thread| match (thread.state, thread.request) {
            (State::Waiting, Some(Request::Barrier { kind, predicate, line })) => Some((kind, predicate, line)),
            _ => None,
        };
        let arrivals: Vec<_> = self.threads.iter().map(at).collect();
        let first = arrivals.iter().flatten().next().expect("a block that is not finished waits");
        let place = |&(kind, _, line): &(Barrier, bool, u32)| (kind, line);
        if arrivals.iter().any(|arrival| arrival.as_ref().map(place) != Some(place(first))) {
            return Err(arrivals);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(threads: usize) -> Block {
        let mut block = Block::new(3, 40);
        block.begin([0; 3], 0, threads, 4, true);
        block
    }

    fn at(operation: CrossLane, value: u64) -> Request {
        Request::CrossLane(Exchange { operation, value, operand: 0, width: 0, mask: u64::MAX, line: 1 })
    }

    fn states(block: &Block) -> Vec<State> {
        block.threads.iter().map(|thread| thread.state).collect()
    }

    fn dynamic(block: &mut Block) -> &mut [u8] {
        let addresses = block.dynamic_lds.addresses();
        // SAFETY: the block's own bytes.
        unsafe { std::slice::from_raw_parts_mut(addresses.start as *mut u8, addresses.len()) }
    }

    #[test]
    fn a_block_that_begins_again_has_nothing_of_the_last_one() {
        let mut block = begun(6);
        assert_eq!((dynamic(&mut block).len(), block.wave_synchronisations.len()), (40, 2));
        block.static_lds.fill(1);
        dynamic(&mut block).fill(2);
        (block.barriers, block.has_used_atomics) = (5, true);
        block.wave_synchronisations[1] = 3;
        (0..6).for_each(|thread| block.finish(thread));
        assert_eq!((block.done(), states(&block)), (6, vec![State::Done; 6]));
        block.begin([7, 8, 9], 11, 9, 4, true);
        assert_eq!((block.index, block.number, block.done(), block.barriers), ([7, 8, 9], 11, 0, 0));
        assert_eq!((states(&block), block.has_used_atomics), (vec![State::Fresh; 9], false));
        assert_eq!((&block.static_lds[..], &block.wave_synchronisations[..]), (&[POISON; 3][..], &[0; 3][..]));
        assert_eq!(dynamic(&mut block), [POISON; 40]);
        assert_eq!((block.touches.writes.len(), block.touches.reads.len()), (43, 43));
    }

    #[test]
    fn lanes_of_one_wave_get_what_they_wait_for() {
        let mut block = begun(7);
        (4..7).for_each(|thread| block.wait(thread, at(CrossLane::Ballot, u64::from(thread != 5))));
        block.wait(0, Request::Barrier { kind: Barrier::Plain, predicate: false, line: 2 });
        assert!(!block.exchange(0, 4).unwrap());
        assert!(block.exchange(1, 4).unwrap());
        use State::{Fresh, Ready, Waiting};
        assert_eq!(states(&block), [Waiting, Fresh, Fresh, Fresh, Ready, Ready, Ready]);
        assert_eq!((4..7).map(|thread| block.threads[thread].result).collect::<Vec<_>>(), [0b101; 3]);
        assert_eq!(block.wave_synchronisations, [0, 0]);
        block.wait(6, at(CrossLane::Synchronize, 0));
        assert!(block.exchange(1, 4).unwrap());
        assert_eq!((block.wave_synchronisations.clone(), block.threads[6].result), (vec![0, 1], 0));
        assert!(!block.exchange(1, 4).unwrap());
    }

    #[test]
    fn a_barrier_gives_all_threads_what_they_voted() {
        for (kind, votes, result) in [
            (Barrier::Plain, [true, true, true], 0),
            (Barrier::Count, [true, false, true], 2),
            (Barrier::Conjunction, [true, true, true], 1),
            (Barrier::Conjunction, [true, false, true], 0),
            (Barrier::Disjunction, [false, false, true], 1),
            (Barrier::Disjunction, [true, true, true], 1),
            (Barrier::Disjunction, [false, false, false], 0),
        ] {
            let mut block = begun(3);
            for (thread, predicate) in (0..).zip(votes) {
                block.wait(thread, Request::Barrier { kind, predicate, line: 3 });
            }
            block.pass_barrier().unwrap();
            assert_eq!((states(&block), block.barriers), (vec![State::Ready; 3], 1));
            assert!(block.threads.iter().all(|thread| thread.result == result), "{kind:?} {votes:?}");
        }
    }
}
