//! Data files in and out: tables, schemas, scaling, splits, batches and output files; no kernels.

mod ahead;
pub mod check;
pub mod column;
mod csv;
mod facts;
mod infer_schema;
mod infer_target;
pub(crate) mod moments;
mod parquet;
pub mod predictions;
pub mod random;
pub mod read;
mod reservoir;
mod roles;
pub mod scaling;
pub mod schema;
pub(crate) mod shuffle;
pub mod split;
pub(crate) mod statistics;
pub mod table;
pub mod target;
pub mod write;

pub use ahead::Ahead;
pub use check::input_warnings;
pub use column::{Column, TextColumn};
pub use predictions::PredictionWriter;
pub use random::{Purpose, generator};
pub use read::{TableBlocks, read_csv, read_table};
pub use roles::{Role, Roles};
pub use scaling::Scaling;
pub use schema::{Feature, Schema, SchemaOptions, UnseenLevels};
pub use split::{Batches, Split, split};
pub use table::{NamedColumn, Table};
pub use target::{TargetEncoding, TargetKind, Task};
pub use write::AtomicFile;
