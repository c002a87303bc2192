//! The command line as a function, which takes arguments, writes text and files, and returns an exit status.
//!
//! This crate uses [`sparsegp_tables`] and [`sparsegp`]. It is the only crate that knows how options are spelled on a command line.
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `serve` (default) | the command `serve`, which answers requests over HTTP |

mod args;
mod compare;
mod cross;
mod demo;
mod evaluate;
mod explain;
mod fit;
mod fitting;
mod forecast;
mod inspect;
mod interruption;
mod output;
mod outputs;
mod page;
mod predict;
mod progress;
#[cfg_attr(not(feature = "serve"), path = "no_serve.rs")]
mod serve;
mod shell;
mod summary;
mod update;

use args::{Cli, Command};
use sparsegp::options::check_threads;
use sparsegp::{Error, Result};
use std::ffi::OsString;

/// Reports every panic of this process as one line on standard error.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| output::note(&defect(panic))));
}

/// Returns the message about a panic, which is a lack of memory or a defect of the program.
fn defect(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let words = panic.payload().downcast_ref::<String>().map(String::as_str);
    let words = words.or(panic.payload().downcast_ref::<&str>().copied()).unwrap_or("no message");
    if words.contains("AllocError") {
        return "error: there is not enough memory".to_owned();
    }
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    format!("error: a defect of sparsegp, please report it: {} ({place})", one_line(words))
}

/// Runs the program with these arguments, the first of which is the program's name, and returns the exit status. The command of the
/// Python package calls this function too.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    page::keep_command(&arguments);
    let outcome = match Cli::read(&arguments) {
        Ok(cli) => {
            interruption::begin(matches!(cli.command, Command::Serve(_))).and_then(|()| run(cli.command))
        }
        Err(error) => return usage(&error),
    };
    let _ended = interruption::end();
    outcome.map_or_else(
        |error| {
            output::complain(&error);
            error.exit_code()
        },
        |()| 0,
    )
}

fn run(command: Command) -> Result<()> {
    check_environment()?;
    match command {
        Command::Fit(args) => fit::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Effects(args) => inspect::effects(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Update(args) => update::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Forecast(args) => forecast::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { command } => shell::manual(command.as_deref()),
    }
}

/// Refuses a number of threads in the environment that `--threads` would refuse.
fn check_environment() -> Result<()> {
    const NAME: &str = "RAYON_NUM_THREADS";
    let threads = std::env::var(NAME).ok().and_then(|threads| threads.trim().parse().ok());
    // The value 0 means all cores.
    threads
        .filter(|&threads| threads > 0)
        .map_or(Ok(()), check_threads)
        .map_err(|error| Error::usage(error.message_with(&|_, _| NAME.to_owned())))
}

/// Prints help or the version on standard output, and a usage error as one line with a hint. Returns the exit status.
fn usage(error: &clap::Error) -> u8 {
    let text = error.to_string();
    if !error.use_stderr() {
        return output::print(&text).map_or_else(|error| error.exit_code(), |()| 0);
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::note(text.trim_end());
        return 2;
    }
    let mut parts = text.split("\n\n").map(one_line);
    let message = parts.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let hint = parts.find_map(|part| part.strip_prefix("tip: ").map(str::to_owned));
    let hint = hint.unwrap_or_else(|| "--help explains every option".to_owned());
    output::complain(&Error::usage(message).hint(hint));
    2
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
