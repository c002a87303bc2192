//! The claim of one fit on a checkpoint file: a file in the same folder that is locked while the fit runs.

use crate::error::{Error, Result};
use crate::files::Transient;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

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
