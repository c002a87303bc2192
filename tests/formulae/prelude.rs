//! The items of the crates that several files of these tests use.

pub use faer::linalg::solvers::Solve;
pub use faer::{Mat, MatRef, Side};
pub use proptest::prelude::*;
pub use rand::SeedableRng;
pub use rand_chacha::ChaCha8Rng;
pub use serde_json::Value;
// Of several items of one name, the more frequent one.
pub use sparsegp::likelihood::{Expectation, Slopes};
pub use sparsegp::{
    collapsed::*, effects::*, gradient::*, hyper::*, kernels::*, latent::*, likelihood::*, model::*,
    neighbours::*, objective::*, options::*, quadrature::*, registry::*, training::*, variational::*,
};
pub use sparsegp_testkit::dense::log_density;
pub use sparsegp_testkit::{compare::*, dense::*, differences::*, families::*, problems::*, reference::*};
