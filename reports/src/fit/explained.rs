//! What predictions depend on, as figures, pages and tables: relevance of columns, partial
//! dependence, contributions.

use super::reproduce;
use crate::evaluation::KeptRows;
use crate::figures::{Drawing, Interval, intervals};
use crate::html::{Block, Figure, Page, PagePart, Section, figures};
use crate::words::{cut, number};
use faer::Mat;
use sparsegp::error::Result;
use sparsegp::functions::normal::HALF_95;
use sparsegp_tables::explain::{
    Contributions, Dependence, Explainer, Increase, InputColumn, InputKind, Part, Relevance, Scale, Settings,
};
use sparsegp_tables::schema::{FeatureKind, Schema, after};
use sparsegp_tables::tables::{csv_text, safe_cell, spelled};
use sparsegp_tables::tabular::TableModel;

/// The number of columns in a figure of relevance, and of columns with partial dependence in a report.
const TEN: usize = 10;
pub(super) const FEW: usize = 4;

/// The maximum number of classes whose curves share a figure.
pub(super) const MOST_CURVES: usize = 6;

/// The maximum number of letters of a column name and its value beside a bar.
const MOST_LETTERS: usize = 26;

/// A row that is explained: its number in the data, its inputs in original units and its exposure.
pub struct ExplainedRow {
    /// Its number, counted from 1.
    pub number: u64,
    /// Its inputs.
    pub inputs: Vec<f64>,
    /// Its exposure.
    pub exposure: f64,
}

/// The explanation of the predictions of a model.
pub struct Explained<'a> {
    pub(super) model: &'a TableModel,
    pub(super) columns: Vec<InputColumn>,
    pub(super) data: &'a KeptRows,
    /// A description of the rows that judge permutations; `None` if they cannot judge, because the model was trained on them.
    judges: Option<&'static str>,
    relevance: Vec<Relevance>,
    pub(super) dependence: Vec<Dependence>,
    contributions: Vec<ExplainedParts>,
}

struct ExplainedParts {
    /// Its number, counted from 1.
    row: u64,
    about: Contributions,
    /// The parts, the largest contribution first, with the value of their column in words, which is empty for several columns together.
    parts: Vec<(Part, String)>,
}

impl<'a> Explained<'a> {
    /// Explains a model on rows of data. The rows judge permutations only if `judges` describes them. Partial
    /// dependence covers the `dependences` most relevant columns.
    pub fn of(
        (model, data, judges): (&'a TableModel, &'a KeptRows, Option<&'static str>),
        rows: &[ExplainedRow],
        dependences: usize,
        settings: &Settings,
    ) -> Explained<'a> {
        let columns = model.schema().input_columns();
        let explainer = Explainer::of_table(model);
        let labelled = data.labelled();
        let mut judged = labelled.rows();
        if judges.is_none() {
            judged.targets = &[];
        }
        // Rows without targets can still be the background.
        let background = data.rows();
        let relevance = explainer.relevance(if judged.is_empty() { background } else { judged }, settings);
        let dependence = match background.is_empty() {
            true => Vec::new(),
            false => relevance
                .iter()
                .filter(|relevance| columns[relevance.column].kind != InputKind::Place)
                .take(dependences)
                .map(|relevance| explainer.dependence(relevance.column, background, settings))
                .collect(),
        };
        let x = Mat::from_fn(model.inputs(), rows.len(), |input, row| rows[row].inputs[input]);
        let exposure: Vec<f64> = rows.iter().map(|row| row.exposure).collect();
        let parts = match rows.is_empty() {
            true => Vec::new(),
            false => explainer.contributions(x.transpose(), &exposure, background, settings),
        };
        let with_values = |(row, about): (&ExplainedRow, Contributions)| {
            let value = |part: &Part| match part.columns[..] {
                [column] => value_of(model.schema(), &columns, column, &row.inputs),
                _ => String::new(),
            };
            let mut parts: Vec<_> = about.parts.iter().map(|part| (part.clone(), value(part))).collect();
            parts.sort_by(|a, b| b.0.value.abs().total_cmp(&a.0.value.abs()));
            ExplainedParts { row: row.number, about, parts }
        };
        let contributions = rows.iter().zip(parts).map(with_values).collect();
        Explained { model, columns, data, judges, relevance, dependence, contributions }
    }

