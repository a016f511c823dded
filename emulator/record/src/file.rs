//! The file of a record. That it cannot be written is said once, and changes nothing else.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that lines are appended to; none where it could not be made.
#[derive(Debug, Default)]
pub struct File {
    open: Option<(PathBuf, fs::File)>,
    has_failed: AtomicBool,
}

impl File {
    /// A fresh file for this process in a folder, which is made if need be.
    pub fn create(folder: &Path) -> Self {
        let mut file = Self::default();
        match create_in(folder) {
            Ok(created) => file.open = Some(created),
            Err(error) => file.report(folder, &error),
        }
        file
    }

    /// Appends a line with a single write, so that lines of several writers do not mix.
    pub fn append(&self, line: &str) {
        let Some((path, mut file)) = self.open.as_ref().map(|(path, file)| (path, file)) else { return };
        let line = format!("{line}\n");
        match file.write(line.as_bytes()) {
            Ok(written) if written == line.len() => {}
            Ok(_) => self.report(path, &ErrorKind::WriteZero.into()),
            Err(error) => self.report(path, &error),
        }
    }

    fn report(&self, path: &Path, error: &io::Error) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            // Who cannot read it learns it from the record that is missing.
            let _ = writeln!(io::stderr(), "{}: cannot write to {}: {error}", crate::VARIABLE, path.display());
        }
    }
}

/// A file `<process>-<unique>.jsonl` that nobody else has: numbers of processes come again.
fn create_in(folder: &Path) -> io::Result<(PathBuf, fs::File)> {
    fs::create_dir_all(folder)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    for unique in now.. {
        let path = folder.join(format!("{}-{unique:x}.jsonl", process::id()));
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return Ok((path, opened?)),
        }
    }
    unreachable!("no folder holds so many files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_its_own_and_lines_follow_each_other() {
        let folder = std::env::temp_dir().join(format!("candle-rocm-record-{}", process::id()));
        let (one, two) = (File::create(&folder), File::create(&folder));
        one.append("1");
        one.append("2");
        two.append("3");
        let content = |file: &File| fs::read_to_string(&file.open.as_ref().expect("it was made").0).expect("a text");
        assert_eq!((content(&one), content(&two)), ("1\n2\n".to_owned(), "3\n".to_owned()));
        fs::remove_dir_all(folder).expect("it was made here");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_said_once() {
        let file = File::create(Path::new("/dev/null/folder"));
        assert!(file.open.is_none() && file.has_failed.load(Ordering::Relaxed));
        file.append("is not written");
    }
}
