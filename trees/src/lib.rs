//! Gradient-boosted regression trees with cross-fitted predictions, which serve as prior means of Gaussian processes.
//!
//! [`cross_fit`] boosts the trees of K folds in step. Every training row gets a prediction from the trees that did not see it, and the common
//! number of rounds is the one with the lowest loss of these predictions. Predictions at new rows average the trees of all folds. Results do
//! not depend on the number of threads.
//!
//! ```
//! use sparsegp_trees::{Loss, Settings, Targets, Values, cross_fit};
//!
//! // A jump, which trees find.
//! let x: Vec<f64> = (0..400).map(|i| f64::from(i * 37 % 400)).collect();
//! let y: Vec<f64> = x.iter().map(|x| if *x < 130.0 { 1.0 } else { 4.0 }).collect();
//! let folds: Vec<usize> = (0..400).map(|row| row % 5).collect();
//! let fit = cross_fit(&[Values::Numbers(x)], &Targets::of(&y), Loss::Squared, &folds, &Settings::default(), &|| false);
//! assert!(fit.held_out.iter().zip(&y).all(|(f, y)| (f - y).abs() < 0.1));
//! let new = fit.forest.predict(&[Values::Numbers(vec![50.0, 300.0])]);
//! assert!((new[0] - 1.0).abs() < 0.1 && (new[1] - 4.0).abs() < 0.1);
//! ```

mod columns;
mod loss;
mod tree;

pub use columns::Values;
pub use loss::Loss;

use columns::{Bin, Bins};
use loss::Observed;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tree::{Grower, Tree};

/// The number of rows that one task predicts.
const BLOCK: usize = 128;

/// The settings of boosting.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The factor of every step, above 0 and at most 1.
    pub rate: f64,
    /// The maximum number of leaves of a tree.
    pub leaves: usize,
    /// The minimum number of rows of a leaf.
    pub leaf_rows: f64,
    /// The minimum curvature of a leaf.
    pub leaf_curvature: f64,
    /// The penalty of squared leaf values, in units of curvature.
    pub penalty: f64,
    /// The maximum number of rounds.
    pub rounds: usize,
    /// The number of rounds within which the loss, less its lowest possible value, has to fall by [`progress`](Self::progress); otherwise
    /// boosting ends.
    pub patience: usize,
    /// The share by which the loss has to fall.
    pub progress: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            rate: 0.1,
            leaves: 20,
            leaf_rows: 20.0,
            leaf_curvature: 1e-3,
            penalty: 1.0,
            rounds: 1000,
            patience: 50,
            progress: 0.01,
        }
    }
}

/// The targets of training rows.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// The targets, as the loss describes them.
    pub y: &'a [f64],
    /// The weights of the rows, which multiply their losses; empty if all are 1.
    pub weights: &'a [f64],
    /// The exposures of counts; empty if all are 1.
    pub exposure: &'a [f64],
    /// Known additions to the scores, row by row; empty if all are 0.
    pub offsets: &'a [f64],
}

impl<'a> Targets<'a> {
    /// Creates targets without weights and exposures.
    pub fn of(y: &'a [f64]) -> Self {
        Targets { y, weights: &[], exposure: &[], offsets: &[] }
    }

    /// Returns the observation and the weight of a row.
    fn at(&self, row: u32) -> (Observed, f64) {
        let row = row as usize;
        let or_one = |values: &[f64]| values.get(row).copied().unwrap_or(1.0);
        (Observed { y: self.y[row], exposure: or_one(self.exposure) }, or_one(self.weights))
    }
}

/// The trees of all folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forest {
    bins: Vec<Bins>,
    scores: usize,
    folds: Vec<Booster>,
}

/// The starting scores and the trees of a fold: one for each score in every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Booster {
    start: Vec<f64>,
    trees: Vec<Tree>,
}

impl Forest {
    /// Returns the number of scores of a row.
    pub fn scores(&self) -> usize {
        self.scores
    }

    /// Returns the number of folds; each fold has separate trees.
    pub fn folds(&self) -> usize {
        self.folds.len()
    }

    /// Returns the number of rounds.
    pub fn rounds(&self) -> usize {
        self.folds.first().map_or(0, |booster| booster.trees.len() / self.scores)
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.bins.len()
    }

