//! The fit loop: start values from the data, training by the chosen objective, diagnosis; no files, no tables.

use super::collapsed::{CollapsedBound, CollapsedObjective};
use super::options::{FitOptions, Hyper, MeanKind, Objective, QUpdate};
use super::posterior::Posterior;
use super::sparse::SparseModel;
use super::svgp::Svgp;
use super::training::SvgpTraining;
use crate::collapsed::Dataset;
use crate::data::random::{Purpose, generator};
use crate::error::{Error, Result};
use crate::hyper::{
    AdamOptions, FreeVector, LbfgsOptions, Limits, Monitor, Outcome, Record, StopReason, minimize_adam,
    minimize_lbfgs,
};
use crate::latent::{InducingLayer, Jitter, LatentLayer, choose_inducing};
use crate::likelihood::Gaussian;
use crate::objective::BetaElbo;
use crate::variational::{AdamRule, FullGaussian, NaturalGradient, UpdateRule};
use faer::{Mat, MatRef};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use sparsegp_kernels::parse;

/// Inputs (`D × n`, one column per datum) and targets on the scale the model sees.
#[derive(Clone, Copy)]
pub struct TrainingData<'a> {
    /// The training part.
    pub train: Dataset<'a>,
    /// The validation part, if any.
    pub validation: Option<Dataset<'a>>,
}

/// What a fit did, in numbers and words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitSummary {
    /// The minimised objective per datum (without priors), on the scale the model sees.
    pub objective: f64,
    /// Its sum over the data.
    pub objective_sum: f64,
    /// The evidence lower bound (a sum), where the objective has one: β = 1 ELBO of the returned q.
    pub elbo_sum: Option<f64>,
    /// An upper bound on the log evidence at the final parameters, where it applies (full batch).
    pub evidence_upper_bound: Option<f64>,
    /// Passes over the data, or iterations of L-BFGS.
    pub epochs: usize,
    /// Steps of the solver.
    pub iterations: usize,
    /// Evaluations of value and gradient.
    pub evaluations: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Seconds per evaluation.
    pub seconds_per_step: f64,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Steps that were taken back.
    pub rollbacks: usize,
    /// The absolute jitter in use at the end.
    pub jitter: f64,
    /// What a user should know.
    pub warnings: Vec<String>,
    /// One record per epoch.
    pub trace: Vec<Record>,
}

/// A fitted sparse GP on arrays: model, whitened posterior, predictor and summary.
pub struct Fitted {
    /// Kernel, mean, likelihood, inducing inputs.
    pub model: SparseModel,
    /// The whitened posterior.
    pub q: FullGaussian,
    /// The predictor.
    pub posterior: Posterior,
    /// What the fit did.
    pub summary: FitSummary,
}

/// Fits a sparse GP regression. `listener` hears one record per epoch.
///
/// Errors: `Usage` for options that make no sense (before any work), `Data` for shapes that do not match, `Fit` when
/// not even the starting point can be evaluated.
pub fn fit_arrays(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Option<&SparseModel>,
    listener: &mut dyn FnMut(&Record),
) -> Result<Fitted> {
    options.validate()?;
    let (n, d) = (data.train.y.len(), data.train.x.nrows());
    if data.train.x.ncols() != n || n == 0 || d == 0 {
        return Err(Error::data(format!(
            "the training inputs are {} rows × {d} columns for {n} targets, expected at least one of each and as many rows",
            data.train.x.ncols()
        )));
    }
    let other =
        data.validation.map(|part| part.x.nrows()).into_iter().chain(start.map(|m| m.layer.z().ncols()));
    if let Some(other) = other.into_iter().find(|&other| other != d) {
        return Err(Error::data(format!(
            "the training inputs have {d} columns, the validation inputs or the start model {other}, expected as many"
        )));
    }
    let mut model = match start {
        Some(model) => model.clone(),
        None => initial_model(data.train, options)?,
    };
    apply_fixes(&mut model, &options.fix)?;
    model.refresh().map_err(|failure| {
        let why = if failure.not_finite {
            "the kernel matrix holds values that are not finite"
        } else {
            "K_uu is singular"
        };
        Error::fit(format!(
            "the starting point cannot be evaluated: {why} (jitter up to {:e} tried)",
            failure.jitter
        ))
        .hint("check the scale of the inputs, or leave --no-standardize out")
    })?;
    let limits = Limits {
        epochs: options.epoch_limit(),
        seconds: options.max_seconds,
        tolerance: options.stopping_tolerance(),
        window: 10,
        plateaus: if options.is_collapsed() { 0 } else { 2 },
        patience: options.patience,
    };
    let mut monitor = Monitor::new(limits, listener);
    let trained = if options.is_collapsed() {
        train_collapsed(model, data.train, options, &mut monitor)?
    } else {
        train_svgp(model, start.is_none(), data, options, &mut monitor)?
    };
    Ok(finish(trained, data.train, options, &monitor))
}

