//! The training of models with neighbours by L-BFGS, in rounds; neighbours are looked up again
//! between rounds.

mod fewer_levels;
mod given;
mod new_rows;
mod objective;
mod sites;

use super::failure::failed_start;
use super::grouped::boundaries::search_beyond;
use super::grouped::summarised;
use super::rows::whole;
use super::run::{Job, Trained};
use super::solver::{Solved, minimize};
use crate::collapsed::Dataset;
use crate::effects::Effects;
use crate::error::Result;
use crate::hyper::{Limits, Monitor, Outcome, StopReason};
use crate::model::{LatentModel, Score};
use crate::options::{LossKind, NeighbourPlan, Plan};
use fewer_levels::FewerLevels;
pub(super) use new_rows::{Known, with_new_rows};
pub use objective::NeighbourObjective;
use objective::{TRAINED_WITH, layer};

/// The number of rows whose terms train the hyper-parameters: enough to determine a few dozen
/// hyper-parameters to a percent.
const TERMS: usize = 8192;

/// The number of rows whose terms train the hyper-parameters of a model with grouped effects; their
/// variances need many levels.
const TERMS_OF_LEVELS: usize = 32768;

/// Inducing inputs move only if there are this many terms for each of their coordinates; otherwise they would fit the noise, and
/// predictions would be overconfident.
const TERMS_PER_COORDINATE: usize = 2;

/// The rounds before the last: the number of rows, and of L-BFGS iterations with the neighbours of the start of the round.
const ROUNDS: [(usize, usize); 3] = [(2048, 4), (2048, 8), (4096, 12)];

/// The rounds before the last for sites, which are matched again in every round.
const SITE_ROUNDS: [(usize, usize); 2] = [(TERMS, 12), (TERMS, 12)];

/// The number of times that the path of a round is halved before the round is rolled back.
const HALVINGS: usize = 3;

/// Sites and q are updated in turn until predictions move less than this (in standard deviations), or this many times.
const MATCHED: (f64, usize) = (0.01, 12);

/// Calls `round` with a step size until the sites stop moving. `round` returns the distance that
/// the sites moved, or `None` to stop.
fn in_rounds(mut round: impl FnMut(f64) -> Option<f64>) {
    let (mut step, mut before) = (1.0, f64::INFINITY);
    for _ in 0..MATCHED.1 {
        let Some(moved) = round(step).filter(|moved| *moved > MATCHED.0) else { return };
        // Simultaneous updates of sites that depend on each other may oscillate.
        step *= if moved > before { 0.5 } else { 1.0 };
        before = moved;
    }
}

/// Trains hyper-parameters on the terms of some rows, looking up neighbours again as lengthscales move, and then q on all rows. Direct
/// losses start from the evidence, which determines the amplitude.
pub(super) fn train(
    mut model: LatentModel,
    neighbours: &NeighbourPlan,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let Job { rows, plan, .. } = *job;
    let train = whole(rows, "⟨neighbours⟩")?;
    let n = train.len();
    let trains = plan.trains && model.descriptors().iter().any(|descriptor| !descriptor.fixed);
    let stays = model.fix_inducing;
    let z = layer(&model)?.z();
    let coordinates = z.nrows() * z.ncols();
    model.fix_inducing |= TERMS.min(n) < TERMS_PER_COORDINATE * coordinates;
    // Training looks at a part of so many rows anyway: the rows of a part of the levels then need far smaller matrices.
    let fewer = (trains && n > TERMS_OF_LEVELS)
        .then(|| FewerLevels::draw(&model.effects, train, plan.options.seed))
        .flatten();
    let early = match &fewer {
        Some(fewer) => Some(trained_on(fewer, &mut model, neighbours, job, monitor)?),
        None => None,
    };
    let stage = Stage { model, rows: train, validation: rows.validation() };
    let Training { mut objective, outcome } = match early {
        None if trains => stage.train(neighbours, job, monitor)?,
        known => {
            let mut objective = stage.objective(neighbours, plan, monitor)?;
            objective.look_up(n, neighbours.count);
            let theta = objective.start();
            let outcome = match known {
                Some(outcome) => Outcome { theta, ..outcome },
                None => Outcome::at(theta, f64::NAN),
            };
            Training { objective, outcome }
        }
    };
    let mut value = objective.solve(&outcome.theta).ok_or_else(failed_start)?;
    // Variances of grouped effects are reported as estimates, so they stay at the maximum of the
    // evidence.
    if trains && plan.loss != LossKind::Square && plan.options.effects.is_empty() {
        value = objective.calibrate().unwrap_or(value);
    }
    if !trains {
        monitor.record(value / n as f64, None);
        monitor.stop(StopReason::Converged);
    }
    let (nearby, (q, effects)) = (objective.nearby(), objective.split());
    let mut model = objective.model().clone();
    model.fix_inducing = stays;
    let mut known = None;
    if !effects.is_empty() {
        // The search for intervals changes the parameters of the objective, so this comes last.
        let likely = trains && objective.is_evidence() && has_intervals(plan, n);
        let summary = summarised(train, likely.then_some(&mut objective as &mut dyn Solved), monitor)?;
        known = Some((effects, summary));
    }
    let elbo = (known.is_some() && objective.is_evidence()).then_some(-value);
    Ok(Trained { nearby, elbo, effects: known, ..Trained::at(model, q, value, outcome) })
}

