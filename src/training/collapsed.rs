//! Collapsed bounds as objectives of the hyper-parameters: q is solved for exactly, θ and Z are free.

use super::failure::failed_start;
use super::outcome::Trained;
use super::parts::{PartedRows, Parts};
use super::place::Place;
use super::rows::whole;
use super::run::Job;
use super::solver::{Solved, minimize_solved};
use super::warm_start::rehearsed_exactly;
use crate::checkpoint::Archive;
use crate::collapsed::{
    BoundAdjoint, BoundGradient, CollapsedBound, DataStream, Dataset, Statistics, StatisticsAdjoint,
    Weighting, collapsed_elbo, fitc, square_loss, upper_bound,
};
use crate::error::{Error, Result};
use crate::gradient::Form;
use crate::hyper::{HyperObjective, Monitor};
use crate::latent::LayerScratch;
use crate::model::{LatentModel, Posterior, Score};
use crate::options::LossKind;
use crate::variational::{Family, Normal};

/// A model with Gaussian likelihood on a data set, as a function of its free parameters.
pub struct CollapsedObjective<'a> {
    at: Place,
    rows: RowSums<'a>,
    bound: CollapsedBound,
    gradient: BoundGradient,
    layer_scratch: LayerScratch,
    flat: Vec<f64>,
    q: Normal,
    validation: Option<(Dataset<'a>, Score)>,
    error: Option<Error>,
}

/// The rows of a bound, with their sums under the last model.
enum RowSums<'a> {
    Here { data: Dataset<'a>, stream: Box<DataStream> },
    There { parts: Parts<'a>, statistics: Statistics },
}

impl RowSums<'_> {
    /// Computes the sums over all rows under `model`.
    fn forward(&mut self, model: &LatentModel, weighting: Weighting) -> Result<&Statistics> {
        match self {
            RowSums::Here { data, stream } => {
                stream.forward(&**model.layer(), *data, weighting);
                Ok(&stream.statistics)
            }
            RowSums::There { parts, statistics } => {
                *statistics = parts.statistics(model, weighting)?;
                Ok(statistics)
            }
        }
    }

    /// Computes the gradient through the features and through the sums.
    fn gradient(&mut self, model: &LatentModel, by: BoundAdjoint<'_>) -> Result<BoundGradient> {
        let layer = &**model.layer();
        match self {
            RowSums::Here { data, stream } => {
                let mut gradient = BoundGradient::of_statistics(layer, &stream.statistics, by);
                stream.add_rows(layer, *data, by, &mut gradient);
                Ok(gradient)
            }
            RowSums::There { parts, statistics } => {
                let mut gradient = BoundGradient::of_statistics(layer, statistics, by);
                gradient.merge(&parts.gradient(model, by)?)?;
                Ok(gradient)
            }
        }
    }
}

impl<'a> CollapsedObjective<'a> {
    /// The cond(K_uu) above which the backward sweep takes the stable form (3 products per datum
    /// instead of 2). The direct form affects only gradients, with relative errors of about ε·cond.
    pub(super) const DIRECT_GUARD: f64 = 1e10;

    /// Creates the objective. The likelihood of `model` must be Gaussian, with the noise variance
    /// as its only parameter.
    pub fn new(model: LatentModel, data: Dataset<'a>, bound: CollapsedBound) -> Self {
        let stream = Box::new(DataStream::new(&**model.layer(), data.len()));
        CollapsedObjective::of_rows(model, RowSums::Here { data, stream }, bound)
    }

    /// Like [`new`](Self::new), for rows in parts that are held elsewhere.
    pub(crate) fn of_parts(model: LatentModel, parts: &'a dyn PartedRows, bound: CollapsedBound) -> Self {
        let statistics = Statistics::zeros(model.layer().dim());
        CollapsedObjective::of_rows(model, RowSums::There { parts: Parts(parts), statistics }, bound)
    }