/// The result of a training loop, before diagnosis.
struct Trained {
    model: SparseModel,
    q: FullGaussian,
    value: f64,
    elbo: Option<f64>,
    upper: Option<f64>,
    outcome: Outcome,
}

/// Kernel, noise and inducing inputs from the data (a robust start: see `Kernel::initialise`).
fn initial_model(train: Dataset<'_>, options: &FitOptions) -> Result<SparseModel> {
    let d = train.x.nrows();
    let mut kernel = parse::parse(&options.kernel, d)
        .map_err(|e| Error::usage(format!("--kernel '{}': {e}", options.kernel)))?;
    let (spread, mean, variance) = spreads(train);
    let target_variance = if variance > 0.0 { variance } else { 1.0 };
    kernel.initialise(&spread, target_variance);
    let m = options.inducing_for(train.y.len());
    let z = choose_inducing(train.x, m, options.inducing_init, kernel.as_ref(), options.seed)?;
    let constant = if options.mean == MeanKind::Constant { mean } else { 0.0 };
    let layer =
        InducingLayer::new(kernel, z, options.jitter)?.with_mean(constant, options.mean == MeanKind::Zero);
    let likelihood = Box::new(Gaussian::new(0.1 * target_variance));
    Ok(SparseModel { layer, likelihood, fix_inducing: options.fix_inducing })
}

/// Standard deviation of every input, mean and variance of the target.
fn spreads(train: Dataset<'_>) -> (Vec<f64>, f64, f64) {
    let n = train.y.len() as f64;
    let moments = |values: &mut dyn Iterator<Item = f64>| {
        let (mut mean, mut m2, mut count) = (0.0, 0.0, 0.0);
        for v in values {
            count += 1.0;
            let delta = v - mean;
            mean += delta / count;
            m2 += delta * (v - mean);
        }
        (mean, m2 / n)
    };
    let spread = (0..train.x.nrows()).map(|i| moments(&mut train.x.row(i).iter().copied()).1.sqrt());
    let (mean, variance) = moments(&mut train.y.iter().copied());
    (spread.collect(), mean, variance)
}

/// Fixes parameters by their full names.
fn apply_fixes(model: &mut SparseModel, fixes: &[(String, f64)]) -> Result<()> {
    for (name, value) in fixes {
        let descriptors = model.descriptors();
        let named = descriptors.iter().take_while(|d| !d.name.starts_with("inducing."));
        let index = named.clone().position(|d| &d.name == name).ok_or_else(|| {
            let known: Vec<&str> = named.map(|d| d.name.as_str()).collect();
            Error::usage(format!("--fix: there is no parameter '{name}', only {}", known.join(", ")))
        })?;
        let mut at = 0;
        let mut admitted = true;
        model.for_each_parameter_mut(&mut |p| {
            if (at..at + p.values.len()).contains(&index) {
                admitted = p.transform.admits(*value);
                p.values[index - at] = *value;
                // A parameter's values share their status: fixing one of several lengthscales fixes them all.
                p.fixed = true;
            }
            at += p.values.len();
        });
        if !admitted {
            return Err(Error::usage(format!(
                "--fix {name}={value}: the value is outside the parameter's range"
            )));
        }
    }
    Ok(())
}

fn failed_start() -> Error {
    Error::fit("the objective is not finite at the starting point")
        .hint("check the data's scale, or fix the noise variance with --fix likelihood.noise_variance=VALUE")
}