/// Trains the hyper-parameters of a model on a part of the levels.
fn trained_on(
    fewer: &FewerLevels,
    model: &mut LatentModel,
    neighbours: &NeighbourPlan,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Outcome> {
    let validation = job.rows.validation().map(|rows| (fewer.recoded(rows.x), rows.targets));
    let validation = validation.as_ref().map(|(x, targets)| Dataset { x: x.transpose(), targets: *targets });
    let stage = Stage { model: fewer.model_of(model), rows: fewer.data(), validation };
    let Training { objective, outcome } = stage.train(neighbours, job, monitor)?;
    model.set_natural(&objective.model().natural()).map_err(|_| failed_start())?;
    Ok(outcome)
}

/// A model with the rows that train and judge its hyper-parameters.
struct Stage<'a> {
    model: LatentModel,
    rows: Dataset<'a>,
    validation: Option<Dataset<'a>>,
}

/// The objective of a stage at the end of its training.
struct Training<'a> {
    objective: NeighbourObjective<'a>,
    outcome: Outcome,
}

impl<'a> Stage<'a> {
    fn objective(
        mut self,
        neighbours: &NeighbourPlan,
        plan: &Plan,
        monitor: &Monitor<'_>,
    ) -> Result<NeighbourObjective<'a>> {
        if plan.loss == LossKind::Square {
            self.model.hold_amplitude();
        }
        let mut objective = NeighbourObjective::new(self.model, self.rows, *neighbours, plan.options.seed)?;
        objective.end = monitor.session.end();
        objective.validation = self.validation.map(|rows| (rows, Score::of(plan.loss)));
        Ok(objective)
    }

    /// Trains hyper-parameters, from rounds on few rows if the model of the job is fresh.
    fn train(
        mut self,
        neighbours: &NeighbourPlan,
        job: &Job<'_>,
        monitor: &mut Monitor<'_>,
    ) -> Result<Training<'a>> {
        let (plan, effects) = (job.plan, self.model.effects.clone());
        if job.fresh {
            self.model = warmed(self.model, self.rows, plan, neighbours, monitor)?;
        }
        let mut objective = self.objective(neighbours, plan, monitor)?;
        let outcome = trained(&mut objective, plan, (neighbours, &effects), monitor)?;
        Ok(Training { objective, outcome })
    }
}

/// Trains hyper-parameters, and looks up the neighbours of all rows at the end unless the fit is late. `start` has the effects before any
/// training.
fn trained(
    objective: &mut NeighbourObjective<'_>,
    plan: &Plan,
    (neighbours, start): (&NeighbourPlan, &Effects),
    monitor: &mut Monitor<'_>,
) -> Result<Outcome> {
    let n = objective.rows();
    let terms = if plan.options.effects.is_empty() { TERMS } else { TERMS_OF_LEVELS };
    let (rows, k) = (terms.min(n), neighbours.count.min(TRAINED_WITH));
    let mut theta = objective.start();
    if objective.has_sites() {
        theta = rounds(objective, theta, &SITE_ROUNDS, plan, k, monitor)?;
    }
    objective.look_up(rows, k);
    let before = objective.has_sites().then(|| objective.solve(&theta)).flatten();
    let counted = objective.counted() as f64;
    let mut found = minimize(objective, theta.clone(), counted, plan, monitor);
    monitor.session.check()?;
    if let Some(best) = &objective.place().kept {
        found.theta.clone_from(best);
    }
    found.theta = reached(objective, &theta, before, found.theta, rows, k)?;
    // After the time limit, q keeps the rows and neighbours that training used.
    if !monitor.session.is_late() {
        objective.look_up(n, neighbours.count);
        if objective.is_evidence() && has_intervals(plan, n) {
            found.theta = settled(objective, found.theta, (plan, start), monitor)?;
        }
    }
    Ok(found)
}

