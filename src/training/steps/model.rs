//! A latent linear model with its posteriors: evaluates a batch, passes on the gradient of θ and Z, and moves q along with them.

use crate::collapsed::Dataset;
use crate::error::Result;
use crate::gradient::{Batch, BatchPass, DrawState, Form, Problem, ProcessSums, Wanted};
use crate::linalg;
use crate::model::LatentModel;
use crate::objective::Objective;
use crate::threads::{self, on_pool};
use crate::training::row_sums::{Sweep, sum_over};
use crate::training::rows::Portion;
use crate::variational::carry::{SiteAdjoint, SiteCarrier};
use crate::variational::{
    DataGradient, Evidence, Factor, Normal, Parameterization, Rules, StepInfo, UpdateRule,
};
use faer::MatMut;
use serde::{Deserialize, Serialize};

/// A model with its posterior, objective and the buffers of a step.
pub struct VariationalModel {
    /// Kernel, mean, likelihood and inducing inputs.
    #[doc(hidden)]
    pub model: LatentModel,
    /// The whitened posterior of every process.
    q: Vec<Normal>,
    pub(in crate::training) objective: Objective,
    /// The iteration of training, which determines the decay of smoothing.
    iteration: usize,
    pub(in crate::training) parameterization: Parameterization,
    pub(in crate::training) pass: BatchPass,
    /// The maximum number of rows that an evaluation takes at once.
    pub(in crate::training) capacity: usize,
    flat: Vec<f64>,
    /// The cond(K_uu) above which the direct form is not used; `None` always uses the stable form.
    direct_guard: Option<f64>,
    /// The carrier of every process, once sites are carried.
    carriers: Vec<SiteCarrier>,
    site_adjoints: Vec<SiteAdjoint>,
    /// The evidence of earlier rows about every process; empty if there are no earlier rows.
    pub(in crate::training) earlier: Vec<Evidence>,
}

/// Parameters, q and the state of sampling.
#[derive(Serialize, Deserialize)]
pub(in crate::training) struct ModelState {
    natural: Vec<f64>,
    q: Vec<Normal>,
    /// The size of the buffers, on which the grouping of sums depends.
    capacity: usize,
    draws: DrawState,
}

impl VariationalModel {
    /// The usual cond(K_uu) above which the direct form is not used. The direct form loses about
    /// ε·cond(K_uu)/100 of `k_ii` in the variances (measured, docs/performance.md), and
    /// ε·cond(K_uu) at worst: with this guard 2·10⁻⁹ and 2·10⁻⁷. The default jitter, 10⁻⁶, leaves
    /// 10⁻⁶ of `k_ii` in every residual variance.
    #[doc(hidden)]
    pub const DIRECT_GUARD: f64 = 1e9;

    /// The maximum number of rows in a batch; a saved state with more rows is damaged.
    const LARGEST_BATCH: usize = 1 << 24;

    /// Creates a model with the whitened posterior of its process, or of each process, for batches
    /// of up to `batch` rows.
    pub fn new(model: LatentModel, q: impl Into<Vec<Normal>>, objective: Objective, batch: usize) -> Self {
        let q = q.into();
        let problem = Problem::new(model.layers(), &model.likelihood, objective, &q);
        let pass = BatchPass::new(problem, batch);
        VariationalModel {
            model,
            q,
            objective,
            iteration: 0,
            parameterization: Parameterization::Whitened,
            pass,
            capacity: batch,
            flat: Vec::new(),
            direct_guard: None,
            carriers: Vec::new(),
            site_adjoints: Vec::new(),
            earlier: Vec::new(),
        }
    }

    /// Chooses what stays fixed when θ moves.
    #[doc(hidden)]
    pub fn with_parameterization(mut self, parameterization: Parameterization) -> Self {
        self.parameterization = parameterization;
        self
    }

    /// Allows the direct form if cond(K_uu) is at most `guard`; `None` always uses the stable form.
    #[doc(hidden)]
    pub fn with_direct_guard(mut self, guard: Option<f64>) -> Self {
        self.direct_guard = guard;
        self
    }

