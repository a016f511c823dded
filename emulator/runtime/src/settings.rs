//! What the environment says about the emulated machine; read once per process.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::model::Model;

/// Every choice that a user of the emulator has.
#[derive(Debug)]
pub struct Settings {
    /// One model per device, from `CANDLE_ROCM_EMULATOR_DEVICES` ("gfx1100,gfx90a"; default one gfx1100).
    pub devices: Vec<&'static Model>,
    /// Bytes that may be allocated on each device, from `CANDLE_ROCM_EMULATOR_MEMORY` (default 16 GiB).
    pub memory: usize,
    /// Whether every access of a kernel is checked; `CANDLE_ROCM_EMULATOR_CHECK=0` says no.
    pub check: bool,
    /// Where the order of streams, blocks, waves and lanes comes from: `CANDLE_ROCM_EMULATOR_SEED`.
    pub seed: u64,
    /// Where compiled kernels are kept: `CANDLE_ROCM_EMULATOR_CACHE`.
    pub cache: PathBuf,
    /// The file that gets a line for each call, from `CANDLE_ROCM_EMULATOR_TRACE`.
    pub trace: Option<PathBuf>,
    /// The host's C++ compiler: `CANDLE_ROCM_EMULATOR_CXX`, else `CXX`, else g++.
    pub compiler: String,
}

const DEFAULT_MEMORY: usize = 16 << 30;

/// The settings of this process.
///
/// # Panics
/// If a variable is set to something that has no meaning: a wrong setting must not pass for the default.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings::read(|name| std::env::var(name).ok().filter(|value| !value.is_empty())))
}

impl Settings {
    /// Reads the settings through `variable`, which looks up an environment variable.
    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let ours = |name: &str| variable(&format!("CANDLE_ROCM_EMULATOR_{name}"));
        let devices = ours("DEVICES").unwrap_or_else(|| "gfx1100".into());
        let home = || PathBuf::from(variable("HOME").unwrap_or_else(|| "/tmp".into()));
        let cache_home = || variable("XDG_CACHE_HOME").map_or_else(|| home().join(".cache"), PathBuf::from);
        Self {
            devices: devices.split(',').map(|name| Model::named(name.trim())).collect(),
            memory: ours("MEMORY").map_or(DEFAULT_MEMORY, |text| bytes("MEMORY", &text)),
            check: ours("CHECK").is_none_or(|text| text != "0"),
            seed: ours("SEED").map_or(0, |text| number("SEED", &text)),
            cache: ours("CACHE").map_or_else(|| cache_home().join("candle-rocm/emulator"), PathBuf::from),
            trace: ours("TRACE").map(PathBuf::from),
            compiler: ours("CXX").or_else(|| variable("CXX")).unwrap_or_else(|| "g++".into()),
        }
    }
}

fn number(name: &str, text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("CANDLE_ROCM_EMULATOR_{name}={text}: expected a number"))
}

/// A size such as "4G", "512M", "64K" or plain bytes.
fn bytes(name: &str, text: &str) -> usize {
    let (digits, unit) = match text.chars().last() {
        Some('G' | 'g') => (&text[..text.len() - 1], 1 << 30),
        Some('M' | 'm') => (&text[..text.len() - 1], 1 << 20),
        Some('K' | 'k') => (&text[..text.len() - 1], 1 << 10),
        _ => (text, 1),
    };
    number(name, digits) as usize * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::read(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn defaults() {
        let settings = read(&[("HOME", "/home/ada")]);
        assert_eq!(settings.devices.iter().map(|model| model.name).collect::<Vec<_>>(), ["gfx1100"]);
        assert_eq!((settings.memory, settings.check, settings.seed), (16 << 30, true, 0));
        assert_eq!(settings.cache, PathBuf::from("/home/ada/.cache/candle-rocm/emulator"));
        assert_eq!(settings.compiler, "g++");
    }

    #[test]
    fn every_variable_is_honoured() {
        let settings = read(&[
            ("CANDLE_ROCM_EMULATOR_DEVICES", "gfx90a, gfx1100"),
            ("CANDLE_ROCM_EMULATOR_MEMORY", "64M"),
            ("CANDLE_ROCM_EMULATOR_CHECK", "0"),
            ("CANDLE_ROCM_EMULATOR_SEED", "7"),
            ("CANDLE_ROCM_EMULATOR_CACHE", "/cache"),
            ("CANDLE_ROCM_EMULATOR_TRACE", "/trace"),
            ("CXX", "c++"),
        ]);
        assert_eq!(settings.devices.iter().map(|model| model.wave_size).collect::<Vec<_>>(), [64, 32]);
        assert_eq!((settings.memory, settings.check, settings.seed), (64 << 20, false, 7));
        assert_eq!((settings.cache, settings.trace), (PathBuf::from("/cache"), Some(PathBuf::from("/trace"))));
        assert_eq!(settings.compiler, "c++");
    }

    #[test]
    #[should_panic(expected = "CANDLE_ROCM_EMULATOR_MEMORY=many: expected a number")]
    fn a_wrong_number_is_no_default() {
        read(&[("CANDLE_ROCM_EMULATOR_MEMORY", "many")]);
    }
}
