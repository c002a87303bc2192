//! Training of hyper-parameters on bounds in which q is solved for in closed form.

use super::collapsed::CollapsedObjective;
use super::job::Job;
use super::open_noise::with_expected_noise;
use super::outcome::Trained;
use super::solver::minimize_solved;
use super::warm_start::rehearsed_exactly;
use crate::error::Result;
use crate::hyper::Monitor;
use crate::model::{LatentModel, Score};
use crate::objective::Objective;
use crate::options::LossKind;

/// Trains hyper-parameters on a bound in which q is solved for in closed form.
pub(super) fn train(
    model: LatentModel,
    bound: Objective,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let Job { rows, plan, fresh } = *job;
    let model = match rows.in_memory() {
        Some(data) if fresh => rehearsed_exactly(model, data, plan, monitor)?,
        _ => model,
    };
    let mut objective = CollapsedObjective::new(model, rows.all(), bound);
    if let Some(validation) = rows.validation() {
        objective = objective.with_validation(validation, Score::of(plan.loss));
    }
    let mut outcome = minimize_solved(&mut objective, job, monitor)?;
    let mut noise_mode = None;
    if let Some(data) = rows.in_memory().filter(|_| objective.is_exact() && plan.hyper.trains)
        && let Some(found) = with_expected_noise(&mut objective, &outcome.theta, data.targets.y)
    {
        (outcome.theta, outcome.value, noise_mode) = (found.theta, found.value, Some(found.mode));
    }
    let value = outcome.value;
    let is_elbo = plan.loss == LossKind::Elbo;
    let upper = is_elbo.then(|| objective.evidence_upper_bound()).flatten();
    let elbo = (is_elbo && plan.options.beta == 1.0).then_some(-value);
    let (model, q) = objective.into_parts();
    Ok(Trained { elbo, upper, noise_mode, ..Trained::at(model, vec![q], value, outcome) })
}
