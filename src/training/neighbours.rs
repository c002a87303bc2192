//! Hyper-parameters of models with neighbours: q in closed form inside, θ and Z by L-BFGS outside, neighbours looked up in rounds.

use super::failure::failed_start;
use super::outcome::TakenBack;
use super::place::Place;
use super::rows::TrainingRows;
use super::run::{Trained, hold_amplitude, minimize, whole};
use crate::checkpoint::Archive;
use crate::collapsed::{
    BoundGradient, BoundValue, ConditionalStream, Dataset, RowWeight, RowsAdjoint, Sweep, conditional_dlm,
    conditional_elbo, square_loss,
};
use crate::data::{Purpose, generator};
use crate::error::{Error, Result};
use crate::hyper::{HyperObjective, Limits, Monitor, Outcome, Stage, StopReason};
use crate::latent::{InducingLayer, LayerScratch};
use crate::model::{LatentModel, Nearby, Posterior, Score};
use crate::neighbours::{
    COMPARISONS, Index, Lists, Source, Windows, half_lengths, in_units_of, nearest_before, nearest_others,
};
use crate::options::{LossKind, NeighbourPlan, Plan};
use crate::variational::{Family, Normal};
use faer::{Mat, MatRef};
use rand::seq::SliceRandom;
use sparsegp_kernels::Scratch;
use std::sync::Arc;

/// Rows whose terms hyper-parameters are trained on: enough to place a few dozen of them to a percent.
const TERMS: usize = 8192;

/// Inducing inputs stay where they are unless there are so many terms for each of their coordinates: they would fit the noise, and
/// predictions be too sure.
const TERMS_PER_COORDINATE: usize = 2;

/// Neighbours that hyper-parameters are trained with: more change them little, and cost the square.
const TRAINED_WITH: usize = 20;

/// Training rows whose predictions from their nearest others say how wide predictions have to be.
const CALIBRATED_ON: usize = 4096;

/// The most that all variances are multiplied or divided by for it.
const MOST_CALIBRATION: f64 = 10.0;

/// Rounds before the last: rows, and iterations of L-BFGS with the neighbours of the round's start.
const ROUNDS: [(usize, usize); 3] = [(2048, 4), (2048, 8), (4096, 12)];

/// A model of Gaussian noise with neighbours on a data set, seen as a function of its free parameters.
pub struct NeighbourObjective<'a> {
    at: Place,
    data: Dataset<'a>,
    plan: NeighbourPlan,
    seed: u64,
    /// All rows, in the order in which they know each other.
    order: Vec<u32>,
    /// How many rows each row that is looked at stands for.
    share: f64,
    windows: Windows,
    stream: ConditionalStream,
    gradient: BoundGradient,
    scratch: LayerScratch,
    flat: Vec<f64>,
    q: Normal,
    validation: Option<(Dataset<'a>, Score)>,
}

/// The layer of a model that has neighbours, which is a sparse GP.
fn layer(model: &LatentModel) -> Result<&InducingLayer> {
    model.layer.inducing().ok_or_else(|| Error::usage("⟨neighbours⟩ need ⟨model gp⟩"))
}

impl<'a> NeighbourObjective<'a> {
    /// The objective on the terms of some rows, with neighbours by the model's kernel; `model` is refreshed.
    ///
    /// # Errors
    ///
    /// When the model is no sparse GP.
    pub fn new(
        model: LatentModel,
        data: Dataset<'a>,
        plan: NeighbourPlan,
        (terms, count, seed): (usize, usize, u64),
    ) -> Result<Self> {
        let inducing = layer(&model)?;
        let m = inducing.z().nrows();
        let mut order: Vec<u32> = (0..data.len() as u32).collect();
        order.shuffle(&mut generator(seed, Purpose::Neighbours, 0));
        let mut new = NeighbourObjective {
            gradient: BoundGradient::zeros(inducing),
            scratch: LayerScratch::new(m),
            stream: ConditionalStream::new(inducing, &Windows::default()),
            flat: Vec::new(),
            q: Normal::standard(Family::Full, m),
            windows: Windows::default(),
            share: 1.0,
            validation: None,
            at: Place::new(model),
            data,
            plan,
            seed,
            order,
        };
        new.look_up(terms, count);
        Ok(new)
    }

