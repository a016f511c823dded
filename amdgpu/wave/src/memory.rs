//! What a kernel reads and writes.

/// Memory by address. Whoever has it says what lies where.
pub trait Memory {
    /// Copies bytes out of memory.
    ///
    /// # Errors
    /// In words, if they are not all there.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), String>;

    /// Copies bytes into memory.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String>;
}

/// Stretches of memory that a program has filled.
#[derive(Debug, Default)]
pub struct Regions(Vec<(u64, Vec<u8>)>);

impl Regions {
    /// Adds bytes at an address.
    pub fn add(&mut self, address: u64, bytes: Vec<u8>) {
        self.0.push((address, bytes));
    }

    /// What lies at an address on which `add` was called.
    pub fn at(&self, address: u64) -> Option<&[u8]> {
        self.0.iter().find(|(start, _)| *start == address).map(|(_, bytes)| &**bytes)
    }

    fn find(&mut self, address: u64, length: usize) -> Result<&mut [u8], String> {
        let found = self.0.iter_mut().find_map(|(start, bytes)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get_mut(from..from.checked_add(length)?)
        });
        found.ok_or_else(|| format!("{length} bytes at {address:#x} are in no memory"))
    }
}

impl Memory for Regions {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        bytes.copy_from_slice(self.find(address, bytes.len())?);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        self.find(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}
