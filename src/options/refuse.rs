//! Refusals of values and combinations of options.

use crate::error::{Error, Result};

/// Fails with an error if `wrong` is true.
pub(super) fn refuse_if(wrong: bool, error: impl FnOnce() -> Error) -> Result<()> {
    if wrong { Err(error()) } else { Ok(()) }
}

/// Fails with an error about what was found, if anything was.
pub(super) fn refuse_found<T>(found: Option<T>, error: impl FnOnce(T) -> Error) -> Result<()> {
    found.map_or(Ok(()), |found| Err(error(found)))
}

/// Returns the first entry that applies, such as the name of an option that was set.
pub(super) fn first_of<T, const N: usize>(entries: [(bool, T); N]) -> Option<T> {
    entries.into_iter().find_map(|(applies, entry)| applies.then_some(entry))
}

/// Refuses numbers that are not positive.
pub(super) fn positive(name: &str, value: f64) -> Result<()> {
    let wrong = !(value > 0.0 && value.is_finite());
    refuse_if(wrong, || Error::usage(format!("{name} is {value}, expected a positive number")))
}
