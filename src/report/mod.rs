//! What a fit shows: the metrics document and a self-contained HTML report with figures; no fitting.

#[cfg(feature = "tables")]
mod baselines;
#[cfg(feature = "tables")]
mod document;
mod figures;
mod html;
#[cfg(feature = "tables")]
mod next;

#[cfg(feature = "tables")]
pub use baselines::{BaselineFigures, BaselineReport, BesideModel, TrainFigures};
#[cfg(feature = "tables")]
pub use document::{DataSummary, Document, FitFigures, SCHEMA};
pub use figures::{
    CurveSeries, Curves, Interval, Observed, Series, Surface, calibration, curves, intervals, reliability,
    surface, trace,
};
pub use html::{Section, page};
#[cfg(feature = "tables")]
pub use next::{Facts, next};
