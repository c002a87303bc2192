//! Checks of the values of options and of their combinations, before any work.

use super::fit::FitOptions;
use super::open::Part;
use super::words::{Hyper, HyperOptimizer, MeanKind, ModelKind, ObjectiveKind};
use crate::data::{InputWarp, TargetWarp};
use crate::effects::EffectTerm;
use crate::error::{Error, Result};
use crate::latent::Jitter;
use crate::likelihood::LikelihoodKind;
use crate::likelihood::ObservationModel;
use crate::objective::{Draws, EntropyPart, Estimator};
use crate::variational::{Average, Family, Guard, QUpdate, Rule};
use crate::words::either;

/// The maximum number of random starts; a larger number is probably a mistake.
const MOST_RESTARTS: usize = 256;

/// The maximum number of quadrature nodes per row, twice as many as any expectation chooses.
const MOST_NODES: usize = 1 << 15;

/// The maximum number of neighbours. The limit exists because the covariance matrix of the neighbours is factorised for every row.
pub(crate) const MOST_NEIGHBOURS: usize = 500;

/// The maximum number of threads per core.
const THREADS_PER_CORE: usize = 16;

/// Checks a number of threads. More than 16 per core would only wait for each other.
///
/// # Errors
///
/// Returns a usage error for 0 threads or more than 16 per core.
#[doc(hidden)]
pub fn check_threads(threads: usize) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let most = THREADS_PER_CORE * cores;
    if (1..=most).contains(&threads) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "⟨threads⟩ is {threads}, expected 1 to {most}, which is {THREADS_PER_CORE} for each core of this machine"
    )))
}

/// Fails with the first reason that applies against a combination of options.
fn refuse_combination<const N: usize>(reasons: [(bool, String); N]) -> Result<()> {
    refuse_found(first_of(reasons), |why| Error::usage(why).hint("leave one of the options out"))
}

/// A predicate on update rules: true if an option has an effect on the rule.
type States = fn(&Rule) -> bool;

impl FitOptions {
    /// Refuses trees, which only a fit to a table boosts.
    ///
    /// # Errors
    ///
    /// A usage error that says `why`, which follows the option.
    #[doc(hidden)]
    pub fn check_no_trees(&self, why: &str) -> Result<()> {
        match self.mean {
            MeanKind::Trees => Err(Error::usage(format!("⟨mean trees⟩ {why}"))
                .hint("use ⟨mean constant⟩, or give the predictions of trees as columns")),
            _ => Ok(()),
        }
    }

    /// Refuses a number of offsets other than one for each function of the likelihood.
    pub(crate) fn check_offsets(&self, likelihood: &ObservationModel) -> Result<()> {
        let functions = likelihood.functions();
        if self.offsets == 0 || self.offsets == functions {
            return Ok(());
        }
        let names = likelihood.function_names();
        let of = if functions == 1 { String::new() } else { format!(", {}", names.join(", ")) };
        Err(Error::usage(format!(
            "⟨offset⟩ has {} columns, but the {} likelihood has {functions} functions{of}, expected one column for each",
            self.offsets,
            likelihood.name()
        )))
    }

    /// Returns the number of columns before the offsets, of `columns` in all.
    pub(crate) fn columns_before_offsets(&self, columns: usize) -> Result<usize> {
        columns.checked_sub(self.offsets).ok_or_else(|| {
            Error::usage(format!(
                "the inputs have {columns} columns, fewer than the {} offsets",
                self.offsets
            ))
        })
    }

    /// Checks all values and their combinations.
    ///
    /// # Errors
    ///
    /// Returns a usage error for the first invalid value or combination.
    pub fn validate(&self) -> Result<()> {
        self.check_numbers()?;
        self.check_counts()?;
        self.constraints.validate()?;
        self.validate_combination()
    }

