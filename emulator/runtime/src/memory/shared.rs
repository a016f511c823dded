//! Memory of devices that processes share, as hipIpc's handles let them.
//!
//! Each process that hands out memory has a file in memory, in which a byte stands at its distance from the arena's first
//! address. The pages of what is handed out become pages of the file, here and in the processes that open the handle.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use super::arena::{self, Arena, PAGE};
use super::{Allocation, ByteState, Memory, Place, guard, index_of, set_state, shadow};
use crate::error::{HipError, HipResult};
use crate::random::Random;
use crate::settings::settings;

/// Bytes of a handle.
pub const HANDLE_BYTES: usize = 64;
const MAGIC: u64 = u64::from_le_bytes(*b"emulated");

/// What a handle says: memory of a process, and one byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Handle {
    process: u64,
    /// The number of the process's file, and a number that its name has: files' numbers are used again.
    file: u64,
    nonce: u64,
    card: u64,
    /// Where the allocation begins in the file, and its bytes.
    start: u64,
    size: u64,
    /// The byte's place in the allocation.
    offset: u64,
}

/// A handle that was opened.
#[derive(Debug)]
pub(super) struct Import {
    handle: Handle,
    /// How often.
    opened: usize,
    /// The addresses that it takes, a page on each side included.
    taken: Range<usize>,
}

/// The file of this process, and the number in its name.
fn own_file() -> HipResult<&'static (File, u64)> {
    static FILE: OnceLock<Option<(File, u64)>> = OnceLock::new();
    let made = FILE.get_or_init(|| {
        let nonce = Random::new(u64::from(std::process::id()) ^ time()).bits();
        let file = create(nonce).inspect_err(|error| eprintln!("candle-rocm emulator: no shared memory: {error}"));
        Some((file.ok()?, nonce))
    });
    made.as_ref().ok_or(HipError::OUT_OF_MEMORY)
}

fn time() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_nanos() as u64
}

fn name(nonce: u64) -> String {
    format!("candle-rocm-emulator-{nonce:016x}")
}

fn create(nonce: u64) -> io::Result<File> {
    let name = format!("{}\0", name(nonce));
    // SAFETY: the name ends with a zero.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr().cast(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was made above, and is nobody else's.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(Arena::get().length() as u64)?;
    Ok(file)
}

impl Memory {
    /// The handle of a byte of a device's memory, which other processes may use from now on.
    ///
    /// The caller makes sure that no work is being done.
    ///
    /// # Errors
    /// `hipErrorInvalidDevicePointer` for what is no memory of a device, or another process's.
    pub fn export(&mut self, address: usize) -> HipResult<[u8; HANDLE_BYTES]> {
        let allocation = *self.find(address).ok_or(HipError::INVALID_DEVICE_POINTER)?;
        let Place::Device(device) = allocation.place else { return Err(HipError::INVALID_DEVICE_POINTER) };
        if self.imports.contains_key(&allocation.start) {
            return Err(HipError::INVALID_DEVICE_POINTER);
        }
        let (file, nonce) = own_file()?;
        self.share(allocation, file).map_err(|_| HipError::OUT_OF_MEMORY)?;
        let handle = Handle {
            process: std::process::id().into(),
            file: file.as_raw_fd() as u64,
            nonce: *nonce,
            card: settings().devices[device].number as u64,
            start: (allocation.start - Arena::get().base) as u64,
            size: allocation.size as u64,
            offset: (address - allocation.start) as u64,
        };
        Ok(handle.to_bytes())
    }

    /// Makes the pages of an allocation those of the file, with what they hold.
    fn share(&mut self, allocation: Allocation, file: &File) -> io::Result<()> {
        let _inside = guard::enter();
        let base = Arena::get().base;
        let own: Vec<_> =
            pages(allocation.start, allocation.size).step_by(PAGE).filter(|page| !self.shared.contains(page)).collect();
        for run in own.chunk_by(|page, next| page + PAGE == *next) {
            let (first, length) = (run[0], run.len() * PAGE);
            // SAFETY: pages of the arena, which this thread may read.
            let bytes = unsafe { std::slice::from_raw_parts(first as *const u8, length) };
            for (page, bytes) in run.iter().zip(bytes.chunks_exact(PAGE)) {
                if bytes.iter().any(|byte| *byte != 0) {
                    file.write_all_at(bytes, (page - base) as u64)?;
                }
            }
            arena::map(first..first + length, file, first - base)?;
            self.shared.extend(run);
        }
        // Others write without telling.
        set_state(allocation.start, allocation.size, ByteState::Initialized);
        Ok(())
    }

