//! The GPU's memory: a window of this process, whose first byte has the address 0, as far as ROCr has allocated it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wave::memory::Memory;

/// What ROCr has allocated: bytes by the address of the first.
#[derive(Debug, Default)]
pub struct Allocations {
    sizes: Mutex<BTreeMap<u64, u64>>,
    /// Changes with them.
    edition: AtomicU64,
}

/// The window.
#[derive(Clone, Debug)]
pub struct Window {
    base: u64,
    allocations: Arc<Allocations>,
    /// The allocation that was used last, and the edition that it is of.
    last: (u64, u64, u64),
}

impl Allocations {
    /// Notes an allocation; of no bytes, that it is gone.
    pub fn set(&self, address: u64, size: u64) {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        if size == 0 {
            sizes.remove(&address)
        } else {
            sizes.insert(address, size)
        };
        self.edition.fetch_add(1, Ordering::AcqRel);
    }

    /// First address and bytes of the allocation that has an address, or that ends before it.
    fn near(&self, address: u64) -> Option<(u64, u64)> {
        let sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.range(..=address).next_back().map(|(start, size)| (*start, *size))
    }
}

impl Window {
    /// A window from an address of this process on.
    pub fn new(base: u64, allocations: Arc<Allocations>) -> Self {
        // No edition has this number.
        Self { base, allocations, last: (0, 0, u64::MAX) }
    }

    /// Changes whenever ROCr allocates or frees.
    pub fn edition(&self) -> u64 {
        self.allocations.edition.load(Ordering::Acquire)
    }

    /// First address and end of the allocation that has an address.
    ///
    /// # Errors
    /// In words, if none has.
    pub fn around(&mut self, address: u64) -> Result<(u64, u64), String> {
        let edition = self.edition();
        let (start, size, of) = self.last;
        if of != edition || address < start || address - start >= size {
            let (start, size) = self.allocations.near(address).unwrap_or((0, 0));
            if address < start || address - start >= size {
                let past = address - (start + size).min(address);
                return Err(format!(
                    "{address:#x} is in no memory, but {past} bytes past the end of one of {size} bytes"
                ));
            }
            self.last = (start, size, edition);
        }
        Ok((self.last.0, self.last.0 + self.last.1))
    }

    /// Where a byte of the GPU lies in this process.
    ///
    /// # Errors
    /// In words, if so many bytes are not in one allocation.
    pub fn place(&mut self, address: u64, bytes: usize) -> Result<u64, String> {
        let (_, end) = self.around(address)?;
        if end - address < bytes as u64 {
            return Err(format!(
                "{bytes} bytes at {address:#x} go {} beyond their memory",
                bytes as u64 - (end - address)
            ));
        }
        Ok(self.base.wrapping_add(address))
    }

    /// A number that lies there.
    ///
    /// # Errors
    /// As [`Window::place`].
    pub fn number<const N: usize>(&mut self, address: u64) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }
}

impl Memory for Window {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        let place = self.place(address, bytes.len())?;
        // SAFETY: ROCr has mapped what it has allocated.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(place as *const u8, bytes.len()) };
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let place = self.place(address, bytes.len())?;
        // SAFETY: as above.
        unsafe { (place as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}
