//! Explanations of the predictions of a fitted model: relevance of columns, partial dependence,
//! contributions to single predictions.
//!
//! ```
//! use faer::Mat;
//! use sparsegp_tables::explain::{Explainer, Rows, Settings};
//! use sparsegp::training::Fit;
//!
//! // The target depends only on the first input.
//! let x = Mat::from_fn(80, 2, |i, d| ((7 * i + 3 * d * i * i) % 31) as f64);
//! let y: Vec<f64> = (0..80).map(|i| 5.0 + x[(i, 0)]).collect();
//! let model = Fit::default().fit(x.as_ref(), &y)?;
//!
//! let explainer = Explainer::of_inputs(&model);
//! let rows = Rows { x: x.as_ref(), exposure: &[], targets: &y, other_ends: &[] };
//! let relevance = explainer.relevance(rows, &Settings::default());
//! assert_eq!(relevance[0].column, 0);
//!
//! let contributions = explainer.contributions(x.as_ref().subrows(0, 1), &[], rows, &Settings::default());
//! let parts: f64 = contributions[0].parts.iter().map(|part| part.value).sum();
//! assert!((contributions[0].base + parts - contributions[0].prediction).abs() < 1e-9);
//! # Ok::<(), sparsegp::Error>(())
//! ```

mod additive;
mod columns;
mod contributions;
mod dependence;
mod output;
mod relevance;

pub use columns::{InputColumn, InputKind};
pub use contributions::{Contributions, Part};
pub use dependence::{Curve, Dependence, Setting};
pub use output::Scale;
pub use relevance::{Increase, Relevance};

use crate::schema::Schema;
use crate::tabular::TableModel;
use faer::{Mat, MatMut, MatRef};
use sparsegp::model::Model;
use std::ops::Range;

/// Explains a model column by column. A column is one input, or several that change together.
pub struct Explainer<'a> {
    model: &'a Model,
    columns: Vec<InputColumn>,
    /// The columns whose trees are computed again where other inputs change.
    trees: Option<&'a Schema>,
}

/// The amount of work that explanations take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The maximum number of columns that are permuted, and that contributions list separately.
    pub columns: usize,
    /// The maximum number of rows in which columns are permuted.
    pub rows: usize,
    /// The number of other rows from which every row takes the values of a permuted column.
    pub repeats: usize,
    /// The maximum number of rows that partial dependence averages over.
    pub background: usize,
    /// The maximum number of classes whose probabilities partial dependence shows; the classes that
    /// are most probable on average are shown.
    pub classes: usize,
    /// The number of random orders of the columns that contributions average over, each forwards
    /// and backwards.
    pub orders: usize,
    /// The seed of everything random.
    pub seed: u64,
}

impl Default for Settings {
    /// 50 columns, 1000 rows with 5 repeats, a background of 100 rows, 12 classes, 200 orders, seed 0.
    fn default() -> Settings {
        Settings { columns: 50, rows: 1000, repeats: 5, background: 100, classes: 12, orders: 200, seed: 0 }
    }
}

/// Rows in original units.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Their inputs, `n × D`.
    pub x: MatRef<'a, f64>,
    /// Their exposures, or none if all are 1.
    pub exposure: &'a [f64],
    /// Their targets, coded as for the model, or none if they are not known.
    pub targets: &'a [f64],
    /// The other ends of the intervals of censored targets, NaN for known ones, or none if all are known.
    pub other_ends: &'a [f64],
}

impl Settings {
    /// The minimum numbers of rows and columns under a time limit.
    const FEWEST: (usize, usize) = (50, 8);

    /// Returns the approximate number of predictions for permuted columns and for partial
    /// dependence on `curves` columns.
    fn predictions(&self, columns: usize, rows: usize, curves: usize) -> f64 {
        let permuted = self.columns.min(columns) * self.rows.min(rows) * self.repeats;
        (permuted + curves * dependence::SETTINGS * self.background.min(rows)) as f64
    }

