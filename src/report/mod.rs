//! What a fit shows: the metrics document and a self-contained HTML report with figures; no fitting.

mod document;
mod figures;
mod html;

pub use document::{DataSummary, Document, FitFigures, SCHEMA};
pub use figures::{
    CurveSeries, Curves, Interval, Observed, Series, Surface, calibration, curves, intervals, reliability,
    surface, trace,
};
pub use html::{Section, page};
