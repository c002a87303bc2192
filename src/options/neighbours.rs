//! The options about the training rows that a model with neighbours stores.

/// The maximum number of neighbours. The limit exists because the covariance matrix of the neighbours is factorised for every row.
pub(crate) const MOST_NEIGHBOURS: usize = 500;

/// The options about the training rows that a model stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The maximum number of rows, drawn at random if there are more; `None` for all.
    pub rows: Option<usize>,
    /// True if numbers are rounded to single precision, which halves the size of the file.
    pub single: bool,
}
