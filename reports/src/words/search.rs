//! The search for the start of a fit: rows of a summary and a figure.

use super::{duration, few, number, row};
use crate::{CurveSeries, Curves, Drawing, curves};
use sparsegp::error::Say;
use sparsegp::model::{Choice, Choices, InducingCurve, InducingPoint, Restart, Tried};
use sparsegp::options::Part;
use sparsegp_tables::tabular::TableModel;

/// The maximum number of named alternatives to the chosen value, best first.
const MOST_OTHERS: usize = 1;

const MOST_SCORES: usize = 8;

/// Describes the search for the start of a model. `say` returns the spelling of options.
pub fn search_rows(model: &TableModel, say: &Say<'_>) -> Vec<Vec<String>> {
    let search = model.search();
    let mut rows = Vec::new();
    if let Some(curve) = &search.inducing {
        rows.push(row("inducing inputs found", found(curve)));
        rows.extend(curve.certificate.map(|known| {
            let (kl, each) = (number(known.kl), number(known.kl_per_row));
            row("distance to the exact GP", format!("KL at most {kl} nats, {each} per row"))
        }));
    }
    if let Some(choices) = search.choices.as_ref().filter(|choices| !choices.parts.is_empty()) {
        rows.extend(chosen(choices).map(|text| row("chosen", text)));
        rows.push(row("the same with", options(choices, say)));
    }
    rows.extend(start(&search.restarts).map(|text| row("start", text)));
    rows
}

/// Describes the average over hyper-parameters, if predictions are one.
pub(super) fn averaged(model: &TableModel) -> Option<String> {
    let known = model.hyper_summary().filter(|_| model.hyper_points() > 1)?;
    let (points, share) = (model.hyper_points(), 100.0 * (known.widening - 1.0));
    let sign = if share < 0.0 { "narrower" } else { "wider" };
    let of = if model.latent().noise_variance().is_some() { "intervals" } else { "intervals of f" };
    Some(format!("{points} sets averaged, {of} {:.1} % {sign}", share.abs()))
}

/// Describes the sizes tried and the reason for the choice, in one line.
fn found(curve: &InducingCurve) -> String {
    let words = curve.words();
    let first = words.split(';').next().unwrap_or_default();
    let sizes: Vec<String> = curve.points.iter().map(|point| point.m.to_string()).collect();
    format!("{first} (tried {})", sizes.join(", "))
}

/// Returns a score, or a word for a fit that failed.
fn score(value: Option<f64>) -> String {
    value.map_or("failed".to_owned(), number)
}

/// Describes the choice for every part, with its loss and the alternatives.
fn chosen(choices: &Choices) -> Option<String> {
    let scored = |tried: &Tried| format!("{} {}", tried.value, score(tried.loss));
    let objection =
        |tried: &Tried| tried.objection.as_ref().map_or(String::new(), |text| format!(" [{text}]"));
    let part = |choice: &Choice| {
        if let [only] = &choice.tried[..] {
            return format!("{} {} (not compared)", choice.part, only.value);
        }
        let (taken, mut others): (Vec<_>, Vec<_>) = choice.tried.iter().partition(|tried| tried.chosen);
        others.sort_by(|a, b| a.loss.unwrap_or(f64::INFINITY).total_cmp(&b.loss.unwrap_or(f64::INFINITY)));
        let named = others.iter().map(|&tried| scored(tried) + &objection(tried));
        let taken = taken.first().map_or(String::new(), |&tried| scored(tried));
        format!("{} {taken} ({})", choice.part, few(named, MOST_OTHERS))
    };
    // The row about the average over hyper-parameters says more.
    let compared = choices.parts.iter().filter(|choice| choice.part != Part::HyperPosterior);
    let parts: Vec<String> = compared.map(part).collect();
    if parts.is_empty() {
        return None;
    }
    let (rows, held, time) = (choices.training_rows, choices.held_out_rows, duration(choices.seconds));
    Some(format!(
        "by the log loss of {held} held-out rows, short fits to {rows} rows, {time}: {}",
        parts.join("; ")
    ))
}

fn options(choices: &Choices, say: &Say<'_>) -> String {
    let chosen = |choice: &Choice| {
        let taken = choice.tried.iter().find(|tried| tried.chosen)?;
        let quote = if taken.value.contains(['(', ' ', '*']) { "'" } else { "" };
        let word = format!("{quote}{}{quote}", taken.value);
        Some(say(&choice.part.to_string().replace('-', "_"), Some(&word)))
    };
    let options: Vec<String> = choices.parts.iter().filter_map(chosen).collect();
    format!("{} {}", say("auto", Some("none")), options.join(" "))
}

fn start(restarts: &[Restart]) -> Option<String> {
    let chosen = restarts.iter().find(|restart| restart.chosen)?;
    let first = |restart: &Restart| score(restart.scores.first().copied().flatten());
    let mut scores: Vec<String> = restarts.iter().take(MOST_SCORES).map(first).collect();
    let count = restarts.len();
    scores.extend((count > MOST_SCORES).then(|| "…".to_owned()));
    Some(format!("number {} of 0 to {}, by first scores {}", chosen.start, count - 1, scores.join(", ")))
}

/// Draws the bounds, and the loss of held-out rows, against the number of inducing inputs.
pub(crate) fn search_figure(model: &TableModel) -> Option<Drawing> {
    let curve = model.search().inducing.as_ref()?;
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
    curves(&Curves { axes, log_x: true, series, ..Curves::default() })
}
