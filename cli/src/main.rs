//! The program `sparsegp`, which calls the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    sparsegp_cli::report_panics();
    ExitCode::from(sparsegp_cli::run_with(std::env::args_os()))
}
