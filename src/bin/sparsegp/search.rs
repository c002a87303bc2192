//! How the start of a fit was found, for people: rows of a summary and a figure; no searching.

use super::output;
use sparsegp::model::{InducingCurve, InducingPoint, NeighbourPoint, Restart};
use sparsegp::report::{self, CurveSeries, Curves};
use sparsegp::tabular::TableModel;

/// The most scores of starts in one line.
const MOST_SCORES: usize = 8;

/// What the summary of a model says of the search for its start.
pub fn rows(model: &TableModel) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let search = model.search();
    let mut rows = Vec::new();
    if let Some(curve) = &search.inducing {
        rows.push(row("inducing inputs found", found(curve)));
        rows.extend(curve.certificate.map(|known| {
            let (kl, each) = (output::number(known.kl), output::number(known.kl_per_row));
            row("distance to the exact GP", format!("KL at most {kl} nats, {each} per row"))
        }));
    }
    rows.extend(beside(&search.neighbours).map(|text| row("neighbours", text)));
    rows.extend(start(&search.restarts).map(|text| row("start", text)));
    rows
}

/// The sizes tried with what decided, in one line.
fn found(curve: &InducingCurve) -> String {
    let words = curve.words();
    let first = words.split(';').next().unwrap_or_default();
    let sizes: Vec<String> = curve.points.iter().map(|point| point.m.to_string()).collect();
    format!("{first} (tried {})", sizes.join(", "))
}

/// Which number of neighbours was taken, among which.
fn beside(points: &[NeighbourPoint]) -> Option<String> {
    let chosen = points.iter().find(|point| point.chosen)?;
    let score = |point: &NeighbourPoint| {
        let score = point.score.map_or("not finite".to_owned(), output::number);
        format!("{} ({score})", point.neighbours)
    };
    let scores: Vec<String> = points.iter().map(score).collect();
    Some(format!("{} by the loss of held-out rows, of {}", chosen.neighbours, scores.join(", ")))
}

/// Which start was taken, among which.
fn start(restarts: &[Restart]) -> Option<String> {
    let chosen = restarts.iter().find(|restart| restart.chosen)?;
    let score = |restart: &Restart| restart.scores.first().copied().flatten();
    let first = |restart: &Restart| score(restart).map_or("failed".to_owned(), output::number);
    let mut scores: Vec<String> = restarts.iter().take(MOST_SCORES).map(first).collect();
    let count = restarts.len();
    scores.extend((count > MOST_SCORES).then(|| "…".to_owned()));
    Some(format!("number {} of 0 to {}, by first scores {}", chosen.start, count - 1, scores.join(", ")))
}

/// The bounds, and the loss of held-out rows, against the number of inducing inputs, with a caption.
pub fn figure(model: &TableModel) -> (Option<String>, &'static str) {
    let svg = model.search().inducing.as_ref().and_then(|curve| {
        let series = |name: &str, value: &dyn Fn(&InducingPoint) -> Option<f64>| CurveSeries {
            name: name.to_owned(),
            points: curve.points.iter().filter_map(|p| Some((p.m as f64, value(p)?, f64::NAN))).collect(),
        };
        let series = vec![
            series("lower bound on the log evidence", &|point| point.lower),
            series("upper bound", &|point| point.upper),
            series("log density of held-out rows", &|point| point.validation.map(|loss| -loss)),
        ];
        let axes = ("inducing inputs".to_owned(), "nats per row".to_owned());
        report::curves(&Curves { axes, log_x: true, log_y: false, series })
    });
    (svg, "What was known at each number of inducing inputs, per row on the scale the model sees.")
}
