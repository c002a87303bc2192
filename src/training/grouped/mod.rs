//! The evidence of grouped effects as a hyper-parameter objective: w and b solved exactly inside, θ, Z and the factors outside.
//!
//! Noise that is not Gaussian is replaced by sites, which natural-gradient steps move to the best q before every value and gradient.

pub(super) mod boundaries;
mod coordinates;
mod intervals;
pub(super) mod sites;

use super::failure::failed_start;
use super::row_sums::{LevelSums, Sweep, pass_over, sum_over, sum_over_with};
use super::rows::{AllRows, TrainingRows};
use super::run::{Job, Trained};
use super::solver::{Place, Solved, minimize_solved};
use crate::collapsed::{Dataset, GroupedEvidence, GroupedSums, WeightPrior, grouped_evidence};
use crate::effects::{EffectPosterior, EffectRows, EffectSummary, EffectSums, Moments, RowMoments};
use crate::error::{Error, Result};
use crate::gradient::{BatchPass, BatchSums, Form, Problem, Wanted};
use crate::hyper::Monitor;
use crate::latent::{LatentLayer, LayerGradient};
use crate::likelihood::{Gaussian, ObservationModel};
use crate::linalg::{NotPositiveDefinite, dot};
use crate::model::{LatentModel, Posterior, Score};
use crate::options::GroupedBound;
use crate::variational::{Family, Normal};
use faer::MatRef;
use intervals::effect_intervals;
use sites::{Losses, RowMarginals, SiteValues, Sites};

/// A model with grouped effects on a data set, seen as a function of its free parameters.
#[doc(hidden)]
pub struct GroupedObjective<'a> {
    at: Place,
    /// All rows, and the pass over them or over their sites.
    all: Box<dyn AllRows + 'a>,
    pass: BatchPass,
    /// True if all rows are in memory.
    here: bool,
    bound: GroupedBound,
    /// Normal noise of variance 1, with which rows and sites are summed.
    unit: ObservationModel,
    /// The sites that replace the likelihood, if the noise is not Gaussian.
    sites: Option<SiteRows<'a>>,
    /// The number of steps on sites that were rolled back.
    rollbacks: usize,
    rows: EffectRows,
    sums: EffectSums,
    origin: Option<BatchSums>,
    /// True if the sums hold for all parameters, because neither features nor weights depend on a parameter.
    summed: bool,
    moments: Option<Moments>,
    /// The held-out rows that score every iteration, so that the best one can be kept.
    pub(super) validation: Option<(Dataset<'a>, Score)>,
}

/// The sites of all rows, the rows, and the pass over the losses of the likelihood.
struct SiteRows<'a> {
    sites: Sites,
    data: Dataset<'a>,
    pass: BatchPass,
}

/// The best q at the current parameters, with the derivatives that follow from it.
struct Settled {
    /// The objective, a sum.
    value: f64,
    /// Derivatives with respect to the factors of the effects.
    factors: Vec<f64>,
    /// The derivatives in the likelihood's own parameters at fixed sums.
    own: Vec<f64>,
    /// The moments that the expectations of the objective are taken under, if a gradient needs them.
    moments: Option<Moments>,
}

/// The objective at some sites.
struct AtSites {
    settled: Settled,
    losses: Losses,
    marginals: RowMarginals,
    /// The distance of every site from its best value, in standard deviations of η.
    residuals: Vec<f64>,
}

/// Steps on sites end when the mean square of their distances from the best values is below this. The gradient in hyper-parameters has an
/// error of the order of the distance.
const SETTLED: f64 = 1e-16;

/// The maximum number of steps on sites at one point.
const MOST_STEPS: usize = 100;

/// The sizes of the smallest step on sites that is tried, and of the largest one.
const STEP_RANGE: (f64, f64) = (1e-4, 2.0);

impl<'a> GroupedObjective<'a> {
    /// Creates the objective. The likelihood of `model` is Gaussian unless `bound` has losses for sites. In the inputs of `data` the columns of
    /// the effects follow the inputs of f.
    pub fn new(model: LatentModel, data: Dataset<'a>, bound: GroupedBound) -> Self {
        GroupedObjective::with(model, Box::new(data), Some(data), bound)
    }

