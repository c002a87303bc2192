//! The evidence of grouped effects as a hyper-parameter objective: w and b solved exactly inside, θ, Z and the factors outside.

use super::collapsed::CollapsedObjective;
use super::failure::failed_start;
use super::outcome::{TakenBack, Trained};
use super::place::Place;
use super::rows::TrainingRows;
use super::run::{evaluated_once, minimize, whole};
use crate::checkpoint::Archive;
use crate::collapsed::{
    BoundAdjoint, BoundGradient, DataStream, Dataset, EffectPass, EffectSweep, GroupedEvidence, GroupedSums,
    StatisticsAdjoint, WeightPrior, Weighting, grouped_evidence,
};
use crate::effects::{EffectPosterior, EffectRows, EffectSums, Moments, RowAdjoint, RowMoments};
use crate::error::{Error, Result};
use crate::gradient::Form;
use crate::hyper::{HyperObjective, Monitor};
use crate::latent::LayerScratch;
use crate::linalg::NotPositiveDefinite;
use crate::model::{LatentModel, Posterior, Score};
use crate::options::{GroupedBound, Plan};
use crate::variational::{Matrix, Normal};
use faer::Mat;

/// A model with Gaussian noise and grouped effects on a data set, seen as a function of its free parameters.
pub struct GroupedObjective<'a> {
    at: Place,
    data: Dataset<'a>,
    bound: GroupedBound,
    rows: EffectRows,
    sums: EffectSums,
    stream: Box<DataStream>,
    /// True if the sums hold for all parameters, because neither features nor weights depend on a parameter.
    summed: bool,
    layer_scratch: LayerScratch,
    flat: Vec<f64>,
    moments: Option<Moments>,
    validation: Option<(Dataset<'a>, Score)>,
}

impl<'a> GroupedObjective<'a> {
    /// Creates the objective. The likelihood of `model` is Gaussian, and in the inputs of `data` the columns of its effects follow the inputs of f.
    pub fn new(model: LatentModel, data: Dataset<'a>, bound: GroupedBound) -> Self {
        let m = model.layer().dim();
        let rows = EffectRows::new(&model.effects, data.x);
        let sums = EffectSums::zeros(&rows, m);
        let stream = Box::new(DataStream::new(&**model.layer(), data.len()));
        GroupedObjective {
            at: Place::new(model),
            data,
            bound,
            rows,
            sums,
            stream,
            summed: false,
            layer_scratch: LayerScratch::new(m),
            flat: Vec::new(),
            moments: None,
            validation: None,
        }
    }

    /// Scores every iteration on held-out rows, so that the best can be kept.
    pub(crate) fn with_validation(self, validation: Dataset<'a>, score: Score) -> Self {
        GroupedObjective { validation: Some((validation, score)), ..self }
    }

    /// Returns the free vector with the best validation score, if there is validation.
    pub fn kept(&self) -> Option<Vec<f64>> {
        self.at.kept()
    }

