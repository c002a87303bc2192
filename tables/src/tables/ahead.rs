//! Items made by a separate thread, a few ahead of their consumer.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

use sparsegp::error::{Error, Result};

/// An iterator whose items a thread makes ahead of time, up to a fixed number.
///
/// If it is dropped early, the thread ends after its current item, which may take long if it waits for a pipe.
pub struct Ahead<T> {
    items: Receiver<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Ahead<T> {
    /// Starts the thread, which calls `next` until it returns `None`. Up to `most` finished items (at least one) wait for the consumer.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn new(most: usize, mut next: impl FnMut() -> Option<T> + Send + 'static) -> Result<Ahead<T>> {
        let (sender, receiver) = sync_channel(most.max(1));
        let make = move || {
            while let Some(item) = next() {
                // Without a receiver, no further items are needed.
                if sender.send(item).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("sparsegp-reader".to_owned()).spawn(make);
        let thread =
            thread.map_err(|error| Error::data(format!("the reading thread cannot be started: {error}")))?;
        Ok(Ahead { items: receiver, thread })
    }

    /// Waits for the current item of the thread, and ends it.
    pub(crate) fn stop(self) {
        // Without its receiver the thread cannot hand over its next item and ends.
        drop(self.items);
        let _ = self.thread.join();
    }
}

impl<T> Iterator for Ahead<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.items.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn items_come_in_order_and_the_thread_ends_with_its_taker() {
        let mut numbers = 0..5;
        assert_eq!(
            Ahead::new(2, move || numbers.next()).expect("a thread").collect::<Vec<_>>(),
            [0, 1, 2, 3, 4]
        );
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let endless = Ahead::new(3, move || Some(counter.fetch_add(1, Ordering::SeqCst)));
        let mut endless = endless.expect("a thread");
        assert_eq!(endless.next(), Some(0));
        endless.stop();
        // One item taken, three waiting, one in progress.
        assert!(made.load(Ordering::SeqCst) <= 5);
    }
}
