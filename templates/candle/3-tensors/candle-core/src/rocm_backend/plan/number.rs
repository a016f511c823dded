//! Numbers that launches give to kernels.
use super::launch::Argument;

/// A number in the type that kernels compute in: f32 for narrower floats, otherwise the element type itself.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(8))]
pub(crate) struct Number([u8; 8]);

// SAFETY: the number's bytes come first, and the alignment is the largest of all these types.
unsafe impl Argument for Number {}

impl Number {
    /// With these bytes, at most 8.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut number = [0; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        Self(number)
    }
}

/// An element's bits as often as they fit into 16 bytes, for kernels that write any width of it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct Pattern([u8; 16]);

// SAFETY: kernels take the first 1 to 16 bytes, and the alignment is the largest of these types.
unsafe impl Argument for Pattern {}

impl Pattern {
    /// Of an element with these bytes, whose number divides 16.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut pattern = [0; 16];
        for part in pattern.chunks_exact_mut(bytes.len()) {
            part.copy_from_slice(bytes);
        }
        Self(pattern)
    }
}
