//! Objects behind the opaque handles of a library.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Handles are odd numbers from this on, which no object has as its address.
const FIRST_HANDLE: usize = 0x6000_0001;

/// Every handle of a process differs, whatever it stands for.
static HANDED_OUT: AtomicUsize = AtomicUsize::new(0);

/// The objects of one kind. A handle that was destroyed, or that is one of another kind, leads to nothing.
#[derive(Debug)]
pub struct Handles<T>(Mutex<BTreeMap<usize, T>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Handles<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Keeps an object and returns its handle.
    ///
    /// # Panics
    /// As all functions here, if a thread panicked in [`Handles::with`].
    pub fn insert<H>(&self, object: T) -> *mut H {
        let handle = FIRST_HANDLE + 2 * HANDED_OUT.fetch_add(1, Ordering::Relaxed);
        self.0.lock().expect("no panic while held").insert(handle, object);
        std::ptr::without_provenance_mut(handle)
    }

    /// Does something with an object, if the handle leads to one.
    pub fn with<H, R>(&self, handle: *mut H, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.lock().expect("no panic while held").get_mut(&handle.addr()).map(body)
    }

    /// Gives an object up.
    pub fn remove<H>(&self, handle: *mut H) -> Option<T> {
        self.0.lock().expect("no panic while held").remove(&handle.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_leads_to_its_object_until_it_is_removed() {
        let (numbers, texts) = (Handles::new(), Handles::new());
        let (one, two): (*mut u8, *mut u8) = (numbers.insert(1), numbers.insert(2));
        let text: *mut u8 = texts.insert("text");
        assert_eq!(numbers.with(one, |number| *number), Some(1));
        assert_eq!(numbers.with(text, |number| *number), None);
        assert_eq!(numbers.remove(one), Some(1));
        assert_eq!((numbers.with(one, |_| ()), numbers.remove(one)), (None, None));
        assert_eq!(numbers.with(two, |number| *number), Some(2));
    }
}
