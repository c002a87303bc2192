//! Memory for what a thread works on, which it leaves for its next piece of work, so that it stays in its cache; no work.

use std::sync::{Mutex, PoisonError};

/// Values that are lent to pieces of work, as many as there are pieces at once.
pub(crate) struct Lanes<T> {
    free: Mutex<Vec<T>>,
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> Lanes<T> {
    /// Makes a value for each thread; more follow where a thread that waits for a part of its work takes up another.
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let free = (0..rayon::current_num_threads()).map(|_| make()).collect();
        Lanes { free: Mutex::new(free), make: Box::new(make) }
    }

    /// Lends a value: the one that was given back last, which most often this thread did.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // A value is a buffer: what a thread that panicked left in others does not matter.
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = free().pop();
        let mut value = lent.unwrap_or_else(|| (self.make)());
        let result = work(&mut value);
        free().push(value);
        result
    }
}
