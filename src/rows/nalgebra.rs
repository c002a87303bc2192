//! Rows from matrices of nalgebra.

use super::{Numbers, Rows};
use ::nalgebra::{DMatrixView, Dim, IsContiguous, Matrix, RawStorage};
use faer::{Mat, MatRef};

/// A view of a matrix that owns its numbers, or of a view of whole columns with a fixed number of rows.
impl<'a, R: Dim, C: Dim, S: RawStorage<f64, R, C> + IsContiguous> From<&'a Matrix<f64, R, C, S>>
    for Rows<'a>
{
    fn from(matrix: &'a Matrix<f64, R, C, S>) -> Self {
        let (rows, columns) = matrix.shape();
        MatRef::from_column_major_slice(matrix.as_slice(), rows, columns).into()
    }
}

/// A copy, because the columns of a view may be far apart.
impl From<DMatrixView<'_, f64>> for Rows<'_> {
    fn from(view: DMatrixView<'_, f64>) -> Self {
        let (rows, columns) = view.shape();
        Rows(Numbers::Copy(Mat::from_fn(rows, columns, |i, j| view[(i, j)])))
    }
}
