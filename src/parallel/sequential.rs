//! The functions and methods of rayon that this crate uses, on the calling thread. Results are the same bits, because no result depends on
//! the number of threads.

use std::slice::{ChunksExactMut, ChunksMut, Iter, IterMut};

pub(crate) fn current_num_threads() -> usize {
    1
}

pub(crate) fn current_thread_index() -> Option<usize> {
    Some(0)
}

pub(crate) fn join<A, B>(a: impl FnOnce() -> A, b: impl FnOnce() -> B) -> (A, B) {
    (a(), b())
}

pub(crate) fn scope<R>(work: impl FnOnce(()) -> R) -> R {
    work(())
}

pub(crate) trait IntoParallelIterator: IntoIterator + Sized {
    fn into_par_iter(self) -> Self::IntoIter {
        self.into_iter()
    }
}

impl<I: IntoIterator> IntoParallelIterator for I {}

pub(crate) trait ParallelSlice<T> {
    fn par_iter(&self) -> Iter<'_, T>;
    fn par_iter_mut(&mut self) -> IterMut<'_, T>;
    fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T>;
    fn par_chunks_exact_mut(&mut self, size: usize) -> ChunksExactMut<'_, T>;
}

impl<T> ParallelSlice<T> for [T] {
    fn par_iter(&self) -> Iter<'_, T> {
        self.iter()
    }

    fn par_iter_mut(&mut self) -> IterMut<'_, T> {
        self.iter_mut()
    }

    fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T> {
        self.chunks_mut(size)
    }

    fn par_chunks_exact_mut(&mut self, size: usize) -> ChunksExactMut<'_, T> {
        self.chunks_exact_mut(size)
    }
}

/// The methods of rayon's iterators that iterators of the standard library lack.
pub(crate) trait ParallelIterator: Iterator + Sized {
    fn map_init<S, R>(
        self,
        init: impl FnOnce() -> S,
        map: impl Fn(&mut S, Self::Item) -> R,
    ) -> impl Iterator<Item = R> {
        let mut state = init();
        self.map(move |item| map(&mut state, item))
    }

    fn for_each_init<S>(self, init: impl FnOnce() -> S, work: impl Fn(&mut S, Self::Item)) {
        let mut state = init();
        self.for_each(|item| work(&mut state, item));
    }

    fn flat_map_iter<I: IntoIterator>(self, map: impl Fn(Self::Item) -> I) -> impl Iterator<Item = I::Item> {
        self.flat_map(map)
    }

    fn with_max_len(self, _: usize) -> Self {
        self
    }
}

impl<I: Iterator> ParallelIterator for I {}
