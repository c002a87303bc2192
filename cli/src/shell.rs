//! Completion scripts and manual pages, made from the commands and their options.

use super::args::Cli;
use super::output;
use clap_complete::Shell;
use sparsegp::{Error, Result};

const NAME: &str = "sparsegp";

pub fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::everyday(), NAME, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

pub fn manual(command: Option<&str>) -> Result<()> {
    let mut program = Cli::everyday();
    program.build();
    let command = match command {
        None => &program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| {
            Error::usage(format!("unknown command '{name}'")).hint("sparsegp --help lists the commands")
        })?,
    };
    let mut page = Vec::new();
    let written = clap_mangen::Man::new(command.clone()).render(&mut page);
    written.map_err(|error| Error::usage(format!("the page cannot be written: {error}")))?;
    output::print(&String::from_utf8_lossy(&page))
}
