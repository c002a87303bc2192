//! A latent linear model with its posterior: evaluates a batch, hands the gradient of θ and Z upwards, and moves q along with them.

use crate::checkpoint::Archive;
use crate::gradient::{Batch, BatchPass, Form, Precision, Problem};
use crate::model::{LatentModel, MixedUse};
use crate::objective::{EstimatorCounts, Objective};
use crate::threads::{self, on_pool};
use crate::variational::carry::{SiteAdjoint, SiteCarrier};
use crate::variational::{DataGradient, Factor, Normal, Parameterization, StepInfo, UpdateRule};

/// A model with its posterior, objective and the buffers of a step.
pub struct VariationalModel {
    /// Kernel, mean, likelihood and inducing inputs.
    pub model: LatentModel,
    q: Normal,
    objective: Objective,
    parameterization: Parameterization,
    pass: BatchPass,
    capacity: usize,
    flat: Vec<f64>,
    /// Above this cond(K_uu) the direct form is not used; `None` always takes the stable form.
    direct_guard: Option<f64>,
    carrier: Option<SiteCarrier>,
    site_adjoint: Option<SiteAdjoint>,
    mixed: Option<MixedUse>,
}

impl VariationalModel {
    /// The direct form loses about ε·cond(K_uu)/100 of `k_ii` in the variances (measured, docs/performance.md), and ε·cond(K_uu) at
    /// worst: with this guard 2·10⁻⁹ and 2·10⁻⁷, where the default jitter, 10⁻⁶, leaves 10⁻⁶ of `k_ii` in every residual variance.
    pub const DIRECT_GUARD: f64 = 1e9;

    /// More rows than any batch has: a saved state that asks for more is damaged.
    const LARGEST_BATCH: usize = 1 << 24;

    /// An SVGP from a refreshed model and a whitened posterior, for batches of up to `batch` data.
    pub fn new(model: LatentModel, q: Normal, objective: Objective, batch: usize) -> Self {
        let pass = BatchPass::new(&*model.layer, model.likelihood.as_ref(), objective, &q, batch);
        VariationalModel {
            model,
            q,
            objective,
            parameterization: Parameterization::Whitened,
            pass,
            capacity: batch,
            flat: Vec::new(),
            direct_guard: None,
            carrier: None,
            site_adjoint: None,
            mixed: None,
        }
    }

    /// Chooses what stays put when θ moves.
    pub fn with_parameterization(mut self, parameterization: Parameterization) -> Self {
        self.parameterization = parameterization;
        self
    }

    /// Chooses what stays put when θ moves from here on; the choice before is returned.
    pub(super) fn hold(&mut self, parameterization: Parameterization) -> Parameterization {
        std::mem::replace(&mut self.parameterization, parameterization)
    }

    /// Allows the direct form while cond(K_uu) is at most `guard`; `None` for the stable form always.
    pub fn with_direct_guard(mut self, guard: Option<f64>) -> Self {
        self.direct_guard = guard;
        self
    }

