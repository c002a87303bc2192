//! Fits of several outputs that mix latent processes or share a kernel, and each output as a
//! separate model.

use super::arrays::{Origin, fit_rows};
use super::failure::failed_start;
use super::rows::{RowBuffer, TrainingData};
use super::run::{Fitted, Job, fit_from, ready};
use super::shared::SharedObjective;
use super::solver::minimize;
use super::start::{Function, Prototype, Start, initial_model};
use crate::collapsed::Dataset;
use crate::error::{Error, Result};
use crate::hyper::{Constraints, Session};
use crate::latent::{InducingPrior, Layer};
use crate::likelihood::{Gaussian, Mixed, ObservationModel, OneFunction, Outputs};
use crate::model::{LatentModel, LatentPrior, Model};
use crate::objective::Targets;
use crate::options::{FitOptions, Hyper, MeanKind, ModelKind, ObjectiveKind, Open, Plan};
use faer::{Mat, MatRef, Side};
use std::sync::Arc;

/// The smallest noise variance at the start of training, in units of the variance of an output.
const LEAST_NOISE: f64 = 0.05;

/// The noise variance, in units of the variance of an output, from which training by steps on q starts.
const START_NOISE: f64 = 0.3;

/// Rows with several outputs on the scale the model sees.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct OutputRows<'a> {
    /// Inputs, n × D.
    pub x: MatRef<'a, f64>,
    /// The targets of P outputs, row by row (n·P numbers), with mean 0 and variance 1 over the rows that have one, and NaN for a missing
    /// target.
    pub targets: &'a [f64],
    /// The sample weights; empty if all are 1.
    pub weights: &'a [f64],
}

/// Refuses offsets, which belong to one output.
fn check_inputs(options: &FitOptions, sharing: &str) -> Result<()> {
    if options.offsets > 0 {
        return Err(Error::usage(format!("⟨offset⟩ cannot be combined with {sharing}")));
    }
    Ok(())
}

/// Fits the linear model of coregionalisation, `f_p = b_p + Σ_l W_pl g_l` (Journel & Huijbregts 1978; Álvarez, Rosasco & Lawrence 2012,
/// section 4), to the outputs with these names, each with separate Gaussian noise. Returns a model for every output, with the processes
/// and the posterior of all.
///
/// W starts at the leading principal axes of the outputs; each process has a separate kernel and separate inducing inputs.
///
/// The `function` is that of `options`, unless one is given. With the models of an earlier fit in `start`, one for each output, training starts
/// from their hyper-parameters.
///
/// # Errors
///
/// As for [`fit_arrays`](super::fit_arrays), for more processes than outputs, or none, and for models of another kind in `start`.
#[doc(hidden)]
pub fn fit_outputs(
    rows: OutputRows<'_>,
    names: &[String],
    processes: usize,
    (options, function): (&FitOptions, Option<&Function>),
    start: &[&Model],
    session: &mut Session<'_>,
) -> Result<Vec<Fitted>> {
    let width = names.len();
    if processes == 0 || processes > width {
        return Err(Error::usage(format!(
            "⟨outputs mixed:{processes}⟩ asks for {processes} processes, expected 1 to {width}, the number of outputs"
        )));
    }
    check_outputs(rows, width)?;
    check_inputs(options, &format!("⟨outputs mixed:{processes}⟩"))?;
    let options =
        FitOptions { likelihood: None, mean: MeanKind::Zero, open: Open::NOTHING, ..options.clone() };
    options.validate()?;
    if !start.is_empty() {
        let start = joined(start, names)?;
        if start.likelihood.alike() || start.processes() != processes {
            return Err(Error::usage(format!("the start models do not mix {processes} processes")));
        }
        return fit_jointly(rows, width, Origin::Start(Start { model: start, q: None }), &options, session);
    }
    let weights = principal_axes(rows.targets, width, processes);
    let output = |(p, name): (usize, &String)| {
        let row: Vec<f64> = weights.row(p).iter().copied().collect();
        let noise = 1.0 - row.iter().map(|w| w * w).sum::<f64>();
        (name.clone(), Mixed::new(Box::new(Gaussian::new(noise.max(LEAST_NOISE))), row, 0.0))
    };
    let outputs = Outputs::new(names.iter().enumerate().map(output).collect());
    let prototype = prototype_of(outputs, rows, &options, function)?;
    fit_jointly(rows, width, Origin::Prototype(prototype), &options, session)
}

