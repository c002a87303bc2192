//! The section of a report about calibration of probabilities and intervals.

use super::percent;
use crate::evaluation::Evaluation;
use crate::figures::{calibration, coverage, reliability, roc, survival};
use crate::html::{Block, Figure, figures};
use crate::words::number;
use sparsegp::likelihood::Task;
use sparsegp::metrics::Report;
use sparsegp_tables::tabular::TableModel;

/// The number of standard deviations beyond which a deviation is mentioned, and its minimum as a share.
const SURE: f64 = 3.0;
const LEAST: f64 = 0.02;

const SURVIVED: &str = "The share of test rows whose target is larger than a number, by groups of predictions: in group 1, large targets \
    are least probable. Steps are the Kaplan–Meier estimate from known and censored rows, with 95 % intervals; the wide lines behind them are mean \
    predictions. If predictions are calibrated, the steps follow the wide lines. The farther apart the groups are, the more the predictions \
    tell the rows apart.";

pub(super) fn blocks(model: &TableModel, test: &Evaluation) -> Vec<Block> {
    let levels = model.schema().encoding().levels();
    let (of, shares) = match levels {
        [_, positive] => (format!("'{positive}'"), format!("The share of '{positive}' among test rows")),
        _ => (String::new(), "The share of test rows in which the most probable class is right".to_owned()),
    };
    let (report, rows, discrete) = (&test.report, test.rows, model.task() != Task::Regression);
    let curve = test.metrics.roc().and_then(|points| roc(&points));
    let points = test.metrics.reliability().unwrap_or_default();
    let error = report.ece.map_or(String::new(), |error| {
        format!(" The calibration error, the mean distance from the line, is {}.", number(error))
    });
    let reliable = format!(
        "{shares} against its predicted probability, with 95 % intervals and the number of rows below. \
        Points above the grey line show that probabilities are too low, points below it that they are too \
        high.{error}"
    );
    let curves = survival(&test.survival, model.schema().target_name());
    let found = report.auc.map_or(String::new(), |auc| format!(" The area below is {}.", number(auc)));
    let characteristic = format!(
        "The share of {of} that is found, plotted against the share of false alarms, as the threshold of the \
        probability decreases. The grey line is guessing.{found}"
    );
    figures([
        Figure::of(
            "pit",
            "Probability integral transforms",
            &transforms(report, rows),
            calibration(report, rows),
        ),
        Figure::of("coverage", "Coverage", &covered(report, rows, discrete), coverage(report, rows)),
        Figure::of("survival", "Observed and predicted survival", SURVIVED, curves),
        Figure::of("reliability", "Reliability of probabilities", &reliable, reliability(&points)),
        Figure::of("roc", "Receiver operating characteristic", &characteristic, curve),
    ])
}

/// Returns the standard deviation of a share by chance.
fn chance(share: f64, rows: u64) -> f64 {
    (SURE * (share * (1.0 - share) / rows.max(1) as f64).sqrt()).max(LEAST)
}

fn transforms(report: &Report, rows: u64) -> String {
    let Some(bins) = report.pit else { return String::new() };
    let sum = |range: std::ops::Range<usize>| bins[range].iter().sum::<f64>();
    let (ends, middle, upper) = (bins[0] + bins[9], sum(3..7), sum(5..10));
    let beyond = |share: f64, expected: f64| share - expected > chance(expected, rows);
    let verdict = match () {
        () if beyond(ends, 0.2) => "Here they are at the ends too often: intervals are too narrow",
        () if beyond(middle, 0.4) => "Here they are in the middle too often: intervals are too wide",
        () if beyond(upper, 0.5) => "Here they lean to the right: targets are higher than predicted",
        () if beyond(1.0 - upper, 0.5) => "Here they lean to the left: targets are lower than predicted",
        () => "Here there is no sign of miscalibration",
    };
    format!(
        "The position of each test row in its predictive distribution. The histogram is flat, within the \
        grey band, if predictions are calibrated. A peak in the middle means that intervals are too wide, \
        peaks at both ends that they are too narrow, and a slope that predictions are biased. {verdict}."
    )
}

/// Returns the caption of coverage against level for these rows, whose targets may be discrete, with a
/// verdict.
fn covered(report: &Report, rows: u64, discrete: bool) -> String {
    let Some(share) = report.coverage.as_ref().and_then(|coverage| coverage.central_95) else {
        return String::new();
    };
    let verdict = match share - 0.95 {
        off if off > chance(0.95, rows) && discrete => {
            "more than 95 %, which is usual for small counts and few levels"
        }
        off if off > chance(0.95, rows) => "more than they should: they are too wide",
        off if -off > chance(0.95, rows) => "less than they should: they are too narrow",
        _ => "as expected within chance",
    };
    format!(
        "The share of test rows inside central intervals against the level of the intervals, with 95 % \
        intervals of the shares. Above the grey line intervals are too wide; below it they are too narrow. \
        The 95 % intervals hold {} of the rows, {verdict}.",
        percent(share)
    )
}
