//! The sums of a pass over the rows of a batch, as a value: sums of parts of a batch are merged, and the step uses the merged sums.

use super::Problem;
use super::given::GivenGradient;
use crate::error::{Error, Result};
use crate::latent::LayerGradient;
use crate::linalg::reflect_lower;
use crate::objective::EstimatorCounts;
use crate::variational::{Family, Matrix};
use faer::Mat;
use serde::{Deserialize, Serialize};

/// The sums of losses and their derivatives over some rows of a batch, before any work that needs all rows.
///
/// They are scaled by `n/b` of the whole batch. For any division of the batch into parts `BatchSums::merge` gives the sums of the whole
/// up to rounding. They belong to the layers, posteriors, objective and form of one model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchSums {
    /// `scale · Σ ℓ_i`.
    pub value: f64,
    /// The sums of every latent process.
    pub processes: Vec<ProcessSums>,
    /// `A ℓ′(f_l)` over L for each of L samples of w (`M × L`), if gradients are reparameterised;
    /// otherwise 0 × 0.
    #[serde(with = "crate::linalg::stored")]
    pub(crate) slopes: Mat<f64>,
    /// The gradient in θ and Z through the rows' features, natural units, for every layer.
    pub(crate) layers: Vec<LayerGradient>,
    /// The gradient of the likelihood's own parameters, natural units.
    pub(crate) likelihood: Vec<f64>,
    /// The counts of sampling estimators.
    pub(crate) counts: EstimatorCounts,
    /// The number of rows.
    pub rows: u64,
    /// The sum of the weights of the rows.
    pub weight: f64,
    /// True if the sums are over raw features. The direct form whitens them once they are complete.
    pub(crate) raw: bool,
    /// The gradient through the data of neighbours, for every process of rows that are given them.
    #[serde(skip)]
    pub(crate) through: Vec<GivenGradient>,
}

/// The sums of a process: the data part of the gradient in its (m, S).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessSums {
    /// `A g` (M), or `K g` of raw features.
    pub(crate) mean: Vec<f64>,
    /// `A diag(h) Aᵀ` (both triangles), or `K diag(h) Kᵀ` of raw features; its diagonal for a diagonal q.
    pub(crate) cov: Matrix,
    /// The sum with `∂²ℓ/∂μ²`, if it differs from `2 h`, as for the predictive log loss.
    pub(crate) curvature: Option<Matrix>,
    /// The whole matrix `A diag(h) Aᵀ`, which the gradient in θ needs, if `cov` is only its
    /// diagonal; otherwise 0 × 0.
    #[serde(with = "crate::linalg::stored")]
    pub(crate) outer: Mat<f64>,
    /// `Σ g²/(∂²ℓ/∂μ²)` of a pass at the origin: `Σ ω c²` for Gaussian noise.
    pub(crate) squares: f64,
    /// `Σ h r` of a pass at the origin: the part of the value that the residual variances add.
    pub(crate) residual: f64,
}

impl ProcessSums {
    fn zeros(family: Family, m: usize, curved: bool) -> Self {
        ProcessSums {
            mean: vec![0.0; m],
            cov: Matrix::zeros(family, m),
            curvature: curved.then(|| Matrix::zeros(family, m)),
            outer: Mat::new(),
            squares: 0.0,
            residual: 0.0,
        }
    }

    fn clear(&mut self) {
        self.mean.fill(0.0);
        self.matrices().for_each(|matrix| matrix.fill(0.0));
        self.outer.as_mut().fill(0.0);
        (self.squares, self.residual) = (0.0, 0.0);
    }

    /// Returns the matrices into which outer products are summed: with weights h, and with weights
    /// `∂²ℓ/∂μ²`.
    pub(super) fn squares(&mut self) -> [Option<&mut Mat<f64>>; 2] {
        let of_curvature = match &mut self.curvature {
            Some(Matrix::Full(sum)) => Some(sum),
            _ => None,
        };
        match &mut self.cov {
            Matrix::Full(sum) => [Some(sum), of_curvature],
            Matrix::Diagonal(_) => [Some(&mut self.outer).filter(|outer| outer.nrows() > 0), of_curvature],
        }
    }

