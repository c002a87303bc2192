//! The reasons why a model file cannot be used, and their error messages.

use crate::error::Error;

/// The version of the format; files of another version are refused.
pub(super) const VERSION: u32 = 1;

/// The reason why bytes are not a usable model.
pub(super) enum Unusable {
    Foreign,
    /// Models of several targets, where one was expected.
    Several,
    OtherVersion(String),
    Damaged(String),
    /// A kernel or likelihood that the registry does not know.
    Unknown(String),
}

impl Unusable {
    pub fn damaged(what: impl std::fmt::Display) -> Unusable {
        Unusable::Damaged(what.to_string())
    }

    /// Fails because a file is damaged, unless a condition holds.
    pub fn unless(holds: bool, what: &str) -> Checked<()> {
        if holds { Ok(()) } else { Err(Unusable::damaged(what)) }
    }

    pub fn about(self, name: &str) -> Error {
        match self {
            Unusable::Foreign => Error::data(format!("{name}: not a sparsegp model file"))
                .hint("expected a file written by fit ⟨model_out⟩"),
            Unusable::Several => {
                Error::data(format!("{name}: the file holds models of several targets, expected one"))
                    .hint("fit the target by itself; predict, evaluate and inspect take all of them")
            }
            Unusable::OtherVersion(version) => Error::data(format!(
                "{name}: model file of format version {version:?}, expected {VERSION}"
            ))
            .hint("use the version of sparsegp that wrote it, or fit the model again"),
            Unusable::Damaged(what) => damaged_model(name, &what),
            Unusable::Unknown(what) => Error::data(format!(
                "{name}: the model uses {what}, which this program does not know"
            ))
            .hint(
                "pass it when you load the model (kernels= or likelihoods= in Python, a registry in Rust), or use a newer sparsegp",
            ),
        }
    }
}

/// The error for a model file whose parts contradict each other.
pub fn damaged_model(name: &str, what: &dyn std::fmt::Display) -> Error {
    Error::data(format!("{name}: the model file is damaged: {what}"))
        .hint("copy the file from its source again, or fit the model again")
}

pub(super) type Checked<T> = std::result::Result<T, Unusable>;