/// Returns the prototype of outputs of a sparse GP.
fn prototype_of(
    likelihood: impl Into<ObservationModel>,
    rows: OutputRows<'_>,
    options: &FitOptions,
    function: Option<&Function>,
) -> Result<Prototype> {
    let function = match function {
        Some(function) => function.clone(),
        None => {
            let kernel = options.kernel_of(options.inputs_of(rows.x.ncols()))?;
            Function::Sparse { kernel, points: None }
        }
    };
    Ok(Prototype { function, likelihood: likelihood.into() })
}

/// Returns the model of all outputs, given the models that one fit returned for them.
pub(super) fn joined(models: &[&Model], names: &[String]) -> Result<LatentPrior> {
    let unlike = || {
        Error::usage("the start models are not those of one fit whose outputs share a kernel or processes")
    };
    let first = models.first().filter(|_| models.len() == names.len()).ok_or_else(unlike)?.latent();
    let shared = |model: &LatentPrior| {
        let of_layer = |prior: &InducingPrior| {
            let mut values = Vec::new();
            prior.kernel().for_each_parameter(&mut |p| values.extend_from_slice(&p.values));
            (values, prior.z().to_owned())
        };
        model.layers.iter().filter_map(Layer::prior).map(of_layer).collect::<Vec<_>>()
    };
    if models.iter().any(|model| shared(model.latent()) != shared(first)) {
        return Err(unlike());
    }
    let mixed: Option<Vec<Mixed>> = models.iter().map(|model| model.latent().likelihood.output(0)).collect();
    let named = names.iter().cloned();
    let (layers, outputs) = match mixed {
        Some(mixed) => (first.layers.clone(), Outputs::new(named.zip(mixed).collect())),
        None => {
            let own = |model: &&Model| {
                let LatentPrior { likelihood, .. } = model.latent();
                Some((likelihood.one()?.boxed_clone(), model.latent().layer().mean()?.values[0]))
            };
            let own = models.iter().map(own).collect::<Option<Vec<_>>>().ok_or_else(unlike)?;
            let (likelihoods, means): (Vec<_>, Vec<_>) = own.into_iter().unzip();
            let layer = first.layer().prior().cloned().ok_or_else(unlike)?;
            let fixed = layer.mean().fixed;
            (vec![layer.with_means(means, fixed).into()], Outputs::apart(named.zip(likelihoods).collect()))
        }
    };
    let effects = first.effects.clone();
    Ok(LatentPrior { effects, ..LatentPrior::of_layers(layers, outputs.into(), first.fix_inducing) })
}