    /// Refuses numbers outside their ranges.
    fn check_numbers(&self) -> Result<()> {
        positive("⟨beta⟩", self.beta)?;
        positive("⟨learning_rate⟩", self.learning_rate)?;
        positive("⟨prior_variance⟩", self.prior_variance)?;
        self.steps.q_smoothness.map_or(Ok(()), |smoothness| positive("⟨q_smoothness⟩", smoothness))?;
        self.max_seconds.map_or(Ok(()), |seconds| positive("⟨max_seconds⟩", seconds))?;
        let non_negative = |value: f64| value >= 0.0 && value.is_finite();
        let (low, high) = self.steps.q_bounds.unwrap_or((1.0, 2.0));
        let (Jitter::Absolute(jitter) | Jitter::Relative(jitter)) = self.jitter;
        let wrong = [
            (
                !self.prior_mean.is_finite(),
                format!("⟨prior_mean⟩ is {}, expected a finite number", self.prior_mean),
            ),
            (
                !(low > 0.0 && low < high && high.is_finite()),
                format!(
                    "⟨q_bounds⟩ are {low} and {high}, expected two positive numbers, the smaller one first"
                ),
            ),
            (!non_negative(jitter), "⟨jitter⟩ must be zero or a positive number".to_owned()),
            (self.stop_at.is_some_and(|at| !at.is_finite()), "⟨stop_at⟩ must be a finite number".to_owned()),
            (
                !self.tolerance.is_none_or(non_negative),
                "⟨tolerance⟩ must be zero or a positive number".to_owned(),
            ),
            (
                !(0.0..1.0).contains(&self.validation_fraction),
                "⟨validation_fraction⟩ must be at least 0 and below 1".to_owned(),
            ),
        ];
        refuse_found(first_of(wrong), Error::usage)
    }

    /// Refuses counts outside their ranges.
    fn check_counts(&self) -> Result<()> {
        let zero = first_of([
            (self.inducing == Some(0) && self.neighbours.is_none(), "⟨inducing⟩"),
            (self.keep_rows == Some(0), "⟨keep_rows⟩"),
            (self.steps.batch_size == 0, "⟨batch_size⟩"),
            (self.epochs == Some(0), "⟨epochs⟩"),
            (self.max_steps == Some(0), "⟨max_steps⟩"),
            (self.patience == 0, "⟨patience⟩"),
        ]);
        refuse_found(zero, |name| Error::usage(format!("{name} is 0, expected at least 1")))?;
        let nodes = self.quadrature_nodes.filter(|nodes| !(1..=MOST_NODES).contains(nodes));
        refuse_found(nodes, |nodes| {
            Error::usage(format!("⟨quadrature_nodes⟩ is {nodes}, expected 1 to {MOST_NODES}"))
        })
    }

    fn validate_combination(&self) -> Result<()> {
        self.check_model()?;
        self.check_groups()?;
        self.check_search()?;
        self.check_warps()?;
        self.check_neighbours()?;
        let kind = self.likelihood_kind();
        refuse_if(!self.has_own_q() && !kind.has_gaussian_noise(), || {
            Error::usage(format!("⟨objective {}⟩ needs the gaussian likelihood, not {kind}", self.objective))
                .hint("elbo and dlm-log take every likelihood")
        })?;
        refuse_if(kind.is_joint() && self.objective == ObjectiveKind::DlmSquare, || {
            Error::usage(format!(
                "⟨objective dlm-square⟩ needs a likelihood of one latent function, {kind} has several"
            ))
            .hint("use elbo or dlm-log")
        })?;
        refuse_if(
            self.quadrature_nodes.is_some() && self.likelihood == Some(LikelihoodKind::Gaussian),
            || {
                Error::usage(
                    "⟨quadrature_nodes⟩ has no effect on the gaussian likelihood, whose expectations have a closed form",
                )
            },
        )?;
        let facts = self.estimator.facts();
        let wanted = match (facts.of_expected_log, self.estimator.is_predictive()) {
            (true, _) => ObjectiveKind::Elbo,
            (_, true) => ObjectiveKind::DlmLog,
            _ => self.objective,
        };
        let (estimator, objective) = (self.estimator, self.objective);
        refuse_if(wanted != objective, || {
            Error::usage(format!("⟨estimator {estimator}⟩ is for ⟨objective {wanted}⟩, not {objective}"))
        })?;
        refuse_found(facts.likelihood.filter(|only| *only != kind), |only| {
            Error::usage(format!(
                "⟨estimator {estimator}⟩ bounds the logistic function: it is for ⟨likelihood {only}⟩, not {kind}"
            ))
        })?;
        self.check_hyper()?;
        refuse_if(objective == ObjectiveKind::Fitc && self.beta != 1.0, || {
            Error::usage("⟨beta⟩ does not apply to ⟨objective fitc⟩, which has no KL term")
        })?;
        self.check_steps()
    }

