//! What a fit shows: the metrics document and self-contained HTML reports with figures; no fitting, no files.

#[cfg(feature = "tables")]
mod baselines;
#[cfg(feature = "tables")]
mod document;
#[cfg(feature = "tables")]
mod evaluation;
mod figures;
#[cfg(feature = "tables")]
mod fit;
mod html;
#[cfg(feature = "tables")]
mod next;
#[cfg(feature = "tables")]
pub mod words;

#[cfg(feature = "tables")]
pub use baselines::{BaselineFigures, BaselineReport, BesideModel, TrainFigures};
#[cfg(feature = "tables")]
pub use document::{DataSummary, Document, FitFigures, SCHEMA};
#[cfg(feature = "tables")]
pub use evaluation::{Evaluation, Evaluator, KeptRows};
pub use figures::{
    Band, CurveSeries, Curves, Drawing, Interval, Observed, Plane, Regions, Series, Surface, bands,
    calibration, coverage, curves, intervals, regions, reliability, roc, surface, trace,
};
#[cfg(feature = "tables")]
pub use fit::{Explained, ExplainedRow, FitReport, explained_page, fit_page, reproduce};
pub use html::{Block, Card, Figure, Page, PagePart, Section, TableBlock};
#[cfg(feature = "tables")]
pub use next::{Facts, next};