    /// Seeds the draws of sampling estimators.
    #[doc(hidden)]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.pass.seed(seed);
        self
    }

    /// Draws `count` samples per evaluation from here on, of w or of f for each datum, if the estimator draws any.
    pub(crate) fn set_samples(&mut self, count: usize) {
        self.objective = self.objective.with_latent_samples(count);
        self.pass.set_samples(count);
    }

    /// Returns the number of samples of w, or of f for each row, that an evaluation draws.
    pub(crate) fn samples(&self) -> usize {
        self.objective.estimator().latent_samples().unwrap_or(self.pass.samples())
    }

    /// Sets the iteration t = 0, 1, … of the evaluations that follow, by which smoothing decays (smooth-bmc:L:NU/t).
    pub(crate) fn set_iteration(&mut self, iteration: usize) {
        self.iteration = iteration;
    }

    /// Reserves memory for batches of `batch` rows; if memory has to grow, it at least doubles.
    #[doc(hidden)]
    pub fn reserve(&mut self, batch: usize) {
        if batch > self.capacity {
            self.resize(batch.max(2 * self.capacity));
        }
    }

    /// Reserves memory for exactly this number of rows.
    pub(in crate::training) fn make_room(&mut self, batch: usize) {
        if batch != self.capacity {
            self.resize(batch);
        }
    }

    fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        let problem = Problem::new(self.model.layers(), &self.model.likelihood, self.objective, &self.q);
        let mut other = BatchPass::new(problem, capacity);
        other.go_on_from(&self.pass);
        self.pass = other;
    }

    pub(in crate::training) fn state(&self) -> ModelState {
        let (natural, q) = (self.model.natural(), self.q.clone());
        ModelState { natural, q, capacity: self.capacity, draws: self.pass.draws() }
    }

    /// Continues from a state; returns false if it does not suit the model, whose state is then undefined.
    pub(in crate::training) fn restore(&mut self, state: ModelState) -> bool {
        let ModelState { natural, q, capacity, draws } = state;
        let suits = Normal::are_like(&self.q, &q)
            && (capacity == self.capacity || (1..=Self::LARGEST_BATCH).contains(&capacity))
            && natural.len() == self.model.natural().len()
            && natural.iter().all(|x| x.is_finite())
            && self.model.set_natural(&natural).is_ok();
        if suits {
            self.q = q;
            self.make_room(capacity);
        }
        suits && self.pass.set_draws(draws)
    }

    /// Returns the objective to minimise.
    #[doc(hidden)]
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// Returns the whitened posterior of the only process, or of the first.
    pub fn q(&self) -> &Normal {
        &self.q[0]
    }

    /// Returns the whitened posteriors of all processes.
    #[doc(hidden)]
    pub fn posteriors(&self) -> &[Normal] {
        &self.q
    }

    /// Returns `KL(q ‖ p)` of all processes together.
    #[doc(hidden)]
    pub fn kl(&self) -> f64 {
        self.q.iter().map(Normal::kl).sum()
    }

    /// Replaces the whitened posterior, or those of all processes.
    #[doc(hidden)]
    pub fn set_q(&mut self, q: impl Into<Vec<Normal>>) {
        self.q = q.into();
    }

    /// Returns the form that the guard allows at the current parameters.
    #[doc(hidden)]
    pub fn form(&self) -> Form {
        match self.direct_guard {
            Some(guard) if self.model.layers.iter().all(|layer| layer.condition_is_at_most(guard)) => {
                Form::Direct
            }
            _ => Form::Stable,
        }
    }

    /// Returns the objective on a batch, `scale·Σ ℓ_i + β KL`, and stores all gradients.
    pub fn evaluate(&mut self, batch: Batch<'_>, train_theta: bool) -> f64 {
        self.evaluate_under(batch, train_theta, None)
    }

    /// Like [`evaluate`](Self::evaluate), for rules that may carry a factor of S, in which reparameterised gradients are then taken.
    #[doc(hidden)]
    pub fn evaluate_under(&mut self, batch: Batch<'_>, train_theta: bool, factor: Option<Factor<'_>>) -> f64 {
        let Batch { x, targets, scale } = batch;
        let rows = Portion::Here(Dataset { x, targets });
        // Sums over rows in memory cannot fail.
        self.evaluate_all(Sweep::of_weight(&rows, scale), train_theta, factor).unwrap_or(f64::NAN)
    }

    /// Returns the objective on all rows of a sweep, a sum, and stores its gradient in q and, with `train_theta`, in θ and Z. `factor` is as in
    /// [`evaluate_under`](Self::evaluate_under).
    pub(in crate::training) fn evaluate_all(
        &mut self,
        sweep: Sweep<'_>,
        train_theta: bool,
        factor: Option<Factor<'_>>,
    ) -> Result<f64> {
        let (form, wanted) = (self.form(), Wanted::of(train_theta));
        let (objective, model) = (self.objective.at(self.iteration), &self.model);
        let problem =
            Problem { factor, ..Problem::new(model.layers(), &model.likelihood, objective, &self.q) };
        let mut value = sum_over(sweep, &mut self.pass, model, problem, (form, wanted))?;
        if train_theta && value.is_finite() {
            on_pool(self.step_work(), || self.finish_theta());
        }
        for ((sums, earlier), q) in self.pass.process_sums().iter_mut().zip(&self.earlier).zip(&self.q) {
            let ProcessSums { mean, cov, curvature, .. } = sums;
            value += earlier.add_to(q, objective.beta, mean, cov, curvature.as_mut());
        }
        Ok(value + objective.beta * self.kl())
    }

    /// Returns the number of multiplications of one product over a batch of this many rows.
    pub(in crate::training) fn batch_work(&self, rows: usize) -> usize {
        self.q.iter().map(|q| q.dim().pow(2)).sum::<usize>() * rows
    }

    /// Returns the number of multiplications of a step on all of q.
    fn step_work(&self) -> usize {
        self.q.iter().map(|q| q.dim().pow(3)).sum()
    }

    /// Completes the gradient in θ and Z.
    fn finish_theta(&mut self) {
        let layers = self.model.layers();
        if self.parameterization == Parameterization::Whitened {
            return self.pass.finish_theta(layers, None);
        }
        let (q, adjoints, beta) = (&self.q, &mut self.site_adjoints, self.objective.beta);
        if adjoints.is_empty() {
            adjoints.extend(q.iter().map(|q| SiteAdjoint::new(q.dim())));
        }
        let mut moving = |process: usize, gradient: DataGradient<'_>, out: MatMut<'_, f64>| {
            linalg::copy_lower(adjoints[process].of(&q[process], &gradient, beta), out);
        };
        self.pass.finish_theta(layers, Some(&mut moving));
    }

    /// Returns the gradient of the last evaluation in the order of the model's flat vector (natural units).
    #[doc(hidden)]
    pub fn theta_gradient(&mut self) -> &[f64] {
        let pass = &self.pass;
        self.model.flatten_gradient(pass.layer_gradients(), pass.likelihood_gradient(), &mut self.flat);
        &self.flat
    }

    /// Returns the data part of the gradient in the whitened (m, S) of the only process, or of the
    /// first, of the last evaluation.
    pub fn q_gradient(&self) -> DataGradient<'_> {
        self.pass.q_gradient(0)
    }

    /// Returns the data part of the gradient of a process.
    #[doc(hidden)]
    pub fn q_gradient_of(&self, process: usize) -> DataGradient<'_> {
        self.pass.q_gradient(process)
    }

    /// Returns latent means and variances of the only process, or of the first, at the last batch
    /// of `b` data.
    #[doc(hidden)]
    pub fn last_marginals(&self, b: usize) -> (Vec<f64>, Vec<f64>) {
        self.pass.marginals(0, b)
    }

    /// Moves q of the only process, or of the first, by `rule` along the gradient of the last evaluation.
    pub fn update_q(&mut self, rule: &mut dyn UpdateRule, step: f64) -> StepInfo {
        let (q, gradient, beta) = (&mut self.q[0], self.pass.q_gradient(0), self.objective.beta);
        on_pool(q.dim().pow(3), || rule.step(q, gradient, beta, step))
    }

    /// Moves the posterior of every process along the gradient of the last evaluation; every process has its own rule.
    #[doc(hidden)]
    pub fn update_all(&mut self, rules: &mut Rules, step: f64) -> StepInfo {
        let (work, pass, beta) = (self.step_work(), &self.pass, self.objective.beta);
        on_pool(work, || rules.step(&mut self.q, &|process| pass.q_gradient(process), beta, step))
    }

    /// Returns the model and its posteriors.
    #[doc(hidden)]
    pub fn into_parts(self) -> (LatentModel, Vec<Normal>) {
        (self.model, self.q)
    }

    /// Moves θ and Z and refactorises; if that fails, nothing has changed. The parameterisation determines what stays fixed.
    #[doc(hidden)]
    pub fn set_natural(&mut self, values: &[f64]) -> bool {
        self.move_to(values, None)
    }

    /// Like [`set_natural`](Self::set_natural), and also moves the state of the rules that have
    /// moved q.
    pub(crate) fn set_natural_under(&mut self, values: &[f64], rules: &mut Rules) -> bool {
        self.move_to(values, Some(rules))
    }

    /// Moves θ, Z and q to an earlier state; returns false, and changes nothing, if θ and Z cannot be moved.
    pub(in crate::training) fn return_to(&mut self, values: &[f64], q: Vec<Normal>) -> bool {
        let moved = self.model.set_natural(values).is_ok();
        if moved {
            self.q = q;
        }
        moved
    }

    fn move_to(&mut self, values: &[f64], rules: Option<&mut Rules>) -> bool {
        on_pool(self.step_work(), || {
            self.remember();
            let moved = self.model.set_natural(values).is_ok();
            if moved {
                self.carry(rules);
            }
            moved
        })
    }

    /// Runs [`VariationalModel::update_all`] and `set_natural_under` in parallel, because the M³ work of one does not
    /// keep all threads busy. Returns the outcome of the step on q, and true if θ and Z could be moved.
    #[doc(hidden)]
    pub fn advance(&mut self, rules: &mut Rules, step: f64, values: &[f64]) -> (StepInfo, bool) {
        let work = self.step_work();
        on_pool(work, || {
            self.remember();
            let (q, model, pass, beta) = (&mut self.q, &mut self.model, &self.pass, self.objective.beta);
            let update = || rules.step(q, &|process| pass.q_gradient(process), beta, step);
            let (info, moved) = threads::beside(work, update, || model.set_natural(values).is_ok());
            if moved {
                self.carry(Some(rules));
            }
            (info, moved)
        })
    }

    /// Stores the factor `L` of every process, from which q can be carried to another factor.
    fn remember(&mut self) {
        if self.parameterization != Parameterization::Sites {
            return;
        }
        let layers = self.model.layers();
        for process in 0..layers.processes() {
            let Some(layer) = layers.get(layers.of(process)).inducing() else { return };
            if self.carriers.len() == process {
                self.carriers.push(SiteCarrier::new(layer.z().nrows()));
            }
            self.carriers[process].remember(layer.inverse_factor());
        }
    }

    /// Carries q, and the state of rules, from the stored factors to the current `L`.
    fn carry(&mut self, mut rules: Option<&mut Rules>) {
        if self.parameterization != Parameterization::Sites {
            return;
        }
        let layers = self.model.layers();
        for (process, (carrier, q)) in self.carriers.iter_mut().zip(&mut self.q).enumerate() {
            let Some(layer) = layers.get(layers.of(process)).inducing() else { return };
            let rule = rules.as_deref_mut().map(|rules| rules.of(process));
            let known = rule.as_ref().and_then(|rule| rule.precision());
            let carried = carrier.carry(q, known, layer.factor());
            if let (Some(precision), Some(rule)) = (carried, rule) {
                rule.restart_at(q, precision);
            }
        }
    }
}