fn train_collapsed(
    model: SparseModel,
    train: Dataset<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let bound = match options.objective {
        Objective::Fitc => CollapsedBound::Fitc,
        _ => CollapsedBound::Elbo { beta: options.beta },
    };
    let n = train.y.len() as f64;
    let mut objective = CollapsedObjective::new(model, train, bound);
    let start = objective.start();
    let outcome = if options.hyper_mode() == Hyper::Fixed || start.is_empty() {
        let value = objective.solve(&start).ok_or_else(failed_start)?;
        monitor.record(value / n, None);
        monitor.stop(StopReason::Converged);
        Outcome {
            theta: start,
            value,
            iterations: 0,
            evaluations: 1,
            rollbacks: 0,
            reason: StopReason::Converged,
        }
    } else {
        minimize_lbfgs(&mut objective, start, n, LbfgsOptions::default(), monitor)
    };
    let value = objective.solve(&outcome.theta).ok_or_else(failed_start)?;
    let upper = (options.objective == Objective::Vfe).then(|| objective.evidence_upper_bound()).flatten();
    let elbo = (options.objective == Objective::Vfe && options.beta == 1.0).then_some(-value);
    let (model, q) = objective.into_parts();
    Ok(Trained { model, q, value, elbo, upper, outcome })
}

fn train_svgp(
    model: SparseModel,
    fresh: bool,
    data: TrainingData<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let train = data.train;
    let n = train.y.len();
    let batch = options.batch_size.min(n);
    let m = model.layer.dim();
    let (model, q, warm_rollbacks) = warm_start(model, fresh, train, options, monitor)?;
    let rule: Box<dyn UpdateRule> = match options.q_update {
        QUpdate::Ngd => Box::new(NaturalGradient::new(&q)),
        QUpdate::Adam => Box::new(AdamRule::new(&q)),
    };
    let objective = BetaElbo { beta: options.beta };
    // The direct form's M³ products outweigh what it saves on small batches (MATH, section 3).
    let guard = (batch >= 2 * m).then_some(Svgp::DIRECT_GUARD);
    let svgp = Svgp::new(model, q, objective, batch).with_direct_guard(guard);
    let free = match options.hyper_mode() {
        Hyper::Fixed => FreeVector::new(&[]),
        _ => FreeVector::new(&svgp.model.descriptors()),
    };
    let mut training = SvgpTraining::new(svgp, rule, free, data, options);
    let start = training.start();
    let adam = AdamOptions { rate: options.learning_rate, decay_share: 0.5 };
    let mut outcome = minimize_adam(&mut training, start, n as f64, adam, monitor);
    outcome.rollbacks += training.q_rollbacks() + warm_rollbacks;
    if outcome.value.is_nan() && monitor.records().is_empty() && outcome.reason == StopReason::NoProgress {
        return Err(failed_start());
    }
    let (model, _q) = training.into_best();
    // With Gaussian noise the optimal q at the final parameters is one natural-gradient step with ρ = 1 on the full
    // batch away: it removes what is left of the mini-batches' noise.
    let mut polish = CollapsedObjective::new(model, train, CollapsedBound::Elbo { beta: options.beta });
    let theta = polish.start();
    let value = polish.solve(&theta).ok_or_else(failed_start)?;
    let elbo = (options.beta == 1.0).then_some(-value);
    let (model, q) = polish.into_parts();
    Ok(Trained { model, q, value, elbo, upper: None, outcome })
}

/// The most rows of a warm start: enough to place lengthscales and inducing inputs, few enough to be quick.
const WARM_ROWS: usize = 10_240;