    /// Like [`new`](Self::new), for rows that may be on disk or in parts elsewhere.
    ///
    /// # Errors
    ///
    /// If rows are not in memory: usage errors for several groupings, and for noise that is not Gaussian, because both need all rows at once.
    pub(crate) fn of_rows(
        model: LatentModel,
        rows: &'a dyn TrainingRows,
        bound: GroupedBound,
    ) -> Result<Self> {
        let (data, several) = (rows.in_memory(), model.effects.terms().len() > 1);
        if data.is_none() && (several || bound.losses.is_some()) {
            let what =
                if several { "several groupings" } else { "⟨group⟩ with noise that is not Gaussian" };
            return Err(Error::usage(format!("{what}: all rows must be in memory"))
                .hint("rows on disk or in parts can have one grouping and Gaussian noise"));
        }
        Ok(GroupedObjective::with(model, Box::new(rows.all()), data, bound))
    }

    fn with(
        model: LatentModel,
        all: Box<dyn AllRows + 'a>,
        data: Option<Dataset<'a>>,
        bound: GroupedBound,
    ) -> Self {
        let (m, columns) = (model.layer().dim(), model.layer().input_dims() + model.effects.columns());
        let none = MatRef::from_row_major_slice(&[], 0, columns);
        let rows = EffectRows::new(&model.effects, data.map_or(none, |data| data.x));
        let q = [Normal::standard(Family::Full, m)];
        let sites = bound.losses.zip(data).map(|(losses, data)| {
            let sites = Sites::new(losses, &model.likelihood, data.targets);
            SiteRows { sites, data, pass: pass_over(&*all, &model, losses, &q) }
        });
        let unit = ObservationModel::from(Gaussian::new(1.0));
        let summed = LatentModel { likelihood: unit.clone(), ..model.clone() };
        GroupedObjective {
            pass: pass_over(&*all, &summed, bound.objective(), &q),
            all,
            here: data.is_some(),
            bound,
            unit,
            sites,
            rollbacks: 0,
            sums: EffectSums::zeros(&rows, m),
            rows,
            origin: None,
            summed: false,
            moments: None,
            validation: None,
            at: Place::new(model),
        }
    }

