//! Why a model file cannot be used, and how that is said; no reading.

use super::file::VERSION;
use crate::error::Error;

/// Why bytes are not a usable model.
pub(super) enum Unusable {
    Foreign,
    /// Models of several targets, where one was expected.
    Several,
    Newer(String),
    Damaged(String),
    /// What has a name that the registry does not know.
    Unknown(String),
}

impl Unusable {
    pub fn damaged(what: impl std::fmt::Display) -> Unusable {
        Unusable::Damaged(what.to_string())
    }

    pub fn about(self, name: &str) -> Error {
        match self {
            Unusable::Foreign => Error::data(format!("{name}: not a sparsegp model file"))
                .hint("expected a file written by fit ⟨model_out⟩"),
            Unusable::Several => {
                Error::data(format!("{name}: the file holds models of several targets, expected one"))
                    .hint("fit the target by itself; predict, evaluate and inspect take all of them")
            }
            Unusable::Newer(version) => Error::data(format!(
                "{name}: model file of format version {version:?}, expected at most {VERSION}"
            ))
            .hint("use the version of sparsegp that wrote it, or a newer one"),
            Unusable::Damaged(what) => damaged_model(name, &what),
            Unusable::Unknown(what) => Error::data(format!(
                "{name}: the model has {what}, which is not known"
            ))
            .hint("enter it in the registry that the model is read with, or use a newer version of sparsegp"),
        }
    }
}

/// The error for a model file whose parts contradict each other.
pub(crate) fn damaged_model(name: &str, what: &dyn std::fmt::Display) -> Error {
    Error::data(format!("{name}: the model file is damaged: {what}"))
        .hint("copy it again from where it came from, or fit again")
}

pub(super) type Checked<T> = std::result::Result<T, Unusable>;
