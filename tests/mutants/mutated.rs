//! Switches one mutant on, and notes which of them a test reaches. Part of no release: tests/mutants puts it there.
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

/// Whether `number` is the mutant that CANDLE_ROCM_MUTANT names.
///
/// Each number that is asked for goes into the file that CANDLE_ROCM_REACHED names, once, and at once: a test may end
/// its process at any time.
pub(crate) fn mutated(number: usize) -> bool {
    static CHOSEN: OnceLock<Option<usize>> = OnceLock::new();
    static RECORD: OnceLock<Option<std::ffi::OsString>> = OnceLock::new();
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    let chosen = CHOSEN.get_or_init(|| {
        let word = std::env::var("CANDLE_ROCM_MUTANT").ok()?;
        Some(word.parse().expect("CANDLE_ROCM_MUTANT is a number"))
    });
    if let Some(path) = RECORD.get_or_init(|| std::env::var_os("CANDLE_ROCM_REACHED")) {
        if !REACHED[number].swap(true, Ordering::Relaxed) {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            let written = file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
            written.expect("the file of CANDLE_ROCM_REACHED can be written");
        }
    }
    *chosen == Some(number)
}

/// How many mutants there are.
const COUNT: usize = 0;
