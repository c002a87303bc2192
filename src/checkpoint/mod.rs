//! Checkpoints of fits: a file of the states of their stages, from which an interrupted fit
//! continues with the same bits.

use crate::error::{Error, Result};
use crate::files::{AtomicFile, Transient, open_input};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first bytes of the file, which identify its format.
const MAGIC: &[u8; 20] = b"sparsegp-checkpoint\n";

/// The version of the format; it changes whenever a state does.
const VERSION: u32 = 6;

/// The bytes before the contents: the format, its version, and the checksum of the rest.
const HEADER: usize = MAGIC.len() + 4 + 32;

/// The largest count of finished work in a state that was read.
pub(crate) const MOST: usize = usize::MAX >> 16;

pub(crate) fn encode(state: &(impl Serialize + ?Sized)) -> Vec<u8> {
    // postcard can write all numbers, lists and options, and states consist of them.
    postcard::to_allocvec(state).unwrap_or_default()
}

/// Returns the state that was written as `bytes`; `None` if they do not hold such a state.
pub(crate) fn decode<S: DeserializeOwned>(bytes: &[u8]) -> Option<S> {
    postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(state, _)| state)
}

/// The settings that determine the course of a fit, by name: its options, and digests of its data. A checkpoint belongs to one identity.
#[doc(hidden)]
pub type Identity = Vec<(String, String)>;

/// A stage of a fit: the work of one solver, or a whole fit that is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Stage {
    whole_fit: bool,
    state: Vec<u8>,
}

/// The shortest time between states kept in memory. The interval grows so that making states takes
/// at most about 1/`KEPT_SHARE` of the time. A [`Rescue`] writes the latest state.
const KEPT_EVERY: Duration = Duration::from_millis(500);
const KEPT_SHARE: u32 = 20;

#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    identity: Identity,
    stages: Vec<Stage>,
}

impl Contents {
    fn encode(&self) -> Vec<u8> {
        let contents = encode(self);
        let mut bytes = Vec::with_capacity(HEADER + contents.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&Sha256::digest(&contents));
        bytes.extend_from_slice(&contents);
        bytes
    }
}

/// Contents that a fit changes and a [`Rescue`] may write at any time.
type Shared = Arc<Mutex<Contents>>;

fn held(contents: &Shared) -> MutexGuard<'_, Contents> {
    contents.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the checkpoint of a fit from another thread, for a process that cannot wait for the fit to do so.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Rescue {
    path: PathBuf,
    contents: Shared,
}

impl Rescue {
    /// Writes the latest states that the fit kept, which are at most about half a second or one
    /// step old. Returns the error with which the process should end; it names the file.
    pub fn write(&self) -> Error {
        let bytes = held(&self.contents).encode();
        interrupted(&self.path, AtomicFile::write_all_to(&self.path, &bytes).err().as_ref())
    }
}

/// Returns the error of an interrupted fit. Its checkpoint was written, unless there is a
/// `failure`.
fn interrupted(path: &Path, failure: Option<&Error>) -> Error {
    let path = path.display();
    match failure {
        Some(failure) => Error::interrupted(format!("interrupted, and no checkpoint is left: {failure}")),
        None => Error::interrupted(format!("interrupted; a checkpoint is left in {path}"))
            .hint(format!("repeat the command with ⟨resume {path}⟩ to continue")),
    }
}

/// The states of the stages that a fit went through, kept in a file.
///
/// A fit is a fixed sequence of stages. When it reaches a stage, it requests the state of that
/// stage. Finished stages return their results at once, and the interrupted
/// stage continues from its state. Work between stages is repeated; it depends only on data,
/// options and seed.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    contents: Shared,
    every: Option<Duration>,
    at: usize,
    saved: Instant,
    /// The time from which the next state is to be kept in memory; `asked` is the time when that
    /// state was requested.
    next_kept: Instant,
    asked: Option<Instant>,
    failure: Option<Error>,
    warn: Option<fn(&Error)>,
    /// True if a state did not fit its stage.
    pub(crate) damaged: bool,
    _lock: Option<Lock>,
}

impl Checkpoint {
    /// Creates a checkpoint without states, in a file that is written at the interval `every`, or
    /// only on interruption.
    pub fn new(path: &Path, identity: Identity, every: Option<Duration>) -> Checkpoint {
        let saved = Instant::now();
        Checkpoint {
            path: path.to_owned(),
            contents: Arc::new(Mutex::new(Contents { identity, stages: Vec::new() })),
            every,
            at: 0,
            saved,
            next_kept: saved + KEPT_EVERY,
            asked: None,
            failure: None,
            warn: None,
            damaged: false,
            _lock: None,
        }
    }

