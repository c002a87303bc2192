//! Collapsed bounds as objectives of the hyper-parameters: q is solved for exactly, θ and Z are free.

use super::exact::ExactEvidence;
use super::row_sums::{Sweep, pass_over, sum_over};
use super::rows::{AllRows, Portion};
use super::run::{Job, Trained};
use super::solver::{Place, Solved, minimize_solved};
use super::warm_start::rehearsed_exactly;
use crate::collapsed::{Dataset, Solution, noise_derivative, solve, upper_bound};
use crate::data::Moments;
use crate::error::Result;
use crate::gradient::{BatchPass, BatchSums, Form, Problem, Wanted};
use crate::hyper::Monitor;
use crate::likelihood::Gaussian;
use crate::model::{LatentModel, Posterior, Score};
use crate::objective::{Loss, Objective};
use crate::options::LossKind;
use crate::variational::{Family, Normal};
use sparsegp_kernels::Role;
use std::collections::HashSet;

/// A model with Gaussian likelihood on a data set, as a function of its free parameters.
#[doc(hidden)]
pub struct CollapsedObjective<'a> {
    at: Place,
    rows: Box<dyn AllRows + 'a>,
    pass: BatchPass,
    objective: Objective,
    /// The sums of the pass at the origin.
    origin: Option<BatchSums>,
    q: Vec<Normal>,
    /// The held-out rows that score every iteration, so that the best one can be kept.
    validation: Option<(Dataset<'a>, Score)>,
    /// The evidence of an exact GP, if every row is an inducing input of a bound that equals it.
    exact: Option<ExactEvidence>,
}

/// The numbers that an evaluation of an exact GP leaves besides its value.
#[derive(Clone, Copy)]
enum Part {
    Value,
    /// The flat natural gradient.
    Gradient,
    /// q.
    Posterior,
}

impl<'a> CollapsedObjective<'a> {
    /// Creates the objective. The likelihood of `model` must be Gaussian, with the noise variance
    /// as its only parameter, and the losses of `objective` quadratic in the latent mean.
    pub fn new(model: LatentModel, rows: impl AllRows + 'a, objective: Objective) -> Self {
        let q = vec![Normal::standard(Family::Full, model.layer().dim())];
        let mut exact = None;
        let is_evidence = matches!(objective, Objective { loss: Loss::ExpectedLog(_), beta: 1.0, .. });
        // Rows on disk or elsewhere are not read for this.
        if is_evidence && rows.is_one_part(usize::MAX) {
            // Rows that cannot be read are an error of the first sum.
            let _ = rows.for_each(usize::MAX, &mut |rows| exact = ExactEvidence::of(&model, rows.here()));
        }
        CollapsedObjective {
            pass: pass_over(&rows, &model, objective, &q),
            rows: Box::new(rows),
            at: Place::new(model),
            objective,
            origin: None,
            q,
            validation: None,
            exact,
        }
    }