    /// Refuses options that are for the other kind of model.
    fn check_model(&self) -> Result<()> {
        let default = FitOptions::default();
        let foreign_option = match self.model {
            ModelKind::Gp => first_of([
                (self.prior_mean != default.prior_mean, "⟨prior_mean⟩"),
                (self.prior_variance != default.prior_variance, "⟨prior_variance⟩"),
                (self.steps.q_nonnegative, "⟨q_nonnegative⟩"),
            ]),
            ModelKind::Glm => first_of([
                (self.inducing.is_some() || self.growth.is_some(), "⟨inducing⟩"),
                (self.fix_inducing, "⟨fix_inducing⟩"),
            ]),
        };
        refuse_found(foreign_option, |name| foreign(name, self.model))?;
        refuse_if(self.model == ModelKind::Glm && self.objective == ObjectiveKind::Fitc, || {
            Error::usage("⟨objective fitc⟩ needs inducing inputs, and ⟨model glm⟩ has no inducing inputs")
                .hint("use ⟨objective vfe⟩, which is exact for linear models with Gaussian noise")
        })
    }

    /// Refuses warps of inputs and targets that are not standardised or whose units must be kept, and warps of targets without Gaussian
    /// noise.
    fn check_warps(&self) -> Result<()> {
        let (inputs, target) = (self.warp_inputs, self.warp_target);
        let (warps_inputs, warps_target) = (inputs != InputWarp::None, target != TargetWarp::None);
        let gaussian = self.likelihood_kind().has_gaussian_noise();
        refuse_combination([
            (
                (warps_inputs || warps_target) && !self.standardize,
                "⟨warp_inputs⟩ and ⟨warp_target⟩ change the scale of columns, which ⟨standardize false⟩ forbids".to_owned(),
            ),
            (
                warps_inputs && self.model == ModelKind::Glm,
                format!("⟨warp_inputs {inputs}⟩ would leave the coefficients of ⟨model glm⟩ without units"),
            ),
            (
                warps_target && !gaussian,
                format!("⟨warp_target {target}⟩ needs the gaussian likelihood, not {}", self.likelihood_kind()),
            ),
            (
                warps_target && self.model == ModelKind::Glm,
                format!("⟨warp_target {target}⟩ would leave the coefficients of ⟨model glm⟩ without units"),
            ),
            (
                warps_target && self.objective == ObjectiveKind::DlmSquare,
                format!("⟨warp_target {target}⟩ needs a predictive distribution, and ⟨objective dlm-square⟩ defines only a mean"),
            ),
        ])
    }

