//! Covariance functions for sparse Gaussian processes: values, adjoints, named parameters and a text grammar.

mod distance;
pub mod kernel;
mod matrix;
pub mod parameter;
pub mod stationary;
pub mod vector_math;

pub use kernel::{Gradient, Inputs, Kernel, Part, Scratch, value_names};
pub use parameter::{Parameter, Prior, Transform};
pub use stationary::{Profile, Stationary};
