//! Launches of kernels on memory of the calling process, for tests: neither a runtime nor a queue takes part.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use wave::block::Block;
use wave::hazards::scan::scan;
use wave::kernel::{Code, Launch};
use wave::memory::Memory;
use wave::program::Program;
use wave::state::{SCALARS, Wave, ones};

/// Memory that a kernel may use.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Its first byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// Registers of a wave, before and after some instructions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    exec: u64,
    vcc: u64,
    scc: u32,
    lanes: u32,
    scalars: [u32; SCALARS],
    vectors: [[u32; 64]; 64],
}

/// Bytes of LDS that instructions have which are executed by themselves.
const LDS: usize = 65536;

thread_local! {
    static PROBLEM: RefCell<CString> = RefCell::default();
    static INSTRUCTIONS: RefCell<CString> = RefCell::default();
}

struct Regions<'a>(&'a [Region]);

impl Regions<'_> {
    /// Whether all bytes are in one of the regions, which stand in the order of their addresses.
    fn check(&self, address: u64, bytes: usize) -> Result<(), String> {
        let next = self.0.partition_point(|region| region.address <= address);
        let region = next.checked_sub(1).map(|place| self.0[place]);
        let fits = |region: Region| address - region.address + bytes as u64 <= region.size;
        if region.is_some_and(fits) {
            return Ok(());
        }
        let near = region.map_or(String::new(), |region| {
            let past = i128::from(address) - i128::from(region.address + region.size);
            format!(", {past} bytes past the end of one of {} bytes", region.size)
        });
        Err(format!("{bytes} bytes at {address:#x} are in no memory{near}"))
    }
}

impl Memory for Regions<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        self.check(address, bytes.len())?;
        // SAFETY: whoever launches the kernel has this memory.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(address as *const u8, bytes.len()) };
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        self.check(address, bytes.len())?;
        // SAFETY: as above.
        unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

/// What a call makes; None, and the reason in words for `amdgpu_problem`, if it fails.
fn told<T>(body: impl FnOnce() -> Result<T, String>) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("the interpreter failed: {}", text.unwrap_or_default()))
    });
    result.inspect_err(|problem| PROBLEM.set(CString::new(problem.as_str()).unwrap_or_default())).ok()
}

/// Why the thread's last call failed.
#[unsafe(no_mangle)]
pub extern "C" fn amdgpu_problem() -> *const c_char {
    PROBLEM.with_borrow(|problem| problem.as_ptr())
}

/// Loads a code object for a card. Null if it is none.
///
/// # Safety
/// `card` is a text that ends with a zero, and `code` has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_load(card: *const c_char, code: *const u8, size: usize) -> *mut Code {
    // SAFETY: the caller's promise.
    let (card, code) = unsafe { (CStr::from_ptr(card), slice::from_raw_parts(code, size)) };
    let loaded = told(|| Code::new(code.to_vec(), &card.to_string_lossy()));
    loaded.map_or(std::ptr::null_mut(), |code| Box::into_raw(Box::new(code)))
}

/// Hazards in a code object, a line for each: the address of an instruction that comes too early, and what about it; or
/// `nop`, the address of an S_NOP, and 1 if something would come too early if it were shorter by one wait state. It is not
/// to be executed afterwards.
///
/// # Safety
/// `amdgpu_load` made it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_hazards(code: *const Code) -> *const c_char {
    // SAFETY: the caller's promise.
    let found = scan(unsafe { &*code }.program());
    let faults = found.faults.iter().map(|(address, what)| format!("{address:#x} {what}\n"));
    let nops = found.nops.iter().map(|(address, is_needed)| format!("nop {address:#x} {}\n", u8::from(*is_needed)));
    let lines: String = faults.chain(nops).collect();
    INSTRUCTIONS.set(CString::new(lines).unwrap_or_default());
    INSTRUCTIONS.with_borrow(|lines| lines.as_ptr())
}