    /// Claims the file for this fit until the checkpoint is dropped, by a locked file beside it.
    ///
    /// # Errors
    ///
    /// When another fit has claimed it, or nothing can be written beside it.
    #[doc(hidden)]
    pub fn locked(self) -> Result<Checkpoint> {
        let _lock = Some(Lock::of(&self.path)?);
        Ok(Checkpoint { _lock, ..self })
    }

    /// Sets a function that is called with the first write that fails. Later writes are still tried, but their failures are not reported.
    #[doc(hidden)]
    pub fn with_warning(self, warn: fn(&Error)) -> Checkpoint {
        Checkpoint { warn: Some(warn), ..self }
    }

    /// Loads the states in `file`, which another checkpoint of the same identity wrote.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not a checkpoint, is damaged, was written by another version of the program, or belongs to a fit
    /// of other data or options.
    pub fn resume(self, file: &Path) -> Result<Checkpoint> {
        let name = file.display().to_string();
        let mut bytes = Vec::new();
        let read = open_input(file, &name)?.read_to_end(&mut bytes);
        read.map_err(|error| Error::data(format!("{name}: cannot be read: {error}")))?;
        self.resume_from(&name, bytes)
    }

    /// Loads the states in the contents of a file; messages call it `name`.
    ///
    /// # Errors
    ///
    /// As for [`Checkpoint::resume`].
    #[doc(hidden)]
    pub fn resume_from(self, name: &str, bytes: Vec<u8>) -> Result<Checkpoint> {
        let found = parse(name, bytes)?;
        check_identity(name, &found.identity, &held(&self.contents).identity)?;
        held(&self.contents).stages = found.stages;
        Ok(self)
    }

    /// Returns a writer that another thread can use while the fit is in the middle of a step.
    #[doc(hidden)]
    pub fn rescue(&self) -> Rescue {
        Rescue { path: self.path.clone(), contents: self.contents.clone() }
    }

    /// The file.
    #[doc(hidden)]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The saved state of the stage that begins, if there is one.
    pub(crate) fn begin(&mut self) -> Option<Vec<u8>> {
        let stages = &held(&self.contents).stages;
        stages.get(self.at).filter(|stage| !stage.whole_fit).map(|stage| stage.state.clone())
    }

