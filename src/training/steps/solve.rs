//! Full-batch training of q at fixed hyper-parameters: natural-gradient steps that never raise the
//! objective.

use super::extrapolation::descend_together;
use super::model::VariationalModel;
use crate::error::Result;
use crate::hyper::{Monitor, StopReason};
use crate::training::rows::AllRows;
use crate::variational::{
    DataGradient, Evidence, Family, Guard, Matrix, Normal, QUpdate, RuleOptions, Rules,
};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Evaluation and rollback counts.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(in crate::training) struct UpdateCounts {
    pub evaluations: usize,
    pub rollbacks: usize,
}

impl UpdateCounts {
    pub(in crate::training) fn add(&mut self, other: UpdateCounts) {
        self.evaluations += other.evaluations;
        self.rollbacks += other.rollbacks;
    }
}

/// The stopping rule of the optimisation of q.
#[derive(Clone, Copy, Debug)]
pub(in crate::training) struct SolveLimits {
    /// The maximum number of steps.
    pub steps: usize,
    /// The improvement of the objective, in nats per row, below which steps end: with one function
    /// after three smaller improvements in a row, with several functions as soon as a step would
    /// gain less.
    pub tolerance: f64,
    /// The time after which no further step begins.
    pub end: Option<Instant>,
}

impl SolveLimits {
    /// Returns true if the time is over.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// A pass over all rows.
#[derive(Clone, Copy)]
pub(in crate::training) struct Sweep<'a> {
    rows: &'a dyn AllRows,
    /// The number of rows that are evaluated at once.
    part: usize,
    /// The weight of every row.
    scale: f64,
    /// The evidence of earlier rows about every process; empty if there are no earlier rows.
    earlier: &'a [Evidence],
}

impl<'a> Sweep<'a> {
    /// Creates a pass over `rows` in parts of `part` rows.
    pub(in crate::training) fn of(rows: &'a dyn AllRows, part: usize) -> Self {
        Sweep { rows, part, scale: 1.0, earlier: &[] }
    }

    /// Adds the evidence of earlier rows about every process.
    pub(in crate::training) fn after(self, earlier: &'a [Evidence]) -> Self {
        Sweep { earlier, ..self }
    }

    /// Marks the rows as a sample that represents `n` rows.
    pub(in crate::training) fn standing_for(self, n: usize) -> Self {
        Sweep { scale: n as f64 / self.rows.count() as f64, ..self }
    }
}

/// The value and gradients of an objective over all rows, collected batch by batch.
pub(in crate::training) struct FullBatch<'a> {
    sweep: Sweep<'a>,
    processes: Vec<Gathered>,
}

/// The gradient of one process.
struct Gathered {
    mean: Vec<f64>,
    cov: Matrix,
    curvature: Option<Matrix>,
}

/// Returns the objective on all rows, a sum; it is exact for every estimator of the training.
///
/// # Errors
///
/// If rows cannot be read, or summed over.
pub(in crate::training) fn full_objective(svgp: &mut VariationalModel, sweep: Sweep<'_>) -> Result<f64> {
    let trained = svgp.objective();
    svgp.set_objective(trained.without_samples());
    let value = FullBatch::new(svgp, sweep).evaluate(svgp);
    svgp.set_objective(trained);
    value
}

impl Gathered {
    fn zeros(q: &Normal, curved: bool) -> Gathered {
        let (m, family) = (q.dim(), q.family());
        let curvature = curved.then(|| Matrix::zeros(family, m));
        Gathered { mean: vec![0.0; m], cov: Matrix::zeros(family, m), curvature }
    }

    fn clear(&mut self) {
        self.mean.fill(0.0);
        self.cov.fill(0.0);
        self.curvature.iter_mut().for_each(|curvature| curvature.fill(0.0));
    }

    fn add(&mut self, gradient: DataGradient<'_>) {
        self.mean.iter_mut().zip(gradient.mean).for_each(|(sum, g)| *sum += g);
        self.cov.add(gradient.cov);
        if let (Some(sum), Some(term)) = (&mut self.curvature, gradient.curvature) {
            sum.add(term);
        }
    }

    fn gradient(&self) -> DataGradient<'_> {
        let curvature = self.curvature.as_ref().map(Matrix::as_ref);
        DataGradient { mean: &self.mean, cov: self.cov.as_ref(), curvature, path: None }
    }
}

impl<'a> FullBatch<'a> {
    fn new(svgp: &VariationalModel, sweep: Sweep<'a>) -> Self {
        let curved = svgp.objective().has_own_curvature();
        FullBatch { sweep, processes: svgp.posteriors().iter().map(|q| Gathered::zeros(q, curved)).collect() }
    }