    fn of_rows(model: LatentModel, rows: RowSums<'a>, bound: CollapsedBound) -> Self {
        let (gradient, m) = (BoundGradient::zeros(&**model.layer()), model.layer().dim());
        let q = Normal::standard(Family::Full, m);
        let flat = Vec::new();
        CollapsedObjective {
            at: Place::new(model),
            rows,
            bound,
            gradient,
            layer_scratch: LayerScratch::new(m),
            flat,
            q,
            validation: None,
            error: None,
        }
    }

    /// Returns the error of sums over remote rows, if there was one; after an error the objective
    /// has no value.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Scores every iteration on held-out rows, so that the best one can be kept.
    pub(crate) fn with_validation(mut self, validation: Dataset<'a>, score: Score) -> Self {
        self.validation = Some((validation, score));
        self
    }

    /// Returns the free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.at.start()
    }

    /// Moves to `theta` and solves for q; returns the value of the bound (a sum, without priors), or `None` if that failed.
    pub fn solve(&mut self, theta: &[f64]) -> Option<f64> {
        self.at.move_to(theta)?;
        self.bound(false).map(|(value, _)| value)
    }

    /// Returns the model and the whitened q of the last point that could be evaluated.
    pub fn into_parts(self) -> (LatentModel, Normal) {
        (self.at.model, self.q)
    }

    /// Returns the current model.
    pub fn model(&self) -> &LatentModel {
        &self.at.model
    }

    /// Returns the optimal whitened q at the last evaluated point.
    pub fn q(&self) -> &Normal {
        &self.q
    }

    /// Returns the upper bound on the log evidence at the current parameters.
    pub fn evidence_upper_bound(&mut self) -> Option<f64> {
        let noise = self.noise();
        upper_bound(self.forward(Weighting::Unit)?, noise).ok().map(|bound| bound.value)
    }

    /// Like [`evidence_upper_bound`](Self::evidence_upper_bound), with its flat natural gradient.
    pub fn upper_bound_gradient(&mut self) -> Option<(f64, Vec<f64>)> {
        let noise = self.noise();
        let bound = upper_bound(self.forward(Weighting::Unit)?, noise).ok()?;
        self.backward(&bound.adjoint)?;
        self.at.model.flatten_gradient(
            std::slice::from_ref(&self.gradient.layer),
            &[bound.noise_bar],
            &mut self.flat,
        );
        Some((bound.value, self.flat.clone()))
    }

    /// Returns the minimised objective and its flat natural gradient (kernel, mean, noise, Z) at
    /// the current parameters.
    pub fn natural_gradient(&mut self) -> Option<(f64, Vec<f64>)> {
        let value = self.bound_with_gradient()?;
        Some((value, self.flat.clone()))
    }

    /// Returns the value, with its flat natural gradient left in `flat`.
    fn bound_with_gradient(&mut self) -> Option<f64> {
        let (value, noise_bar) = self.bound(true)?;
        self.at.model.flatten_gradient(
            std::slice::from_ref(&self.gradient.layer),
            &[noise_bar],
            &mut self.flat,
        );
        Some(value)
    }

    fn noise(&self) -> f64 {
        let mut noise = f64::NAN;
        self.at.model.likelihood.for_each_parameter(&mut |p| noise = p.values[0]);
        noise
    }

    /// Computes the sums over all rows; `None` if they are unavailable.
    fn forward(&mut self, weighting: Weighting) -> Option<&Statistics> {
        if self.error.is_some() {
            return None;
        }
        let error = &mut self.error;
        self.rows.forward(&self.at.model, weighting).map_err(|why| *error = Some(why)).ok()
    }

    fn backward(&mut self, adjoint: &StatisticsAdjoint) -> Option<()> {
        let direct = self.at.model.layer().condition_is_at_most(Self::DIRECT_GUARD);
        let form = if direct { Form::Direct } else { Form::Stable };
        self.gradient_by(BoundAdjoint::Unweighted { adjoint, form })
    }

    fn gradient_by(&mut self, by: BoundAdjoint<'_>) -> Option<()> {
        let (model, error) = (&self.at.model, &mut self.error);
        self.gradient = self.rows.gradient(model, by).map_err(|why| *error = Some(why)).ok()?;
        self.gradient.finish(&**model.layer(), &mut self.layer_scratch);
        Some(())
    }

    /// Returns the value and ∂/∂σ². If `gradient` is true, the gradient of the layer is left in
    /// the field `gradient`.
    fn bound(&mut self, gradient: bool) -> Option<(f64, f64)> {
        self.bound_as_computed(gradient).filter(|(value, _)| value.is_finite())
    }

    fn bound_as_computed(&mut self, gradient: bool) -> Option<(f64, f64)> {
        let noise = self.noise();
        match self.bound {
            CollapsedBound::Elbo { beta } => {
                let bound = collapsed_elbo(self.forward(Weighting::Unit)?, noise, beta).ok()?;
                if gradient {
                    self.backward(&bound.adjoint)?;
                }
                self.q = bound.q;
                Some((bound.value, bound.noise_bar))
            }
            CollapsedBound::Square { beta } => {
                let bound = square_loss(self.forward(Weighting::Unit)?, beta).ok()?;
                if gradient {
                    self.backward(&bound.adjoint)?;
                }
                self.q = bound.q;
                Some((bound.value, bound.noise_bar))
            }
            CollapsedBound::Fitc => {
                let bound = fitc(self.forward(Weighting::Residual(noise))?).ok()?;
                let mut noise_bar = 0.0;
                if gradient {
                    let posterior = (bound.q.mean(), bound.q.cov().full());
                    self.gradient_by(BoundAdjoint::Fitc { noise, posterior })?;
                    noise_bar = self.gradient.noise;
                }
                self.q = bound.q;
                Some((bound.value, noise_bar))
            }
        }
    }
}

