//! Elements of matrices and tensors in device memory, read and written one by one as `f64`.

use half::{bf16, f16};

/// How an element is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Format {
    F16,
    Bf16,
    F32,
    F64,
    I8,
    I32,
}

impl Format {
    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }

    /// An element's value; every format's values are exact in `f64`.
    ///
    /// # Safety
    /// An element of this format lies at the address; it need not be aligned.
    pub unsafe fn load(self, address: usize) -> f64 {
        // SAFETY: by contract.
        unsafe {
            match self {
                Self::F16 => f16::from_bits(read(address)).to_f64(),
                Self::Bf16 => bf16::from_bits(read(address)).to_f64(),
                Self::F32 => f64::from(read::<f32>(address)),
                Self::F64 => read(address),
                Self::I8 => f64::from(read::<i8>(address)),
                Self::I32 => f64::from(read::<i32>(address)),
            }
        }
    }

    /// Writes a value, rounded to nearest even; 16-bit formats are rounded by way of `f32`, as a card does it. Integers
    /// are cut off and saturate.
    ///
    /// # Safety
    /// An element of this format may be written at the address; it need not be aligned.
    pub unsafe fn store(self, address: usize, value: f64) {
        // SAFETY: by contract.
        unsafe {
            match self {
                Self::F16 => write(address, f16::from_f32(value as f32).to_bits()),
                Self::Bf16 => write(address, bf16::from_f32(value as f32).to_bits()),
                Self::F32 => write(address, value as f32),
                Self::F64 => write(address, value),
                Self::I8 => write(address, value as i8),
                Self::I32 => write(address, value as i32),
            }
        }
    }
}

unsafe fn read<T>(address: usize) -> T {
    // SAFETY: by contract of the callers.
    unsafe { (address as *const T).read_unaligned() }
}

unsafe fn write<T>(address: usize, value: T) {
    // SAFETY: by contract of the callers.
    unsafe { (address as *mut T).write_unaligned(value) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(format: Format, value: f64) -> f64 {
        let mut bytes = [0u8; 8];
        let address = bytes.as_mut_ptr() as usize;
        // SAFETY: eight bytes are enough for every format.
        unsafe {
            format.store(address, value);
            format.load(address)
        }
    }

    #[test]
    fn small_integers_survive_every_format() {
        for format in [Format::F16, Format::Bf16, Format::F32, Format::F64, Format::I8, Format::I32] {
            for value in [-128.0, -1.0, 0.0, 1.0, 127.0] {
                assert_eq!(stored(format, value), value, "{format:?}");
            }
        }
    }

    #[test]
    fn ties_round_to_even() {
        assert_eq!(stored(Format::F16, 2049.0), 2048.0);
        assert_eq!(stored(Format::F16, 2051.0), 2052.0);
        assert_eq!(stored(Format::Bf16, 257.0), 256.0);
        assert_eq!(stored(Format::Bf16, 259.0), 260.0);
        assert_eq!(stored(Format::F16, 65520.0), f64::INFINITY);
        assert!(stored(Format::Bf16, f64::NAN).is_nan());
    }

    #[test]
    fn integers_saturate() {
        assert_eq!((stored(Format::I8, 300.0), stored(Format::I32, -1e12)), (127.0, f64::from(i32::MIN)));
    }
}
