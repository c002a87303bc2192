//! A fit to arrays in the user's units: kernel, likelihood and options in, a model that predicts out; no tables.

use super::arrays::{Origin, fit_rows};
use super::check::{check_data, check_groups};
use super::choices::{Chosen, choose};
use super::owned::{OwnedData, OwnedRows};
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
use std::sync::Arc;

/// A fit to be made: what [`FitOptions`] say, and a kernel or a likelihood that is a value of its own type.
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
    validation: Option<OwnedRows>,
}

impl ModelBuilder {
    /// A fit as the command line makes it when nothing is said.
    pub fn new() -> Self {
        ModelBuilder::default()
    }

    /// With these options; a kernel and a likelihood that were given stay.
    pub fn options(mut self, options: FitOptions) -> Self {
        self.options = options;
        self
    }

    /// With this kernel, in place of the one that the options name. Values that it was not [given](sparsegp_kernels::Parameter::given)
    /// start from the data.
    pub fn kernel(mut self, kernel: impl Kernel + 'static) -> Self {
        self.kernel = Some(Box::new(kernel));
        self
    }

    /// With this likelihood, of one function or boxed of several, in place of the one that the options name.
    pub fn likelihood(mut self, likelihood: impl Into<ObservationModel>) -> Self {
        self.likelihood = Some(likelihood.into());
        self
    }

    /// With exposures of the training rows, for counts.
    pub fn exposure(mut self, exposure: &[f64]) -> Self {
        self.exposure = exposure.to_vec();
        self
    }

    /// With sample weights of the training rows, which multiply their losses.
    pub fn weights(mut self, weights: &[f64]) -> Self {
        self.weights = weights.to_vec();
        self
    }

    /// With rows to choose the parameters that are kept by: inputs (`n × D`) and targets, in the user's units.
    pub fn validation(mut self, x: MatRef<'_, f64>, y: &[f64]) -> Self {
        self.validation = Some(OwnedRows::of(x, y));
        self
    }

    /// Fits to inputs `x` (`n × D`, a row per datum) and targets `y`, in the user's units: classes are coded 0 and 1, ordered
    /// levels 0, 1, ….
    ///
    /// # Errors
    ///
    /// Usage errors for options that make no sense, data errors for arrays that do not go together or that the likelihood is
    /// not defined on, fit errors when not even the start can be evaluated.
    pub fn fit(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<Model> {
        self.fit_in(x, y, &mut Session::new(&mut |_: &Event| {}))
    }

    /// The same within a session, which hears of every stage and epoch, may interrupt the fit and keeps its state.
    ///
    /// # Errors
    ///
    /// As for [`ModelBuilder::fit`]; `Interrupted` when the session was.
    pub fn fit_in(&self, x: MatRef<'_, f64>, y: &[f64], session: &mut Session<'_>) -> Result<Model> {
        let clock = session.clock(self.options.max_seconds);
        let mut chosen = self.chosen((x, y), &mut session.until(clock, Clock::CHOICES))?;
        let session = &mut session.until(clock, Clock::TRAINING);
        loop {
            let builder = ModelBuilder { options: chosen.options.clone(), ..self.clone() };
            let Prepared { prototype, options, scaling, rows } = builder.prepare(x, y)?;
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

    /// Decides everything that options leave open. A kernel or a likelihood that was given as a value decides all.
    fn chosen(&self, (x, y): (MatRef<'_, f64>, &[f64]), session: &mut Session<'_>) -> Result<Chosen> {
        if self.options.open.is_empty() || self.kernel.is_some() || self.likelihood.is_some() {
            return Ok(Chosen::as_asked(self.options.clone()));
        }
        // What is wrong with arrays or options is said before any work.
        self.prepare(x, y)?;
        let targets = Targets { y, exposure: &self.exposure, weights: &self.weights, outputs: &[] };
        choose((Dataset { x, targets }, levels(y)), &self.options, session)
    }

    /// Mini-batch training of the same, a step at a time by the caller's own loop. An ELBO that would collapse is trained by
    /// mini-batches too.
    ///
    /// # Errors
    ///
    /// As for [`ModelBuilder::fit`], and for objectives that no mini-batch has.
    pub fn trainer(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<Trainer> {
        Trainer::new(self.prepare(x, y)?)
    }

    /// Everything that a fit takes, on the scale that the model sees.
    fn prepare(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<Prepared> {
        let mut options = self.options.clone();
        if let Some(kernel) = self.kernel.as_ref().filter(|_| options.dimensions.is_empty()) {
            // Who brings a kernel may have told it what inputs hold.
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
        options.likelihood = Some(LikelihoodKind::of(&prototype.likelihood));
        options.validate()?;
        let train = OwnedRows {
            exposure: self.exposure.clone(),
            weights: self.weights.clone(),
            ..OwnedRows::of(x, y)
        };
        let mut rows = OwnedData { train, validation: self.validation.clone() };
        check_data(&rows.borrowed(), None, &prototype.likelihood)?;
        if y.iter().all(|value| Some(value) == y.first()) {
            return Err(Error::data(format!(
                "all {} targets are the same, expected values that vary",
                y.len()
            )));
        }
        let scaling = scaling_of(&options, x, y)?;
        rows.scale(&scaling);
        Ok(Prepared { prototype, options, scaling, rows: Arc::new(rows) })
    }
}

/// The most ordered levels that targets are taken to have: more are numbers.
const MOST_LEVELS: usize = 1000;

/// The ordered levels of targets, if they are that.
fn levels(y: &[f64]) -> usize {
    let most = y.iter().fold(0.0, |most: f64, &level| most.max(level)) as usize;
    (most + 1).clamp(2, MOST_LEVELS)
}

/// What a fit to arrays takes, on the scale that the model sees.
pub(super) struct Prepared {
    pub prototype: Prototype,
    pub options: FitOptions,
    pub scaling: Scaling,
    pub rows: Arc<OwnedData>,
}
