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

    /// Says whether what comes next is part of an atomic operation.
    fn set_atomic(&mut self, _is_atomic: bool) {}
}
