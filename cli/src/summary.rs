//! The summary that `fit` prints at the end, which fits on one screen.

use super::output;
use sparsegp::hyper::StopReason;
use sparsegp::model::{BetaCurve, BetaPoint};
use sparsegp::objective::EstimatorCounts;
use sparsegp_reports::words::{self, parameters, row};
use sparsegp_reports::{Document, Evaluation};
use sparsegp_tables::tabular::TableModel;

/// The size of a screen in lines and in columns of characters.
const LINES: usize = 24;
const COLUMNS: usize = 80;

const FIGURES: usize = 4;

const MOST_BETAS: usize = 5;

/// The number of lines around the coefficients: a heading, a header, and the note about the file with all of them.
const COEFFICIENT_FRAME: usize = 3;

/// Returns the summary of a fit, most important lines first. `where_all` is a note on where to find the parameters that are left out.
pub fn text(
    model: &TableModel,
    document: &Document<'_>,
    test: Option<&Evaluation>,
    where_all: &str,
) -> String {
    let mut head = fitted(model);
    head.extend(document.cross_validation.iter().flat_map(|cross| named_rows(cross.table(model.task()))));
    head.extend(test.map(|test| figures_of(model, test)).unwrap_or_default());
    head.extend(document.next.iter().map(|line| row("next", line.clone())));
    head.extend(trained(model));
    let mut head = output::wrapped(&head, COLUMNS);
    // If not even the shortest list of hyper-parameters fits on the screen, the row about choices is shortened.
    let least = parameters::within(model, 0, where_all).len();
    let excess = (head.len() + least).saturating_sub(LINES);
    shorten(&mut head, "chosen", excess);
    let left = LINES.saturating_sub(head.len());
    let parameters = parameters::within(model, left, where_all);
    let left = left.saturating_sub(parameters.len() + COEFFICIENT_FRAME);
    let most = left.clamp(parameters::LEAST_SHOWN, parameters::MOST_SHOWN);
    let coefficients = words::coefficient_text(model, most, where_all).unwrap_or_default();
    // A blank line, if there is room.
    let lines = head.len() + parameters.len() + coefficients.lines().count();
    let gap = if lines < LINES { "\n" } else { "" };
    let parameters = output::table(&parameters) + &coefficients;
    let parameters: String = parameters.lines().map(|line| words::cut(line, COLUMNS) + "\n").collect();
    output::table(&head) + gap + &parameters
}

/// Cuts up to `excess` lines off the end of the wrapped row `name`; the last remaining line then ends with `…`.
fn shorten(lines: &mut Vec<Vec<String>>, name: &str, excess: usize) {
    let Some(start) = lines.iter().position(|line| line[0] == name) else { return };
    let more = lines[start + 1..].iter().take_while(|line| line[0].is_empty()).count();
    let taken = excess.min(more);
    if taken > 0 {
        let end = start + 1 + more;
        lines.drain(end - taken..end);
        let names = lines.iter().map(|line| line[0].chars().count()).max().unwrap_or_default();
        // Two spaces follow the names, and one comes before the mark.
        let room = COLUMNS.saturating_sub(names + 4);
        let last = &mut lines[end - taken - 1][1];
        *last = last.chars().take(room).chain([' ', '…']).collect();
    }
}

