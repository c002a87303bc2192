//! The sums over data behind collapsed bounds and their gradients, as values: zeros, merges and
//! final steps.

use crate::error::{Error, Result};
use crate::gradient::Form;
use crate::latent::{LatentLayer, LayerGradient, LayerScratch};
use crate::linalg::{self, Operand, Part, product};
use faer::{Accum, Mat, MatRef};
use serde::{Deserialize, Serialize};

/// The part of the sums over the data, or of derivatives with respect to them, that belongs to one output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OutputSums {
    /// `φ = A diag(ω) c`, M, or `∂/∂φ`.
    pub ac: Vec<f64>,
    /// `Σ ω_i c_i²`, or its derivative.
    pub cc: f64,
}

impl OutputSums {
    /// Returns the sums over no data.
    pub(super) fn zeros(m: usize) -> Self {
        OutputSums { ac: vec![0.0; m], cc: 0.0 }
    }

    pub(super) fn clear(&mut self) {
        self.ac.fill(0.0);
        self.cc = 0.0;
    }

    fn scale(&mut self, factor: f64) {
        self.ac.iter_mut().for_each(|x| *x *= factor);
        self.cc *= factor;
    }

    pub(super) fn add(&mut self, other: &OutputSums) {
        self.ac.iter_mut().zip(&other.ac).for_each(|(a, b)| *a += b);
        self.cc += other.cc;
    }
}

/// Weighted sums over the data; `c = y − o`, `r` the residual variances.
///
/// Outputs observed in the same rows share everything except φ and `cᵀc`; `ac` and `cc` hold these for the first output.
///
/// [`Statistics::merge`] adds the sums of several parts of the data; all bounds are functions of the total.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Statistics {
    /// `Φ = A diag(ω) Aᵀ`, `M × M`, both triangles.
    #[serde(with = "crate::linalg::stored")]
    pub gram: Mat<f64>,
    /// `φ = A diag(ω) c`, M.
    pub ac: Vec<f64>,
    /// `Σ ω_i c_i²`.
    pub cc: f64,
    /// `t = Σ r_i`, with the sample weights.
    pub residual: f64,
    /// `Σ log ω_i` of FITC's weights.
    pub log_weight: f64,
    /// n, or the sum of the sample weights.
    pub count: f64,
    /// The sums of further outputs in the same rows.
    #[serde(default)]
    pub further: Vec<OutputSums>,
}

impl Statistics {
    /// The statistics of no data for features of dimension `m`.
    pub fn zeros(m: usize) -> Self {
        let (gram, ac) = (linalg::spread(m, m), vec![0.0; m]);
        Statistics { gram, ac, cc: 0.0, residual: 0.0, log_weight: 0.0, count: 0.0, further: Vec::new() }
    }

    /// Scales the sums over a part of the data to all data.
    pub fn scale(&mut self, factor: f64) {
        self.gram *= faer::Scale(factor);
        self.ac.iter_mut().for_each(|x| *x *= factor);
        [&mut self.cc, &mut self.residual, &mut self.log_weight, &mut self.count]
            .into_iter()
            .for_each(|sum| *sum *= factor);
        self.further.iter_mut().for_each(|output| output.scale(factor));
    }

    /// Adds the statistics of other data under the same layer and the same [`super::Weighting`].
    ///
    /// # Errors
    ///
    /// If the dimensions differ; nothing has changed then.
    pub fn merge(&mut self, other: &Statistics) -> Result<()> {
        let shape = |s: &Statistics| (s.gram.shape(), s.ac.len(), s.further.len());
        if shape(self) != shape(other) {
            return Err(Error::unlike_sums(self.ac.len(), other.ac.len()));
        }
        self.gram += &other.gram;
        self.ac.iter_mut().zip(&other.ac).for_each(|(a, b)| *a += b);
        self.cc += other.cc;
        self.residual += other.residual;
        self.log_weight += other.log_weight;
        self.count += other.count;
        self.further.iter_mut().zip(&other.further).for_each(|(own, other)| own.add(other));
        Ok(())
    }
}