/// Fits all outputs as one likelihood of several functions, and returns each of them.
fn fit_jointly(
    rows: OutputRows<'_>,
    width: usize,
    origin: Origin,
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<Vec<Fitted>> {
    // Some functions expect one number per observation.
    let y: Vec<f64> = rows.targets.chunks_exact(width).map(mean).collect();
    let targets = Targets { outputs: rows.targets, weights: rows.weights, ..Targets::of(&y) };
    let data = TrainingData::of(Dataset { x: rows.x, targets });
    let fitted = fit_rows(&data, options, origin, session)?;
    (0..width).map(|which| of_output(&fitted, which)).collect()
}

/// Fits outputs with these names, each with a separate process, constant mean and Gaussian noise, but with one kernel and the same
/// inducing inputs for all (separate processes with shared covariance), and with the same variances of grouped effects. Returns a model of
/// every output.
///
/// If every bound has a closed form, the objective is their sum, and outputs observed in the same rows share one factorisation and one
/// pass over the data. Other options, such as grouped effects, steps on q or direct losses, train the outputs as one likelihood of several
/// functions. With the models of an earlier fit in `start`, training starts from their hyper-parameters.
///
/// # Errors
///
/// As for [`fit_arrays`](super::fit_arrays), for targets that are not n·P numbers, for an output without observations, and for models of
/// another kind in `start`.
#[doc(hidden)]
pub fn fit_shared_outputs(
    rows: OutputRows<'_>,
    names: &[String],
    (options, function): (&FitOptions, Option<&Function>),
    start: &[&Model],
    session: &mut Session<'_>,
) -> Result<Vec<Fitted>> {
    check_outputs(rows, names.len())?;
    check_inputs(options, "⟨outputs shared⟩")?;
    let options = FitOptions { likelihood: None, open: Open::NOTHING, ..options.clone() };
    options.validate()?;
    if options.model == ModelKind::Glm {
        return Err(Error::usage("⟨outputs shared⟩ needs ⟨model gp⟩"));
    }
    let known = match start {
        [] => None,
        start => Some(joined(start, names)?),
    };
    if known.as_ref().is_some_and(|known| !known.likelihood.alike()) {
        return Err(Error::usage("the start models mix processes, and share no kernel"));
    }
    if !has_closed_sum(&options) {
        let output = |name: &String| -> (String, Box<dyn OneFunction>) {
            (name.clone(), Box::new(Gaussian::new(START_NOISE)))
        };
        let origin = match known {
            Some(model) => Origin::Start(Start { model, q: None }),
            None => {
                let outputs = Outputs::apart(names.iter().map(output).collect());
                Origin::Prototype(prototype_of(outputs, rows, &options, function)?)
            }
        };
        return fit_jointly(rows, names.len(), origin, &options, session);
    }
    let trains = options.hyper != Some(Hyper::Fixed);
    let options = FitOptions { hyper: Some(Hyper::Collapsed), ..options };
    let prototype = prototype_of(Gaussian::new(1.0), rows, &options, function)?;
    let mut plan = Plan::new(&options, &prototype.likelihood, rows.x.nrows())?;
    let observed: Vec<RowBuffer> = (0..names.len()).map(|which| rows.of(which)).collect();
    if let Some((name, _)) = names.iter().zip(&observed).find(|(_, rows)| rows.y.is_empty()) {
        return Err(Error::data(format!("the target '{name}' is missing in every row")));
    }
    let model = match known {
        Some(known) => LatentPrior { fix_inducing: options.fix_inducing, ..known },
        None => shared_model(rows, names, &observed, &plan, &prototype)?,
    };
    let mut model = ready(model, &plan, observed[0].data())?;
    let mut training = None;
    if trains {
        let mut monitor = session.monitor(plan.limits);
        let mut objective = SharedObjective::new(model, rows, plan.options.beta);
        let (start, cells) = (objective.start(), observed.iter().map(|rows| rows.y.len()).sum::<usize>());
        let outcome = minimize(&mut objective, start, cells as f64, &plan, &mut monitor);
        monitor.session.check()?;
        model = objective.into_model(&outcome.theta).ok_or_else(failed_start)?;
        training = Some((outcome, monitor.records().to_vec(), monitor.elapsed().as_secs_f64()));
    }
    (plan.trains, plan.options.constraints) = (false, Constraints::default());
    let one = |(which, rows): (usize, &RowBuffer)| {
        // Each output is fitted separately, with fixed hyper-parameters.
        let mut own = alone(&model, which)?;
        let (mut fixed, fix_inducing) = (Vec::new(), own.fix_inducing);
        own.for_each_parameter_mut(&mut |p| fixed.push(std::mem::replace(&mut p.fixed, true)));
        own.fix_inducing = true;
        let (data, start) = (TrainingData::of(rows.data()), Start { model: own, q: None });
        let mut fitted =
            fit_from(start, &Job { rows: &data, plan: &plan, fresh: false }, &mut session.silent())?;
        fitted.model.fix_inducing = fix_inducing;
        let mut fixed = fixed.into_iter();
        fitted.model.for_each_parameter_mut(&mut |p| p.fixed = fixed.next().unwrap_or_default());
        if let Some((outcome, trace, seconds)) = &training {
            let summary = &mut fitted.summary;
            (summary.stop_reason, summary.trace, summary.epochs) =
                (outcome.reason, trace.clone(), trace.len());
            (summary.iterations, summary.evaluations) = (outcome.iterations, outcome.evaluations);
            (summary.rollbacks, summary.seconds) = (outcome.rollbacks, *seconds);
            summary.seconds_per_step = seconds / outcome.evaluations.max(1) as f64;
        }
        Ok(fitted)
    };
    observed.iter().enumerate().map(one).collect()
}

/// Returns true if the sum of the bounds of all outputs has a closed form.
fn has_closed_sum(options: &FitOptions) -> bool {
    matches!(options.objective, ObjectiveKind::Elbo | ObjectiveKind::Vfe)
        && *options == options.without_steps()
        && options.hyper.is_none_or(|hyper| matches!(hyper, Hyper::Collapsed | Hyper::Fixed))
        && options.neighbours.is_none()
        && options.effects.is_empty()
        && (options.restarts, options.validation_fraction) == (1, 0.0)
        && options.growth.is_none()
}

/// Creates the start of a shared kernel: kernel and inducing inputs as for a single output, and mean and noise of every output from its
/// own targets.
fn shared_model(
    rows: OutputRows<'_>,
    names: &[String],
    observed: &[RowBuffer],
    plan: &Plan,
    prototype: &Prototype,
) -> Result<LatentPrior> {
    let first = |row: &[f64]| row.iter().copied().find(|y| !y.is_nan()).unwrap_or(0.0);
    let y: Vec<f64> = rows.targets.chunks_exact(names.len()).map(first).collect();
    let targets = Targets { weights: rows.weights, ..Targets::of(&y) };
    let model = initial_model(Dataset { x: rows.x, targets }, plan, prototype)?;
    let (mut means, mut outputs) = (Vec::new(), Vec::new());
    for (name, rows) in names.iter().zip(observed) {
        let mut noise: Box<dyn OneFunction> = Box::new(Gaussian::new(1.0));
        let centre = noise.initialise(&rows.y, &[]);
        means.push(if plan.options.mean != MeanKind::Zero { centre } else { 0.0 });
        outputs.push((name.clone(), noise));
    }
    let Some(layer) = model.layer().prior().cloned() else {
        return Err(Error::usage("⟨outputs shared⟩ needs ⟨model gp⟩"));
    };
    let layer = layer.with_means(means, plan.options.mean == MeanKind::Zero);
    Ok(LatentPrior::of_layers(vec![layer.into()], Outputs::apart(outputs).into(), model.fix_inducing))
}

/// Returns the model of one of the outputs that share a kernel.
fn alone(model: &LatentModel, which: usize) -> Result<LatentPrior> {
    let lost = || Error::fit("the fit is not one of several outputs");
    let output = model.likelihood.output(which).ok_or_else(lost)?;
    let layer = model.layer().prior().cloned().ok_or_else(lost)?;
    let (mean, fixed) = (layer.mean().values[which], layer.mean().fixed);
    let layer = layer.with_mean(mean, fixed);
    Ok(LatentPrior::new(layer.into(), output.into_likelihood(), model.fix_inducing))
}

impl OutputRows<'_> {
    /// Returns the numbers of the rows in which an output was observed.
    pub(super) fn observed(&self, which: usize) -> Vec<usize> {
        let (n, width) = (self.x.nrows(), self.targets.len() / self.x.nrows().max(1));
        (0..n).filter(|row| !self.targets[row * width + which].is_nan()).collect()
    }

    /// Returns the rows in which an output was observed.
    pub(super) fn of(&self, which: usize) -> RowBuffer {
        self.taken(&self.observed(which), &[which], false)
    }

    /// Returns rows with the targets of these outputs, row by row if there are `several`; `y` has those of the first output.
    pub(super) fn taken(&self, rows: &[usize], outputs: &[usize], several: bool) -> RowBuffer {
        let width = self.targets.len() / self.x.nrows().max(1);
        let x = Mat::from_fn(rows.len(), self.x.ncols(), |i, d| self.x[(rows[i], d)]);
        let y: Vec<f64> = rows.iter().map(|row| self.targets[row * width + outputs[0]]).collect();
        let cells = rows.iter().flat_map(|row| outputs.iter().map(move |output| row * width + output));
        let all: Vec<f64> = cells.filter(|_| several).map(|cell| self.targets[cell]).collect();
        let weights: Vec<f64> = rows.iter().filter_map(|row| self.weights.get(*row).copied()).collect();
        let targets = Targets { outputs: &all, weights: &weights, ..Targets::of(&y) };
        RowBuffer::of(Dataset { x: x.as_ref(), targets })
    }
}

