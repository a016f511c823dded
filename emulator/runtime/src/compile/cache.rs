//! Code objects on disk, safe to share between processes: a file appears complete or not at all.

use std::fs;
use std::path::PathBuf;

use crate::settings::settings;

fn path(key: &str) -> PathBuf {
    settings().cache.join("objects").join(&key[..2]).join(format!("{key}.so"))
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
