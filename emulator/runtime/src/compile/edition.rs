//! Code objects say what they were made with. Programs keep them on disk and know only the version of HIP; one that was
//! made with other headers or without the checks must not pass for what would be compiled today.

use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::{driver, headers};
use crate::module::abi;
use crate::settings::settings;

/// What this library compiles with the present settings, as opposed to other headers, flags or checks.
pub fn edition() -> &'static str {
    static EDITION: OnceLock<String> = OnceLock::new();
    EDITION.get_or_init(|| of(abi::VERSION, settings().check))
}

fn of(version: u32, checked: bool) -> String {
    let mut hash = Sha256::new();
    hash.update(version.to_le_bytes());
    hash.update(headers::digest());
    hash.update(driver::flags(checked).join(" "));
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_checks_make_editions() {
        assert_eq!(of(1, true), of(1, true));
        assert_ne!(of(1, true), of(2, true));
        assert_ne!(of(1, true), of(1, false));
        assert_eq!(edition(), of(abi::VERSION, settings().check));
        assert_ne!(edition(), of(abi::VERSION, !settings().check));
    }
}
