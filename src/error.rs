//! The only error type: the problem, its location and a hint, with the options it names as data.
//! Numerical failures during a fit are status values instead.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a problem, by the person who can solve it. Each kind has one exit status of the
/// command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option or argument that is invalid (exit status 2).
    Usage,
    /// Bad data or an unusable file (exit status 3).
    Data,
    /// The fit failed numerically after everything reasonable was tried (exit status 4).
    Fit,
    /// The user interrupted the work (exit status 130).
    Interrupted,
}

/// An error with a message of one line and, if there is something to try, a hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

/// A function that writes an option, given its name (`q_step`) and an optional value, as the reader
/// spells it.
#[doc(hidden)]
pub type Say<'a> = dyn Fn(&str, Option<&str>) -> String + 'a;

/// Returns a text in which each marked option, ⟨name⟩ or ⟨name value⟩, is written by `say`:
/// `⟨hyper dual⟩` is `--hyper dual` on a command line, `hyper = dual` in a program.
#[doc(hidden)]
pub fn spoken(text: &str, say: &Say<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('⟨') {
        out.push_str(before);
        let inside = after.split_once('⟩').filter(|(inside, _)| {
            let name = inside.split(' ').next().unwrap_or_default();
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        });
        rest = match inside {
            Some((option, rest)) => {
                let (name, value) =
                    option.split_once(' ').map_or((option, None), |(name, value)| (name, Some(value)));
                out.push_str(&say(name, value));
                rest
            }
            // This is not an option.
            None => {
                out.push('⟨');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// Writes an option as programs in Rust do: by its name, except that `from` (a model to start from)
/// is called `start`.
pub(crate) fn rust_name(name: &str, value: Option<&str>) -> String {
    let name = if name == "from" { "start" } else { name };
    match value {
        Some(value) => format!("{name} = {value}"),
        None => name.to_owned(),
    }
}

/// The result of anything that reads user input. Programs that import it can still name results with other errors.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<crate::likelihood::NameError> for Error {
    fn from(error: crate::likelihood::NameError) -> Self {
        Error::usage(error.to_string())
    }
}

impl Error {
    /// An option or argument that is invalid.
    pub fn usage(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Usage, message: message.into(), hint: None }
    }

    /// Bad data or an unusable file. The message should name the file, row and column, and what was
    /// expected.
    pub fn data(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Data, message: message.into(), hint: None }
    }

    /// A fit that failed numerically. The message should name the remedies that were tried.
    pub fn fit(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Fit, message: message.into(), hint: None }
    }

    /// Work that the user interrupted. The message should say what is kept.
    #[doc(hidden)]
    pub fn interrupted(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Interrupted, message: message.into(), hint: None }
    }

    /// The error for sums over data of these dimensions, which belong to different models and
    /// cannot be added.
    pub(crate) fn unlike_sums(own: usize, other: usize) -> Self {
        Error::data(format!(
            "found sums over data of dimensions {own} and {other}, expected equal dimensions: the sums belong to different models"
        ))
        .hint("compute every part with the same layer, posterior, objective and form")
    }

    /// Adds a hint to the error.
    #[doc(hidden)]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The kind of the problem.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the hint, if there is one, with options named as in Rust.
    pub fn advice(&self) -> Option<String> {
        self.advice_with(&rust_name)
    }

    /// Returns the message, with options written by `say`.
    #[doc(hidden)]
    pub fn message_with(&self, say: &Say<'_>) -> String {
        spoken(&self.message, say)
    }

    /// Returns the hint, if there is one, with options written by `say`.
    #[doc(hidden)]
    pub fn advice_with(&self, say: &Say<'_>) -> Option<String> {
        self.hint.as_deref().map(|hint| spoken(hint, say))
    }

    /// The names of the options in the message, such as `q_step`, in the order of the message.
    #[doc(hidden)]
    pub fn options(&self) -> Vec<String> {
        let names = std::cell::RefCell::new(Vec::new());
        spoken(&self.message, &|name, _| {
            names.borrow_mut().push(name.to_owned());
            String::new()
        });
        names.into_inner()
    }

    /// Returns the message with its options marked as ⟨name⟩, for use inside another message.
    #[doc(hidden)]
    pub fn marked(&self) -> &str {
        &self.message
    }

    /// The exit status of the command line: 2 usage, 3 data, 4 fit, 130 interrupted.
    #[doc(hidden)]
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
        f.write_str(&spoken(&self.message, &rust_name))
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_each_reader_spells_them() {
        let error =
            Error::usage("⟨hyper dual⟩ needs ⟨family full⟩, not ⟨⟩ or a ⟨ b").hint("leave ⟨q_step⟩ out");
        assert_eq!(error.to_string(), "hyper = dual needs family = full, not ⟨⟩ or a ⟨ b");
        assert_eq!(error.advice().as_deref(), Some("leave q_step out"));
        assert_eq!(error.options(), ["hyper", "family"]);
        let dashes = |name: &str, value: Option<&str>| format!("--{name} {}", value.unwrap_or(""));
        assert_eq!(error.message_with(&dashes), "--hyper dual needs --family full, not ⟨⟩ or a ⟨ b");
    }
}
