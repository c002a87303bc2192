//! A fit to arrays in the user's units: kernel, likelihood and options in, a model that predicts out; no tables.

use super::arrays::{Origin, fit_rows};
use super::check::check_data;
use super::record::record;
use super::rows::TrainingData;
use super::start::Prototype;
use crate::collapsed::Dataset;
use crate::data::Scaling;
use crate::error::{Error, Result};
use crate::hyper::{Record, Session};
use crate::likelihood::{Likelihood, LikelihoodKind};
use crate::model::Model;
use crate::objective::Targets;
use crate::options::FitOptions;
use faer::{Mat, MatRef};
use sparsegp_kernels::Kernel;

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
    likelihood: Option<Box<dyn Likelihood>>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
    validation: Option<Rows>,
}

/// Rows on some scale: inputs `D × n`, a column per datum.
#[derive(Clone)]
struct Rows {
    x: Mat<f64>,
    y: Vec<f64>,
}

impl Rows {
    fn of(x: MatRef<'_, f64>, y: &[f64]) -> Rows {
        Rows { x: x.transpose().to_owned(), y: y.to_vec() }
    }

    fn scale(&mut self, scaling: &Scaling) {
        scaling.scale_inputs(self.x.as_mut());
        scaling.scale_target(&mut self.y);
    }

    fn dataset<'a>(&'a self, exposure: &'a [f64], weights: &'a [f64]) -> Dataset<'a> {
        Dataset { x: self.x.as_ref(), targets: Targets { y: &self.y, exposure, weights } }
    }
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

    /// With this likelihood, in place of the one that the options name.
    pub fn likelihood(mut self, likelihood: impl Likelihood + 'static) -> Self {
        self.likelihood = Some(Box::new(likelihood));
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
        self.validation = Some(Rows::of(x, y));
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
        self.fit_in(x, y, &mut Session::new(&mut |_: &Record| {}))
    }

    /// The same within a session, which hears of every epoch, may interrupt the fit and keeps its state.
    ///
    /// # Errors
    ///
    /// As for [`ModelBuilder::fit`]; `Interrupted` when the session was.
    pub fn fit_in(&self, x: MatRef<'_, f64>, y: &[f64], session: &mut Session<'_>) -> Result<Model> {
        let prepared = self.prepare(x, y)?;
        let PreparedFit { prototype, options, scaling, rows, validation } = prepared;
        let data = TrainingData {
            train: rows.dataset(&self.exposure, &self.weights),
            validation: validation.as_ref().map(|rows| rows.dataset(&[], &[])),
            levels: 0,
        };
        let fitted = fit_rows(&data, &options, Origin::Prototype(prototype), session)?;
        Ok(record(fitted, scaling, &options.decided_for(y.len()), y.len()))
    }

    /// Everything that a fit takes, on the scale that the model sees.
    fn prepare(&self, x: MatRef<'_, f64>, y: &[f64]) -> Result<PreparedFit> {
        let levels = y.iter().fold(0.0, |most: f64, &level| most.max(level)) as usize + 1;
        let mut prototype = Prototype::of(&self.options, x.ncols(), levels.clamp(2, MOST_LEVELS))?;
        if let Some(kernel) = &self.kernel {
            prototype.kernel = Some(kernel.clone());
        }
        if let Some(likelihood) = &self.likelihood {
            prototype.likelihood = likelihood.clone();
        }
        let mut options = self.options.clone();
        options.likelihood = Some(LikelihoodKind::of(prototype.likelihood.as_ref()));
        options.validate()?;
        let (mut rows, mut validation) = (Rows::of(x, y), self.validation.clone());
        let data = TrainingData {
            train: rows.dataset(&self.exposure, &self.weights),
            validation: validation.as_ref().map(|rows| rows.dataset(&[], &[])),
            levels: 0,
        };
        check_data(&data, None, prototype.likelihood.as_ref())?;
        if y.iter().all(|value| Some(value) == y.first()) {
            return Err(Error::data(format!(
                "all {} targets are the same, expected values that vary",
                y.len()
            )));
        }
        let scaling = match options.standardize {
            false => Scaling::none(x.ncols()),
            true => {
                let scaling = Scaling::standardise(rows.x.as_ref(), &rows.y);
                let scales = prototype.likelihood.scales_target();
                if scales { scaling } else { scaling.with_original_target() }
            }
        };
        rows.scale(&scaling);
        validation.iter_mut().for_each(|rows| rows.scale(&scaling));
        Ok(PreparedFit { prototype, options, scaling, rows, validation })
    }
}

/// The most ordered levels that targets are taken to have: more are numbers.
const MOST_LEVELS: usize = 1000;

/// What a fit takes.
struct PreparedFit {
    prototype: Prototype,
    options: FitOptions,
    scaling: Scaling,
    rows: Rows,
    validation: Option<Rows>,
}
