//! The command line, which is the program's own source: the wheel has it without a second copy of the library; nothing of it is here.

use pyo3::prelude::*;
use std::ffi::OsString;

#[path = "../../src/bin/sparsegp/main.rs"]
#[allow(dead_code)]
mod program;

/// Runs the command line of these arguments, of which the first is the program's name; the exit status.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| program::run_with(arguments))
}