    /// Scores every iteration on held-out rows, so that the best can be kept.
    pub fn with_validation(mut self, validation: Dataset<'a>, score: Score) -> Self {
        self.validation = Some((validation, score));
        self
    }

    /// Looks up `k` neighbours of so many rows each, by the kernel as it stands.
    pub fn look_up(&mut self, terms: usize, k: usize) {
        let Some(layer) = self.at.model.layer.inducing() else { return };
        let n = self.order.len();
        let near = in_units_of(self.data.x, &half_lengths(layer.kernel(), self.data.x));
        let near = near.as_ref();
        let lists = match self.plan.loss {
            LossKind::Log | LossKind::Square => nearest_others(near, k, COMPARISONS),
            LossKind::Elbo | LossKind::Fitc => nearest_before(near, &self.order, k, COMPARISONS),
        };
        let (rows, m) = (self.sample(terms), layer.z().nrows());
        self.share = n as f64 / rows.len().max(1) as f64;
        self.windows = Windows::near(near, &rows, &lists, Windows::most_members(m));
        self.stream = ConditionalStream::new(layer, &self.windows);
    }

    /// So many of the rows, in their order.
    fn sample(&self, terms: usize) -> Vec<u32> {
        let mut places: Vec<usize> = (0..self.order.len()).collect();
        if terms < places.len() {
            places.shuffle(&mut generator(self.seed, Purpose::Neighbours, 2));
            places.truncate(terms);
            places.sort_unstable();
        }
        places.into_iter().map(|place| self.order[place]).collect()
    }

    /// `mean e²/V` of the predictions of some rows, each from its nearest others, under the q that was solved for last.
    fn spread_of_errors(&self) -> Option<f64> {
        let (layer, noise) = (self.at.model.layer.inducing()?, [self.at.model.likelihood.gaussian_noise()?]);
        let near = in_units_of(self.data.x, &half_lengths(layer.kernel(), self.data.x));
        let rows = self.sample(CALIBRATED_ON);
        let index = Index::new(near.as_ref(), (0..self.order.len() as u32).collect(), COMPARISONS);
        let own = Mat::from_fn(rows.len(), near.ncols(), |i, d| near[(rows[i] as usize, d)]);
        let found = index.nearest(own.as_ref(), self.plan.count + 1).1;
        // Of a row that repeats others it is one of them that is left out.
        let mut lists = vec![Vec::new(); self.order.len()];
        for (i, &row) in rows.iter().enumerate() {
            let others = found.get(i).iter().copied().filter(|&other| other != row);
            lists[row as usize] = others.take(self.plan.count).collect();
        }
        let lists = Lists::of(lists.iter().map(Vec::as_slice));
        let windows = Windows::near(near.as_ref(), &rows, &lists, Windows::most_members(layer.z().nrows()));
        let source = Source { x: self.data.x, y: self.data.targets.y, noise: &noise, queries: None };
        let sweep = Sweep { layer, source, windows: &windows };
        let posterior = (self.q.mean(), self.q.cov().full());
        let loss = ConditionalStream::new(layer, &windows).losses(sweep, posterior);
        Some(loss.squares / rows.len().max(1) as f64)
    }

    /// Multiplies the prior variance of f and the noise variance by what makes predictions of training rows from their nearest others
    /// as wide as their errors, and solves for q again; what is said about these values goes first. Means stay what they are.
    fn calibrate(&mut self) -> Option<f64> {
        let factor = self.spread_of_errors().filter(|factor| factor.is_finite())?;
        let factor = factor.clamp(1.0 / MOST_CALIBRATION, MOST_CALIBRATION);
        let before = self.at.model.clone();
        let value = self.scaled(factor);
        if value.is_none() {
            self.at = Place::new(before);
        }
        value
    }

