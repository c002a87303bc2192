//! Numbers for the points of both sides of a covariance, such as features, in buffers of the pool.

use crate::kernel::{Gradient, Inputs, Scratch};
use faer::{MatMut, MatRef};

/// Numbers for the points of both sides, `width` for each point, column by column. The right side of a Gram matrix is empty.
pub(crate) struct Sides {
    width: usize,
    pub left: Vec<f64>,
    pub right: Vec<f64>,
}

impl Sides {
    /// Creates the numbers; `write` fills in the numbers of the given points.
    pub fn of(
        inputs: Inputs<'_>,
        width: usize,
        scratch: &mut Scratch,
        write: impl Fn(MatRef<'_, f64>, &mut [f64]),
    ) -> Sides {
        let (x, z) = inputs.distinct_sides();
        let [left, right] = [x, z].map(|points| {
            let mut to = scratch.take(points.nrows() * width);
            write(points, &mut to);
            to
        });
        Sides { width, left, right }
    }

    /// Creates zeros, to which gradients are added.
    pub fn zeros(inputs: Inputs<'_>, width: usize, scratch: &mut Scratch) -> Sides {
        Sides::of(inputs, width, scratch, |_, to| to.fill(0.0))
    }

    /// Returns inputs of the same kind as `inputs`, whose points are these numbers.
    pub fn inputs(&self, inputs: Inputs<'_>) -> Inputs<'_> {
        let (rows, cols) = inputs.shape();
        let left = MatRef::from_column_major_slice(&self.left, rows, self.width);
        match inputs {
            Inputs::Gram(_) => Inputs::Gram(left),
            Inputs::Cross { .. } => {
                Inputs::Cross { left, right: MatRef::from_column_major_slice(&self.right, cols, self.width) }
            }
        }
    }

    /// Returns the numbers of both sides; both are the left ones for a Gram matrix.
    pub fn pair(&self, inputs: Inputs<'_>) -> [&[f64]; 2] {
        [&self.left, if matches!(inputs, Inputs::Gram(_)) { &self.left } else { &self.right }]
    }

    /// Returns the numbers of both sides as matrices.
    pub fn matrices(&mut self, inputs: Inputs<'_>) -> [MatMut<'_, f64>; 2] {
        let (x, z) = inputs.distinct_sides();
        let left = MatMut::from_column_major_slice_mut(&mut self.left, x.nrows(), self.width);
        [left, MatMut::from_column_major_slice_mut(&mut self.right, z.nrows(), self.width)]
    }

    /// Returns the destination of a gradient: these numbers for the points, and `parameters`.
    pub fn gradient<'a>(&'a mut self, inputs: Inputs<'_>, parameters: &'a mut [f64]) -> Gradient<'a> {
        let [left, right] = self.matrices(inputs);
        Gradient { parameters, left: Some(left), right: Some(right) }
    }

    /// Returns the buffers to the pool.
    pub fn release(self, scratch: &mut Scratch) {
        scratch.give_all([self.left, self.right]);
    }
}