    /// Returns a table with a header and a row per column, most relevant first: the target, the column, its sensitivity, the increase of
    /// the loss if it is permuted, the standard error of the increase, and the number of rows.
    pub fn relevance_table(&self) -> Vec<Vec<String>> {
        let header = ["target", "column", "sensitivity", "increase", "standard_error", "rows"];
        let row = |relevance: &Relevance| {
            let by = relevance.permutation;
            let by = by.map(|by| [digits(by.mean), digits(by.error), by.rows.to_string()]);
            let name = self.columns[relevance.column].name.clone();
            let sensitivity = relevance.sensitivity.map_or(String::new(), digits);
            [self.target(), name, sensitivity].into_iter().chain(by.unwrap_or_default()).collect()
        };
        table(&header, self.relevance.iter().map(row))
    }

    /// Returns the meaning of the figures in [`Explained::relevance_table`], by name.
    pub fn legend(&self) -> Vec<Vec<String>> {
        let permuted = self.relevance.iter().any(|relevance| relevance.permutation.is_some());
        let increase = format!(
            "the rise of the {} of the rows if the column is shuffled among them: what the model loses without the column",
            self.loss()
        );
        let sensitivity = "how much f can change if only this column changes by one standard deviation: what the model can use";
        let lines = [("increase", increase, permuted), ("sensitivity", sensitivity.to_owned(), true)];
        let told = lines.into_iter().filter(|line| line.2);
        told.map(|(name, words, _)| vec![name.to_owned(), words]).collect()
    }

    /// Returns a line for each explained row: its number, its prediction, the mean over the background, and the largest contributions.
    pub fn contribution_lines(&self, most: usize) -> Vec<Vec<String>> {
        let words = |(part, value): &(Part, String)| {
            let equals = if value.is_empty() { String::new() } else { format!(" = {value}") };
            format!("{}{equals}: {}", part.name, signed(part.value))
        };
        let line = |ExplainedParts { row, about, parts }: &ExplainedParts| {
            let rest: f64 = parts.iter().skip(most).map(|(part, _)| part.value).sum();
            let mut words: Vec<String> = parts.iter().take(most).map(words).collect();
            words.extend((parts.len() > most).then(|| format!("all others: {}", signed(rest))));
            let (what, words) = (self.of_what(about.scale), words.join(", "));
            let (prediction, base) = (number(about.prediction), number(about.base));
            vec![format!("row {row}"), format!("{what} {prediction}, on average {base}: {words}")]
        };
        self.contributions.iter().map(line).collect()
    }