    /// Returns the sums with weights h and with weights `∂²ℓ/∂μ²`, full or diagonal.
    pub(super) fn matrices(&mut self) -> impl Iterator<Item = &mut Matrix> {
        [Some(&mut self.cov), self.curvature.as_mut()].into_iter().flatten()
    }

    fn add(&mut self, other: &ProcessSums) {
        add(&mut self.mean, &other.mean);
        self.cov.add(other.cov.as_ref());
        if let (Some(own), Some(other)) = (&mut self.curvature, &other.curvature) {
            own.add(other.as_ref());
        }
        self.outer += &other.outer;
        self.squares += other.squares;
        self.residual += other.residual;
    }

    fn is_like(&self, other: &ProcessSums) -> bool {
        let curvature = match (&self.curvature, &other.curvature) {
            (Some(own), Some(other)) => own.as_ref().is_like(other.as_ref()),
            (own, other) => own.is_none() && other.is_none(),
        };
        let shape = |s: &ProcessSums| (s.mean.len(), s.outer.shape());
        shape(self) == shape(other) && self.cov.as_ref().is_like(other.cov.as_ref()) && curvature
    }
}

impl BatchSums {
    /// The sums of no rows, with the weights `∂²ℓ/∂μ²` too if `curved` is true; `slopes` is the number of samples of w of a reparameterised gradient, or 0.
    pub(super) fn zeros(problem: Problem<'_>, curved: bool, slopes: usize) -> Self {
        let Problem { layers, likelihood, q, .. } = problem;
        BatchSums {
            value: 0.0,
            processes: q.iter().map(|q| ProcessSums::zeros(q.family(), q.dim(), curved)).collect(),
            slopes: if slopes > 0 { Mat::zeros(layers.dim(), slopes) } else { Mat::new() },
            layers: layers.iter().map(|layer| layer.zero_gradient()).collect(),
            likelihood: vec![0.0; likelihood.own_len()],
            counts: EstimatorCounts::default(),
            rows: 0,
            weight: 0.0,
            raw: false,
            through: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.processes.iter_mut().for_each(ProcessSums::clear);
        self.slopes.as_mut().fill(0.0);
        self.layers.iter_mut().for_each(LayerGradient::clear);
        self.likelihood.fill(0.0);
        self.through.iter_mut().for_each(GivenGradient::clear);
        (self.value, self.weight, self.rows) = (0.0, 0.0, 0);
        self.counts = EstimatorCounts::default();
    }

    /// Adds the sums of other rows.
    ///
    /// # Errors
    ///
    /// If the shapes, families or forms differ; nothing has changed then.
    pub(crate) fn merge(&mut self, other: &BatchSums) -> Result<()> {
        if !self.is_like(other) {
            return Err(Error::unlike_sums(self.dim(), other.dim()));
        }
        self.value += other.value;
        self.processes.iter_mut().zip(&other.processes).for_each(|(own, other)| own.add(other));
        self.slopes += &other.slopes;
        self.layers.iter_mut().zip(&other.layers).for_each(|(own, other)| own.add(other));
        add(&mut self.likelihood, &other.likelihood);
        self.counts.add(other.counts);
        self.rows += other.rows;
        self.weight += other.weight;
        Ok(())
    }

    /// The dimensions of all processes together.
    fn dim(&self) -> usize {
        self.processes.iter().map(|process| process.mean.len()).sum()
    }

    fn is_like(&self, other: &BatchSums) -> bool {
        let shape =
            |s: &BatchSums| (s.processes.len(), s.layers.len(), s.slopes.shape(), s.likelihood.len(), s.raw);
        shape(self) == shape(other)
            && self.processes.iter().zip(&other.processes).all(|(own, other)| own.is_like(other))
            && self.layers.iter().zip(&other.layers).all(|(own, other)| own.is_like(other))
    }

    /// Copies the lower triangles onto the upper ones.
    pub(super) fn reflect(&mut self) {
        for sum in self.processes.iter_mut().flat_map(ProcessSums::matrices) {
            if let Matrix::Full(sum) = sum {
                reflect_lower(sum.as_mut());
            }
        }
    }
}

pub(super) fn add(a: &mut [f64], b: &[f64]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
}
