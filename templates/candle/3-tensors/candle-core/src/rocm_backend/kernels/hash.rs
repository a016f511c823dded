//! A hash that is the same in every process, on every machine and with every compiler.
use std::fmt;

/// FNV-1a with 128 bits (draft-eastlake-fnv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hash128(u128);

impl Hash128 {
    pub(super) const EMPTY: Self = Self(0x6c62272e07bb014262b821756295c58d);
    const PRIME: u128 = 0x0000000001000000000000000000013b;

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::EMPTY.then(bytes)
    }

    /// Of what was hashed before, followed by these bytes.
    pub(super) fn then(self, bytes: &[u8]) -> Self {
        let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(Self::PRIME);
        Self(bytes.iter().fold(self.0, step))
    }

    /// As `then`, told apart from any other way to divide the same bytes.
    pub(super) fn field(self, text: &str) -> Self {
        self.then(&(text.len() as u64).to_le_bytes())
            .then(text.as_bytes())
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

impl fmt::Display for Hash128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(
            Hash128::of(b"").to_string(),
            "6c62272e07bb014262b821756295c58d"
        );
        assert_eq!(
            Hash128::of(b"a").to_string(),
            "d228cb696f1a8caf78912b704e4a8964"
        );
        assert_ne!(
            Hash128::EMPTY.field("ab").field("c"),
            Hash128::EMPTY.field("a").field("bc")
        );
    }

    #[test]
    fn bytes_are_the_number_from_its_lowest_on() {
        let bytes = [
            0x64, 0x89, 0x4a, 0x4e, 0x70, 0x2b, 0x91, 0x78, 0xaf, 0x8c, 0x1a, 0x6f, 0x69, 0xcb,
            0x28, 0xd2,
        ];
        assert_eq!(Hash128::of(b"a").to_bytes(), bytes);
    }

    #[test]
    fn parts_follow_each_other() {
        let whole = Hash128::of(b"candle");
        assert_eq!(Hash128::of(b"can").then(b"dle"), whole);
        assert_ne!(Hash128::of(b"dle").then(b"can"), whole);
        // The length comes first, as 64 bits from the lowest on.
        let field = Hash128::of(b"\x03\0\0\0\0\0\0\0can");
        assert_eq!(Hash128::EMPTY.field("can"), field);
    }
}
