//! The variational family: q(w) = N(m, S) with S full or diagonal, and its KL divergence to the standard normal.

use crate::error::{Error, Result};
use crate::linalg::{self, Factorizer, dot, trace};
use crate::words::word_option;
use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

word_option! {
    /// The covariances that q may have.
    Family, "family" {
        /// Every symmetric positive definite matrix.
        Full = "full",
        /// Diagonal matrices (mean field).
        Diagonal = "diagonal",
    }
}

/// An `M × M` matrix of a family: all entries, or the diagonal of a diagonal matrix.
#[derive(Debug, Serialize, Deserialize)]
#[doc(hidden)]
pub enum Matrix {
    /// Every entry.
    Full(#[serde(with = "crate::linalg::stored")] Mat<f64>),
    /// The diagonal, M entries.
    Diagonal(Vec<f64>),
}

impl Clone for Matrix {
    fn clone(&self) -> Self {
        match self {
            Matrix::Full(all) => Matrix::Full(linalg::spread_copy(all.as_ref())),
            Matrix::Diagonal(diagonal) => Matrix::Diagonal(diagonal.clone()),
        }
    }
}

impl Matrix {
    /// Returns the zero matrix.
    pub fn zeros(family: Family, m: usize) -> Self {
        match family {
            Family::Full => Matrix::Full(linalg::spread(m, m)),
            Family::Diagonal => Matrix::Diagonal(vec![0.0; m]),
        }
    }

    /// Returns the identity.
    pub fn identity(family: Family, m: usize) -> Self {
        let mut identity = Matrix::zeros(family, m);
        identity.add_diagonal(1.0);
        identity
    }

    /// Borrows the matrix.
    pub fn as_ref(&self) -> MatrixRef<'_> {
        match self {
            Matrix::Full(all) => MatrixRef::Full(all.as_ref()),
            Matrix::Diagonal(diagonal) => MatrixRef::Diagonal(diagonal),
        }
    }

    /// Returns the diagonal of a diagonal matrix, mutably.
    ///
    /// # Panics
    ///
    /// If the matrix is full.
    pub(super) fn diagonal_mut(&mut self) -> &mut [f64] {
        match self {
            Matrix::Diagonal(diagonal) => diagonal,
            Matrix::Full(_) => family_mismatch(),
        }
    }

    /// Sets every entry to `value`.
    pub fn fill(&mut self, value: f64) {
        match self {
            Matrix::Full(all) => all.as_mut().fill(value),
            Matrix::Diagonal(diagonal) => diagonal.fill(value),
        }
    }

    pub(crate) fn copy_from(&mut self, other: MatrixRef<'_>) {
        match (self, other) {
            (Matrix::Full(own), MatrixRef::Full(other)) => own.copy_from(other),
            (Matrix::Diagonal(own), MatrixRef::Diagonal(other)) => own.copy_from_slice(other),
            _ => family_mismatch(),
        }
    }

    pub(crate) fn add(&mut self, other: MatrixRef<'_>) {
        match (self, other) {
            (Matrix::Full(own), MatrixRef::Full(other)) => *own += other,
            (Matrix::Diagonal(own), MatrixRef::Diagonal(other)) => {
                own.iter_mut().zip(other).for_each(|(a, b)| *a += b);
            }
            _ => family_mismatch(),
        }
    }

    /// Adds a multiple of another matrix of the same family and size.
    pub(crate) fn add_scaled(&mut self, other: MatrixRef<'_>, factor: f64) {
        match (self, other) {
            (Matrix::Full(own), MatrixRef::Full(other)) => {
                let columns = own.col_iter_mut().zip(other.col_iter());
                columns.for_each(|(own, other)| {
                    own.iter_mut().zip(other.iter()).for_each(|(a, b)| *a += factor * b)
                });
            }
            (Matrix::Diagonal(own), MatrixRef::Diagonal(other)) => {
                own.iter_mut().zip(other).for_each(|(a, b)| *a += factor * b);
            }
            _ => family_mismatch(),
        }
    }

    pub(crate) fn add_diagonal(&mut self, value: f64) {
        match self {
            Matrix::Full(all) => linalg::add_diagonal(all.as_mut(), value),
            Matrix::Diagonal(diagonal) => diagonal.iter_mut().for_each(|d| *d += value),
        }
    }
}

