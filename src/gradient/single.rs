//! Products of a block in single precision, of operands in double precision that are rounded first.

use crate::columns;
use crate::latent::{Layer, Layers};
use crate::linalg::{Operand, Shape, block_product};
use crate::variational::MatrixRef;
use faer::{Accum, Mat, MatMut, MatRef};

/// The factors that a block's features are multiplied by, rounded once per pass.
pub(super) struct Single {
    /// W of every layer.
    whitening: Vec<(Mat<f32>, Shape)>,
    /// `S − κI` of every process.
    quadratic: Vec<Mat<f32>>,
}

impl Single {
    /// Creates buffers for the processes of some layers.
    pub(super) fn new(layers: Layers<'_>) -> Self {
        let square = |layer: &Layer| Mat::zeros(layer.dim(), layer.dim());
        let processes = 0..layers.processes();
        Single {
            whitening: layers.iter().map(|layer| (square(layer), Shape::Full)).collect(),
            quadratic: processes.map(|process| square(layers.get(layers.of(process)))).collect(),
        }
    }

    /// Stores W of the layers, rounded.
    pub(super) fn take(&mut self, layers: Layers<'_>) {
        for (layer, (rounded, shape)) in layers.iter().zip(&mut self.whitening) {
            if let Some(whitening) = layer.whitening() {
                round(whitening.matrix, rounded.as_mut());
                *shape = whitening.shape;
            }
        }
    }

    /// Stores `S − κI` of a process, rounded.
    pub(super) fn take_quadratic(&mut self, process: usize, quadratic: MatrixRef<'_>) {
        if let MatrixRef::Full(quadratic) = quadratic {
            round(quadratic, self.quadratic[process].as_mut());
        }
    }

    /// Returns W.
    pub(super) fn whitening(&self, layer: usize) -> Operand<'_, f32> {
        let (whitening, shape) = &self.whitening[layer];
        Operand { matrix: whitening.as_ref(), shape: *shape }
    }

    /// Returns Wᵀ.
    pub(super) fn whitening_adjoint(&self, layer: usize) -> Operand<'_, f32> {
        self.whitening(layer).transposed()
    }

    /// `S − κI`.
    pub(super) fn quadratic(&self, process: usize) -> Operand<'_, f32> {
        Operand::full(self.quadratic[process].as_ref())
    }
}

/// The columns of a block that are multiplied, and their product.
pub(super) struct SingleRoom {
    operand: Mat<f32>,
    product: Mat<f32>,
}

impl SingleRoom {
    /// Creates empty buffers.
    pub(super) fn new() -> Self {
        SingleRoom { operand: Mat::new(), product: Mat::new() }
    }

    /// Allocates memory for blocks of this number of rows and columns, once.
    pub(super) fn fit(&mut self, rows: usize, columns: usize) {
        if self.operand.shape() != (rows, columns) {
            (self.operand, self.product) = (Mat::zeros(rows, columns), Mat::zeros(rows, columns));
        }
    }

    /// Stores an operand, rounded.
    pub(super) fn load(&mut self, operand: MatRef<'_, f64>) {
        round(operand, self.operand.as_mut().subcols_mut(0, operand.ncols()));
    }

    /// Multiplies the operand by `left`, and writes the product to `out`.
    pub(super) fn multiply(&mut self, left: Operand<'_, f32>, mut out: MatMut<'_, f64>) {
        let len = out.ncols();
        let operand = self.operand.as_ref().subcols(0, len);
        block_product(self.product.as_mut().subcols_mut(0, len), Accum::Replace, left, operand, 1.0);
        columns::convert(self.product.as_ref().subcols(0, len), out.as_mut(), f64::from);
    }

    /// Makes the last product the next operand.
    pub(super) fn go_on(&mut self) {
        std::mem::swap(&mut self.operand, &mut self.product);
    }
}

fn round(a: MatRef<'_, f64>, out: MatMut<'_, f32>) {
    columns::convert(a, out, |x| x as f32);
}
