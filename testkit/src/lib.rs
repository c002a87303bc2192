//! Shared code of the tests, examples and benchmarks of all crates: problems, exact solutions,
//! reference files, runs of the program.
//!
//! This crate may depend on `sparsegp` and `sparsegp-kernels`, but not on the crates above them.

pub mod additive;
pub mod compare;
#[cfg(feature = "core")]
pub mod dense;
#[cfg(feature = "core")]
pub mod density_formulas;
#[cfg(feature = "core")]
pub mod differences;
#[cfg(feature = "core")]
pub mod families;
pub mod kernel_formulas;
#[cfg(feature = "core")]
pub mod laplace;
pub mod outputs;
#[cfg(feature = "parquet")]
pub mod parquet;
#[cfg(feature = "core")]
pub mod problems;
#[cfg(feature = "program")]
pub mod program;
pub mod reference;
#[cfg(feature = "core")]
pub mod shapes;
#[cfg(feature = "core")]
pub mod slice;
