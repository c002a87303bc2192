//! What of a fit goes on a report page: its summary and its figures; no markup.

use super::evaluate::Evaluation;
use super::{coefficients, figures, inspect, output, parameters, search};
use sparsegp::likelihood::Task;
use sparsegp::model::{BetaCurve, Coefficient};
use sparsegp::report::{self, CurveSeries, Curves, Interval, Section};
use sparsegp::tabular::TableModel;

pub use sparsegp::report::page;

/// The most coefficients on a page.
const MOST_COEFFICIENTS: usize = 500;

/// The most effects in a figure.
const MOST_EFFECTS: usize = 40;

/// The validation score against β.
fn beta_curve(curve: &BetaCurve) -> Option<String> {
    let name = if curve.squared_error { "squared error" } else { "log loss" };
    let points = curve.points.iter().filter_map(|point| Some((point.beta, point.score?, f64::NAN)));
    let series = vec![CurveSeries { name: format!("validation {name}"), points: points.collect() }];
    report::curves(&Curves { axes: ("β".to_owned(), name.to_owned()), log_x: true, log_y: false, series })
}

/// What one standard deviation of each column does to the latent function of a linear model.
fn effects(model: &TableModel) -> Option<String> {
    let mut coefficients = model.coefficients()?;
    let inputs = &model.scaling().inputs;
    // The intercept, where there is one, comes first and is no effect of a column.
    let mut effects = coefficients.split_off(coefficients.len().checked_sub(inputs.len())?);
    effects.iter_mut().zip(inputs).for_each(|(effect, input)| {
        effect.mean *= input.scale;
        effect.lower = effect.lower.map(|end| end * input.scale);
        effect.upper = effect.upper.map(|end| end * input.scale);
    });
    effects.sort_by(|a, b| b.mean.abs().total_cmp(&a.mean.abs()));
    effects.truncate(MOST_EFFECTS);
    let interval =
        |c: Coefficient| Some(Interval { name: c.name, middle: c.mean, ends: (c.lower?, c.upper?) });
    let intervals: Option<Vec<Interval>> = effects.into_iter().map(interval).collect();
    report::intervals("effect of one standard deviation", &intervals?)
}

/// The section about one fit; `where_all` tells where all of its hyper-parameters are to be seen.
pub fn section(title: &str, model: &TableModel, test: Option<&Evaluation>, where_all: &str) -> Section {
    let mut table = vec![vec!["quantity".to_owned(), "value".to_owned()]];
    table.extend(inspect::overview(model));
    let mut tables = Vec::new();
    if let Some(test) = test {
        let figures = output::report_rows(&test.report);
        table.push(vec!["test rows".to_owned(), test.rows.to_string()]);
        match figures::full(test) {
            Some(beside) => tables.push(("Figures".to_owned(), beside)),
            None => {
                table.extend(figures.into_iter().map(|(name, value)| vec![format!("test {name}"), value]))
            }
        }
        let confusion = figures::confusion_table(&test.report, model.schema().encoding().levels());
        if !confusion.is_empty() {
            let about = "Confusion matrix of the test rows (rows: true, columns: predicted)";
            tables.push((about.to_owned(), confusion));
        }
    }
    let parameters = parameters::within(model, usize::MAX, where_all).into_iter();
    table.extend(parameters.map(|row| vec![row[0].clone(), row[1..].join(", ")]));
    let captions = [
        (
            effects(model),
            "Effect of one standard deviation of each column (of one unit where columns are not standardised), the largest ones first, with 95 % intervals.",
        ),
        (report::trace(&model.summary().trace), "Objective per row against the epoch."),
        (
            model.beta_curve().and_then(beta_curve),
            "Score of the validation rows against β, on the scale the model sees; smaller is better.",
        ),
        search::figure(model),
        (
            test.filter(|_| model.task() != Task::Classification).and_then(|test| test.observed.figure()),
            "Predicted mean against the observed target, test rows.",
        ),
        (
            test.and_then(|test| report::reliability(&test.metrics.reliability()?)),
            "Share of the positive class (of several classes: of the most probable one) among test rows against its predicted probability; at the line when calibrated.",
        ),
        (
            test.and_then(|test| report::calibration(&test.report)),
            "Probability integral transforms of the test rows; flat at the line means calibrated.",
        ),
    ];
    let figures = captions.into_iter().filter_map(|(svg, caption)| Some((svg?, caption.to_owned())));
    let notes = model
        .summary()
        .warnings
        .iter()
        .map(|warning| format!("Warning: {}", warning.words_with(&output::dashes)));
    let coefficients = coefficients::table(model, MOST_COEFFICIENTS);
    tables.extend(coefficients.into_iter().map(|(rows, about)| (about, rows)));
    Section { title: title.to_owned(), table, tables, notes: notes.collect(), figures: figures.collect() }
}
