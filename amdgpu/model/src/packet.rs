//! Packets of AQL queues: launches of kernels, and waits for signals.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use wave::block::PATIENCE;
use wave::kernel::{Kernel, Launch};
use wave::program::Program;

use crate::memory::Window;
use crate::symbols::kernel_name;
use crate::{recorded, topology};

/// Bytes of a packet.
pub const BYTES: usize = 64;
/// Bytes of code before and behind a kernel's first instruction that it may jump to.
const AROUND: u64 = 512 << 10;
/// How long a wait for a signal sleeps at a time.
const NAP: Duration = Duration::from_micros(20);

/// Kernels that were launched, by the address of their descriptors.
#[derive(Default)]
pub struct Kernels(HashMap<u64, Named>);

/// A kernel, and what its code object calls it.
#[derive(Clone)]
struct Named {
    kernel: Kernel,
    name: Option<String>,
    /// Of the memory, when its code was last looked at.
    edition: u64,
}

/// What kinds of packets there are.
pub const INVALID: u8 = 1;
const VENDOR: u8 = 0;
const DISPATCH: u8 = 2;
/// AMD's own, in a vendor's packet.
const BARRIER_VALUE: u8 = 2;
const BARRIER_AND: u8 = 3;
const BARRIER_OR: u8 = 5;

/// Does what a packet says.
///
/// # Errors
/// What is wrong, in words.
pub fn process(packet: &[u8; BYTES], window: &mut Window, kernels: &mut Kernels, at: u64) -> Result<(), String> {
    match packet[0] {
        DISPATCH => dispatch(packet, window, kernels, at),
        BARRIER_AND | BARRIER_OR => wait(packet, window),
        VENDOR if packet[2] == BARRIER_VALUE => wait_for_value(packet, window),
        // What else a vendor's packet says is about caches, of which there are none.
        _ => Ok(()),
    }
}

/// The number of 64 bits that stands there.
pub fn number(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes[place..place + 8].try_into().expect("8 bytes"))
}

/// The number of 32 bits that stands there.
pub fn word(bytes: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(bytes[place..place + 4].try_into().expect("4 bytes"))
}

fn dispatch(packet: &[u8; BYTES], window: &mut Window, kernels: &mut Kernels, at: u64) -> Result<(), String> {
    let block = [4, 6, 8].map(|place| u32::from(u16::from_le_bytes([packet[place], packet[place + 1]])).max(1));
    let threads = [12, 16, 20].map(|place| word(packet, place).max(1));
    let descriptor = number(packet, 32);
    let Named { kernel, name, .. } = kernels.at(descriptor, window)?;
    let launch = Launch {
        grid: [0, 1, 2].map(|axis| threads[axis].div_ceil(block[axis])),
        block,
        threads: Some(threads),
        // The packet counts those that the kernel has itself.
        lds: (word(packet, 28) as usize).saturating_sub(kernel.lds()),
        arguments: number(packet, 40),
        packet: at,
        patience: PATIENCE,
        // Many kernels there are AMD's, and some are written by hand.
        compares: false,
    };
    let done = kernel.run(&launch, window);
    done.map_err(|fault| match &name {
        Some(name) => format!("{name}: {fault}"),
        None => format!("the kernel at {descriptor:#x}: {fault}"),
    })?;
    recorded::launch(name.as_deref());
    Ok(())
}

/// Waits until all, or one, of the signals that a packet names are 0.
fn wait(packet: &[u8; BYTES], window: &mut Window) -> Result<(), String> {
    let signals = (0..5).map(|place| number(packet, 8 + 8 * place)).filter(|signal| *signal != 0);
    let signals: Vec<_> = signals.collect();
    let is_done =
        |window: &mut Window, signal: u64| Ok::<_, String>(i64::from_le_bytes(window.number(signal + 8)?) == 0);
    loop {
        let mut done = 0;
        for signal in &signals {
            done += usize::from(is_done(window, *signal)?);
        }
        if done == signals.len() || (packet[0] == BARRIER_OR && done > 0) {
            return Ok(());
        }
        thread::sleep(NAP);
    }
}

/// Waits until a signal's value fulfils a condition. Without a signal, the packet is there for its order alone.
fn wait_for_value(packet: &[u8; BYTES], window: &mut Window) -> Result<(), String> {
    let (signal, wanted, mask) = (number(packet, 8), number(packet, 16) as i64, number(packet, 24) as i64);
    if signal == 0 {
        return Ok(());
    }
    loop {
        let value = i64::from_le_bytes(window.number(signal + 8)?) & mask;
        let is_met = match word(packet, 32) {
            0 => value == wanted,
            1 => value != wanted,
            2 => value < wanted,
            3 => value >= wanted,
            other => return Err(format!("a wait for a signal by the condition {other} is not known")),
        };
        if is_met {
            return Ok(());
        }
        thread::sleep(NAP);
    }
}

impl Kernels {
    /// The kernel whose descriptor lies at an address.
    fn at(&mut self, address: u64, window: &mut Window) -> Result<Named, String> {
        let edition = window.edition();
        // ROCr writes code into memory that it has allocated for it.
        if let Some(known) = self.0.get(&address).filter(|known| known.edition == edition) {
            return Ok(known.clone());
        }
        let descriptor: [u8; 64] = window.number(address)?;
        let entry = Kernel::entry(address, &descriptor);
        let (first, end) = window.around(entry)?;
        let start = entry.saturating_sub(AROUND).max(first);
        let mut bytes = vec![0; ((entry + AROUND).min(end) - start) as usize];
        wave::memory::Memory::read(window, start, &mut bytes)?;
        let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
        let words: Vec<_> = words.collect();
        // Other code may lie there by now.
        if let Some(known) = self.0.get_mut(&address).filter(|known| known.kernel.program().words() == words) {
            known.edition = edition;
            return Ok(known.clone());
        }
        let card = topology::card()?;
        let kernel = Kernel::new(Arc::new(Program::new(&card, start, words)?), address, &descriptor);
        let name = kernel_name(address, window);
        recorded::function(name.as_deref());
        let named = Named { kernel, name, edition };
        self.0.insert(address, named.clone());
        Ok(named)
    }
}
