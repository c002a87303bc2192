//! Offsets, known additions to the latent functions of rows, as the last columns of inputs.

use super::scaling::{Affine, Scaling};
use faer::{ColRef, Mat, MatRef};
use serde::{Deserialize, Serialize};

/// The offsets among the columns of a fit: `p(y | f + o)` with a known o for each row and function.
///
/// They are the last columns of the inputs in the user's units. On the scale the model sees they are apart from the inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Offsets {
    /// No column.
    #[default]
    None,
    /// One column for each function, which losses and predictions add to f.
    Added(usize),
    /// One column, which is subtracted from targets with Gaussian noise, since `N(y; f + o, σ²) = N(y − o; f, σ²)`. Predictions add it to f.
    Subtracted,
}

impl Offsets {
    /// Returns true without offsets.
    pub fn is_none(&self) -> bool {
        *self == Offsets::None
    }

    /// The number of columns.
    pub fn columns(self) -> usize {
        match self {
            Offsets::None => 0,
            Offsets::Added(count) => count,
            Offsets::Subtracted => 1,
        }
    }

    /// Splits rows on the scale the model sees into the inputs and the offsets that losses add to the functions.
    pub fn split(self, x: MatRef<'_, f64>) -> (MatRef<'_, f64>, MatRef<'_, f64>) {
        let (inputs, offsets) = self.split_all(x);
        (inputs, if self == Offsets::Subtracted { Offsets::none() } else { offsets })
    }

    /// Like [`split`](Self::split), with the offsets that predictions add to the functions.
    pub(crate) fn split_all(self, x: MatRef<'_, f64>) -> (MatRef<'_, f64>, MatRef<'_, f64>) {
        if self.is_none() { (x, Offsets::none()) } else { x.split_at_col(x.ncols() - self.columns()) }
    }

    /// No offsets, as a matrix.
    pub(crate) fn none<'a>() -> MatRef<'a, f64> {
        MatRef::from_row_major_slice(&[], 0, 0)
    }
}

/// Returns the offset of a function in a row; 0 without offsets.
pub(crate) fn offset_at(offsets: MatRef<'_, f64>, row: usize, function: usize) -> f64 {
    if offsets.ncols() == 0 { 0.0 } else { offsets[(row, function)] }
}

impl Scaling {
    /// Returns the scaling for rows whose last columns are offsets, which have the scale of the target if the fit `scales` it. With Gaussian
    /// noise (`subtracts`) they are subtracted from the target.
    pub(crate) fn with_offsets(mut self, count: usize, scales: bool, subtracts: bool) -> Scaling {
        let first = self.dims().saturating_sub(count);
        self.without_scores(first);
        for affine in &mut self.inputs[first..] {
            *affine = Affine::IDENTITY;
        }
        if let Some(affine) = self.inputs.get_mut(first).filter(|_| count > 0 && scales) {
            *affine = Affine { shift: 0.0, scale: self.target.scale };
        }
        self.offsets = match count {
            0 => Offsets::None,
            1 if subtracts => Offsets::Subtracted,
            count => Offsets::Added(count),
        };
        self
    }

    /// Returns the scaling whose target is standardised after the subtraction of an offset, which stands in `offset` for every target.
    pub(crate) fn of_rest(mut self, offset: ColRef<'_, f64>, y: &[f64]) -> Scaling {
        let map = *self.target_map();
        self.target =
            Affine::standardise(|| y.iter().zip(offset.iter()).map(|(&y, offset)| map.apply(y) - offset));
        self
    }

    /// The offsets among the columns.
    pub fn offsets(&self) -> Offsets {
        self.offsets
    }

    /// The number of columns on the scale the model sees, which are the inputs and the columns of grouped effects.
    pub(crate) fn dims_without_offsets(&self) -> usize {
        self.dims() - self.offsets.columns()
    }

    /// Changes rows from the user's units to the scale the model sees: `columns` has a column for each row.
    pub fn scale_rows(&self, columns: &mut Mat<f64>, rows: usize, y: &mut [f64]) {
        self.scale_inputs(columns.as_mut().subcols_mut(0, rows).transpose_mut());
        self.scale_target(y);
        if self.offsets == Offsets::Subtracted {
            let last = columns.nrows() - 1;
            y.iter_mut().enumerate().for_each(|(row, y)| *y -= columns[(last, row)]);
        }
    }
}
