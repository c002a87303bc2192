//! A fit to arrays in the user's units: a latent function, a likelihood and options in, a model that predicts out; and latent functions
//! as values.

use super::arrays::{Origin, fit_rows};
use super::check::{check_data, check_formula, check_groups};
use super::choices::{Chosen, choose};
use super::rows::{RowBuffer, TrainingData};
use super::start::{Function, Prototype, Start};
use super::trainer::Trainer;
use crate::collapsed::Dataset;
use crate::data::{InputWarp, Scaling, TargetWarp};
use crate::effects::{EffectTerm, columns_of};
use crate::error::{Error, Result};
use crate::hyper::{Clock, Event, Session};
use crate::latent::{FeatureMap, InducingInit};
use crate::likelihood::{LikelihoodKind, ObservationModel};
use crate::model::{Model, unit_of};
use crate::objective::Targets;
use crate::options::{FitOptions, ModelKind, ObjectiveKind};
use crate::rows::Rows;
use faer::{Mat, MatRef};
use sparsegp_kernels::Kernel;
use sparsegp_kernels::units::to_scale;
use std::sync::Arc;

/// A fit to arrays: a latent function and a likelihood, both as values, and options of the training.
///
/// ```
/// use faer::Mat;
/// use sparsegp::prelude::*;
/// use sparsegp::kernels::Stationary;
/// use sparsegp::likelihood::Poisson;
///
/// let x = Mat::from_fn(200, 1, |i, _| i as f64 / 20.0);
/// let y: Vec<f64> = (0..200).map(|i| (2.0 + 2.0 * (i as f64 / 20.0).sin()).exp().round()).collect();
///
/// // A variance of 1 and a lengthscale of 2 in units of x, from which training starts.
/// let gp = Inducing::new(Stationary::matern52(1.0, &[2.0])).points(Points::KMeans(20));
/// let model = Fit::new(gp, Poisson::Exp).objective(ObjectiveKind::DlmLog).fit(&x, &y)?;
/// let predictions = model.predict(&[[1.5]], &[])?;
/// assert!((predictions.row(0).mean / (2.0 + 2.0 * 1.5f64.sin()).exp() - 1.0).abs() < 0.1);
/// # Ok::<(), sparsegp::Error>(())
/// ```
///
/// [`Fit::of`] takes everything from [`FitOptions`], with kernel and likelihood by name.
#[derive(Clone, Default)]
pub struct Fit {
    pub(super) options: FitOptions,
    pub(super) latent: Option<Latent>,
    pub(super) likelihood: Option<ObservationModel>,
    pub(super) start: Option<Arc<Model>>,
    pub(super) exposure: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) other_ends: Vec<f64>,
    pub(super) validation: Option<RowBuffer>,
}

impl Fit {
    /// Creates a fit of a latent function, seen through a likelihood of one function, or through a boxed one of several, by the ELBO.
    pub fn new(latent: impl Into<Latent>, likelihood: impl Into<ObservationModel>) -> Self {
        Fit { latent: Some(latent.into()), likelihood: Some(likelihood.into()), ..Fit::default() }
    }

    /// Creates a fit of everything that the options name.
    pub fn of(options: FitOptions) -> Self {
        Fit { options, ..Fit::default() }
    }

    /// Creates a fit that starts from a model: with its options, its scaling, its kernel, likelihood and inducing inputs, and its
    /// hyper-parameters. The fit finds a new q; [`update`](super::update) continues with the model's q.
    ///
    /// ```
    /// use sparsegp::hyper::Constraints;
    /// use sparsegp::options::Hyper;
    /// use sparsegp::prelude::*;
    ///
    /// let x: Vec<f64> = (0..60).map(|i| i as f64 / 10.0).collect();
    /// let y: Vec<f64> = x.iter().map(|x| x.sin() + 0.1 * (7.0 * x).cos()).collect();
    /// let rows = |n: usize| Rows::from_row_major(&x[..n], 1);
    /// let first = Fit::of(FitOptions { inducing: Some(15), ..FitOptions::default() }).fit(rows(40)?, &y[..40])?;
    /// // All rows, at the hyper-parameters of the first 40.
    /// let fit = Fit::from_model(&first).with(|options| options.hyper = Some(Hyper::Fixed));
    /// let second = fit.fit(rows(60)?, &y)?;
    /// let values = |model: &Model| model.hyperparameters().into_iter().map(|p| p.value).collect::<Vec<_>>();
    /// assert_eq!(values(&first), values(&second));
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    pub fn from_model(model: &Model) -> Self {
        Fit { start: Some(Arc::new(model.clone())), ..Fit::of(model.options().clone()) }
    }

