//! Code objects that earlier runs have compiled, and what they have measured, in files that several processes may read
//! and write at a time.
//!
//! A file's name has a hash of everything that its contents depend on, so nothing in it ever goes stale. It is written
//! under another name and renamed when it is complete, and ends with a hash of itself, so that what a crash has left is
//! not taken for a code object. A cache that cannot be read or written is no error: kernels are compiled again.
use super::hash::Hash128;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where code objects are kept; by default `candle-rocm/kernels` in the user's cache folder.
const FOLDER_VARIABLE: &str = "CANDLE_ROCM_CACHE_DIR";

/// Compiles everything again if it is set to anything but 0.
const FORCE_VARIABLE: &str = "CANDLE_ROCM_FORCE_RECOMPILE";

/// Bytes of the hash at the end of a file.
const TRAILER: usize = 16;

/// A place on the disk for one code object, or for one result of a measurement.
pub(crate) struct Entry {
    path: PathBuf,
}

impl Entry {
    /// The place for what `key` stands for, in a file with that ending; `None` if the user has no folder for such things.
    pub(super) fn new(architecture: &str, name: &str, key: Hash128, ending: &str) -> Option<Self> {
        let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let folder: String = architecture.chars().map(safe).collect();
        let name: String = name.chars().map(safe).collect();
        let path = folder_of_user(|name| env::var_os(name))?
            .join(folder)
            .join(format!("{name}-{key}.{ending}"));
        Some(Self { path })
    }

    /// What is there, if it is complete.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        if is_forced(env::var_os(FORCE_VARIABLE).as_deref()) {
            return None;
        }
        let mut code = fs::read(&self.path).ok()?;
        let trailer = code.split_off(code.len().checked_sub(TRAILER)?);
        (trailer == Hash128::of(&code).to_bytes()).then_some(code)
    }

    /// Keeps it for later runs, if it can.
    pub(crate) fn write(&self, code: &[u8]) {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let mut name = OsString::from(&self.path);
        name.push(format!(".{}-{number}", std::process::id()));
        let unfinished = PathBuf::from(name);
        let written =
            write_file(&unfinished, code).and_then(|()| fs::rename(&unfinished, &self.path));
        if written.is_err() {
            // Another run tries again; this one has what it needs.
            let _ = fs::remove_file(&unfinished);
        }
    }
}

fn is_forced(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| value != "0")
}

fn write_file(path: &Path, code: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::File::create(path)?;
    file.write_all(code)?;
    file.write_all(&Hash128::of(code).to_bytes())?;
    file.sync_all()
}

