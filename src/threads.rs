//! Where work runs, and the memory that a piece of work leaves for the next one, so that it stays in a cache; no work.

use std::sync::{Mutex, PoisonError};

/// Values that are lent to pieces of work, as many as there are pieces at once.
pub(crate) struct PerThread<T> {
    free: Mutex<Vec<T>>,
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> PerThread<T> {
    /// Makes a value for each thread; more follow where a thread that waits for a part of its work takes up another.
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let free = (0..rayon::current_num_threads()).map(|_| make()).collect();
        PerThread { free: Mutex::new(free), make: Box::new(make) }
    }

    /// Lends a value: the one returned last, usually by this thread.
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

/// Work of fewer multiplications is done on one thread: waking others would take longer.
pub(crate) const ALONE: usize = 1 << 21;

/// Does `work`, whose largest part takes so many multiplications, on one of the pool's threads. From any other thread every
/// parallel product would be handed over and waited for by itself, which for small ones takes as long as the product.
pub(crate) fn on_pool<R: Send>(multiplications: usize, work: impl FnOnce() -> R + Send) -> R {
    if multiplications < ALONE { work() } else { rayon::scope(|_| work()) }
}

/// Does both side by side, or in turn where `multiplications` is little and handing them to the pool would take longer.
pub(crate) fn beside<A: Send, B: Send>(
    multiplications: usize,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    let outside = rayon::current_thread_index().is_none();
    if multiplications < ALONE && outside { (a(), b()) } else { rayon::join(a, b) }
}
