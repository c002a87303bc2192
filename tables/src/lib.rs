//! Sparse Gaussian processes on tables: files to typed columns, what columns mean, fits and predictions, comparisons.
//!
//! This crate may know files and columns, and everything public of [`sparsegp`]; it knows no pages and no command line. [`fit_table`] has an
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
//! | [`compare`] | objectives side by side |
//! | [`forecast`] | forecasts of series in time |
//! | [`tabular`] | fits to tables and files, and their predictions |
//! | [`schema`] | what columns mean: inputs, categories, the kind of target |
//! | [`tables`] | files to tables of typed columns, files of predictions |
//! | [`options`] | options as text and JSON: names, values, help |
//! | [`explain`] | explanations of predictions: relevance of columns, partial dependence, contributions |
//! | [`readable`] | numbers, times and lists for people |
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `parquet` (default) | Parquet files in [`tables`] |

pub mod compare;
pub mod explain;
pub mod forecast;
pub mod options;
pub mod prelude;
pub mod readable;
pub mod schema;
pub mod tables;
pub mod tabular;

/// The Rust of the book that reads tables.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../docs/start-rust.md")]
    mod start {}
}
