//! The presentation of fits to tables: scores of test rows, the metrics document, and self-contained HTML reports with figures.
//!
//! This crate may know everything public of [`sparsegp_tables`] and [`sparsegp`]; it reads and writes no files.

// For the metrics document, one JSON object of all options.
#![recursion_limit = "256"]

mod baselines;
pub mod comparison;
mod cross;
mod document;
mod evaluation;
mod figures;
mod fit;
mod html;
mod next;
pub mod words;

pub use baselines::{BaselineFigures, BaselineReport, TrainFigures};
pub use cross::CrossValidation;
pub use document::{DataSummary, Document};
pub use evaluation::{Evaluation, Evaluator, KeptRows};
pub(crate) use figures::intervals;
pub use figures::{Band, CurveSeries, Curves, Drawing, Observed, Series, curves};
pub use fit::{Explained, ExplainedRow, FitReport, explained_page, fit_page, reproduce};
pub use html::{Block, Card, Figure, Page, PagePart, Section, TableBlock};
pub use next::Suggestion;
