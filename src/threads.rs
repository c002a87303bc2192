//! Threads that run work, and buffers that are handed from one piece of work to the next while they
//! are still in a cache.

use crate::parallel::{current_num_threads, current_thread_index, join, scope};
use std::sync::{Mutex, PoisonError};

/// A pool of values, one for each piece of work that runs at the same time.
pub(crate) struct PerThread<T> {
    free: Mutex<Vec<T>>,
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> PerThread<T> {
    /// Makes a value for each thread. More are made later if a thread starts another piece of work while it waits for a part of the first.
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let free = (0..current_num_threads()).map(|_| make()).collect();
        PerThread { free: Mutex::new(free), make: Box::new(make) }
    }

    /// Lends a value: the one returned last, usually by this thread.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // A value is a buffer, so its contents after a panic of another thread do not matter.
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = free().pop();
        let mut value = lent.unwrap_or_else(|| (self.make)());
        let result = work(&mut value);
        free().push(value);
        result
    }
}

/// The number of multiplications below which work stays on one thread, because waking others would take longer.
pub(crate) const ALONE: usize = 1 << 21;

/// Runs `work` on a thread of the pool; its largest product takes this number of multiplications.
/// On a thread outside the pool, every parallel product would have to be passed to the pool, which
/// takes as long as a small product itself.
pub(crate) fn on_pool<R: Send>(multiplications: usize, work: impl FnOnce() -> R + Send) -> R {
    if multiplications < ALONE { work() } else { scope(|_| work()) }
}

/// Runs both in parallel, or one after the other if `multiplications` is so small that passing them to the pool would take longer.
pub(crate) fn beside<A: Send, B: Send>(
    multiplications: usize,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    let outside = current_thread_index().is_none();
    if multiplications < ALONE && outside { (a(), b()) } else { join(a, b) }
}