    /// Returns the gradients of all processes at the q evaluated last.
    pub(in crate::training) fn gradients(&self) -> impl Iterator<Item = DataGradient<'_>> {
        self.processes.iter().map(Gathered::gradient)
    }

    /// Returns the objective at the current q, and leaves the data part of the gradients in `processes`.
    pub(in crate::training) fn evaluate(&mut self, svgp: &mut VariationalModel) -> Result<f64> {
        self.processes.iter_mut().for_each(Gathered::clear);
        let mut value = 0.0;
        let Sweep { rows, part, scale, earlier } = self.sweep;
        let mut summed = Ok(());
        rows.for_each(part, &mut |part| match svgp.evaluate_data(part, scale) {
            Ok(of_part) => {
                value += of_part;
                for (process, gathered) in self.processes.iter_mut().enumerate() {
                    gathered.add(svgp.q_gradient_of(process));
                }
            }
            Err(error) => summed = Err(error),
        })?;
        summed?;
        let beta = svgp.objective().beta;
        for ((gathered, earlier), q) in self.processes.iter_mut().zip(earlier).zip(svgp.posteriors()) {
            let Gathered { mean, cov, curvature } = gathered;
            value += earlier.add_to(q, beta, mean, cov, curvature.as_mut());
        }
        Ok(value + beta * svgp.kl())
    }
}

/// Moves q by natural-gradient steps on all rows. The first step has size 1, which needs no tuning;
/// a step that raises the objective is rolled back and halved. Returns the objective at the end, a
/// sum; NaN if it cannot be evaluated at all.
///
/// With a `monitor` every step is recorded as an epoch; without, the steps are silent.
///
/// # Errors
///
/// If rows cannot be read; q is then that before or after the current step.
pub(in crate::training) fn solve_q(
    svgp: &mut VariationalModel,
    sweep: Sweep<'_>,
    guard: Guard,
    limits: SolveLimits,
    monitor: Option<&mut Monitor<'_>>,
) -> Result<(f64, UpdateCounts)> {
    // Only q moves, so the features of rows that are evaluated at once can be kept.
    svgp.keep_features(sweep.rows.is_one_part(sweep.part));
    let solved = descend(svgp, sweep, guard, limits, monitor);
    svgp.keep_features(false);
    solved
}

/// Records a step with the objective per row that it ended at, and the end of the optimisation if it has converged.
pub(super) fn record_step(monitor: Option<&mut Monitor<'_>>, value: f64, converged: bool) {
    let Some(monitor) = monitor else { return };
    monitor.record(value, None);
    monitor.look_around(None);
    if converged {
        monitor.stop(StopReason::Converged);
    }
}

/// Takes the steps of [`solve_q`].
fn descend(
    svgp: &mut VariationalModel,
    sweep: Sweep<'_>,
    guard: Guard,
    limits: SolveLimits,
    mut monitor: Option<&mut Monitor<'_>>,
) -> Result<(f64, UpdateCounts)> {
    const SMALLEST_STEP: f64 = 1e-4;
    let mut full = FullBatch::new(svgp, sweep);
    let n = sweep.scale * sweep.rows.count() as f64;
    let full_q = svgp.q().family() == Family::Full;
    if svgp.posteriors().len() > 1 && full_q && !svgp.objective().has_own_curvature() {
        return descend_together(svgp, &mut full, limits, n, monitor);
    }
    let mut value = full.evaluate(svgp)?;
    let mut counts = UpdateCounts { evaluations: 1, rollbacks: 0 };
    let (mut step, mut small) = (1.0, 0);
    let mut rules = Rules::of_all(&RuleOptions { guard, ..RuleOptions::of(QUpdate::Ngd) }, svgp.posteriors());
    for _ in 0..limits.steps {
        let stopped = monitor.as_ref().is_some_and(|monitor| monitor.stopped().is_some());
        if !value.is_finite() || stopped || limits.is_over() {
            break;
        }
        let before = svgp.posteriors().to_vec();
        let info = svgp.update_all_along(&mut rules, &|process| full.processes[process].gradient(), step);
        counts.rollbacks += info.rollbacks;
        if info.step == 0.0 {
            break;
        }
        let next = full.evaluate(svgp)?;
        counts.evaluations += 1;
        let gain = (value - next) / n;
        if next.is_finite() && gain >= 0.0 {
            value = next;
            step = (2.0 * info.step).min(1.0);
            small = if gain < limits.tolerance { small + 1 } else { 0 };
        } else {
            svgp.set_q(before);
            rules.restart(svgp.posteriors());
            // The objective has reached its minimum, up to rounding errors.
            let rounded = next.is_finite() && gain > -f64::EPSILON * (value / n).abs().max(1.0) * 64.0;
            if !rounded {
                // Restores the gradient at the earlier point.
                full.evaluate(svgp)?;
                counts.evaluations += 1;
                counts.rollbacks += 1;
                step = 0.5 * info.step;
            }
            if rounded || step < SMALLEST_STEP {
                small = 3;
            }
        }
        record_step(monitor.as_deref_mut(), value / n, small >= 3);
        if small >= 3 {
            break;
        }
    }
    Ok((value, counts))
}