    /// True if it is time to save the state of the current stage: in the file, or in memory for a [`Rescue`].
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        self.asked = (now >= self.next_kept).then_some(now);
        self.asked.is_some() || self.is_time_to_write()
    }

    fn is_time_to_write(&self) -> bool {
        self.every.is_some_and(|every| self.saved.elapsed() >= every)
    }

    /// Stores the state of the current stage, and writes the file if its interval is over.
    ///
    /// A file that cannot be written does not end the fit: see [`Checkpoint::failure`].
    pub(crate) fn save(&mut self, state: Vec<u8>) {
        let now = Instant::now();
        let took = self.asked.take().map_or(Duration::ZERO, |asked| now - asked);
        self.next_kept = now + KEPT_EVERY.max(KEPT_SHARE * took);
        self.put(state);
    }

    /// Stores the last state of the current stage; the next stage begins.
    pub(crate) fn finish_stage(&mut self, state: Vec<u8>) {
        self.put(state);
        self.at += 1;
    }

    /// Returns the position where a fit of several stages starts, for [`Checkpoint::finish_fit`].
    #[doc(hidden)]
    pub fn mark(&self) -> usize {
        self.at
    }

    /// Returns the result of the fit that begins at the current stage, if that fit is finished, and
    /// moves on to the next fit.
    #[doc(hidden)]
    pub fn finished_fit(&mut self) -> Option<Vec<u8>> {
        let found = held(&self.contents).stages.get(self.at).filter(|stage| stage.whole_fit)?.state.clone();
        self.at += 1;
        Some(found)
    }

    /// Replaces the stages since `mark` by the result of the fit, and writes the file unless it is
    /// written only on interruption.
    #[doc(hidden)]
    pub fn finish_fit(&mut self, mark: usize, found: Vec<u8>) {
        let mut contents = held(&self.contents);
        contents.stages.truncate(mark);
        contents.stages.push(Stage { whole_fit: true, state: found });
        drop(contents);
        self.at = mark + 1;
        if self.every.is_some() {
            self.write_on_the_way();
        }
    }

    /// Replaces the state of the current stage, and writes the file if its interval is over. States of later stages stay, because a
    /// resumed fit will reach those stages again.
    fn put(&mut self, state: Vec<u8>) {
        let mut contents = held(&self.contents);
        let count = contents.stages.len().max(self.at + 1);
        contents.stages.resize_with(count, Stage::default);
        contents.stages[self.at] = Stage { whole_fit: false, state };
        drop(contents);
        if self.is_time_to_write() {
            self.write_on_the_way();
        }
    }

    /// Writes the file; the older file stays if that fails.
    #[doc(hidden)]
    pub fn write(&mut self) {
        self.saved = Instant::now();
        let bytes = held(&self.contents).encode();
        self.failure = AtomicFile::write_all_to(&self.path, &bytes).err();
    }

    /// Writes the file during the fit. A failure does not end the fit.
    fn write_on_the_way(&mut self) {
        self.write();
        if let Some(failure) = &self.failure
            && let Some(warn) = self.warn.take()
        {
            warn(failure);
        }
    }

    /// Writes the file for an interrupted fit, and returns the error with which the fit ends.
    pub(crate) fn interrupted(&mut self) -> Error {
        self.write();
        interrupted(&self.path, self.failure.as_ref())
    }

    /// The reason why the last write failed.
    #[doc(hidden)]
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// The error for states that did not fit.
    pub(crate) fn damage(&self) -> Option<Error> {
        self.damaged.then(|| {
            damaged(&self.path.display().to_string(), "the stored state does not match its stage of the fit")
        })
    }

    /// Removes the file, which a finished fit does not need.
    #[doc(hidden)]
    pub fn remove(self) {
        // The file may already have been removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads the contents of a file; messages call it `name`. Never panics, whatever the bytes are.
///
/// # Errors
///
/// When the file is not a checkpoint, is of another version, or is damaged.
#[doc(hidden)]
pub fn inspect(name: &str, bytes: Vec<u8>) -> Result<Identity> {
    parse(name, bytes).map(|contents| contents.identity)
}

fn parse(name: &str, mut bytes: Vec<u8>) -> Result<Contents> {
    if !bytes.starts_with(MAGIC) {
        return Err(Error::data(format!("{name}: not a checkpoint"))
            .hint("expected a file written by fit ⟨checkpoint⟩"));
    }
    if bytes.len() < HEADER {
        return Err(damaged(name, "it ends within its header"));
    }
    let contents = bytes.split_off(HEADER);
    let (version, checksum) = bytes[MAGIC.len()..].split_at(4);
    if version != VERSION.to_le_bytes() {
        return Err(Error::data(format!(
            "{name}: the checkpoint was written by another version of sparsegp"
        ))
        .hint("resume with the version that wrote it, or fit from the start"));
    }
    if checksum != Sha256::digest(&contents).as_slice() {
        return Err(damaged(name, "its checksum does not match its contents"));
    }
    decode(&contents).ok_or_else(|| damaged(name, "its contents cannot be decoded"))
}

fn damaged(name: &str, what: &str) -> Error {
    Error::data(format!("{name}: the checkpoint is damaged: {what}"))
        .hint("fit from the start, without ⟨resume⟩")
}

/// Refuses a checkpoint of another fit, and names the first difference between the two.
fn check_identity(name: &str, found: &Identity, expected: &Identity) -> Result<()> {
    let of = |identity: &Identity, key: &str| {
        let value = identity.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        value.unwrap_or_else(|| "absent".to_owned())
    };
    for (key, _) in expected.iter().chain(found) {
        let (there, here) = (of(found, key), of(expected, key));
        if there != here {
            return Err(Error::data(format!(
                "{name}: belongs to another fit: {key} is {there} in the checkpoint and {here} in this fit"
            ))
            .hint("resume with the same data and options, or fit from the start"));
        }
    }
    Ok(())
}

/// A claim on a file. It ends with the value or with the process.
#[derive(Debug)]
pub(super) struct Lock {
    /// A file that is open only for its lock; `None` if the file system has no locks.
    _file: Option<File>,
    path: PathBuf,
    _transient: Option<Transient>,
}

impl Lock {
    /// Claims `path`.
    ///
    /// # Errors
    ///
    /// When another process has claimed it, or its folder cannot be written to.
    pub fn of(path: &Path) -> Result<Lock> {
        let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
        name.push(".lock");
        let beside = path.with_file_name(name);
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(&beside);
            let file = file.map_err(|error| {
                Error::data(format!("{}: cannot be written: {error}", path.display()))
                    .hint("check that the folder exists, can be written to, and has space")
            })?;
            match file.try_lock() {
                // The previous holder may have removed the file between opening and locking.
                Ok(()) if !beside.exists() => {}
                Ok(()) => {
                    let _transient = Some(Transient::of(beside.clone()));
                    return Ok(Lock { _file: Some(file), path: beside, _transient });
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::data(format!(
                        "{}: another fit is writing this checkpoint",
                        path.display()
                    ))
                    .hint(
                        "give each fit a separate ⟨checkpoint⟩, or wait until the other fit has finished",
                    ));
                }
                Err(TryLockError::Error(_)) => {
                    return Ok(Lock { _file: None, path: beside, _transient: None });
                }
            }
        }
    }
}

