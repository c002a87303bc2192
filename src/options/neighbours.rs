//! What nearest neighbours beside inducing inputs leave in a model; no search.

/// The most neighbours: their covariance matrix is factorised for every row.
pub(crate) const MOST_NEIGHBOURS: usize = 500;

/// Which training rows a model keeps, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The most rows, drawn at random where there are more; all when absent.
    pub rows: Option<usize>,
    /// Whether numbers are rounded to single precision, which halves the file.
    pub single: bool,
}
