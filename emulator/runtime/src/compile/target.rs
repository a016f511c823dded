//! The target in a code object, written there after compilation: for two cards whose code is the same g++ runs once.

/// What the compiled code has in place of the target's name.
pub const PLACEHOLDER: &str = "candle-rocm-emulator: no target.";

/// Puts the target's name in place.
///
/// # Panics
/// If the name is too long or the code has no place for it: it comes from this compiler.
pub fn stamp(code: &mut [u8], target: &str) {
    assert!(target.len() < PLACEHOLDER.len(), "a target such as gfx1100, not {target}");
    let mut windows = code.windows(PLACEHOLDER.len());
    let at = windows.position(|window| window == PLACEHOLDER.as_bytes()).expect("compiled with the placeholder");
    let place = &mut code[at..at + PLACEHOLDER.len()];
    place.fill(0);
    place[..target.len()].copy_from_slice(target.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_takes_the_place_of_the_placeholder() {
        let mut code = [b"ab", PLACEHOLDER.as_bytes(), b"\0cd"].concat();
        stamp(&mut code, "gfx90a");
        assert_eq!(code, [b"abgfx90a".as_slice(), &[0; PLACEHOLDER.len() - 6 + 1], b"cd"].concat());
    }
}
