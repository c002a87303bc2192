//! Products of a block in single precision between operands in double, rounded on the way in; no sums over data.

use crate::columns;
use crate::latent::LatentLayer;
use crate::linalg::{Shape, block_product};
use crate::variational::MatrixRef;
use faer::{Accum, Mat, MatMut, MatRef};

/// What the features of a block are multiplied by, rounded once per pass.
pub(super) struct Single {
    whitening: Mat<f32>,
    shape: Shape,
    quadratic: Mat<f32>,
}

impl Single {
    /// Room for a layer of dimension `m`.
    pub(super) fn new(m: usize) -> Self {
        Single { whitening: Mat::zeros(m, m), shape: Shape::Full, quadratic: Mat::zeros(m, m) }
    }

    /// Takes up W of the layer and `S − κI`.
    pub(super) fn take(&mut self, layer: &dyn LatentLayer, quadratic: MatrixRef<'_>) {
        if let Some((whitening, shape)) = layer.whitening() {
            round(whitening, self.whitening.as_mut());
            self.shape = shape;
        }
        if let MatrixRef::Full(quadratic) = quadratic {
            round(quadratic, self.quadratic.as_mut());
        }
    }

    /// W.
    pub(super) fn whitening(&self) -> (MatRef<'_, f32>, Shape) {
        (self.whitening.as_ref(), self.shape)
    }

    /// Wᵀ.
    pub(super) fn whitening_adjoint(&self) -> (MatRef<'_, f32>, Shape) {
        (self.whitening.transpose(), self.shape.transposed())
    }

    /// `S − κI`.
    pub(super) fn quadratic(&self) -> (MatRef<'_, f32>, Shape) {
        (self.quadratic.as_ref(), Shape::Full)
    }
}

/// The columns of a block that are multiplied, and their product.
pub(super) struct SingleRoom {
    operand: Mat<f32>,
    product: Mat<f32>,
}

impl SingleRoom {
    /// No room yet.
    pub(super) fn new() -> Self {
        SingleRoom { operand: Mat::new(), product: Mat::new() }
    }

    /// Makes room for blocks like `like`, once.
    pub(super) fn fit(&mut self, like: &Mat<f64>) {
        if self.operand.shape() != like.shape() {
            (self.operand, self.product) =
                (Mat::zeros(like.nrows(), like.ncols()), Mat::zeros(like.nrows(), like.ncols()));
        }
    }

    /// Rounds the operand.
    pub(super) fn load(&mut self, operand: MatRef<'_, f64>) {
        round(operand, self.operand.as_mut().subcols_mut(0, operand.ncols()));
    }

    /// Multiplies the operand, and hands out the product.
    pub(super) fn multiply(&mut self, left: (MatRef<'_, f32>, Shape), mut out: MatMut<'_, f64>) {
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
