//! Gradients of predictions in inputs: of means and variances, latent and of the target.

use super::fitted::Model;
use super::local::Local;
use super::nearby::{Beside, Nearby};
use super::posterior::{Marginals, Posterior, Root};
use super::predictions::{Prediction, Predictions};
use crate::error::{Error, Result};
use crate::latent::InducingPrior;
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{Marginal, Observation, ObservationModel, Row};
use crate::parallel::*;
use crate::rows::Rows;
use faer::{Mat, MatRef};
use sparsegp_kernels::{Gradient, Inputs, Scratch};

/// The number of rows of a block.
const ROWS: usize = 128;

/// Gradients in the inputs at some rows, `n × D`, in original units; gradients in codes of categories are 0.
#[derive(Clone, Debug)]
pub struct Slopes {
    /// The gradient of the target's mean.
    pub mean: Mat<f64>,
    /// The gradient of the target's variance.
    pub variance: Mat<f64>,
    /// The gradient of the mean of the function, the target without its noise; for several latent functions, of the first one.
    pub latent_mean: Mat<f64>,
    /// The gradient of the variance of that function.
    pub latent_variance: Mat<f64>,
}

impl Model {
    /// Returns the gradients of predictions in the inputs at rows in original units (`n × D`) with
    /// these exposures (none when all are 1). With neighbours, a row's own neighbours are held
    /// fixed; predictions jump where these change.
    ///
    /// # Errors
    ///
    /// As for [`Model::predict`], and usage errors for warped inputs and for models that define
    /// only a mean.
    pub fn slopes<'x>(&self, x: impl Into<Rows<'x>>, exposure: &[f64]) -> Result<Slopes> {
        self.slopes_at(x.into().as_ref(), exposure)
    }

    fn slopes_at(&self, x: MatRef<'_, f64>, exposure: &[f64]) -> Result<Slopes> {
        self.check_no_groups("the gradient of predictions")?;
        let predictions = self.predict(x, exposure)?;
        if self.mean_only() {
            return Err(Error::usage(
                "gradients of predictions are unavailable for ⟨objective dlm-square⟩, which defines only a mean",
            ));
        }
        let units = self.scaling().input_slopes()?;
        let given = |(index, posterior): (usize, &Posterior)| {
            let part = predictions.of_point(index);
            (part.weight, self.slopes_given(posterior, x, exposure, (&part.latent, &units)))
        };
        let mut all: Vec<(f64, Slopes)> = self.all_posteriors().enumerate().map(given).collect();
        match all.len() {
            1 => Ok(all.remove(0).1),
            _ => Ok(pooled(&predictions, &all)),
        }
    }

    /// Returns the gradients for one set of hyper-parameters, from its marginals at the rows.
    fn slopes_given(
        &self,
        posterior: &Posterior,
        x: MatRef<'_, f64>,
        exposure: &[f64],
        (marginals, units): (&Marginals, &[f64]),
    ) -> Slopes {
        let latent = posterior.slopes(self.on_scale(x).transpose());
        let (n, d) = x.shape();
        let rows = |row: usize| {
            let exposure = exposure.get(row).copied().unwrap_or(1.0);
            let (target, function) = self.chains(posterior.likelihood(), marginals, row, exposure);
            let of = |chain: &[(f64, f64)], d: usize| -> f64 {
                let of_function = |function: usize| {
                    let (chain, own) = (chain[function], &latent[function]);
                    match d.checked_sub(own.0.ncols()) {
                        None => chain.0 * own.0[(row, d)] + chain.1 * own.1[(row, d)],
                        // The slope of f + o in o is 1.
                        Some(offset) if offset == function => chain.0,
                        Some(_) => 0.0,
                    }
                };
                units[d] * (0..latent.len()).map(of_function).sum::<f64>()
            };
            [&target.mean, &target.variance, &function.mean, &function.variance]
                .map(|chain| (0..d).map(|d| of(chain, d)).collect::<Vec<f64>>())
        };
        let found: Vec<[Vec<f64>; 4]> = (0..n).into_par_iter().map(rows).collect();
        let [mean, variance, latent_mean, latent_variance] =
            [0, 1, 2, 3].map(|which| Mat::from_fn(n, d, |i, j| found[i][which][j]));
        Slopes { mean, variance, latent_mean, latent_variance }
    }

    /// Returns the derivatives of the moments of the target and of the function, with respect to the mean and the variance of every latent
    /// function at a row.
    fn chains(
        &self,
        likelihood: &ObservationModel,
        marginals: &Marginals,
        row: usize,
        exposure: f64,
    ) -> (Chain, Chain) {
        let at = marginals.row(row);
        let mut tools = Integrator::default();
        let unit = self.scaling().target.scale;
        let plain = self.scaling().target_map().is_none();
        let linear = || {
            let mut chain = Chain::zeros(marginals.functions);
            (chain.mean[0].0, chain.variance[0].1) = (unit, unit * unit);
            chain
        };
        let function = if plain {
            linear()
        } else {
            Chain::of(at, &mut |mean, variance| {
                self.scaling().unscale_moments(mean[0], variance[0], &mut Integrator::default())
            })
        };
        if plain && likelihood.gaussian_noise().is_some() {
            return (linear(), function);
        }
        let target = Chain::of(at, &mut |mean, variance| {
            let unknown = Observation::exposed(1.0, exposure);
            let row = Row::new(unknown, Marginal { mean, variance });
            let (mean, variance) = likelihood.predictive_moments(row, &mut tools);
            self.scaling().unscale_moments(mean, variance, &mut tools)
        });
        (target, function)
    }
}

