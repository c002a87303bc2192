//! A fit of several outputs that mix latent processes, and each output by itself as a model; no tables.

use super::arrays::{Origin, fit_rows};
use super::rows::TrainingData;
use super::run::Fitted;
use super::start::Prototype;
use crate::collapsed::Dataset;
use crate::error::{Error, Result};
use crate::hyper::Session;
use crate::latent::Layer;
use crate::likelihood::Gaussian;
use crate::likelihood::joint::{JointLikelihood, Mixed, Outputs};
use crate::model::{LatentModel, Posterior};
use crate::objective::Targets;
use crate::options::{FitOptions, MeanKind, Open};
use faer::{Mat, MatRef, Side};

/// The smallest noise variance that training starts from, in units of the variance of an output.
const LEAST_NOISE: f64 = 0.05;

/// Rows with several outputs on the scale the model sees.
#[derive(Clone, Copy)]
pub struct OutputRows<'a> {
    /// Inputs, n × D.
    pub x: MatRef<'a, f64>,
    /// Targets of P outputs, those of a row one after the other (n·P numbers): of mean 0 and variance 1 over the rows that have one, NaN where
    /// there is none.
    pub targets: &'a [f64],
    /// Sample weights, or none when all are 1.
    pub weights: &'a [f64],
}

/// Fits the linear model of coregionalisation, `f_p = b_p + Σ_l W_pl g_l` (Journel & Huijbregts 1978; Álvarez, Rosasco & Lawrence 2012,
/// section 4), with Gaussian noise of its own for every output, to the outputs of these names. What comes back is a model for every output, with
/// the processes and the posterior of all.
///
/// W starts at the leading principal axes of the outputs, each process has a kernel and inducing inputs of its own.
///
/// # Errors
///
/// As for [`fit_arrays`](super::fit_arrays), and for more processes than outputs, or none.
pub fn fit_outputs(
    rows: OutputRows<'_>,
    (names, processes): (&[String], usize),
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<Vec<Fitted>> {
    let (n, width) = (rows.x.nrows(), names.len());
    if processes == 0 || processes > width {
        return Err(Error::usage(format!(
            "⟨mixing⟩ is {processes}, expected from 1 process to as many as there are outputs, {width}"
        )));
    }
    if rows.targets.len() != n * width {
        return Err(Error::data(format!(
            "there are {} targets for {n} rows of {width} outputs, expected {}",
            rows.targets.len(),
            n * width
        )));
    }
    let options =
        FitOptions { likelihood: None, mean: MeanKind::Zero, open: Open::NOTHING, ..options.clone() };
    options.validate()?;
    let weights = principal_axes(rows.targets, width, processes);
    let output = |(p, name): (usize, &String)| {
        let row: Vec<f64> = weights.row(p).iter().copied().collect();
        let noise = 1.0 - row.iter().map(|w| w * w).sum::<f64>();
        (name.clone(), Mixed::new(Box::new(Gaussian::new(noise.max(LEAST_NOISE))), row, 0.0))
    };
    let outputs: Box<dyn JointLikelihood> =
        Box::new(Outputs::new(names.iter().enumerate().map(output).collect()));
    let kernel = options.registry.kernel(&options.kernel, rows.x.ncols())?;
    let prototype = Prototype { kernel: Some(kernel), likelihood: outputs.into() };
    // What is looked at where an observation is one number.
    let y: Vec<f64> = rows.targets.chunks_exact(width).map(mean).collect();
    let targets = Targets { outputs: rows.targets, weights: rows.weights, ..Targets::of(&y) };
    let data = TrainingData::of(Dataset { x: rows.x, targets });
    let fitted = fit_rows(&data, &options, Origin::Prototype(prototype), session)?;
    (0..width).map(|which| of_output(&fitted, which)).collect()
}

/// One output of a fit of several.
fn of_output(fitted: &Fitted, which: usize) -> Result<Fitted> {
    let joint = fitted.model.likelihood.joint().and_then(|joint| joint.output(which));
    let mixed: Box<dyn JointLikelihood> =
        Box::new(joint.ok_or_else(|| Error::fit("the fit is not one of several outputs"))?);
    let layers: Vec<Layer> = fitted.model.layers.clone();
    let model = LatentModel {
        settings: Default::default(),
        ..LatentModel::of_layers(layers, mixed.into(), fitted.model.fix_inducing)
    };
    let posterior = Posterior::new(&model, &fitted.q);
    Ok(Fitted {
        model,
        q: fitted.q.clone(),
        posterior,
        summary: fitted.summary.clone(),
        search: fitted.search.clone(),
    })
}

/// The mean of the numbers that there are.
fn mean(row: &[f64]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for y in row.iter().filter(|y| !y.is_nan()) {
        (sum, count) = (sum + y, count + 1.0);
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

/// `V_L Λ_L^{½}` of the covariance of the outputs (`P × L`), an absent number being its mean, 0; no axis is as small as nothing.
fn principal_axes(targets: &[f64], width: usize, processes: usize) -> Mat<f64> {
    let n = targets.len() / width.max(1);
    let mut covariance = Mat::<f64>::zeros(width, width);
    for row in targets.chunks_exact(width) {
        let value = |p: usize| if row[p].is_nan() { 0.0 } else { row[p] };
        for p in 0..width {
            (0..width).for_each(|q| covariance[(p, q)] += value(p) * value(q) / n.max(1) as f64);
        }
    }
    let identity = |p: usize, l: usize| if p == l { 1.0 } else { 0.0 };
    let Ok(found) = covariance.self_adjoint_eigen(Side::Lower) else {
        return Mat::from_fn(width, processes, identity);
    };
    // The largest eigenvalues come last.
    Mat::from_fn(width, processes, |p, l| {
        let axis = width - 1 - l;
        found.U()[(p, axis)] * found.S().column_vector()[axis].max(LEAST_NOISE).sqrt()
    })
}
