//! Fits in which L-BFGS moves q and hyper-parameters together, on all rows.

use super::fit::FitOptions;
use super::words::{Hyper, HyperOptimizer, ObjectiveKind};
use crate::variational::Family;

/// Direct losses are minimised on all rows up to this n·M², four times as much for several functions. Such fits take seconds.
const TOGETHER_WORK: usize = 400_000_000;

/// The default limit on the epochs of such a fit keeps their work below this, but allows …
const TOGETHER_BUDGET: f64 = 1e11;

/// … at least this number of epochs.
const FEWEST_EPOCHS_TOGETHER: usize = 300;

impl FitOptions {
    /// Returns true if L-BFGS moves q and hyper-parameters together, or q alone if they are fixed, on all rows.
    pub(crate) fn trains_together(&self) -> bool {
        matches!(self.hyper_mode(), Hyper::Joint | Hyper::Fixed)
            && self.optimizer() == HyperOptimizer::Lbfgs
            && !self.is_always_closed()
    }

    /// Returns true if a fit to `n` rows in memory trains q and hyper-parameters together by default: direct losses of few rows, for which
    /// steps on mini-batches end far from the optimum.
    pub(super) fn together_for(&self, n: usize) -> bool {
        let work = self.work_together(n);
        let exact = !self.estimator.is_sampled() && self.steps.family == Family::Full;
        self.objective == ObjectiveKind::DlmLog && !self.is_always_closed() && exact && work <= TOGETHER_WORK
    }

    /// Returns the default limit on the epochs of such a fit to `n` rows.
    pub(super) fn epochs_together(&self, n: usize) -> usize {
        ((TOGETHER_BUDGET / self.work_together(n) as f64) as usize).max(FEWEST_EPOCHS_TOGETHER)
    }

    /// Returns the work of a pass over `n` rows that moves q and hyper-parameters together.
    fn work_together(&self, n: usize) -> usize {
        let functions = if self.likelihood_kind().is_joint() { 4 } else { 1 };
        functions * n * self.inducing_for(n).pow(2)
    }
}