    /// Refuses options that cannot be combined with neighbours, and options that need neighbours if there are none.
    fn check_neighbours(&self) -> Result<()> {
        let Some(neighbours) = self.neighbours else {
            if self.open.contains(Part::Neighbours) {
                return Ok(());
            }
            let given = [(self.keep_rows.is_some(), "⟨keep_rows⟩"), (self.keep_single, "⟨keep_single⟩")];
            return refuse_found(first_of(given), |name| {
                Error::usage(format!("{name} has no effect without ⟨neighbours⟩"))
            });
        };
        let most = MOST_NEIGHBOURS;
        refuse_combination([
            (self.model != ModelKind::Gp, "⟨neighbours⟩ need ⟨model gp⟩".to_owned()),
            (
                self.estimator != Estimator::Exact,
                format!("⟨neighbours⟩ need ⟨estimator exact⟩, not {}", self.estimator),
            ),
            (
                self.objective == ObjectiveKind::Vfe,
                "⟨neighbours⟩ cannot be combined with ⟨objective vfe⟩: use elbo, dlm-log or dlm-square"
                    .to_owned(),
            ),
            (neighbours > most, format!("⟨neighbours⟩ is {neighbours}, expected at most {most}")),
            (
                matches!(self.hyper, Some(Hyper::Joint | Hyper::Alternating | Hyper::Dual)),
                "⟨neighbours⟩ need a q in closed form: use ⟨hyper collapsed⟩ or fixed".to_owned(),
            ),
            (
                self.growth.is_some(),
                "⟨inducing auto⟩ cannot be combined with ⟨neighbours⟩, which replace further inducing inputs"
                    .to_owned(),
            ),
            (
                neighbours == 0 && self.inducing == Some(0),
                "⟨neighbours⟩ and ⟨inducing⟩ are both 0, so there is nothing to predict from".to_owned(),
            ),
        ])
    }

    /// Refuses a mode of hyper-parameters that the objective or the solver does not allow.
    fn check_hyper(&self) -> Result<()> {
        // Neighbours, and effects in closed form, allow other modes, which `check_neighbours` and `check_groups` check.
        if self.neighbours.is_some() || self.eliminates_effects() {
            return Ok(());
        }
        let (objective, collapsed) = (self.objective, !self.has_own_q());
        match self.hyper {
            Some(Hyper::Collapsed) if !collapsed => self.check_collapse()?,
            Some(mode @ (Hyper::Joint | Hyper::Alternating | Hyper::Dual)) if collapsed => {
                return Err(Error::usage(format!(
                    "⟨hyper {mode}⟩ takes steps on q, but ⟨objective {objective}⟩ solves for q exactly"
                ))
                .hint("use ⟨hyper collapsed⟩ or fixed, or ⟨objective elbo⟩"));
            }
            Some(Hyper::Alternating) => self.check_alternation()?,
            Some(Hyper::Dual) => self.check_sites()?,
            _ => {}
        }
        // An ELBO with Gaussian noise collapses if L-BFGS is requested, see [`FitOptions::decided_for`].
        let collapses = self.hyper.is_none()
            && objective == ObjectiveKind::Elbo
            && self.likelihood_kind().has_gaussian_noise();
        match (self.hyper_optimizer, self.hyper_mode()) {
            (Some(HyperOptimizer::Lbfgs), Hyper::Joint | Hyper::Fixed) if !collapses && self.trains_together() => {
                self.check_together()
            }
            (Some(HyperOptimizer::Lbfgs), mode @ Hyper::Dual) if !collapses => Err(Error::usage(format!(
                "⟨hyper_optimizer lbfgs⟩ needs an objective without the noise of mini-batches, which ⟨hyper {mode}⟩ has"
            ))
            .hint("use ⟨hyper alternating⟩, or collapsed with Gaussian noise")),
            _ => Ok(()),
        }
    }

    /// Refuses the collapsed mode if q has no closed form.
    fn check_collapse(&self) -> Result<()> {
        let kind = self.likelihood_kind();
        if self.objective == ObjectiveKind::Elbo && kind.has_gaussian_noise() {
            return Ok(());
        }
        Err(Error::usage(format!(
            "⟨hyper collapsed⟩ needs an objective whose q has a closed form, not {} with the {kind} likelihood",
            self.objective
        ))
        .hint("⟨hyper alternating⟩ solves for q by natural gradients instead"))
    }

    /// Refuses options that have no effect if L-BFGS moves q and hyper-parameters together.
    fn check_together(&self) -> Result<()> {
        refuse_found(
            self.option_of_steps().or((self.steps.family != Family::Full).then_some("⟨family⟩")),
            |name| {
                Error::usage(format!(
                "{name} is for mini-batch steps; ⟨hyper_optimizer lbfgs⟩ with ⟨hyper joint⟩ moves all of q on all data"
            ))
            .hint(format!("leave {name} out, or use ⟨hyper_optimizer adam⟩"))
            },
        )
    }

