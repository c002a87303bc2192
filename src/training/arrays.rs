//! A fit to rows on the scale the model sees: checks of shapes, the choice of a start, and the fit
//! from it.

use super::check::{check_data, check_formula, check_groups};
use super::diagnose::about_square_loss;
use super::failure::unless_failed;
use super::hyper_posterior::add_hyper_posterior;
use super::rows::{TrainingData, TrainingRows};
use super::run::{Fitted, Job, fit_from};
use super::search::{fit_grown, fit_restarted, trained_prior_variance};
use super::start::{Prototype, Start, better_start, initial_model, of_all_coefficients};
use crate::collapsed::Dataset;
use crate::error::{Error, Result};
use crate::hyper::{Listener, Session, StopReason};
use crate::likelihood::{LikelihoodKind, ObservationModel};
use crate::model::LatentPrior;
use crate::options::{FitOptions, Plan};

/// Fits a model to rows in memory on the scale the model sees. `listener` receives every stage and epoch.
///
/// With a `start`, its likelihood is the model's; options that name another one are refused.
///
/// Errors: `Usage` for invalid options (before any work), `Data` for shapes that do not match, `Fit` if not even the starting point can be
/// evaluated.
#[doc(hidden)]
pub fn fit_arrays(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Option<&Start>,
    listener: &mut Listener<'_>,
) -> Result<Fitted> {
    fit_arrays_in(data, options, start, &mut Session::new(listener))
}

/// Fits a model within a session, which may interrupt it and stores its state.
///
/// Errors: as for [`fit_arrays`]; `Interrupted` if the session was interrupted, `Data` if its checkpoint belongs to another fit.
#[doc(hidden)]
pub fn fit_arrays_in(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Option<&Start>,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    options.validate()?;
    check_groups(data.train.x, &options.effects)?;
    let origin = match start {
        Some(start) => Origin::Start(start.clone()),
        None => {
            Origin::Prototype(Prototype::of(options, options.inputs_of(data.train.x.ncols()), data.levels)?)
        }
    };
    check_data(&data, start.map(|start| start.model.input_dims()), origin.likelihood())?;
    check_formula(data.train.targets, origin.likelihood())?;
    fit_rows(&data, options, origin, session)
}

/// The start of a fit.
#[doc(hidden)]
pub enum Origin {
    /// Another model, with its likelihood.
    Start(Start),
    /// A kernel and a likelihood without starting values from data.
    Prototype(Prototype),
}

impl Origin {
    /// Returns the likelihood.
    pub(super) fn likelihood(&self) -> &ObservationModel {
        match self {
            Origin::Start(start) => &start.model.likelihood,
            Origin::Prototype(prototype) => &prototype.likelihood,
        }
    }

    /// Returns the options with the likelihood.
    ///
    /// # Errors
    ///
    /// If the options name another likelihood, or are invalid.
    pub(super) fn completed(&self, options: &FitOptions) -> Result<FitOptions> {
        let known = LikelihoodKind::of(&**self.likelihood());
        if let Some(asked) = options.likelihood.filter(|&asked| asked != known) {
            return Err(Error::usage(format!(
                "the start model has the {known} likelihood, but ⟨likelihood⟩ is {asked}"
            ))
            .hint("leave ⟨likelihood⟩ out, or fit without ⟨from⟩"));
        }
        let options = FitOptions { likelihood: Some(known), ..options.clone() };
        options.validate()?;
        options.check_offsets(self.likelihood())?;
        Ok(options)
    }
}

/// Fits a model to rows in memory or elsewhere.
///
/// # Errors
///
/// As for [`fit_arrays_in`], and if rows cannot be read.
#[doc(hidden)]
pub fn fit_rows(
    rows: &dyn TrainingRows,
    options: &FitOptions,
    origin: Origin,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let n = rows.all().count();
    let options = &origin.completed(options)?;
    // The defaults for this number of rows apply to all fits of a search.
    let options = &options.decided_for(n);
    let plan = Plan::new(options, origin.likelihood(), n)?;
    let mut fitted = fit_at_optimum(rows, (options, &plan), origin, session)?;
    add_hyper_posterior(&mut fitted, &Job { rows, plan: &plan, fresh: false }, session)?;
    Ok(fitted)
}

/// Fits a model whose hyper-parameters have single values.
fn fit_at_optimum(
    rows: &dyn TrainingRows,
    (options, plan): (&FitOptions, &Plan),
    origin: Origin,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let n = rows.all().count();
    if options.neighbours.is_some() && !rows.check_sample().targets.weights.is_empty() {
        return Err(Error::usage("⟨neighbours⟩ take no sample weights").hint("models without neighbours do"));
    }
    let prototype = match origin {
        Origin::Start(start) => {
            return fit_from(start, &Job { rows, plan, fresh: false }, session);
        }
        Origin::Prototype(prototype) => prototype,
    };
    match rows.in_memory() {
        Some(train) if options.growth.is_some() => {
            fit_grown(memory(rows, train), options, &prototype, session)
        }
        Some(train) if options.restarts > 1 => {
            fit_restarted(memory(rows, train), options, &prototype, session)
        }
        whole => {
            let variance = match whole {
                Some(train) => trained_prior_variance(train, options, &prototype, session)?,
                None => None,
            };
            let plan = match variance {
                Some(prior_variance) => {
                    Plan::new(&FitOptions { prior_variance, ..options.clone() }, &prototype.likelihood, n)?
                }
                None => plan.clone(),
            };
            let mut model = initial_model(rows.start_sample(), &plan, &prototype)?;
            if whole.is_none() {
                model = of_all_coefficients(model);
            }
            let mut fitted = fit_at_least_as_found(model, &Job { rows, plan: &plan, fresh: true }, session)?;
            if let Some(train) = whole.filter(|_| session.is_heard()) {
                let warning = about_square_loss(&memory(rows, train), &plan, (options, &prototype), session);
                fitted.summary.warnings.extend(warning);
            }
            Ok(fitted)
        }
    }
}

/// Fits from a start. If the fit ends, but not at a limit, where the hyper-parameters of an earlier fit explain the rows better, fits again
/// from these hyper-parameters and returns the better fit.
fn fit_at_least_as_found(model: LatentPrior, job: &Job<'_>, session: &mut Session<'_>) -> Result<Fitted> {
    let fitted = fit_from(Start { model: model.clone(), q: None }, job, session)?;
    let is_limited = matches!(fitted.summary.stop_reason, StopReason::MaxEpochs | StopReason::MaxSteps);
    if is_limited || job.plan.limits.seconds.is_some() || session.is_late() {
        return Ok(fitted);
    }
    match better_start(&model, &fitted.model, job.rows.start_sample(), job.plan) {
        None => Ok(fitted),
        Some(model) => {
            let again = unless_failed(fit_from(Start { model, q: None }, job, session))?;
            Ok(again.filter(|again| again.summary.objective < fitted.summary.objective).unwrap_or(fitted))
        }
    }
}

/// Combines `train`, the training rows in memory, with the validation rows and levels of `rows`.
fn memory<'a>(rows: &'a dyn TrainingRows, train: Dataset<'a>) -> TrainingData<'a> {
    TrainingData { train, validation: rows.validation(), levels: rows.levels() }
}