    /// Returns the free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.at.start()
    }

    /// Moves to `theta` and solves for q; returns the value of the bound (a sum, without priors), or `None` if that failed.
    pub fn solve(&mut self, theta: &[f64]) -> Option<f64> {
        self.at.move_to(theta)?;
        self.value()
    }

    /// Returns the model and the whitened q of the last point that could be evaluated.
    pub fn into_parts(mut self) -> (LatentModel, Normal) {
        (self.at.model, self.q.swap_remove(0))
    }

    /// Returns the current model.
    pub fn model(&self) -> &LatentModel {
        &self.at.model
    }

    /// Returns the optimal whitened q at the last evaluated point.
    pub fn q(&self) -> &Normal {
        &self.q[0]
    }

    /// Returns true if every row is an inducing input, so that the bound is the evidence of an exact GP.
    pub(super) fn is_exact(&self) -> bool {
        self.exact.is_some()
    }

    /// Returns the log evidence of an exact GP at `theta`, with the log densities of priors; `None` for other models.
    pub(super) fn evidence_at(&mut self, theta: &[f64]) -> Option<f64> {
        self.at.move_to(theta)?;
        Some(-self.evidence(Part::Value)? - self.at.prior_terms(theta))
    }

    /// Returns the upper bound on the log evidence at the current parameters.
    pub fn evidence_upper_bound(&mut self) -> Option<f64> {
        if self.exact.is_some() {
            return self.evidence(Part::Value).map(|value| -value);
        }
        let noise = self.noise();
        let before = std::mem::replace(&mut self.objective, Objective::elbo(1.0));
        let found = self.sum(Wanted::Origin).and_then(|_| upper_bound(self.pass.sums(), noise).ok());
        self.objective = before;
        found
    }

    /// Returns the minimised objective and its flat natural gradient (kernel, mean, noise, Z) at
    /// the current parameters.
    pub fn natural_gradient(&mut self) -> Option<(f64, Vec<f64>)> {
        let value = self.value_with_gradient()?;
        if self.exact.is_some() {
            self.evidence(Part::Posterior)?;
        }
        Some((value, self.at.flat.clone()))
    }

    fn noise(&self) -> f64 {
        self.at.model.likelihood.gaussian_noise().unwrap_or(f64::NAN)
    }

    /// Sums over all rows at the current parameters and q; `None` if that is impossible.
    fn sum(&mut self, wanted: Wanted) -> Option<f64> {
        if self.at.error.is_some() {
            return None;
        }
        let model = &self.at.model;
        let form = Form::at_best_q(model.layer(), self.noise());
        let problem = Problem::new(model.layers(), &model.likelihood, self.objective, &self.q);
        let value = sum_over(Sweep::over(&*self.rows), &mut self.pass, model, problem, (form, wanted));
        if let (Wanted::Envelope, Some(origin)) = (wanted, &self.origin) {
            self.pass.finish_envelope(problem, origin, 1.0);
        }
        value.map_err(|why| self.at.error = Some(why)).ok()
    }

    /// Returns minus the evidence of the exact GP, with a part of what belongs to it.
    fn evidence(&mut self, with: Part) -> Option<f64> {
        let CollapsedObjective { at, rows, exact, q, .. } = self;
        let (layer, noise) = (at.model.layer().inducing()?, at.model.likelihood.gaussian_noise()?);
        let (exact, mut value) = (exact.as_mut()?, None);
        let evaluate = &mut |rows: Portion<'_>| {
            let Some(rows) = rows.here() else { return };
            value = exact.value(layer, noise, rows);
            match with {
                _ if value.is_none() => {}
                Part::Value => {}
                Part::Gradient => {
                    let mut gradient = layer.zero_gradient();
                    let own = exact.gradient(layer, noise, rows, &mut gradient);
                    at.model.flatten_gradient(&[gradient], &[own], &mut at.flat);
                }
                Part::Posterior => match exact.posterior(layer, rows) {
                    Some(best) => q[0] = best,
                    None => value = None,
                },
            }
        };
        rows.for_each(usize::MAX, evaluate).ok()?;
        value
    }
}

