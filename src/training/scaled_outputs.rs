//! Fits of several outputs to arrays in the user's units, with a separate scale for each output.

use super::fit::{Fit, Latent};
use super::outputs::{OutputRows, fit_outputs, fit_shared_outputs};
use crate::data::Scaling;
use crate::error::{Error, Result};
use crate::hyper::{Event, Session};
use crate::likelihood::LikelihoodKind;
use crate::model::Model;
use crate::options::FitOptions;
use crate::rows::Rows;
use faer::{Mat, MatRef};

/// Rows with several outputs on the scale the model sees.
#[doc(hidden)]
pub struct ScaledOutputs {
    x: Mat<f64>,
    targets: Vec<f64>,
    /// The scaling of every output; all scale the inputs alike.
    pub scalings: Vec<Scaling>,
    /// The number of rows with a target, for every output.
    pub known: Vec<usize>,
}

impl ScaledOutputs {
    /// Scales the inputs `x` (`n × D`) and the targets of P outputs, row by row and NaN where unknown, as the options require, or as the
    /// models in `start`, one for each output.
    pub fn of(
        x: MatRef<'_, f64>,
        targets: &[f64],
        outputs: usize,
        options: &FitOptions,
        start: &[&Model],
    ) -> Self {
        let mut targets = targets.to_vec();
        let (mut scalings, mut counts) = (Vec::new(), Vec::new());
        for which in 0..outputs {
            let all = targets.iter().skip(which).step_by(outputs).copied();
            let known: Vec<f64> = all.filter(|y| !y.is_nan()).collect();
            let scaling = match start.get(which) {
                Some(model) => model.scaling().clone(),
                None if options.standardize => {
                    let plain = Scaling::standardise(x, &known);
                    plain.suited_to(&options.dimensions).with_effects(&options.effects)
                }
                None => Scaling::none(x.ncols()),
            };
            let own = targets.iter_mut().skip(which).step_by(outputs);
            own.for_each(|y| scaling.scale_target(std::slice::from_mut(y)));
            counts.push(known.len());
            scalings.push(scaling);
        }
        let mut scaled = x.transpose().to_owned();
        if let Some(scaling) = scalings.first() {
            scaling.scale_inputs(scaled.as_mut().transpose_mut());
        }
        ScaledOutputs { x: scaled, targets, scalings, known: counts }
    }

    /// Returns the rows with these sample weights, or none.
    pub fn rows<'a>(&'a self, weights: &'a [f64]) -> OutputRows<'a> {
        OutputRows { x: self.x.transpose(), targets: &self.targets, weights }
    }
}

impl Fit {
    /// Fits several outputs with Gaussian noise together: `y` has a row for every datum and a column for every output (`n × P`), in the units
    /// of each output, with NaN where it was not observed. The outputs share the kernel and the inducing inputs, or mix this number of
    /// `processes` (linear model of coregionalisation). Returns a model of every output.
    ///
    /// Variances given to a kernel are in units of the first output. The noise of every output starts from its targets.
    ///
    /// ```
    /// use faer::Mat;
    /// use sparsegp::prelude::*;
    ///
    /// // A temperature everywhere, and a humidity, which mirrors it, in every second row.
    /// let x = Mat::from_fn(120, 1, |i, _| i as f64 / 12.0);
    /// let y = Mat::from_fn(120, 2, |i, p| match p {
    ///     0 => 15.0 + 5.0 * x[(i, 0)].sin(),
    ///     _ if i % 2 == 0 => 60.0 - 20.0 * x[(i, 0)].sin(),
    ///     _ => f64::NAN,
    /// });
    /// let fit = Fit::of(FitOptions { inducing: Some(20), ..FitOptions::default() });
    /// let models = fit.fit_outputs(&x, &y, Some(1))?;
    /// let humidity = models[1].predict(&[[1.5]], &[])?.means()[0];
    /// assert!((humidity - 40.0).abs() < 1.0);
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Usage errors for options that several outputs do not have, data errors for arrays that do not match and for outputs that were never
    /// observed, fit errors if not even the start can be evaluated.
    pub fn fit_outputs<'x, 'y>(
        &self,
        x: impl Into<Rows<'x>>,
        y: impl Into<Rows<'y>>,
        processes: Option<usize>,
    ) -> Result<Vec<Model>> {
        let (x, y) = (x.into(), y.into());
        self.fit_output_matrices(x.as_ref(), y.as_ref(), processes)
    }

    fn fit_output_matrices(
        &self,
        x: MatRef<'_, f64>,
        y: MatRef<'_, f64>,
        processes: Option<usize>,
    ) -> Result<Vec<Model>> {
        self.options.check_no_trees("needs a table, whose columns trees can tell apart")?;
        self.check_for_outputs(x, y)?;
        let width = y.ncols();
        let targets: Vec<f64> = y.row_iter().flat_map(|row| row.iter().copied()).collect();
        let options = self.options_of_latent();
        let inputs = options.inputs_of(options.columns_before_offsets(x.ncols())?);
        let scaled = ScaledOutputs::of(x, &targets, width, &options, &[]);
        let function =
            self.latent.as_ref().map(|latent| latent.function(&options, inputs, &scaled.scalings[0]));
        let function = function.transpose()?;
        let options = options.with_units_of(&scaled.scalings[0]);
        let names: Vec<String> = (0..width).map(|which| format!("y{which}")).collect();
        let mut ignore = |_: &Event| {};
        let (rows, session) = (scaled.rows(&self.weights), &mut Session::new(&mut ignore));
        let fitted = match processes {
            Some(processes) => {
                fit_outputs(rows, &names, processes, (&options, function.as_ref()), &[], session)?
            }
            None => fit_shared_outputs(rows, &names, (&options, function.as_ref()), &[], session)?,
        };
        let scaled = scaled.scalings.into_iter().zip(scaled.known);
        let model =
            |(fitted, (scaling, known)): (super::Fitted, _)| fitted.into_model(scaling, &options, known);
        Ok(fitted.into_iter().zip(scaled).map(model).collect())
    }

    fn check_for_outputs(&self, x: MatRef<'_, f64>, y: MatRef<'_, f64>) -> Result<()> {
        let likelihood = self.likelihood.as_deref().map(LikelihoodKind::of).or(self.options.likelihood);
        let refused = [
            (self.start.is_some(), "a start from a model of one output"),
            (!self.exposure.is_empty(), "exposures"),
            (!self.other_ends.is_empty(), "censored targets"),
            (self.validation.is_some(), "validation rows"),
            (
                likelihood.is_some_and(|kind| kind != LikelihoodKind::Gaussian),
                "likelihoods other than gaussian",
            ),
            (!matches!(self.latent, None | Some(Latent::Inducing(_))), "latent functions without a kernel"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_refused, _)| *is_refused) {
            return Err(Error::usage(format!("several outputs cannot be combined with {what}"))
                .hint("fit a model of every output"));
        }
        let (n, rows) = (x.nrows(), y.nrows());
        if n != rows || y.ncols() == 0 {
            let width = y.ncols();
            return Err(Error::data(format!(
                "there are {rows} rows of {width} outputs for {n} rows of inputs, expected as many, and at least one output"
            )));
        }
        if let Some(which) = (0..y.ncols()).find(|&p| y.col(p).iter().any(|y| y.is_infinite())) {
            return Err(Error::data(format!(
                "output {which}, counted from 0, has an infinite target, expected finite numbers, or NaN where unobserved"
            )));
        }
        Ok(())
    }
}
