//! The emulated machine: devices, their memory and streams, behind one lock; and the driver that does queued work.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, Once};
use std::thread;
use std::time::Duration;

use crate::capture::Captures;
use crate::error::{HipError, HipResult};
use crate::memory::{Memory, guard};
use crate::queue::{self, MAX_BACKLOG, Queues, StreamId, Work};
use crate::random::Random;
use crate::settings::settings;

/// All state but that of a running kernel.
#[derive(Debug)]
pub struct Machine {
    /// Allocations.
    pub memory: Memory,
    /// Streams.
    pub queues: Queues,
    /// Streams whose work is recorded instead.
    pub captures: Captures,
    /// The fault of each device; it stays until the process ends or a test resets it.
    pub faults: Vec<Option<HipError>>,
    /// Devices whose memory each device may use, one bit each.
    pub peers: Vec<u64>,
    /// Memory outside of the arena that devices may use in place, by first address: registered host memory, and
    /// variables of modules.
    pub pinned: BTreeMap<usize, usize>,
    /// The blocks that launches run from now on, counted within the grid; all if there are none.
    pub only_blocks: Arc<[u64]>,
}

static MACHINE: LazyLock<Mutex<Machine>> = LazyLock::new(|| {
    let devices = settings().devices.len();
    Mutex::new(Machine {
        memory: Memory::default(),
        queues: Queues::new(devices, Random::new(settings().seed)),
        captures: Captures::default(),
        faults: vec![None; devices],
        peers: (0..devices).map(|device| 1 << device).collect(),
        pinned: BTreeMap::new(),
        only_blocks: Arc::default(),
    })
});

/// Announces that a piece of work is done.
static PROGRESS: Condvar = Condvar::new();

thread_local! {
    static CURRENT_DEVICE: Cell<usize> = const { Cell::new(0) };
}

/// The machine, for a short time: never while work is done.
pub fn lock() -> MutexGuard<'static, Machine> {
    MACHINE.lock().expect("no panic while the machine is held")
}

/// The calling thread's device.
pub fn current_device() -> usize {
    CURRENT_DEVICE.get()
}

/// Sets the calling thread's device.
///
/// # Errors
/// `hipErrorInvalidDevice` if there is none of that number.
pub fn set_current_device(device: usize) -> HipResult {
    if device >= settings().devices.len() {
        return Err(HipError::INVALID_DEVICE);
    }
    CURRENT_DEVICE.set(device);
    Ok(())
}

impl Machine {
    /// First address and length of the pinned range that holds an address.
    pub fn pinned_around(&self, address: usize) -> Option<(usize, usize)> {
        let (&start, &length) = self.pinned.range(..=address).next_back()?;
        (address - start < length).then_some((start, length))
    }

    /// The device's fault as an error.
    ///
    /// # Errors
    /// The code with which a kernel failed on that device.
    pub fn healthy(&self, device: usize) -> HipResult {
        self.faults[device].map_or(Ok(()), Err)
    }
}

/// Adds work to a stream; does some if the stream has too much.
///
/// # Errors
/// `hipErrorInvalidHandle` if there is no such stream, the device's fault if it has one, what captures say.
pub fn enqueue(stream: StreamId, work: Work) -> HipResult {
    let mut machine = lock();
    let device = machine.queues.device_of(stream).ok_or(HipError::INVALID_HANDLE)?;
    machine.healthy(device)?;
    let Some(work) = machine.captures.record(stream, work)? else { return Ok(()) };
    machine.queues.enqueue(stream, work);
    let full = machine.queues.backlog(stream) >= MAX_BACKLOG;
    drop(machine);
    if full {
        drive(|machine| machine.queues.backlog(stream) <= MAX_BACKLOG / 2);
    }
    Ok(())
}

/// Waits until a stream has done all that it has now.
///
/// # Errors
/// As [`enqueue`].
pub fn synchronize_stream(stream: StreamId) -> HipResult {
    let mut machine = lock();
    machine.captures.ask(|captured, _| captured == stream)?;
    let device = machine.queues.device_of(stream).ok_or(HipError::INVALID_HANDLE)?;
    let place = machine.queues.last_place();
    drop(machine);
    drive(|machine| machine.queues.is_past(stream, place));
    lock().healthy(device)
}

/// Waits until all streams of a device have done all that they have now.
///
/// # Errors
/// The device's fault if it has one, what captures say.
pub fn synchronize_device(device: usize) -> HipResult {
    lock().captures.ask(|_, captured| captured == device)?;
    finish_device(device)
}

