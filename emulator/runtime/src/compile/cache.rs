//! Code objects on disk, safe to share between processes: a file appears complete or not at all.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::settings::settings;

fn path(key: &str) -> PathBuf {
    settings().cache.join("objects").join(&key[..2]).join(format!("{key}.so"))
}

/// The right to make the code object of this key, until it is dropped: who asks for it waits for the threads and processes
/// that have it. None where the cache cannot be written: then each makes its own.
pub fn turn(key: &str) -> Option<File> {
    let folder = path(key).parent().expect("the path has folders").to_owned();
    fs::create_dir_all(&folder).ok()?;
    let folder = File::open(folder).ok()?;
    // SAFETY: the descriptor is open. Closing it, or the end of the process, gives the lock up.
    (unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX) } == 0).then_some(folder)
}

/// The code object of a key.
pub fn read(key: &str) -> Option<Vec<u8>> {
    fs::read(path(key)).ok()
}

/// Keeps a code object. A cache that cannot be written costs time and nothing else.
pub fn write(key: &str, code: &[u8]) {
    let path = path(key);
    let staging = path.with_extension(format!("{}.staging", std::process::id()));
    let folder = path.parent().expect("the path has folders");
    let written =
        fs::create_dir_all(folder).and_then(|()| fs::write(&staging, code)).and_then(|()| fs::rename(&staging, &path));
    if written.is_err() {
        let _ = fs::remove_file(staging);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let key = format!("test-{}", std::process::id());
        assert_eq!(read(&key), None);
        write(&key, b"code");
        assert_eq!(read(&key).as_deref(), Some(b"code".as_slice()));
        let folder = path(&key).parent().expect("it has one").to_owned();
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.starts_with(&key)).count(), 1, "nothing is left of the way there");
        fs::remove_file(path(&key)).unwrap();
    }
}
