//! Replaces the parameters of a kernel or a likelihood by stored ones.

use super::unusable::{Checked, Unusable};
use sparsegp_kernels::{Parameter, Transform};

/// A function that visits the parameters to be replaced.
type Visit<'a> = dyn FnMut(&mut dyn FnMut(&mut Parameter)) + 'a;

/// Replaces parameters by stored ones of the same names and lengths.
pub(super) fn restore(stored: &[Parameter], for_each: &mut Visit<'_>) -> Checked<()> {
    let mut rest = stored.iter();
    let mut matches = true;
    for_each(&mut |parameter| match rest.next() {
        Some(stored) if fits(stored, parameter) => {
            // Slots follow from the contents of columns, not from the file.
            let slots = std::mem::take(&mut parameter.slots);
            *parameter = Parameter { slots, ..stored.clone() };
        }
        _ => matches = false,
    });
    Unusable::unless(
        matches && rest.next().is_none(),
        "its parameters do not match its kernel and likelihood",
    )
}

/// Returns true if a stored parameter can replace another one. Training may have ended on the edge of a range, but never with a negative
/// scale.
fn fits(stored: &Parameter, parameter: &Parameter) -> bool {
    let signed = parameter.transform == Transform::Identity;
    stored.name == parameter.name
        && stored.values.len() == parameter.values.len()
        && stored.values.iter().all(|value| value.is_finite() && (signed || *value >= 0.0))
}