    /// The address of what another process's handle says, whose memory this one has from now on.
    ///
    /// # Errors
    /// `hipErrorInvalidContext` for a handle of this process, `hipErrorInvalidDevicePointer` for one of memory that is
    /// gone or on a card that this process does not see, `hipErrorInvalidValue` for what is no handle.
    pub fn import(&mut self, bytes: &[u8; HANDLE_BYTES]) -> HipResult<usize> {
        let handle = Handle::from_bytes(bytes).ok_or(HipError::INVALID_VALUE)?;
        if handle.process == u64::from(std::process::id()) {
            return Err(HipError::INVALID_CONTEXT);
        }
        let whole = Handle { offset: 0, ..handle };
        let known = self.imports.iter_mut().find(|(_, import)| import.handle == whole);
        if let Some((start, import)) = known {
            import.opened += 1;
            return Ok(start + handle.offset as usize);
        }
        let file = handle.file().map_err(|_| HipError::INVALID_DEVICE_POINTER)?;
        let mut cards = settings().devices.iter();
        let device = cards.position(|card| card.number as u64 == handle.card);
        let device = device.ok_or(HipError::INVALID_DEVICE_POINTER)?;
        let (start, size) = (handle.start as usize, handle.size as usize);
        // The file's pages, in which the allocation does not begin with the first byte.
        let there = pages(start, size);
        let segment = &mut self.segments[device];
        let taken = segment.free.take(there.len() + 3 * PAGE).ok_or(HipError::OUT_OF_MEMORY)?;
        let here = (taken + PAGE).next_multiple_of(PAGE);
        let taken = taken..taken + there.len() + 3 * PAGE;
        if arena::map(here..here + there.len(), &file, there.start).is_err() {
            segment.free.give(taken.start, taken.len());
            return Err(HipError::OUT_OF_MEMORY);
        }
        self.allocated += 1;
        let start = here + start % PAGE;
        self.live.insert(start, Allocation { start, size, place: Place::Device(device), number: self.allocated });
        set_state(start, size, ByteState::Initialized);
        self.imports.insert(start, Import { handle: whole, opened: 1, taken });
        Ok(start + handle.offset as usize)
    }

    /// Gives back what `import` answered, and the memory with the last of its addresses.
    ///
    /// The caller makes sure that no work uses it.
    ///
    /// # Errors
    /// `hipErrorInvalidDevicePointer` if it did not.
    pub fn forget_import(&mut self, address: usize) -> HipResult {
        let allocation = *self.find(address).ok_or(HipError::INVALID_DEVICE_POINTER)?;
        let import = self.imports.get_mut(&allocation.start).ok_or(HipError::INVALID_DEVICE_POINTER)?;
        import.opened -= 1;
        if import.opened > 0 {
            return Ok(());
        }
        let Some(Import { taken, .. }) = self.imports.remove(&allocation.start) else { return Ok(()) };
        self.live.remove(&allocation.start);
        set_state(allocation.start, allocation.size, ByteState::Unaddressable);
        arena::map_anew(pages(allocation.start, allocation.size)).expect("pages of the arena can be mapped");
        shadow::release(taken.start, taken.len());
        self.segments[index_of(allocation.place)].free.give(taken.start, taken.len());
        Ok(())
    }
}

impl Handle {
    fn fields(&self) -> [u64; 8] {
        let Self { process, file, nonce, card, start, size, offset } = *self;
        [MAGIC, process, file, nonce, card, start, size, offset]
    }

    fn to_bytes(self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        for (place, field) in bytes.chunks_exact_mut(8).zip(self.fields()) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; HANDLE_BYTES]) -> Option<Self> {
        let mut fields = bytes.chunks_exact(8).map(|field| u64::from_le_bytes(field.try_into().expect("8 bytes")));
        let mut next = || fields.next().expect("8 fields");
        let magic = next();
        let (process, file, nonce, card) = (next(), next(), next(), next());
        let handle = Self { process, file, nonce, card, start: next(), size: next(), offset: next() };
        let end = handle.start.checked_add(handle.size)?;
        (magic == MAGIC && end <= 1 << 47 && handle.offset <= handle.size).then_some(handle)
    }

    /// The other process's file.
    ///
    /// # Errors
    /// If it is not there any more.
    fn file(&self) -> io::Result<File> {
        let path = format!("/proc/{}/fd/{}", self.process, self.file);
        let target = fs::read_link(&path)?;
        if target.to_str() != Some(&format!("/memfd:{} (deleted)", name(self.nonce))) {
            return Err(io::ErrorKind::NotFound.into());
        }
        OpenOptions::new().read(true).write(true).open(path)
    }
}

/// The whole pages that hold a range, as addresses or places in the file.
fn pages(start: usize, size: usize) -> Range<usize> {
    start / PAGE * PAGE..(start + size).next_multiple_of(PAGE)
}
