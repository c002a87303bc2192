//! Sparse Gaussian processes that are fast, calibrated and hard to break.

pub mod checkpoint;
pub mod collapsed;
pub mod columns;
pub mod compare;
pub mod data;
mod digest;
pub mod error;
pub mod gradient;
pub mod hyper;
pub mod latent;
pub mod likelihood;
pub mod linalg;
pub mod metrics;
pub mod model;
pub mod objective;
pub mod options;
pub mod quadrature;
pub mod registry;
pub mod report;
pub mod tabular;
mod threads;
pub mod training;
pub mod variational;
mod words;

pub use error::{Error, ErrorKind, Result, Say};
pub use registry::Registry;
pub use sparsegp_kernels as kernels;
