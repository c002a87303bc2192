//! Sparse Gaussian processes that are fast, calibrated and hard to break.

pub mod data;
pub mod error;
pub mod metrics;

pub use error::{Error, ErrorKind, Result};
pub use sparsegp_kernels as kernels;
