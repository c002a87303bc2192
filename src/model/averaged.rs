//! The predictive distributions of rows, averaged over hyper-parameters if there are several sets of them.

use super::posterior::Marginals;
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{
    Expectation, LatentMarginal, Likelihood, Observation, ObservationModel, Row, Slopes, TargetKind,
    crps_of_distribution, quantile_of_distribution,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The predictions for one set of hyper-parameters.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub weight: f64,
    pub likelihood: ObservationModel,
    pub latent: Marginals,
}

impl Given {
    fn with<T>(&self, row: usize, at: Observation, of: impl FnOnce(&dyn Likelihood, Row) -> T) -> T {
        of(&*self.likelihood, Row::new(at, self.latent.row(row)))
    }

    /// Draws every latent function at a row.
    pub fn draw_functions(&self, row: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
        let latent = self.latent.row(row);
        let draw = |(mu, v): (&f64, &f64)| {
            let z: f64 = StandardNormal.sample(random);
            mu + v.max(0.0).sqrt() * z
        };
        latent.mean.iter().zip(latent.variance).map(draw).collect()
    }
}

/// Predictive distributions `Σ_k w_k p(y | θ_k)`, whose weights sum to 1. The first θ is that of the model.
#[derive(Clone, Debug)]
pub(super) struct Averaged(Vec<Given>);

impl Averaged {
    /// Creates the predictions for the hyper-parameters of the model, and for others; the weight of the first is the rest.
    pub fn new(likelihood: ObservationModel, latent: Marginals, others: Vec<Given>) -> Averaged {
        let weight = 1.0 - others.iter().map(|other| other.weight).sum::<f64>();
        let mut all = vec![Given { weight, likelihood, latent }];
        all.extend(others);
        Averaged(all)
    }

    /// The predictions for the hyper-parameters of the model.
    pub fn first(&self) -> &Given {
        &self.0[0]
    }

    /// The predictions for one set of hyper-parameters.
    pub fn of(&self, index: usize) -> &Given {
        &self.0[index]
    }

    /// Returns the predictions for one set of hyper-parameters alone.
    pub fn alone(&self, index: usize) -> Averaged {
        let Given { likelihood, latent, .. } = self.of(index).clone();
        Averaged::new(likelihood, latent, Vec::new())
    }

    /// Returns the same rows with other marginals for the hyper-parameters of the model, without others.
    pub fn with_latent(&self, latent: Marginals) -> Averaged {
        Averaged::new(self.first().likelihood.clone(), latent, Vec::new())
    }

    /// Adds a number to the mean of one latent function at every row.
    pub fn raise(&mut self, function: usize, by: f64) {
        for Given { latent, .. } in &mut self.0 {
            latent.mean.iter_mut().skip(function).step_by(latent.functions).for_each(|mean| *mean += by);
        }
    }

    /// Returns a number that every set of hyper-parameters gives, with the weights.
    fn each<T>(
        &self,
        row: usize,
        at: Observation,
        mut of: impl FnMut(&dyn Likelihood, Row) -> T,
    ) -> Vec<(f64, T)> {
        let one = |given: &Given| (given.weight, given.with(row, at, &mut of));
        self.0.iter().map(one).collect()
    }

    /// Returns the number of the only set of hyper-parameters, or the average of `Σ_k w_k g(x_k)`.
    fn average(&self, row: usize, at: Observation, of: impl FnMut(&dyn Likelihood, Row) -> f64) -> f64 {
        match &self.0[..] {
            [only] => only.with(row, at, of),
            _ => self.each(row, at, of).into_iter().map(|(weight, value)| weight * value).sum(),
        }
    }

    /// Returns mean and variance of a quantity whose mean and variance every set of hyper-parameters gives.
    fn pooled(
        &self,
        row: usize,
        at: Observation,
        of: impl FnMut(&dyn Likelihood, Row) -> (f64, f64),
    ) -> (f64, f64) {
        if let [only] = &self.0[..] {
            return only.with(row, at, of);
        }
        let all = self.each(row, at, of);
        let mean: f64 = all.iter().map(|(weight, own)| weight * own.0).sum();
        (mean, all.iter().map(|(weight, own)| weight * (own.1 + (own.0 - mean).powi(2))).sum())
    }

    /// Returns mean and variance of y, after `unscaled` for every set of hyper-parameters.
    pub fn moments(
        &self,
        (row, at): (usize, Observation),
        tools: &mut Integrator,
        unscaled: impl Fn((f64, f64), &mut Integrator) -> (f64, f64),
    ) -> (f64, f64) {
        self.pooled(row, at, |likelihood, row| unscaled(likelihood.predictive_moments(row, tools), tools))
    }

