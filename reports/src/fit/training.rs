//! The section of a report about training: the trace against time, the choice of β and of inducing
//! inputs.

use super::FitReport;
use crate::figures::{Curves, Drawing, curves, trace};
use crate::html::{Block, Figure, figures};
use crate::words::{self, number, search_figure};
use sparsegp::model::BetaCurve;

pub(super) fn blocks(report: &FitReport<'_>) -> Vec<Block> {
    let model = report.model;
    let summary = model.summary();
    let stopped = words::stopped(summary);
    let about = format!(
        "The objective, {}, against time; smaller is better. Training ended: {stopped}. If the curve still falls at its end, try more epochs.",
        words::objective(model)
    );
    let validation = summary.trace.iter().filter_map(|record| Some((record.seconds, record.validation_nll?)));
    let validation = curves(&Curves::line(("seconds of training", "validation NLL"), validation));
    let overfits = "The NLL of the validation rows against time; if it rises while the objective falls, the model overfits.";
    let beta = model.beta_curve();
    let chosen = beta.map_or(String::new(), |curve| {
        format!(
            "The score of the validation rows at every β, on the scale the model sees; smaller is better, \
            and {} was chosen. If the chosen β is at an end of the range, try values beyond it.",
            number(curve.chosen)
        )
    });
    let bounds = "Bounds on the log evidence for each number of inducing inputs, per row on the scale the model \
        sees. Where the bounds meet, more inducing inputs do not help.";
    figures([
        Figure::of("trace", "Trace", &about, trace(&summary.trace)),
        Figure::of("validation", "Validation NLL", overfits, validation),
        Figure::of("beta", "Score against β", &chosen, beta.and_then(beta_curve)),
        Figure::of("inducing", "Inducing inputs", bounds, search_figure(model)),
    ])
}

fn beta_curve(curve: &BetaCurve) -> Option<Drawing> {
    let name = if curve.squared_error { "squared error" } else { "log loss" };
    let points = curve.points.iter().filter_map(|point| Some((point.beta, point.score?)));
    curves(&Curves { log_x: true, ..Curves::line(("β", &format!("validation {name}")), points) })
}
