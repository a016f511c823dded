//! What the environment says about the emulated machine; read once per process.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::model::{Card, Model};
use crate::visible::visible;

/// Every choice that a user of the emulator has.
#[derive(Debug)]
pub struct Settings {
    /// The cards that the process sees, of those in `CANDLE_ROCM_EMULATOR_DEVICES` ("gfx1100,gfx90a"; default one
    /// gfx1100). There are none if the environment is wrong.
    pub devices: Vec<Card>,
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
    /// How long ranks of a communicator wait for each other, from `CANDLE_ROCM_EMULATOR_RCCL_TIMEOUT` (seconds, default
    /// 120). None with `CANDLE_ROCM_EMULATOR_RCCL_HANGS=1`: without end, as RCCL does it.
    pub rccl_timeout: Option<Duration>,
    /// Whether a variable is set to something that has no meaning: what is wrong must not pass for the default.
    pub wrong: bool,
}

const DEFAULT_MEMORY: usize = 16 << 30;
const DEFAULT_RCCL_TIMEOUT: Duration = Duration::from_secs(120);
const MOST_DEVICES: usize = 32;

/// The settings of this process. If the environment is wrong, that is said on standard error.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Settings::read(variable).unwrap_or_else(|wrong| {
            eprintln!("candle-rocm emulator: {wrong}");
            let defaults = Settings::read(|name| variable(name).filter(|_| !name.starts_with(PREFIX)));
            Settings { devices: Vec::new(), wrong: true, ..defaults.expect("the defaults are right") }
        })
    })
}

const PREFIX: &str = "CANDLE_ROCM_EMULATOR_";

impl Settings {
    /// Reads the settings through `variable`, which looks up an environment variable.
    ///
    /// # Errors
    /// Which variable is wrong, and what was expected.
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let ours = |name: &str| variable(&format!("{PREFIX}{name}"));
        let known = |name: &str| ours(name).filter(|value| !value.is_empty());
        let others = |name: &str| variable(name).filter(|value| !value.is_empty());
        let home = || PathBuf::from(others("HOME").unwrap_or_else(|| "/tmp".into()));
        let hangs = known("RCCL_HANGS").map_or(Ok(false), |text| switch("RCCL_HANGS", &text))?;
        let timeout = known("RCCL_TIMEOUT").map_or(Ok(DEFAULT_RCCL_TIMEOUT), |text| seconds("RCCL_TIMEOUT", &text))?;
        let cache_home = || others("XDG_CACHE_HOME").map_or_else(|| home().join(".cache"), PathBuf::from);
        Ok(Self {
            devices: visible(cards(&ours("DEVICES").unwrap_or_else(|| "gfx1100".into()))?, &variable),
            memory: known("MEMORY").map_or(Ok(DEFAULT_MEMORY), |text| bytes("MEMORY", &text))?,
            check: known("CHECK").map_or(Ok(true), |text| switch("CHECK", &text))?,
            seed: known("SEED").map_or(Ok(0), |text| number("SEED", &text))?,
            cache: known("CACHE").map_or_else(|| cache_home().join("candle-rocm/emulator"), PathBuf::from),
            trace: known("TRACE").map(PathBuf::from),
            compiler: known("CXX").or_else(|| others("CXX")).unwrap_or_else(|| "g++".into()),
            rccl_timeout: (!hangs).then_some(timeout),
            wrong: false,
        })
    }
}

fn wrong(name: &str, text: &str, expected: &str) -> String {
    format!("{PREFIX}{name}={text}: expected {expected}")
}

fn cards(list: &str) -> Result<Vec<Card>, String> {
    let known = || format!("one to {MOST_DEVICES} of {}, with commas between them", Model::names().join(", "));
    let models: Option<Vec<_>> = list.split(',').map(|name| Model::named(name.trim())).collect();
    let models = models.filter(|models| models.len() <= MOST_DEVICES);
    let models = models.ok_or_else(|| wrong("DEVICES", list, &known()))?;
    Ok(models.into_iter().zip(0..).map(|(model, number)| Card { model, number }).collect())
}

fn switch(name: &str, text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(wrong(name, text, "0 or 1")),
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| wrong(name, text, "a number"))
}

fn seconds(name: &str, text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| wrong(name, text, "a number of seconds"))
}

