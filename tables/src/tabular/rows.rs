//! Some rows of a table as a model sees them: inputs, coded targets, exposures, weights.

use super::trees::with_held_out_scores;
use crate::schema::{Schema, UnseenLevels};
use crate::tables::Table;
use faer::{Mat, MatRef};
use sparsegp::collapsed::Dataset;
use sparsegp::data::{Offsets, Role, Roles, Scaling};
use sparsegp::error::{Error, Result};
use sparsegp::objective::Targets;

/// Some rows of a table, for example held-out ones.
#[derive(Clone)]
pub struct TableRows {
    /// The indices of the rows, from 0.
    pub rows: Vec<usize>,
    /// The inputs, one column per row.
    pub(super) columns: Mat<f64>,
    /// The targets in original units, coded as the schema says.
    pub targets: Vec<f64>,
    /// The exposures, empty if all are 1.
    pub exposure: Vec<f64>,
    /// The sample weights, empty if all are 1.
    pub weights: Vec<f64>,
    /// The other ends of the intervals of censored targets, NaN for known ones; empty if all are known.
    pub other_ends: Vec<f64>,
    /// The offsets among the inputs; none as long as the rows are in original units, and offsets are columns like others.
    pub(super) offsets: Offsets,
}

impl TableRows {
    /// Reads all rows of a table, in original units.
    pub(super) fn of(schema: &Schema, table: &Table) -> Result<TableRows> {
        let columns = schema.design(table, UnseenLevels::New)?.transpose().to_owned();
        Ok(TableRows { columns, ..TableRows::without_inputs(schema, table)? })
    }

    /// Reads the rows of a role that have a target, in original units, numbered as in the file.
    pub(super) fn of_role(schema: &Schema, table: &Table, roles: &Roles, role: Role) -> Result<TableRows> {
        let table = table.with_values(schema.target_name());
        let chosen = (0..table.rows()).filter(|&row| roles.of(table.row(row)) == role);
        let rows = TableRows::of(schema, &table)?.part(chosen.collect()).numbered_in(&table);
        Ok(if role == Role::Train { with_held_out_scores(schema, rows) } else { rows })
    }

    /// Creates rows without targets of inputs in original units, `n × D`, with their weights.
    pub(super) fn of_inputs(x: MatRef<'_, f64>, weights: &[f64]) -> TableRows {
        TableRows {
            rows: (0..x.nrows()).collect(),
            columns: x.transpose().to_owned(),
            targets: Vec::new(),
            exposure: Vec::new(),
            weights: weights.to_vec(),
            other_ends: Vec::new(),
            offsets: Offsets::None,
        }
    }

    /// Numbers rows of a table as in its file.
    pub(super) fn numbered_in(mut self, table: &Table) -> TableRows {
        self.rows.iter_mut().for_each(|row| *row = table.row(*row));
        self
    }

    pub(super) fn without_inputs(schema: &Schema, table: &Table) -> Result<TableRows> {
        let weights = schema.weights(table)?.unwrap_or_default();
        Ok(TableRows { weights, ..TableRows::unweighted(schema, table)? })
    }

    /// Reads targets and exposures, for rows that need no weights.
    pub(super) fn unweighted(schema: &Schema, table: &Table) -> Result<TableRows> {
        Ok(TableRows {
            rows: (0..table.rows()).collect(),
            columns: Mat::zeros(0, table.rows()),
            targets: target_of(schema, table)?,
            exposure: schema.exposure(table)?.unwrap_or_default(),
            weights: Vec::new(),
            other_ends: schema.other_ends(table)?.unwrap_or_default(),
            offsets: Offsets::None,
        })
    }

    /// Returns the rows at these places among the rows, numbered by their places.
    pub(super) fn part(&self, places: Vec<usize>) -> TableRows {
        let gather = |values: &[f64]| match values {
            [] => Vec::new(),
            values => places.iter().map(|&place| values[place]).collect(),
        };
        TableRows {
            columns: Mat::from_fn(self.columns.nrows(), places.len(), |input, row| {
                self.columns[(input, places[row])]
            }),
            targets: gather(&self.targets),
            exposure: gather(&self.exposure),
            weights: gather(&self.weights),
            other_ends: gather(&self.other_ends),
            rows: places,
            offsets: self.offsets,
        }
    }

    /// Returns the inputs in original units, `n × D`.
    pub fn inputs(&self) -> MatRef<'_, f64> {
        self.columns.transpose()
    }

    /// Returns the same rows with one input for each level of the categories of a schema, instead of codes.
    pub fn without_codes(&self, schema: &Schema) -> TableRows {
        TableRows { columns: schema.spread_codes(self.inputs()).transpose().to_owned(), ..self.clone() }
    }

    pub(super) fn scale(&mut self, scaling: &Scaling) {
        let rows = self.targets.len();
        scaling.scale_rows(&mut self.columns, rows, &mut self.targets);
        scaling.scale_known(rows, &mut self.exposure, &mut self.other_ends);
        self.offsets = scaling.offsets();
    }

    pub(super) fn scaled(&self, scaling: &Scaling) -> TableRows {
        let mut scaled = self.clone();
        scaled.scale(scaling);
        scaled
    }

    /// Returns the targets with what else is known of them.
    pub fn observations(&self) -> Targets<'_> {
        let offsets = self.offsets.split(self.inputs()).1;
        let TableRows { exposure, weights, other_ends, .. } = self;
        Targets { exposure, weights, other_ends, offsets, ..Targets::of(&self.targets) }
    }

    /// Returns the inputs and targets; offsets on the scale the model sees are apart from the inputs.
    pub fn dataset(&self) -> Dataset<'_> {
        Dataset { x: self.offsets.split(self.inputs()).0, targets: self.observations() }
    }
}

/// Returns the targets of all rows, NaN if one is not known.
pub(super) fn known_targets(schema: &Schema, table: &Table) -> Result<Vec<f64>> {
    schema.target_where_known(table)?.map_or_else(|| target_of(schema, table), Ok)
}

pub(super) fn target_of(schema: &Schema, table: &Table) -> Result<Vec<f64>> {
    schema.target(table)?.ok_or_else(|| {
        let (source, name) = (table.source(), schema.target_name());
        Error::data(format!("{source}: there is no column '{name}', expected the target to compare with"))
            .hint("use predict for data whose target is not known")
    })
}
