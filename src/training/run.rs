//! Training from a start by the method of the plan, and the summary of its outcome, for rows in
//! memory or on disk.

use super::diagnose::{FitFacts, absolute_jitter, diagnose};
use super::failure::{explained, singular_start};
use super::rows::TrainingRows;
use super::start::Start;
use super::warm_start::evidence_start;
use super::{collapsed, grouped, neighbours, steps};
use crate::collapsed::Dataset;
use crate::data::Scaling;
use crate::effects::{EffectPosterior, EffectSummary};
use crate::error::Result;
use crate::hyper::{Columns, Constraints, Monitor, Outcome, Record, Session, StopReason};
use crate::model::{
    FitSummary, HyperPoint, LatentModel, LatentPrior, Model, Nearby, Posterior, Score, Search,
};
use crate::objective::EstimatorCounts;
use crate::options::{FitOptions, HyperPosteriorKind, LossKind, Plan, StepOptions, Way};
use crate::variational::{Family, Normal};
use faer::MatRef;
use std::sync::Arc;

/// The outcome of a fit, on the scale the model sees: model, whitened posterior, predictor and summary.
#[doc(hidden)]
pub struct Fitted {
    /// Kernel, mean, likelihood, inducing inputs.
    pub model: LatentPrior,
    /// The whitened posterior of every process.
    pub q: Vec<Normal>,
    /// The predictor.
    pub posterior: Posterior,
    /// The summary of the fit.
    pub summary: FitSummary,
    /// The search for the start.
    pub search: Search,
    /// The scaled targets of the training rows, or of a sample, with their weights (empty if all are 1).
    pub(super) targets: (Vec<f64>, Vec<f64>),
    /// Other hyper-parameters, over which predictions are averaged.
    pub(super) hyper_points: Arc<Vec<HyperPoint>>,
}

pub(super) fn fit_from(start: Start, job: &Job<'_>, session: &mut Session<'_>) -> Result<Fitted> {
    let sample = job.rows.start_sample();
    let model = ready(start.model, job.plan, sample)?;
    let at_start = model.to_prior();
    let mut monitor = session.monitor(job.plan.limits);
    let trained =
        train(model, start.q, job, &mut monitor).map_err(|error| explained(error, &at_start, sample))?;
    Ok(finish(trained, job, monitor.records(), monitor.elapsed().as_secs_f64()))
}

/// Applies constraints to a model, and factorises it.
pub(super) fn ready(mut model: LatentPrior, plan: &Plan, train: Dataset<'_>) -> Result<LatentModel> {
    model.constrain(&plan.options.constraints, plan.options.has_default_priors())?;
    model.factorised().map_err(|failure| singular_start(&failure, &model, train))
}

/// Trains from a start that can be evaluated, with its q if it has one.
fn train(
    mut model: LatentModel,
    q: Option<Vec<Normal>>,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let Job { rows, plan, fresh } = *job;
    if plan.sums_effects() {
        model = model.with_summed_effects();
    }
    if plan.loss == LossKind::Square && !matches!(plan.way, Way::Neighbours(_)) {
        if fresh && plan.trains {
            // Amplitude and β trade off against each other: the evidence sets the amplitude, against noise of 1/β.
            model = evidence_start(model, rows.start_sample(), plan, monitor)?;
        }
        model.hold_amplitude();
        // The square loss does not use the parameters of the likelihood.
        model.likelihood.for_each_parameter_mut(&mut |p| p.fixed = true);
    }
    // A posterior of the functions alone is no start for that of the functions and effects.
    let q = q.filter(|_| !plan.sums_effects());
    let trained = match &plan.way {
        Way::Collapsed(bound) => collapsed::train(model, *bound, job, monitor)?,
        Way::Grouped(bound) => grouped::train(model, *bound, job, monitor)?,
        Way::Neighbours(neighbours) => neighbours::train(model, neighbours, job, monitor)?,
        Way::Batches | Way::Alternating | Way::Together => steps::train(model, q, job, monitor)?,
    };
    monitor.session.check()?;
    Ok(trained)
}

/// Splits the posteriors of a model with grouped effects in its layers into those of its functions and those of the effects.
fn separated(trained: Trained, sample: Dataset<'_>) -> Trained {
    let (model, q, effects) = trained.model.split(&trained.q);
    let summary = EffectSummary { target_mean: grouped::mean_of(sample), intervals: None };
    Trained { q, effects: Some((effects, summary)), model, ..trained }
}