    /// Refuses options that have no effect in the alternating mode.
    fn check_alternation(&self) -> Result<()> {
        refuse_found(self.option_of_steps(), |name| {
            Error::usage(format!(
                "{name} is for mini-batch steps; ⟨hyper alternating⟩ solves for q on all data by natural gradients"
            ))
            .hint(format!("leave {name} out, or use ⟨hyper joint⟩"))
        })
    }

    /// Returns the name of an option that is set and only steps on mini-batches use.
    fn option_of_steps(&self) -> Option<&'static str> {
        first_of([
            (self.steps.q_update != QUpdate::Ngd, "⟨q_update⟩"),
            (self.steps.q_step.is_some(), "⟨q_step⟩"),
            (self.steps.q_average != Average::None, "⟨q_average⟩"),
            (self.steps.batch_schedule.is_some(), "⟨batch_schedule⟩"),
            (self.estimator.is_sampled(), "⟨estimator⟩"),
            (!self.steps.polish, "⟨polish false⟩"),
        ])
    }

    /// Refuses the dual mode if q cannot be stored as sites.
    fn check_sites(&self) -> Result<()> {
        let lacking = first_of([
            (self.objective != ObjectiveKind::Elbo, "⟨objective elbo⟩"),
            (self.model != ModelKind::Gp, "⟨model gp⟩"),
            (!self.effects.is_empty(), "no ⟨group⟩"),
            (self.steps.family != Family::Full, "⟨family full⟩"),
            (self.steps.q_update != QUpdate::Ngd, "⟨q_update ngd⟩"),
        ]);
        refuse_found(lacking, |needed| {
            Error::usage(format!("⟨hyper dual⟩ keeps q as Gaussian sites: it needs {needed}"))
                .hint("use ⟨hyper joint⟩ or alternating")
        })
    }

    /// Refuses invalid options of the searches for inducing inputs and random starts.
    fn check_search(&self) -> Result<()> {
        if let Some(growth) = self.growth {
            growth.validate()?;
            refuse_if(self.inducing.is_some(), || Error::usage("⟨inducing⟩ is a number or auto, not both"))?;
        }
        let restarts = self.restarts;
        refuse_if(!(1..=MOST_RESTARTS).contains(&restarts), || {
            Error::usage(format!("⟨restarts⟩ is {restarts}, expected 1 to {MOST_RESTARTS}"))
        })?;
        refuse_if(restarts > 1 && self.hyper == Some(Hyper::Fixed), || {
            Error::usage(
                "⟨restarts⟩ has no effect with ⟨hyper fixed⟩: restarts differ in starting values of hyper-parameters that are then trained",
            )
            .hint("leave one of them out")
        })?;
        refuse_if(restarts > 1 && self.growth.is_some(), || {
            Error::usage("⟨restarts⟩ cannot be combined with ⟨inducing auto⟩, because both are searches")
                .hint("find the number of inducing inputs first, then give it with ⟨restarts⟩")
        })
    }

    /// Refuses options that have no effect with the update rule, or in fits that take no steps on q.
    fn check_steps(&self) -> Result<()> {
        let step_option = || self.steps.first_given().or(self.max_steps.map(|_| "⟨max_steps⟩"));
        if let (true, Some(name)) = (self.is_collapsed(), step_option()) {
            let (objective, hyper) = (self.objective, self.hyper_mode());
            return Err(Error::usage(format!(
                "{name} is for steps on q and has no effect on ⟨objective {objective}⟩ with ⟨hyper {hyper}⟩, which solves for q exactly"
            ))
            .hint(format!("leave {name} out, or use ⟨objective elbo⟩ or dlm-log with ⟨hyper joint⟩")));
        }
        let (update, rule) = (self.steps.q_update, self.steps.q_update.rule());
        if let Some(schedule) = self.steps.q_step.filter(|_| rule.mixes) {
            schedule.mixing().map_err(|error| {
                Error::usage(format!("⟨q_step⟩ does not suit ⟨q_update {update}⟩: {error}"))
                    .hint("use a smaller step, or a rule that takes plain gradient steps")
            })?;
        }
        let needs: [(&str, bool, States); 4] = [
            ("⟨q_guard⟩", self.steps.q_guard != Guard::Trust, |rule| !rule.guards.is_empty()),
            ("⟨q_bounds⟩", self.steps.q_bounds.is_some(), |rule| rule.projects),
            ("⟨q_nonnegative⟩", self.steps.q_nonnegative, |rule| rule.projects),
            ("⟨q_smoothness⟩", self.steps.q_smoothness.is_some(), |rule| rule.takes_smoothness),
        ];
        for (name, given, takes) in needs {
            if given && !takes(rule) {
                let rules = QUpdate::those(takes);
                return Err(Error::usage(format!("{name} is for ⟨q_update {rules}⟩, not {update}")));
            }
        }
        let guard = self.steps.q_guard;
        if guard != Guard::Trust && !rule.guards.contains(&guard) {
            let guards: Vec<&str> = rule.guards.iter().map(|guard| guard.word()).collect();
            return Err(Error::usage(format!(
                "⟨q_guard {guard}⟩ is not for ⟨q_update {update}⟩, which takes {}",
                either(&guards)
            )));
        }
        refuse_if(self.steps.q_nonnegative && self.steps.family != Family::Diagonal, || {
            Error::usage("⟨q_nonnegative⟩ needs ⟨family diagonal⟩")
        })?;
        self.check_estimator()
    }

    /// Refuses estimators that the update rule cannot use, and options about samples and smoothness without an effect.
    fn check_estimator(&self) -> Result<()> {
        let (update, estimator) = (self.steps.q_update, self.estimator);
        let rule = update.rule();
        if self.steps.sample_schedule.is_some() && !estimator.is_sampled() {
            return Err(Error::usage(format!(
                "⟨sample_schedule⟩ is for estimators that draw samples, not ⟨estimator {estimator}⟩"
            ))
            .hint(format!("use ⟨estimator {}⟩", Estimator::those(|facts| facts.draws != Draws::Nothing))));
        }
        if self.steps.q_step.is_some() && self.steps.q_smoothness.is_some() && !rule.floors_at_smoothness {
            return Err(Error::usage(format!(
                "⟨q_smoothness⟩ has no effect on ⟨q_update {update}⟩ with ⟨q_step⟩, whose steps are absolute"
            ))
            .hint("leave one of them out: without ⟨q_step⟩ steps are in units of 1/⟨q_smoothness⟩"));
        }
        let fits = match estimator.facts().entropy {
            EntropyPart::LeftOut => !rule.entropy_gradient,
            EntropyPart::Added => rule.entropy_gradient,
            EntropyPart::AlongThePath => rule.sticks_the_landing,
            EntropyPart::Exact => true,
        };
        if fits {
            return Ok(());
        }
        let plain = if rule.entropy_gradient { "reparam-ent" } else { "reparam" };
        let landing = if rule.sticks_the_landing { " or stl:L" } else { "" };
        let treats = if rule.entropy_gradient { "takes" } else { "needs no" };
        Err(Error::usage(format!(
            "⟨estimator {estimator}⟩ does not suit ⟨q_update {update}⟩, which {treats} gradient of the entropy: use {plain}:L{landing}"
        )))
    }
}

