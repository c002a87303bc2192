//! The presentation of a comparison: the table, figures and notes.

use crate::html::figures;
use crate::{
    Block, Card, CurveSeries, Curves, Drawing, Figure as Drawn, Page, PagePart, Section, TableBlock, curves,
};
use sparsegp::error::{Say, spoken};
use sparsegp::likelihood::Task;
use sparsegp::model::Severity;
use sparsegp_tables::compare::{Contender, Estimate, Group, Plan, Results, Role};
use sparsegp_tables::readable::{duration, trimmed};

#[derive(Clone, Copy)]
struct Figure {
    column: &'static str,
    name: &'static str,
}

type Point = (f64, f64, f64);

const NLL: Figure = Figure { column: "nll", name: "NLL" };
const COVERAGE: Figure = Figure { column: "coverage_95", name: "95 % coverage" };

/// The nominal probabilities of the central intervals whose coverage is recorded, with their columns.
const NOMINAL: [(f64, &str); 4] =
    [(0.5, "coverage_50"), (0.8, "coverage_80"), (0.9, "coverage_90"), (0.95, "coverage_95")];

/// Returns the figures that judge a task in addition to the NLL: one for point forecasts, one for calibration.
fn figures_of(task: Task) -> [Figure; 2] {
    let figure = |column, name| Figure { column, name };
    match task {
        Task::Regression => [figure("rmse", "RMSE"), COVERAGE],
        Task::Classification => [figure("error_rate", "error rate"), figure("ece", "calibration error")],
        Task::Count => [figure("mre", "mean relative error"), COVERAGE],
        Task::Ordinal => [figure("error_rate", "error rate"), COVERAGE],
    }
}

/// Returns the table for readers, header first, with a row per objective and training-set size. A star marks an NLL that is significantly
/// the best of its size.
pub fn table(groups: &[Group], task: Task) -> Vec<Vec<String>> {
    let chosen: Vec<&Group> = groups.iter().filter(|group| group.role != Role::Grid).collect();
    let with_beta = chosen.iter().any(|group| group.role == Role::Selected);
    let figures = figures_of(task);
    let mut header = vec!["objective", "train size", "runs"];
    header.extend(with_beta.then_some("β"));
    header.push(NLL.name);
    header.extend(figures.map(|figure| figure.name));
    header.push("seconds");
    let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for group in &chosen {
        let mut row = vec![group.objective.to_string(), group.train_size.to_string(), group.runs.to_string()];
        row.extend(with_beta.then(|| group.beta.map_or_else(dash, |beta| short(beta, 3))));
        let star = if is_best(group, &chosen) { " *" } else { "" };
        row.push(shown(group.figure(NLL.column)) + star);
        row.extend(figures.map(|figure| shown(group.figure(figure.column))));
        row.push(group.seconds.map_or_else(dash, |seconds| format!("{seconds:.2}")));
        rows.push(row);
    }
    rows
}

const STAR: &str = "a star marks an NLL that is lower than every other NLL at the same training-set size, by more than two standard errors of \
                    the differences over repeats";

/// The minimum number of repeats for a star. With fewer repeats, the standard error of the differences is too
/// uncertain.
const STARRED_REPEATS: usize = 5;

/// Returns true if the NLL of a group is lower than every other NLL of its training-set size by more than two
/// standard errors of the paired differences. This needs at least five repeats.
fn is_best(group: &Group, all: &[&Group]) -> bool {
    let is_rival = |other: &&&Group| other.train_size == group.train_size && !std::ptr::eq(**other, group);
    let sure =
        |lead: Estimate| lead.standard_error.is_some_and(|error| lead.mean > 0.0 && lead.mean > 2.0 * error);
    let leads: Vec<bool> =
        all.iter().filter(is_rival).map(|other| group.lead_over(other).is_some_and(sure)).collect();
    group.nlls.len() >= STARRED_REPEATS && !leads.is_empty() && !leads.contains(&false)
}

