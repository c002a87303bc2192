//! A model whose optimal q is a known normal distribution, and divergences from this q along runs
//! of natural gradients.

use crate::data::{Data, means, slope, trace};
use faer::{Mat, Scale};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::Result;
use sparsegp::data::{BatchPlan, SizeSchedule};
use sparsegp::likelihood::Gaussian;
use sparsegp::objective::Estimator;
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::{Family, Normal, QUpdate, Schedule};
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

/// Means over runs at a recorded iteration.
pub struct Record {
    pub t: f64,
    /// Samples or rows used.
    pub used: f64,
    /// KL(q* ‖ q_t).
    pub kl: f64,
    pub bound: f64,
}

/// The records of runs, in order; the first one is the start.
pub struct Means(pub Vec<Record>);

impl Means {
    /// The last record.
    pub fn end(&self) -> &Record {
        &self.0[self.0.len() - 1]
    }

    /// The first mean divergence at or after an iteration.
    pub fn at(&self, t: f64) -> f64 {
        self.0.iter().find(|record| record.t >= t).unwrap_or(self.end()).kl
    }

    /// The last mean divergence within a budget of samples or rows.
    pub fn within(&self, budget: f64) -> f64 {
        self.0.iter().rfind(|record| record.used <= budget).unwrap_or(&self.0[0]).kl
    }

    /// The slope of log KL in log t from an iteration on.
    pub fn slope_from(&self, t: f64) -> f64 {
        slope(self.0.iter().filter(|record| record.t >= t).map(|record| (record.t, record.kl)))
    }

    /// The number of records whose mean divergence is within the bound.
    pub fn within_bound(&self) -> usize {
        self.0.iter().filter(|record| record.kl <= record.bound).count()
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
        if self.estimator.is_sampled() {
            options.samples = Some(schedules.size);
        } else {
            options.batches = BatchPlan::Independent(schedules.size);
        }
        let model = self.data.model(Gaussian::new(1.0), self.prior)?;
        let q = start(seed, self.data.x.nrows(), self.prior, (START, Family::Full))?;
        Ok(self.data.infer_from(q, model, self.estimator, options))
    }

    /// Returns the mean divergences of some runs at the given iterations, which begin with 0.
    pub fn means(&self, schedules: Schedules, count: u64, at: &[usize]) -> Result<Means> {
        let sampled = self.estimator.is_sampled();
        let means = means(count, |seed| {
            Ok(trace(&mut self.inference(schedules, seed)?, at, |inference| {
                let used = if sampled { inference.samples_used() } else { inference.rows_used() };
                [used as f64, self.posterior.kl_to(inference.q())]
            }))
        })?;
        let bound = ProjectedBound::new(1.0, self.noise, means[0][1])?;
        let record = |(&t, [used, kl]): (&usize, [f64; 2])| Record {
            t: t as f64,
            used,
            kl,
            bound: self.bound_at(&bound, schedules, t),
        };
        Ok(Means(at.iter().zip(means).map(record).collect()))
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
