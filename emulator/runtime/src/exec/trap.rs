//! Signals that a kernel raises, turned into reports: unchecked accesses, stack overflow, integer division by zero.

use std::cell::OnceCell;
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::{mem, ptr};

use super::access::Trap;
use super::engine::{engine, fail};
use super::{describe, host_access};
use crate::memory::guard::{self, Touch};

const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// Bytes at the lowest end of a stack that fault: its guard page.
const GUARD: usize = 4096;
/// Bytes at the end of a stack that hold the way back to the scheduler.
const KEPT: usize = 4096;

/// The bit of the processor's error code that tells writes from reads (Intel SDM, volume 3, page-fault exception).
const WRITES: i64 = 2;

thread_local! {
    /// The handler cannot run on the stack of a kernel that has none left.
    static HANDLER_STACK: OnceCell<Vec<u8>> = const { OnceCell::new() };
}

/// Makes the calling thread ready to use device memory and to run kernels, which raise signals.
pub fn install() {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        for signal in SIGNALS {
            // SAFETY: a handler with the signature that the flags promise; all fields are valid as zeros.
            unsafe {
                let mut action: libc::sigaction = mem::zeroed();
                action.sa_sigaction = handler as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(signal, &raw const action, PREVIOUS[slot(signal)].get());
            }
        }
    });
    HANDLER_STACK.with(|stack| {
        stack.get_or_init(|| {
            let mut memory = vec![0u8; 64 << 10];
            let description = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
            // SAFETY: the memory lives as long as the thread.
            unsafe { libc::sigaltstack(&raw const description, ptr::null_mut()) };
            memory
        });
    });
}

struct Previous(std::cell::UnsafeCell<mem::MaybeUninit<libc::sigaction>>);
// SAFETY: written once by `install`, before any handler can read it.
unsafe impl Sync for Previous {}

impl Previous {
    fn get(&self) -> *mut libc::sigaction {
        self.0.get().cast()
    }
}

static PREVIOUS: [Previous; SIGNALS.len()] =
    [const { Previous(std::cell::UnsafeCell::new(mem::MaybeUninit::zeroed())) }; SIGNALS.len()];

fn slot(signal: c_int) -> usize {
    SIGNALS.iter().position(|known| *known == signal).unwrap_or_default()
}

extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: valid for these signals.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: the system passes a valid context, and the engine is only looked at.
    let (context, e) = unsafe { (&mut *context.cast::<libc::ucontext_t>(), engine()) };
    let registers = &mut context.uc_mcontext.gregs;
    let touch = if signal == libc::SIGSEGV { guard::touch(address) } else { Touch::Elsewhere };
    match touch {
        Touch::Allowed => return,
        Touch::ByHost => host_access::report(address, registers[libc::REG_ERR as usize] & WRITES != 0),
        Touch::Elsewhere => {}
    }
    let stack_pointer = registers[libc::REG_RSP as usize] as usize;
    let stack = e.checker.stack();
    if touch == Touch::ByHost || !stack.contains(&stack_pointer) {
        // Not a kernel's: whoever handled such signals before shall see it when the instruction runs again.
        // SAFETY: `install` has stored the previous action.
        unsafe { libc::sigaction(signal, PREVIOUS[slot(signal)].get(), ptr::null_mut()) };
        return;
    }
    let instruction = registers[libc::REG_RIP as usize] as usize;
    let overflow = (stack.start..stack.start + GUARD).contains(&address);
    e.trap = Some(Trap { signal, address, instruction, overflow });
    // The thread goes on in `landing` and never returns to its kernel, whose frames may be overwritten.
    registers[libc::REG_RIP as usize] = landing as extern "C" fn() -> ! as usize as i64;
    let room = if overflow { stack.end - KEPT } else { stack_pointer - 256 };
    registers[libc::REG_RSP as usize] = (room / 16 * 16 - 8) as i64;
}

extern "C" fn landing() -> ! {
    // SAFETY: on the stack of the running kernel.
    let trap = unsafe { engine() }.trap.take().expect("the handler has set it");
    fail(describe::trap(&trap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_has_a_place_for_who_handled_it_before() {
        assert_eq!(SIGNALS.map(slot), [0, 1, 2, 3]);
    }
}