    fn loss(&self) -> &'static str {
        if self.model.mean_only() { "squared error" } else { "NLL" }
    }

    /// Returns a table with a header and a row per setting of a column: the target, the column, the explained quantity, the value or
    /// category, the mean and the ends of its 95 % interval.
    pub(crate) fn dependence_table(&self) -> Vec<Vec<String>> {
        let header = ["target", "column", "of", "value", "mean", "lower", "upper"];
        let rows = self.dependence.iter().flat_map(|dependence| {
            let curves = dependence.curves.iter();
            curves.flat_map(move |curve| {
                dependence.settings.iter().zip(&curve.points).map(move |(setting, point)| {
                    let value = setting.category.clone().unwrap_or_else(|| digits(setting.value));
                    let name = self.columns[dependence.column].name.clone();
                    let first = [self.target(), name, self.of_what(curve.scale), value];
                    first.into_iter().chain([point.0, point.1, point.2].map(digits)).collect()
                })
            })
        });
        table(&header, rows)
    }

    /// Returns a table with a header and a row for each explained row and column: the target, the number of the row, the explained
    /// quantity, its mean over the background, the prediction, the column, its contribution, and the standard error of the contribution,
    /// which is empty if the contribution is exact.
    pub(crate) fn contribution_table(&self) -> Vec<Vec<String>> {
        let header =
            ["target", "row", "of", "base", "prediction", "column", "contribution", "standard_error"];
        let rows = self.contributions.iter().flat_map(|ExplainedParts { row: number, about, .. }| {
            about.parts.iter().map(move |part| {
                vec![
                    self.target(),
                    number.to_string(),
                    self.of_what(about.scale),
                    digits(about.base),
                    digits(about.prediction),
                    part.name.clone(),
                    digits(part.value),
                    part.error.map_or(String::new(), digits),
                ]
            })
        });
        table(&header, rows)
    }

    /// Returns the files that explain some models, by name: `relevance.csv`, `dependence.csv` and `contributions.csv`, each with the
    /// tables of all models. With `csv_safe`, an apostrophe precedes text that a spreadsheet would run as a formula.
    ///
    /// # Errors
    ///
    /// If a table cannot be written, which does not happen.
    pub fn files(all: &[Explained<'_>], csv_safe: bool) -> Result<[(&'static str, String); 3]> {
        let text = |table: &dyn Fn(&Explained<'_>) -> Vec<Vec<String>>| -> Result<String> {
            let header = all.first().map(table).and_then(|rows| rows.into_iter().next()).unwrap_or_default();
            let rows = all.iter().flat_map(|explained| table(explained).into_iter().skip(1));
            let safe = |row: Vec<String>| match csv_safe {
                true => row.iter().map(|cell| safe_cell(cell).into_owned()).collect(),
                false => row,
            };
            csv_text(&header, rows.map(safe))
        };
        Ok([
            ("relevance.csv", text(&|explained| explained.relevance_table())?),
            ("dependence.csv", text(&|explained| explained.dependence_table())?),
            ("contributions.csv", text(&|explained| explained.contribution_table())?),
        ])
    }

    fn target(&self) -> String {
        self.model.schema().target_name().to_owned()
    }

    pub(super) fn of_what(&self, scale: Scale) -> String {
        match scale {
            Scale::Mean => "mean".to_owned(),
            Scale::Probability(_) => format!("probability of {}", self.class(scale)),
            Scale::Latent => "latent function".to_owned(),
        }
    }

    pub(super) fn class(&self, scale: Scale) -> String {
        let levels = self.model.schema().encoding().levels();
        match scale {
            Scale::Probability(class) => levels.get(class).map_or("1", String::as_str).to_owned(),
            Scale::Mean | Scale::Latent => self.of_what(scale),
        }
    }

    pub(super) fn across(&self, column: usize) -> String {
        let name = &self.columns[column].name;
        match self.model.schema().features().get(column).map(|feature| &feature.kind) {
            Some(FeatureKind::Date { origin, .. }) => {
                format!("{name} (years since {})", spelled(*origin))
            }
            _ => name.clone(),
        }
    }

    pub(super) fn axis(&self, scale: Scale) -> String {
        match scale {
            Scale::Mean => format!("mean of {}", self.target()),
            _ => self.of_what(scale),
        }
    }

    /// The blocks about relevance: by permutation, or by lengthscale if the rows cannot judge permutations.
    pub(super) fn relevance_blocks(&self) -> Vec<Block> {
        let judged: Vec<(&Relevance, Increase)> =
            self.relevance.iter().filter_map(|relevance| Some((relevance, relevance.permutation?))).collect();
        if judged.is_empty() {
            let reach = "The prior standard deviation of the change of f if only this column changes by one \
            standard deviation. It is large if the lengthscale is short. It shows what the model can use, \
            not how much the column helps.";
            let drawing = self.by_sensitivity();
            return figures([Figure::of("sensitivity", "Relevance by lengthscale", reach, drawing)]);
        }
        let loss = self.loss();
        let half = |by: Increase| HALF_95 * by.error;
        // A column that is constant in the rows has an increase of exactly 0, and so no rank.
        let varying = judged.iter().filter(|(_, by)| by.mean != 0.0 || by.error != 0.0);
        let bar = |&(relevance, by): &(&Relevance, Increase)| {
            Interval::around(self.columns[relevance.column].name.clone(), by.mean, half(by))
        };
        let bars: Vec<Interval> = varying.take(TEN).map(bar).collect();
        let others = match self.columns.len() - judged.len() {
            0 => String::new(),
            others => format!(
                " {others} of the {} columns are not shown, because the posterior mean changes least along them.",
                self.columns.len()
            ),
        };
        let none = match judged.iter().all(|&(_, by)| by.mean <= half(by)) {
            true => " Here no interval is entirely above 0, so no column is known to matter.",
            false => "",
        };
        let about = format!(
            "The rise of the {loss} of {} {} if the column is shuffled among them, with 95 % intervals: \
            what the model loses without the column. If columns carry the same information, each of them \
            looks dispensable.{none}{others}",
            judged[0].1.rows,
            self.judges.unwrap_or("rows")
        );
        let drawing = intervals(&format!("increase of the {loss}"), &bars, true);
        figures([Figure::of("relevance", "Relevance by permutation", &about, drawing)])
    }

    fn by_sensitivity(&self) -> Option<Drawing> {
        let known = self.relevance.iter().filter_map(|relevance| {
            let value = relevance.sensitivity.filter(|sensitivity| *sensitivity > 0.0)?;
            Some(Interval::around(self.columns[relevance.column].name.clone(), value, 0.0))
        });
        let mut bars: Vec<Interval> = known.collect();
        bars.sort_by(|a, b| b.middle.total_cmp(&a.middle));
        bars.truncate(TEN);
        intervals("change of f (on the scale the model sees)", &bars, true)
    }

    fn contribution_blocks(&self) -> Vec<Block> {
        figures(self.contributions.iter().map(|explained| self.contribution_figure(explained)))
    }

    fn contribution_figure(&self, ExplainedParts { row, about, parts }: &ExplainedParts) -> Option<Figure> {
        let interval = |(part, value): &(Part, String)| {
            let name = beside(&part.name, value);
            Interval::around(name, part.value, HALF_95 * part.error.unwrap_or(0.0))
        };
        let bars: Vec<Interval> = parts.iter().take(TEN).map(interval).collect();
        let others = parts.iter().skip(TEN).map(|(part, _)| part.value).sum::<f64>();
        let rest = match parts.len() > TEN {
            true => format!(" All other columns together add {}.", number(others)),
            false => String::new(),
        };
        let exact = if about.parts.iter().all(|part| part.error.is_none()) {
            "exact, because the function is a sum over columns"
        } else {
            "Shapley values by sampled orders of the columns, with 95 % intervals of the sampling"
        };
        let caption = format!(
            "The {} is {}; its average over the background rows is {}. Bars show what the value of each column adds to the average ({exact}).{rest}",
            self.of_what(about.scale),
            number(about.prediction),
            number(about.base)
        );
        let drawing = intervals(&format!("added to the {}", self.of_what(about.scale)), &bars, true);
        Figure::of(&format!("row-{row}"), &format!("Row {row}"), &caption, drawing)
    }

    fn part(&self) -> PagePart {
        let (target, rows) = (self.target(), self.data.rows().len());
        PagePart {
            title: target.clone(),
            lead: format!("What the predictions of '{target}' depend on, by {rows} rows of the data."),
            cards: Vec::new(),
            sections: vec![
                Section::new("Relevance of columns", self.relevance_blocks()),
                Section::new("Partial dependence", self.dependence_blocks()),
                Section::new("Single rows", self.contribution_blocks()),
            ],
        }
    }
}

