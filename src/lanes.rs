//! Memory of its own for every thread, so that what a thread works on stays in its cache; no work.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One value per thread of the pool that it was made in.
pub(crate) struct Lanes<T>(Vec<Mutex<T>>);

impl<T> Lanes<T> {
    /// Makes a value for each thread.
    pub fn new(mut make: impl FnMut() -> T) -> Self {
        Lanes((0..rayon::current_num_threads()).map(|_| Mutex::new(make())).collect())
    }

    /// This thread's value, while it is held. Threads of a larger pool share values and may wait for each other; nothing that
    /// rayon may suspend must be done meanwhile.
    pub fn mine(&self) -> MutexGuard<'_, T> {
        let thread = rayon::current_thread_index().unwrap_or(0);
        // A value is a buffer: what a thread that panicked left in it does not matter.
        self.0[thread % self.0.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
