//! What a fit shows: the metrics document and self-contained HTML reports with figures; no fitting, no files.

mod baselines;
mod document;
mod evaluation;
mod figures;
mod fit;
mod html;
mod next;
pub mod words;

pub use baselines::{BaselineFigures, BaselineReport, BesideModel, TrainFigures};
pub use document::{DataSummary, Document, FitFigures, SCHEMA};
pub use evaluation::{Evaluation, Evaluator, KeptRows};
pub use figures::{
    Band, CurveSeries, Curves, Drawing, Interval, Observed, Plane, Regions, Series, Surface, bands,
    calibration, coverage, curves, intervals, regions, reliability, roc, surface, trace,
};
pub use fit::{Explained, ExplainedRow, FitReport, explained_page, fit_page, reproduce};
pub use html::{Block, Card, Figure, Page, PagePart, Section, TableBlock};
pub use next::{Facts, next};