    /// Returns the free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.at.start()
    }

    /// Moves to `theta` and solves for w and b; minus the log evidence or its bound (a sum, without priors), or `None` if that failed.
    pub fn solve(&mut self, theta: &[f64]) -> Option<f64> {
        self.at.move_to(theta)?;
        self.value()
    }

    /// Returns the minimised objective and its flat natural gradient (kernel, mean, noise, Z,
    /// factors) at the current parameters.
    pub fn natural_gradient(&mut self) -> Option<(f64, Vec<f64>)> {
        let value = self.value_with_gradient()?;
        Some((value, self.at.flat.clone()))
    }

    /// Returns the model, the whitened q of w and the posterior of the effects at the last point
    /// that could be evaluated.
    pub fn into_parts(self) -> Option<(LatentModel, Normal, EffectPosterior)> {
        let (model, moments) = (self.at.model, self.moments?);
        let q = moments.of_weights();
        let effects = EffectPosterior::new(model.effects.clone(), moments, model.layer());
        Some((model, q, effects))
    }

    /// Returns the noise variance of the sums: that of the likelihood, or 1 for sites, whose
    /// precisions are weights of rows.
    fn noise(&self) -> f64 {
        if self.sites.is_some() { 1.0 } else { self.at.model.noise_variance().unwrap_or(f64::NAN) }
    }

    /// Sums over the rows at the current parameters: with a noise variance of 1, unless the weights of FITC contain it.
    fn sum_rows(&mut self) -> Option<()> {
        if self.summed || self.at.error.is_some() {
            return self.at.error.is_none().then_some(());
        }
        let model = &self.at.model;
        let q = [Normal::standard(Family::Full, model.layer().dim())];
        let likelihood = if self.bound.fitc { &model.likelihood } else { &self.unit };
        let asked = LatentModel { likelihood: likelihood.clone(), ..model.clone() };
        let problem = Problem::new(model.layers(), likelihood, self.bound.objective(), &q);
        let by_level = LevelSums { levels: self.here.then_some(&self.rows), sums: &mut self.sums };
        let observed = self.sites.as_ref().map(|rows| rows.sites.observed(rows.data));
        let rows = observed.as_ref().map_or(&*self.all, |data| data);
        let how = (Form::Stable, Wanted::Origin);
        let found = sum_over_with(
            Sweep::over(rows),
            &mut self.pass,
            &asked,
            problem,
            how,
            Some(by_level),
            &mut |_, _| {},
        );
        found.map_err(|error| self.at.error = Some(error)).ok()?;
        let mut origin = self.origin.take().unwrap_or_else(|| self.pass.sums().clone());
        self.pass.exchange(&mut origin);
        self.origin = Some(origin);
        self.summed = self.at.model.layer().whitening().is_none() && !self.bound.fitc && self.sites.is_none();
        Some(())
    }

    /// Returns true if the layer has parameters: without a whitening there is nothing to train in it.
    fn trains_features(&self) -> bool {
        self.at.model.layer().whitening().is_some()
    }

    /// Solves for w and b at the current parameters; `None` if the result is not finite.
    fn best(&mut self) -> Option<Settled> {
        if self.sites.is_some() {
            return self.settle();
        }
        self.sum_rows()?;
        let found = self.finite_evidence()?;
        let (value, own, factors) = (found.value, vec![found.noise_bar], found.factors.clone());
        let moments = self.trains_features().then(|| found.moments_of_bound());
        Some(Settled { value, factors, own, moments })
    }

    /// Moves the sites to the best q. A step that raises the objective is rolled back and halved.
    /// After an accepted step, the residuals before and after it determine the size of the next
    /// step.
    fn settle(&mut self) -> Option<Settled> {
        let mut at = self.at_known_sites()?;
        let (mut step, mut current) = (1.0, true);
        for _ in 0..MOST_STEPS {
            let square = dot(&at.residuals, &at.residuals);
            if square <= SETTLED * self.all.count() as f64 || step < STEP_RANGE.0 {
                break;
            }
            let SiteRows { sites, .. } = self.sites.as_mut()?;
            let before = sites.values.clone();
            sites.values = sites.stepped(&at.losses, &at.marginals, step);
            let rounding = 64.0 * f64::EPSILON * at.settled.value.abs().max(1.0);
            let next = self.at_sites().filter(|next| next.settled.value <= at.settled.value + rounding);
            current = next.is_some();
            if let Some(next) = next {
                step = secant_step(step, dot(&at.residuals, &next.residuals) / square);
                at = next;
            } else {
                self.restore(before);
                self.rollbacks += 1;
                step *= 0.5;
            }
        }
        if !current {
            // The sums belong to the step that was rolled back.
            self.sum_rows()?;
        }
        Some(at.settled)
    }

    /// Returns the objective at the sites of the last point. If it is not finite, the sites are
    /// replaced by those that explain each row best.
    fn at_known_sites(&mut self) -> Option<AtSites> {
        if let Some(at) = self.at_sites() {
            return Some(at);
        }
        let SiteRows { sites, data, .. } = self.sites.as_ref()?;
        let (before, beta) = (sites.values.clone(), sites.objective.beta);
        let first = SiteValues::explaining(&self.at.model.likelihood, data.targets, beta);
        self.restore(first);
        let at = self.at_sites();
        if at.is_none() {
            self.restore(before);
        }
        at
    }

    fn restore(&mut self, values: SiteValues) {
        if let Some(rows) = &mut self.sites {
            rows.sites.values = values;
        }
    }

    /// Returns the objective at the current sites; `None` if it is not finite.
    fn at_sites(&mut self) -> Option<AtSites> {
        self.sum_rows()?;
        let found = self.finite_evidence()?;
        let (penalty, factors) = (found.penalty, found.factors.clone());
        let moments = found.moments_of_bound();
        let (model, SiteRows { sites, data, pass }) = (&self.at.model, self.sites.as_mut()?);
        let q = [moments.of_weights()];
        let groups = Some(RowMoments { effects: &model.effects, moments: &moments });
        let problem =
            Problem { groups, ..Problem::new(model.layers(), &model.likelihood, sites.objective, &q) };
        let (mut marginals, mut losses) = (RowMarginals::default(), Losses::default());
        let how = (Form::Stable, Wanted::Own);
        let value = sum_over_with(Sweep::over(data), pass, model, problem, how, None, &mut |_, rows| {
            marginals.mean.extend_from_slice(rows.mean);
            marginals.variance.extend_from_slice(rows.variance);
            losses.mean.extend_from_slice(rows.slope);
            losses.variance.extend_from_slice(rows.half_curvature);
        });
        losses.value = value.ok()?;
        losses.own = pass.likelihood_gradient().to_vec();
        let value = losses.value + sites.objective.beta * (penalty - sites.explained(&marginals));
        let residuals = sites.residuals(&losses, &marginals);
        let own = losses.own.clone();
        let finite = value.is_finite() && residuals.iter().all(|residual| residual.is_finite());
        let settled = Settled { value, factors, own, moments: Some(moments) };
        finite.then_some(AtSites { settled, losses, marginals, residuals })
    }

    /// Returns the evidence computed from the sums; `None` if it cannot be computed, or before the first sums.
    fn evidence(&self) -> Option<std::result::Result<GroupedEvidence<'_>, NotPositiveDefinite>> {
        let origin = self.origin.as_ref()?;
        let given = GroupedSums {
            rows: &self.rows,
            sums: &self.sums,
            origin,
            noise: (!self.bound.fitc).then(|| self.noise()),
            count: if self.sites.is_some() { 0.0 } else { origin.weight },
            prior: self.bound.weights,
        };
        Some(grouped_evidence(&self.at.model.effects, given))
    }

    /// Returns the evidence computed from the sums, if it is finite.
    fn finite_evidence(&self) -> Option<GroupedEvidence<'_>> {
        self.evidence()?.ok().filter(|found| found.value.is_finite())
    }

    /// Returns the gradient of the layer at the best q.
    fn through_features(&mut self, moments: &Moments) -> Option<LayerGradient> {
        let (model, origin, noise) = (&self.at.model, self.origin.as_ref()?, self.noise());
        let q = [moments.of_weights()];
        let likelihood = if self.sites.is_some() { &self.unit } else { &model.likelihood };
        let groups = Some(RowMoments { effects: &model.effects, moments });
        let problem =
            Problem { groups, ..Problem::new(model.layers(), likelihood, self.bound.objective(), &q) };
        let form = Form::at_best_q(model.layer(), noise);
        let observed = self.sites.as_ref().map(|rows| rows.sites.observed(rows.data));
        let rows = observed.as_ref().map_or(&*self.all, |data| data);
        let found = sum_over(Sweep::over(rows), &mut self.pass, model, problem, (form, Wanted::Envelope));
        found.map_err(|error| self.at.error = Some(error)).ok()?;
        self.pass.finish_envelope(problem, origin, 1.0 / noise);
        Some(self.pass.layer_gradients()[0].clone())
    }
}

