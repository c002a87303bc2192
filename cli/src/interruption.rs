//! Signals and checkpoints. Every command ends within a second of the first signal.
//!
//! A separate thread receives the signals and ends the process, so no loop of a command can delay the end. No half-written file remains,
//! because a file gets its name when it is complete ([`sparsegp::files`]). A fit with a checkpoint has [`GRACE`] to end after its current
//! step; if the step takes longer, the thread writes the latest state that the fit stored.

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

/// The state of the command that the signal thread reads. The thread that holds the lock decides how the process ends.
struct Running {
    /// True until the command has ended.
    command: bool,
    /// The checkpoint that the signal thread can write, if a fit is running.
    rescue: Option<Rescue>,
    /// True if the command ends by itself after the first signal.
    ends_itself: bool,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { command: false, rescue: None, ends_itself: false });

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a command, which signals end from now on. A command that `ends_itself` reads [`flag`] and ends after the first signal; a second
/// signal ends the process.
pub fn begin(ends_itself: bool) -> Result<()> {
    static LISTENING: OnceLock<Result<()>> = OnceLock::new();
    INTERRUPTED.store(false, Ordering::Relaxed);
    *running() = Running { command: true, rescue: None, ends_itself };
    LISTENING.get_or_init(listen).clone()
}

/// Ends a command. Until the guard is dropped, no signal ends the process, so the command can print its result.
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

/// Ignores SIGHUP, and returns true if it was ignored already, as under `nohup`.
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

/// Ends the process after a signal. A fit with a checkpoint first has [`GRACE`] to end by itself. A command that `ends_itself` is not ended
/// by the first signal.
fn handle() {
    let first = !INTERRUPTED.swap(true, Ordering::Relaxed);
    if first && running().ends_itself {
        return;
    }
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

/// Returns the flag that the first signal sets; fits read it between steps.
pub fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

pub fn check(args: &FitArgs) -> Result<()> {
    let every = args.checkpoint_every;
    if !(0.0..=1e9).contains(&every) {
        return Err(Error::usage(format!("--checkpoint-every is {every}, expected a number of seconds")));
    }
    match &args.resume {
        Some(path) if args.checkpoint.as_ref() != Some(path) => std::fs::File::open(path)
            .map(drop)
            .map_err(|error| Error::data(format!("{}: cannot be read: {error}", path.display()))),
        _ => Ok(()),
    }
}

/// Creates the checkpoint of the fit, and loads the state that `--resume` names.
pub fn checkpoint(args: &FitArgs, identity: impl FnOnce() -> Result<Identity>) -> Result<Checkpoint> {
    let asked = args.checkpoint.as_ref().or(args.resume.as_ref());
    let every = asked.map(|_| Duration::from_secs_f64(args.checkpoint_every));
    let path = asked.cloned().unwrap_or_else(|| place(args));
    let mut checkpoint = Checkpoint::new(&path, identity()?, every);
    if asked.is_some() {
        checkpoint = checkpoint.locked()?;
    }
    match &args.resume {
        Some(from) if from.exists() || args.checkpoint.is_none() => {
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
            "warning: a checkpoint could not be written; the fit continues and tries again: {failure}"
        ));
    }))
}

/// Returns the path of the checkpoint that Ctrl-C saves without `--checkpoint`.
fn place(args: &FitArgs) -> PathBuf {
    let named = |path: &Path| {
        let mut name = path.file_name().map_or_else(|| OsString::from("fit"), OsString::from);
        name.push(".checkpoint");
        name
    };
    match &args.model_out {
        Some(model) => model.with_file_name(named(model)),
        None if args.data == Path::new("-") => PathBuf::from("fit.checkpoint"),
        None => PathBuf::from(named(&args.data)),
    }
}

pub fn finish(args: &FitArgs, checkpoint: Checkpoint) {
    running().rescue = None;
    if args.checkpoint.is_none() && args.resume.is_none() {
        return;
    }
    checkpoint.remove();
}
