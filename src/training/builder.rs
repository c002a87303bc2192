//! A fit to arrays in the user's units: kernel, likelihood and options in, a model that predicts
//! out.

use super::arrays::{Origin, fit_rows};
use super::check::{check_data, check_groups};
use super::choices::{Chosen, choose};
use super::row_buffer::RowBuffer;
use super::rows::TrainingData;
use super::scaling::scaling_of;
use super::start::Prototype;
use super::trainer::Trainer;
use crate::collapsed::Dataset;
use crate::data::Scaling;
use crate::error::{Error, Result};
use crate::hyper::{Clock, Event, Session};
use crate::likelihood::{LikelihoodKind, ObservationModel};
use crate::model::Model;
use crate::objective::Targets;
use crate::options::FitOptions;
use faer::MatRef;
use sparsegp_kernels::Kernel;
use sparsegp_kernels::units::to_scale;
use std::sync::Arc;

/// A fit to arrays, by [`FitOptions`] and optionally by values of a user's kernel or likelihood type.
///
/// ```
/// use faer::Mat;
/// use sparsegp::training::ModelBuilder;
///
/// let x = Mat::from_fn(60, 1, |i, _| i as f64 / 10.0);
/// let y: Vec<f64> = (0..60).map(|i| (i as f64 / 10.0).sin()).collect();
/// let model = ModelBuilder::new().fit(x.as_ref(), &y)?;
/// let predictions = model.predict(Mat::from_fn(1, 1, |_, _| 1.5).as_ref(), &[])?;
/// assert!((predictions.row(0).mean - 1.5f64.sin()).abs() < 0.05);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ModelBuilder {
    options: FitOptions,
    kernel: Option<Box<dyn Kernel>>,
    likelihood: Option<ObservationModel>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
    validation: Option<RowBuffer>,
}

impl ModelBuilder {
    /// Creates a fit with the defaults of the command line.
    pub fn new() -> Self {
        ModelBuilder::default()
    }

    /// Sets the options; keeps a kernel or likelihood that was set before.
    pub fn options(mut self, options: FitOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the kernel, instead of the one that the options name. The values given to its constructor are starting values in the user's
    /// units, or stay if they are [fixed](Kernel::fixed); for warped columns they are on the scale the model sees. Values that were not
    /// [given](sparsegp_kernels::Parameter::given) start from the data.
    pub fn kernel(mut self, kernel: impl Kernel + 'static) -> Self {
        self.kernel = Some(Box::new(kernel));
        self
    }

    /// Sets the likelihood, instead of the one that the options name: a likelihood of one latent function, or a boxed likelihood of several.
    pub fn likelihood(mut self, likelihood: impl Into<ObservationModel>) -> Self {
        self.likelihood = Some(likelihood.into());
        self
    }

    /// Sets exposures of the training rows, for counts.
    pub fn exposure(mut self, exposure: &[f64]) -> Self {
        self.exposure = exposure.to_vec();
        self
    }

    /// Sets sample weights of the training rows, which multiply their losses.
    pub fn weights(mut self, weights: &[f64]) -> Self {
        self.weights = weights.to_vec();
        self
    }

    /// Sets validation rows, which choose the parameters to keep: inputs (`n × D`) and targets, or [`Targets`] with exposures and weights,
    /// in the user's units.
    pub fn validation<'t>(mut self, x: MatRef<'_, f64>, targets: impl Into<Targets<'t>>) -> Self {
        self.validation = Some(RowBuffer::of(Dataset { x, targets: targets.into() }));
        self
    }