    /// Chooses the precision of batches from here on.
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.mixed = (precision == Precision::Mixed).then(MixedUse::default);
        self
    }

    /// What mixed precision did so far, where it was chosen.
    pub fn mixed_use(&self) -> Option<MixedUse> {
        self.mixed
    }

    /// Seeds what sampling estimators draw.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.pass.seed(seed);
        self
    }

    /// Draws `count` samples of w per evaluation from here on, where the estimator draws any.
    pub fn set_samples(&mut self, count: usize) {
        self.pass.set_samples(count);
    }

    /// The samples of w that an evaluation draws.
    pub fn samples(&self) -> usize {
        self.pass.samples()
    }

    /// The most data that an evaluation takes at once.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for batches of `batch` data, at least twice what there was if there has to be more.
    pub fn reserve(&mut self, batch: usize) {
        if batch > self.capacity {
            self.resize(batch.max(2 * self.capacity));
        }
    }

    fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        let likelihood = self.model.likelihood.as_ref();
        let mut other = BatchPass::new(&*self.model.layer, likelihood, self.objective, &self.q, capacity);
        other.go_on_from(&self.pass);
        self.pass = other;
    }

    /// Passes parameters, q and where sampling has come to through an archive. Buffers become as large as they were: how
    /// sums are grouped depends on it.
    pub(super) fn archive(&mut self, archive: &mut Archive) {
        let (mut natural, mut capacity) = (self.model.natural(), self.capacity);
        archive.numbers(&mut natural);
        archive.value(&mut capacity);
        let sensible = capacity == self.capacity || (1..=Self::LARGEST_BATCH).contains(&capacity);
        if !sensible || !natural.iter().all(|x| x.is_finite()) {
            archive.refuse();
            return;
        }
        if archive.is_reading() {
            self.model.set_natural(&natural);
            if self.model.refresh().is_err() {
                archive.refuse();
            }
            if capacity != self.capacity {
                self.resize(capacity);
            }
        }
        self.q.archive(archive);
        self.pass.archive(archive);
        if let Some(mixed) = &mut self.mixed {
            archive.value(mixed);
        }
    }

    /// What sampling estimators did so far.
    pub fn estimator_counts(&self) -> EstimatorCounts {
        self.pass.estimator_counts()
    }

    /// What is minimised.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// The whitened posterior.
    pub fn q(&self) -> &Normal {
        &self.q
    }

    /// Replaces the whitened posterior.
    pub fn set_q(&mut self, q: Normal) {
        self.q = q;
    }

    /// The form that the guard allows at the current parameters.
    pub fn form(&self) -> Form {
        match self.direct_guard {
            Some(guard) if self.model.layer.condition_is_at_most(guard) => Form::Direct,
            _ => Form::Stable,
        }
    }

    /// The objective on a batch, `scale·Σ ℓ_i + β KL`, with all gradients kept inside.
    pub fn evaluate(&mut self, batch: Batch<'_>, train_theta: bool) -> f64 {
        self.evaluate_with(batch, train_theta, None)
    }

    /// The same for a `rule` that may carry a factor of S, in which reparameterised gradients then are.
    pub fn evaluate_under(&mut self, batch: Batch<'_>, train_theta: bool, rule: &dyn UpdateRule) -> f64 {
        self.evaluate_with(batch, train_theta, rule.factor())
    }

    fn evaluate_with(&mut self, batch: Batch<'_>, train_theta: bool, factor: Option<Factor<'_>>) -> f64 {
        on_pool(self.batch_work(batch.targets.len()), || {
            let value = self.run(batch, train_theta, factor);
            if train_theta && value.is_finite() {
                self.finish_theta();
            }
            value
        })
    }

    /// The data part `scale·Σ ℓ_i` of the objective on a batch, with its gradient in q kept inside.
    pub fn evaluate_data(&mut self, batch: Batch<'_>) -> f64 {
        on_pool(self.batch_work(batch.targets.len()), || self.run_data(batch, false, None))
    }

    /// The multiplications of one product over a batch of so many rows.
    pub(super) fn batch_work(&self, rows: usize) -> usize {
        self.q.dim().pow(2) * rows
    }

    fn run(&mut self, batch: Batch<'_>, train_theta: bool, factor: Option<Factor<'_>>) -> f64 {
        self.run_data(batch, train_theta, factor) + self.objective.beta * self.q.kl()
    }

    fn run_data(&mut self, batch: Batch<'_>, train_theta: bool, factor: Option<Factor<'_>>) -> f64 {
        let mixes = self.mixed.is_some_and(|mixed| !mixed.fallen_back);
        // The estimate of a condition number that the choice of a form takes has no use for mixed precision.
        let form = if mixes { Form::Stable } else { self.form() };
        let problem = Problem {
            layer: &*self.model.layer,
            likelihood: self.model.likelihood.as_ref(),
            objective: self.objective,
            q: &self.q,
            factor,
        };
        let Some(mixed) = self.mixed.as_mut().filter(|_| mixes) else {
            return self.pass.run(problem, batch, form, train_theta);
        };
        let exact = mixed.is_due().then(|| self.pass.run(problem, batch, form, false));
        let value = self.pass.run(problem, batch, Form::Mixed, train_theta);
        let rows = batch.scale * batch.targets.total_weight();
        let disagrees = |exact: f64| exact.is_finite() && mixed.disagrees((value - exact) / rows);
        if exact.is_some_and(disagrees) || !value.is_finite() {
            return self.pass.run(problem, batch, form, train_theta);
        }
        value
    }

    /// Completes the gradient in θ and Z.
    fn finish_theta(&mut self) {
        let moving = match self.parameterization {
            Parameterization::Whitened => None,
            Parameterization::Sites => {
                let adjoint = self.site_adjoint.get_or_insert_with(|| SiteAdjoint::new(self.q.dim()));
                Some(adjoint.of(&self.q, &self.pass.marginal_gradient(), self.objective.beta))
            }
        };
        self.pass.finish_theta(&*self.model.layer, moving);
    }

    /// The gradient of the last evaluation in the order of the model's flat vector (natural units).
    pub fn theta_gradient(&mut self) -> &[f64] {
        let pass = &self.pass;
        self.model.flatten_gradient(pass.layer_gradient(), pass.likelihood_gradient(), &mut self.flat);
        &self.flat
    }

    /// The data part of the gradient in the whitened (m, S) of the last evaluation.
    pub fn q_gradient(&self) -> DataGradient<'_> {
        self.pass.q_gradient()
    }

    /// Latent means and variances of the last batch of `b` data.
    pub fn last_marginals(&self, b: usize) -> (Vec<f64>, Vec<f64>) {
        self.pass.marginals(b)
    }

    /// Moves q by `rule` along the gradient of the last evaluation.
    pub fn update_q(&mut self, rule: &mut dyn UpdateRule, step: f64) -> StepInfo {
        let (q, gradient, beta) = (&mut self.q, self.pass.q_gradient(), self.objective.beta);
        on_pool(q.dim().pow(3), || rule.step(q, gradient, beta, step))
    }

    /// Moves q by `rule` along a gradient gathered elsewhere.
    pub fn update_q_along(
        &mut self,
        rule: &mut dyn UpdateRule,
        gradient: DataGradient<'_>,
        step: f64,
    ) -> StepInfo {
        rule.step(&mut self.q, gradient, self.objective.beta, step)
    }

    /// The model and its posterior.
    pub fn into_parts(self) -> (LatentModel, Normal) {
        (self.model, self.q)
    }

    /// Moves θ and Z and refactorises; on failure nothing has changed. What the parameterisation says stays put does.
    pub fn set_natural(&mut self, values: &[f64]) -> bool {
        self.move_to(values, None)
    }

    /// The same for a `rule` that has moved q, which takes up where q goes.
    pub fn set_natural_under(&mut self, values: &[f64], rule: &mut dyn UpdateRule) -> bool {
        self.move_to(values, Some(rule))
    }

    fn move_to(&mut self, values: &[f64], rule: Option<&mut dyn UpdateRule>) -> bool {
        on_pool(self.q.dim().pow(3), || {
            self.remember();
            let moved = refactorise(&mut self.model, values);
            if moved {
                self.carry(rule);
            }
            moved
        })
    }

    /// [`VariationalModel::update_q`] and [`VariationalModel::set_natural_under`] side by side: neither's M³ work alone keeps all
    /// threads busy. Whether θ and Z could be moved comes back with what became of q.
    pub fn advance(&mut self, rule: &mut dyn UpdateRule, step: f64, values: &[f64]) -> (StepInfo, bool) {
        let work = self.q.dim().pow(3);
        on_pool(work, || {
            self.remember();
            let (q, model, beta) = (&mut self.q, &mut self.model, self.objective.beta);
            let gradient = self.pass.q_gradient();
            let update = || rule.step(q, gradient, beta, step);
            let (info, moved) = threads::beside(work, update, || refactorise(model, values));
            if moved {
                self.carry(Some(rule));
            }
            (info, moved)
        })
    }

    /// Remembers of `L` what carrying q to another one takes.
    fn remember(&mut self) {
        if let (Parameterization::Sites, Some(layer)) = (self.parameterization, self.model.layer.inducing()) {
            let carrier = self.carrier.get_or_insert_with(|| SiteCarrier::new(layer.z().nrows()));
            carrier.remember(layer.inverse_factor());
        }
    }

    /// Carries q from what was remembered to the present `L`, and a `rule` with it.
    fn carry(&mut self, rule: Option<&mut dyn UpdateRule>) {
        let (Parameterization::Sites, Some(layer), Some(carrier)) =
            (self.parameterization, self.model.layer.inducing(), &mut self.carrier)
        else {
            return;
        };
        let known = rule.as_ref().and_then(|rule| rule.precision());
        let carried = carrier.carry(&mut self.q, known, layer.factor());
        if let (Some(precision), Some(rule)) = (carried, rule) {
            rule.restart_at(&self.q, precision);
        }
    }
}

/// Moves θ and Z and refactorises; on failure nothing has changed.
fn refactorise(model: &mut LatentModel, values: &[f64]) -> bool {
    let before = model.natural();
    model.set_natural(values);
    let moved = model.refresh().is_ok();
    if !moved {
        // The factor is a function of the parameters, and these were factorised before.
        model.set_natural(&before);
        let _ = model.refresh();
    }
    moved
}