impl Solved for CollapsedObjective<'_> {
    fn place(&self) -> &Place {
        &self.at
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.at
    }

    fn posterior(&self) -> Option<Posterior> {
        Some(Posterior::new(&self.at.model, &self.q[..]))
    }

    fn validation(&self) -> Option<(Dataset<'_>, Score)> {
        self.validation
    }

    /// Solves for q at the current parameters, and returns the value of the bound.
    fn value(&mut self) -> Option<f64> {
        if self.exact.is_some() {
            return self.evidence(Part::Posterior);
        }
        self.sum(Wanted::Origin)?;
        let Solution { value, q } = solve(self.pass.sums(), self.objective.beta).ok()?;
        self.q = q;
        value.is_finite().then_some(value)
    }

    /// At the best q the derivative in θ is the partial one.
    fn value_with_gradient(&mut self) -> Option<f64> {
        if self.exact.is_some() {
            return self.evidence(Part::Gradient);
        }
        let value = self.value()?;
        let mut origin = self.origin.take().unwrap_or_else(|| self.pass.sums().clone());
        self.pass.exchange(&mut origin);
        let own = match self.objective.loss {
            Loss::ExpectedLog(_) => {
                let (process, beta) = (&origin.processes[0], self.objective.beta);
                Some(noise_derivative(process, origin.weight, self.noise(), beta, &self.q[0]))
            }
            _ => None,
        };
        self.origin = Some(origin);
        self.sum(Wanted::Envelope)?;
        let pass = &self.pass;
        let own = own.map_or_else(|| pass.likelihood_gradient().to_vec(), |own| vec![own]);
        self.at.model.flatten_gradient(pass.layer_gradients(), &own, &mut self.at.flat);
        Some(value)
    }
}

/// Trains hyper-parameters on a bound in which q is solved for in closed form.
pub(super) fn train(
    model: LatentModel,
    bound: Objective,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let Job { rows, plan, fresh } = *job;
    let model = match rows.in_memory() {
        Some(data) if fresh => rehearsed_exactly(model, data, plan, monitor)?,
        _ => model,
    };
    let mut objective = CollapsedObjective::new(model, rows.all(), bound);
    objective.validation = job.validation();
    let mut outcome = minimize_solved(&mut objective, job, monitor)?;
    let mut noise_mode = None;
    if let Some(data) = rows.in_memory().filter(|_| objective.is_exact() && plan.trains)
        && let Some(found) = with_expected_noise(&mut objective, &outcome.theta, data)
    {
        (outcome.theta, outcome.value, noise_mode) = (found.theta, found.value, Some(found.mode));
    }
    let value = outcome.value;
    let is_elbo = plan.loss == LossKind::Elbo;
    let upper = is_elbo.then(|| objective.evidence_upper_bound()).flatten();
    let elbo = (is_elbo && plan.options.beta == 1.0).then_some(-value);
    let (model, q) = objective.into_parts();
    Ok(Trained { elbo, upper, noise_mode, ..Trained::at(model, vec![q], value, outcome) })
}

/// The largest noise variance that is in question, in units of the variance of the targets, …
const SMALL: f64 = 1e-3;

/// … and the least one that matters for predictions.
const MATTERS: f64 = 1e-6;

/// The expectation replaces a mode that is smaller by more than this factor.
const FAR: f64 = 3.0;

/// The ratio of consecutive variances at which the evidence is computed.
const RATIO: f64 = 3.162_277_660_168_379_5;

/// Variances whose evidence is lower by more than this many nats have no weight.
const DROP: f64 = 8.0;

/// Evidences that differ by less than this many nats continue so to variances near 0.
const FLAT: f64 = 1e-3;

/// Returns the expectation of the noise variance between `least` and `most`, for its mode `found`, under a flat prior of the standard
/// deviation (Gelman 2006). `evidence` returns the log
/// evidence of a variance.
fn expected(
    found: f64,
    (least, most): (f64, f64),
    mut evidence: impl FnMut(f64) -> Option<f64>,
) -> Option<f64> {
    let best = evidence(found)?;
    let mut points = vec![(found, best)];
    for k in 1.. {
        let variance = found * RATIO.powi(k);
        let value = if variance <= most { evidence(variance)? } else { f64::NEG_INFINITY };
        if value < best - DROP {
            break;
        }
        points.push((variance, value));
    }
    let mut last = best;
    for k in 1.. {
        let variance = found * RATIO.powi(-k);
        if variance < least || last < best - DROP {
            break;
        }
        // Below a level stretch all evidences are alike.
        let value = if k > 2 && (last - best).abs() < FLAT { last } else { evidence(variance)? };
        points.push((variance, value));
        last = value;
    }
    let top = points.iter().map(|point| point.1).fold(best, f64::max);
    // The prior of the logarithm is proportional to the standard deviation.
    let weights = || points.iter().map(|(variance, value)| (value - top).exp() * variance.sqrt());
    let sum: f64 = points.iter().zip(weights()).map(|((variance, _), weight)| variance * weight).sum();
    Some(sum / weights().sum::<f64>())
}

