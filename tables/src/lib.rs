//! Sparse Gaussian processes on tables: files to typed columns, what columns mean, fits and predictions, comparisons, reports.
//!
//! This crate may know files, columns and pages, and everything public of [`sparsegp`]; it knows no command line. [`fit_table`] has an
//! example.
//!
//! [`fit_table`]: tabular::fit_table
//!
//! # What is where
//!
//! A module imports modules below it, and modules of [`sparsegp`].
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`compare`], [`report`] | objectives side by side; the metrics document and the HTML report |
//! | [`tabular`] | fits to tables and files, and their predictions |
//! | [`schema`] | what columns mean: inputs, categories, the kind of target |
//! | [`tables`] | files to tables of typed columns, files of predictions |
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `parquet` (default) | Parquet files in [`tables`] |

pub mod compare;
pub mod prelude;
mod readable;
pub mod report;
pub mod schema;
pub mod tables;
pub mod tabular;

/// The Rust of the book that reads tables.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../docs/start-rust.md")]
    mod start {}
}
