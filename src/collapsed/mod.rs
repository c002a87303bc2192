//! Bounds with q solved in closed form for Gaussian noise (VFE, collapsed β-ELBO, FITC, square-loss DLM, an upper bound); no steps.

mod bounds;
mod evidence;
mod fitc;
mod stream;
mod sums;

pub use bounds::{BoundValue, UpperBound, collapsed_elbo, square_loss, upper_bound};
pub use evidence::dense_upper_bound;
pub use fitc::{FitcValue, fitc};
pub use stream::{DataStream, Dataset, Weighting};
pub use sums::{BoundAdjoint, BoundGradient, Statistics, StatisticsAdjoint};
