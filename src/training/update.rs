//! A fitted model takes in new rows: q moves, hyper-parameters and inducing inputs stay.

use super::check::check_data;
use super::failure::{huge_data, new_rows_not_finite};
use super::neighbours::{Known, with_new_rows};
use super::outputs::{OutputRows, check_outputs, joined};
use super::row_sums::{Sweep, pass_over, sum_over};
use super::rows::RowBuffer;
use super::rows::TrainingData;
use super::start::Start;
use super::steps::{SolveLimits, VariationalModel, solve_q};
use crate::collapsed::Dataset;
use crate::effects::{Effects, Entry};
use crate::error::{Error, Result};
use crate::gradient::{Form, Problem, ProcessSums, Wanted};
use crate::hyper::{Limits, Session};
use crate::model::{LatentModel, Model, Nearby, Update, Warning};
use crate::objective::{Estimator, Objective, Targets};
use crate::options::{FitOptions, LossKind, MOST_IN_STEPS, Plan, Way};
use crate::variational::{Evidence, Family, Normal};
use std::sync::Arc;

/// The maximum number of natural-gradient steps on q, and the gain in nats per new row below which
/// they end.
const LIMITS: SolveLimits = SolveLimits { steps: 200, tolerance: 1e-9, end: None };

/// The number of rows that are evaluated at once.
const PART: usize = 1024;

/// The distance from the mean of the training targets, in their standard deviations, beyond which a
/// new target causes a warning.
const FAR: f64 = 1e3;

/// Returns the model updated by the new `rows` (in the user's units, classes and levels coded as in
/// the fit of the model). q minimises `Σ_new ℓ_i + β KL(q ‖ q_before)` (Bui, Nguyen & Turner 2017,
/// with fixed inducing inputs). With Gaussian noise and ⟨objective dlm-log⟩, whose minimum would depend on the order of updates, q is the
/// posterior `∝ q_before Π_new p(y_i | w)^(1/β)` for the densities of predictions, `N(y_i; o_i + a_iᵀw, r_i + σ²)`. `forget` is the share of the precision of `q_before` that is
/// forgotten: 0 forgets nothing, 1 everything except hyper-parameters and inducing inputs.
///
/// A model with neighbours adds the new rows to its kept rows; if it keeps a limited number, it
/// keeps a random sample of all of them. Forgetting divides the noise variance of the kept rows by
/// `1 − forget`, and drops them at 1.
///
/// In a model with grouped effects, q is the joint distribution of the function and the effects. A level that training did not see has no
/// coefficients in it: the variance of its effects counts as variance of f in each row. A model with neighbours refuses such rows.
///
/// With Gaussian noise, the posterior does not depend on the order of the rows, nor on how they are divided into updates. The
/// session receives every step, and may interrupt the update.
///
/// # Errors
///
/// Usage errors if `forget` is not between 0 and 1, and for models that cannot be updated: trained
/// for the squared loss, with nonnegative coefficients, with outputs that mix processes (see [`update_outputs`]), or with very many grouped effects. Data errors as
/// for a fit, and for new levels in a model with neighbours. Fit errors if the objective is not finite at the new rows, or the covariance of
/// the inducing inputs has no Cholesky factor.
pub fn update(model: &Model, rows: Dataset<'_>, forget: f64, session: &mut Session<'_>) -> Result<Model> {
    check_forget(forget)?;
    check_model(model)?;
    if model.latent().likelihood.mixing().is_some() {
        return Err(Error::usage("outputs that mix processes are updated together"));
    }
    check_data(&TrainingData::of(rows), Some(model.inputs()), &model.latent().likelihood)?;
    let mut scaled = RowBuffer::of(rows);
    scaled.scale(model.scaling());
    let start = Start::from_model(model, model.options(), None, true);
    let (latent, q, nearby) = learnt(model, start, scaled.data(), forget, session)?;
    let mut updated = model.with_more(latent, q, nearby, Update { rows: rows.len(), forget });
    updated.summary.warnings.extend(far_targets(model, rows.targets.y, &scaled.y));
    Ok(updated)
}