/// Returns the size of the next step on sites (Barzilai & Borwein 1988). `left` is the share of the
/// residuals that the last step left; it is negative if the step was too long.
fn secant_step(step: f64, left: f64) -> f64 {
    let next = step / (1.0 - left);
    if next > 0.0 { next.clamp(0.1, STEP_RANGE.1) } else { STEP_RANGE.1 }
}

/// Trains hyper-parameters on the evidence of grouped effects, in which w and b are solved for in
/// closed form.
pub(super) fn train(
    model: LatentModel,
    bound: GroupedBound,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let mut objective = GroupedObjective::of_rows(model, job.rows, bound)?;
    objective.validation = job.validation();
    let outcome = minimize_solved(&mut objective, job, monitor)?;
    let (value, rolled_back) = (outcome.value, objective.rollbacks);
    let weak = objective.moments.as_ref().map_or(0.0, |moments| match bound.weights {
        WeightPrior::Weak { .. } => bound.weights.penalty(&moments.weights),
        _ => 0.0,
    });
    let (model, q, effects) = objective.into_parts().ok_or_else(failed_start)?;
    // Intervals take as long as many fits, so rows that are not in memory have none.
    let likely = job.plan.trains && job.plan.options.beta == 1.0;
    let here = job.rows.in_memory().filter(|_| likely);
    let mut again = here.map(|data| GroupedObjective::new(model.clone(), data, bound));
    let summary =
        summarised(job.rows.check_sample(), again.as_mut().map(|again| again as &mut dyn Solved), monitor)?;
    // The likelihood at the estimates does not contain their weak prior.
    let elbo = (job.plan.options.beta == 1.0).then_some(weak - value);
    let mut trained = Trained::at(model, vec![q], value, outcome);
    trained.outcome.rollbacks += rolled_back;
    Ok(Trained { elbo, effects: Some((vec![effects], summary)), ..trained })
}