/// Creates the summary of training.
pub(super) fn finish(trained: Trained, job: &Job<'_>, trace: &[Record], seconds: f64) -> Fitted {
    let n = job.rows.all().count();
    let trained = if job.plan.sums_effects() { separated(trained, job.rows.check_sample()) } else { trained };
    let Trained { value, elbo, upper, sampling, estimated_on, noise_mode, .. } = trained;
    let Trained { model, q, outcome, taken_back, nearby, effects, .. } = trained;
    let mut posterior = Posterior::new(&model, &q);
    let (effects, known) = effects.unzip();
    posterior = posterior.with_effects(effects.unwrap_or_default()).with_neighbours(&model, nearby, &q);
    let weight = job.rows.in_memory().map_or(n as f64, |rows| rows.targets.total_weight());
    posterior = posterior.with_trained_mean(weight);
    let finished = FitFacts {
        model: &model,
        posterior: &posterior,
        train: job.rows.check_sample(),
        validation: job.rows.validation(),
        plan: job.plan,
        outcome: &outcome,
        taken_back,
        trace,
        evidence: elbo.zip(upper),
        noise_mode,
    };
    let warnings = diagnose(&finished);
    let summary = FitSummary {
        estimated_on,
        elbo_sum: elbo,
        evidence_upper_bound: upper,
        epochs: trace.len(),
        iterations: outcome.iterations,
        evaluations: outcome.evaluations,
        seconds,
        seconds_per_step: seconds / outcome.evaluations.max(1) as f64,
        stop_reason: outcome.reason,
        rollbacks: outcome.rollbacks,
        sampling,
        warnings,
        trace: trace.to_vec(),
        effects: known,
        ..summary_of(&model, value, n)
    };
    let known = job.rows.check_sample().targets;
    let targets = (known.y.to_vec(), known.weights.to_vec());
    let (model, search) = (model.to_prior(), Search::default());
    Fitted { model, q, posterior, summary, search, targets, hyper_points: Arc::default() }
}

/// Rollbacks of the training itself: undone or shrunk steps. Warm starts and final steps on q, which search for step sizes, do not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TakenBack {
    /// The rollbacks of hyper-parameters.
    pub hyper: usize,
    /// The rollbacks of q.
    pub q: usize,
}

/// The result of training, before diagnosis.
pub(super) struct Trained {
    pub model: LatentModel,
    pub q: Vec<Normal>,
    pub value: f64,
    pub elbo: Option<f64>,
    pub upper: Option<f64>,
    pub sampling: Option<EstimatorCounts>,
    pub outcome: Outcome,
    pub taken_back: TakenBack,
    /// The number of rows of the sample that estimated the value, unless it was summed over all rows.
    pub estimated_on: Option<usize>,
    /// The mode of a noise variance that was replaced by its expectation.
    pub noise_mode: Option<f64>,
    /// The rows that predictions look up, if there are neighbours.
    pub nearby: Option<Arc<Nearby>>,
    /// The grouped effects of every process, if the model has any, and the summary of their variances.
    pub effects: Option<(Vec<EffectPosterior>, EffectSummary)>,
}

impl Trained {
    /// Creates the result from the objective at the end, a sum over all rows; the optional fields
    /// are empty.
    pub(super) fn at(model: LatentModel, q: Vec<Normal>, value: f64, outcome: Outcome) -> Trained {
        let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
        Trained {
            model,
            q,
            value,
            elbo: None,
            upper: None,
            sampling: None,
            outcome,
            taken_back,
            estimated_on: None,
            noise_mode: None,
            nearby: None,
            effects: None,
        }
    }
}

/// The rows and the plan of a fit, which every training method receives.
pub(super) struct Job<'a> {
    pub rows: &'a dyn TrainingRows,
    pub plan: &'a Plan,
    /// True if the start has used only the scale of the data.
    pub fresh: bool,
}

impl<'a> Job<'a> {
    /// Returns the held-out rows that score every iteration.
    pub fn validation(&self) -> Option<(Dataset<'a>, Score)> {
        Some((self.rows.validation()?, Score::of(self.plan.loss)))
    }
}

/// Returns the summary of a fit to `rows` rows that has not been trained; `objective` is a sum over the rows.
fn summary_of(model: &LatentModel, objective: f64, rows: usize) -> FitSummary {
    FitSummary {
        objective: objective / rows as f64,
        objective_sum: objective,
        estimated_on: None,
        elbo_sum: None,
        evidence_upper_bound: None,
        log_unit: None,
        epochs: 0,
        iterations: 0,
        evaluations: 0,
        seconds: 0.0,
        seconds_per_step: 0.0,
        stop_reason: StopReason::Stopped,
        rollbacks: 0,
        sampling: None,
        jitter: absolute_jitter(model),
        warnings: Vec::new(),
        trace: Vec::new(),
        updates: Vec::new(),
        effects: None,
        hyper: None,
    }
}