    /// Checks trees that were read from a file.
    ///
    /// # Errors
    ///
    /// The contradiction, in words.
    pub fn check(&self) -> Result<(), &'static str> {
        let suits = |booster: &Booster| {
            booster.start.len() == self.scores
                && booster.trees.len().is_multiple_of(self.scores)
                && booster.trees.iter().all(|tree| tree.is_sound(self.bins.len()))
        };
        match self.scores > 0 && !self.folds.is_empty() && self.folds.iter().all(suits) {
            true => Ok(()),
            false => Err("the trees contradict each other"),
        }
    }

    /// Returns the averages of the scores over all folds, row by row. The columns are those of training.
    ///
    /// # Panics
    ///
    /// For another number of columns, and if columns differ in length.
    pub fn predict(&self, columns: &[Values]) -> Vec<f64> {
        let share = 1.0 / self.folds.len() as f64;
        self.weighted(columns, &|_, _| share)
    }

    /// Returns the scores from the trees without the fold of each row, row by row.
    ///
    /// # Panics
    ///
    /// As for [`predict`](Self::predict), and for fewer folds than rows.
    pub fn predict_held_out(&self, columns: &[Values], folds: &[usize]) -> Vec<f64> {
        self.weighted(columns, &|row, fold| f64::from(u8::from(folds[row] == fold)))
    }

    /// Returns the sums of the scores of all folds with the weight of a row and a fold.
    fn weighted(&self, columns: &[Values], weight: &(dyn Fn(usize, usize) -> f64 + Sync)) -> Vec<f64> {
        assert_eq!(columns.len(), self.bins.len(), "the columns of training");
        let binned: Vec<Vec<Bin>> = self.bins.iter().zip(columns).map(|(bins, of)| bins.assign(of)).collect();
        let rows = columns.first().map_or(0, Values::len);
        let mut all = vec![0.0; rows * self.scores];
        // A tree stays in the cache for the rows of a block.
        all.par_chunks_mut(BLOCK * self.scores).enumerate().for_each(|(block, all)| {
            for (fold, booster) in self.folds.iter().enumerate() {
                let of_rows = (BLOCK * block..).zip(all.chunks_exact_mut(self.scores));
                let mut of_rows: Vec<_> = of_rows
                    .map(|(row, scores)| (row, weight(row, fold), scores))
                    .filter(|of| of.1 > 0.0)
                    .collect();
                for (_, weight, scores) in &mut of_rows {
                    scores
                        .iter_mut()
                        .zip(&booster.start)
                        .for_each(|(score, start)| *score += *weight * start);
                }
                for (at, tree) in booster.trees.iter().enumerate() {
                    for (row, weight, scores) in &mut of_rows {
                        scores[at % self.scores] += *weight * tree.value(|column| binned[column][*row]);
                    }
                }
            }
        });
        all
    }
}

/// The outcome of cross-fitting.
#[derive(Clone, Debug)]
pub struct CrossFit {
    /// The trees.
    pub forest: Forest,
    /// The scores of every training row from the trees that did not see it, row by row.
    pub held_out: Vec<f64>,
    /// The mean loss of the rows at these scores.
    pub loss: f64,
    /// The mean loss at constant scores, each from the rows of the other folds.
    pub loss_of_constant: f64,
}

/// Boosts trees on the rows outside of each fold, in step. `folds` holds the fold of every row, counted from 0. Boosting ends after the round
/// at which `stopped` returns true.
///
/// # Panics
///
/// If columns, targets and folds differ in length.
pub fn cross_fit(
    columns: &[Values],
    targets: &Targets<'_>,
    loss: Loss,
    folds: &[usize],
    settings: &Settings,
    stopped: &dyn Fn() -> bool,
) -> CrossFit {
    let rows = targets.y.len();
    assert!(columns.iter().all(|column| column.len() == rows) && folds.len() == rows, "one value per row");
    let bins: Vec<Bins> = columns.par_iter().map(Bins::of).collect();
    let binned: Vec<Vec<Bin>> = bins.par_iter().zip(columns).map(|(bins, of)| bins.assign(of)).collect();
    let problem = Problem { binned: &binned, targets, loss };
    let count = folds.iter().max().map_or(0, |most| most + 1);
    let new = |fold| {
        let (held, train) = (0..rows as u32).partition(|&row| folds[row as usize] == fold);
        Fold::new(&problem, Grower::new(&bins, &binned, train, settings), held)
    };
    let mut parts: Vec<Fold<'_>> = (0..count).map(new).collect();
    let total = |parts: &[Fold<'_>]| parts.iter().map(|fold| fold.loss(&problem)).sum::<f64>();
    let constant = total(&parts);
    let least: f64 =
        (0..rows as u32).map(|row| targets.at(row)).map(|(of, weight)| weight * loss.least(of)).sum();
    let (mut best, mut at) = (constant, 0);
    let (mut mark, mut since) = (constant, 0);
    for round in 1..=settings.rounds {
        parts.par_iter_mut().for_each(|fold| fold.boost(&problem));
        let now = total(&parts);
        if now < best {
            (best, at) = (now, round);
            parts.iter_mut().for_each(Fold::keep);
        }
        if now - least < (mark - least) * (1.0 - settings.progress) {
            (mark, since) = (now, round);
        }
        if round - since >= settings.patience || !now.is_finite() || stopped() {
            break;
        }
    }
    let scores = loss.scores();
    let mut held_out = vec![0.0; rows * scores];
    for fold in &parts {
        for (&row, own) in fold.held.iter().zip(fold.kept.chunks_exact(scores)) {
            held_out[row as usize * scores..][..scores].copy_from_slice(own);
        }
    }
    held_out.iter_mut().zip(targets.offsets).for_each(|(score, offset)| *score -= offset);
    let weight: f64 = (0..rows as u32).map(|row| targets.at(row).1).sum();
    let forest = Forest { scores, folds: parts.into_iter().map(|fold| fold.first(at)).collect(), bins };
    CrossFit { forest, held_out, loss: best / weight, loss_of_constant: constant / weight }
}

/// The rows and the loss that all folds share.
struct Problem<'a> {
    binned: &'a [Vec<Bin>],
    targets: &'a Targets<'a>,
    loss: Loss,
}

