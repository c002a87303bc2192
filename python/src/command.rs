//! The entry point of the command line; its code is in the crate of the program.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command line with these arguments (the first is the program's name) and returns the exit status.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| sparsegp_cli::run_with(arguments))
}