/// A borrowed [`Matrix`].
#[derive(Clone, Copy, Debug)]
pub enum MatrixRef<'a> {
    /// Every entry.
    Full(MatRef<'a, f64>),
    /// The diagonal, M entries.
    Diagonal(&'a [f64]),
}

impl<'a> MatrixRef<'a> {
    /// Returns the numbers of rows and columns of the whole matrix.
    pub(crate) fn shape(self) -> (usize, usize) {
        match self {
            MatrixRef::Full(all) => all.shape(),
            MatrixRef::Diagonal(diagonal) => (diagonal.len(), diagonal.len()),
        }
    }

    /// Returns true if both matrices have the same family and shape, so that they can be added.
    pub(crate) fn is_like(self, other: MatrixRef<'_>) -> bool {
        let full = |matrix| matches!(matrix, MatrixRef::Full(_));
        self.shape() == other.shape() && full(self) == full(other)
    }

    /// Returns all entries of a full matrix.
    ///
    /// # Panics
    ///
    /// If the matrix is diagonal; rules and gradients of one fit have one family.
    #[doc(hidden)]
    pub fn full(self) -> MatRef<'a, f64> {
        match self {
            MatrixRef::Full(all) => all,
            MatrixRef::Diagonal(_) => family_mismatch(),
        }
    }

    /// Returns the diagonal of a diagonal matrix.
    ///
    /// # Panics
    ///
    /// If the matrix is full.
    #[doc(hidden)]
    pub fn diagonal(self) -> &'a [f64] {
        match self {
            MatrixRef::Diagonal(diagonal) => diagonal,
            MatrixRef::Full(_) => family_mismatch(),
        }
    }

    /// Returns the zero matrix of this family and shape.
    pub(super) fn to_zeros(self) -> Matrix {
        let family = if matches!(self, MatrixRef::Full(_)) { Family::Full } else { Family::Diagonal };
        Matrix::zeros(family, self.shape().0)
    }

    /// Returns a dense copy.
    pub fn to_dense(self) -> Mat<f64> {
        match self {
            MatrixRef::Full(all) => all.to_owned(),
            MatrixRef::Diagonal(d) => Mat::from_fn(d.len(), d.len(), |i, j| if i == j { d[i] } else { 0.0 }),
        }
    }
}

#[cold]
fn family_mismatch() -> ! {
    panic!("a full and a diagonal matrix were mixed")
}

/// `q(w) = N(m, S)` together with `log|S|`, which every update rule computes anyway.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Normal {
    pub(crate) mean: Vec<f64>,
    pub(crate) cov: Matrix,
    pub(crate) log_det: f64,
}

/// A distribution as it was read, before its shapes are checked.
#[derive(Deserialize)]
struct Parts {
    mean: Vec<f64>,
    cov: Matrix,
    log_det: f64,
}

impl TryFrom<Parts> for Normal {
    type Error = String;

    fn try_from(Parts { mean, cov, log_det }: Parts) -> std::result::Result<Self, String> {
        let (m, shape) = (mean.len(), cov.as_ref().shape());
        if shape == (m, m) {
            Ok(Normal { mean, cov, log_det })
        } else {
            Err(format!("the covariance of q is {} × {}, expected {m} × {m} like the mean", shape.0, shape.1))
        }
    }
}

/// The posterior of a single process.
impl From<Normal> for Vec<Normal> {
    fn from(q: Normal) -> Self {
        vec![q]
    }
}

/// The posterior of a single process.
impl AsRef<[Normal]> for Normal {
    fn as_ref(&self) -> &[Normal] {
        std::slice::from_ref(self)
    }
}

impl Normal {
    /// Returns the prior `N(0, I)` of dimension `m`.
    pub fn standard(family: Family, m: usize) -> Self {
        Normal { mean: vec![0.0; m], cov: Matrix::identity(family, m), log_det: 0.0 }
    }

    /// Creates `N(mean, cov)`; returns an error if the shapes differ or `cov` is not positive
    /// definite.
    pub fn new(mean: Vec<f64>, cov: Mat<f64>) -> Result<Self> {
        let m = mean.len();
        if cov.shape() != (m, m) {
            let (r, c) = cov.shape();
            return Err(Error::usage(format!(
                "the covariance is {r} × {c}, expected {m} × {m} like the mean"
            )));
        }
        let mut factor = cov.clone();
        Factorizer::new(m).cholesky(factor.as_mut()).map_err(|e| {
            Error::usage(format!("the covariance of q is not positive definite (pivot {})", e.pivot))
        })?;
        Ok(Normal { mean, cov: Matrix::Full(cov), log_det: linalg::log_det(factor.as_ref()) })
    }

    /// Creates `N(mean, diag(variances))`; returns an error if the lengths differ or a variance is
    /// not positive.
    pub fn diagonal(mean: Vec<f64>, variances: Vec<f64>) -> Result<Self> {
        let (m, v) = (mean.len(), variances.len());
        if m != v {
            return Err(Error::usage(format!("there are {v} variances, expected {m} like the means")));
        }
        if let Some(i) = variances.iter().position(|s| !(*s > 0.0 && s.is_finite())) {
            return Err(Error::usage(format!("variance {i} of q is {}, expected more than 0", variances[i])));
        }
        let log_det = variances.iter().map(|s| s.ln()).sum();
        Ok(Normal { mean, cov: Matrix::Diagonal(variances), log_det })
    }