/// The state of boosting without the rows of a fold.
struct Fold<'a> {
    grower: Grower<'a>,
    booster: Booster,
    /// The held-out rows.
    held: Vec<u32>,
    /// The scores of all rows with their offsets, row by row, and the scores of the held-out rows after the best round.
    scores: Vec<f64>,
    kept: Vec<f64>,
    /// The first derivatives and the curvatures of all rows, score by score.
    derivatives: Vec<Vec<(f64, f64)>>,
}

impl<'a> Fold<'a> {
    fn new(problem: &Problem<'_>, grower: Grower<'a>, held: Vec<u32>) -> Self {
        let mut start = problem.loss.start(grower.rows().iter().map(|&row| problem.targets.at(row)));
        let (rows, count, offsets) = (problem.targets.y.len(), start.len(), problem.targets.offsets);
        // The first trees find what the mean of the offsets leaves.
        for (c, start) in start.iter_mut().enumerate().filter(|_| !offsets.is_empty()) {
            let sum: f64 = grower.rows().iter().map(|&row| offsets[row as usize * count + c]).sum();
            *start -= sum / grower.rows().len().max(1) as f64;
        }
        let mut scores = start.repeat(rows);
        scores.iter_mut().zip(offsets).for_each(|(score, offset)| *score += offset);
        let mut fold = Fold {
            kept: Vec::new(),
            scores,
            derivatives: vec![vec![(0.0, 0.0); rows]; count],
            booster: Booster { start, trees: Vec::new() },
            grower,
            held,
        };
        fold.keep();
        fold
    }

    /// Adds a tree for each score.
    fn boost(&mut self, problem: &Problem<'_>) {
        let Fold { grower, booster, held, scores, derivatives, .. } = self;
        let count = problem.loss.scores();
        let (mut slopes, mut curvatures) = (vec![0.0; count], vec![0.0; count]);
        for &row in grower.rows() {
            let (of, weight) = problem.targets.at(row);
            let own = &scores[row as usize * count..][..count];
            problem.loss.derivatives(of, own, &mut slopes, &mut curvatures);
            for (c, derivatives) in derivatives.iter_mut().enumerate() {
                derivatives[row as usize] = (weight * slopes[c], weight * curvatures[c]);
            }
        }
        for (c, derivatives) in derivatives.iter().enumerate() {
            let tree = grower.grow(derivatives, &mut |row, value| scores[row as usize * count + c] += value);
            for row in held.iter().map(|&row| row as usize) {
                scores[row * count + c] += tree.value(|column| problem.binned[column][row]);
            }
            booster.trees.push(tree);
        }
    }

    /// The sum of the losses of the held-out rows.
    fn loss(&self, problem: &Problem<'_>) -> f64 {
        let of_row = |(&row, scores): (&u32, &[f64])| {
            let (of, weight) = problem.targets.at(row);
            weight * problem.loss.value(of, scores)
        };
        self.held.iter().zip(self.held_scores()).map(of_row).sum()
    }

    /// The scores of each held-out row.
    fn held_scores(&self) -> impl Iterator<Item = &[f64]> {
        let count = self.booster.start.len();
        self.held.iter().map(move |&row| &self.scores[row as usize * count..][..count])
    }

    /// Keeps the scores of the held-out rows.
    fn keep(&mut self) {
        self.kept = self.held_scores().flatten().copied().collect();
    }

    /// The trees of the first rounds.
    fn first(self, rounds: usize) -> Booster {
        let Booster { start, mut trees } = self.booster;
        trees.truncate(rounds * start.len());
        Booster { start, trees }
    }
}