    /// Fits to inputs `x` (`n × D`, one row per datum) and targets `y`, in the user's units: classes are coded 0 and 1, ordered levels 0,
    /// 1, ….
    ///
    /// # Errors
    ///
    /// Usage errors for invalid options, data errors for arrays that do not match or do not suit the likelihood, fit errors if not even
    /// the start can be evaluated.
    pub fn fit(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<Model> {
        self.fit_in(x, y, &mut Session::new(&mut |_: &Event| {}))
    }

    /// Like [`fit`](Self::fit), within a session, which receives every stage and epoch, may interrupt the fit and stores its state.
    ///
    /// # Errors
    ///
    /// As for [`ModelBuilder::fit`]; `Interrupted` if the session was interrupted.
    pub fn fit_in(&self, x: MatRef<'_, f64>, y: &[f64], session: &mut Session<'_>) -> Result<Model> {
        let clock = session.clock(self.options.max_seconds);
        let mut chosen = self.chosen(x, y, &mut session.until(clock, Clock::CHOICES))?;
        let session = &mut session.until(clock, Clock::TRAINING);
        loop {
            let builder = ModelBuilder { options: chosen.options.clone(), ..self.clone() };
            let Prepared { prototype, options, scaling, train, validation } = builder.prepare(x, y)?;
            let rows = TrainingData::of_buffers(&train, validation.as_ref());
            match fit_rows(&rows, &options, Origin::Prototype(prototype), session) {
                Err(error) if chosen.give_up(&error) => {}
                fitted => {
                    let mut fitted = fitted?;
                    fitted.decided_by(chosen);
                    return Ok(fitted.into_model(scaling, &options.decided_for(y.len()), y.len()));
                }
            }
        }
    }

    /// Chooses all unset options; none if the caller gave a kernel or a likelihood as a value.
    fn chosen(&self, x: MatRef<'_, f64>, y: &[f64], session: &mut Session<'_>) -> Result<Chosen> {
        if self.options.open.is_empty() || self.kernel.is_some() || self.likelihood.is_some() {
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
    /// As for [`ModelBuilder::fit`], and for objectives without mini-batches.
    pub fn trainer(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<Trainer> {
        Trainer::new(self.prepare(x, y)?)
    }

    fn targets<'a>(&'a self, y: &'a [f64]) -> Targets<'a> {
        Targets { y, exposure: &self.exposure, weights: &self.weights, outputs: &[] }
    }

    /// Returns everything that a fit needs, on the scale the model sees.
    fn prepare(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<Prepared> {
        let mut options = self.options.clone();
        if let Some(kernel) = self.kernel.as_ref().filter(|_| options.dimensions.is_empty()) {
            // The caller may have set the dimensions of the kernel already.
            options.dimensions = kernel.dimensions().to_vec();
        }
        check_groups(x, &options.effects)?;
        let inputs = options.inputs_of(x.ncols());
        let mut prototype = Prototype::of(&options, inputs, levels(y))?;
        if let Some(kernel) = &self.kernel {
            prototype.kernel = Some(options.told(kernel.clone(), inputs)?);
        }
        if let Some(likelihood) = &self.likelihood {
            prototype.likelihood = likelihood.clone();
        }
        options.likelihood = Some(LikelihoodKind::of(&*prototype.likelihood));
        options.validate()?;
        let mut train = RowBuffer::of(Dataset { x, targets: self.targets(y) });
        let mut validation = self.validation.clone();
        let rows = TrainingData::of_buffers(&train, validation.as_ref());
        check_data(&rows, None, &prototype.likelihood)?;
        if y.iter().all(|value| Some(value) == y.first()) {
            return Err(Error::data(format!(
                "all {} targets are the same, expected values that vary",
                y.len()
            )));
        }
        let scaling = scaling_of(&options, x, y)?;
        validation.iter_mut().chain([&mut train]).for_each(|rows| rows.scale(&scaling));
        if let Some(kernel) = prototype.kernel.as_mut().filter(|_| self.kernel.is_some()) {
            let (columns, target) = scaling.axes(inputs);
            to_scale(kernel.as_mut(), &columns, target)
                .map_err(|error| Error::usage(format!("⟨kernel⟩: {error}")))?;
        }
        options.constraints.columns = options.constraints.columns.or_numbers(inputs);
        let options = options.with_units_of(&scaling);
        Ok(Prepared { prototype, options, scaling, train: Arc::new(train), validation })
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
    pub prototype: Prototype,
    pub options: FitOptions,
    pub scaling: Scaling,
    pub train: Arc<RowBuffer>,
    pub validation: Option<RowBuffer>,
}
