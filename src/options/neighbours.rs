//! The training rows that a model with neighbours stores; no search.

/// The maximum number of neighbours: their covariance matrix is factorised for every row.
pub(crate) const MOST_NEIGHBOURS: usize = 500;

/// The training rows that a model stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The maximum number of rows, drawn at random if there are more; `None` for all.
    pub rows: Option<usize>,
    /// True if numbers are rounded to single precision, which halves the file.
    pub single: bool,
}
