//! Objects behind opaque handles: a handle that was given up, or that never was one, leads to nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The objects of one kind, by the numbers that stand for them. No number is used twice.
#[derive(Debug)]
pub struct Handles<T> {
    first: usize,
    objects: Mutex<(usize, BTreeMap<usize, T>)>,
}

impl<T: Clone> Handles<T> {
    /// None yet. Handles are odd numbers from `first` on, which no object has as its address.
    pub const fn from(first: usize) -> Self {
        Self { first, objects: Mutex::new((0, BTreeMap::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, (usize, BTreeMap<usize, T>)> {
        self.objects.lock().expect("no panic while held")
    }

    /// Keeps an object and returns its handle.
    pub fn insert<H>(&self, object: T) -> *mut H {
        let mut objects = self.lock();
        let handle = self.first + 2 * objects.0;
        objects.0 += 1;
        objects.1.insert(handle, object);
        std::ptr::without_provenance_mut(handle)
    }

    /// The object of a handle.
    pub fn get<H>(&self, handle: *mut H) -> Option<T> {
        self.lock().1.get(&handle.addr()).cloned()
    }

    /// Gives an object up; who has it may go on using it.
    pub fn remove<H>(&self, handle: *mut H) -> Option<T> {
        self.lock().1.remove(&handle.addr())
    }

    /// Gives up the objects that do not fit.
    pub fn retain(&self, fits: impl Fn(&T) -> bool) {
        self.lock().1.retain(|_, object| fits(object));
    }
}
