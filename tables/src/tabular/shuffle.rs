//! A shuffle buffer: rows of numbers in, the same rows in random order out, with a fixed number in
//! memory.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A buffer of rows of one width, from which random rows are taken.
#[derive(Clone, Debug)]
pub(crate) struct ShuffleBuffer {
    width: usize,
    most: usize,
    cells: Vec<f64>,
}

impl ShuffleBuffer {
    /// Creates a buffer for `most` rows (at least one) of `width` numbers (at least one).
    pub(crate) fn new(width: usize, most: usize) -> ShuffleBuffer {
        ShuffleBuffer { width, most: most.max(1), cells: Vec::with_capacity(width * most.max(1)) }
    }

    /// Returns the number of rows in the buffer.
    pub(crate) fn rows(&self) -> usize {
        self.cells.len() / self.width
    }

    /// Returns true if the buffer is full.
    pub(crate) fn is_full(&self) -> bool {
        self.rows() == self.most
    }

    /// Adds a row, given as an iterator of its numbers.
    pub(crate) fn push(&mut self, row: impl Iterator<Item = f64>) {
        let before = self.cells.len();
        self.cells.extend(row);
        debug_assert_eq!(self.cells.len(), before + self.width);
    }

    /// Removes a random row and passes it to `take`; returns `false` if the buffer is empty.
    pub(crate) fn pop(&mut self, random: &mut ChaCha8Rng, take: impl FnOnce(&[f64])) -> bool {
        let rows = self.rows();
        if rows == 0 {
            return false;
        }
        let at = random.random_range(0..rows) * self.width;
        take(&self.cells[at..at + self.width]);
        let last = self.cells.len() - self.width;
        self.cells.copy_within(last.., at);
        self.cells.truncate(last);
        true
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparsegp::data::{Purpose, generator};

    /// Passes the rows 0..n, each (row, 10·row), through a buffer of `most` rows, and returns their order.
    fn through(n: usize, most: usize, seed: u64) -> Vec<usize> {
        let mut random = generator(seed, Purpose::Batches, 0);
        let mut buffer = ShuffleBuffer::new(2, most);
        let (mut incoming, mut out) = (0..n, Vec::new());
        loop {
            while !buffer.is_full() {
                let Some(row) = incoming.next() else { break };
                buffer.push([row as f64, 10.0 * row as f64].into_iter());
            }
            let taken = buffer.pop(&mut random, |row| {
                assert_eq!(row[1], 10.0 * row[0]);
                out.push(row[0] as usize);
            });
            if !taken {
                return out;
            }
        }
    }

    #[test]
    fn every_row_comes_out_once_and_a_large_buffer_shuffles_evenly() {
        for (n, most) in [(1, 5), (50, 1), (50, 7), (50, 50), (50, 99)] {
            let mut rows = through(n, most, 1);
            if most == 1 {
                assert_eq!(rows, (0..n).collect::<Vec<_>>());
            }
            rows.sort_unstable();
            assert_eq!(rows, (0..n).collect::<Vec<_>>());
        }
        // Where row 0 of 8 comes out is uniform: 250 times each of 2000, with a standard deviation of 14.8.
        let mut counts = [0.0; 8];
        for seed in 0..2000 {
            let place = through(8, 8, seed).iter().position(|&row| row == 0);
            counts[place.expect("row 0")] += 1.0;
        }
        assert!(counts.iter().all(|count| (count - 250.0f64).abs() < 5.0 * 14.8), "{counts:?}");
    }
}
