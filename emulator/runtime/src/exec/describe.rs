//! Reports in words: what happened, in which kernel, block and thread, to which memory, at which line.

use std::ops::Range;
use std::process::Command;

use super::access::{Access, Earlier, Kind, Site, Trap};
use super::block::Arrival;
use super::engine::{Engine, engine};
use super::wave::{Divergence, Exchange};
use crate::error::HipError;
use crate::memory::{Arena, MARGIN};
use crate::module::abi::{Barrier, CrossLane};
use crate::report::{Report, ranges};
use crate::{machine, report};

fn current() -> &'static Engine {
    // SAFETY: reports are made by the thread that executes a kernel.
    unsafe { engine() }
}

fn triple([x, y, z]: [u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

/// "kernel `k`, block (0, 0, 0)".
fn kernel_and_block() -> String {
    let e = current();
    format!("kernel `{}`, block {}", e.launch().function.kernel().name, triple(e.block().index))
}

fn report(code: HipError, access: &Access, what: &str) -> Report {
    let e = current();
    let thread = triple(e.thread_index(e.thread));
    Report { code, text: format!("{}, thread {thread}: {what}{}", kernel_and_block(), source(access.site)) }
}

/// " (softmax.hip:12)", or nothing if the module does not say.
fn source(site: Site) -> String {
    match site {
        Site::Line(line) => format!(" (line {line})"),
        Site::Code(address) => {
            let (image, base) = current().launch().function.module.image();
            // The return address is that of the next instruction.
            let offset = format!("{:#x}", address.wrapping_sub(base).wrapping_sub(1));
            let output = Command::new("addr2line").args(["-s", "-e", image, &offset]).output();
            output.map_or(String::new(), |output| place(&String::from_utf8_lossy(&output.stdout)))
        }
    }
}

/// " (softmax.hip:12)" for what addr2line says, or nothing if it does not know.
fn place(answer: &str) -> String {
    match answer.trim().split(" (discriminator").next() {
        Some("") | None => String::new(),
        Some(unknown) if unknown.starts_with("??") => String::new(),
        Some(known) => format!(" ({known})"),
    }
}

fn verb(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Atomic => "atomic operation",
    }
}

fn access_in_words(access: &Access) -> String {
    let plural = if access.bytes == 1 { "" } else { "s" };
    let preposition = if access.kind == Kind::Write { "to" } else { "of" };
    format!("{} {preposition} {} byte{plural} at {:#x}", verb(access.kind), access.bytes, access.address)
}

/// An access to device memory that belongs to no live allocation.
pub fn invalid_address(access: &Access) -> Report {
    let whereabouts = machine::nearest_allocation(access.address, access.bytes)
        .unwrap_or_else(|| "there is no allocation".to_owned());
    report(HipError::ILLEGAL_ADDRESS, access, &format!("invalid {}: {whereabouts}", access_in_words(access)))
}

/// An access to an address that the type cannot have. GPUs refuse it, round the address or take longer.
pub fn misaligned(access: &Access) -> Report {
    report(HipError::LAUNCH_FAILURE, access, &format!("misaligned {}", access_in_words(access)))
}

/// An access to the memory of another device without peer access.
pub fn unreachable_device(access: &Access, segment: usize) -> Report {
    let what = format!(
        "invalid {}: memory of device {segment}, to which the kernel's device has no peer access",
        access_in_words(access)
    );
    report(HipError::ILLEGAL_ADDRESS, access, &what)
}

/// An access to an address that no thread of the device may use; `lds` are the objects of the block.
pub fn nowhere(access: &Access, lds: impl Iterator<Item = Range<usize>>) -> Report {
    let distance = |object: &Range<usize>| {
        object.start.saturating_sub(access.address).max((access.address + access.bytes).saturating_sub(object.end))
    };
    let nearest =
        lds.filter(|object| !object.is_empty()).min_by_key(distance).filter(|object| distance(object) < MARGIN);
    let whereabouts = match nearest {
        _ if access.address < 4096 => "a null pointer".to_owned(),
        Some(object) if access.address >= object.end => {
            format!("{} bytes past the end of {} bytes of LDS", access.address - object.end, object.len())
        }
        Some(object) if access.address >= object.start => {
            format!("its end lies past that of {} bytes of LDS", object.len())
        }
        Some(object) => format!("{} bytes before {} bytes of LDS", object.start - access.address, object.len()),
        None => "no memory of a device, nor LDS, nor the thread's own stack; is it a host pointer?".to_owned(),
    };
    report(HipError::ILLEGAL_ADDRESS, access, &format!("invalid {}: {whereabouts}", access_in_words(access)))
}

/// A signal that the kernel raised.
pub fn trap(trap: &Trap) -> Report {
    let (code, what) = match trap.signal {
        _ if trap.overflow => (HipError::LAUNCH_FAILURE, "its stack is full: is there a recursion?".to_owned()),
        libc::SIGFPE => (HipError::LAUNCH_FAILURE, "integer division by zero, whose result is undefined".to_owned()),
        libc::SIGILL => (HipError::LAUNCH_FAILURE, "it reached code that cannot be reached".to_owned()),
        _ => (HipError::ILLEGAL_ADDRESS, format!("invalid access to {:#x}", trap.address)),
    };
    let e = current();
    let thread = triple(e.thread_index(e.thread));
    let site = source(Site::Code(trap.instruction + 1));
    Report { code, text: format!("{}, thread {thread}: {what}{site}", kernel_and_block()) }
}

/// A read of bytes that nobody has written.
pub fn uninitialized(access: &Access) -> Report {
    let whereabouts = if Arena::get().contains(access.address) {
        machine::nearest_allocation(access.address, access.bytes).unwrap_or_default()
    } else {
        "LDS".to_owned()
    };
    report(HipError::LAUNCH_FAILURE, access, &format!("uninitialised {}: {whereabouts}", access_in_words(access)))
}

/// Two accesses without an order between them.
pub fn race(access: &Access, earlier: Earlier) -> Report {
    let e = current();
    let (memory, who, did) = match earlier {
        Earlier::Device(write) => {
            let [width, height, _] = e.launch().grid.map(u64::from);
            let number = write.block();
            let block = [number % width, number / width % height, number / (width * height)].map(|index| index as u32);
            let who = format!("thread {} of block {}", triple(e.thread_index(write.thread())), triple(block));
            ("device memory", who, if write.is_atomic() { "updated" } else { "wrote" })
        }
        Earlier::LdsWrite(touch) => ("LDS", format!("thread {}", triple(e.thread_index(touch.thread()))), "wrote"),
        Earlier::LdsRead(touch) => ("LDS", format!("thread {}", triple(e.thread_index(touch.thread()))), "read"),
    };
    let what = format!("data race in {memory}: {}, which {who} {did} with no barrier between", access_in_words(access));
    report(HipError::LAUNCH_FAILURE, access, &what)
}

fn operation_name(operation: CrossLane) -> &'static str {
    match operation {
        CrossLane::Shuffle => "__shfl",
        CrossLane::ShuffleUp => "__shfl_up",
        CrossLane::ShuffleDown => "__shfl_down",
        CrossLane::ShuffleXor => "__shfl_xor",
        CrossLane::Ballot => "__ballot",
        CrossLane::Any => "__any",
        CrossLane::All => "__all",
        CrossLane::Synchronize => "__syncwarp",
    }
}