    /// Sets the objective to minimise.
    pub fn objective(self, objective: ObjectiveKind) -> Self {
        self.with(|options| options.objective = objective)
    }

    /// Adds grouped effects, whose columns follow the inputs of f.
    pub fn group(self, term: EffectTerm) -> Self {
        self.with(|options| options.effects.push(term))
    }

    /// Takes the last `columns` columns of the inputs as offsets, known additions to f: one for each function of the likelihood. They are
    /// on the scale of f, such as the logarithm of a rate, and for real targets in the units of the target, after its warp.
    ///
    /// ```
    /// use faer::Mat;
    /// use sparsegp::kernels::Stationary;
    /// use sparsegp::likelihood::Poisson;
    /// use sparsegp::prelude::*;
    ///
    /// // Counts at a rate of 3 in an hour; the second column has the logarithm of the hours.
    /// let x = Mat::from_fn(120, 2, |i, d| if d == 0 { i as f64 / 12.0 } else { ((1 + i % 4) as f64).ln() });
    /// let y: Vec<f64> = (0..120).map(|i| 3.0 * (1 + i % 4) as f64).collect();
    /// let model = Fit::new(Inducing::new(Stationary::rbf(1.0, &[3.0])), Poisson::Exp).offset(1).fit(&x, &y)?;
    /// let means = model.predict(&[[5.0, 0.0], [5.0, 8f64.ln()]], &[])?.means();
    /// assert!((means[0] - 3.0).abs() < 0.2 && (means[1] / means[0] - 8.0).abs() < 1e-9);
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    pub fn offset(self, columns: usize) -> Self {
        self.with(|options| options.offsets = columns)
    }

    /// Changes any options. A latent function or likelihood that was given as a value stays.
    pub fn with(mut self, change: impl FnOnce(&mut FitOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sets exposures of the training rows, for counts, numbers of trials, for counts of successes, or standard errors of measured targets, in
    /// the units of the target.
    pub fn exposure(mut self, exposure: &[f64]) -> Self {
        self.exposure = exposure.to_vec();
        self
    }

    /// Sets sample weights of the training rows, which multiply their losses.
    pub fn weights(mut self, weights: &[f64]) -> Self {
        self.weights = weights.to_vec();
        self
    }

    /// Says which training targets are censored: `other_ends` has the other end of the interval that contains the target and begins or ends at
    /// y, in the units of the target: infinity if the target is only known to be above y, minus infinity if below, NaN if it is y.
    ///
    /// ```
    /// use faer::Mat;
    /// use sparsegp::kernels::Stationary;
    /// use sparsegp::likelihood::Weibull;
    /// use sparsegp::prelude::*;
    ///
    /// // Observation ends after 8 hours; longer times are only known to be longer.
    /// let x = Mat::from_fn(90, 1, |i, _| i as f64 / 9.0);
    /// let hours = |i: usize| (1.0 + i as f64 / 40.0).exp() * (0.7 + 0.15 * (i % 5) as f64);
    /// let y: Vec<f64> = (0..90).map(|i| hours(i).min(8.0)).collect();
    /// let other_ends: Vec<f64> = (0..90).map(|i| if hours(i) > 8.0 { f64::INFINITY } else { f64::NAN }).collect();
    /// let gp = Inducing::new(Stationary::rbf(1.0, &[5.0]));
    /// let model = Fit::new(gp, Weibull::new(0.5)).other_ends(&other_ends).fit(&x, &y)?;
    /// assert!(model.predict(&[[9.5]], &[])?.means()[0] > 12.0);
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    pub fn other_ends(mut self, other_ends: &[f64]) -> Self {
        self.other_ends = other_ends.to_vec();
        self
    }

    /// Sets validation rows, which choose the parameters to keep: inputs (`n × D`) and targets, or [`Targets`] with exposures and weights,
    /// in the user's units.
    pub fn validation<'x, 't>(mut self, x: impl Into<Rows<'x>>, targets: impl Into<Targets<'t>>) -> Self {
        let x = x.into();
        self.validation = Some(RowBuffer::of(Dataset { x: x.as_ref(), targets: targets.into() }));
        self
    }

    /// Fits to inputs `x` (`n × D`, one row per datum) and targets `y`, in the user's units: classes are coded 0 and 1, ordered levels 0,
    /// 1, ….
    ///
    /// # Errors
    ///
    /// Usage errors for invalid options, data errors for arrays that do not match or do not suit the likelihood, fit errors if not even
    /// the start can be evaluated.
    pub fn fit<'x>(&self, x: impl Into<Rows<'x>>, y: &[f64]) -> Result<Model> {
        self.fit_in(x, y, &mut Session::new(&mut |_: &Event| {}))
    }

    /// Like [`fit`](Self::fit), within a session, which receives every stage and epoch, may interrupt the fit and stores its state.
    ///
    /// # Errors
    ///
    /// As for [`Fit::fit`]; `Interrupted` if the session was interrupted.
    pub fn fit_in<'x>(&self, x: impl Into<Rows<'x>>, y: &[f64], session: &mut Session<'_>) -> Result<Model> {
        self.fit_matrix(x.into().as_ref(), y, session)
    }

