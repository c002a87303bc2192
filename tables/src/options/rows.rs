//! The options about the scaling of the data and about held-out rows.

use super::{Entry, Kind};

pub(super) const SCALING: &[Entry] = &[Entry::new("standardize", Kind::Switch)
    .help("Do not standardise inputs and target")
    .excludes(&["from"])];

pub(super) const HELD_OUT: &[Entry] = &[Entry::new("validation_fraction", Kind::Number)
    .value("SHARE")
    .help(
        "Share of the rows to hold out for validation. Validation rows decide when to stop, which \
         parameters to keep and, with ⟨betas⟩, which β to use [default: 0; 0.2 with ⟨betas⟩]",
    )
    .not_compared()];
