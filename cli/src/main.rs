//! The program `sparsegp`: the process around the library's command line; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    sparsegp_cli::report_panics();
    ExitCode::from(sparsegp_cli::run_with(std::env::args_os()))
}