    fn fit_matrix(&self, x: MatRef<'_, f64>, y: &[f64], session: &mut Session<'_>) -> Result<Model> {
        let clock = session.clock(self.options.max_seconds);
        let mut chosen = self.chosen(x, y, &mut session.until(clock, Clock::CHOICES))?;
        let session = &mut session.until(clock, Clock::TRAINING);
        loop {
            let fit = Fit { options: chosen.options.clone(), ..self.clone() };
            let Prepared { origin, options, scaling, train, validation } = fit.prepare(x, y)?;
            let rows = TrainingData::of_buffers(&train, validation.as_ref());
            match fit_rows(&rows, &options, origin, session) {
                Err(error) if chosen.give_up(&error) => {}
                fitted => {
                    let mut fitted = fitted?;
                    fitted.decided_by(chosen);
                    return Ok(fitted.into_model(scaling, &options.decided_for(y.len()), y.len()));
                }
            }
        }
    }

    /// Chooses all unset options; none if the fit starts from a model, or if the latent function or the likelihood is a value.
    fn chosen(&self, x: MatRef<'_, f64>, y: &[f64], session: &mut Session<'_>) -> Result<Chosen> {
        let is_given = self.latent.is_some() || self.likelihood.is_some() || self.start.is_some();
        if self.options.open.is_empty() || is_given {
            return Ok(Chosen::as_asked(self.options.clone()));
        }
        // Errors of arrays and options are reported before any work.
        self.prepare(x, y)?;
        let rows =
            TrainingData { levels: levels(y), ..TrainingData::of(Dataset { x, targets: self.targets(y) }) };
        choose(rows, &self.options, session)
    }