/// Returns a line that explains the figures of the table.
pub fn legend(groups: &[Group]) -> String {
    format!("mean ± standard error over repeats{}", star_words(groups))
}

/// Returns the meaning of the star, if there are enough repeats for one.
fn star_words(groups: &[Group]) -> String {
    match groups.iter().any(|group| group.nlls.len() >= STARRED_REPEATS) {
        true => format!("; {STAR}"),
        false => String::new(),
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn shown(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(dash, |estimate| estimate_text(&estimate))
}

/// Formats mean ± standard error, with two digits of the error.
fn estimate_text(estimate: &Estimate) -> String {
    let size = estimate.mean.abs();
    // Rounding errors of equal values count as 0.
    let error = estimate.standard_error.map(|error| if error > 1e-12 * size { error } else { 0.0 });
    let decimals = match error.filter(|error| *error > 0.0) {
        Some(error) => decimals(error, 2),
        None => decimals(size, 4),
    };
    let long = size >= 1e7 || decimals > 8;
    let mean = if long { format!("{:.3e}", estimate.mean) } else { format!("{:.decimals$}", estimate.mean) };
    match error {
        // Values that are all the same have an error of 0, which needs no digits.
        Some(0.0) => mean + " ± 0",
        Some(error) if long => format!("{mean} ± {error:.1e}"),
        Some(error) => format!("{mean} ± {error:.decimals$}"),
        None => mean,
    }
}

/// Returns the number of decimals that show `digits` digits of a number.
fn decimals(value: f64, digits: i32) -> usize {
    if value > 0.0 { (digits - 1 - value.log10().floor() as i32).max(0) as usize } else { 0 }
}

/// Formats a positive number with `digits` digits, without trailing zeros.
fn short(value: f64, digits: i32) -> String {
    trimmed(&format!("{value:.*}", decimals(value, digits))).to_owned()
}

/// Creates the page of a comparison. `name` is the name of the data, `end` is the last section, and `say`
/// returns the spelling of an option.
pub fn page(
    plan: &Plan<'_>,
    results: &Results,
    groups: &[Group],
    name: &str,
    end: Section,
    say: &Say<'_>,
) -> Page {
    let task = plan.task;
    let rows = table(groups, task);
    let mut summary = vec![Block::Table(TableBlock::new("Test figures", rows))];
    summary.extend(notes(plan, groups, say).into_iter().map(Block::Text));
    let message = |failure: &_| Block::Message(Severity::Problem, spoken(&format!("Failed: {failure}"), say));
    let failed = results.failures_alike().iter().map(message).collect();
    let rows = plan.sizes.last().copied().unwrap_or(0);
    let by = |file: &str, what: &str, caption: &str, draw: &dyn Fn(Figure) -> Option<Drawing>| {
        figures([NLL, figures_of(task)[0]].map(|figure| {
            let title = format!("Test {} against {what}", figure.name);
            Drawn::of(&format!("{}-by-{file}", figure.column), &title, caption, draw(figure))
        }))
    };
    let caption = "Means over repeats with bars of one standard error; smaller is better. If a curve has not levelled off, more rows are likely to help.";
    let by_size = by("rows", "the number of training rows", caption, &|figure| against_size(groups, figure));
    let caption = format!(
        "{rows} training rows, minus the validation rows that choose β; bars show one standard error \
        over repeats. If the best β is at an end of the range, try values beyond it."
    );
    let by_beta = by("beta", "β", &caption, &|figure| against_beta(groups, figure, rows));
    let sections = vec![
        Section::new("Summary", summary),
        Section::new("Failed fits", failed),
        Section::new("Training-set size", by_size),
        Section::new("The weight β", by_beta),
        Section::new("Calibration", figures([calibration(plan, results, groups)])),
    ];
    let part = PagePart {
        title: name.to_owned(),
        lead: lead(plan, results, name),
        cards: cards(groups, task),
        sections,
    };
    Page { title: format!("Objectives on {name}"), parts: vec![part], end }
}

/// Returns a card for each figure, with the best and the second-best group of the largest training-set size.
fn cards(groups: &[Group], task: Task) -> Vec<Card> {
    let size = groups.iter().map(|group| group.train_size).max();
    let largest = || groups.iter().filter(|group| Some(group.train_size) == size && group.role != Role::Grid);
    let point = figures_of(task)[0];
    let card = |Figure { column, name }: Figure| {
        let mut all: Vec<(Estimate, &Group)> =
            largest().filter_map(|group| Some((group.figure(column)?, group))).collect();
        all.sort_by(|a, b| a.0.mean.total_cmp(&b.0.mean));
        let (estimate, group) = all.first()?;
        let second =
            all.get(1).map(|(other, group)| format!("; next {} {}", group.objective, estimate_text(other)));
        let beside = format!("{}{}", group.objective, second.unwrap_or_default());
        // A narrow card breaks the line before the sign, not after it.
        let value = estimate_text(estimate).replace("± ", "±\u{a0}");
        Some(Card { name: format!("lowest test {name}"), value, beside })
    };
    [NLL, point].into_iter().filter_map(card).collect()
}

fn lead(plan: &Plan<'_>, results: &Results, name: &str) -> String {
    let settings = &plan.settings;
    let fits = results.rows.iter().filter_map(|row| row.fit.as_ref());
    let seconds: f64 = fits.clone().map(|fit| fit.seconds).sum();
    format!(
        "The target '{}' of {name} ({}), {} repeats with seeds from {}, each with a share of {} of the rows \
        held out for testing: {} fits, {} of training in total.",
        settings.columns.target,
        plan.task,
        settings.repeats,
        settings.options.seed,
        settings.test_fraction,
        fits.count(),
        duration(seconds)
    )
}

fn notes(plan: &Plan<'_>, groups: &[Group], say: &Say<'_>) -> Vec<String> {
    let settings = &plan.settings;
    let mut notes = vec![format!(
        "Figures are means over repeats ± one standard error{}. Seconds are for this fit alone, without the \
        ELBO fit that it started from and without fits with other values of β.",
        star_words(groups)
    )];
    if let Some(betas) = &settings.betas {
        notes.push(format!(
            "β ({betas}) was chosen by held-out training rows, then the model was fitted again with it on all training \
             rows; the table has the median of the chosen values."
        ));
    }
    notes.extend(plan.notes.iter().map(|note| spoken(note, say)));
    notes
}

/// Returns one series per contender, in the order of the tables, so that each has the same colour in every figure.
fn series(groups: &[Group], points: impl Fn(Contender) -> Vec<Point>) -> Vec<CurveSeries> {
    let mut all: Vec<CurveSeries> = Vec::new();
    for contender in groups.iter().map(|group| group.objective) {
        let name = contender.to_string();
        if !all.iter().any(|series| series.name == name) {
            all.push(CurveSeries { name, points: points(contender) });
        }
    }
    all
}

/// Returns a point at a position with an estimate and its standard error.
fn at(x: f64, estimate: Option<Estimate>) -> Option<Point> {
    estimate.map(|estimate| (x, estimate.mean, estimate.standard_error.unwrap_or(f64::NAN)))
}

/// Draws a figure against a number of each group. Groups without the number are left out.
fn against(
    axis: &str,
    groups: &[Group],
    Figure { column, name }: Figure,
    number: impl Fn(&Group) -> Option<f64>,
) -> Option<Drawing> {
    let series = series(groups, |contender| {
        let own = groups.iter().filter(|group| group.objective == contender);
        own.filter_map(|group| at(number(group)?, group.figure(column))).collect()
    });
    let axes = (axis.to_owned(), format!("test {name}"));
    curves(&Curves { axes, log_x: true, series, ..Curves::default() })
}

/// Draws a figure against the number of training rows. Returns `None` if there is only one number.
fn against_size(groups: &[Group], figure: Figure) -> Option<Drawing> {
    let first = groups.first()?.train_size;
    if groups.iter().all(|group| group.train_size == first) {
        return None;
    }
    let size = |group: &Group| (group.role != Role::Grid).then_some(group.train_size as f64);
    against("training rows", groups, figure, size)
}

fn against_beta(groups: &[Group], figure: Figure, size: usize) -> Option<Drawing> {
    let in_grid = |group: &Group| group.role == Role::Grid && group.train_size == size;
    against("β", groups, figure, |group| group.beta.filter(|_| in_grid(group)))
}

/// Draws observed against predicted probabilities at the largest number of training rows; perfect calibration is the diagonal.
fn calibration(plan: &Plan<'_>, results: &Results, groups: &[Group]) -> Option<Drawn> {
    let size = plan.sizes.last().copied().unwrap_or(0);
    let (axes, title, caption, series) = if plan.task == Task::Classification {
        (
            ("predicted probability", "observed share"),
            "Reliability of probabilities",
            "Observed against predicted shares of the positive class (with several classes, of the most \
            probable class) over the test rows of all repeats, with bars of one standard error; points \
            below the grey line of perfect calibration show that probabilities are too high",
            reliability(results, groups, size),
        )
    } else {
        (
            ("nominal coverage", "coverage of test rows"),
            "Coverage",
            "Shares of test rows inside central predictive intervals, with bars of one standard error over \
            repeats; intervals are too narrow below the grey line of perfect calibration, and too wide \
            above it",
            coverage(groups, size),
        )
    };
    let axes = (axes.0.to_owned(), axes.1.to_owned());
    let drawing = curves(&Curves { axes, diagonal: true, series, ..Curves::default() });
    Drawn::of("calibration", title, &format!("{caption}; {size} training rows."), drawing)
}

fn coverage(groups: &[Group], size: usize) -> Vec<CurveSeries> {
    series(groups, |contender| {
        let mut chosen = groups.iter().filter(|group| group.role != Role::Grid && group.train_size == size);
        let group = chosen.find(|group| group.objective == contender);
        NOMINAL.iter().filter_map(|&(nominal, column)| at(nominal, group?.figure(column))).collect()
    })
}

/// Returns the reliability curves over all repeats; rows with predictions in the same tenth of [0, 1] form one point.
fn reliability(results: &Results, groups: &[Group], size: usize) -> Vec<CurveSeries> {
    series(groups, |contender| {
        let mut bins = [(0.0, 0.0, 0.0); 10];
        let rows = results.chosen().filter(|row| row.objective == contender && row.train_size == size);
        for &(predicted, observed, count) in rows.flat_map(|row| &row.reliability) {
            let (bin, count) = (((predicted * 10.0) as usize).min(9), count as f64);
            let (sum, positive, all) = bins[bin];
            bins[bin] = (sum + count * predicted, positive + count * observed, all + count);
        }
        let point = |(sum, positive, all): (f64, f64, f64)| {
            let share = positive / all;
            (all > 0.0).then(|| (sum / all, share, (share * (1.0 - share) / all).sqrt()))
        };
        bins.into_iter().filter_map(point).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_show_two_digits_of_their_error() {
        let text = |mean, standard_error| estimate_text(&Estimate { mean, standard_error });
        assert_eq!(text(0.51234, Some(0.0123)), "0.512 ± 0.012");
        assert_eq!(text(-1234.6, Some(56.7)), "-1235 ± 57");
        assert_eq!(text(0.51234, None), "0.5123");
        assert_eq!(text(0.0, Some(0.0)), "0 ± 0");
        assert_eq!(text(0.51234, Some(6e-17)), "0.5123 ± 0");
        assert_eq!(text(1.5e-9, None), "1.500e-9");
        assert_eq!(text(2e9, Some(1e7)), "2.000e9 ± 1.0e7");
        assert_eq!([short(1.0, 3), short(0.0078125, 3), short(100.0, 3)], ["1", "0.00781", "100"]);
    }
}