impl Drop for Lock {
    /// Removes the lock file while the lock is held. A file that is left after a kill is not
    /// locked.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn identity(seed: &str) -> Identity {
        vec![("seed".into(), seed.into()), ("data".into(), "abc".into())]
    }

    fn stored(folder: &Path) -> PathBuf {
        let path = folder.join("fit.checkpoint");
        let mut checkpoint = Checkpoint::new(&path, identity("0"), Some(Duration::ZERO));
        assert!(checkpoint.begin().is_none());
        checkpoint.finish_stage(vec![1, 2]);
        checkpoint.finish_stage(vec![3]);
        checkpoint.finish_fit(0, vec![4]);
        checkpoint.save(vec![5, 6]);
        assert_eq!(checkpoint.failure(), None);
        path
    }

    #[test]
    fn stages_come_back_in_order_and_a_finished_fit_replaces_its_stages() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = stored(folder.path());
        let mut checkpoint =
            Checkpoint::new(&path, identity("0"), None).resume(&path).expect("the checkpoint");
        assert_eq!(checkpoint.finished_fit(), Some(vec![4]));
        assert_eq!(checkpoint.finished_fit(), None);
        assert_eq!(checkpoint.begin(), Some(vec![5, 6]));
        checkpoint.finish_stage(vec![7]);
        assert!(checkpoint.begin().is_none());
        checkpoint.remove();
        assert!(!path.exists());
    }

    #[test]
    fn other_fits_other_files_and_every_damage_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = stored(folder.path());
        let other = Checkpoint::new(&path, identity("1"), None).resume(&path).expect_err("another seed");
        assert!(
            other
                .to_string()
                .ends_with("belongs to another fit: seed is 0 in the checkpoint and 1 in this fit"),
            "{other}"
        );
        let bytes = std::fs::read(&path).expect("the file");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(inspect("f", damaged).is_err(), "byte {at}");
            assert!(inspect("f", bytes[..at].to_vec()).is_err(), "{at} bytes");
        }
        assert_eq!(inspect("f", bytes).expect("intact"), identity("0"));
    }

    #[test]
    fn the_first_failed_write_is_reported_and_later_writes_are_still_tried() {
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gone/fit.checkpoint");
        let mut checkpoint =
            Checkpoint::new(&path, identity("0"), Some(Duration::ZERO)).with_warning(|error| {
                assert!(error.to_string().contains("gone/fit.checkpoint: cannot be written"), "{error}");
                TOLD.fetch_add(1, Ordering::Relaxed);
            });
        checkpoint.save(vec![1]);
        checkpoint.save(vec![2]);
        assert!(checkpoint.failure().is_some());
        std::fs::create_dir(folder.path().join("gone")).expect("a folder");
        checkpoint.save(vec![3]);
        assert_eq!((checkpoint.failure(), path.exists()), (None, true));
        assert_eq!(TOLD.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_rescue_writes_the_latest_state_and_says_where() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c");
        let mut checkpoint = Checkpoint::new(&path, Identity::new(), None);
        let rescue = checkpoint.rescue();
        checkpoint.finish_stage(vec![1, 2]);
        checkpoint.save(vec![3]);
        checkpoint.save(vec![4, 5]);
        assert!(!path.exists());
        let error = rescue.write();
        assert_eq!((error.kind(), error.exit_code()), (crate::ErrorKind::Interrupted, 130));
        assert!(error.to_string().contains("a checkpoint is left in"), "{error}");
        let mut resumed = Checkpoint::new(&path, Identity::new(), None).resume(&path).expect("intact");
        assert_eq!(resumed.begin(), Some(vec![1, 2]));
        resumed.at = 1;
        assert_eq!(resumed.begin(), Some(vec![4, 5]));
        std::fs::remove_dir_all(folder.path()).expect("removed");
        assert!(rescue.write().to_string().contains("no checkpoint is left"));
    }

    #[test]
    fn a_file_has_one_claim_and_a_killed_fit_leaves_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fit.checkpoint");
        let beside = folder.path().join("fit.checkpoint.lock");
        std::fs::write(&beside, "").expect("written");
        let lock = Lock::of(&path).expect("nobody else");
        let error = Lock::of(&path).expect_err("claimed");
        assert!(error.to_string().ends_with("another fit is writing this checkpoint"), "{error}");
        assert_eq!(error.exit_code(), 3);
        drop(lock);
        assert!(!beside.exists());
        assert!(Lock::of(&path).is_ok());
    }
}
