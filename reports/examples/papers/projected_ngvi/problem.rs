//! A model whose optimal q is a known normal distribution, and divergences from this q along runs
//! of natural gradients.

use crate::paper::{common, runs};
use common::{Data, trace};
use faer::{Mat, Scale};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::Result;
use sparsegp::data::{BatchPlan, SizeSchedule};
use sparsegp::likelihood::Gaussian;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::{Family, Normal, QUpdate, RuleOptions, Schedule};
use sparsegp_research::ProjectedBound;

/// The initial variance of the coefficients in conjugate runs; their initial means are uniform in [−5, 5].
pub const START: f64 = 10.0;

/// Steps, and numbers of samples or rows.
#[derive(Clone, Copy)]
pub struct Schedules {
    pub step: Schedule,
    pub size: SizeSchedule,
}

impl Schedules {
    /// Creates schedules with a constant step and a constant number.
    pub fn constant(step: f64, size: usize) -> Self {
        Schedules { step: Schedule::Constant(step), size: SizeSchedule::Constant(size) }
    }

    /// Returns the name in figures.
    pub fn label(self) -> String {
        format!("step {}, N {}", self.step, self.size)
    }
}

/// Bayesian linear regression with σ² = 1 and coefficients of prior N(0, p I).
pub struct Problem {
    pub data: Data,
    /// The prior variance p.
    pub prior: f64,
    /// Exact gradients of random rows, or sampled gradients of all rows.
    pub estimator: Estimator,
    /// The constant V of the bounds.
    pub noise: f64,
    pub posterior: Normal,
}

/// Means over runs at recorded iterations.
pub struct Means {
    pub t: Vec<f64>,
    /// Samples or rows used.
    pub used: Vec<f64>,
    /// KL(q* ‖ q_t).
    pub kl: Vec<f64>,
    pub bound: Vec<f64>,
}

impl Means {
    /// The first mean divergence at or after an iteration.
    pub fn at(&self, t: f64) -> f64 {
        self.kl[self.t.partition_point(|s| *s < t).min(self.kl.len() - 1)]
    }

    /// The last mean divergence within a budget of samples or rows.
    pub fn within(&self, budget: f64) -> f64 {
        self.kl[self.used.partition_point(|used| *used <= budget).max(1) - 1]
    }

    /// The slope of log KL in log t from an iteration on.
    pub fn slope_from(&self, t: f64) -> f64 {
        let late = |p: &(f64, f64)| p.0 >= t;
        let points = self.t.iter().copied().zip(self.kl.iter().copied()).filter(late);
        common::slope(&points.collect::<Vec<_>>())
    }

    /// The number of records whose mean divergence is within the bound.
    pub fn within_bound(&self) -> usize {
        self.kl.iter().zip(&self.bound).filter(|(kl, bound)| kl <= bound).count()
    }
}

/// Returns a q with a random mean, uniform in [−5, 5] for each coefficient, and covariance `variance · I`,
/// for the whitened w of a prior N(0, p I).
pub fn start(seed: u64, d: usize, prior: f64, (variance, family): (f64, Family)) -> Result<Normal> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mean = (0..d).map(|_| random.random_range(-5.0..5.0) / prior.sqrt()).collect();
    match family {
        Family::Full => Normal::new(mean, Scale(variance / prior) * Mat::<f64>::identity(d, d)),
        Family::Diagonal => Normal::diagonal(mean, vec![variance / prior; d]),
    }
}

impl Problem {
    /// The problem with its exact posterior.
    pub fn new(data: Data, prior: f64, estimator: Estimator, noise: f64) -> Result<Problem> {
        let posterior = data.posterior(data.model(Gaussian::new(1.0), prior)?)?;
        Ok(Problem { data, prior, estimator, noise, posterior })
    }

    fn inference(&self, schedules: Schedules, seed: u64) -> Result<Inference<'_>> {
        let mut options =
            InferenceOptions { seed, ..InferenceOptions::full_batch(QUpdate::Ngd, schedules.step) };
        options.rule = RuleOptions::of(QUpdate::Ngd);
        if self.estimator.is_sampled() {
            options.samples = Some(schedules.size);
        } else {
            options.batches = BatchPlan::Independent(schedules.size);
        }
        let model = self.data.model(Gaussian::new(1.0), self.prior)?;
        let q = start(seed, self.data.x.nrows(), self.prior, (START, Family::Full))?;
        let objective = Objective { loss: Loss::ExpectedLog(self.estimator), ..Objective::elbo(1.0) };
        Ok(Inference::new(model, q, objective, self.data.set(), options))
    }

    /// Returns the mean divergences of some runs at the given iterations, which begin with 0.
    pub fn means(&self, schedules: Schedules, count: u64, at: &[usize]) -> Result<Means> {
        let sampled = self.estimator.is_sampled();
        let traces = runs(count, |seed| {
            Ok(trace(&mut self.inference(schedules, seed)?, at, |inference, _| {
                let used = if sampled { inference.samples_used() } else { inference.rows_used() };
                (used as f64, self.posterior.kl_to(inference.q()))
            }))
        })?;
        let mean = |values: &dyn Fn(usize) -> f64| (0..traces.len()).map(values).sum::<f64>() / count as f64;
        let kl: Vec<f64> = (0..at.len()).map(|k| mean(&|run| traces[run][k].1)).collect();
        let bound = ProjectedBound::new(1.0, self.noise, kl[0])?;
        Ok(Means {
            t: at.iter().map(|&t| t as f64).collect(),
            used: (0..at.len()).map(|k| mean(&|run| traces[run][k].0)).collect(),
            bound: at.iter().map(|&t| self.bound_at(&bound, schedules, t)).collect(),
            kl,
        })
    }

    /// Returns the bound of the propositions for these schedules.
    fn bound_at(&self, bound: &ProjectedBound, schedules: Schedules, steps: usize) -> f64 {
        let cap = if self.estimator.is_sampled() { usize::MAX } else { self.data.y.len() };
        match (schedules.step, schedules.size) {
            (_, _) if steps == 0 => bound.initial,
            (Schedule::Constant(step), SizeSchedule::Constant(size)) => {
                bound.constant(step, size as f64, steps)
            }
            (Schedule::Constant(step), SizeSchedule::Power { exponent }) => {
                bound.growing(step, exponent, steps)
            }
            _ => bound.decreasing((0..steps).map(|t| schedules.size.at(t, cap) as f64)),
        }
    }
}
