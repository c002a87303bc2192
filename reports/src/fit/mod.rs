//! The report of a fit: the model, its quality, what its predictions depend on, and how to repeat
//! it.

mod calibration;
mod dependence;
mod explained;
mod function;
mod groups;
mod maps;

pub use explained::{Explained, ExplainedRow, explained_page};

use super::evaluation::{Evaluation, KeptRows};
use super::figures::{Curves, Drawing, Interval, curves, trace};
use super::html::{Block, Card, Figure, Page, PagePart, Section, TableBlock, figures};
use super::next::Suggestion;
use super::words::{self, number};
use sparsegp::data::Affine;
use sparsegp::error::Say;
use sparsegp::likelihood::Task;
use sparsegp::model::{BetaCurve, Coefficient, Severity};
use sparsegp_tables::explain::Settings;
use sparsegp_tables::tables::spelled;
use sparsegp_tables::tabular::TableModel;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const CARD_DIGITS: usize = 3;

const MOST_COEFFICIENTS: usize = 500;

const MOST_EFFECTS: usize = 40;

/// The share of the fit's time that explanations may take, the seconds that they always may take, and the number of rows that measure the
/// time of a prediction.
const TIME_SHARE: f64 = 0.1;
const LEAST_SECONDS: f64 = 1.0;
const TIMED_ROWS: usize = 64;

/// The contents of the report of a fit.
pub struct FitReport<'a> {
    /// The heading, if a page has several fits.
    pub title: &'a str,
    /// The model.
    pub model: &'a TableModel,
    /// The scores of the test rows, if there are any.
    pub test: Option<&'a Evaluation>,
    /// A sample of the rows to explain the model, if no test rows were kept.
    pub rows: Option<&'a KeptRows>,
    /// Additional figures of the function.
    pub figures: Vec<Figure>,
    /// The spelling of options.
    pub say: &'a Say<'a>,
}

/// Creates the page of some fits; `again` is the command, or the call, that reproduces it.
pub fn fit_page(title: &str, fits: &[FitReport<'_>], again: &str) -> Page {
    let parts = fits.iter().map(FitReport::part).collect();
    Page { title: title.to_owned(), parts, end: reproduce(again) }
}

/// Returns the section on how to reproduce the page, with the time when it was made.
pub fn reproduce(again: &str) -> Section {
    let version = env!("CARGO_PKG_VERSION");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs() as f64);
    let made = format!("Made by sparsegp {version} on {} (UTC).", spelled(since));
    let command = (!again.is_empty()).then(|| Block::Code(again.to_owned()));
    let blocks = command.into_iter().chain([Block::Text(made)]).collect();
    Section::new("How to reproduce this page", blocks)
}

