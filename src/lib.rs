//! Sparse Gaussian processes that are fast, calibrated and hard to break.

pub mod error;
pub mod latent;

pub use error::{Error, ErrorKind, Result};
pub use sparsegp_kernels as kernels;
