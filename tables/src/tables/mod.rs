//! Files to tables of typed columns, whole or block by block, and files of predictions.

pub(crate) mod column;
#[cfg_attr(not(feature = "parquet"), path = "no_columnar.rs")]
mod columnar;
mod csv;
mod dialect;
mod format;
pub mod grid;
pub(crate) mod instant;
pub(crate) mod marker;
mod predictions;
pub(crate) mod read;
pub(crate) mod reading;
pub(crate) mod table;
pub(crate) mod written;

pub use column::{Column, TextColumn, number_text};
pub use csv::{csv_text, safe_cell};
pub use format::{PredictedTable, RowWriter};
pub use grid::Grid;
pub use instant::{DateOrder, spelled};
pub use predictions::{PredictedRows, PredictionWriter, WriterBehind};
pub use read::Ahead;
pub use read::large_size;
pub(crate) use read::table_of_cells;
pub use read::{TableBlocks, column_names, read_csv, read_table, read_table_with};
pub use reading::{Reading, Readings};
pub use table::{NamedColumn, RowNames, Table, interval_name};