    /// Creates a trainer for mini-batch training in a loop of the caller. It uses mini-batches even for an
    /// ELBO for which [`fit`](Self::fit) would compute q in closed form.
    ///
    /// # Errors
    ///
    /// As for [`Fit::fit`], and for objectives without mini-batches.
    pub fn trainer<'x>(&self, x: impl Into<Rows<'x>>, y: &[f64]) -> Result<Trainer> {
        Trainer::new(self.prepare(x.into().as_ref(), y)?)
    }

    fn targets<'a>(&'a self, y: &'a [f64]) -> Targets<'a> {
        let Fit { exposure, weights, other_ends, .. } = self;
        Targets { exposure, weights, other_ends, ..Targets::of(y) }
    }

    /// Returns everything that a fit needs, on the scale the model sees.
    fn prepare(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<Prepared> {
        self.options.check_no_trees("needs a table, whose columns trees can tell apart")?;
        match &self.start {
            Some(model) => self.prepare_from(model, x, y),
            None => self.prepare_new(x, y),
        }
    }

    /// Returns the options, completed by what the latent function determines.
    pub(super) fn options_of_latent(&self) -> FitOptions {
        let mut options = self.options.clone();
        if let Some(latent) = &self.latent {
            latent.write_to(&mut options);
        }
        if let Some(Latent::Inducing(inducing)) =
            self.latent.as_ref().filter(|_| options.dimensions.is_empty())
        {
            // The caller may have set the dimensions of the kernel already.
            options.dimensions = inducing.kernel().dimensions().to_vec();
        }
        options
    }

    fn prepare_from(&self, model: &Model, x: MatRef<'_, f64>, y: &[f64]) -> Result<Prepared> {
        let (scaling, options) = (model.scaling().clone(), self.options.clone());
        check_groups(x.subcols(0, options.columns_before_offsets(x.ncols())?), &options.effects)?;
        let likelihood = &model.latent().likelihood;
        let (mut train, mut validation) = self.checked(x, y, Some(model.inputs()), likelihood)?;
        validation.iter_mut().chain([&mut train]).for_each(|rows| rows.scale(&scaling));
        let options = options.with_units_of(&scaling);
        let origin = Origin::Start(Start::from_model(model, &options, Some(train.data().x), false));
        let options = origin.completed(&options)?;
        Ok(Prepared { origin, options, scaling, train: Arc::new(train), validation })
    }

    /// Returns the training rows and the validation rows after a check.
    fn checked(
        &self,
        x: MatRef<'_, f64>,
        y: &[f64],
        inputs: Option<usize>,
        likelihood: &ObservationModel,
    ) -> Result<(RowBuffer, Option<RowBuffer>)> {
        let (train, validation) =
            (RowBuffer::of(Dataset { x, targets: self.targets(y) }), self.validation.clone());
        let rows = TrainingData::of_buffers(&train, validation.as_ref());
        check_data(&rows, inputs, likelihood)?;
        check_formula(rows.train.targets, likelihood)?;
        Ok((train, validation))
    }

    fn prepare_new(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<Prepared> {
        let mut options = self.options_of_latent();
        let columns = options.columns_before_offsets(x.ncols())?;
        check_groups(x.subcols(0, columns), &options.effects)?;
        let inputs = options.inputs_of(columns);
        let mut prototype = Prototype::of(&options, inputs, levels(y))?;
        if let Some(likelihood) = &self.likelihood {
            prototype.likelihood = likelihood.clone();
        }
        options.check_offsets(&prototype.likelihood)?;
        options.likelihood = Some(LikelihoodKind::of(&*prototype.likelihood));
        options.validate()?;
        let (mut train, mut validation) = self.checked(x, y, None, &prototype.likelihood)?;
        if y.iter().all(|value| Some(value) == y.first()) {
            return Err(Error::data(format!(
                "all {} targets are the same, expected values that vary",
                y.len()
            )));
        }
        let scaling = scaling_of(&options, x, y)?;
        let (_, target) = scaling.axes(0);
        let mut checked = Ok(());
        prototype.likelihood.for_each_parameter_mut(&mut |p| {
            checked = checked.clone().and(p.check(&p.name));
            if p.given || p.fixed {
                let unit = unit_of(p);
                p.values.iter_mut().for_each(|value| *value = unit.to_scale(*value, &[], target));
            }
        });
        checked.map_err(|error| Error::usage(format!("⟨likelihood⟩: {error}")))?;
        if let Some(latent) = &self.latent {
            prototype.function = latent.function(&options, inputs, &scaling)?;
        }
        validation.iter_mut().chain([&mut train]).for_each(|rows| rows.scale(&scaling));
        options.constraints.columns = options.constraints.columns.or_numbers(inputs);
        let options = options.with_units_of(&scaling);
        let origin = Origin::Prototype(prototype);
        Ok(Prepared { origin, options, scaling, train: Arc::new(train), validation })
    }
}

/// The maximum number of ordered levels of targets; more are treated as numbers.
const MOST_LEVELS: usize = 1000;

/// Returns the number of ordered levels of targets, or 0 if they are not levels.
fn levels(y: &[f64]) -> usize {
    let most = y.iter().fold(0.0, |most: f64, &level| most.max(level)) as usize;
    (most + 1).clamp(2, MOST_LEVELS)
}

/// The input of a fit to arrays, on the scale the model sees.
pub(super) struct Prepared {
    pub origin: Origin,
    pub options: FitOptions,
    pub scaling: Scaling,
    pub train: Arc<RowBuffer>,
    pub validation: Option<RowBuffer>,
}

/// Returns true if options require more than shift and scale.
#[doc(hidden)]
pub fn asks_for_warps(options: &FitOptions) -> bool {
    options.warp_inputs != InputWarp::None || options.warp_target != TargetWarp::None
}

/// Returns the scaling of inputs (`n × D`, one row per datum) and targets that the options require: inputs are standardised, and targets
/// too if the likelihood does not depend on location and scale.
///
/// # Errors
///
/// A data error if the target does not suit its warp.
#[doc(hidden)]
pub fn scaling_of(options: &FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Result<Scaling> {
    let scaling = if asks_for_warps(options) {
        Scaling::warped(x, y, options.warp_inputs, options.warp_target, &options.dimensions)?
    } else {
        Scaling::standardise(x, y)
    };
    let scaling =
        if options.offsets > 0 { scaling.of_rest(x.col(x.ncols() - options.offsets), y) } else { scaling };
    Ok(suited(options, scaling))
}

impl FitOptions {
    /// Returns the options with the units of the columns that constraints name, and with the origins of the columns of slopes.
    #[doc(hidden)]
    pub fn with_units_of(mut self, scaling: &Scaling) -> FitOptions {
        self.constraints.columns = self.constraints.columns.scaled(scaling);
        let all = scaling.dims_without_offsets();
        let columns = &scaling.inputs[all - columns_of(&self.effects)..];
        for term in &mut self.effects {
            term.origins = term.values.iter().map(|&value| columns[value].apply(0.0)).collect();
        }
        self
    }
}

/// Returns the scaling of a fit, given the scaling that standardises everything.
#[doc(hidden)]
pub fn suited(options: &FitOptions, scaling: Scaling) -> Scaling {
    let kind = options.likelihood_kind();
    let (offsets, subtracts) = (options.offsets, kind.has_gaussian_noise());
    let scaling = scaling.for_targets(kind.target_kind());
    if !options.standardize {
        let none = Scaling::none(scaling.dims()).for_targets(kind.target_kind());
        return none.with_offsets(offsets, false, subtracts);
    }
    let scales = kind.scales_target();
    let scaling = scaling.with_offsets(offsets, scales, subtracts);
    let scaling = scaling.suited_to(&options.dimensions).with_effects(&options.effects);
    if scales { scaling } else { scaling.with_original_target() }
}

/// The inducing inputs from which a fit starts. Unless [`FitOptions::fix_inducing`] is set, training moves them.
///
/// ```
/// use sparsegp::faer::Mat;
/// use sparsegp::kernels::Stationary;
/// use sparsegp::likelihood::Gaussian;
/// use sparsegp::prelude::*;
///
/// let x = Mat::from_fn(90, 1, |i, _| i as f64 / 10.0);
/// let y: Vec<f64> = (0..90).map(|i| (i as f64 / 10.0).sin()).collect();
/// // Every whole number, in the units of x, kept as it is.
/// let z = Mat::from_fn(10, 1, |i, _| i as f64);
/// let gp = Inducing::new(Stationary::rbf(1.0, &[1.0])).points(Points::Given(z));
/// let fit = Fit::new(gp, Gaussian::default()).with(|options| options.fix_inducing = true);
/// let mean = fit.fit(&x, &y)?.predict(&[[4.3]], &[])?.means()[0];
/// assert!((mean - 4.3f64.sin()).abs() < 0.02);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Points {
    /// The default number for the rows; every row of small data with Gaussian noise.
    #[default]
    Automatic,
    /// This number of centres of k-means.
    KMeans(usize),
    /// This number of rows, each where the prior variance given the earlier ones is largest.
    Greedy(usize),
    /// This number of random rows.
    Random(usize),
    /// These points (`M × D`), in the user's units.
    Given(Mat<f64>),
}

/// A sparse GP: its kernel and inducing inputs. The values given to the kernel's constructor are starting values in the user's units, or
/// stay if they are [fixed](Kernel::fixed); for warped columns they are on the scale the model sees. Values that were not
/// [given](sparsegp_kernels::Parameter::given) start from the data.
///
/// ```
/// use sparsegp::kernels::{Periodic, Profile, Stationary};
/// use sparsegp::prelude::*;
///
/// // Starting values in the user's units: a variance, a lengthscale and a period.
/// let seasons = Periodic::new(9.0, &[0.7], &[12.0]) + Stationary::matern32(4.0, &[60.0]);
/// let gp = Inducing::new(seasons).points(Points::KMeans(50));
/// assert_eq!(gp.kernel().expression(), "periodic + matern32");
/// // Starting values from the data, with a lengthscale for each of three inputs.
/// assert_eq!(Inducing::new(Stationary::ard(Profile::Matern52, 3)).kernel().parameters()[1].values.len(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Inducing {
    kernel: Box<dyn Kernel>,
    points: Points,
}