pub(super) fn blocks(
    model: &TableModel,
    kept: &KeptRows,
    judges: Option<&'static str>,
    settings: &Settings,
) -> Vec<Block> {
    let settings = Settings { classes: MOST_CURVES, ..*settings };
    let explained = Explained::of((model, kept, judges), &[], FEW, &settings);
    [explained.relevance_blocks(), explained.dependence_blocks()].concat()
}

/// Creates the page that explains some models; `again` is the command that reproduces it.
pub fn explained_page(title: &str, explained: &[Explained<'_>], again: &str) -> Page {
    let parts = explained.iter().map(Explained::part).collect();
    Page { title: title.to_owned(), parts, end: reproduce(again) }
}

/// Formats a number with all its digits; NaN is empty.
fn digits(value: f64) -> String {
    if value.is_nan() { String::new() } else { format!("{value:?}") }
}

fn signed(value: f64) -> String {
    format!("{}{}", if value < 0.0 { "-" } else { "+" }, number(value.abs()))
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    std::iter::once(header.iter().map(|&name| name.to_owned()).collect()).chain(rows).collect()
}

/// Returns the value of a column in a row of these inputs, in original units; empty for a place, whose inputs are coordinates on a sphere.
fn value_of(schema: &Schema, columns: &[InputColumn], place: usize, inputs: &[f64]) -> String {
    let column = &columns[place];
    let own = &inputs[column.inputs.clone()];
    let Some(&first) = own.first() else { return String::new() };
    match &column.kind {
        InputKind::Number if own.get(1) == Some(&1.0) => "(missing)".to_owned(),
        InputKind::Number => match schema.ordered_levels(&column.name) {
            Some(levels) if first.fract() == 0.0 => levels.get(first as usize).cloned().unwrap_or_default(),
            _ => number(first),
        },
        InputKind::Codes { .. } | InputKind::Categories { .. } => {
            column.category(own).unwrap_or("(new)").to_owned()
        }
        InputKind::Date => match schema.features().get(place).map(|feature| &feature.kind) {
            Some(FeatureKind::Date { origin, .. }) => spelled(after(*origin, first)),
            _ => number(first),
        },
        InputKind::Place => String::new(),
    }
}

/// Returns `name = value`, shortened to fit beside a bar.
fn beside(name: &str, value: &str) -> String {
    if value.is_empty() {
        return name.to_owned();
    }
    let value = cut(value, MOST_LETTERS / 2);
    format!("{} = {value}", cut(name, MOST_LETTERS - 3 - value.chars().count()))
}