/// Returns the gradients of the moments of an average: `∇m = Σ_k w_k ∇m_k` and `∇v = Σ_k w_k (∇v_k + 2 (m_k − m) ∇m_k)`.
fn pooled(predictions: &Predictions, all: &[(f64, Slopes)]) -> Slopes {
    let (n, d) = all[0].1.mean.shape();
    let mut sum = Slopes {
        mean: Mat::zeros(n, d),
        variance: Mat::zeros(n, d),
        latent_mean: Mat::zeros(n, d),
        latent_variance: Mat::zeros(n, d),
    };
    let whole: Vec<Prediction> = predictions.iter().collect();
    for (index, (weight, own)) in all.iter().enumerate() {
        let of_point = predictions.given_point(index);
        for (i, (at, whole)) in of_point.iter().zip(&whole).enumerate() {
            let (off, latent_off) = (at.mean - whole.mean, at.latent_mean - whole.latent_mean);
            for j in 0..d {
                let (mean, latent) = (own.mean[(i, j)], own.latent_mean[(i, j)]);
                sum.mean[(i, j)] += weight * mean;
                sum.variance[(i, j)] += weight * (own.variance[(i, j)] + 2.0 * off * mean);
                sum.latent_mean[(i, j)] += weight * latent;
                sum.latent_variance[(i, j)] +=
                    weight * (own.latent_variance[(i, j)] + 2.0 * latent_off * latent);
            }
        }
    }
    sum
}

/// A mean and a variance, given the means and variances of all latent functions.
type MomentsAt<'a> = dyn FnMut(&[f64], &[f64]) -> (f64, f64) + 'a;

/// Derivatives of two moments in the means and variances of latent functions.
struct Chain {
    mean: Vec<(f64, f64)>,
    variance: Vec<(f64, f64)>,
}

impl Chain {
    fn zeros(functions: usize) -> Chain {
        Chain { mean: vec![(0.0, 0.0); functions], variance: vec![(0.0, 0.0); functions] }
    }

    /// Computes the derivatives by central differences of fourth order: the moments are smooth, and
    /// likelihoods do not provide these derivatives in closed form.
    fn of(at: Marginal<'_>, moments: &mut MomentsAt<'_>) -> Chain {
        let functions = at.mean.len();
        let mut chain = Chain::zeros(functions);
        for function in 0..functions {
            let (mean, variance) = (at.mean.to_vec(), at.variance.to_vec());
            let step_of_mean = 1e-3 * (1.0 + variance[function].sqrt());
            let mut shifted = |by: f64| {
                let mut mean = mean.clone();
                mean[function] += by;
                moments(&mean, &variance)
            };
            let in_mean = difference(&mut shifted, step_of_mean);
            let step_of_variance = 1e-3 * variance[function];
            let mut spread = |by: f64| {
                let mut variance = variance.clone();
                variance[function] += by;
                moments(&mean, &variance)
            };
            let in_variance = difference(&mut spread, step_of_variance);
            chain.mean[function] = (in_mean.0, in_variance.0);
            chain.variance[function] = (in_mean.1, in_variance.1);
        }
        chain
    }
}

/// Returns the derivative of a pair at 0: `(8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h`.
fn difference(of: &mut dyn FnMut(f64) -> (f64, f64), h: f64) -> (f64, f64) {
    let (near, far) = ((of(h), of(-h)), (of(2.0 * h), of(-2.0 * h)));
    let one = |near: (f64, f64), far: (f64, f64)| (8.0 * (near.0 - near.1) - (far.0 - far.1)) / (12.0 * h);
    (one((near.0.0, near.1.0), (far.0.0, far.1.0)), one((near.0.1, near.1.1), (far.0.1, far.1.1)))
}

/// Gradients of means and of variances, `n × D` each.
type Pair = (Mat<f64>, Mat<f64>);

impl Posterior {
    /// The gradients of the mean and the variance of every latent process at `x` (`n × D`), on the scale the model sees.
    pub(crate) fn slopes(&self, x: MatRef<'_, f64>) -> Vec<Pair> {
        let of = |process| match self.beside(process) {
            Some((nearby, count, given)) => local_slopes(nearby, given, x, count),
            None => self.slopes_of(process, x),
        };
        (0..self.factors.len()).map(of).collect()
    }