impl FitReport<'_> {
    /// Returns the part of a page about this fit.
    pub fn part(&self) -> PagePart {
        let (problems, notes) = self.messages();
        let sections = [
            ("Problems and what to try next", problems),
            ("Test rows", self.figures_of_test()),
            ("Training", self.training()),
            ("Calibration", self.test.map(|test| calibration::blocks(self.model, test)).unwrap_or_default()),
            ("Predictions", self.predictions()),
            ("Groups", groups::blocks(self.model)),
            ("What predictions depend on", self.dependence()),
            ("The function", function::blocks(self)),
            ("Notes", notes),
            ("Model and parameters", self.details()),
        ];
        PagePart {
            title: self.title.to_owned(),
            lead: self.lead(),
            cards: self.cards(),
            sections: sections.into_iter().map(|(title, blocks)| Section::new(title, blocks)).collect(),
        }
    }

    fn kept(&self) -> Option<&KeptRows> {
        self.test.and_then(|test| test.kept.as_ref()).or(self.rows)
    }

    /// Returns the sentence about the model, the data and the time of the fit.
    fn lead(&self) -> String {
        let (model, options) = (self.model, self.model.options());
        let rows = model.training_rows();
        let inputs = model.schema().feature_dims();
        let what = match model.latent().layer().inducing() {
            Some(layer) => {
                let beside = model.neighbours().map(|nearby| format!(" and {} neighbours", nearby.count()));
                format!(
                    "a sparse Gaussian process with the kernel {}, {} inducing inputs{}",
                    self.model.schema().kernel_in_names(&options.kernel),
                    layer.z().nrows(),
                    beside.unwrap_or_default()
                )
            }
            None => "a Bayesian linear model".to_owned(),
        };
        let summary = model.summary();
        format!(
            "{} of '{}' by {what} and the {} likelihood, fitted to {rows} rows with {inputs} {} by {} in {}.",
            kind(model.task()),
            model.schema().target_name(),
            model.latent().likelihood.name(),
            if inputs == 1 { "input" } else { "inputs" },
            options.objective,
            words::duration(summary.seconds)
        )
    }

    fn cards(&self) -> Vec<Card> {
        let mut cards = Vec::new();
        if let Some(test) = self.test {
            let sources = words::sources(test);
            let of = |report, name| Some(words::significant(words::report_value(report, name)?, CARD_DIGITS));
            for name in words::telling(self.model.task()) {
                let Some(value) = of(&test.report, name) else { continue };
                let beside = sources[1..].iter().filter(|source| source.0 != "training");
                let beside =
                    beside.filter_map(|(who, _, report)| Some(format!("{who} {}", of(report, name)?)));
                let beside = match *name {
                    "95 % coverage" => "0.95 is right".to_owned(),
                    _ => beside.collect::<Vec<_>>().join(", "),
                };
                cards.push(Card { name: format!("test {name}"), value, beside });
            }
        }
        let held_out = self.test.map(|test| format!("{} test rows", test.rows));
        cards.push(Card {
            name: "training rows".to_owned(),
            value: words::count(self.model.training_rows()),
            beside: held_out.unwrap_or_else(|| "no test rows".to_owned()),
        });
        cards
    }

    fn figures_of_test(&self) -> Vec<Block> {
        let Some(test) = self.test else {
            let advice = "There are no test rows, so the quality of predictions for new rows is unknown";
            let option = (self.say)("test_fraction", Some("0.2"));
            return vec![Block::Text(format!("{advice}; {option} holds out test rows."))];
        };
        let beside = words::full(test).unwrap_or_else(|| {
            let header = vec![String::new(), format!("{} test rows", test.rows)];
            let rows = words::report_rows(&test.report).into_iter().map(|(name, value)| vec![name, value]);
            std::iter::once(header).chain(rows).collect()
        });
        let with_meaning = |(index, mut row): (usize, Vec<String>)| {
            row.push(if index == 0 { "meaning".to_owned() } else { meaning(&row[0]).to_owned() });
            row
        };
        let rows = beside.into_iter().enumerate().map(with_meaning).collect();
        let mut blocks = vec![Block::Explained(TableBlock::new("Figures", rows))];
        let confusion = words::confusion_table(&test.report, self.model.schema().encoding().levels());
        if !confusion.is_empty() {
            let caption = "Confusion matrix of the test rows (rows: true, columns: predicted)";
            blocks.push(Block::Table(TableBlock::new(caption, confusion)));
        }
        blocks
    }

    /// Returns messages about the fit from warnings and baselines, the most severe first, as problems and
    /// notes.
    fn messages(&self) -> (Vec<Block>, Vec<Block>) {
        let next = self.test.map(|test| test.next(self.model, self.say)).unwrap_or_default();
        let warnings = self.model.summary().warnings.iter();
        let warnings = warnings
            .map(|warning| Suggestion { severity: warning.severity(), text: warning.words_with(self.say) });
        let mut all: Vec<Suggestion> = next.into_iter().chain(warnings).collect();
        // The sort is stable, so messages about test scores come before messages from training.
        all.sort_by_key(|message| std::cmp::Reverse(message.severity));
        let notes = all.split_off(all.partition_point(|message| message.severity > Severity::Note));
        let block = |message: Suggestion| Block::Message(message.severity, message.text);
        (all.into_iter().map(block).collect(), notes.into_iter().map(block).collect())
    }

    /// Returns figures of the trace against time, and of the choice of β and of inducing inputs.
    fn training(&self) -> Vec<Block> {
        let model = self.model;
        let summary = model.summary();
        let stopped = words::stopped(summary);
        let about = format!(
            "The objective, {}, against time; smaller is better. Training ended: {stopped}. If the curve still falls at its end, try more epochs.",
            words::objective(model)
        );
        let validation =
            summary.trace.iter().filter_map(|record| Some((record.seconds, record.validation_nll?)));
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
            Figure::of("inducing", "Inducing inputs", bounds, words::search_figure(model)),
        ])
    }

    fn predictions(&self) -> Vec<Block> {
        let target = self.model.schema().target_name();
        let Some(test) = self.test.filter(|_| self.model.task() != Task::Classification) else {
            return Vec::new();
        };
        let bars = "Dots are test rows, vertical lines are central 95 % intervals of the prediction (for at \
        most 250 rows), and prediction and observation agree on the grey line. About one row in twenty \
        should lie outside its interval.";
        let residuals = "The target minus its predicted mean; orange marks are the means of tenths of the \
        rows with 95 % intervals. A bend away from 0 means that the mean misses a pattern; a funnel means \
        that the noise varies with the prediction.";
        figures([
            Figure::of("observed", "Observed against predicted", bars, test.observed.figure(target)),
            Figure::of("residuals", "Residuals", residuals, test.observed.residuals(target)),
        ])
    }

    fn dependence(&self) -> Vec<Block> {
        let effects = Figure::of(
            "effects",
            "Effect of one standard deviation",
            "The change of the latent function for one standard deviation of a column (one unit if columns \
            are not standardised), the largest first, with 95 % intervals. If an interval contains 0, there \
            may be no effect.",
            self.effects(),
        );
        let mut blocks = figures([effects]);
        // With a single column, the function itself is drawn instead.
        let explained = self.model.schema().input_columns().len() > 1;
        if let Some(kept) = self.kept().filter(|_| explained) {
            let held_out = self.test.and_then(|test| test.kept.as_ref()).map(|_| "test rows");
            blocks.extend(explained::blocks(self.model, kept, held_out, &self.settings(kept)));
        }
        blocks
    }

    /// Returns settings of explanations that limit rows and columns, so that explanations take about a tenth
    /// of the time of the fit.
    fn settings(&self, kept: &KeptRows) -> Settings {
        let all = Settings { seed: self.model.options().seed, ..Settings::default() };
        let rows = kept.rows();
        let few = rows.len().min(TIMED_ROWS);
        if few == 0 {
            return all;
        }
        let started = Instant::now();
        let exposure = rows.exposure.iter().take(few).copied().collect();
        let predictions = self.model.predict_rows(rows.x.subrows(0, few), exposure);
        std::hint::black_box((0..few).map(|row| predictions.row(row).mean).sum::<f64>());
        let each = started.elapsed().as_secs_f64().max(1e-9) / few as f64;
        let choices = self.model.search().choices.as_ref().map_or(0.0, |choices| choices.seconds);
        let seconds = (TIME_SHARE * (self.model.summary().seconds + choices)).max(LEAST_SECONDS);
        all.within(seconds / each, self.model.schema().input_columns().len(), rows.len(), explained::FEW)
    }

    /// Draws the effect of one standard deviation of each column on the latent function of a linear model.
    fn effects(&self) -> Option<Drawing> {
        let mut coefficients = self.model.coefficients()?;
        // Columns of grouped effects and offsets come last and have no coefficients.
        let inputs = &self.model.scaling().inputs[..self.model.schema().feature_dims()];
        // The intercept, if there is one, comes first; it is not an effect of a column.
        let effects = coefficients.split_off(coefficients.len().checked_sub(inputs.len())?);
        let interval = |(effect, input): (Coefficient, &Affine)| {
            let ends = (effect.lower? * input.scale, effect.upper? * input.scale);
            Some(Interval { name: effect.name, middle: effect.mean * input.scale, ends })
        };
        let mut effects = effects.into_iter().zip(inputs).map(interval).collect::<Option<Vec<_>>>()?;
        effects.sort_by(|a, b| b.middle.abs().total_cmp(&a.middle.abs()));
        effects.truncate(MOST_EFFECTS);
        super::intervals("effect of one standard deviation", &effects, false)
    }

    /// Returns all other facts, in a block that is closed at first.
    fn details(&self) -> Vec<Block> {
        let closed = |title: String, rows: Vec<Vec<String>>| {
            Block::Details(title, vec![Block::Table(TableBlock::new("", rows))])
        };
        let mut overview = vec![words::row("quantity", "value")];
        overview.extend(words::overview(self.model, self.say));
        let mut rows = vec![words::row("name", "value")];
        let parameters = words::parameters::all(self.model);
        rows.extend(parameters.iter().map(|row| words::row(&row[0], row[1..].join(", "))));
        let title = format!("All {} hyper-parameters (on the scale the model sees)", parameters.len());
        let mut blocks = vec![closed("How it was fitted".to_owned(), overview), closed(title, rows)];
        let coefficients = words::coefficient_table(self.model, MOST_COEFFICIENTS);
        blocks.extend(coefficients.map(|(rows, caption)| closed(sentence(&caption), rows)));
        blocks
    }
}

