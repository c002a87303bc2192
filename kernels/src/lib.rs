//! Covariance functions for sparse Gaussian processes: values, adjoints, named parameters and a text grammar.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod additive;
pub mod arc_cosine;
mod built_in;
pub mod changepoint;
pub mod compose;
mod dimension;
mod distance;
pub mod dot_product;
pub mod entry;
mod formula;
pub mod index;
pub mod kernel;
pub mod mapped;
mod matrix;
mod pairwise;
pub mod parameter;
pub mod parse;
pub mod periodic;
mod prior;
mod profile;
mod random_feature;
pub mod real;
pub mod spectral_mixture;
pub mod stationary;
pub mod testkit;
pub mod units;
pub mod vector_math;

pub use additive::Additive;
pub use arc_cosine::ArcCosine;
pub use changepoint::Changepoint;
pub use compose::{Combination, Operation, Scale};
pub use dimension::{Dimension, DimensionError};
pub use dot_product::{Constant, Polynomial};
pub use entry::{Entry, Make, Options, ParseError};
pub use formula::{FormulaKernel, KernelFormula};
pub use index::Coregion;
pub use kernel::{Evaluated, Gradient, Inputs, Kernel, KernelBox, Part, Scratch, check_values, value_names};
pub use mapped::{ActiveDims, Columns, InputMap, Mapped, Signs, Warp, Warped, hamming};
pub use parameter::{Parameter, Role, Transform};
pub use parse::{Grammar, NameError, parse};
pub use periodic::{Cosine, Periodic};
pub use prior::{Prior, PriorError};
pub use profile::Profile;
pub use random_feature::{Chance, RandomFeature};
pub use real::Real;
pub use spectral_mixture::SpectralMixture;
pub use stationary::Stationary;
pub use units::{Axis, Unit};
