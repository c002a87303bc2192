//! Which rows each step of a fit takes: epochs, schedules of sizes, independent draws; row indices only, no values.

use crate::data::random::{Purpose, generator};
use crate::data::split::Batches;
use crate::variational::SizeSchedule;
use rand::RngExt;

/// Which rows a step takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BatchPlan {
    /// Every epoch uses every row once, in batches of at most this many rows ([`Batches`]).
    Epochs(usize),
    /// As many rows as the schedule says, at most all, going through one shuffled order after the other.
    Sized(SizeSchedule),
    /// As many rows as the schedule says, at most as many as there are, drawn independently and with replacement.
    Independent(SizeSchedule),
}

impl BatchPlan {
    /// The rows of the first batch out of `n`.
    pub fn first(self, n: usize) -> usize {
        match self {
            BatchPlan::Epochs(batch) => Batches::new(n, batch, 0).largest(),
            BatchPlan::Sized(sizes) | BatchPlan::Independent(sizes) => sizes.at(0, n),
        }
    }
}

/// The batches of a plan, one after the other; nothing is allocated once the largest was drawn.
#[derive(Clone, Debug)]
pub struct BatchStream {
    plan: BatchPlan,
    epochs: Batches,
    per_epoch: usize,
    n: usize,
    seed: u64,
    order: Vec<usize>,
    ends: Vec<usize>,
    epoch: u64,
    at: usize,
    iteration: usize,
    drawn: Vec<usize>,
}

impl BatchStream {
    /// Batches of the rows `0..n` (at least one).
    pub fn new(n: usize, plan: BatchPlan, seed: u64) -> Self {
        let epochs = Batches::new(n, if let BatchPlan::Epochs(batch) = plan { batch } else { n }, seed);
        let per_epoch = match plan {
            BatchPlan::Epochs(_) => epochs.per_epoch().max(1),
            BatchPlan::Sized(sizes) | BatchPlan::Independent(sizes) => {
                let (mut rows, mut batches) = (0, 0);
                while rows < n.max(1) {
                    rows += sizes.at(batches, n).max(1);
                    batches += 1;
                }
                batches
            }
        };
        BatchStream {
            plan,
            epochs,
            per_epoch,
            n,
            seed,
            order: Vec::new(),
            ends: Vec::new(),
            epoch: 0,
            at: 0,
            iteration: 0,
            drawn: Vec::new(),
        }
    }

    /// The number of batches in which the first pass over as many rows as there are is made.
    pub fn per_epoch(&self) -> usize {
        self.per_epoch
    }

    /// The rows of the next batch.
    pub fn next_batch(&mut self) -> &[usize] {
        let t = self.iteration;
        self.iteration += 1;
        match self.plan {
            BatchPlan::Epochs(_) => self.next_of_epoch(),
            BatchPlan::Sized(sizes) => {
                let size = sizes.at(t, self.n);
                self.drawn.clear();
                while self.drawn.len() < size {
                    if self.at == self.order.len() {
                        self.shuffle();
                    }
                    let end = (self.at + size - self.drawn.len()).min(self.order.len());
                    self.drawn.extend_from_slice(&self.order[self.at..end]);
                    self.at = end;
                }
                &self.drawn
            }
            BatchPlan::Independent(sizes) => {
                let size = sizes.at(t, self.n);
                let mut random = generator(self.seed, Purpose::Batches, t as u64);
                self.drawn.clear();
                self.drawn.extend((0..size).map(|_| random.random_range(0..self.n)));
                &self.drawn
            }
        }
    }

    /// A new order of all rows, for the next epoch.
    fn shuffle(&mut self) {
        self.order.clear();
        self.ends.clear();
        for batch in self.epochs.epoch(self.epoch) {
            self.order.extend_from_slice(batch);
            self.ends.push(self.order.len());
        }
        self.epoch += 1;
        self.at = 0;
    }

    /// The next batch of the epoch; `at` counts batches here.
    fn next_of_epoch(&mut self) -> &[usize] {
        if self.at == self.ends.len() {
            self.shuffle();
        }
        let from = if self.at == 0 { 0 } else { self.ends[self.at - 1] };
        self.at += 1;
        &self.order[from..self.ends[self.at - 1]]
    }
}