/// An exact GP at the expectation of its noise variance.
pub(super) struct Expected {
    /// The free vector.
    pub theta: Vec<f64>,
    /// The objective there.
    pub value: f64,
    /// The mode of the noise variance.
    pub mode: f64,
}

/// Returns the number of rows with the inputs and the target of an earlier row; weights count as repeats.
fn repeats(rows: Dataset<'_>) -> f64 {
    let bits =
        |i: usize| rows.x.row(i).iter().chain([&rows.targets.y[i]]).map(|value| value.to_bits()).collect();
    let distinct: HashSet<Vec<u64>> = (0..rows.len()).map(bits).collect();
    (rows.targets.total_weight() - distinct.len() as f64).max(0.0)
}

/// Solves an exact GP at the expectation of the noise variance, if the evidence hardly determines it at the other parameters of `theta`.
/// Otherwise the objective stays at `theta`.
///
/// A repeated row has the density `O(1/σ)` given the first, however wrong the model is, so its share `−½ log σ²` of the evidence is left out.
pub(super) fn with_expected_noise(
    objective: &mut CollapsedObjective<'_>,
    theta: &[f64],
    rows: Dataset<'_>,
) -> Option<Expected> {
    let scale = Moments::of(rows.targets.y.iter().copied()).variance()?;
    let repeats = repeats(rows);
    let descriptors = objective.place().model.descriptors();
    let noise = descriptors.iter().position(|d| d.role.0 == Role::Noise && !d.fixed && d.tie.is_none())?;
    let natural = objective.place().natural_at(theta);
    // The transform does not admit the floor itself.
    let found = natural[noise].max(1.001 * Gaussian::NOISE_FLOOR);
    if found > SMALL * scale {
        return None;
    }
    let moved = |objective: &CollapsedObjective<'_>, variance: f64| {
        let mut natural = natural.clone();
        natural[noise] = variance;
        descriptors[noise].transform.admits(variance).then(|| objective.place().pack(&natural))
    };
    let range = (Gaussian::NOISE_FLOOR * scale, scale);
    let mean = expected(found, range, |variance| {
        let theta = moved(objective, variance)?;
        Some(objective.evidence_at(&theta)? + 0.5 * repeats * variance.ln())
    });
    let end = mean.filter(|mean| *mean >= MATTERS * scale && *mean >= FAR * found);
    let solved = end.and_then(|mean| {
        let theta = moved(objective, mean)?;
        Some(Expected { value: objective.solve(&theta)?, theta, mode: found })
    });
    if solved.is_none() {
        objective.evidence_at(theta);
    }
    solved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expectation_is_that_of_the_evidence() {
        // With the same evidence up to a variance, the sum over all variances up to it.
        let level = |variance: f64| Some(if variance <= 1.1e-2 { 3.0 } else { -9.0 });
        let mean = expected(1e-6, (0.9e-10, 1.0), level).expect("a mean");
        let points: Vec<f64> = (0..17).map(|k| 1e-10 * RATIO.powi(k)).collect();
        let moment = |power: f64| points.iter().map(|point| point.powf(power)).sum::<f64>();
        assert!((mean * moment(0.5) / moment(1.5) - 1.0).abs() < 1e-9, "{mean}");

        // A peak keeps its place, from above and from below.
        let peak = |variance: f64| Some(-200.0 * (variance / 1e-5).ln().powi(2));
        let mean = expected(1e-5, (1e-10, 1.0), peak).expect("a mean");
        assert!((mean / 1e-5 - 1.0).abs() < 1e-9, "{mean}");
        assert_eq!(expected(1e-5, (1e-10, 1.0), |_| None), None);
    }
}
