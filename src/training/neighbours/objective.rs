//! A model with neighbours as a function of its free parameters: q in closed form, and sites if
//! noise is not Gaussian.

use super::given::Given;
use super::in_rounds;
use super::sites::{Observed, Sites};
use crate::collapsed::{Dataset, Solution, solve, tangent};
use crate::data::{Purpose, generator};
use crate::effects::EffectPosterior;
use crate::error::{Error, Result};
use crate::gradient::{BatchPass, GivenRows, Problem, Tangent, Wanted};
use crate::latent::InducingLayer;
use crate::model::{LatentModel, LatentPrior, Nearby, NearbyRows, Posterior, Score};
use crate::neighbours::{
    COMPARISONS, Lists, Windows, half_lengths, in_units_of, nearest_before, nearest_others,
};
use crate::objective::Objective;
use crate::options::{LossKind, NeighbourPlan};
use crate::training::solver::{Place, Solved};
use crate::variational::{Family, Normal};
use faer::MatRef;
use rand::seq::SliceRandom;
use sparsegp_kernels::{Role, Scratch};
use std::sync::Arc;
use std::time::Instant;

/// The number of neighbours for the training of hyper-parameters: more change them little, at a quadratic cost.
pub(super) const TRAINED_WITH: usize = 20;

/// The number of training rows whose leave-one-out predictions calibrate the width of predictions.
const CALIBRATED_ON: usize = 4096;

/// The maximum factor by which calibration multiplies or divides all variances.
const MOST_CALIBRATION: f64 = 10.0;

/// A model with neighbours on a data set, as a function of its free parameters.
#[doc(hidden)]
pub struct NeighbourObjective<'a> {
    at: Place,
    data: Dataset<'a>,
    plan: NeighbourPlan,
    seed: u64,
    /// All rows, in the order that defines predecessors.
    order: Vec<u32>,
    /// The rows of the terms, the weight of each, and their neighbours.
    rows: Vec<u32>,
    share: f64,
    windows: Windows,
    /// The nearest other rows, if the objective is the loss of predictions from them.
    left: Option<Windows>,
    /// The sites, if noise is not Gaussian, and the nearest other rows of every row, in an order that keeps near rows together.
    pub(super) sites: Option<Sites>,
    others: (Vec<u32>, Lists),
    room: Option<Room>,
    q: Vec<Normal>,
    /// The held-out rows that score every iteration, so that the best one can be kept.
    pub(super) validation: Option<(Dataset<'a>, Score)>,
    /// The time after which sites are matched only once, and not in turn with q.
    pub(super) end: Option<Instant>,
}

/// Returns the prior of the whitened inducing variables of every function and of the coefficients of its grouped effects.
pub(super) fn standard(model: &LatentModel) -> Vec<Normal> {
    let (layers, effects) = (model.layers(), model.effects.coefficients());
    let of = |function| Normal::standard(Family::Full, layers.get(layers.of(function)).dim() + effects);
    (0..model.likelihood.functions()).map(of).collect()
}

/// The passes of an evaluation over the rows and over their predictions.
struct Room {
    rows: BatchPass,
    left: Option<BatchPass>,
}

/// Returns the layer of a model with neighbours, which is a sparse GP, or that of its first function, whose metric finds neighbours.
pub(super) fn layer(model: &LatentModel) -> Result<&InducingLayer> {
    model.layer().inducing().ok_or_else(|| Error::usage("⟨neighbours⟩ need ⟨model gp⟩"))
}