fn barrier_name(kind: Barrier) -> &'static str {
    match kind {
        Barrier::Plain => "__syncthreads",
        Barrier::Count => "__syncthreads_count",
        Barrier::Conjunction => "__syncthreads_and",
        Barrier::Disjunction => "__syncthreads_or",
    }
}

fn exchange_in_words(exchange: &Exchange) -> String {
    format!("{} (line {})", operation_name(exchange.operation), exchange.line)
}

/// Lanes of the wave that starts at thread `first` cannot be given what they wait for.
pub fn wave_divergence(first: usize, divergence: Divergence) -> Report {
    let what = match divergence {
        Divergence::Different(one, other) => format!(
            "divergent wave of threads {first} and up: some lanes wait at {}, others at {}",
            exchange_in_words(&one),
            exchange_in_words(&other)
        ),
        Divergence::InactiveSource { lane, source, exchange } => format!(
            "thread {} reads from lane {source} in {}, which that lane does not take part in",
            first + lane,
            exchange_in_words(&exchange)
        ),
        Divergence::AbsentFromMask { lane, exchange } => format!(
            "the mask {:#x} of {} names lane {lane} of the wave of threads {first} and up, which does not take part",
            exchange.mask,
            exchange_in_words(&exchange)
        ),
        Divergence::Width(exchange) => format!(
            "the width {} of {} is no power of two up to the {} lanes of a wave",
            exchange.width,
            exchange_in_words(&exchange),
            current().wave_size
        ),
    };
    Report { code: HipError::LAUNCH_FAILURE, text: format!("{}: {what}", kernel_and_block()) }
}

/// Threads of a block wait at different barriers, or some have returned.
pub fn barrier_divergence(arrivals: &[Arrival]) -> Report {
    let mut places: Vec<_> = arrivals.iter().map(|arrival| arrival.map(|(kind, _, line)| (kind, line))).collect();
    let all = places.clone();
    places.sort_by_key(|place| place.map(|(_, line)| line));
    places.dedup();
    let threads_at = |place| ranges((0..all.len()).filter(|&thread| all[thread] == place));
    let parts: Vec<_> = places
        .into_iter()
        .map(|place| match place {
            Some((kind, line)) => format!("threads {} wait at {} (line {line})", threads_at(place), barrier_name(kind)),
            None => format!("threads {} have returned", threads_at(place)),
        })
        .collect();
    let text = format!("{}: divergent barrier: {}", kernel_and_block(), parts.join(", "));
    report::Report { code: HipError::LAUNCH_FAILURE, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_known_is_left_out() {
        assert_eq!(["a.hip:3\n", "a.hip:3 (discriminator 2)\n"].map(place), [" (a.hip:3)", " (a.hip:3)"]);
        assert_eq!(["", "\n", "??:0\n", "??:?\n"].map(place), [""; 4]);
    }
}
