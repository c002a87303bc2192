//! Covariance functions for sparse Gaussian processes: values, adjoints, named parameters and a text grammar.

pub mod kernel;
pub mod parameter;

pub use kernel::{Gradient, Inputs, Kernel, Scratch};
pub use parameter::{Parameter, Prior, Transform};