    /// The free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.at.start()
    }

    /// Moves to `theta` and solves for w and b; minus the log evidence (a sum, without priors), or `None` if that failed.
    pub fn solve(&mut self, theta: &[f64]) -> Option<f64> {
        self.at.move_to(theta)?;
        self.sum_rows();
        let found = self.finite_evidence()?;
        let value = found.value;
        self.moments = Some(found.moments());
        Some(value)
    }

    /// Value and flat natural gradient (kernel, mean, noise, Z, factors) at the current parameters; minimised quantities.
    pub fn natural_gradient(&mut self) -> Option<(f64, Vec<f64>)> {
        let value = self.value_with_gradient()?;
        Some((value, self.flat.clone()))
    }

    /// The model, the whitened q of w and the posterior of the effects at the last point that could be evaluated.
    pub fn into_parts(self) -> Option<(LatentModel, Normal, EffectPosterior)> {
        let (model, moments) = (self.at.model, self.moments?);
        let q = weight_posterior(&moments);
        let effects = EffectPosterior::new(model.effects.clone(), moments, model.layer());
        Some((model, q, effects))
    }

    fn noise(&self) -> f64 {
        self.at.model.noise_variance().unwrap_or(f64::NAN)
    }

    /// Sums over the rows at the current parameters.
    fn sum_rows(&mut self) {
        if self.summed {
            return;
        }
        let (noise, layer) = (self.noise(), &**self.at.model.layer());
        let weighting = if self.bound.fitc { Weighting::Residual(noise) } else { Weighting::Unit };
        self.sums.clear();
        let pass = EffectPass { rows: &self.rows, sums: &mut self.sums };
        self.stream.forward_with(layer, self.data, weighting, Some(pass));
        self.summed = layer.whitening().is_none() && !self.bound.fitc;
    }

    /// The evidence by the sums.
    fn evidence(&self) -> std::result::Result<GroupedEvidence<'_>, NotPositiveDefinite> {
        let given = GroupedSums {
            rows: &self.rows,
            sums: &self.sums,
            statistics: &self.stream.statistics,
            noise: (!self.bound.fitc).then(|| self.noise()),
            prior: self.bound.weights,
        };
        grouped_evidence(&self.at.model.effects, given)
    }

    /// The evidence by the sums, if it is a number.
    fn finite_evidence(&self) -> Option<GroupedEvidence<'_>> {
        self.evidence().ok().filter(|found| found.value.is_finite())
    }

    /// The error of an evidence without a value. Under a flat prior the matrix of dependent inputs has no Cholesky factor, because their
    /// coefficients are not unique.
    fn failure(&self) -> Error {
        if self.bound.weights == WeightPrior::Unit || self.evidence().is_ok() {
            return failed_start();
        }
        Error::fit(
            "the coefficients of the inputs cannot be told apart: an input is constant, or a sum of others",
        )
        .hint("leave such an input out with ⟨exclude⟩; the intercept is an input that is always 1")
    }

    /// The value, with its flat natural gradient left in `flat`.
    fn value_with_gradient(&mut self) -> Option<f64> {
        self.sum_rows();
        let found = self.finite_evidence()?;
        let (value, noise_bar, factors) = (found.value, found.noise_bar, found.factors.clone());
        // Without a whitening there is nothing to train in the layer.
        let trains = self.at.model.layer().whitening().is_some();
        let moments = trains.then(|| found.moments());
        let (gradient, noise_bar) = match moments {
            Some(moments) => self.through_features(&moments, noise_bar),
            None => (BoundGradient::zeros(&**self.at.model.layer()), noise_bar),
        };
        let model = &self.at.model;
        model.flatten_gradient(std::slice::from_ref(&gradient.layer), &[noise_bar], &mut self.flat);
        self.flat.extend_from_slice(&factors);
        Some(value)
    }

    /// Returns the gradient of the layer and the derivative in σ²; `noise_bar` is the derivative at fixed sums.
    fn through_features(&mut self, moments: &Moments, noise_bar: f64) -> (BoundGradient, f64) {
        let noise = self.noise();
        let model = &self.at.model;
        let (layer, statistics) = (&**model.layer(), &self.stream.statistics);
        let posterior = (&moments.weights[..], moments.covariance.as_ref());
        let mut gradient;
        if self.bound.fitc {
            gradient = BoundGradient::of_posterior(layer, statistics, posterior, 0.0);
            let effects = EffectSweep::Fitc(RowMoments { effects: &model.effects, moments });
            let by = BoundAdjoint::Fitc { noise, posterior };
            self.stream.add_rows_with(layer, self.data, by, Some(effects), &mut gradient);
        } else {
            let adjoint = unweighted_adjoint(moments, noise);
            gradient = BoundGradient::of_posterior(layer, statistics, posterior, adjoint.residual);
            let direct = model.layer().condition_is_at_most(CollapsedObjective::DIRECT_GUARD);
            let form = if direct { Form::Direct } else { Form::Stable };
            let rows = RowAdjoint::new(layer, &model.effects, moments, 1.0 / noise);
            let by = BoundAdjoint::Unweighted { adjoint: &adjoint, form };
            let effects = Some(EffectSweep::Unweighted(&rows));
            self.stream.add_rows_with(layer, self.data, by, effects, &mut gradient);
        }
        gradient.finish(layer, &mut self.layer_scratch);
        let through_weights = gradient.noise;
        (gradient, noise_bar + through_weights)
    }
}

/// The most coefficients of all groupings but the largest, which one dense matrix couples.
const MOST_COUPLED: usize = 6000;