    /// Returns true if the posteriors have the dimensions and families of `others`.
    pub(crate) fn are_like(own: &[Normal], others: &[Normal]) -> bool {
        let shape = |q: &Normal| (q.dim(), q.family());
        own.iter().map(shape).eq(others.iter().map(shape))
    }

    /// Returns the dimension M.
    #[doc(hidden)]
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Returns the family of the covariance.
    #[doc(hidden)]
    pub fn family(&self) -> Family {
        match self.cov {
            Matrix::Full(_) => Family::Full,
            Matrix::Diagonal(_) => Family::Diagonal,
        }
    }

    /// Returns the mean m.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Returns the covariance S: both triangles, or the diagonal.
    pub fn cov(&self) -> MatrixRef<'_> {
        self.cov.as_ref()
    }

    /// Returns `log |S|`.
    #[doc(hidden)]
    pub fn log_det(&self) -> f64 {
        self.log_det
    }

    /// Returns `KL(N(m, S) ‖ N(0, I)) = ½ (tr S + mᵀm − M − log|S|)`.
    #[doc(hidden)]
    pub fn kl(&self) -> f64 {
        0.5 * (self.trace() + dot(&self.mean, &self.mean) - self.dim() as f64 - self.log_det)
    }

    /// Returns the sum of the variances.
    #[doc(hidden)]
    pub fn trace(&self) -> f64 {
        match &self.cov {
            Matrix::Full(cov) => trace(cov.as_ref()),
            Matrix::Diagonal(variances) => variances.iter().sum(),
        }
    }

    /// Returns the same posterior with `count` more weights, which are independent and standard
    /// normal.
    pub(crate) fn extended(&self, count: usize) -> Normal {
        let (old, m) = (self.dim(), self.dim() + count);
        let mut mean = self.mean.clone();
        mean.resize(m, 0.0);
        let cov = match &self.cov {
            Matrix::Full(cov) => {
                let mut wider = linalg::spread(m, m);
                linalg::add_diagonal(wider.as_mut(), 1.0);
                wider.as_mut().submatrix_mut(0, 0, old, old).copy_from(cov);
                Matrix::Full(wider)
            }
            Matrix::Diagonal(variances) => {
                let mut wider = variances.clone();
                wider.resize(m, 1.0);
                Matrix::Diagonal(wider)
            }
        };
        Normal { mean, cov, log_det: self.log_det }
    }

    /// Returns the diagonal normal distribution nearest to this one, `N(m, diag(1/(S⁻¹)_jj))`, in
    /// the divergence that variational inference minimises; the prior's variances if S cannot be
    /// factorised.
    #[doc(hidden)]
    pub fn mean_field(&self) -> Normal {
        let m = self.dim();
        let variances = match self.cov() {
            MatrixRef::Diagonal(variances) => variances.to_vec(),
            MatrixRef::Full(cov) => {
                let (mut factor, mut inverse) = (cov.to_owned(), Mat::zeros(m, m));
                match Factorizer::new(m).cholesky_with_inverse(factor.as_mut(), inverse.as_mut()) {
                    Ok(()) => {
                        (0..m).map(|j| 1.0 / inverse.col(j).iter().map(|x| x * x).sum::<f64>()).collect()
                    }
                    Err(_) => vec![1.0; m],
                }
            }
        };
        let log_det = variances.iter().map(|s: &f64| s.ln()).sum();
        Normal { mean: self.mean.clone(), cov: Matrix::Diagonal(variances), log_det }
    }

    /// Returns `KL(N(m, S) ‖ N(m′, S′))` to another normal distribution of the same dimension; NaN
    /// if `S′` cannot be factorised.
    #[doc(hidden)]
    pub fn kl_to(&self, other: &Normal) -> f64 {
        let m = self.dim();
        let difference: Vec<f64> = self.mean.iter().zip(&other.mean).map(|(a, b)| a - b).collect();
        let (trace, quadratic) = match (self.cov(), other.cov()) {
            (MatrixRef::Diagonal(own), MatrixRef::Diagonal(theirs)) => (
                own.iter().zip(theirs).map(|(a, b)| a / b).sum::<f64>(),
                difference.iter().zip(theirs).map(|(d, b)| d * d / b).sum::<f64>(),
            ),
            (own, theirs) => {
                let mut factor = theirs.to_dense();
                if Factorizer::new(m).cholesky(factor.as_mut()).is_err() {
                    return f64::NAN;
                }
                let own = own.to_dense();
                let mut trace = 0.0;
                for j in 0..m {
                    let mut column: Vec<f64> = own.col(j).iter().copied().collect();
                    linalg::solve_factored(factor.as_ref(), &mut column);
                    trace += column[j];
                }
                let mut solved = difference.clone();
                linalg::solve_factored(factor.as_ref(), &mut solved);
                (trace, dot(&difference, &solved))
            }
        };
        0.5 * (trace + quadratic - m as f64 - self.log_det + other.log_det)
    }
}
