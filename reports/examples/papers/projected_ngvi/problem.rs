//! Models whose optimal q is a known normal distribution, and divergences from this q along natural gradients:
//! means over runs, or exact expectations.

use crate::paper::prelude::*;
use rand_distr::StandardNormal;
use sparsegp_research::ProjectedBound;

/// The initial variance of the coefficients in conjugate runs; their initial means are uniform in [−5, 5].
pub const START: f64 = 10.0;

#[derive(Clone, Copy)]
pub struct Schedules {
    pub step: Schedule,
    pub size: SizeSchedule,
}

impl Schedules {
    pub fn constant(step: f64, size: usize) -> Self {
        Schedules { step: Schedule::Constant(step), size: SizeSchedule::Constant(size) }
    }

    /// Creates the four schedules of figure 1: constant steps and numbers, growing numbers, decreasing steps, and
    /// both.
    pub fn four(step: f64, size: usize) -> [Schedules; 4] {
        let constant = Schedules::constant(step, size);
        let (growing, decreasing) = (SizeSchedule::Power { exponent: 1.0 }, Schedule::TwoOverT);
        [
            constant,
            Schedules { size: growing, ..constant },
            Schedules { step: decreasing, ..constant },
            Schedules { step: decreasing, size: growing },
        ]
    }

    pub fn label(self) -> String {
        format!("step {}, N {}", self.step, self.size)
    }

    /// Returns the bound of the propositions after some steps.
    fn bound_at(self, bound: &ProjectedBound, steps: usize) -> f64 {
        match (self.step, self.size) {
            (_, _) if steps == 0 => bound.initial,
            (Schedule::Constant(step), SizeSchedule::Constant(size)) => {
                bound.constant(step, size as f64, steps)
            }
            (Schedule::Constant(step), SizeSchedule::Power { exponent }) => {
                bound.growing(step, exponent, steps)
            }
            _ => bound.decreasing((0..steps).map(|t| self.size.at(t, usize::MAX) as f64)),
        }
    }

    /// Creates records of `(samples or rows used, KL)` at some iterations.
    fn records(self, noise: f64, at: &[usize], seen: impl IntoIterator<Item = [f64; 2]>) -> Result<Means> {
        let seen: Vec<[f64; 2]> = seen.into_iter().collect();
        let bound = ProjectedBound::new(1.0, noise, seen[0][1])?;
        let record = |(&t, [used, kl]): (&usize, [f64; 2])| Record {
            t: t as f64,
            used,
            kl,
            bound: self.bound_at(&bound, t),
        };
        Ok(Means(at.iter().zip(seen).map(record).collect()))
    }
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
    pub fn end(&self) -> &Record {
        &self.0[self.0.len() - 1]
    }

    /// The first record at or after an iteration.
    pub fn at(&self, t: f64) -> &Record {
        self.0.iter().find(|record| record.t >= t).unwrap_or(self.end())
    }

    /// The last mean divergence within a budget of samples or rows.
    pub fn within(&self, budget: f64) -> f64 {
        self.0.iter().rfind(|record| record.used <= budget).unwrap_or(&self.0[0]).kl
    }

    /// The slope of log KL in log t from 0.3 T to T, where the constant steps of the paper have forgotten the start.
    pub fn slope(&self) -> f64 {
        let from = 0.3 * self.end().t;
        slope(self.0.iter().filter(|record| record.t >= from).map(|record| (record.t, record.kl)))
    }

