//! The search beyond an optimum of grouped effects at which an effect has vanished, or loses against a model without it.
//!
//! The evidence is flat in the logarithm of a standard deviation near 0, and effects that are independent at the user's 0 of a column far from
//! it can stand in for each other. A minimisation may therefore end below a model with fewer effects.

use crate::effects::Effects;
use crate::hyper::{Limits, Monitor, Outcome, StopReason};
use crate::options::Plan;
use crate::training::solver::{Solved, minimize};

/// The part of an effect that does not depend on the effects before it has vanished if it is below this share of its start, or of the standard
/// deviation of the effect.
const VANISHED: f64 = 0.1;

/// The shares of its start that a vanished part is tried with, and the share that stands for a removed effect.
const TRIED: [f64; 2] = [0.03, 0.3];
const REMOVED: f64 = 1e-3;

/// The distance of the user's 0 from the middle of a slope's column, in standard deviations, from which independent effects stand in for each
/// other.
const FAR: f64 = 0.5;

/// The least gain, in nats, for which a search continues from another point, and the maximum number of such searches.
const GAIN: f64 = 1e-3;
const MOST_SEARCHES: usize = 6;

/// Other factors of the effects to continue from.
struct Probe {
    effects: Effects,
    /// True if the search continues from here even if the objective is higher here.
    always: bool,
}

/// Continues a minimisation that has ended in `found`, as long as other values of the effects lead to a lower objective. `start` has the effects
/// at the start of training, and `n` is the number of rows.
pub(in crate::training) fn search_beyond(
    objective: &mut dyn Solved,
    start: &Effects,
    found: &mut Outcome,
    (n, plan): (f64, &Plan),
    monitor: &mut Monitor<'_>,
) {
    for search in 0..MOST_SEARCHES {
        let before = found.value;
        for Probe { effects, always } in probes(&objective.place().effects_at(&found.theta), start) {
            let is_optimum = matches!(found.reason, StopReason::Converged | StopReason::NoProgress);
            let limits = monitor.limits;
            let seconds = limits.seconds.map(|seconds| seconds - monitor.elapsed().as_secs_f64());
            let late = monitor.session.is_late() || seconds.is_some_and(|left| left <= 0.0);
            if !is_optimum || late || monitor.session.is_interrupted() {
                return;
            }
            let theta = objective.place().with_effects(&found.theta, &effects);
            let value = objective.value_and_gradient(&theta, &mut vec![0.0; theta.len()]);
            found.evaluations += 1;
            if !(value < found.value - GAIN || always && search == 0) {
                continue;
            }
            let limits = Limits { plateaus: 0, target: None, seconds, ..limits };
            let next = minimize(objective, theta, n, plan, &mut monitor.nested(limits));
            found.iterations += next.iterations;
            found.evaluations += next.evaluations;
            if next.value < found.value - GAIN {
                (found.theta, found.value, found.reason) = (next.theta, next.value, next.reason);
            }
        }
        if found.value >= before {
            return;
        }
    }
}

/// Returns other factors of one term each.
fn probes(at: &Effects, start: &Effects) -> Vec<Probe> {
    let mut out = Vec::new();
    for (term, of) in at.terms().iter().enumerate() {
        let (factor, first) = (at.factor(term), start.factor(term));
        let norm = |i: usize| (0..=i).map(|k| factor[(i, k)].powi(2)).sum::<f64>().sqrt();
        // A row of the factor with another diagonal, and without its correlations or with them.
        let mut with_row = |row: usize, size: f64, correlated: bool| {
            let mut factor = factor.clone();
            (0..row).filter(|_| !correlated).for_each(|k| factor[(row, k)] = 0.0);
            factor[(row, row)] = size;
            let mut effects = at.clone();
            effects.set_factor(term, factor.as_ref());
            out.push(Probe { effects, always: false });
        };
        for row in 0..of.width() {
            let usual = first[(row, row)];
            if factor[(row, row)] < VANISHED * usual {
                TRIED.iter().for_each(|share| with_row(row, share * usual, true));
            }
            if norm(row) >= VANISHED * usual {
                with_row(row, REMOVED * usual, false);
                if factor[(row, row)] < VANISHED * norm(row) {
                    with_row(row, norm(row), false);
                }
            }
        }
        if !of.correlated && of.width() > 1 && of.origins.iter().any(|origin| origin.abs() > FAR) {
            // Each effect alone, from which the others may grow.
            for alone in 0..of.width() {
                let mut factor = first.clone();
                let others = (0..of.width()).filter(|row| *row != alone);
                others.for_each(|row| factor[(row, row)] *= TRIED[0]);
                let mut effects = at.clone();
                effects.set_factor(term, factor.as_ref());
                out.push(Probe { effects, always: true });
            }
        }
    }
    out
}