/// Derivatives of a bound with respect to [`Statistics`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatisticsAdjoint {
    /// `∂/∂Φ`, symmetric.
    #[serde(with = "crate::linalg::stored")]
    pub gram: Mat<f64>,
    /// `∂/∂φ`.
    pub ac: Vec<f64>,
    /// `∂/∂(cᵀc)`.
    pub cc: f64,
    /// `∂/∂t`.
    pub residual: f64,
    /// `∂/∂ Σ log ω_i`.
    #[serde(default)]
    pub log_weight: f64,
    /// The derivatives for further outputs.
    #[serde(default)]
    pub further: Vec<OutputSums>,
}

impl StatisticsAdjoint {
    /// Scales the derivatives to those of `factor` times the bound.
    pub fn scale(&mut self, factor: f64) {
        self.gram *= faer::Scale(factor);
        self.ac.iter_mut().for_each(|x| *x *= factor);
        [&mut self.cc, &mut self.residual, &mut self.log_weight].into_iter().for_each(|bar| *bar *= factor);
        self.further.iter_mut().for_each(|output| output.scale(factor));
    }

    /// Adds the derivatives of the bound of a further output.
    pub(super) fn join(&mut self, other: StatisticsAdjoint) {
        self.gram += &other.gram;
        self.residual += other.residual;
        self.log_weight += other.log_weight;
        self.further.push(OutputSums { ac: other.ac, cc: other.cc });
    }
}

/// The route by which the gradient of a bound reaches the rows.
#[derive(Clone, Copy)]
pub enum BoundAdjoint<'a> {
    /// A bound in unweighted statistics.
    Unweighted {
        /// The derivatives of the bound with respect to the statistics of all data.
        adjoint: &'a StatisticsAdjoint,
        /// The order of the products over rows; the other terms do not depend on it.
        form: Form,
    },
    /// FITC, whose weights depend on the residual variances.
    Fitc {
        /// σ².
        noise: f64,
        /// m (M) and S (`M × M`, both triangles) from the statistics of all data.
        posterior: (&'a [f64], MatRef<'a, f64>),
    },
}

/// The gradient of a bound while it is computed: a sum of the terms that depend only on the
/// statistics of all data ([`BoundGradient::of_statistics`]) and of the contributions of all parts
/// of the rows ([`super::DataStream::add_rows`]), in any order. [`BoundGradient::finish`] completes
/// it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BoundGradient {
    /// The gradient in θ and Z through the rows' features; after [`BoundGradient::finish`] the
    /// whole gradient.
    pub layer: LayerGradient,
    /// `G = Ā Aᵀ` (`M × M`, lower triangle), or 0 × 0 while it is zero. Only with FITC do rows add
    /// to it.
    #[serde(with = "crate::linalg::stored")]
    pub g: Mat<f64>,
    /// The derivative in σ² through FITC's weights, `Σ Λ̄_i`; 0 for other bounds, which return this
    /// derivative with their value.
    pub noise: f64,
    /// `∂J/∂F` of every term of grouped effects through rows with neighbours; empty for other rows.
    #[serde(skip)]
    pub factors: Vec<Mat<f64>>,
}

impl BoundGradient {
    /// Creates the gradient of no rows.
    pub fn zeros(layer: &dyn LatentLayer) -> Self {
        BoundGradient { layer: layer.zero_gradient(), g: Mat::new(), noise: 0.0, factors: Vec::new() }
    }

