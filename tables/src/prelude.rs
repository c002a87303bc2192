//! What most programs that read tables use, for one `use sparsegp_tables::prelude::*`; that of [`sparsegp`] included.

pub use crate::tabular::{FitRequest, TableFit, TableModel, fit_table};
pub use sparsegp::prelude::*;