    /// The objective with all variances multiplied by a factor; none where that is not all that changes, or not allowed.
    fn scaled(&mut self, factor: f64) -> Option<f64> {
        let spread = |model: &LatentModel, x: MatRef<'_, f64>| {
            let (mut diagonal, mut scratch) = (vec![0.0; x.nrows()], Scratch::new());
            if let Some(layer) = model.layer.inducing() {
                layer.kernel().diag(x, &mut diagonal, &mut scratch);
            }
            diagonal
        };
        let some = self.data.x.subrows(0, self.data.len().min(16));
        let before = spread(&self.at.model, some);
        self.at.model.for_each_parameter_mut(&mut |parameter| {
            if parameter.name.contains("variance") && !parameter.fixed {
                parameter.values.iter_mut().for_each(|value| *value *= factor);
            }
        });
        let as_wanted = |(before, after): (&f64, &f64)| (after / before - factor).abs() <= 1e-9 * factor;
        let (wanted, scaled) = (self.at.model.natural(), spread(&self.at.model, some));
        let theta = self.at.pack(&wanted);
        // Bounds and ties may hold back what was multiplied.
        self.at.move_to(&theta)?;
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs();
        let allowed = wanted.iter().zip(&self.at.model.natural()).all(close);
        let scales = before.iter().zip(&scaled).all(as_wanted);
        if allowed && scales { self.evaluate(false) } else { None }
    }

    /// The free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.at.start()
    }

    /// Moves to `theta`, and solves for q; the objective (a sum over all data, without priors), or `None` if that failed.
    pub fn solve(&mut self, theta: &[f64]) -> Option<f64> {
        self.at.move_to(theta)?;
        self.evaluate(false)
    }

    /// The model and the whitened q of the last point that could be evaluated.
    pub fn into_parts(self) -> (LatentModel, Normal) {
        (self.at.model, self.q)
    }

    /// Value, q and, if asked for, the gradient that goes through the layer.
    fn evaluate(&mut self, gradient: bool) -> Option<f64> {
        let (layer, noise) = (self.at.model.layer.inducing()?, [self.at.model.likelihood.gaussian_noise()?]);
        let source = Source { x: self.data.x, y: self.data.targets.y, noise: &noise, queries: None };
        let sweep = Sweep { layer, source, windows: &self.windows };
        let (stream, beta, square) = (&mut self.stream, self.plan.beta, self.plan.loss == LossKind::Square);
        let weight = if square { RowWeight::Unit } else { RowWeight::Precision };
        stream.forward(sweep, weight);
        stream.statistics.scale(self.share);
        let statistics = &stream.statistics;
        let closed = if square { square_loss(statistics, beta) } else { conditional_elbo(statistics, beta) };
        let BoundValue { mut value, q, mut adjoint, .. } = closed.ok()?;
        let posterior = (q.mean(), q.cov().full());
        let mut loss = None;
        if self.plan.loss == LossKind::Log {
            let mut found = stream.losses(sweep, posterior);
            found.scale(self.share);
            (value, adjoint) = conditional_dlm(&stream.statistics, (&q, beta), &found);
            loss = Some((posterior.0, posterior.1, self.share));
        }
        if gradient {
            adjoint.scale(self.share);
            self.gradient = BoundGradient::zeros(layer);
            stream.add_rows(sweep, RowsAdjoint { statistics: &adjoint, weight, loss }, &mut self.gradient);
            self.gradient.finish(layer, &mut self.scratch);
        }
        self.q = q;
        value.is_finite().then_some(value)
    }

    /// The rows that predictions look up.
    fn nearby(&self) -> Option<Arc<Nearby>> {
        let data = (self.data.x, self.data.targets.y);
        let layer = self.at.model.layer.inducing()?;
        Some(Arc::new(Nearby::new(layer, data, self.plan.count, (self.plan.keeping, self.seed))))
    }
}

impl HyperObjective for NeighbourObjective<'_> {
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let Some(value) = self.at.move_to(theta).and_then(|()| self.evaluate(true)) else { return f64::NAN };
        self.at.model.flatten_gradient(&self.gradient.layer, &[self.gradient.noise], &mut self.flat);
        value + self.at.pull_back(&self.flat, gradient)
    }

    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        let (rows, score) = self.validation?;
        let solved = self.solve(theta).and_then(|_| self.nearby());
        Some(solved.map_or(f64::NAN, |nearby| {
            Posterior::new(&self.at.model, &self.q).with_neighbours(nearby, &self.q).score(rows, score)
        }))
    }

    fn keep(&mut self, theta: &[f64]) {
        self.at.keep(theta);
    }

    fn archive(&mut self, archive: &mut Archive) {
        self.at.archive(archive);
    }
}

