//! A fitted model takes in new rows: q moves, hyper-parameters and inducing inputs stay; no tables.

use super::check::check_data;
use super::rows::TrainingData;
use super::solve::{SolveLimits, Sweep, solve_q};
use super::start::Start;
use super::variational::VariationalModel;
use crate::collapsed::{DataStream, Dataset, Statistics, Weighting};
use crate::error::{Error, Result};
use crate::hyper::{Limits, Session};
use crate::model::{LatentModel, Model, Update};
use crate::objective::{Estimator, Targets};
use crate::options::{FitOptions, LossKind};
use crate::variational::{Evidence, MatrixRef, Normal};

/// The most natural-gradient steps on q, and the gain in nats per new row below which they end.
const LIMITS: SolveLimits = SolveLimits { steps: 200, tolerance: 1e-9 };

/// Rows that are taken at once.
const PART: usize = 1024;

/// What a model is after `rows` (in the user's units, classes and levels coded as in its fit) on top of those it was fitted to. What it
/// knew, less the share `forget` of it (0 forgets nothing, 1 all but hyper-parameters and inducing inputs), stands beside the new rows as
/// a Gaussian factor of q: `Σ_new ℓ_i + β KL(q ‖ q_before)` is minimised (Bui, Nguyen & Turner 2017, at inducing inputs that stay).
///
/// With Gaussian noise rows may come in any parts: the end is the posterior of all of them. The session hears of every step, and may
/// interrupt.
///
/// # Errors
///
/// Usage errors for a share that is none, and for models whose q is not all they know: those that look up neighbours, that were trained for
/// the squared loss, whose coefficients have a sign, or of outputs that share processes. Data errors as for a fit.
/// Fit errors where the objective is not finite at the new rows.
pub fn update(model: &Model, rows: Dataset<'_>, forget: f64, session: &mut Session<'_>) -> Result<Model> {
    if !(0.0..=1.0).contains(&forget) {
        return Err(Error::usage(format!("⟨forget⟩ is {forget}, expected a share from 0 to 1")));
    }
    check_model(model)?;
    let weightless = model.options().objective.loss() == LossKind::Fitc;
    if weightless && !rows.targets.weights.is_empty() {
        return Err(Error::usage("a model of ⟨objective fitc⟩ takes no sample weights"));
    }
    check_data(&TrainingData::of(rows), Some(model.latent()), &model.latent().likelihood)?;
    let mut x = rows.x.transpose().to_owned();
    model.scaling().scale_inputs(x.as_mut().transpose_mut());
    let mut y = rows.targets.y.to_vec();
    model.scaling().scale_target(&mut y);
    let scaled = Dataset { x: x.transpose(), targets: Targets { y: &y, ..rows.targets } };

    let Start { model: latent, q } = Start::from_model(model, model.options(), None, true);
    let q = q.unwrap_or_else(|| model.posteriors().to_vec());
    let known = |q: &Normal| {
        let mut evidence = Evidence::of(q)?;
        evidence.scale(1.0 - forget);
        Some(evidence)
    };
    let earlier: Option<Vec<Evidence>> = q.iter().map(known).collect();
    let earlier =
        earlier.ok_or_else(|| Error::fit("the model's q has a covariance that cannot be inverted"))?;
    let (latent, q) = match closed_form(&latent, model.options(), scaled, &earlier) {
        Some(q) => (latent, q?),
        None => by_steps((latent, q), model.options(), (scaled, &earlier), session)?,
    };
    Ok(model.with_more((latent, q), Update { rows: rows.len(), forget }))
}

/// Refuses models whose q is not all they know.
fn check_model(model: &Model) -> Result<()> {
    let mixes = model.latent().likelihood.joint().is_some_and(|joint| joint.mixing().is_some());
    let (what, hint) = match model {
        _ if model.neighbours().is_some() => (
            "a model with neighbours keeps the rows it was fitted to, and cannot be updated",
            "fit it with ⟨neighbours none⟩",
        ),
        _ if model.mean_only() => (
            "a model of ⟨objective dlm-square⟩ has no covariance that says how much it knows, and cannot be updated",
            "fit it with ⟨objective elbo⟩ or ⟨objective dlm-log⟩",
        ),
        _ if mixes => {
            ("outputs that mix processes cannot be updated one by one", "fit them without ⟨mixing⟩")
        }
        _ if model.options().steps.nonnegative => {
            ("a model of ⟨q_nonnegative⟩ cannot be updated", "fit it to all rows again")
        }
        _ => return Ok(()),
    };
    Err(Error::usage(what).hint(hint))
}

/// q of a collapsed bound, whose sums over rows add up; `None` for other models.
fn closed_form(
    latent: &LatentModel,
    options: &FitOptions,
    rows: Dataset<'_>,
    earlier: &[Evidence],
) -> Option<Result<Vec<Normal>>> {
    let noise = latent.likelihood.gaussian_noise()?;
    if !options.is_collapsed() {
        return None;
    }
    let (weighting, weight) = match options.objective.loss() {
        LossKind::Fitc => (Weighting::Residual(noise), 1.0),
        _ => (Weighting::Unit, 1.0 / (options.beta * noise)),
    };
    let layer = &**latent.layer();
    let mut stream = DataStream::new(layer, rows.len());
    stream.forward(layer, rows, weighting);
    let Statistics { gram, ac, .. } = &stream.statistics;
    let absorbed = |evidence: &Evidence| {
        let mut all = evidence.clone();
        all.add(MatrixRef::Full(gram.as_ref()), ac, weight);
        all.posterior().ok_or_else(not_finite)
    };
    Some(earlier.iter().map(absorbed).collect())
}

/// q by natural gradients on all new rows.
fn by_steps(
    (latent, q): (LatentModel, Vec<Normal>),
    options: &FitOptions,
    (rows, earlier): (Dataset<'_>, &[Evidence]),
    session: &mut Session<'_>,
) -> Result<(LatentModel, Vec<Normal>)> {
    // An estimate from samples cannot tell whether a step has helped.
    let objective = FitOptions { estimator: Estimator::Exact, ..options.clone() }.mini_batch_objective();
    let part = PART.min(rows.len());
    let mut svgp = VariationalModel::new(latent, q, objective, part);
    let mut monitor = session.monitor(Limits::of_epochs(LIMITS.steps));
    let sweep = Sweep::of(&rows, part).after(earlier);
    let (value, _) = solve_q(&mut svgp, sweep, options.steps.guard, LIMITS, Some(&mut monitor))?;
    monitor.check()?;
    if !value.is_finite() {
        return Err(not_finite());
    }
    Ok(svgp.into_parts())
}

fn not_finite() -> Error {
    Error::fit("the objective is not finite at the new rows")
        .hint("check their scale: it should be that of the rows that the model was fitted to")
}
