//! The command line: reads arguments, runs a command, turns its outcome into an exit status; no maths.

mod args;
mod coefficients;
mod compare;
mod demo;
mod evaluate;
mod figures;
mod fit;
mod fitting;
mod inspect;
mod interruption;
mod output;
mod outputs;
mod page;
mod parameters;
mod predict;
mod progress;
mod search;
mod summary;

use args::{Cli, Command};
use clap::Parser;
use sparsegp::{Error, Result};
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return usage(&error),
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Fit(args) => fit::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Demo(args) => demo::run(&args),
    }
}

/// Help and version go to standard output; wrong usage becomes one line and a hint, as every other error.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.to_string();
    if !error.use_stderr() {
        return match output::print(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => ExitCode::from(error.exit_code()),
        };
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::note(text.trim_end());
        return ExitCode::from(2);
    }
    let mut parts = text.split("\n\n").map(one_line);
    let message = parts.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let hint = parts.find_map(|part| part.strip_prefix("tip: ").map(str::to_owned));
    let hint = hint.unwrap_or_else(|| "--help explains every option".to_owned());
    output::complain(&Error::usage(message).hint(hint));
    ExitCode::from(2)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