impl Inducing {
    /// Creates a sparse GP with as many inducing inputs as suit the number of rows.
    pub fn new(kernel: impl Into<Box<dyn Kernel>>) -> Inducing {
        Inducing { kernel: kernel.into(), points: Points::Automatic }
    }

    /// The kernel.
    pub fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// Sets the inducing inputs.
    pub fn points(self, points: Points) -> Inducing {
        Inducing { points, ..self }
    }
}

/// A Bayesian linear model with an intercept.
///
/// ```
/// use sparsegp::faer::Mat;
/// use sparsegp::likelihood::Gaussian;
/// use sparsegp::prelude::*;
///
/// let x = Mat::from_fn(60, 2, |i, d| (i as f64 * [0.7, 1.1][d]).sin());
/// let y: Vec<f64> = (0..60).map(|i| 5.0 + 2.0 * x[(i, 0)] - x[(i, 1)] + 0.01 * (i as f64).cos()).collect();
/// let model = Fit::new(Linear::default(), Gaussian::default()).fit(&x, &y)?;
/// let names = ["a".to_owned(), "b".to_owned()];
/// let slope = &model.coefficients(&names).expect("a linear model")[1];
/// assert!(slope.name == "a" && (slope.mean - 2.0).abs() < 0.05);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    /// The prior mean of the coefficients, on the standardised scale.
    pub prior_mean: f64,
    /// The prior variance of the coefficients, on the standardised scale.
    pub prior_variance: f64,
}