/// As [`synchronize_device`], without regard to streams that are captured.
///
/// # Errors
/// The device's fault if it has one.
pub fn finish_device(device: usize) -> HipResult {
    let place = lock().queues.last_place();
    drive(|machine| machine.queues.is_device_past(device, place));
    lock().healthy(device)
}

/// Does queued work, of whatever stream the seed says, until a condition holds that some of it brings about.
pub fn drive(until: impl Fn(&Machine) -> bool) {
    let _inside = guard::enter();
    let mut machine = lock();
    while !until(&machine) {
        if let Some((stream, work)) = machine.queues.take() {
            machine = do_outside(machine, stream, work);
        } else {
            // All that may run is being done by other threads, or has to come from outside.
            let somebody_will = machine.queues.is_busy() || machine.queues.expects_others();
            assert!(somebody_will, "queued work waits for something that nobody will do");
            machine = PROGRESS.wait(machine).expect("no panic while the machine is held");
        }
    }
}

/// Does one piece of queued work if there is any that may run. Returns whether there was.
pub fn step() -> bool {
    let _inside = guard::enter();
    let mut machine = lock();
    let taken = machine.queues.take();
    let some = taken.is_some();
    if let Some((stream, work)) = taken {
        drop(do_outside(machine, stream, work));
    }
    some
}

/// Does something to the machine while no work is being done.
pub fn at_rest<T>(body: impl FnOnce(&mut Machine) -> T) -> T {
    let machine = PROGRESS.wait_while(lock(), |machine| machine.queues.is_busy());
    body(&mut machine.expect("no panic while the machine is held"))
}

/// Lets threads that wait for work look again at what comes from outside of the machine.
pub fn wake() {
    drop(lock());
    PROGRESS.notify_all();
}

/// How long queued work is left alone before it is done although nobody waits for it.
const IDLE: Duration = Duration::from_millis(10);

/// From now on queued work is done even if nobody in this process waits for it: another process may.
pub fn run_by_itself() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        thread::spawn(|| {
            loop {
                thread::sleep(IDLE);
                while step() {}
            }
        });
    });
}

fn do_outside(machine: MutexGuard<'static, Machine>, stream: StreamId, work: Work) -> MutexGuard<'static, Machine> {
    let device = machine.queues.device_of(stream);
    drop(machine);
    let outcome = queue::perform(work);
    let mut machine = lock();
    machine.queues.finish(stream);
    if let (Err(report), Some(device)) = (outcome, device) {
        report.publish();
        machine.faults[device] = Some(report.code);
        machine.queues.abandon(device);
    }
    PROGRESS.notify_all();
    machine
}

/// The allocation nearest to an access, in words; none if there is no allocation at all.
pub fn nearest_allocation(address: usize, bytes: usize) -> Option<String> {
    nearest_in(&lock(), address, bytes)
}

/// As [`nearest_allocation`], in a signal handler: none too if the machine is held.
pub fn nearest_allocation_now(address: usize) -> Option<String> {
    nearest_in(&*MACHINE.try_lock().ok()?, address, 1)
}

fn nearest_in(machine: &Machine, address: usize, bytes: usize) -> Option<String> {
    let (allocation, freed) = machine.memory.nearest(address)?;
    let end = allocation.start + allocation.size;
    let whereabouts = if address + bytes <= allocation.start {
        format!("{} bytes before", allocation.start - address)
    } else if address >= end {
        format!("{} bytes past the end of", address - end)
    } else if address + bytes > end {
        format!("{} bytes of it past the end of", address + bytes - end)
    } else if address < allocation.start {
        format!("{} bytes of it before", allocation.start - address)
    } else {
        format!("at offset {} of", address - allocation.start)
    };
    let fate = if freed { ", which was freed" } else { "" };
    Some(format!(
        "{whereabouts} allocation {} of {} bytes at {:#x}{fate}",
        allocation.number, allocation.size, allocation.start
    ))
}

/// Whether a range outside of the arena is pinned, so that devices may use it.
pub fn is_pinned(address: usize, bytes: usize) -> bool {
    lock().pinned_around(address).is_some_and(|(start, length)| address + bytes <= start + length)
}

/// Lets launches from now on run only these blocks of their grids; all again if there are none.
pub fn run_only(mut blocks: Vec<u64>) {
    blocks.sort_unstable();
    blocks.dedup();
    lock().only_blocks = blocks.into();
}

/// Clears the faults of all devices and what was reported; launches run all of their blocks again.
pub fn reset() {
    run_only(Vec::new());
    lock().faults.fill(None);
    crate::report::forget_reports();
}