/// Returns true if variance components may have intervals: only a maximum over all rows has them.
fn has_intervals(plan: &Plan, n: usize) -> bool {
    !plan.options.effects.is_empty() && n <= TERMS_OF_LEVELS
}

/// Continues from `theta` with the final neighbours of all rows, and returns the maximum of their
/// evidence.
fn settled(
    objective: &mut NeighbourObjective<'_>,
    theta: Vec<f64>,
    (plan, start): (&Plan, &Effects),
    monitor: &mut Monitor<'_>,
) -> Result<Vec<f64>> {
    let limits = Limits { epochs: plan.limits.epochs, plateaus: 0, target: None, ..monitor.limits };
    let (n, mut last) = (objective.rows(), monitor.nested(limits));
    let mut found = minimize(objective, theta, n as f64, plan, &mut last);
    search_beyond(objective, start, &mut found, (n as f64, plan), monitor);
    monitor.session.check()?;
    Ok(found.theta)
}

/// Returns the model after some rounds on the evidence of few rows each. Inducing inputs stay fixed, because hyper-parameters alone are
/// found quickly.
fn warmed(
    mut model: LatentModel,
    train: Dataset<'_>,
    plan: &Plan,
    neighbours: &NeighbourPlan,
    monitor: &mut Monitor<'_>,
) -> Result<LatentModel> {
    let few = neighbours.count.min(TRAINED_WITH);
    let evidence = NeighbourPlan { loss: LossKind::Elbo, ..*neighbours };
    let stays = std::mem::replace(&mut model.fix_inducing, true);
    let mut objective = NeighbourObjective::new(model, train, evidence, plan.options.seed)?;
    objective.end = monitor.session.end();
    let theta = objective.start();
    rounds(&mut objective, theta, &ROUNDS, plan, few, monitor)?;
    Ok(LatentModel { fix_inducing: stays, ..objective.into_parts().0 })
}

/// Runs rounds of some rows and iterations each, and looks up neighbours again between them; returns the end point.
fn rounds(
    objective: &mut NeighbourObjective<'_>,
    mut theta: Vec<f64>,
    rounds: &[(usize, usize)],
    plan: &Plan,
    k: usize,
    monitor: &mut Monitor<'_>,
) -> Result<Vec<f64>> {
    let n = objective.rows();
    for &(terms, iterations) in rounds {
        if monitor.session.is_late() {
            break;
        }
        let rows = terms.min(n);
        objective.look_up(rows, k);
        let before = objective.has_sites().then(|| objective.solve(&theta)).flatten();
        let epochs = iterations.min(plan.limits.epochs);
        let limits = Limits { epochs, plateaus: 0, target: None, ..monitor.limits };
        let mut warm = monitor.warm_start(rows, limits);
        let counted = objective.counted() as f64;
        let to = minimize(objective, theta.clone(), counted, plan, &mut warm).theta;
        monitor.session.check()?;
        theta = reached(objective, &theta, before, to, rows, k)?;
    }
    Ok(theta)
}

/// Returns the end of a round from the point `from` to the point `to`. A round lowers the objective
/// with the sites of its start, which is valid only near that start. So with sites, whose objective
/// was `before`, the sites are matched again at `to`, with these numbers of rows and neighbours. If
/// the objective is then higher, the path is halved and tried again. If no point is better, the
/// round ends at `from`, with its sites.
fn reached(
    objective: &mut NeighbourObjective<'_>,
    from: &[f64],
    before: Option<f64>,
    mut to: Vec<f64>,
    rows: usize,
    k: usize,
) -> Result<Vec<f64>> {
    let Some(before) = before else {
        objective.solve(&to).ok_or_else(failed_start)?;
        return Ok(to);
    };
    let sites = objective.sites.as_ref().map(|sites| sites.values.clone());
    for _ in 0..=HALVINGS {
        if objective.solve(&to).is_some() {
            objective.look_up(rows, k);
            if objective.solve(&to).is_some_and(|value| value <= before) {
                return Ok(to);
            }
        }
        to.iter_mut().zip(from).for_each(|(to, from)| *to = 0.5 * (*to + from));
    }
    if let (Some(own), Some(values)) = (&mut objective.sites, sites) {
        own.values = values;
    }
    objective.solve(from).ok_or_else(failed_start)?;
    Ok(from.to_vec())
}
