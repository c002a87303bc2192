//! The buffers and sums of a block of columns, and the rows behind it.

use super::given::{Gathered, GivenBlock, GivenGradient};
use super::sampling::SampleScratch;
use super::shape::Shape;
use super::{Batch, Problem, Sizes};
use crate::latent::LayerGradient;
use crate::objective::LossScratch;
use crate::variational::Family;
use faer::{Mat, MatRef};

/// The buffers and sums of one block of columns. Numbers per datum are stored for all data of one layer, or process, after the other.
pub(super) struct Block {
    pub base: Vec<f64>,
    pub offset: Vec<f64>,
    pub mu: Vec<f64>,
    pub v: Vec<f64>,
    /// The residual variances, and the derivatives in them, if the loss takes them apart from v.
    pub r: Vec<f64>,
    pub r_bar: Vec<f64>,
    pub g: Vec<f64>,
    pub h: Vec<f64>,
    pub curvature: Vec<f64>,
    /// `Σ g²/(∂²ℓ/∂μ²)` and `Σ h v` of every process in a pass at the origin.
    pub squares: Vec<f64>,
    pub residual: Vec<f64>,
    pub c: Vec<f64>,
    /// The diagonals of `A diag(h) Aᵀ` and `A diag(curvature) Aᵀ`, if q is diagonal.
    pub diagonals: [Vec<f64>; 2],
    pub layers: Vec<LayerGradient>,
    pub likelihood: Vec<f64>,
    pub value: f64,
    pub loss: LossScratch,
    pub samples: SampleScratch,
    pub gathered: Gathered,
    /// For rows given their neighbours: the gradient through the data of neighbours, and the adjoint of the features of the members, for
    /// every process.
    pub through: Vec<GivenGradient>,
    pub members: Vec<Mat<f64>>,
}

impl Block {
    /// Creates buffers for problems of this shape.
    pub(super) fn new(problem: Problem<'_>, shape: Shape<'_>, sizes: &Sizes<'_>) -> Self {
        let (all, layers, columns) = (shape.process_dim(), shape.layers, sizes.columns);
        let diagonal = if problem.q[0].family() == Family::Diagonal { all } else { 0 };
        let processes = layers.processes();
        let of_processes = || vec![0.0; processes * columns];
        let given = if shape.given.is_some() { processes } else { 0 };
        Block {
            base: vec![0.0; shape.count() * columns],
            offset: vec![0.0; shape.count() * columns],
            mu: of_processes(),
            v: of_processes(),
            r: of_processes(),
            r_bar: of_processes(),
            squares: vec![0.0; processes],
            residual: vec![0.0; processes],
            g: of_processes(),
            h: of_processes(),
            curvature: of_processes(),
            c: vec![0.0; all],
            diagonals: [vec![0.0; diagonal], vec![0.0; diagonal]],
            layers: layers.iter().map(|layer| layer.zero_gradient()).collect(),
            likelihood: vec![0.0; problem.likelihood.own_len()],
            value: 0.0,
            loss: LossScratch::new(&problem.objective),
            samples: SampleScratch::default(),
            gathered: Gathered::default(),
            through: (0..given).map(|_| GivenGradient::zeros(sizes.effects)).collect(),
            members: (0..given).map(|_| Mat::new()).collect(),
        }
    }

    /// Returns the rows of the first process, whose first row has this place in the batch.
    pub(super) fn rows<'a>(&'a self, first: usize, features: MatRef<'a, f64>) -> BlockRows<'a> {
        let len = features.ncols();
        let [mean, variance, slope, half_curvature] =
            [&self.mu, &self.v, &self.g, &self.h].map(|all| &all[..len]);
        BlockRows { first, features, mean, variance, slope, half_curvature }
    }
}

/// The rows of a block of a pass over one process, with their latent marginals and the derivatives of their losses.
pub(crate) struct BlockRows<'a> {
    /// The place of the first row in its batch.
    pub first: usize,
    /// The features in the sums, `M × c`: whitened, except in the direct form.
    pub features: MatRef<'a, f64>,
    /// μ.
    pub mean: &'a [f64],
    /// The variance of f.
    pub variance: &'a [f64],
    /// `∂ℓ/∂μ`.
    pub slope: &'a [f64],
    /// `∂ℓ/∂v`.
    pub half_curvature: &'a [f64],
}

/// The rows of a block: the inputs of a part of a batch, or rows given the data of their neighbours.
#[derive(Clone, Copy)]
pub(super) enum RowsOf<'a> {
    Plain(Batch<'a>),
    Given(GivenBlock<'a>),
}

impl RowsOf<'_> {
    pub(super) fn scale(self) -> f64 {
        match self {
            RowsOf::Plain(batch) => batch.scale,
            RowsOf::Given(given) => given.given.scale,
        }
    }
}