impl<'a> NeighbourObjective<'a> {
    /// Creates the objective of a model. It has a value after [`look_up`](NeighbourObjective::look_up).
    ///
    /// # Errors
    ///
    /// If the model is not a sparse GP.
    pub fn new(model: LatentModel, data: Dataset<'a>, plan: NeighbourPlan, seed: u64) -> Result<Self> {
        layer(&model)?;
        let mut order: Vec<u32> = (0..data.len() as u32).collect();
        order.shuffle(&mut generator(seed, Purpose::Neighbours, 0));
        Ok(NeighbourObjective {
            room: None,
            q: standard(&model),
            rows: Vec::new(),
            windows: Windows::default(),
            left: None,
            sites: None,
            others: Default::default(),
            share: 1.0,
            validation: None,
            end: None,
            at: Place::new(model),
            data,
            plan,
            seed,
            order,
        })
    }

    /// Looks up `k` neighbours of each of `terms` rows under the current kernel, and matches sites if there are any.
    pub fn look_up(&mut self, terms: usize, k: usize) {
        let Some(layer) = self.at.model.layer().inducing() else { return };
        let inputs = self.inputs();
        let near = in_units_of(layer.kernel(), inputs, &half_lengths(layer.kernel(), inputs));
        let near = near.as_ref();
        self.rows = self.sample(terms);
        let (rows, effects) = (&self.rows, &self.at.model.effects);
        // The terms of some rows can represent all rows in the evidence about w, but not about
        // levels, because each level has its own rows.
        let weighs = effects.is_empty();
        self.share = if weighs { self.order.len() as f64 / rows.len().max(1) as f64 } else { 1.0 };
        let most = self.given().most_members();
        let others = || Windows::near(near, rows, &nearest_others(near, rows, k, COMPARISONS).1, most);
        let before = || nearest_before(near, &self.order, rows, k, COMPARISONS);
        self.windows = match self.plan.loss {
            LossKind::Square => others(),
            _ => Windows::near(near, rows, &before(), most),
        };
        self.left = (self.plan.loss == LossKind::Log).then(others);
        let (layers, likelihood) = (self.at.model.layers(), &self.at.model.likelihood);
        let problem = |objective| Problem::new(layers, likelihood, objective, &self.q);
        let pass = |objective, windows| BatchPass::given(problem(objective), windows, effects);
        self.room = Some(Room {
            rows: pass(self.closed_objective(), &self.windows),
            left: self.left.as_ref().map(|left| pass(self.predictive_objective(), left)),
        });
        if self.has_sites() {
            self.others = nearest_others(near, &self.order, k.min(TRAINED_WITH), COMPARISONS);
            self.match_sites();
        }
    }

    /// Updates in turn the sites, which are matched to leave-one-out predictions of all rows, and
    /// the q that follows from the sites.
    fn match_sites(&mut self) {
        if self.sites.is_none() {
            let variance = self.given().prior_variances(self.data.x);
            self.sites = Some(Sites::new(self.observed(), &variance, self.plan.nodes));
        }
        in_rounds(|step| {
            self.solved()?;
            let (mean, variance) = self.left_out(&self.others.0, &self.others.1);
            let mut sites = self.sites.take()?;
            let moved = sites.update(self.observed(), mean, variance, step);
            self.sites = Some(sites);
            // After the time limit the sites stay as they are.
            let late = self.end.is_some_and(|end| Instant::now() >= end);
            (!late).then_some(moved)
        });
    }

    fn solved(&mut self) -> Option<()> {
        let mut room = self.room.take()?;
        let closed = self.closed(&mut room.rows);
        self.room = Some(room);
        self.q = closed?.q;
        Some(())
    }

    /// Returns the objective whose q has a closed form: the evidence of rows given their neighbours, or the squared errors.
    fn closed_objective(&self) -> Objective {
        match (self.plan.loss, self.plan.beta) {
            (LossKind::Square, beta) => Objective::square(beta),
            (_, beta) => Objective { beta, ..Objective::fitc() },
        }
    }

    fn predictive_objective(&self) -> Objective {
        Objective { nodes: self.plan.nodes, ..Objective::dlm(self.plan.beta) }
    }