/// Creates the error for an option that is for the other kind of model.
#[doc(hidden)]
pub fn foreign(name: &str, model: ModelKind) -> Error {
    let other = match model {
        ModelKind::Gp => ModelKind::Glm,
        ModelKind::Glm => ModelKind::Gp,
    };
    Error::usage(format!("{name} is for ⟨model {other}⟩ and has no effect on ⟨model {model}⟩"))
        .hint(format!("leave {name} out, or use ⟨model {other}⟩"))
}

/// Fails with an error if `wrong` is true.
pub(super) fn refuse_if(wrong: bool, error: impl FnOnce() -> Error) -> Result<()> {
    if wrong { Err(error()) } else { Ok(()) }
}

/// Fails with an error about what was found, if anything was.
pub(super) fn refuse_found<T>(found: Option<T>, error: impl FnOnce(T) -> Error) -> Result<()> {
    found.map_or(Ok(()), |found| Err(error(found)))
}

/// Returns the first entry that applies, such as the name of an option that was set.
pub(super) fn first_of<T, const N: usize>(entries: [(bool, T); N]) -> Option<T> {
    entries.into_iter().find_map(|(applies, entry)| applies.then_some(entry))
}

/// Refuses numbers that are not positive.
pub(super) fn positive(name: &str, value: f64) -> Result<()> {
    let wrong = !(value > 0.0 && value.is_finite());
    refuse_if(wrong, || Error::usage(format!("{name} is {value}, expected a positive number")))
}