/// A size such as "4G", "512M", "64K" or plain bytes.
fn bytes(name: &str, text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.chars().last() {
        Some('G' | 'g') => (&text[..text.len() - 1], 1 << 30),
        Some('M' | 'm') => (&text[..text.len() - 1], 1 << 20),
        Some('K' | 'k') => (&text[..text.len() - 1], 1 << 10),
        _ => (text, 1),
    };
    let size = digits.parse().ok().and_then(|number: usize| number.checked_mul(unit));
    size.ok_or_else(|| wrong(name, text, "a number of bytes, such as 4G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn defaults() {
        let settings = read(&[("HOME", "/home/ada")]).unwrap();
        assert_eq!(settings.devices.iter().map(|card| card.model.name).collect::<Vec<_>>(), ["gfx1100"]);
        assert_eq!((settings.memory, settings.check, settings.seed), (16 << 30, true, 0));
        assert_eq!(settings.cache, PathBuf::from("/home/ada/.cache/candle-rocm/emulator"));
        assert_eq!(settings.compiler, "g++");
    }

    #[test]
    fn every_variable_is_honoured() {
        let settings = read(&[
            ("CANDLE_ROCM_EMULATOR_DEVICES", "gfx90a, gfx1100,gfx942"),
            ("CANDLE_ROCM_EMULATOR_MEMORY", "64M"),
            ("CANDLE_ROCM_EMULATOR_CHECK", "0"),
            ("CANDLE_ROCM_EMULATOR_SEED", "7"),
            ("CANDLE_ROCM_EMULATOR_CACHE", "/cache"),
            ("CANDLE_ROCM_EMULATOR_TRACE", "/trace"),
            ("CXX", "c++"),
            ("HIP_VISIBLE_DEVICES", "1,0"),
        ])
        .unwrap();
        let seen: Vec<_> = settings.devices.iter().map(|card| (card.number, card.model.wave_size)).collect();
        assert_eq!(seen, [(1, 32), (0, 64)]);
        assert_eq!((settings.memory, settings.check, settings.seed), (64 << 20, false, 7));
        assert_eq!((settings.cache, settings.trace), (PathBuf::from("/cache"), Some(PathBuf::from("/trace"))));
        assert_eq!(settings.compiler, "c++");
        assert_eq!(read(&[("CANDLE_ROCM_EMULATOR_CHECK", "1")]).map(|settings| settings.check), Ok(true));
    }

    #[test]
    fn sizes_have_units() {
        let memory = |text| read(&[("CANDLE_ROCM_EMULATOR_MEMORY", text)]).map(|settings| settings.memory);
        for (text, bytes) in
            [("4G", 4 << 30), ("2g", 2 << 30), ("3m", 3 << 20), ("64K", 65536), ("1k", 1024), ("77", 77)]
        {
            assert_eq!(memory(text), Ok(bytes), "{text}");
        }
        assert!([" 1", "1 G", "G", "1T", "-1"].iter().all(|text| memory(text).is_err()));
    }

    #[test]
    fn ranks_are_waited_for_until_the_time_is_over_or_without_end() {
        let timeout = |seconds, hangs| {
            let variables =
                [("CANDLE_ROCM_EMULATOR_RCCL_TIMEOUT", seconds), ("CANDLE_ROCM_EMULATOR_RCCL_HANGS", hangs)];
            read(&variables).map(|settings| settings.rccl_timeout)
        };
        assert_eq!(timeout("", ""), Ok(Some(DEFAULT_RCCL_TIMEOUT)));
        assert_eq!(timeout("0.5", "0"), Ok(Some(Duration::from_millis(500))));
        assert_eq!(timeout("3", "1"), Ok(None));
    }

    #[test]
    fn what_is_set_to_nothing_is_not_set() {
        let empty = |name: &str| (format!("CANDLE_ROCM_EMULATOR_{name}"), "");
        let ours: Vec<_> = ["MEMORY", "CHECK", "SEED", "CACHE", "TRACE", "CXX"].into_iter().map(empty).collect();
        let mut variables: Vec<_> = ours.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        variables.extend([("CXX", ""), ("HOME", "/home/ada"), ("XDG_CACHE_HOME", "")]);
        let settings = read(&variables).unwrap();
        assert_eq!((settings.memory, settings.check, settings.seed), (16 << 30, true, 0));
        assert_eq!(settings.cache, PathBuf::from("/home/ada/.cache/candle-rocm/emulator"));
        assert_eq!((settings.trace, settings.compiler.as_str()), (None, "g++"));
        let settings =
            read(&[("XDG_CACHE_HOME", "/xdg"), ("CANDLE_ROCM_EMULATOR_CXX", "clang++"), ("CXX", "c++")]).unwrap();
        assert_eq!((settings.cache, settings.compiler), (PathBuf::from("/xdg/candle-rocm/emulator"), "clang++".into()));
        assert_eq!(read(&[]).unwrap().cache, PathBuf::from("/tmp/.cache/candle-rocm/emulator"));
    }

    #[test]
    fn what_is_wrong_is_no_default() {
        for (name, value, expected) in [
            ("MEMORY", "many", "a number of bytes, such as 4G"),
            ("MEMORY", "99999999999G", "a number of bytes, such as 4G"),
            ("SEED", "-1", "a number"),
            ("CHECK", "no", "0 or 1"),
            ("RCCL_HANGS", "yes", "0 or 1"),
            ("RCCL_TIMEOUT", "no", "a number of seconds"),
            ("RCCL_TIMEOUT", "0", "a number of seconds"),
            ("RCCL_TIMEOUT", "-1", "a number of seconds"),
            ("RCCL_TIMEOUT", "inf", "a number of seconds"),
            ("RCCL_TIMEOUT", "1e300", "a number of seconds"),
            ("DEVICES", "", "one to 32 of gfx1100, gfx90a, gfx942, with commas between them"),
            ("DEVICES", "gfx1100,", "one to 32 of gfx1100, gfx90a, gfx942, with commas between them"),
            ("DEVICES", "gfx1100;gfx90a", "one to 32 of gfx1100, gfx90a, gfx942, with commas between them"),
        ] {
            let variable = format!("CANDLE_ROCM_EMULATOR_{name}");
            assert_eq!(read(&[(&variable, value)]).unwrap_err(), format!("{variable}={value}: expected {expected}"));
        }
        let too_many = ["gfx942"; 33].join(",");
        assert!(read(&[("CANDLE_ROCM_EMULATOR_DEVICES", &too_many)]).is_err());
        assert_eq!(read(&[("CANDLE_ROCM_EMULATOR_DEVICES", &too_many[7..])]).unwrap().devices.len(), 32);
    }
}
