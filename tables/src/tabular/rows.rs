//! Some rows of a table as a model sees them: inputs, coded targets, exposures, weights.

use crate::schema::{Schema, UnseenLevels};
use crate::tables::Table;
use faer::{Mat, MatRef};
use sparsegp::collapsed::Dataset;
use sparsegp::data::Scaling;
use sparsegp::error::{Error, Result};
use sparsegp::objective::Targets;

/// Some rows of a table, for example held-out ones.
#[derive(Clone)]
pub struct TableRows {
    /// The indices of the rows, from 0.
    pub rows: Vec<usize>,
    /// The inputs, one column per row.
    columns: Mat<f64>,
    /// The targets in original units, coded as the schema says.
    pub targets: Vec<f64>,
    /// The exposures, empty if all are 1.
    pub exposure: Vec<f64>,
    /// The sample weights, empty if all are 1.
    pub weights: Vec<f64>,
}

/// A whole table as a model sees it.
pub(super) struct CodedTable {
    design: Mat<f64>,
    observations: Observations,
}

/// Targets with exposures and weights, which are empty if all are 1.
pub(super) struct Observations {
    pub y: Vec<f64>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
}

impl Observations {
    pub(super) fn of(schema: &Schema, table: &Table) -> Result<Observations> {
        Ok(Observations {
            y: target_of(schema, table)?,
            exposure: schema.exposure(table)?.unwrap_or_default(),
            weights: schema.weights(table)?.unwrap_or_default(),
        })
    }

    /// Returns the observations of some rows.
    pub(super) fn part(&self, rows: &[usize]) -> Observations {
        let gather = |values: &[f64]| match values {
            [] => Vec::new(),
            values => rows.iter().map(|&row| values[row]).collect(),
        };
        Observations { y: gather(&self.y), exposure: gather(&self.exposure), weights: gather(&self.weights) }
    }

    pub(super) fn targets(&self) -> Targets<'_> {
        Targets { y: &self.y, exposure: &self.exposure, weights: &self.weights, outputs: &[] }
    }
}

impl CodedTable {
    pub(super) fn of(schema: &Schema, table: &Table) -> Result<CodedTable> {
        Ok(CodedTable {
            design: schema.design(table, UnseenLevels::New)?,
            observations: Observations::of(schema, table)?,
        })
    }

    /// Returns all rows, in original units.
    pub(super) fn dataset(&self) -> Dataset<'_> {
        Dataset { x: self.design.as_ref(), targets: self.observations.targets() }
    }

    /// Returns some of the rows.
    pub(super) fn part(&self, rows: Vec<usize>) -> TableRows {
        let Observations { y: targets, exposure, weights } = self.observations.part(&rows);
        TableRows {
            columns: Mat::from_fn(self.design.ncols(), rows.len(), |input, row| {
                self.design[(rows[row], input)]
            }),
            targets,
            exposure,
            weights,
            rows,
        }
    }
}

impl TableRows {
    /// Returns the inputs in original units, `n × D`.
    pub fn inputs(&self) -> MatRef<'_, f64> {
        self.columns.transpose()
    }

    /// Returns the first rows, at most `most`.
    pub(super) fn first(&self, most: usize) -> TableRows {
        let count = most.min(self.rows.len());
        let cut = |values: &[f64]| values[..count.min(values.len())].to_vec();
        TableRows {
            rows: self.rows[..count].to_vec(),
            columns: self.columns.as_ref().subcols(0, count).to_owned(),
            targets: cut(&self.targets),
            exposure: cut(&self.exposure),
            weights: cut(&self.weights),
        }
    }

    /// Returns the same rows with one input for each level of the categories of a schema, instead of codes.
    pub fn without_codes(&self, schema: &Schema) -> TableRows {
        TableRows { columns: schema.spread_codes(self.inputs()).transpose().to_owned(), ..self.clone() }
    }

    pub(super) fn scale(&mut self, scaling: &Scaling) {
        scaling.scale_inputs(self.columns.as_mut().transpose_mut());
        scaling.scale_target(&mut self.targets);
    }

    pub(super) fn scaled(&self, scaling: &Scaling) -> TableRows {
        let mut scaled = self.clone();
        scaled.scale(scaling);
        scaled
    }

    pub(super) fn dataset(&self) -> Dataset<'_> {
        let targets =
            Targets { y: &self.targets, exposure: &self.exposure, weights: &self.weights, outputs: &[] };
        Dataset { x: self.inputs(), targets }
    }
}

/// Returns the target of every row.
pub(super) fn target_of(schema: &Schema, table: &Table) -> Result<Vec<f64>> {
    match schema.target(table)? {
        Some(target) => Ok(target),
        None => Err(absent_target(schema, table.source())),
    }
}

fn absent_target(schema: &Schema, source: &str) -> Error {
    Error::data(format!(
        "{source}: there is no column '{}', expected the target to compare with",
        schema.target_name()
    ))
    .hint("use predict for data whose target is not known")
}
