//! Checkpoints and Ctrl-C of `fit`: where the file is, when it is written, the signal; no fitting.

use super::args::FitArgs;
use super::output;
use sparsegp::checkpoint::{Checkpoint, Identity};
use sparsegp::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Set by the first signal.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit status of an interrupted command.
const STATUS: i32 = 130;

/// From here on the first Ctrl-C (or request to terminate) asks the fit to end, and the second one ends the program.
pub fn listen() -> Result<&'static AtomicBool> {
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(STATUS);
        }
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Error::data(format!("signals cannot be received: {error}")))?;
    Ok(&INTERRUPTED)
}

/// Whether somebody asked for the end, for work that follows the fit.
pub fn wanted() -> &'static AtomicBool {
    &INTERRUPTED
}

/// Refuses, before any work, what cannot be resumed.
pub fn check(args: &FitArgs) -> Result<()> {
    let interruption = &args.interruption;
    let every = interruption.checkpoint_every;
    if !(0.0..=1e9).contains(&every) {
        return Err(Error::usage(format!("--checkpoint-every is {every}, expected a number of seconds")));
    }
    match &interruption.resume {
        Some(path) if interruption.checkpoint.as_ref() != Some(path) => std::fs::File::open(path)
            .map(drop)
            .map_err(|error| Error::data(format!("{}: cannot be read: {error}", path.display()))),
        _ => Ok(()),
    }
}

/// The checkpoint of the fit, with the states of the one that is resumed.
pub fn checkpoint(args: &FitArgs, identity: impl FnOnce() -> Result<Identity>) -> Result<Checkpoint> {
    let interruption = &args.interruption;
    let asked = interruption.checkpoint.as_ref().or(interruption.resume.as_ref());
    let every = asked.map(|_| Duration::from_secs_f64(interruption.checkpoint_every));
    let path = asked.cloned().unwrap_or_else(|| place(args));
    let mut checkpoint = Checkpoint::new(&path, identity()?, every);
    if asked.is_some() {
        checkpoint = checkpoint.locked()?;
    }
    match &interruption.resume {
        Some(from) if from.exists() || interruption.checkpoint.is_none() => {
            checkpoint = checkpoint.resume(from)?;
        }
        _ => {}
    }
    if every.is_some() {
        checkpoint.write();
        if let Some(failure) = checkpoint.failure() {
            return Err(failure.clone());
        }
    }
    Ok(checkpoint.with_warning(|failure| {
        let failure = failure.message_with(&output::dashes);
        output::note(&format!(
            "warning: a checkpoint was not written, the fit goes on and tries again: {failure}"
        ));
    }))
}

/// Where Ctrl-C leaves a checkpoint that nobody asked for.
fn place(args: &FitArgs) -> PathBuf {
    let named = |path: &Path| {
        let mut name = path.file_name().map_or_else(|| OsString::from("fit"), OsString::from);
        name.push(".checkpoint");
        name
    };
    match &args.output.model_out {
        Some(model) => model.with_file_name(named(model)),
        None if args.data == Path::new("-") => PathBuf::from("fit.checkpoint"),
        None => PathBuf::from(named(&args.data)),
    }
}

/// Removes the checkpoint that was asked for: the fit is done.
pub fn finish(args: &FitArgs, checkpoint: Checkpoint) {
    if args.interruption.checkpoint.is_none() && args.interruption.resume.is_none() {
        return;
    }
    checkpoint.remove();
}
