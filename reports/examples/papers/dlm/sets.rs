//! The data sets of the learning curves, and the rows of a repeat.

use crate::paper::prelude::*;
use crate::paper::stand_in;
use rand::seq::SliceRandom;

#[derive(Clone, Copy, PartialEq)]
pub enum Says {
    /// Joint DLM clearly has the lowest log loss.
    Joint,
    /// Fixed DLM clearly has the lowest log loss.
    Fixed,
    /// Joint or fixed DLM is at least as good as the other objectives.
    Either,
    /// The objectives differ little.
    Little,
}

pub struct Set {
    pub name: &'static str,
    pub kind: TargetKind,
    /// M of table 2.
    pub inducing: usize,
    pub says: Says,
    /// The data set of the paper that it replaces.
    pub stands_for: Option<&'static str>,
}

pub const fn set(
    name: &'static str,
    kind: TargetKind,
    inducing: usize,
    says: Says,
    stands_for: Option<&'static str>,
) -> Set {
    Set { name, kind, inducing, says, stands_for }
}

/// The sets, cheap ones first.
pub const SETS: [Set; 12] = [
    set("abalone", TargetKind::Count, 41, Says::Either, None),
    set("doctor_visits", TargetKind::Count, 40, Says::Either, Some("Peds1, direction 0")),
    set("nmes1988", TargetKind::Count, 40, Says::Either, Some("Peds1, direction 1")),
    set("bike_count", TargetKind::Count, 40, Says::Either, Some("Peds1, direction 2")),
    set("thyroid", TargetKind::Binary, 37, Says::Little, None),
    set("banana", TargetKind::Binary, 53, Says::Little, None),
    set("ringnorm", TargetKind::Binary, 74, Says::Either, None),
    set("twonorm", TargetKind::Binary, 74, Says::Little, None),
    set("sarcos_test", TargetKind::Real, 100, Says::Joint, None),
    set("kin40k", TargetKind::Real, 100, Says::Joint, Some("song")),
    set("pol", TargetKind::Real, 100, Says::Joint, None),
    set("cadata", TargetKind::Real, 206, Says::Fixed, None),
];

pub const HELD_OUT: usize = 1000;

/// The numbers of rows of a repeat. At most `most` of the validation rows, and of the test rows, are used.
pub struct Counts {
    pub train: usize,
    pub validation: usize,
    pub test: usize,
    pub most: usize,
}

/// The rows of a repeat, standardised by the training rows.
pub struct Rows {
    pub train: Data,
    pub validation: Data,
    pub test: Data,
}

impl Set {
    pub fn is_regression(&self) -> bool {
        self.kind == TargetKind::Real
    }

    pub fn likelihood(&self) -> LikelihoodKind {
        match self.kind {
            TargetKind::Real => LikelihoodKind::Gaussian,
            TargetKind::Binary => LikelihoodKind::BernoulliProbit,
            _ => LikelihoodKind::Poisson,
        }
    }

    /// Returns the first `n` training rows of a repeat, or all if there are fewer, with its validation and test rows; `None` without data.
    pub fn rows(&self, paper: &Paper, n: usize, repeat: u64) -> Result<Option<Rows>> {
        let data = if self.name == "doctor_visits" {
            let (table, target) = stand_in(self.kind)?;
            Data::of_table(&table, target, self.kind)?
        } else {
            let Some(table) = paper.table(self.name)? else { return Ok(None) };
            Data::of_table(&table, "y", self.kind)?
        };
        let all = data.y.len() as f64;
        let (validation, test) = match self.kind {
            TargetKind::Real => (0.08 * all, 0.25 * all),
            _ => (0.1 * all, HELD_OUT as f64),
        };
        let (validation, test) = (validation as usize, test as usize);
        let counts = Counts { train: n, validation, test, most: HELD_OUT };
        Ok(Some(Rows::of(&data, counts, repeat, self.is_regression())))
    }
}

impl Rows {
    /// Takes disjoint random rows for training, validation and testing.
    pub fn of(data: &Data, counts: Counts, seed: u64, scales_target: bool) -> Rows {
        let mut order: Vec<usize> = (0..data.y.len()).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let (held_out, train) = order.split_at(counts.validation + counts.test);
        let (validation, test) = held_out.split_at(counts.validation);
        let capped = |rows: &[usize]| data.take(&rows[..rows.len().min(counts.most)]);
        let train = data.take(&train[..counts.train.min(train.len())]);
        let mut rows = Rows { train, validation: capped(validation), test: capped(test) };
        let scaling = rows.train.standardise(scales_target);
        rows.validation.scale(&scaling);
        rows.test.scale(&scaling);
        rows
    }
}