/// The instructions of a code object, a line for each: 1 if it has been executed, its bytes, AMD's name without that of the
/// encoding.
///
/// # Safety
/// `amdgpu_load` made it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_instructions(code: *const Code) -> *const c_char {
    // SAFETY: the caller's promise.
    let code = unsafe { &*code };
    let lines: Vec<_> = code
        .program()
        .instructions()
        .map(|(each, reached)| format!("{} {} {}\n", u8::from(reached), each.bytes, each.opcode.stem()))
        .collect();
    INSTRUCTIONS.set(CString::new(lines.concat()).unwrap_or_default());
    INSTRUCTIONS.with_borrow(|lines| lines.as_ptr())
}

/// Gives a code object back.
///
/// # Safety
/// `amdgpu_load` made it, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_unload(code: *mut Code) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(code) });
}

/// Runs a kernel to its end. Returns how many instructions were executed, each once for a wave; -1 if it failed.
///
/// # Safety
/// `sizes` are three numbers of blocks and three of threads. `arguments` and `regions` have as many elements as the
/// numbers behind them say, and the regions, in the order of their addresses, are memory that nobody else uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_launch(
    code: *const Code,
    name: *const c_char,
    sizes: *const u32,
    lds: usize,
    arguments: *const u8,
    arguments_size: usize,
    regions: *const Region,
    count: usize,
    patience: u64,
) -> i64 {
    // SAFETY: the caller's promise.
    let (code, name, sizes, regions) = unsafe {
        let sizes = slice::from_raw_parts(sizes, 6);
        (&*code, CStr::from_ptr(name), sizes, slice::from_raw_parts(regions, count))
    };
    let executed = told(|| {
        let kernel = code.kernel(&name.to_string_lossy())?;
        let mut launch = Launch {
            grid: [sizes[0], sizes[1], sizes[2]],
            block: [sizes[3], sizes[4], sizes[5]],
            threads: None,
            lds,
            arguments: arguments as u64,
            packet: 0,
            patience,
            compares: true,
        };
        let packet = launch.packet_bytes();
        launch.packet = packet.as_ptr() as u64;
        let own = [(launch.arguments, arguments_size), (launch.packet, packet.len())];
        let own = own.map(|(address, size)| Region { address, size: size as u64 });
        let mut all: Vec<_> = regions.iter().copied().chain(own).collect();
        all.sort_by_key(|region| region.address);
        kernel.run(&launch, &mut Regions(&all)).map_err(|fault| format!("{}: {fault}", name.to_string_lossy()))
    });
    executed.map_or(-1, |executed| executed as i64)
}

/// Executes instructions by themselves, in one wave. Returns how many; -1 if that fails.
///
/// # Safety
/// `words` are so many, and the last is the end of a program. `regions` are as for `amdgpu_launch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_execute(
    card: *const c_char,
    words: *const u32,
    count: usize,
    registers: *mut Registers,
    regions: *const Region,
    regions_count: usize,
) -> i64 {
    // SAFETY: the caller's promise.
    let (card, words, registers, regions) = unsafe {
        let words = slice::from_raw_parts(words, count);
        (CStr::from_ptr(card), words, &mut *registers, slice::from_raw_parts(regions, regions_count))
    };
    let executed = told(|| {
        let program = Program::new(&card.to_string_lossy(), 0, words.to_vec())?;
        let mut wave = Wave::new(program.set, registers.lanes as usize, ones);
        wave.exec &= registers.exec;
        (wave.vcc, wave.scc, wave.scalars) = (registers.vcc, registers.scc != 0, registers.scalars);
        let count = registers.vectors.len();
        wave.vectors[..count].copy_from_slice(&registers.vectors);
        let mut block = Block::new(&program, vec![wave], LDS);
        block.run(&mut Regions(regions)).map_err(|fault| fault.to_string())?;
        let wave = &block.waves()[0];
        registers.exec = wave.exec;
        (registers.vcc, registers.scc, registers.scalars) = (wave.vcc, wave.scc.into(), wave.scalars);
        registers.vectors.copy_from_slice(&wave.vectors[..count]);
        Ok(block.executed)
    });
    executed.map_or(-1, |executed| executed as i64)
}
