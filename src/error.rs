//! The one error type: what was wrong, where, and what to try; numerical outcomes during a fit are status values.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What went wrong, by who can mend it; each maps to one exit status of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// An option or argument that makes no sense (exit status 2).
    Usage,
    /// Bad data or an unusable file (exit status 3).
    Data,
    /// The fit failed numerically although everything reasonable was tried (exit status 4).
    Fit,
    /// The user interrupted the work (exit status 130).
    Interrupted,
}

/// An error with one clear line and, where there is something to try, a hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

/// The result of anything that reads user input.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An option or argument that makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Usage, message: message.into(), hint: None }
    }

    /// Bad data or an unusable file; name the file, row and column and what was expected.
    pub fn data(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Data, message: message.into(), hint: None }
    }

    /// A fit that failed numerically; say what was tried.
    pub fn fit(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Fit, message: message.into(), hint: None }
    }

    /// Work that the user interrupted; say what is left of it.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Interrupted, message: message.into(), hint: None }
    }

    /// Sums over data, of these dimensions, that are not of one model and cannot be added.
    pub(crate) fn unlike_sums(own: usize, other: usize) -> Self {
        Error::data(format!(
            "sums over data of dimension {own} and {other} are of different shapes and cannot be added"
        ))
        .hint("compute every part with the same layer, posterior, objective and form")
    }

    /// The same error with something to try.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Who can mend it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What to try, if anything.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The exit status of the command line: 2 usage, 3 data, 4 fit, 130 interrupted.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::Usage => 2,
            ErrorKind::Data => 3,
            ErrorKind::Fit => 4,
            ErrorKind::Interrupted => 130,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