/// `environment` gives the value of a variable.
fn folder_of_user(environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let variable = |name| {
        environment(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(folder) = variable(FOLDER_VARIABLE) {
        return Some(folder);
    }
    let caches = variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .or_else(|| variable("LOCALAPPDATA"))?;
    Some(caches.join("candle-rocm").join("kernels"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::is_alone;

    /// An entry in a folder of its own, which is removed at the end.
    struct Kept(Entry);

    impl Kept {
        fn new(name: &str) -> Self {
            let folder = format!("candle-rocm-disk-cache-{}-{name}", std::process::id());
            let path = env::temp_dir().join(folder).join("gfx0").join("k.hsaco");
            Self(Entry { path })
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            let folder = self.0.path.ancestors().nth(2).expect("it has three parts");
            let _ = fs::remove_dir_all(folder);
        }
    }

    #[test]
    fn what_is_complete_is_read_and_nothing_else() {
        let test = "what_is_complete_is_read_and_nothing_else";
        if !is_alone(module_path!(), test, &[(FORCE_VARIABLE, "0")]) {
            return;
        }
        let kept = Kept::new(test);
        let Kept(entry) = &kept;
        assert_eq!(entry.read(), None);
        entry.write(b"code");
        assert_eq!(entry.read().as_deref(), Some(&b"code"[..]));
        let whole = fs::read(&entry.path).unwrap();
        assert_eq!(whole.len(), 4 + 16);
        assert_eq!(whole[..4], b"code"[..]);
        assert_eq!(whole[4..], Hash128::of(b"code").to_bytes());
        // Nothing else is left in the folder.
        assert_eq!(
            fs::read_dir(entry.path.parent().unwrap()).unwrap().count(),
            1
        );
        let mut changed = whole.clone();
        changed[0] ^= 1;
        for content in [&changed[..], &whole[..19], &whole[..15], &whole[..4], &[]] {
            fs::write(&entry.path, content).unwrap();
            assert_eq!(entry.read(), None, "{content:?}");
        }
        // Written again, over what was there.
        entry.write(b"other code");
        assert_eq!(entry.read().as_deref(), Some(&b"other code"[..]));
        entry.write(b"");
        assert_eq!(entry.read(), Some(Vec::new()));
    }

    #[test]
    fn anything_but_0_forces_to_compile_again() {
        let values = [None, Some("0"), Some("1"), Some("")];
        let forced = values.map(|value| is_forced(value.map(OsStr::new)));
        assert_eq!(forced, [false, false, true, true]);
    }

    #[test]
    fn nothing_is_read_where_all_is_compiled_again() {
        let test = "nothing_is_read_where_all_is_compiled_again";
        if is_alone(module_path!(), test, &[(FORCE_VARIABLE, "1")]) {
            let kept = Kept::new(test);
            kept.0.write(b"code");
            assert_eq!(kept.0.read(), None);
            assert!(kept.0.path.is_file());
        }
    }

    #[test]
    fn an_entry_that_cannot_be_written_leaves_nothing() {
        let kept = Kept::new("cannot_be_written");
        // A folder in its place.
        fs::create_dir_all(&kept.0.path).unwrap();
        kept.0.write(b"code");
        assert_eq!(kept.0.read(), None);
        let folder = kept.0.path.parent().unwrap();
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }

    #[test]
    fn names_are_safe_and_tell_entries_apart() {
        let test = "names_are_safe_and_tell_entries_apart";
        if !is_alone(module_path!(), test, &[(FOLDER_VARIABLE, "kept here")]) {
            return;
        }
        let place = |architecture, name| {
            let entry = Entry::new(architecture, name, Hash128::EMPTY, "hsaco");
            entry.expect("there is a folder").path
        };
        let folder = Path::new("kept here").join("gfx90a-sramecc--xnack-");
        let name = "a-b-hip-6c62272e07bb014262b821756295c58d.hsaco";
        let found = place("gfx90a:sramecc+:xnack-", "a/b.hip");
        assert_eq!(found, folder.join(name));
    }

    #[test]
    fn the_first_folder_that_is_named_is_used() {
        let folder = |variables: &[(&str, &str)]| {
            folder_of_user(|name| {
                let mut all = variables.iter();
                all.find_map(|(known, value)| (*known == name).then(|| value.into()))
            })
        };
        let below = |folder: &str| Some(Path::new(folder).join("candle-rocm").join("kernels"));
        assert_eq!(folder(&[]), None);
        let local = ("LOCALAPPDATA", "/local");
        assert_eq!(folder(&[local]), below("/local"));
        let home = ("HOME", "/home/me");
        assert_eq!(folder(&[local, home]), below("/home/me/.cache"));
        let caches = ("XDG_CACHE_HOME", "/caches");
        assert_eq!(folder(&[local, home, caches]), below("/caches"));
        let own = (FOLDER_VARIABLE, "/own");
        let all = [local, home, caches, own];
        assert_eq!(folder(&all), Some("/own".into()));
        // Empty is as good as not set.
        let empty = [("HOME", ""), ("XDG_CACHE_HOME", ""), (FOLDER_VARIABLE, "")];
        assert_eq!(folder(&empty), None);
        assert_eq!(folder(&[empty[0], empty[1], own]), Some("/own".into()));
    }
}