    fn slopes_of(&self, process: usize, x: MatRef<'_, f64>) -> Pair {
        let layers = self.layers();
        let layer = layers.get(layers.of(process));
        let (n, d) = x.shape();
        let starts: Vec<usize> = (0..n).step_by(ROWS).collect();
        let of_block = |&from: &usize| {
            let block = x.subrows(from, ROWS.min(n - from));
            match (layer.inducing(), layer.linear()) {
                (Some(prior), _) => self.block_slopes(process, prior, block),
                (None, Some(_)) => self.differences(process, block, 1.0),
                // The error of the cube root of ε is about h², far below the precision of a prediction.
                (None, None) => self.differences(process, block, f64::EPSILON.cbrt()),
            }
        };
        let found: Vec<Pair> = starts.par_iter().map(of_block).collect();
        let of = |pick: &dyn Fn(&Pair) -> &Mat<f64>| {
            Mat::from_fn(n, d, |i, j| pick(&found[i / ROWS])[(i % ROWS, j)])
        };
        (of(&|pair| &pair.0), of(&|pair| &pair.1))
    }

    /// `∂μ/∂x = Wᵀm · ∂k/∂x` and `∂v/∂x = ∂k(x, x)/∂x − 2 (Q₊ᵀQ₊ − Q₋ᵀQ₋) k · ∂k/∂x`.
    fn block_slopes(&self, process: usize, prior: &InducingPrior, x: MatRef<'_, f64>) -> Pair {
        let (b, m) = (x.nrows(), prior.z().nrows());
        let factors = &self.factors[process];
        let mut scratch = Scratch::new();
        let inputs = Inputs::Cross { left: prior.z(), right: x };
        let mut k = Mat::zeros(m, b);
        prior.kernel().eval(inputs, k.as_mut(), &mut scratch);
        let mut pull = |kbar: &Mat<f64>| {
            let mut out = Mat::zeros(b, x.ncols());
            let target = Gradient { parameters: &mut [], left: None, right: Some(out.as_mut()) };
            prior.kernel().adjoint(inputs.evaluated(k.as_ref(), kbar.as_ref()), target, &mut scratch);
            out
        };
        let mean = pull(&Mat::from_fn(m, b, |i, _| factors.weights[i]));
        let mut kbar = Mat::zeros(m, b);
        for (root, sign) in [(&factors.roots.reduction, -2.0), (&factors.roots.increase, 2.0)] {
            if let Some(root) = root {
                root.add_square(sign, &k, &mut kbar);
            }
        }
        let mut variance = pull(&kbar);
        add_diagonal_slopes(prior, x, 1.0, &mut variance);
        (mean, variance)
    }

    /// Returns the slopes by central differences of step h. They are exact for a linear model, with a mean that is linear and a variance
    /// that is quadratic, and any h.
    fn differences(&self, process: usize, x: MatRef<'_, f64>, h: f64) -> Pair {
        let (n, d) = x.shape();
        let shifted = |column: usize, by: f64| {
            let moved = Mat::from_fn(n, d, |i, j| x[(i, j)] + if j == column { by } else { 0.0 });
            self.marginals(moved.as_ref())
        };
        let (mut mean, mut variance) = (Mat::zeros(n, d), Mat::zeros(n, d));
        for column in 0..d {
            let (up, down) = (shifted(column, h), shifted(column, -h));
            for i in 0..n {
                let at = i * up.functions + process;
                mean[(i, column)] = 0.5 * (up.mean[at] - down.mean[at]) / h;
                variance[(i, column)] = 0.5 * (up.variance[at] - down.variance[at]) / h;
            }
        }
        (mean, variance)
    }
}

/// Adds `weight` times the gradient of `k(x, x)`.
pub(super) fn add_diagonal_slopes(
    prior: &InducingPrior,
    x: MatRef<'_, f64>,
    weight: f64,
    out: &mut Mat<f64>,
) {
    let target = Gradient { parameters: &mut [], left: Some(out.as_mut()), right: None };
    prior.kernel().diag_adjoint(x, &vec![weight; x.nrows()], target, &mut Scratch::new());
}

impl Root {
    /// Adds `sign · QᵀQ k`.
    fn add_square(&self, sign: f64, k: &Mat<f64>, out: &mut Mat<f64>) {
        match self {
            Root::Upper(q) => *out += faer::Scale(sign) * (q.transpose() * (q * k)),
            Root::Diagonal(q) => {
                *out += Mat::from_fn(k.nrows(), k.ncols(), |i, j| sign * q[i] * q[i] * k[(i, j)])
            }
        }
    }
}

/// Returns the gradients of predictions from neighbours, with the neighbours of each row held fixed.
fn local_slopes(nearby: &Nearby, given: Beside<'_>, x: MatRef<'_, f64>, count: usize) -> Pair {
    let lists = nearby.lists(given.layer, x, count);
    let row = |i: usize| {
        let point = x.subrows(i, 1);
        let (mean, mut variance) = Local::new(nearby, given, &lists[i]).slopes(point, given.q);
        add_diagonal_slopes(given.layer, point, 1.0, &mut variance);
        (mean, variance)
    };
    let found: Vec<Pair> = (0..x.nrows()).into_par_iter().map(row).collect();
    let (n, d) = x.shape();
    (Mat::from_fn(n, d, |i, j| found[i].0[(0, j)]), Mat::from_fn(n, d, |i, j| found[i].1[(0, j)]))
}