/// The maximum number of effects that one dense matrix couples: in every evaluation in closed form; in every step on q, which couples all of
/// them; at the end of the training with neighbours, whose hyper-parameters are trained on a part of many levels.
const MOST_COUPLED: usize = 6000;
pub(crate) const MOST_IN_STEPS: usize = 3000;
const MOST_BESIDE_NEIGHBOURS: usize = 12_000;

impl FitOptions {
    /// Refuses options that grouped effects cannot be combined with.
    pub(super) fn check_groups(&self) -> Result<()> {
        if self.effects.is_empty() {
            return Ok(());
        }
        let (kind, eliminates) = (self.likelihood_kind(), self.eliminates_effects());
        let likelihood_of_reml = eliminates && kind.has_gaussian_noise();
        let default = FitOptions::default();
        let prior = (self.prior_mean, self.prior_variance) != (default.prior_mean, default.prior_variance);
        let other = [
            (
                self.reml && !likelihood_of_reml,
                format!("⟨reml⟩ with ⟨likelihood {kind}⟩ and ⟨objective {}⟩", self.objective),
            ),
            (self.reml && self.beta != 1.0, "⟨reml⟩ with ⟨beta⟩".to_owned()),
            (
                self.neighbours.is_some()
                    && matches!(self.objective, ObjectiveKind::DlmSquare | ObjectiveKind::Fitc),
                format!("⟨objective {}⟩ with ⟨neighbours⟩", self.objective),
            ),
            (self.warp_inputs != InputWarp::None, "⟨warp_inputs⟩".to_owned()),
            (self.warp_target != TargetWarp::None, "⟨warp_target⟩".to_owned()),
            (self.model == ModelKind::Glm && prior && eliminates, "⟨prior_variance⟩".to_owned()),
        ];
        let Some(name) = first_of(other) else { return self.check_coupled() };
        Err(Error::usage(format!("{name} cannot be combined with ⟨group⟩")).hint("leave one of the two out"))
    }

    /// Returns the number of effects of all groupings except the largest, which one dense matrix couples in a fit without neighbours.
    #[doc(hidden)]
    pub fn coupled_effects(&self) -> usize {
        let sizes = || self.effects.iter().map(EffectTerm::coefficients);
        sizes().sum::<usize>() - sizes().max().unwrap_or(0)
    }

    /// Refuses more effects than fit in one dense matrix. In closed form the largest grouping is eliminated and does not count.
    fn check_coupled(&self) -> Result<()> {
        let all = self.effects.iter().map(EffectTerm::coefficients).sum();
        let (coupled, which, most) = if self.neighbours.is_some() {
            (all, "groupings beside ⟨neighbours⟩", MOST_BESIDE_NEIGHBOURS)
        } else if self.eliminates_effects() {
            (self.coupled_effects(), "groupings other than the largest", MOST_COUPLED)
        } else {
            (all, "groupings of a fit by steps on q", MOST_IN_STEPS)
        };
        refuse_if(coupled > most, || {
            Error::usage(format!("the {which} have {coupled} effects in total, expected at most {most}"))
                .hint("leave a ⟨group⟩ out, or merge rare levels")
        })
    }
}