impl HyperObjective for CollapsedObjective<'_> {
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let found = self.at.move_to(theta).and_then(|()| self.bound_with_gradient());
        found.map_or(f64::NAN, |value| value + self.at.pull_back(&self.flat, gradient))
    }

    fn prior_terms(&self, theta: &[f64]) -> f64 {
        self.at.prior_terms(theta)
    }

    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        let (rows, score) = self.validation?;
        Some(match self.solve(theta) {
            Some(_) => Posterior::new(&self.at.model, &self.q).score(rows, score),
            None => f64::NAN,
        })
    }

    fn keep(&mut self, theta: &[f64]) {
        self.at.keep(theta);
    }

    fn exhausted(&self) -> bool {
        self.error.is_some()
    }

    fn archive(&mut self, archive: &mut Archive) {
        self.at.archive(archive);
    }
}

impl Solved for CollapsedObjective<'_> {
    fn place(&self) -> &Place {
        &self.at
    }

    fn solve_at(&mut self, theta: &[f64]) -> Result<f64> {
        let value = self.solve(theta);
        match self.error() {
            Some(error) => Err(error.clone()),
            None => value.ok_or_else(failed_start),
        }
    }
}

/// Trains hyper-parameters on a bound in which q is solved for in closed form.
pub(super) fn train(
    model: LatentModel,
    bound: CollapsedBound,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let Job { rows, plan, fresh } = *job;
    let mut objective = match rows.all().elsewhere() {
        Some(parts) => CollapsedObjective::of_parts(model, parts, bound),
        None => {
            let data = whole(rows, "a collapsed bound")?;
            let model = if fresh { rehearsed_exactly(model, data, plan, monitor)? } else { model };
            CollapsedObjective::new(model, data, bound)
        }
    };
    if let Some(validation) = rows.validation() {
        objective = objective.with_validation(validation, Score::of(plan.loss));
    }
    let outcome = minimize_solved(&mut objective, job, monitor)?;
    let value = outcome.value;
    let is_elbo = plan.loss == LossKind::Elbo;
    let upper = is_elbo.then(|| objective.evidence_upper_bound()).flatten();
    let elbo = (is_elbo && plan.beta == 1.0).then_some(-value);
    let (model, q) = objective.into_parts();
    Ok(Trained { elbo, upper, ..Trained::at(model, vec![q], value, outcome) })
}