/// Like [`update`], for the models of several outputs that one fit returned, in its order. Targets are in the user's units.
///
/// # Errors
///
/// As for [`update`], and if the models are not of one fit of several outputs.
#[doc(hidden)]
pub fn update_outputs(
    models: &[&Model],
    rows: OutputRows<'_>,
    forget: f64,
    session: &mut Session<'_>,
) -> Result<Vec<Model>> {
    check_forget(forget)?;
    models.iter().try_for_each(|model| check_model(model))?;
    check_outputs(rows, models.len())?;
    if models.iter().all(|model| model.latent().likelihood.mixing().is_none()) {
        // Each model has the posterior of its own process only.
        let one = |(which, model): (usize, &&Model)| update(model, rows.of(which).data(), forget, session);
        return models.iter().enumerate().map(one).collect();
    }
    let latent = joined(models, &vec![String::new(); models.len()])?;
    let first = models[0];
    let y = vec![0.0; rows.x.nrows()];
    let given = Targets { outputs: rows.targets, weights: rows.weights, ..Targets::of(&y) };
    let given = Dataset { x: rows.x, targets: given };
    check_data(&TrainingData::of(given), Some(first.inputs()), &latent.likelihood)?;
    let x = first.on_scale(rows.x);
    let mut targets = rows.targets.to_vec();
    for row in targets.chunks_exact_mut(models.len()) {
        let cells = row.iter_mut().zip(models);
        cells.for_each(|(cell, model)| model.scaling().scale_target(std::slice::from_mut(cell)));
    }
    let scaled = Dataset { x: x.transpose(), targets: Targets { outputs: &targets, ..given.targets } };
    let start = Start { model: latent, q: Some(first.posteriors().to_vec()) };
    let (latent, q, nearby) = learnt(first, start, scaled, forget, session)?;
    let updated = |(which, model): (usize, &&Model)| {
        let known = rows.targets.iter().skip(which).step_by(models.len()).filter(|y| !y.is_nan()).count();
        let own = LatentModel { likelihood: model.latent().likelihood.clone(), ..latent.clone() };
        model.with_more(own, q.clone(), nearby.clone(), Update { rows: known, forget })
    };
    Ok(models.iter().enumerate().map(updated).collect())
}

/// The result of an update: the factorised model, its posteriors and its neighbours.
type Learnt = (LatentModel, Vec<Normal>, Option<Arc<Nearby>>);

/// Learns from new rows on the scale that `model` sees, from a start with the posteriors before them.
fn learnt(
    model: &Model,
    start: Start,
    rows: Dataset<'_>,
    forget: f64,
    session: &mut Session<'_>,
) -> Result<Learnt> {
    if model.neighbours().is_some() && !rows.targets.weights.is_empty() {
        return Err(Error::usage("a model with neighbours takes no sample weights"));
    }
    if let Some(cause) = huge_data(rows) {
        return Err(cause.error("the new rows cannot be learnt from"));
    }
    let Start { model: latent, q } = start;
    let latent = latent.factorised().map_err(|_| {
        Error::fit(
            "the model cannot be updated: the covariance of its inducing inputs has no Cholesky factor",
        )
        .hint("fit a model to all rows again")
    })?;
    let q = match q {
        _ if !latent.effects.is_empty() => joint(model)?,
        q => q.unwrap_or_else(|| model.posteriors().to_vec()),
    };
    let known = |q: &Normal| {
        let mut evidence = Evidence::of(q)?;
        evidence.scale(1.0 - forget);
        Some(evidence)
    };
    let earlier: Option<Vec<Evidence>> = q.iter().map(known).collect();
    let earlier =
        earlier.ok_or_else(|| Error::fit("the model's q has a covariance that cannot be inverted"))?;
    let options = model.options();
    if let Some(kept) = model.neighbours() {
        let known = Known { model: &latent, nearby: kept, evidence: &earlier, forget };
        check_levels(&latent.effects, rows)?;
        let (q, all) = by_neighbours(known, rows, options, session)?;
        return Ok((latent.with_summed_effects(), q, Some(all)));
    }
    let latent = latent.with_summed_effects();
    let (latent, q) = match closed_form(&latent, options, rows, &earlier) {
        Some(q) => (latent, q?),
        None => by_steps(latent, q, options, rows, &earlier, session)?,
    };
    Ok((latent, q, None))
}

/// Refuses a share below 0 or above 1.
fn check_forget(forget: f64) -> Result<()> {
    match (0.0..=1.0).contains(&forget) {
        true => Ok(()),
        false => Err(Error::usage(format!("⟨forget⟩ is {forget}, expected a share from 0 to 1"))),
    }
}

/// Refuses rows with a level that the training of a model with neighbours did not see: its effects would count as variance of f, which
/// neighbours then share.
fn check_levels(effects: &Effects, rows: Dataset<'_>) -> Result<()> {
    let new = |x| effects.entries(x).iter().position(Entry::is_new);
    match rows.x.row_iter().enumerate().find_map(|(row, x)| Some((row, new(x)?))) {
        Some((row, term)) => Err(Error::data(format!(
            "row {} has a level of {} that the training rows do not have, expected a known level",
            row + 1,
            effects.terms()[term].name
        ))
        .hint("fit a model with neighbours to all rows again")),
        None => Ok(()),
    }
}

/// Returns the joint distributions of the functions of a model and of its grouped effects.
fn joint(model: &Model) -> Result<Vec<Normal>> {
    let all = model.latent().effects.coefficients();
    if all > MOST_IN_STEPS {
        return Err(Error::usage(format!(
            "the groupings of the model have {all} effects, but an update couples at most {MOST_IN_STEPS}"
        ))
        .hint("fit a model to all rows again"));
    }
    let of_process = |process: usize| {
        let Normal { mean, cov, .. } = model.posterior().joint(process)?;
        Normal::new(mean, cov.as_ref().to_dense()).ok()
    };
    let joint: Option<Vec<Normal>> = (0..model.posteriors().len()).map(of_process).collect();
    joint.ok_or_else(|| Error::fit("the model's q has a covariance that cannot be inverted"))
}

