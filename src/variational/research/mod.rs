//! Rules that a fit seldom needs, from the papers that compare them.
//!
//! `--q-update prox-sgd`, `proj-sgd`, `bw-gd` and `sgd` name these rules. [docs/update-rules.md](crate::book::update_rules) says when to use them.

pub(super) mod cholesky_descent;
pub(super) mod projected;
pub(super) mod smoothness;
pub(super) mod wasserstein;

pub use cholesky_descent::prox_negative_entropy;
pub use wasserstein::Wasserstein;