/// Refuses targets whose number does not match the rows and outputs.
pub(super) fn check_outputs(rows: OutputRows<'_>, width: usize) -> Result<()> {
    let n = rows.x.nrows();
    if rows.targets.len() == n * width && width > 0 {
        return Ok(());
    }
    Err(Error::data(format!(
        "there are {} targets for {n} rows of {width} outputs, expected {}",
        rows.targets.len(),
        n * width
    )))
}

/// Returns one output of a fit of several.
fn of_output(fitted: &Fitted, which: usize) -> Result<Fitted> {
    let output = fitted.model.likelihood.output(which);
    let mixed = output.ok_or_else(|| Error::fit("the fit is not one of several outputs"))?;
    let LatentPrior { layers, fix_inducing, effects, .. } = fitted.model.clone();
    let model = LatentPrior { effects, ..LatentPrior::of_layers(layers, mixed.into(), fix_inducing) };
    Ok(Fitted {
        posterior: fitted.posterior.clone().with_likelihood(model.likelihood.clone()),
        model,
        q: fitted.q.clone(),
        summary: fitted.summary.clone(),
        search: fitted.search.clone(),
        hyper_points: Arc::default(),
        targets: (Vec::new(), Vec::new()),
    })
}

/// Returns the mean of the numbers that are present.
fn mean(row: &[f64]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for y in row.iter().filter(|y| !y.is_nan()) {
        (sum, count) = (sum + y, count + 1.0);
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Returns `V_L Λ_L^{½}` of the covariance of the outputs (`P × L`). A missing target counts as 0,
/// the mean. Small eigenvalues are raised, so that no axis is zero.
fn principal_axes(targets: &[f64], width: usize, processes: usize) -> Mat<f64> {
    let n = targets.len() / width.max(1);
    let mut covariance = Mat::<f64>::zeros(width, width);
    for row in targets.chunks_exact(width) {
        let value = |p: usize| if row[p].is_nan() { 0.0 } else { row[p] };
        for p in 0..width {
            (0..width).for_each(|q| covariance[(p, q)] += value(p) * value(q) / n.max(1) as f64);
        }
    }
    let identity = |p: usize, l: usize| if p == l { 1.0 } else { 0.0 };
    let Ok(found) = covariance.self_adjoint_eigen(Side::Lower) else {
        return Mat::from_fn(width, processes, identity);
    };
    // The largest eigenvalues come last.
    Mat::from_fn(width, processes, |p, l| {
        let axis = width - 1 - l;
        found.U()[(p, axis)] * found.S().column_vector()[axis].max(LEAST_NOISE).sqrt()
    })
}