/// Returns the mean of the targets, and the intervals of the variance components. There are
/// intervals only if the fit maximised a likelihood, which is then passed as `objective`.
pub(super) fn summarised(
    data: Dataset<'_>,
    objective: Option<&mut dyn Solved>,
    monitor: &mut Monitor<'_>,
) -> Result<EffectSummary> {
    let target_mean = mean_of(data);
    let intervals = match objective.filter(|_| monitor.session.has_intervals) {
        Some(objective) => effect_intervals(objective, target_mean, monitor)?,
        None => None,
    };
    Ok(EffectSummary { target_mean, intervals })
}

/// Returns the weighted mean of the targets.
pub(super) fn mean_of(data: Dataset<'_>) -> f64 {
    let targets = data.targets;
    let sum: f64 = targets.y.iter().enumerate().map(|(i, y)| targets.weight(i) * y).sum();
    sum / targets.total_weight()
}

impl Solved for GroupedObjective<'_> {
    fn place(&self) -> &Place {
        &self.at
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.at
    }

    fn posterior(&self) -> Option<Posterior> {
        let (model, moments) = (&self.at.model, self.moments.clone()?);
        let q = moments.of_weights();
        let effects = EffectPosterior::new(model.effects.clone(), moments, model.layer());
        Some(Posterior::new(model, q).with_effects(vec![effects]))
    }

    fn validation(&self) -> Option<(Dataset<'_>, Score)> {
        self.validation
    }

    fn sites(&self) -> Option<SiteValues> {
        self.sites.as_ref().map(|rows| rows.sites.values.clone())
    }

    fn set_sites(&mut self, values: Option<SiteValues>) -> bool {
        match (&mut self.sites, values) {
            (None, None) => true,
            (Some(SiteRows { sites, .. }), Some(values)) if values.is_like(&sites.values) => {
                sites.values = values;
                true
            }
            _ => false,
        }
    }

    /// Solves for w and b; returns minus the log evidence or its bound.
    fn value(&mut self) -> Option<f64> {
        let settled = match &self.sites {
            Some(_) => Some(self.settle()?.value),
            None => {
                self.sum_rows()?;
                None
            }
        };
        let found = self.finite_evidence()?;
        let value = settled.unwrap_or(found.value);
        self.moments = Some(found.moments());
        Some(value)
    }

    fn value_with_gradient(&mut self) -> Option<f64> {
        let Settled { value, factors, mut own, moments } = self.best()?;
        let gradient = match moments.filter(|_| self.trains_features()) {
            Some(moments) => self.through_features(&moments)?,
            None => self.at.model.layer().zero_gradient(),
        };
        let beta = self.sites.as_ref().map_or(1.0, |rows| rows.sites.objective.beta);
        match &self.sites {
            None if self.bound.fitc => own[0] += self.pass.likelihood_gradient()[0],
            None => {}
            Some(_) => own.iter_mut().for_each(|own| *own /= beta),
        }
        let Place { model, flat, .. } = &mut self.at;
        model.flatten_gradient(std::slice::from_ref(&gradient), &own, flat);
        flat.extend_from_slice(&factors);
        flat.iter_mut().for_each(|slope| *slope *= beta);
        Some(value)
    }

    /// Under a flat prior the matrix of linearly dependent inputs has no Cholesky factor, because their coefficients are not unique.
    fn failure(&self) -> Error {
        if self.bound.weights == WeightPrior::Unit || matches!(self.evidence(), None | Some(Ok(_))) {
            return failed_start();
        }
        Error::fit(
            "the coefficients of the inputs cannot be told apart: an input is constant, or a sum of others",
        )
        .hint("leave such an input out with ⟨exclude⟩; the intercept is an input that is always 1")
    }
}
