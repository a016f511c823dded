//! Fibers: the stacks on which the threads of a block run.

use std::ops::Range;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a stack; a guard page lies below it. Only touched pages take memory.
const STACK_BYTES: usize = 256 << 10;

/// Where a fiber suspends itself.
pub type Suspender = *const Yielder<(), ()>;

/// A coroutine that runs one thread after another. It is bound to a thread only while that thread waits.
pub struct Fiber {
    coroutine: Coroutine<(), (), (), DefaultStack>,
    stack: Range<usize>,
}

impl Fiber {
    /// A fiber that calls `work` each time it is resumed while idle.
    ///
    /// # Panics
    /// If the system gives no memory for a stack.
    pub fn new(work: fn(Suspender)) -> Self {
        let stack = DefaultStack::new(STACK_BYTES).expect("memory for the stack of a kernel's thread");
        let addresses = stack.limit().get()..stack.base().get();
        let coroutine = Coroutine::with_stack(stack, move |yielder, ()| {
            loop {
                work(yielder);
                yielder.suspend(());
            }
        });
        Self { coroutine, stack: addresses }
    }

    /// Runs until the fiber is suspended again, by a wait or because it is idle.
    pub fn resume(&mut self) {
        match self.coroutine.resume(()) {
            CoroutineResult::Yield(()) => {}
            CoroutineResult::Return(()) => unreachable!("a fiber loops for ever"),
        }
    }

    /// The addresses of its stack.
    pub fn stack(&self) -> Range<usize> {
        self.stack.clone()
    }
}

impl std::fmt::Debug for Fiber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fiber").field("stack", &self.stack).finish_non_exhaustive()
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        // SAFETY: the frames on the stack are a kernel's and those of `Fiber::new`; none of them owns anything.
        // Unwinding through the kernel's would need tables that they lack.
        unsafe { self.coroutine.force_reset() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fiber_goes_on_where_it_suspended_itself() {
        fn work(suspender: Suspender) {
            let local = 0u8;
            let place = (&raw const local).addr();
            LAST.set(LAST.get() + 1);
            PLACE.set(place);
            // SAFETY: that of the running fiber.
            unsafe { (*suspender).suspend(()) };
            LAST.set(LAST.get() + 10);
        }
        thread_local! {
            static LAST: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
            static PLACE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
        }
        let mut fiber = Fiber::new(work);
        let seen: Vec<_> = (0..4)
            .map(|_| {
                fiber.resume();
                LAST.get()
            })
            .collect();
        assert_eq!(seen, [1, 11, 12, 22]);
        assert!(fiber.stack().contains(&PLACE.get()) && fiber.stack().len() >= STACK_BYTES);
        assert_eq!(STACK_BYTES, 262_144);
        assert!(format!("{fiber:?}").starts_with("Fiber { stack: "));
    }
}