/// Where mini-batch training starts: the collapsed bound of a random subset, improved by L-BFGS when the model is
/// `fresh`, and in any case the q that attains it. L-BFGS on a subset finds lengthscales in seconds that Adam needs many
/// epochs for, and without a fitting q the first noisy gradients would undo good hyper-parameters.
fn warm_start(
    model: SparseModel,
    fresh: bool,
    train: Dataset<'_>,
    options: &FitOptions,
    monitor: &Monitor<'_>,
) -> Result<(SparseModel, FullGaussian, usize)> {
    let n = train.y.len();
    let mut rows: Vec<usize> = (0..n).collect();
    if n > WARM_ROWS {
        rows.shuffle(&mut generator(options.seed, Purpose::WarmStart, 0));
        rows.truncate(WARM_ROWS);
        rows.sort_unstable();
    }
    let x = Mat::from_fn(train.x.nrows(), rows.len(), |i, j| train.x[(i, rows[j])]);
    let y: Vec<f64> = rows.iter().map(|&row| train.y[row]).collect();
    let subset = Dataset { x: x.as_ref(), y: &y };
    let mut objective = CollapsedObjective::new(model, subset, CollapsedBound::Elbo { beta: options.beta });
    let mut theta = objective.start();
    let mut rollbacks = 0;
    if fresh && options.warm_start > 0 && options.hyper_mode() != Hyper::Fixed && !theta.is_empty() {
        let limits = Limits {
            epochs: options.warm_start,
            seconds: monitor.limits().seconds.map(|s| 0.5 * s),
            plateaus: 0,
            ..*monitor.limits()
        };
        let mut silent = |_: &Record| {};
        let mut warm = Monitor::new(limits, &mut silent);
        let count = rows.len() as f64;
        let outcome = minimize_lbfgs(&mut objective, theta, count, LbfgsOptions::default(), &mut warm);
        (theta, rollbacks) = (outcome.theta, outcome.rollbacks);
    }
    objective.solve(&theta).ok_or_else(failed_start)?;
    let (model, q) = objective.into_parts();
    Ok((model, q, rollbacks))
}

fn finish(trained: Trained, train: Dataset<'_>, options: &FitOptions, monitor: &Monitor<'_>) -> Fitted {
    let Trained { model, q, value, elbo, upper, outcome } = trained;
    let seconds = monitor.elapsed().as_secs_f64();
    let warnings = diagnose(&model, train, options, &outcome);
    let jitter = match model.layer.used_jitter() {
        Jitter::Absolute(j) => j,
        Jitter::Relative(ratio) => ratio * mean_prior_variance(&model),
    };
    let summary = FitSummary {
        objective: value / train.y.len() as f64,
        objective_sum: value,
        elbo_sum: elbo,
        evidence_upper_bound: upper,
        epochs: monitor.records().len(),
        iterations: outcome.iterations,
        evaluations: outcome.evaluations,
        seconds,
        seconds_per_step: seconds / outcome.evaluations.max(1) as f64,
        stop_reason: outcome.reason,
        rollbacks: outcome.rollbacks,
        jitter,
        warnings,
        trace: monitor.records().to_vec(),
    };
    let posterior = Posterior::new(&model, &q);
    Fitted { model, q, posterior, summary }
}

fn mean_prior_variance(model: &SparseModel) -> f64 {
    let z: MatRef<'_, f64> = model.layer.z();
    let mut diag = vec![0.0; z.nrows()];
    model.layer.kernel().diag(z, &mut diag, &mut sparsegp_kernels::Scratch::new());
    diag.iter().sum::<f64>() / diag.len() as f64
}

/// Warnings with their evidence and the option to try.
fn diagnose(model: &SparseModel, train: Dataset<'_>, options: &FitOptions, outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    let (_, _, variance) = spreads(train);
    let mut noise = f64::NAN;
    model.likelihood.for_each_parameter(&mut |p| noise = p.values[0]);
    if noise > 0.98 * variance {
        warnings.push(format!(
            "the noise variance explains {:.1} % of the target's variance: the inputs were not found to predict it; try another --kernel or --seed",
            100.0 * noise / variance
        ));
    }
    if noise < 2.0 * Gaussian::NOISE_FLOOR {
        warnings.push(format!(
            "the noise variance {noise:.1e} is at its floor: the target is a nearly exact function of the inputs, or of a column that gives it away; check with --exclude"
        ));
    }
    if model.layer.used_jitter() != model.layer.jitter() {
        warnings.push(format!(
            "the jitter had to be raised from {:?} to {:?}: inducing inputs are nearly duplicates or lengthscales very long; try fewer --inducing",
            model.layer.jitter(),
            model.layer.used_jitter()
        ));
    }
    if outcome.rollbacks > 0 {
        warnings.push(format!("{} steps could not be evaluated and were taken back", outcome.rollbacks));
    }
    if outcome.reason == StopReason::MaxEpochs && options.epochs.is_none() {
        warnings.push("the epoch limit came before convergence; try more --epochs".into());
    }
    warnings
}