/// Hyper-parameters on the evidence of grouped effects, in which w and b are solved for in closed form.
///
/// # Errors
///
/// When the rows are not in memory, too many levels are coupled, or not even the start can be evaluated.
pub(super) fn train_grouped(
    model: LatentModel,
    rows: &dyn TrainingRows,
    bound: GroupedBound,
    plan: &Plan,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    check_coupled(&model)?;
    let n = rows.all().count() as f64;
    let mut objective = GroupedObjective::new(model, whole(rows, "⟨group⟩")?, bound);
    if let Some(validation) = rows.validation() {
        objective = objective.with_validation(validation, Score::of(plan.loss));
    }
    let start = objective.start();
    let mut outcome = if plan.hyper.trains && !start.is_empty() {
        minimize(&mut objective, start, n, &plan.hyper, monitor)
    } else {
        let value = solved(&mut objective, &start)?;
        evaluated_once(start, value, n, monitor)
    };
    monitor.check()?;
    if let Some(best) = objective.kept() {
        outcome.theta = best;
    }
    let value = solved(&mut objective, &outcome.theta)?;
    let (model, q, effects) = objective.into_parts().ok_or_else(failed_start)?;
    let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
    Ok(Trained {
        model,
        q: vec![q],
        value,
        elbo: Some(-value),
        upper: None,
        sampling: None,
        outcome,
        taken_back,
        estimated_on: None,
        nearby: None,
        effects: Some(effects),
        guarantee: None,
    })
}

/// Returns the value at a point, or the error that explains its absence.
fn solved(objective: &mut GroupedObjective<'_>, theta: &[f64]) -> Result<f64> {
    objective.solve(theta).ok_or_else(|| objective.failure())
}

/// Refuses groupings that one dense matrix cannot couple.
fn check_coupled(model: &LatentModel) -> Result<()> {
    let sizes = || model.effects.terms().iter().map(|term| term.coefficients());
    let coupled = sizes().sum::<usize>() - sizes().max().unwrap_or(0);
    if coupled <= MOST_COUPLED {
        return Ok(());
    }
    Err(Error::usage(format!(
        "the groupings besides the largest have {coupled} effects together, expected at most {MOST_COUPLED}"
    ))
    .hint("leave a ⟨group⟩ out, or put rare levels together"))
}

/// The derivatives with respect to the sums over features: `½ d (S + m mᵀ)`, `−d m`, `½ d` and `½ d` with `d = 1/σ²`.
fn unweighted_adjoint(moments: &Moments, noise: f64) -> StatisticsAdjoint {
    let (mean, half) = (&moments.weights, 0.5 / noise);
    let m = mean.len();
    StatisticsAdjoint {
        gram: Mat::from_fn(m, m, |i, j| half * (moments.covariance[(i, j)] + mean[i] * mean[j])),
        ac: mean.iter().map(|m| -m / noise).collect(),
        cc: half,
        residual: half,
        log_weight: 0.0,
        further: Vec::new(),
    }
}

/// The posterior of w alone.
fn weight_posterior(moments: &Moments) -> Normal {
    let (mean, cov) = (moments.weights.clone(), moments.covariance.clone());
    Normal::new(mean.clone(), cov.clone()).unwrap_or(Normal {
        mean,
        cov: Matrix::Full(cov),
        log_det: f64::NAN,
    })
}

impl HyperObjective for GroupedObjective<'_> {
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let found = self.at.move_to(theta).and_then(|()| self.value_with_gradient());
        found.map_or(f64::NAN, |value| value + self.at.pull_back(&self.flat, gradient))
    }

    fn prior_terms(&self, theta: &[f64]) -> f64 {
        self.at.prior_terms(theta)
    }

    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        let (rows, score) = self.validation?;
        if self.solve(theta).is_none() {
            return Some(f64::NAN);
        }
        let (model, moments) = (&self.at.model, self.moments.clone()?);
        let q = weight_posterior(&moments);
        let effects = EffectPosterior::new(model.effects.clone(), moments, model.layer());
        let posterior = Posterior::new(model, q).with_effects(effects);
        Some(posterior.score(rows, score))
    }

    fn keep(&mut self, theta: &[f64]) {
        self.at.keep(theta);
    }

    fn archive(&mut self, archive: &mut Archive) {
        self.at.archive(archive);
    }
}
