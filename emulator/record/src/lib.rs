//! The record of a process: what it did on its devices, for whoever started it and wants more than its exit code.
//!
//! `CANDLE_ROCM_RECORD` names a folder, in which each process has a file of JSON lines. Without the variable nothing is
//! written and next to nothing is done.

mod file;
mod json;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use file::File;
use json::{numbers, quoted};

/// The environment variable that names the folder.
pub const VARIABLE: &str = "CANDLE_ROCM_RECORD";

/// A device as the process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The name under which the card is sold.
    pub name: String,
    /// The compiler's target.
    pub architecture: String,
    /// Lanes of a wave.
    pub wave: u32,
}

/// What is counted besides launches.
#[derive(Clone, Copy, Debug)]
pub enum Done {
    /// A copy of at least one byte.
    Copy,
    /// Memory of a device, of at least one byte.
    Allocation,
    /// A wait for a device, a stream or an event that went well.
    Synchronisation,
}

/// What a process has done so far.
#[derive(Debug, Default)]
struct Record {
    file: File,
    process: u32,
    counts: [AtomicU64; 3],
    kernels: Mutex<Kernels>,
}

#[derive(Debug, Default)]
struct Kernels {
    /// Names that were looked up.
    known: BTreeSet<String>,
    /// Launches that ran, by name.
    launches: BTreeMap<String, u64>,
}

/// The record, if there is one; empty until [`start`].
static RECORD: OnceLock<Option<Record>> = OnceLock::new();

/// Runs when the process ends by itself, after its own `atexit` and static destructors: not when it is killed, aborts
/// or calls `_exit`.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

extern "C" fn at_end() {
    if let Some(record) = of_this_process() {
        record.file.append(&record.end());
    }
}

/// Begins the record, if one is wanted and none has begun; the first call of each library function does this.
pub fn start(library: &str, devices: impl FnOnce() -> Vec<Device>) {
    RECORD.get_or_init(|| {
        let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty())?;
        let record = Record { file: File::create(Path::new(&folder)), process: process::id(), ..Record::default() };
        let program = std::env::args_os().next().unwrap_or_default();
        record.file.append(&start_line(record.process, program, library, &devices()));
        Some(record)
    });
}

/// Whether a record is written: to be asked before anything is done only for its sake.
pub fn is_wanted() -> bool {
    matches!(RECORD.get(), Some(Some(_)))
}

/// Notes that a kernel was looked up.
pub fn function(name: &str) {
    let Some(record) = of_this_process() else { return };
    if record.kernels().known.insert(name.to_owned()) {
        record.file.append(&format!(r#"{{"event":"function","name":{}}}"#, quoted(name)));
    }
}

/// Counts a launch that has run.
pub fn launch(kernel: &str) {
    if let Some(Some(record)) = RECORD.get() {
        *record.kernels().launches.entry(kernel.to_owned()).or_default() += 1;
    }
}

/// Counts something else that was done.
pub fn count(done: Done) {
    if let Some(Some(record)) = RECORD.get() {
        record.counts[done as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The record, unless it is that of the process from which this one was forked.
fn of_this_process() -> Option<&'static Record> {
    RECORD.get()?.as_ref().filter(|record| record.process == process::id())
}

impl Record {
    /// What is known of kernels, even if a thread has panicked meanwhile.
    fn kernels(&self) -> MutexGuard<'_, Kernels> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) -> String {
        let kernels = self.kernels();
        let launches = kernels.launches.values().sum::<u64>();
        let [copies, allocations, synchronisations] = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        format!(
            concat!(
                r#"{{"event":"end","launches":{},"copies":{},"allocations":{},"synchronisations":{},"#,
                r#""kernels":{}}}"#
            ),
            launches,
            copies,
            allocations,
            synchronisations,
            numbers(&kernels.launches)
        )
    }
}

fn start_line(process: u32, program: OsString, library: &str, devices: &[Device]) -> String {
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    let device = |device: &Device| {
        let (name, architecture) = (quoted(&device.name), quoted(&device.architecture));
        format!(r#"{{"name":{name},"arch":{architecture},"wave":{}}}"#, device.wave)
    };
    format!(
        r#"{{"event":"start","pid":{process},"program":{},"library":{},"devices":[{}]}}"#,
        quoted(&program),
        quoted(library),
        devices.iter().map(device).collect::<Vec<_>>().join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_process_and_its_devices() {
        let device = |name: &str, architecture: &str, wave| Device {
            name: name.to_owned(),
            architecture: architecture.to_owned(),
            wave,
        };
        let devices = [device("A \"card\"", "gfx1100", 32), device("B", "gfx90a", 64)];
        assert_eq!(
            start_line(7, "/a/folder/program".into(), "emulator", &devices),
            concat!(
                r#"{"event":"start","pid":7,"program":"program","library":"emulator","#,
                r#""devices":[{"name":"A \"card\"","arch":"gfx1100","wave":32},{"name":"B","arch":"gfx90a","wave":64}]}"#
            )
        );
        assert!(
            start_line(7, OsString::new(), "nvidia", &[]).ends_with(r#""program":"","library":"nvidia","devices":[]}"#)
        );
    }

    #[test]
    fn the_last_line_has_all_counts() {
        let record = Record::default();
        record.counts[Done::Copy as usize].fetch_add(3, Ordering::Relaxed);
        record.counts[Done::Allocation as usize].fetch_add(2, Ordering::Relaxed);
        record.counts[Done::Synchronisation as usize].fetch_add(1, Ordering::Relaxed);
        record.kernels().launches = BTreeMap::from([("add".to_owned(), 4), ("sub".to_owned(), 5)]);
        assert_eq!(
            record.end(),
            concat!(
                r#"{"event":"end","launches":9,"copies":3,"allocations":2,"synchronisations":1,"#,
                r#""kernels":{"add":4,"sub":5}}"#
            )
        );
    }
}
