//! Threads on fibers: started, resumed, and suspended while they wait.

use super::check;
use super::engine::{Stopped, engine};
use super::fiber::{Fiber, Suspender};
use super::wave::Request;
use crate::random::Order;
use crate::report::Report;

/// Starts the threads of a wave of the current block in random order. Each runs until it waits or returns.
///
/// # Errors
/// The report of a fault.
pub(super) fn start_wave(first: u32, lanes: u32) -> Result<(), Report> {
    // SAFETY: the scheduler runs under `EXECUTING`.
    let e = unsafe { engine() };
    e.starting = (first, Order::new(u64::from(lanes), &mut e.random));
    loop {
        // SAFETY: as above; `run` switches fibers.
        let fiber = unsafe { engine() }.idle.pop().unwrap_or_else(|| Fiber::new(run_starting_threads));
        if run(fiber)? == Stopped::Idle {
            return Ok(());
        }
    }
}

/// Lets a thread of the current block go on that has waited.
///
/// # Errors
/// The report of a fault.
pub(super) fn resume(thread: u32) -> Result<(), Report> {
    // SAFETY: the scheduler runs under `EXECUTING`.
    let e = unsafe { engine() };
    let fiber = e.block().threads[thread as usize].fiber.take().expect("a thread that waits has a fiber");
    e.enter_thread(thread);
    run(fiber)?;
    Ok(())
}

/// Runs a fiber until its thread waits, which then owns it, or until it is idle.
fn run(mut fiber: Fiber) -> Result<Stopped, Report> {
    // SAFETY: the scheduler runs under `EXECUTING`; no reference is kept across the switch.
    let e = unsafe { engine() };
    e.checker.enter_stack(fiber.stack());
    e.stopped = Stopped::Idle;
    fiber.resume();
    // SAFETY: as above.
    let e = unsafe { engine() };
    if let Some(report) = e.fault.take() {
        return Err(report);
    }
    match e.stopped {
        Stopped::Waiting => e.block().threads[e.thread as usize].fiber = Some(fiber),
        Stopped::Idle => e.idle.push(fiber),
    }
    Ok(e.stopped)
}

/// What a fiber does: runs threads that have not started, one after another.
fn run_starting_threads(suspender: Suspender) {
    loop {
        // SAFETY: fibers run under `EXECUTING`; no reference is kept across the kernel's switches.
        let e = unsafe { engine() };
        e.suspender = suspender;
        let Some(lane) = e.starting.1.next() else { return };
        e.enter_thread(e.starting.0 + lane as u32);
        let (invoke, arguments) = (e.launch().function.kernel().invoke, e.arguments);
        // SAFETY: the arguments match the kernel's parameters: `Arguments` made sure.
        unsafe { invoke(arguments) };
        check::settle();
        // SAFETY: as above.
        let e = unsafe { engine() };
        e.block().finish(e.thread);
    }
}

/// Lets the running thread wait, and returns the result of what it waited for.
pub(super) fn wait(request: Request) -> u64 {
    check::settle();
    // SAFETY: called from a kernel; no reference is kept across the switch.
    let e = unsafe { engine() };
    e.block().wait(e.thread, request);
    e.stopped = Stopped::Waiting;
    let suspender = e.suspender;
    // SAFETY: the suspender is that of the running fiber.
    unsafe { (*suspender).suspend(()) };
    // SAFETY: as above.
    let e = unsafe { engine() };
    e.suspender = suspender;
    e.block().threads[e.thread as usize].result
}
