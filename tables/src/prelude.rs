//! The names that most programs with tables need, for one `use sparsegp_tables::prelude::*`, with the prelude of [`sparsegp`].

pub use crate::tabular::{FitRequest, TableFit, TableModel, fit_table};
pub use sparsegp::prelude::*;