    /// Returns mean and variance of a latent function, after `unscaled` for every set of hyper-parameters.
    pub fn latent(
        &self,
        (row, function): (usize, usize),
        mut unscaled: impl FnMut((f64, f64)) -> (f64, f64),
    ) -> (f64, f64) {
        self.pooled(row, Observation::of(f64::NAN), |_, row| {
            let LatentMarginal { mean, variance } = row.marginal.of(function);
            unscaled((mean, variance))
        })
    }

    /// Returns `log p(y)`, or the log probability of the interval of a censored target.
    pub fn log_density(&self, row: usize, at: Observation, tools: &mut Integrator) -> f64 {
        let of = |likelihood: &dyn Likelihood, row: Row| {
            likelihood.expectation(Expectation::LogPredictive, row, Slopes::none(), tools)
        };
        if let [only] = &self.0[..] {
            return only.with(row, at, of);
        }
        let all = self.each(row, at, of);
        let top = all.iter().map(|(_, own)| *own).fold(f64::NEG_INFINITY, f64::max);
        if top == f64::NEG_INFINITY {
            return if all.iter().any(|(_, own)| own.is_nan()) { f64::NAN } else { top };
        }
        top + all.iter().map(|(weight, own)| weight * (own - top).exp()).sum::<f64>().ln()
    }

    /// Returns `P(Y ≤ y)` for the target y of an observation.
    pub fn cdf(&self, row: usize, at: Observation, tools: &mut Integrator) -> f64 {
        self.average(row, at, |likelihood, row| likelihood.predictive_cdf(row, tools))
    }

    /// Returns the smallest y with `P(Y ≤ y) ≥ p`.
    pub fn quantile(&self, (row, p): (usize, f64), at: Observation, tools: &mut Integrator) -> f64 {
        if let [only] = &self.0[..] {
            return only.with(row, at, |likelihood, row| likelihood.predictive_quantile(p, row, tools));
        }
        let of = &self.first().likelihood;
        quantile_of_distribution(of.target_kind(), p, of.levels(), &mut |y| self.cdf(row, at.with(y), tools))
    }

    /// Returns the continuous ranked probability score of an observation.
    pub fn crps(&self, row: usize, at: Observation, tools: &mut Integrator) -> f64 {
        let of = &self.first().likelihood;
        match (&self.0[..], of.target_kind()) {
            ([only], _) => only.with(row, at, |likelihood, row| likelihood.crps(row, tools)),
            (_, TargetKind::Binary) => (self.moments((row, at), tools, |own, _| own).0 - at.y).powi(2),
            (_, kind) => {
                crps_of_distribution(kind, of.levels(), at, &mut |y| self.cdf(row, at.with(y), tools))
            }
        }
    }

    /// Writes the probabilities of all classes.
    pub fn probabilities(&self, row: usize, tools: &mut Integrator, out: &mut [f64]) {
        if let [only] = &self.0[..] {
            return only.likelihood.probabilities(only.latent.row(row), tools, out);
        }
        let mut own = vec![0.0; out.len()];
        out.fill(0.0);
        for Given { weight, likelihood, latent } in &self.0 {
            likelihood.probabilities(latent.row(row), tools, &mut own);
            out.iter_mut().zip(&own).for_each(|(sum, own)| *sum += weight * own);
        }
    }

    /// Returns one of the further quantities that the likelihood predicts.
    pub fn detail(&self, which: usize, (row, at): (usize, Observation), tools: &mut Integrator) -> f64 {
        self.average(row, at, |likelihood, row| likelihood.detail(which, row, tools))
    }

    /// Draws y: first the hyper-parameters, then the functions, then y given both.
    pub fn draw(&self, row: usize, at: Observation, random: &mut ChaCha8Rng) -> f64 {
        let given = &self.0[self.drawn(random)];
        let functions = given.draw_functions(row, random);
        given.likelihood.sample(at, &functions, random)
    }

    /// Draws the index of a set of hyper-parameters.
    fn drawn(&self, random: &mut ChaCha8Rng) -> usize {
        match self.0.len() {
            1 => 0,
            _ => index_at(self.0.iter().map(|given| given.weight), random.random()),
        }
    }
}

/// Returns the index at which the running sum of weights exceeds a level below their sum; by rounding, the last one.
pub(super) fn index_at(weights: impl Iterator<Item = f64>, level: f64) -> usize {
    let mut sum = 0.0;
    let below = weights.map(|weight| {
        sum += weight;
        sum <= level
    });
    let below: Vec<bool> = below.collect();
    below.iter().filter(|below| **below).count().min(below.len() - 1)
}
