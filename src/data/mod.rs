//! Data files in and out: tables, schemas, scaling, splits, batches and output files; no kernels.

mod ahead;
mod batches;
pub mod check;
pub mod column;
mod columnar;
mod csv;
mod facts;
mod infer_schema;
mod infer_target;
pub(crate) mod moments;
#[cfg(test)]
#[path = "../../tests/common/parquet.rs"]
pub(crate) mod parquet_file;
pub mod predictions;
pub mod random;
pub mod read;
mod reservoir;
mod roles;
pub mod scaling;
pub mod schema;
pub(crate) mod shuffle;
mod size;
pub mod split;
mod spread;
pub(crate) mod statistics;
pub mod table;
pub mod target;
pub mod write;

pub use crate::digest::file_digest;
pub use ahead::Ahead;
pub use batches::{BatchPlan, BatchStream};
pub use check::input_warnings;
pub use column::{Column, TextColumn};
pub use predictions::{PredictionWriter, WriterBehind};
pub use random::{Purpose, generator, part_generator};
pub use read::{TableBlocks, read_csv, read_table};
pub use roles::{Role, Roles};
pub use scaling::Scaling;
pub use schema::{Feature, Schema, SchemaOptions, UnseenLevels};
pub use size::large_size;
pub use split::{Split, split};
pub use statistics::{Sample, Survey, Surveyed, TableSums};
pub use table::{NamedColumn, Table};
pub use target::{TargetEncoding, TargetKind, Task};
pub use write::AtomicFile;