    /// The largest divergence in units of its bound, after the start.
    pub fn tightest(&self) -> f64 {
        self.0.iter().skip(1).map(|record| record.kl / record.bound).fold(0.0, f64::max)
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

/// Returns the mean and the covariance of a normal distribution, given its precision and the product of precision and mean.
pub fn moments(mut precision: Mat<f64>, linear: &[f64]) -> Result<(Vec<f64>, Mat<f64>)> {
    let d = linear.len();
    let (mut inverse, mut mean) = (Mat::zeros(d, d), vec![0.0; d]);
    Factorizer::new(d)
        .cholesky_with_inverse(precision.as_mut(), inverse.as_mut())
        .map_err(|_| Error::fit("a precision is not positive definite"))?;
    let cov = inverse.transpose() * &inverse;
    matvec(cov.as_ref(), linear, &mut mean);
    Ok((mean, cov))
}

/// A normal target of given precisions along orthogonal directions, with Bonnet–Price gradients.
#[derive(Clone)]
pub struct Target {
    pub precisions: Vec<f64>,
    /// E (m_0 − m*)² along each direction.
    pub errors: Vec<f64>,
    /// The constant V of the bounds.
    pub noise: f64,
}

impl Target {
    /// Returns the exact E KL(q* ‖ q_t) of every schedule from S_0 = `start` · I. The precision has no noise, and the
    /// error δ of the mean follows `S₊⁻¹δ₊ = (1 − η) S⁻¹δ − ηP S^½ε̄`, where ε̄ is the mean of N samples.
    pub fn expected(&self, schedules: &[Schedules], start: f64, at: &[usize]) -> Result<Vec<Means>> {
        let one = |schedules: &Schedules| {
            let mut states: Vec<(f64, f64)> = self.errors.iter().map(|error| (start, *error)).collect();
            let (mut used, mut t) = (0.0, 0);
            let seen = at.iter().map(|&last| {
                for now in t..last {
                    let (step, samples) = (schedules.step.at(now), schedules.size.at(now, usize::MAX) as f64);
                    for ((s, error), p) in states.iter_mut().zip(&self.precisions) {
                        let next = 1.0 / ((1.0 - step) / *s + step * p);
                        let moved = ((1.0 - step) / *s).powi(2) * *error + step * step * p * p * *s / samples;
                        (*s, *error) = (next, next * next * moved);
                    }
                    used += samples;
                }
                t = last;
                let terms = states.iter().zip(&self.precisions);
                let twice = terms.map(|((s, error), p)| (1.0 / p + error) / s - 1.0 + (s * p).ln());
                [used, 0.5 * twice.sum::<f64>()]
            });
            schedules.records(self.noise, at, seen)
        };
        schedules.iter().map(one).collect()
    }
}

/// Returns the mean divergences of some runs of the library's natural gradients, by Bonnet–Price samples, on a linear model
/// with σ² = 1 and prior N(0, p I), at the given iterations, which begin with 0.
pub fn of_library(
    (data, prior): (&Data, f64),
    schedules: Schedules,
    count: u64,
    at: &[usize],
) -> Result<Means> {
    let model = || data.model(Gaussian::new(1.0), prior);
    let posterior = data.posterior(model()?)?;
    let means = means(count, |seed| {
        let all = InferenceOptions::full_batch(QUpdate::Ngd, schedules.step);
        let options = InferenceOptions { seed, samples: Some(schedules.size), ..all };
        let q = start(seed, data.x.nrows(), prior, (START, Family::Full))?;
        let mut run = data.infer_from(q, model()?, Estimator::Price { samples: 100 }, options);
        Ok(trace(&mut run, at, |run| [run.samples_used() as f64, posterior.kl_to(run.q())]))
    })?;
    schedules.records(0.0, at, means)
}

/// The batch size from which a sum over a batch is drawn as a normal vector.
pub const NORMAL: usize = 300;

/// Natural gradients of batches with replacement on a linear model with σ² = 1 and prior N(0, p I), simulated in the
/// natural parameters. Sums over large batches are normal vectors with the right mean and covariance.
pub struct Batches {
    /// The lower triangle of x xᵀ and y x of every row, for inputs in units of their root mean squares.
    features: Mat<f64>,
    /// The mean of the columns of `features`, and a root of their covariance.
    mean: Mat<f64>,
    root: Mat<f64>,
    units: Vec<f64>,
    prior: f64,
}

impl Batches {
    pub fn new(data: &Data, prior: f64) -> Result<Batches> {
        let (d, n) = data.x.shape();
        let units: Vec<f64> =
            data.x.row_iter().map(|row| (row.squared_norm_l2() / n as f64).sqrt()).collect();
        let mut features = Mat::zeros(d * (d + 1) / 2 + d, n);
        for i in 0..n {
            let x: Vec<f64> = (0..d).map(|j| data.x[(j, i)] / units[j]).collect();
            let squares = (0..d).flat_map(|j| (0..=j).map(move |k| (j, k))).map(|(j, k)| x[j] * x[k]);
            let all = squares.chain(x.iter().map(|x| x * data.y[i]));
            features.col_mut(i).iter_mut().zip(all).for_each(|(feature, value)| *feature = value);
        }
        let mean = &features * Mat::from_fn(n, 1, |_, _| 1.0 / n as f64);
        let cov = &features * features.transpose() * Scale(1.0 / n as f64) - &mean * mean.transpose();
        let (values, vectors) =
            symmetric_eigen(cov.as_ref()).ok_or_else(|| Error::fit("the data are not finite"))?;
        let root = Mat::from_fn(cov.nrows(), cov.nrows(), |i, j| vectors[(i, j)] * values[j].max(0.0).sqrt());
        Ok(Batches { features, mean, root, units, prior })
    }

    fn draw(&self, random: &mut ChaCha8Rng, size: usize, sum: &mut [f64]) {
        if size < NORMAL {
            for _ in 0..size {
                let row = self.features.col(random.random_range(0..self.features.ncols()));
                sum.iter_mut().zip(row.iter()).for_each(|(sum, x)| *sum += x);
            }
            return;
        }
        let size = size as f64;
        let noise: Vec<f64> =
            sum.iter().map(|_| size.sqrt() * random.sample::<f64, _>(StandardNormal)).collect();
        matvec(self.root.as_ref(), &noise, sum);
        sum.iter_mut().zip(self.mean.col(0).iter()).for_each(|(sum, mean)| *sum += size * mean);
    }

    /// Returns the natural parameters of N(mean, variance · I) for the coefficients of the inputs in the file.
    fn natural(&self, mean: &[f64], variance: f64) -> Vec<f64> {
        let d = self.units.len();
        let precision = |j: usize| 1.0 / (variance * self.units[j].powi(2));
        let squares = (0..d).flat_map(|j| (0..=j).map(move |k| if j == k { precision(j) } else { 0.0 }));
        squares.chain((0..d).map(|j| precision(j) * mean[j] * self.units[j])).collect()
    }

    fn normal(&self, natural: &[f64]) -> Result<Normal> {
        let d = self.units.len();
        let (squares, linear) = natural.split_at(d * (d + 1) / 2);
        let at = |i: usize, j: usize| squares[i.max(j) * (i.max(j) + 1) / 2 + i.min(j)];
        let (mean, cov) = moments(Mat::from_fn(d, d, at), linear)?;
        Normal::new(mean, cov)
    }

    /// Returns the mean divergences of some runs at the given iterations, which begin with 0.
    pub fn means(&self, schedules: Schedules, count: u64, at: &[usize]) -> Result<Means> {
        let (d, n) = (self.units.len(), self.features.ncols());
        let prior = self.natural(&vec![0.0; d], self.prior);
        let whole = prior.iter().zip(self.mean.col(0).iter()).map(|(prior, mean)| prior + n as f64 * mean);
        let posterior = self.normal(&whole.collect::<Vec<_>>())?;
        let means = means(count, |seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mean: Vec<f64> = (0..d).map(|_| random.random_range(-5.0..5.0)).collect();
            let (mut natural, mut t, mut used) = (self.natural(&mean, START), 0, 0.0);
            let mut records = Vec::new();
            for &last in at {
                for now in t..last {
                    let (step, size) = (schedules.step.at(now), schedules.size.at(now, n));
                    let mut sum = vec![0.0; prior.len()];
                    self.draw(&mut random, size, &mut sum);
                    let scale = n as f64 / size as f64;
                    for ((eta, prior), sum) in natural.iter_mut().zip(&prior).zip(&sum) {
                        *eta += step * (prior + scale * sum - *eta);
                    }
                    used += size as f64;
                }
                t = last;
                records.push([used, posterior.kl_to(&self.normal(&natural)?)]);
            }
            Ok(records)
        })?;
        schedules.records(0.0, at, means)
    }
}