    fn observed(&self) -> Observed<'_> {
        Observed { likelihood: &self.at.model.likelihood, targets: self.data.targets }
    }

    /// Returns the targets that rows are given and, if these are of sites, their noise variances.
    fn known(&self) -> (&[f64], Option<&[f64]>) {
        match &self.sites {
            Some(Sites { values, .. }) => (&values.targets, Some(&values.noise)),
            None => (self.data.targets.y, None),
        }
    }

    /// Returns the data that rows are given.
    fn given(&self) -> Given<'_> {
        let (targets, noise) = self.known();
        Given::new(&self.at.model, self.data.x, targets, noise)
    }

    /// Returns means and variances of every function at rows given other rows, under the last q without the contribution of these rows.
    fn left_out(&self, order: &[u32], lists: &Lists) -> (Vec<f64>, Vec<f64>) {
        let mut counted = vec![0.0; self.data.len()];
        self.rows.iter().for_each(|&row| counted[row as usize] = self.share / self.plan.beta);
        self.given().left_out(&self.q, order, lists, &counted)
    }

    /// Returns a sample of `terms` rows, in their order.
    fn sample(&self, terms: usize) -> Vec<u32> {
        let mut places: Vec<usize> = (0..self.order.len()).collect();
        if terms < places.len() {
            places.shuffle(&mut generator(self.seed, Purpose::Neighbours, 2));
            places.truncate(terms);
            places.sort_unstable();
        }
        places.into_iter().map(|place| self.order[place]).collect()
    }

    /// Returns `mean e²/V` of leave-one-out predictions of some rows under the last q.
    fn spread_of_errors(&self) -> Option<f64> {
        let (layer, noise) = (self.at.model.layer().inducing()?, self.at.model.likelihood.gaussian_noise()?);
        let inputs = self.inputs();
        let near = in_units_of(layer.kernel(), inputs, &half_lengths(layer.kernel(), inputs));
        let rows = self.sample(CALIBRATED_ON);
        let (order, lists) = nearest_others(near.as_ref(), &rows, self.plan.count, COMPARISONS);
        let (mean, variance) = self.left_out(&order, &lists);
        let square = |&row: &u32| {
            let i = row as usize;
            (self.data.targets.y[i] - mean[i]).powi(2) / (variance[i] + noise)
        };
        Some(rows.iter().map(square).sum::<f64>() / rows.len().max(1) as f64)
    }

    /// Multiplies the prior variance of f and the noise variance by the factor that makes leave-one-out predictions of training rows as
    /// wide as their errors, and solves for q again; constraints on these values take precedence. Means stay.
    pub(super) fn calibrate(&mut self) -> Option<f64> {
        let factor = self.spread_of_errors().filter(|factor| factor.is_finite())?;
        let factor = factor.clamp(1.0 / MOST_CALIBRATION, MOST_CALIBRATION);
        let before = self.at.model.clone();
        let value = self.scaled(factor);
        if value.is_none() {
            self.at = Place::new(before);
        }
        value
    }

    /// Returns the objective with all variances multiplied by a factor; `None` if constraints
    /// forbid that, or f does not scale with them.
    fn scaled(&mut self, factor: f64) -> Option<f64> {
        let spread = |model: &LatentPrior, x: MatRef<'_, f64>| {
            let (mut diagonal, mut scratch) = (vec![0.0; x.nrows()], Scratch::new());
            if let Some(layer) = model.layer().prior() {
                layer.kernel().diag(x, &mut diagonal, &mut scratch);
            }
            diagonal
        };
        let some = self.inputs().subrows(0, self.data.len().min(16));
        let mut model = self.at.model.to_prior();
        let before = spread(&model, some);
        model.for_each_parameter_mut(&mut |parameter| {
            if matches!(parameter.role(), Role::Variance | Role::Noise) && !parameter.fixed {
                parameter.values.iter_mut().for_each(|value| *value *= factor);
            }
        });
        let as_wanted = |(before, after): (&f64, &f64)| (after / before - factor).abs() <= 1e-9 * factor;
        let (wanted, scaled) = (model.natural(), spread(&model, some));
        let theta = self.at.pack(&wanted);
        // Bounds and ties may prevent the change.
        self.at.move_to(&theta)?;
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs();
        let allowed = wanted.iter().zip(&self.at.model.natural()).all(close);
        let scales = before.iter().zip(&scaled).all(as_wanted);
        if allowed && scales { self.evaluate(false) } else { None }
    }

    /// Returns the inputs of f.
    fn inputs(&self) -> MatRef<'a, f64> {
        self.data.x.subcols(0, self.at.model.layer().input_dims())
    }

    /// Returns the number of rows that the objective is a sum over.
    pub(super) fn counted(&self) -> usize {
        if self.at.model.effects.is_empty() { self.order.len() } else { self.rows.len() }
    }

    /// Returns true if the objective is minus the log evidence of all rows.
    pub(super) fn is_evidence(&self) -> bool {
        let NeighbourPlan { loss, beta, .. } = self.plan;
        loss == LossKind::Elbo && beta == 1.0 && !self.has_sites() && self.rows.len() == self.order.len()
    }

    /// Returns the whitened q of the last point without the coefficients of grouped effects, and the posterior of these.
    pub(super) fn split(&self) -> (Vec<Normal>, Vec<EffectPosterior>) {
        let LatentModel { effects, .. } = &self.at.model;
        if effects.is_empty() {
            return (self.q.clone(), Vec::new());
        }
        let layers = self.at.model.layers();
        let of_function = |(function, q): (usize, &Normal)| {
            let own = layers.of(function);
            EffectPosterior::split(&effects.of_layer(own), q, layers.get(own))
        };
        self.q.iter().enumerate().map(of_function).unzip()
    }

    pub(super) fn rows(&self) -> usize {
        self.order.len()
    }

    /// Returns true if sites replace the data.
    pub(super) fn has_sites(&self) -> bool {
        self.at.model.likelihood.gaussian_noise().is_none()
    }

    /// Returns the free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.at.start()
    }

    /// Returns the model at the last point.
    pub fn model(&self) -> &LatentModel {
        &self.at.model
    }

    /// Moves to `theta` and solves for q; returns the objective (a sum over all rows, without priors), or `None` if that failed.
    pub fn solve(&mut self, theta: &[f64]) -> Option<f64> {
        self.at.move_to(theta)?;
        self.evaluate(false)
    }

    /// Returns the posterior at the last point that could be evaluated, with the rows that
    /// predictions look up.
    pub fn posterior(&self) -> Option<Posterior> {
        Solved::posterior(self)
    }

    /// Returns the model and the whitened q of the last point that could be evaluated, without the
    /// coefficients of grouped effects.
    pub(crate) fn into_parts(self) -> (LatentModel, Vec<Normal>) {
        let (q, _) = self.split();
        (self.at.model, q)
    }

    /// Returns the value and q, and if requested the gradients through the layer and in the likelihood's parameters.
    fn evaluate(&mut self, gradient: bool) -> Option<f64> {
        let mut room = self.room.take()?;
        let mut flat = std::mem::take(&mut self.at.flat);
        let found = self.objective(&mut room, gradient.then_some(&mut flat));
        (self.room, self.at.flat) = (Some(room), flat);
        let (value, q) = found?;
        self.q = q;
        value.is_finite().then_some(value)
    }

    /// Returns the minimum over q of the objective whose q has a closed form; leaves its sums in the pass.
    fn closed(&self, pass: &mut BatchPass) -> Option<Solution> {
        self.run(pass, &self.windows, self.closed_objective(), &self.q, Wanted::Origin, &[])?;
        solve(pass.sums(), self.plan.beta).ok()
    }

    /// Runs a pass over the rows of `windows` at q; returns its value.
    fn run(
        &self,
        pass: &mut BatchPass,
        windows: &Windows,
        objective: Objective,
        q: &[Normal],
        wanted: Wanted,
        tangents: &[Tangent],
    ) -> Option<f64> {
        let (model, given) = (&self.at.model, self.given());
        model.layer().inducing()?;
        let sources = given.sources();
        let rows = GivenRows { windows, sources: &sources, targets: self.data.targets, scale: self.share };
        let problem = Problem::new(model.layers(), &model.likelihood, objective, q);
        Some(pass.run_given(problem, rows, wanted, tangents))
    }

    fn objective(&self, room: &mut Room, flat: Option<&mut Vec<f64>>) -> Option<(f64, Vec<Normal>)> {
        let (Room { rows, left }, gradient) = (room, flat.is_some());
        let Solution { mut value, q } = self.closed(rows)?;
        let beta = self.plan.beta;
        let (mut tangents, mut own) = (Vec::new(), vec![0.0; self.at.model.likelihood.own_len()]);
        let mut predictions = self.left.as_ref().zip(left.as_mut());
        if let Some((windows, left)) = &mut predictions {
            let wanted = if gradient { Wanted::Gradient } else { Wanted::Losses };
            value = self.run(left, windows, self.predictive_objective(), &q, wanted, &[])?
                + beta * q.iter().map(Normal::kl).sum::<f64>();
            own.copy_from_slice(left.likelihood_gradient());
            if gradient {
                let sums = rows.sums().processes.iter().zip(&left.sums().processes);
                tangents.extend(sums.zip(&q).map(|((inner, outer), q)| tangent(inner, outer, q, beta)));
            }
        } else if let Some(sites) = &self.sites {
            value += self.share * sites.correction(self.observed(), &self.rows, &mut own);
            own.iter_mut().for_each(|own| *own *= self.share);
        }
        if let Some(flat) = flat {
            self.run(rows, &self.windows, self.closed_objective(), &q, Wanted::Envelope, &tangents)?;
            let (mut gradients, mut through) = (rows.layer_gradients().to_vec(), rows.sums().through.clone());
            if let Some((_, left)) = predictions {
                gradients.iter_mut().zip(left.layer_gradients()).for_each(|(sum, own)| sum.add(own));
                through.iter_mut().zip(&left.sums().through).for_each(|(sum, own)| sum.add(own));
            }
            if self.sites.is_none() {
                own[0] += through[0].noise;
            }
            let LatentModel { effects, .. } = &self.at.model;
            self.at.model.flatten_gradient(&gradients, &own, flat);
            for layer in 0..gradients.len() {
                let members = &mut through[self.at.model.layers().members(layer)];
                let (sum, others) = members.split_first_mut()?;
                others.iter().for_each(|other| sum.add(other));
                for (term, bar) in sum.factors.iter().enumerate() {
                    effects.flatten(term, bar.as_ref(), flat);
                }
            }
        }
        Some((value, q))
    }

    /// Returns the rows that predictions look up.
    pub(super) fn nearby(&self) -> Option<Arc<Nearby>> {
        let layer = self.at.model.layer().inducing()?;
        let (targets, noise) = self.known();
        let rows = NearbyRows::new(self.data.x, targets, noise, self.plan.keeping, self.seed);
        Some(Arc::new(Nearby::new(layer, rows, self.plan.count)))
    }
}

impl Solved for NeighbourObjective<'_> {
    fn place(&self) -> &Place {
        &self.at
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.at
    }

    fn posterior(&self) -> Option<Posterior> {
        let (q, effects) = self.split();
        let posterior = Posterior::new(&self.at.model, &q).with_effects(effects);
        Some(posterior.with_neighbours(&self.at.model, Some(self.nearby()?), &q))
    }

    fn validation(&self) -> Option<(Dataset<'_>, Score)> {
        self.validation
    }

    fn value(&mut self) -> Option<f64> {
        self.evaluate(false)
    }

    fn value_with_gradient(&mut self) -> Option<f64> {
        self.evaluate(true)
    }
}