/// Warns if a new target lies far outside the range of the training targets.
fn far_targets(model: &Model, y: &[f64], scaled: &[f64]) -> Option<Warning> {
    let scales = model.latent().likelihood.scales_target() && model.options().standardize;
    let distances = y.iter().zip(scaled).filter(|(_, scaled)| scales && scaled.abs() > FAR);
    let (far, deviations) = distances.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some(Warning::from(format!(
        "a target of the new rows is {far:.3e}, which is {:.1e} standard deviations away from the mean of the training rows",
        deviations.abs()
    )))
}

/// Refuses models whose q does not contain all information of their rows.
fn check_model(model: &Model) -> Result<()> {
    let (what, hint) = match model {
        _ if model.mean_only() => (
            "a model of ⟨objective dlm-square⟩ has no posterior covariance, and cannot be updated",
            "fit it with ⟨objective elbo⟩ or ⟨objective dlm-log⟩",
        ),
        _ if model.options().steps.q_nonnegative => {
            ("a model of ⟨q_nonnegative⟩ cannot be updated", "fit it to all rows again")
        }
        _ => return Ok(()),
    };
    Err(Error::usage(what).hint(hint))
}

/// Returns q and the kept rows of a model with neighbours.
fn by_neighbours(
    known: Known<'_>,
    rows: Dataset<'_>,
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<(Vec<Normal>, Arc<Nearby>)> {
    let plan = Plan::new(options, &known.model.likelihood, known.nearby.len() + rows.len())?;
    let Way::Neighbours(neighbours) = plan.way else {
        return Err(Error::usage("the model has neighbours, but its options name no number of neighbours"));
    };
    let mut monitor = session.monitor(Limits::of_epochs(LIMITS.steps));
    with_new_rows(known, rows, &neighbours, plan.options.seed, &mut monitor)
}

/// Returns q in closed form, from the evidence of earlier rows and the sums of a collapsed bound
/// over the new rows; `None` for other models.
fn closed_form(
    latent: &LatentModel,
    options: &FitOptions,
    rows: Dataset<'_>,
    earlier: &[Evidence],
) -> Option<Result<Vec<Normal>>> {
    let (loss, beta) = (options.objective.loss(), options.beta);
    let sums_up = options.is_collapsed() || loss == LossKind::Log && options.steps.family == Family::Full;
    if !sums_up || latent.likelihood.gaussian_noise().is_none() {
        return None;
    }
    let objective = match loss {
        LossKind::Fitc => Objective::fitc(),
        LossKind::Log => Objective { beta, ..Objective::fitc() },
        LossKind::Elbo | LossKind::Square => Objective::elbo(beta),
    };
    let q: Vec<Normal> =
        earlier.iter().map(|evidence| Normal::standard(Family::Full, evidence.shift.len())).collect();
    let mut pass = pass_over(&rows, latent, objective, &q);
    let problem = Problem::new(latent.layers(), &latent.likelihood, objective, &q);
    if let Err(error) =
        sum_over(Sweep::over(&rows), &mut pass, latent, problem, (Form::Stable, Wanted::Origin))
    {
        return Some(Err(error));
    }
    let absorbed = |(evidence, sums): (&Evidence, &ProcessSums)| {
        let mut all = evidence.clone();
        all.add_sums(&sums.mean, sums.cov.as_ref(), objective.beta);
        all.posterior().ok_or_else(new_rows_not_finite)
    };
    Some(earlier.iter().zip(&pass.sums().processes).map(absorbed).collect())
}

/// Returns the model and q after natural-gradient steps on all new rows.
fn by_steps(
    latent: LatentModel,
    q: Vec<Normal>,
    options: &FitOptions,
    rows: Dataset<'_>,
    earlier: &[Evidence],
    session: &mut Session<'_>,
) -> Result<(LatentModel, Vec<Normal>)> {
    // An estimate from samples cannot tell whether a step has helped.
    let objective = FitOptions { estimator: Estimator::Exact, ..options.clone() }.mini_batch_objective();
    let part = PART.min(rows.len());
    let mut svgp = VariationalModel::new(latent, q, objective, part);
    let mut monitor = session.monitor(Limits::of_epochs(LIMITS.steps));
    svgp.earlier = earlier.to_vec();
    let (value, _) =
        solve_q(&mut svgp, Sweep::of(&rows, part), options.steps.q_guard, LIMITS, Some(&mut monitor))?;
    monitor.session.check()?;
    if !value.is_finite() {
        return Err(new_rows_not_finite());
    }
    Ok(svgp.into_parts())
}
