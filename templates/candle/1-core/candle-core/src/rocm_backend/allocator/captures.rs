//! Which blocks graphs use. Bookkeeping only: nothing here calls HIP.
//!
//! A graph's work has the addresses that it had when it was captured. So a block that was allocated or given back during
//! the capture, or used in it, is nobody else's as long as the graph exists, which would overwrite what is put there.
use super::pool::{Block, Pool};
use super::Deferred;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Captures {
    /// The graph whose work is captured now.
    current: Option<usize>,
    /// How many there have been.
    graphs: usize,
    /// The graphs that use a block, by its address.
    users: BTreeMap<usize, Vec<usize>>,
    /// The blocks that were allocated for the graph being captured. What lies in others has to stay there from launch to
    /// launch.
    own: BTreeSet<usize>,
    /// The blocks that only graphs have, by address.
    kept: BTreeMap<usize, Deferred>,
}

impl Captures {
    /// Begins a graph. None if one is captured already.
    pub(super) fn begin(&mut self) -> Option<usize> {
        if self.current.is_some() {
            return None;
        }
        self.graphs += 1;
        self.own.clear();
        self.current = Some(self.graphs);
        self.current
    }

    /// Nothing is captured any more.
    pub(super) fn end(&mut self) {
        self.current = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// A block for `size` bytes that was allocated for the graph being captured, and that it does not need any more.
    pub(super) fn reuse(&mut self, size: usize, pool: &Pool) -> Option<Block> {
        self.current?;
        let fits = |(address, kept): &(&usize, &Deferred)| {
            self.own.contains(address) && kept.readers.is_empty() && pool.suits(&kept.block, size)
        };
        let kept = self.kept.iter().filter(fits);
        let (&address, _) = kept.min_by_key(|(_, kept)| pool.size_of(&kept.block))?;
        self.kept.remove(&address).map(|kept| kept.block)
    }

    /// A block is allocated for the graph being captured.
    pub(super) fn allocated(&mut self, block: &Block) {
        self.note(block);
        self.own.insert(block.address());
    }

    /// The graph being captured uses a block.
    pub(super) fn note(&mut self, block: &Block) {
        if let Some(current) = self.current {
            let users = self.users.entry(block.address()).or_default();
            if !users.contains(&current) {
                users.push(current);
            }
        }
    }

    /// Keeps a block that is given back if a graph uses it, else returns it.
    pub(super) fn keep(&mut self, given: Deferred) -> Option<Deferred> {
        self.note(&given.block);
        let address = given.block.address();
        if !self.users.contains_key(&address) {
            return Some(given);
        }
        self.kept.insert(address, given);
        None
    }

    /// A graph has ended: the blocks that nobody has any more.
    pub(super) fn forget(&mut self, graph: usize) -> Vec<Deferred> {
        if self.current == Some(graph) {
            self.end();
        }
        self.users.retain(|_, users| {
            users.retain(|user| *user != graph);
            !users.is_empty()
        });
        let unused = |address: &&usize| !self.users.contains_key(address);
        let addresses: Vec<_> = self.kept.keys().filter(unused).copied().collect();
        let mut kept = addresses
            .iter()
            .map(|address| self.kept.remove(address))
            .collect::<Vec<_>>();
        kept.drain(..).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::Policy;
    use super::*;

    fn given(block: Block) -> Deferred {
        Deferred {
            block,
            readers: Vec::new(),
        }
    }

    /// A pool with a segment of 2 MiB, and blocks of it.
    fn blocks(sizes: &[usize]) -> (Pool, Vec<Block>) {
        let mut pool = Pool::new(Policy::Caching);
        let bytes = pool.reserve(512).expect("there is no limit");
        let first = pool.add(1 << 20, bytes, 512);
        pool.give(first);
        let taken = sizes.iter().map(|size| pool.take(*size)).collect();
        (pool, Option::expect(taken, "there is room"))
    }

    fn addresses(kept: &[Deferred]) -> Vec<usize> {
        kept.iter().map(|kept| kept.block.address()).collect()
    }

    #[test]
    fn outside_of_captures_nothing_is_kept() {
        let (_, mut taken) = blocks(&[512]);
        let mut captures = Captures::default();
        let block = taken.remove(0);
        let address = block.address();
        captures.note(&block);
        let back = captures.keep(given(block)).expect("no graph uses it");
        assert_eq!(back.block.address(), address);
    }

    #[test]
    fn a_graph_uses_its_own_blocks_again_and_others_do_not() {
        let (pool, mut taken) = blocks(&[4096, 1024, 512]);
        let mut captures = Captures::default();
        let graph = captures.begin().expect("none is captured");
        assert!(captures.begin().is_none() && captures.is_open());
        let small = taken[2].address();
        for block in taken.drain(..) {
            captures.allocated(&block);
            assert!(captures.keep(given(block)).is_none());
        }
        // The smallest that is large enough, and none that is far too large.
        let again = captures.reuse(300, &pool).expect("it is kept");
        assert_eq!(again.address(), small);
        assert_eq!(
            captures.reuse(1400, &pool).map(|block| block.address()),
            None
        );
        let large = captures.reuse(3000, &pool).expect("it is kept");
        captures.end();
        // What is given back after the capture stays the graph's too.
        assert!(captures.keep(given(again)).is_none());
        let other = captures.begin().expect("none is captured");
        assert!(captures.reuse(300, &pool).is_none() && captures.reuse(1024, &pool).is_none());
        captures.end();
        assert!(captures.forget(other).is_empty());
        assert_eq!(captures.forget(graph).len(), 2);
        assert!(captures.keep(given(large)).is_some(), "its graph has ended");
    }

    #[test]
    fn what_was_there_before_a_capture_stays_as_it_is() {
        let (pool, mut taken) = blocks(&[512]);
        let mut captures = Captures::default();
        let graph = captures.begin().expect("none is captured");
        let block = taken.remove(0);
        let address = block.address();
        captures.note(&block);
        assert!(captures.keep(given(block)).is_none());
        assert!(captures.reuse(512, &pool).is_none());
        assert_eq!(addresses(&captures.forget(graph)), [address]);
    }

    #[test]
    fn a_block_of_two_graphs_is_kept_for_the_last() {
        let (_, mut taken) = blocks(&[512]);
        let mut captures = Captures::default();
        let block = taken.remove(0);
        let address = block.address();
        let first = captures.begin().expect("none is captured");
        captures.note(&block);
        captures.note(&block);
        captures.end();
        let second = captures.begin().expect("none is captured");
        assert!(captures.keep(given(block)).is_none());
        assert!(captures.forget(first).is_empty());
        assert!(captures.is_open());
        assert_eq!(addresses(&captures.forget(second)), [address]);
        assert!(!captures.is_open() && captures.users.is_empty());
    }
}