fn fitted(model: &TableModel) -> Vec<Vec<String>> {
    let (options, latent) = (model.options(), model.latent());
    let (rows, inputs) = (words::count(model.training_rows()), model.schema().feature_dims());
    let (target, likelihood) = (model.schema().target_name(), latent.likelihood.name());
    let class = model.schema().encoding().positive().map(|class| format!(" (probability of \"{class}\")"));
    let (class, noun) = (class.unwrap_or_default(), if inputs == 1 { "input" } else { "inputs" });
    let task = format!(
        "{} of '{target}'{class}, {likelihood} likelihood, {rows} training rows, {inputs} {noun}",
        model.task()
    );
    let mut fitted = vec![row("task", task)];
    if let Some(layer) = latent.layer().inducing() {
        let (kernel, count) = (model.schema().kernel_in_names(&options.kernel), layer.z().nrows());
        let nearby = model.neighbours().map(|nearby| format!(", {} neighbours", nearby.count()));
        let nearby = nearby.unwrap_or_default();
        fitted.push(row("kernel", format!("{kernel}, {count} inducing inputs{nearby}")));
    } else if let Some(layer) = latent.layer().linear() {
        let coefficients = words::coefficient_count(layer);
        fitted.push(row("model", format!("linear (glm), coefficients: {coefficients}")));
        fitted.push(row("prior", words::prior(options, layer)));
    }
    fitted.extend(words::place_rows(model));
    fitted.extend(words::group_rows(model));
    fitted.extend(words::offset_rows(model));
    fitted
}

fn trained(model: &TableModel) -> Vec<Vec<String>> {
    let summary = model.summary();
    let stopped = match summary.stop_reason {
        StopReason::Converged => words::ended(summary),
        _ => words::stopped(summary),
    };
    let mut trained = vec![row("stopped", format!("{stopped}; {}", words::objective(model)))];
    trained.extend(summary.sampling.and_then(sampling).map(|text| row("sampling", text)));
    trained.extend(words::evidence(model).map(|text| row("log evidence", text)));
    trained.extend(words::search_rows(model, &output::dashes));
    trained.extend(words::conformal_row(model));
    trained.extend(model.beta_curve().map(|curve| row("β", scores(curve))));
    trained
}

/// Returns the text about the acceptance rate of the rejection sampler, or `None` if the fit did not use it.
fn sampling(counts: EstimatorCounts) -> Option<String> {
    let samples = counts.accepted + counts.starved;
    let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    (counts.proposals > 0).then(|| {
        format!(
            "{:.3} % of {:.2e} proposals accepted; {:.3} % of the samples drawn by inversion, because every proposal was rejected",
            percent(counts.accepted, counts.proposals),
            counts.proposals as f64,
            percent(counts.starved, samples)
        )
    })
}

/// Joins all columns of a table except the first into one aligned text per row.
fn named_rows(mut table: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let names: Vec<String> = table.iter_mut().map(|row| row.remove(0)).collect();
    names.iter().zip(output::table(&table).lines()).map(|(name, cells)| row(name, cells)).collect()
}

/// Returns the scores of the test rows, and the scores of the training rows and baselines if there are any.
fn figures_of(model: &TableModel, test: &Evaluation) -> Vec<Vec<String>> {
    let (beside, others) = words::short(test, model.task());
    let alone = beside.is_empty();
    let mut rows = named_rows(beside);
    let others: Vec<String> = others.iter().map(|(name, value)| format!("{name} {value}")).collect();
    for (index, part) in others.chunks(FIGURES).enumerate() {
        let (name, prefix) = match (index, alone) {
            (0, true) => ("test", format!("{} rows: ", test.rows)),
            (0, false) => ("also", String::new()),
            _ => ("", String::new()),
        };
        rows.push(row(name, prefix + &part.join(", ")));
    }
    let confusion = words::confusion_line(&test.report, model.schema().encoding().levels());
    rows.extend(confusion.map(|line| row("confusion", line)));
    rows
}

/// Returns the text about the values of β with the best validation scores, best first.
fn scores(curve: &BetaCurve) -> String {
    let rank = |point: &BetaPoint| point.score.unwrap_or(f64::INFINITY);
    let mut points: Vec<&BetaPoint> = curve.points.iter().collect();
    points.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    let score = |point: &&BetaPoint| {
        let score = point.score.map_or("not finite".to_owned(), output::number);
        format!("{} ({score})", output::number(point.beta))
    };
    let best: Vec<String> = points.iter().take(MOST_BETAS).map(score).collect();
    let of = if curve.squared_error { "squared error" } else { "log loss" };
    format!("best {} of {} by validation {of}: {}", best.len(), points.len(), best.join(", "))
}