impl Default for Linear {
    fn default() -> Self {
        Linear { prior_mean: 0.0, prior_variance: 1.0 }
    }
}

/// The latent function of a fit.
#[derive(Clone)]
#[non_exhaustive]
pub enum Latent {
    /// A sparse GP.
    #[doc(hidden)]
    Inducing(Inducing),
    /// A linear model.
    #[doc(hidden)]
    Linear(Linear),
    /// Features of another approximation.
    #[doc(hidden)]
    Features(Box<dyn FeatureMap>),
}

impl From<Inducing> for Latent {
    fn from(inducing: Inducing) -> Self {
        Latent::Inducing(inducing)
    }
}

impl From<Linear> for Latent {
    fn from(linear: Linear) -> Self {
        Latent::Linear(linear)
    }
}

impl<F: FeatureMap + 'static> From<F> for Latent {
    fn from(map: F) -> Self {
        Latent::Features(Box::new(map))
    }
}

impl Latent {
    /// Writes what the options say of the function.
    pub(super) fn write_to(&self, options: &mut FitOptions) {
        options.model = if matches!(self, Latent::Linear(_)) { ModelKind::Glm } else { ModelKind::Gp };
        match self {
            Latent::Inducing(Inducing { points, .. }) => {
                (options.inducing, options.inducing_init) = match points {
                    Points::Automatic => (options.inducing, options.inducing_init),
                    Points::KMeans(count) => (Some(*count), InducingInit::KMeans),
                    Points::Greedy(count) => (Some(*count), InducingInit::Greedy),
                    Points::Random(count) => (Some(*count), InducingInit::Random),
                    Points::Given(z) => (Some(z.nrows()), options.inducing_init),
                };
            }
            Latent::Linear(Linear { prior_mean, prior_variance }) => {
                (options.prior_mean, options.prior_variance) = (*prior_mean, *prior_variance);
            }
            Latent::Features(map) => options.inducing = Some(map.count()),
        }
    }

    /// Returns the function for `d` inputs on the scale the model sees.
    pub(super) fn function(&self, options: &FitOptions, d: usize, scaling: &Scaling) -> Result<Function> {
        let columns = |what: &str, has: usize| match has == d {
            true => Ok(()),
            false => Err(Error::usage(format!("{what} have {has} columns, the inputs have {d}"))),
        };
        match self {
            Latent::Inducing(Inducing { kernel, points }) => {
                let mut kernel = options.told(kernel.clone(), d)?;
                let (axes, target) = scaling.axes(d);
                to_scale(kernel.as_mut(), &axes, target)
                    .map_err(|error| Error::usage(format!("⟨kernel⟩: {error}")))?;
                let points = match points {
                    Points::Given(z) => {
                        columns("the given inducing inputs", z.ncols())?;
                        // Columns of grouped effects follow the inputs.
                        let mut all = Mat::zeros(z.nrows(), scaling.dims());
                        all.as_mut().subcols_mut(0, d).copy_from(z);
                        scaling.scale_inputs(all.as_mut());
                        Some(all.subcols(0, d).to_owned())
                    }
                    _ => None,
                };
                Ok(Function::Sparse { kernel, points })
            }
            Latent::Linear(_) => Ok(Function::Linear),
            Latent::Features(map) => {
                columns("the features", map.inputs())?;
                if options.growth.is_some() || options.neighbours.is_some() {
                    return Err(Error::usage(
                        "⟨inducing auto⟩ and ⟨neighbours⟩ need a kernel, but this fit has features of another approximation",
                    ));
                }
                Ok(Function::Features(map.clone()))
            }
        }
    }
}