/// Hyper-parameters on the terms of a part of the rows, neighbours looked up anew as lengthscales move, then q on all. Direct losses
/// start from the evidence, which knows the amplitude.
pub(super) fn train_neighbours(
    mut model: LatentModel,
    rows: &dyn TrainingRows,
    (plan, neighbours, fresh): (&Plan, &NeighbourPlan, bool),
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let train = whole(rows, "⟨neighbours⟩")?;
    let (n, few) = (train.len(), neighbours.count.min(TRAINED_WITH));
    let trains = plan.hyper.trains && model.descriptors().iter().any(|descriptor| !descriptor.fixed);
    let stays = model.fix_inducing;
    let coordinates = layer(&model)?.z().nrows() * train.x.ncols();
    model.fix_inducing |= TERMS.min(n) < TERMS_PER_COORDINATE * coordinates;
    if trains && fresh {
        model = warmed(model, train, (plan, neighbours), monitor)?;
    }
    if plan.loss == LossKind::Square {
        hold_amplitude(&mut model);
    }
    let first = if trains { (TERMS.min(n), few) } else { (n, neighbours.count) };
    let mut objective = NeighbourObjective::new(model, train, *neighbours, (first.0, first.1, plan.seed))?;
    if let Some(validation) = rows.validation() {
        objective = objective.with_validation(validation, Score::of(plan.loss));
    }
    let theta = objective.start();
    let outcome = if trains {
        let mut found = minimize(&mut objective, theta, n as f64, &plan.hyper, monitor);
        monitor.check()?;
        if let Some(best) = objective.at.kept() {
            found.theta = best;
        }
        objective.solve(&found.theta).ok_or_else(failed_start)?;
        objective.look_up(n, neighbours.count);
        found
    } else {
        let (iterations, evaluations, rollbacks) = (0, 1, 0);
        let reason = StopReason::Converged;
        Outcome { theta, value: f64::NAN, iterations, evaluations, rollbacks, reason }
    };
    let mut value = objective.solve(&outcome.theta).ok_or_else(failed_start)?;
    if trains && plan.loss != LossKind::Square {
        value = objective.calibrate().unwrap_or(value);
    }
    if !trains {
        monitor.record(value / n as f64, None);
        monitor.stop(StopReason::Converged);
    }
    let nearby = objective.nearby();
    let (mut model, q) = objective.into_parts();
    model.fix_inducing = stays;
    let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
    Ok(Trained {
        model,
        q,
        value,
        elbo: None,
        upper: None,
        sampling: None,
        outcome,
        taken_back,
        estimated_on: None,
        nearby,
    })
}

/// The model after some rounds on the evidence of few rows each, in which inducing inputs stay: hyper-parameters alone are soon found.
fn warmed(
    mut model: LatentModel,
    train: Dataset<'_>,
    (plan, neighbours): (&Plan, &NeighbourPlan),
    monitor: &mut Monitor<'_>,
) -> Result<LatentModel> {
    let (n, few) = (train.len(), neighbours.count.min(TRAINED_WITH));
    let evidence = NeighbourPlan { loss: LossKind::Elbo, ..*neighbours };
    let first = ROUNDS[0].0.min(n);
    let stays = std::mem::replace(&mut model.fix_inducing, true);
    let mut objective = NeighbourObjective::new(model, train, evidence, (first, few, plan.seed))?;
    let mut theta = objective.start();
    for (round, (terms, iterations)) in ROUNDS.into_iter().enumerate() {
        let rows = terms.min(n);
        monitor.enter(Stage::WarmStart { rows, iterations });
        if round > 0 {
            objective.look_up(rows, few);
        }
        let epochs = iterations.min(plan.limits.epochs);
        let limits = Limits { epochs, plateaus: 0, target: None, ..*monitor.limits() };
        let mut nested = monitor.nested(limits);
        theta = minimize(&mut objective, theta, n as f64, &plan.hyper, &mut nested).theta;
        monitor.check()?;
        objective.solve(&theta).ok_or_else(failed_start)?;
    }
    Ok(LatentModel { fix_inducing: stays, ..objective.into_parts().0 })
}
