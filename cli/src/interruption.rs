//! Signals and checkpoints: every command ends within a second of the first signal; where the checkpoint of a fit is; no fitting.
//!
//! Signals arrive on a thread of their own, which ends the process: no loop of any command can delay that. Nothing half-written stays,
//! because files take their names when they are complete ([`sparsegp::files`]). A fit that keeps a checkpoint is asked first and has
//! [`GRACE`] to end after its step; if the step takes longer, this thread writes the latest states that the fit kept.

use super::args::FitArgs;
use super::output;
use sparsegp::checkpoint::{Checkpoint, Identity, Rescue};
use sparsegp::files::remove_transient_files;
use sparsegp::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Set by the first signal.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit status of an interrupted command, the same for every signal.
const STATUS: i32 = 130;

/// The time that a fit with a checkpoint has to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// The state of the command for the thread of signals. The thread that holds the lock decides how the process ends.
struct Running {
    /// True until the command has ended.
    command: bool,
    /// Writes the checkpoint of the fit, if there is one.
    rescue: Option<Rescue>,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { command: false, rescue: None });

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a command, which Ctrl-C and requests to terminate end from here on.
pub fn begin() -> Result<()> {
    static LISTENING: OnceLock<Result<()>> = OnceLock::new();
    INTERRUPTED.store(false, Ordering::Relaxed);
    running().command = true;
    LISTENING.get_or_init(listen).clone()
}

/// Ends a command: until the guard is dropped no signal ends the process, so that the command says how it ended.
pub fn end() -> impl Drop {
    let mut running = running();
    (running.command, running.rescue) = (false, None);
    running
}

fn listen() -> Result<()> {
    let hangup_ignored = ignore_hangup();
    ctrlc::set_handler(handle)
        .map_err(|error| Error::data(format!("signals cannot be received: {error}")))?;
    if hangup_ignored {
        ignore_hangup();
    }
    Ok(())
}

/// Ignores the end of the terminal; whether it was ignored already, as under `nohup`.
#[cfg(unix)]
#[allow(unsafe_code)]
fn ignore_hangup() -> bool {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no code of this program runs as a handler.
    let before = unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) };
    matches!(before, Ok(SigHandler::SigIgn))
}

#[cfg(not(unix))]
fn ignore_hangup() -> bool {
    false
}

/// Ends the process at a signal, after a fit with a checkpoint had its time to end by itself.
fn handle() {
    INTERRUPTED.store(true, Ordering::Relaxed);
    let asks = running().rescue.is_some();
    if asks {
        std::thread::sleep(GRACE);
    }
    let running = running();
    if running.command {
        let rescued = running.rescue.as_ref().map(Rescue::write);
        remove_transient_files();
        output::complain(&rescued.unwrap_or_else(|| Error::interrupted("interrupted")));
    }
    std::process::exit(STATUS);
}

/// Set once the command is to end, for fits, which look at it between steps.
pub fn flag() -> &'static AtomicBool {
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
    running().rescue = Some(checkpoint.rescue());
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
    running().rescue = None;
    if args.interruption.checkpoint.is_none() && args.interruption.resume.is_none() {
        return;
    }
    checkpoint.remove();
}