/// Draws the validation score against β.
fn beta_curve(curve: &BetaCurve) -> Option<Drawing> {
    let name = if curve.squared_error { "squared error" } else { "log loss" };
    let points = curve.points.iter().filter_map(|point| Some((point.beta, point.score?)));
    curves(&Curves { log_x: true, ..Curves::line(("β", &format!("validation {name}")), points) })
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn percent(share: f64) -> String {
    format!("{} %", number((1000.0 * share).round() / 10.0))
}

fn kind(task: Task) -> &'static str {
    match task {
        Task::Regression => "Regression",
        Task::Classification => "Classification",
        Task::Count => "Count regression",
        Task::Ordinal => "Ordinal regression",
    }
}

fn meaning(name: &str) -> &'static str {
    match name {
        "NLL" => "minus the mean log predictive density: judges mean and spread together; smaller is better",
        "CRPS" => {
            "an absolute error of the whole predictive distribution, in units of the target; smaller is better"
        }
        "concordance" => {
            "share of pairs of rows whose predicted means are in the right order; 0.5 is guessing"
        }
        "integrated Brier score" => {
            "squared error of the probabilities to survive, over time; smaller is better"
        }
        "survival gap" => {
            "distance from calibrated predictions, of known and censored rows together; 0 is ideal"
        }
        "error rate" => "share of rows whose most probable class is wrong",
        "accuracy" => "share of rows whose most probable class is right",
        "AUC" => "chance that a positive row has a higher probability than a negative row; 0.5 is guessing",
        "Brier score" => "squared error of probabilities; smaller is better",
        "calibration error" => "mean distance of predicted probabilities from observed shares; 0 is ideal",
        "RMSE" => "root mean squared error of the predicted mean, in units of the target",
        "MAE" => "mean absolute error of the predicted mean, in units of the target",
        "R²" => "1 minus the squared error over the variance of the target; predicting its mean gives 0",
        "mean relative error" => "mean error as a share of the count",
        "deviance" => "misfit of counts to the predicted distribution; smaller is better",
        "95 % coverage" => {
            "share of rows inside their 95 % intervals; less means that intervals are too narrow"
        }
        "95 % width" => {
            "mean width of the 95 % intervals, in units of the target; narrow is good where coverage is right"
        }
        "95 % interval score" => "width plus a penalty for rows outside; smaller is better",
        _ => "",
    }
}
