//! The contribution of nearest neighbours beyond inducing inputs: search, rows conditioned on their
//! neighbours and the adjoint.
//!
//! Inducing inputs model smooth variation over all of the input space. The residual that they leave is local, and the nearest data explain
//! it (full-scale Vecchia approximations: Gyger, Furrer & Sigrist 2025, arXiv 2507.05064). Given its k nearest predecessors in an order of
//! the data, a datum is a row of a linear model in w with its own noise variance, so the evidence is FITC's for modified rows. k = 0 is
//! FITC, and all predecessors give the exact GP, for any inducing inputs. Noise is Gaussian, with one variance or one for every datum.
//!
//! ```
//! use faer::Mat;
//! use sparsegp::collapsed::{Solution, solve};
//! use sparsegp::effects::Effects;
//! use sparsegp::gradient::{BatchPass, GivenRows, Problem, Wanted};
//! use sparsegp::kernels::parse;
//! use sparsegp::latent::{InducingPrior, Jitter};
//! use sparsegp::likelihood::Gaussian;
//! use sparsegp::model::LatentModel;
//! use sparsegp::neighbours::*;
//! use sparsegp::objective::{Objective, Targets};
//! use sparsegp::variational::{Family, Normal};
//!
//! let x = Mat::from_fn(400, 1, |i, _| ((i * 31) % 400) as f64 / 10.0);
//! let y: Vec<f64> = (0..400).map(|i| (3.0 * x[(i, 0)]).sin()).collect();
//! // Ten inducing inputs cannot represent twenty waves; ten neighbours in addition can.
//! let z = Mat::from_fn(10, 1, |i, _| 4.0 * i as f64);
//! let layer = InducingPrior::new(parse("matern52", 1)?, z, Jitter::DEFAULT)?.factorised().expect("a factor");
//! let model = LatentModel::new(layer.clone().into(), Gaussian::new(0.01), false);
//! let (noise, order): ([f64; 1], Vec<u32>) = ([0.01], (0..400).collect());
//!
//! let near = in_units_of(layer.kernel(), x.as_ref(), &half_lengths(layer.kernel(), x.as_ref()));
//! let source = Source { x: x.as_ref(), y: &y, noise: &noise, queries: None, effects: Effects::NONE };
//! let q = [Normal::standard(Family::Full, 10)];
//! let problem = Problem::new(model.layers(), &model.likelihood, Objective::fitc(), &q);
//! let evidence = |k: usize| -> Solution {
//!     let lists = nearest_before(near.as_ref(), &order, &order, k, COMPARISONS);
//!     let windows = Windows::new(&order, &lists, Windows::most_members(10));
//!     let mut pass = BatchPass::given(problem, &windows, Effects::NONE);
//!     let rows = GivenRows { windows: &windows, sources: &[source], targets: Targets::of(&y), scale: 1.0 };
//!     pass.run_given(problem, rows, Wanted::Origin, &[]);
//!     solve(pass.sums(), 1.0).expect("an evidence")
//! };
//! assert!(evidence(10).value < evidence(0).value - 100.0);
//!
//! let q = evidence(10).q.swap_remove(0);
//! let posterior = (q.mean(), q.cov().full());
//! let predictor =
//!     Predictor { layer: &layer, place: 0, effects: Effects::NONE, posterior, noise: &noise, data: (x.as_ref(), &y) };
//! let index = Index::new(near.as_ref(), order.clone(), COMPARISONS);
//! let (mean, variance) = predictor.marginals(x.as_ref(), &index, near.as_ref(), 10);
//! assert!((mean[7] - y[7]).abs() < 0.05 && variance[7] < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod candidates;
mod cells;
mod conditionals;
mod members;
mod metric;
mod prediction;
mod search;
mod small;

pub(crate) use blocks::Block;
pub use blocks::{Lists, Windows};
pub(crate) use conditionals::{Conditionals, PriorBar, Rows, RowsBar};
pub use members::Source;
pub(crate) use members::{Members, room};
pub use metric::{half_lengths, in_units_of};
pub use prediction::Predictor;
pub use search::{COMPARISONS, Index, nearest_before, nearest_others};
pub(crate) use small::{add_gram, image};