impl Fitted {
    /// Returns the fitted model of a user's training loop; `objective` is the sum over `rows` rows.
    #[doc(hidden)]
    pub fn by_hand(model: &LatentModel, q: &[Normal], objective: f64, rows: usize) -> Fitted {
        let summary = summary_of(model, objective, rows);
        let posterior = Posterior::new(model, q);
        let (model, q, search) = (model.to_prior(), q.to_vec(), Search::default());
        let targets = (Vec::new(), Vec::new());
        Fitted { model, q, posterior, summary, search, targets, hyper_points: Arc::default() }
    }

    /// Returns the kind of posterior of the hyper-parameters that predictions use.
    pub(super) fn hyper_posterior(&self) -> HyperPosteriorKind {
        if self.hyper_points.is_empty() { HyperPosteriorKind::None } else { HyperPosteriorKind::Laplace }
    }

    /// Returns the final model of this fit with `options` to `rows` rows on this scale.
    pub fn into_model(mut self, scaling: Scaling, options: &FitOptions, rows: usize) -> Model {
        self.summary.log_unit = self.log_unit(&scaling, rows);
        Model {
            options: as_used(options, &self, rows),
            scaling,
            latent: self.model,
            q: self.q,
            posterior: self.posterior,
            summary: self.summary,
            rows,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            beta_curve: None,
            search: self.search,
            hyper_points: self.hyper_points,
            conformal: None,
        }
    }

    /// Returns the sum over `rows` rows (the targets may be a sample of them) that turns log densities of scaled targets into those of the target.
    fn log_unit(&self, scaling: &Scaling, rows: usize) -> Option<f64> {
        let (targets, weights) = &self.targets;
        let of_row = |(i, &y): (usize, &f64)| {
            weights.get(i).copied().unwrap_or(1.0) * scaling.log_density_shift(scaling.unscaled_target(y))
        };
        let sum: f64 = targets.iter().enumerate().map(of_row).sum();
        (!targets.is_empty()).then(|| sum * rows as f64 / targets.len() as f64)
    }
}

/// Returns the options as the fit used them, with defaults filled in.
fn as_used(options: &FitOptions, fitted: &Fitted, rows: usize) -> FitOptions {
    let model = &fitted.model;
    let options = &match fitted.posterior.neighbours() {
        Some(nearby) => options.with_neighbours(nearby.count()),
        None => options.without_neighbours(),
    };
    let step = if options.is_collapsed() { options.steps.q_step } else { Some(options.step_schedule()) };
    FitOptions {
        hyper_posterior: fitted.hyper_posterior(),
        kernel: model.layer().inducing().map_or_else(String::new, |layer| layer.kernel().expression()),
        inducing: model.layer().inducing().map(|layer| layer.z().nrows()),
        fix_inducing: model.fix_inducing,
        steps: StepOptions { q_step: step, ..options.steps.clone() },
        hyper: Some(options.hyper_mode()),
        epochs: Some(options.epoch_limit_for(rows)),
        tolerance: Some(options.stopping_tolerance()),
        jitter: model.layer().jitter().unwrap_or(options.jitter),
        // Only a fit needs the columns of constraints and their units, so the model does not store
        // them.
        constraints: Constraints { columns: Columns::default(), ..options.constraints.clone() },
        ..options.clone()
    }
}

impl Start {
    /// Creates a start from a fitted model, for the scaled inputs `x` (`n × D`), or `None` if the
    /// inputs are not in memory. The start has the posterior of the model if `keep_posterior` is
    /// true; otherwise the fit solves for one.
    pub fn from_model(
        model: &Model,
        options: &FitOptions,
        x: Option<MatRef<'_, f64>>,
        keep_posterior: bool,
    ) -> Start {
        let family = options.steps.family;
        let mut latent = LatentPrior { fix_inducing: options.fix_inducing, ..model.latent.clone() };
        let mut q = keep_posterior.then(|| model.q.clone());
        for (index, layer) in model.latent.layers.iter().enumerate() {
            let Some(layer) = layer.linear() else { continue };
            // The layer is reduced to the subspace that the rows span.
            let other = match x {
                Some(x) => layer.suited_to(x, family),
                None => layer.clone().whole(),
            };
            let members = model.latent.layers().members(index);
            q = q.and_then(|mut q| {
                for q in &mut q[members] {
                    *q = layer.carry(q, &other)?;
                }
                Some(q)
            });
            latent.layers[index] = other.into();
        }
        if !options.effects.is_empty() {
            // New levels may have joined, so q is solved for again.
            latent.effects = latent.effects.with_terms(options.effects.clone());
            q = None;
        }
        let suited = |q: Normal| match (q.family(), family) {
            (Family::Full, Family::Diagonal) => Some(q.mean_field()),
            (Family::Diagonal, Family::Full) => Normal::new(q.mean().to_vec(), q.cov().to_dense()).ok(),
            _ => Some(q),
        };
        let q = q.and_then(|q| q.into_iter().map(suited).collect());
        Start { model: latent, q }
    }
}