    /// Returns settings with fewer repeats, rows and columns, so that explanations of this many
    /// columns and rows, with `curves` curves, take about the time of `most` predictions.
    pub fn within(self, most: f64, columns: usize, rows: usize, curves: usize) -> Settings {
        let share = |settings: Settings| most / settings.predictions(columns, rows, curves);
        let times = |count: usize, share: f64, fewest: usize| {
            ((count as f64 * share) as usize).clamp(fewest.min(count), count)
        };
        let mut fewer = self;
        if share(fewer) < 1.0 {
            fewer.repeats = times(self.repeats, share(fewer), 1);
        }
        if share(fewer) < 1.0 {
            let left = share(fewer);
            fewer.rows = times(self.rows.min(rows), left, Self::FEWEST.0);
            fewer.background = times(self.background.min(rows), left, Self::FEWEST.0 / 2);
        }
        if share(fewer) < 1.0 {
            fewer.columns = times(self.columns.min(columns), share(fewer), Self::FEWEST.1);
        }
        fewer
    }
}

impl<'a> Explainer<'a> {
    /// Creates an explainer for a model in which every input is a column, except offsets.
    pub fn of_inputs(model: &'a Model) -> Explainer<'a> {
        let column = |input: usize| InputColumn::number(&format!("x{input}"), input);
        Explainer::new(model, (0..offsets_of(model).start).map(column).collect())
    }

    /// Creates an explainer for a model with these columns.
    pub fn new(model: &'a Model, columns: Vec<InputColumn>) -> Explainer<'a> {
        Explainer { model, columns, trees: None }
    }

    /// Creates an explainer for the model of a table. The scores of trees are no column: they are part of the function of the others.
    pub fn of_table(model: &'a TableModel) -> Explainer<'a> {
        let schema = model.schema();
        let trees = schema.trees().is_some().then_some(schema);
        Explainer { trees, ..Explainer::new(model, schema.input_columns()) }
    }

    /// Computes the scores of trees again from other inputs (`n × D`) that were changed.
    fn complete(&self, x: MatMut<'_, f64>) {
        if let Some(schema) = self.trees {
            schema.write_trees(x);
        }
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[InputColumn] {
        &self.columns
    }
}

/// Returns the positions of offsets among the inputs of a model. Explanations do not vary them: every row keeps its own.
fn offsets_of(model: &Model) -> Range<usize> {
    let inputs = model.inputs();
    inputs - model.scaling().offsets().columns()..inputs
}

impl Rows<'_> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.x.nrows()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the inputs of the rows with these indices, one column per row (`D × n`).
    fn inputs_of(&self, rows: &[usize]) -> Mat<f64> {
        Mat::from_fn(self.x.ncols(), rows.len(), |input, row| self.x[(rows[row], input)])
    }

    /// Returns the exposures of the rows with these indices.
    fn exposure_of(&self, rows: &[usize]) -> Vec<f64> {
        at_rows(self.exposure, rows)
    }
}

/// Returns the values of the rows with these indices, or none if there are none.
fn at_rows(values: &[f64], rows: &[usize]) -> Vec<f64> {
    if values.is_empty() { Vec::new() } else { rows.iter().map(|&row| values[row]).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_takes_repeats_first_then_rows_then_columns() {
        let (all, columns, rows) = (Settings::default(), 60, 5000);
        assert_eq!(all.within(1e9, columns, rows, 4), all);
        let half = all.within(0.5 * all.predictions(columns, rows, 4), columns, rows, 4);
        assert!(half.repeats < all.repeats && (half.rows, half.columns) == (all.rows, all.columns));
        let tenth = all.within(0.02 * all.predictions(columns, rows, 4), columns, rows, 4);
        assert!(tenth.repeats == 1 && tenth.rows < all.rows && tenth.background < all.background);
        let least = all.within(1.0, columns, rows, 4);
        assert_eq!((least.repeats, least.rows, least.columns), (1, Settings::FEWEST.0, Settings::FEWEST.1));
        assert_eq!(all.within(1.0, 3, 20, 4).rows, 20, "no more than there are");
    }
}
