//! The Python module `sparsegp._sparsegp`: tables in, models and arrays out, and the command line.

// The macros of PyO3 generate items without documentation.
#![allow(missing_docs)]

mod convert;
mod custom;
mod fit;
mod forecast;
mod functions;
mod guarantees;
mod host;
mod kernel;
mod model;
mod outputs;
mod parts;
mod svgp;
mod table;

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command line with these arguments (the first is the program's name) and returns the exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| sparsegp_cli::run_with(arguments))
}

#[pyo3::pymodule]
mod _sparsegp {
    #[pymodule_export]
    use super::convert::{FitError, check_room, option_called};
    #[pymodule_export]
    use super::custom::Custom;
    #[pymodule_export]
    use super::fit::{compare, fit, option_types};
    #[pymodule_export]
    use super::forecast::forecast;
    #[pymodule_export]
    use super::functions::{
        Functions, design, draws_together, functions, hyperparameters, joint_at, slopes, target_covariance,
    };
    #[pymodule_export]
    use super::guarantees::{
        ConjugateAsymptotic, ConjugateBound, ConvexBound, Curvature, DistanceBound, ProjectedBound,
        SquareRootRate, price_noise, square_root_step, square_root_step_bound,
    };
    #[pymodule_export]
    use super::kernel::{Kernel, check_likelihood};
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::outputs::{
        fit_outputs, load_outputs, output_draws, output_functions, save_outputs, update_outputs,
    };
    #[pymodule_export]
    use super::parts::{Preparation, Round, fit_parts, merge_sums, merge_surveys, survey_part};
    #[pymodule_export]
    use super::svgp::Svgp;
    #[pymodule_export]
    use super::table::Table;

    /// The version of the engine.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