    /// Returns the part of the gradient that follows from the statistics alone: the term
    /// `2 (Φ̄ − κ t̄ I) Φ + φ̄ φᵀ` of G, and for FITC, where
    /// `G = S Φ_ω − m (A e)ᵀ − 2 A diag(Λ̄) Aᵀ` with `A e = m`, everything except the last term.
    pub fn of_statistics(layer: &dyn LatentLayer, statistics: &Statistics, by: BoundAdjoint<'_>) -> Self {
        let (mut out, m) = (BoundGradient::zeros(layer), layer.dim());
        let gram = Operand::full(statistics.gram.as_ref());
        match by {
            // A layer without whitening has nothing to train.
            BoundAdjoint::Unweighted { .. } if layer.whitening().is_none() => {}
            BoundAdjoint::Unweighted { adjoint, .. } => {
                let mut inner = adjoint.gram.clone();
                linalg::add_diagonal(inner.as_mut(), -layer.kappa() * adjoint.residual);
                out.g = Mat::zeros(m, m);
                let left = Operand::full(inner.as_ref());
                product(out.g.as_mut(), Part::Lower, Accum::Replace, left, gram, 2.0);
                let further = statistics.further.iter().zip(&adjoint.further);
                let further = further.map(|(sums, bars)| (&sums.ac, &bars.ac));
                for (sums, bars) in std::iter::once((&statistics.ac, &adjoint.ac)).chain(further) {
                    for (j, phi) in sums.iter().enumerate() {
                        out.g.col_mut(j).iter_mut().zip(bars).for_each(|(g, bar)| *g += bar * phi);
                    }
                }
            }
            BoundAdjoint::Fitc { posterior: (mean, cov), .. } => {
                out.g = Mat::zeros(m, m);
                product(out.g.as_mut(), Part::Lower, Accum::Replace, Operand::full(cov), gram, 1.0);
                for (j, mj) in mean.iter().enumerate() {
                    out.g.col_mut(j).iter_mut().zip(mean).for_each(|(g, mi)| *g -= mi * mj);
                }
            }
        }
        out
    }

    /// Returns the part of the gradient of a model with grouped effects that follows from the
    /// statistics of all data and the posterior `N(m, S)` of w: the term `I − S − m mᵀ − 2κt̄ Φ` of
    /// G. This is the result of [`BoundGradient::of_statistics`] in terms of the posterior. The
    /// last term is present only with unweighted statistics.
    pub fn of_posterior(
        layer: &dyn LatentLayer,
        statistics: &Statistics,
        mean: &[f64],
        cov: MatRef<'_, f64>,
        residual_bar: f64,
    ) -> Self {
        let mut out = BoundGradient::zeros(layer);
        if layer.whitening().is_some() {
            let rest = -2.0 * layer.kappa() * residual_bar;
            out.g = Mat::from_fn(mean.len(), mean.len(), |i, j| {
                f64::from(i == j) - cov[(i, j)] - mean[i] * mean[j] + rest * statistics.gram[(i, j)]
            });
        }
        out
    }

    /// Adds the gradient of other rows, or of the statistics.
    ///
    /// # Errors
    ///
    /// If the shapes of the layers differ; nothing has changed then.
    pub fn merge(&mut self, other: &BoundGradient) -> Result<()> {
        let empty = |g: &Mat<f64>| g.nrows() == 0;
        let fits = self.g.shape() == other.g.shape() || empty(&self.g) || empty(&other.g);
        if !(fits && self.layer.is_like(&other.layer)) {
            return Err(Error::unlike_sums(self.layer.z.nrows(), other.layer.z.nrows()));
        }
        if empty(&self.g) {
            self.g.clone_from(&other.g);
        } else if !empty(&other.g) {
            self.g += &other.g;
        }
        self.layer.add(&other.layer);
        self.noise += other.noise;
        Ok(())
    }

    /// Adds the gradient that flows through the whitening to the gradient of the layer. `G` is
    /// overwritten.
    pub fn finish(&mut self, layer: &dyn LatentLayer, scratch: &mut LayerScratch) {
        if self.g.nrows() > 0 {
            layer.whitening_adjoint(self.g.as_mut(), &mut self.layer, scratch);
            self.g = Mat::new();
        }
    }
}
