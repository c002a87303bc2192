//! Covariances of targets and of warped functions at several rows, from the covariances of the
//! latent function.

use super::fitted::Model;
use crate::error::{Error, Result};
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{Marginal, Observation, Row};
use crate::parallel::*;
use crate::rows::Rows;
use faer::{Mat, MatRef};

/// The number of Hermite polynomials in an expansion: for functions as smooth as link functions the remainder is below rounding.
const ORDER: usize = 40;

/// The number of nodes of the trapezoidal rule over ±8 standard deviations.
const NODES: usize = 257;

impl Model {
    /// Returns mean (n) and covariance (`n × n`) of the targets at all rows of `x` (`n × D`,
    /// original units) together, with these exposures (none when all are 1): off the diagonal
    /// `Cov(E[y_i | f_i], E[y_j | f_j])`, on it the predictive variance.
    ///
    /// # Errors
    ///
    /// As for [`Model::joint`], and usage errors for likelihoods of several functions and models
    /// that define only a mean.
    #[doc(hidden)]
    pub fn target_joint<'x>(&self, x: impl Into<Rows<'x>>, exposure: &[f64]) -> Result<(Vec<f64>, Mat<f64>)> {
        self.target_joint_at(x.into().as_ref(), exposure)
    }

    fn target_joint_at(&self, x: MatRef<'_, f64>, exposure: &[f64]) -> Result<(Vec<f64>, Mat<f64>)> {
        let predictions = self.predict(x, exposure)?;
        if self.latent().processes() > 1 || self.mean_only() {
            return Err(Error::usage(
                "covariances of targets need a model with one latent function that was not fitted with ⟨objective dlm-square⟩",
            ));
        }
        let (latent, covariance) = self.joint_on_scale(x)?;
        let likelihood = self.posterior().likelihood();
        let conditional = |tools: &mut Integrator, row: usize, f: f64| {
            let unknown = Observation::exposed(1.0, exposure.get(row).copied().unwrap_or(1.0));
            let certain = Marginal { mean: &[f], variance: &[0.0] };
            let (mean, variance) = likelihood.predictive_moments(Row::new(unknown, certain), tools);
            self.scaling().unscale_moments(mean, variance, tools).0
        };
        let at: Vec<_> = (0..x.nrows()).map(|row| predictions.row(row)).collect();
        let mut out = if likelihood.gaussian_noise().is_some() && self.scaling().target_map().is_none() {
            let unit = self.scaling().unscale_variance(1.0);
            covariance * faer::Scale(unit)
        } else {
            mapped(&latent, &covariance, &conditional)
        };
        at.iter().enumerate().for_each(|(row, at)| out[(row, row)] = at.variance);
        Ok((at.iter().map(|at| at.mean).collect(), out))
    }

    /// Returns mean and covariance of the function in units of a warped target, from those on the
    /// scale the model sees.
    pub(super) fn unwarped(&self, mean: &[f64], covariance: &Mat<f64>) -> (Vec<f64>, Mat<f64>) {
        let scaling = self.scaling();
        let invert = |_: &mut Integrator, _: usize, f: f64| scaling.unscaled_target(f);
        let of_row = |(row, &mean): (usize, &f64)| {
            scaling.unscale_moments(mean, covariance[(row, row)], &mut Integrator::default()).0
        };
        (mean.iter().enumerate().map(of_row).collect(), mapped(mean, covariance, &invert))
    }
}

/// `Cov(g_i(f_i), g_j(f_j))` of jointly normal f, by Mehler's formula: `Σ_k ρ_ij^k a_ik a_jk` with the coefficients
/// `a_ik = E[g_i(μ_i + σ_i t) He_k(t)] / √k!` of an expansion in Hermite polynomials, k ≥ 1.
fn mapped(
    mean: &[f64],
    covariance: &Mat<f64>,
    g: &(dyn Fn(&mut Integrator, usize, f64) -> f64 + Sync),
) -> Mat<f64> {
    let n = mean.len();
    let deviation: Vec<f64> = (0..n).map(|i| covariance[(i, i)].max(0.0).sqrt()).collect();
    let coefficients = |tools: &mut Integrator, row: usize| {
        let mut found = [0.0; ORDER + 1];
        let step = 16.0 / (NODES - 1) as f64;
        for node in 0..NODES {
            let t = -8.0 + step * node as f64;
            let weight = step * (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let value = weight * g(tools, row, mean[row] + deviation[row] * t);
            let (mut before, mut own) = (0.0, 1.0);
            for (k, sum) in found.iter_mut().enumerate() {
                *sum += value * own;
                let next = (t * own - (k as f64).sqrt() * before) / ((k + 1) as f64).sqrt();
                (before, own) = (own, next);
            }
        }
        found
    };
    let all: Vec<[f64; ORDER + 1]> =
        (0..n).into_par_iter().map_init(Integrator::default, coefficients).collect();
    Mat::from_fn(n, n, |i, j| {
        let both = deviation[i] * deviation[j];
        let rho = if both > 0.0 { (covariance[(i, j)] / both).clamp(-1.0, 1.0) } else { 0.0 };
        // Horner's rule, from the highest order down.
        (1..=ORDER).rev().fold(0.0, |sum, k| rho * (sum + all[i][k] * all[j][k]))
    })
}
