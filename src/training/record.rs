//! The outcome of a fit as a self-contained model, and the way back: a model as the start of
//! another fit.

use super::diagnose::absolute_jitter;
use super::run::Fitted;
use super::start::Start;
use crate::data::Scaling;
use crate::hyper::{Columns, Constraints, StopReason};
use crate::model::{FitSummary, LatentModel, LatentPrior, Model, Posterior, Search};
use crate::options::{FitOptions, StepOptions};
use crate::variational::{Family, Normal};
use faer::MatRef;

impl Fitted {
    /// Returns the fitted model of a user's training loop; `objective` is the sum over `rows` rows.
    pub fn by_hand(model: &LatentModel, q: &[Normal], objective: f64, rows: usize) -> Fitted {
        let summary = FitSummary {
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
        };
        let posterior = Posterior::new(model, q);
        let (model, q, search) = (model.to_prior(), q.to_vec(), Search::default());
        Fitted { model, q, posterior, summary, search, targets: (Vec::new(), Vec::new()) }
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
        }
    }

    /// Returns the sum over `rows` rows, of which `targets` may be a sample, that turns log densities of scaled targets into those of the target.
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
