//! Rows of inputs: matrices, slices and arrays of other crates, as one argument of fits and predictions.

#[cfg(feature = "nalgebra")]
mod nalgebra;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(feature = "ndarray-0_17")]
mod ndarray_0_17;

use crate::error::{Error, Result};
use faer::{Mat, MatRef};

/// Inputs `n × D`, one row per datum: a view if their layout allows it, and a copy otherwise.
///
/// Fits and predictions take anything that converts to rows: a `MatRef` or a `&Mat` of faer, a slice of arrays, and, by features of this
/// crate, the arrays of ndarray 0.16 (`ndarray`), ndarray 0.17 (`ndarray-0_17`) and nalgebra 0.35 (`nalgebra`).
///
/// ```
/// use sparsegp::prelude::*;
///
/// let numbers: Vec<f64> = (0..120).map(|i| (i as f64 * 0.377).sin()).collect();
/// let x = Rows::from_row_major(&numbers, 2)?;
/// let y: Vec<f64> = numbers.chunks(2).map(|row| row[0] - 0.5 * row[1]).collect();
/// let model = Fit::of(FitOptions::default()).fit(x, &y)?;
/// let mean = model.predict(&[[0.5, 0.2], [0.0, 0.3]], &[])?.means();
/// assert!((mean[0] - 0.4).abs() < 0.01 && (mean[1] + 0.15).abs() < 0.01);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rows<'a>(Numbers<'a>);

#[derive(Clone, Debug)]
enum Numbers<'a> {
    View(MatRef<'a, f64>),
    Copy(Mat<f64>),
}

impl<'a> Rows<'a> {
    /// Views a slice that holds rows of `columns` numbers one after the other.
    ///
    /// # Errors
    ///
    /// A data error if the length of the slice is not a multiple of `columns`, or if there are no columns.
    pub fn from_row_major(numbers: &'a [f64], columns: usize) -> Result<Self> {
        let rows = rows_of(numbers.len(), columns)?;
        Ok(MatRef::from_row_major_slice(numbers, rows, columns).into())
    }

    /// Views a slice that holds `columns` columns of equal length one after the other.
    ///
    /// # Errors
    ///
    /// As for [`from_row_major`](Self::from_row_major).
    pub fn from_column_major(numbers: &'a [f64], columns: usize) -> Result<Self> {
        let rows = rows_of(numbers.len(), columns)?;
        Ok(MatRef::from_column_major_slice(numbers, rows, columns).into())
    }

    /// The rows as a matrix of faer.
    pub fn as_ref(&self) -> MatRef<'_, f64> {
        match &self.0 {
            Numbers::View(rows) => *rows,
            Numbers::Copy(rows) => rows.as_ref(),
        }
    }

    /// Returns the rows as a matrix of faer that owns its numbers, for example for [`Points::Given`](crate::training::Points::Given).
    pub fn into_mat(self) -> Mat<f64> {
        match self.0 {
            Numbers::View(rows) => rows.to_owned(),
            Numbers::Copy(rows) => rows,
        }
    }
}

/// Returns the number of rows of this many columns in a slice.
fn rows_of(numbers: usize, columns: usize) -> Result<usize> {
    if columns == 0 {
        return Err(Error::data("found rows of 0 columns, expected at least 1 column"));
    }
    if !numbers.is_multiple_of(columns) {
        return Err(Error::data(format!(
            "found a slice of {numbers} numbers for rows of {columns} columns, expected a multiple of {columns}"
        )));
    }
    Ok(numbers / columns)
}

impl<'a> From<MatRef<'a, f64>> for Rows<'a> {
    fn from(rows: MatRef<'a, f64>) -> Self {
        Rows(Numbers::View(rows))
    }
}

impl<'a> From<&'a Mat<f64>> for Rows<'a> {
    fn from(rows: &'a Mat<f64>) -> Self {
        rows.as_ref().into()
    }
}

impl From<Mat<f64>> for Rows<'_> {
    fn from(rows: Mat<f64>) -> Self {
        Rows(Numbers::Copy(rows))
    }
}

impl<'a, const D: usize> From<&'a [[f64; D]]> for Rows<'a> {
    fn from(rows: &'a [[f64; D]]) -> Self {
        MatRef::from_row_major_slice(rows.as_flattened(), rows.len(), D).into()
    }
}

impl<'a, const D: usize, const N: usize> From<&'a [[f64; D]; N]> for Rows<'a> {
    fn from(rows: &'a [[f64; D]; N]) -> Self {
        rows.as_slice().into()
    }
}

impl<'a, const D: usize> From<&'a Vec<[f64; D]>> for Rows<'a> {
    fn from(rows: &'a Vec<[f64; D]>) -> Self {
        rows.as_slice().into()
    }
}

/// Implements the conversions from arrays of two dimensions of one version of ndarray.
#[cfg(any(feature = "ndarray", feature = "ndarray-0_17"))]
macro_rules! from_arrays {
    ($version:ident) => {
        use super::{Numbers, Rows};
        use ::$version::{ArrayBase, ArrayView2, Data, Ix2};
        use faer::{Mat, MatRef};

        /// A view of a contiguous array in either order, and a copy of another.
        impl<'a> From<ArrayView2<'a, f64>> for Rows<'a> {
            fn from(array: ArrayView2<'a, f64>) -> Self {
                let (rows, columns) = array.dim();
                let view = array
                    .to_slice()
                    .map(|numbers| MatRef::from_row_major_slice(numbers, rows, columns))
                    .or_else(|| {
                        let numbers = array.reversed_axes().to_slice()?;
                        Some(MatRef::from_column_major_slice(numbers, rows, columns))
                    });
                match view {
                    Some(view) => view.into(),
                    None => Rows(Numbers::Copy(Mat::from_fn(rows, columns, |i, j| array[(i, j)]))),
                }
            }
        }

        impl<'a, S: Data<Elem = f64>> From<&'a ArrayBase<S, Ix2>> for Rows<'a> {
            fn from(array: &'a ArrayBase<S, Ix2>) -> Self {
                array.view().into()
            }
        }
    };
}
#[cfg(any(feature = "ndarray", feature = "ndarray-0_17"))]
use from_arrays;
