//! A fitted model of a table: a model with the meaning of its columns, which predicts tables like
//! its training table.

use super::rows::TableRows;
use crate::schema::{Schema, UnseenLevels};
use crate::tables::Table;
use sha2::{Digest, Sha256};
use sparsegp::data::Scaling;
use sparsegp::error::{Error, Result};
use sparsegp::files::AtomicFile;
use sparsegp::hyper::Session;
use sparsegp::likelihood::Task;
use sparsegp::model::{
    Coefficient, Hyperparameter, Model, Predictions, Warning, damaged_model, read_model_file,
};
use sparsegp::options::FitOptions;
use sparsegp::registry::Registry;
use sparsegp::training::{Fitted, update};
use std::ops::Deref;
use std::path::Path;

/// A model with everything that predictions for tables like its training table need.
///
/// ```
/// use sparsegp_tables::prelude::*;
/// use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
/// use sparsegp_tables::tables::read_csv;
///
/// let rows = |from: usize, to: usize| {
///     let row = |i: usize| format!("{},{},{}\n", i % 12, ["left", "right"][i % 2], (i % 12) as f64 + (i % 2) as f64 * 5.0);
///     let csv = "hour,side,load\n".to_owned() + &(from..to).map(row).collect::<String>();
///     read_csv("loads.csv", std::io::Cursor::new(csv))
/// };
/// let columns = SchemaOptions { target: "load".into(), ..SchemaOptions::default() };
/// let options = FitOptions { objective: ObjectiveKind::Vfe, ..FitOptions::default() };
/// let table = rows(0, 80)?;
/// let model = fit_table(&FitRequest::new(&table, &columns, &options), &mut |_| {})?.model;
///
/// // Columns are found by name; each column of categories makes one input.
/// assert_eq!(model.schema().input_names(), ["hour", "side"]);
/// let predictions = model.predict(&rows(3, 5)?, UnseenLevels::Error)?;
/// assert!((predictions.row(0).mean - 8.0).abs() < 0.5);
/// # Ok::<(), sparsegp::Error>(())
/// ```
pub struct TableModel {
    schema: Schema,
    pub(super) model: Model,
}

/// Gives access to the model on arrays.
impl Deref for TableModel {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

impl TableModel {
    /// Creates the model of a fit to `rows` rows of these columns. Warnings name inputs by their columns; warnings about the data come
    /// first.
    pub(super) fn of(
        mut fitted: Fitted,
        schema: Schema,
        scaling: Scaling,
        options: &FitOptions,
        rows: usize,
        notes: Vec<String>,
    ) -> TableModel {
        let names = schema.input_names();
        let warnings = &mut fitted.summary.warnings;
        warnings.iter_mut().for_each(|warning| warning.name_inputs(&names));
        warnings.splice(..0, notes.into_iter().map(Warning::from));
        TableModel { schema, model: fitted.into_model(scaling, options, rows) }
    }

    /// Returns the model on arrays.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the columns that the model was trained on.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the kind of target.
    pub fn task(&self) -> Task {
        self.schema.encoding().task()
    }

    /// Returns all hyper-parameters by name; the means of classes have the names of their labels, as in `mean.setosa`.
    pub fn hyperparameters(&self) -> Vec<(String, f64)> {
        self.called(self.model.latent().named_values())
    }

    /// Returns all hyper-parameters in units of columns and target, each with the names of the columns along which it is a length. A place is
    /// two columns with one length, in the unit of its surface. Lengths of warped columns are without a unit and a name.
    pub fn in_units(&self) -> Vec<(Hyperparameter, Vec<String>)> {
        let (names, place) = (self.schema.input_names(), self.schema.place_inputs());
        let columns_of = |inputs: &[usize]| match (&place, inputs) {
            (Some((place, own)), _) if own.clone().eq(inputs.iter().copied()) => place.columns.to_vec(),
            (_, &[input]) if !self.model.scaling().warps_input(input) => vec![names[input].clone()],
            _ => Vec::new(),
        };
        let values = self.model.hyperparameters().into_iter().zip(self.hyperparameters());
        let named = |(mut of, (name, _)): (Hyperparameter, (String, f64))| {
            of.name = name;
            let columns = columns_of(&of.inputs);
            (of, columns)
        };
        values.map(named).collect()
    }

    /// Returns notes about hyper-parameters, by the same names.
    pub fn hyperparameter_notes(&self) -> Vec<(String, String)> {
        self.called(self.model.latent().constraint_notes())
    }

    /// Returns the 95 % intervals of hyper-parameters on the scale the model sees, by the same names; empty unless the fit has computed their
    /// posterior.
    pub fn hyperparameter_intervals(&self) -> Vec<(String, [f64; 2])> {
        self.called(self.model.hyper_summary().map_or(Vec::new(), |known| known.intervals.clone()))
    }

    fn called<T>(&self, mut values: Vec<(String, T)>) -> Vec<(String, T)> {
        let names = self.schema.encoding().mean_names();
        for (name, _) in &mut values {
            if let Some((called, _)) = names.iter().find(|(_, own)| own == name) {
                name.clone_from(called);
            }
        }
        values
    }

    /// Predicts every row of a table.
    ///
    /// # Errors
    ///
    /// As for [`Schema::design`].
    pub fn predict(&self, table: &Table, unseen: UnseenLevels) -> Result<Predictions> {
        let exposure = self.schema.exposure(table)?.unwrap_or_default();
        Ok(self.model.predict_rows(self.schema.design(table, unseen)?.as_ref(), exposure))
    }

    /// Predicts some rows, for example held-out ones.
    pub fn predict_part(&self, part: &TableRows) -> Predictions {
        self.model.predict_rows(part.inputs(), part.exposure.clone()).with_other_ends(&part.other_ends)
    }

    /// Reads the rows of a table with their targets, to compare them with predictions.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::predict`], and if a target is absent, missing, infinite or text.
    pub fn rows(&self, table: &Table, unseen: UnseenLevels) -> Result<TableRows> {
        let mut rows = TableRows::unweighted(&self.schema, table)?;
        rows.columns = self.schema.design(table, unseen)?.transpose().to_owned();
        Ok(rows)
    }

    /// Returns the model updated with the rows of a table that have a target; see [`update`]. Categories that did not occur in training
    /// are treated as [`UnseenLevels::New`].
    ///
    /// # Errors
    ///
    /// As for [`TableModel::rows`] and [`update`], and if no row has a target.
    pub fn updated(&self, table: &Table, forget: f64, session: &mut Session<'_>) -> Result<TableModel> {
        let labelled = table.with_values(self.schema.target_name());
        if labelled.rows() == 0 {
            let (source, target) = (table.source(), self.schema.target_name());
            return Err(Error::data(format!("{source}: no row has a value of the target '{target}'")));
        }
        let schema = self.schema.after(&labelled)?;
        let rows = TableRows::of(&schema, &labelled)?;
        let model = update(&self.model, rows.dataset(), forget, session)?;
        Ok(TableModel { schema, model })
    }

    /// Returns an updated model with the columns after the update.
    pub(super) fn with(schema: Schema, model: Model) -> TableModel {
        TableModel { schema, model }
    }

    /// Draws the latent function `count` times, jointly at all rows of a table; see [`Model::samples`].
    ///
    /// # Errors
    ///
    /// As for [`TableModel::predict`] and [`Model::samples`].
    pub fn samples(
        &self,
        table: &Table,
        unseen: UnseenLevels,
        count: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>> {
        self.output_samples(table, unseen, count, seed, 0)
    }

    /// Like [`samples`](Self::samples), for one of several outputs with this index.
    pub(super) fn output_samples(
        &self,
        table: &Table,
        unseen: UnseenLevels,
        count: usize,
        seed: u64,
        output: u64,
    ) -> Result<Vec<Vec<f64>>> {
        let n = table.rows();
        if n > Model::MOST_JOINT_ROWS {
            let (source, most) = (table.source(), Model::MOST_JOINT_ROWS);
            let found = format!("{source}: has more than {most} rows, the maximum for samples");
            return Err(Error::usage(format!("{found}, which are drawn jointly at all rows"))
                .hint("give fewer rows, or use quantiles, which have no such limit"));
        }
        let x = self.schema.design(table, unseen)?;
        self.model.output_samples(x.as_ref(), count, seed, output)
    }

    /// Returns the coefficients of a linear model, or `None` for another model; see [`Model::coefficients`].
    pub fn coefficients(&self) -> Option<Vec<Coefficient>> {
        self.model.coefficients(&self.schema.input_names())
    }

    /// Saves the model; the file appears completely or not at all.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        AtomicFile::write_all_to(path, &self.to_bytes()?)
    }

    /// Loads a model that [`TableModel::save`] wrote; its predictions are equal to the last bit.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a model file, has another version of the format, is damaged, or contains a model that was fitted to
    /// arrays.
    pub fn load(path: &Path) -> Result<TableModel> {
        TableModel::load_with(path, &Registry::default())
    }

    /// Like [`TableModel::load`], for a model with a custom kernel or likelihood, which `registry` knows by name.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::load`].
    pub fn load_with(path: &Path, registry: &Registry) -> Result<TableModel> {
        let (name, bytes) = read_model_file(path)?;
        TableModel::from_bytes_with(&name, &bytes, registry)
    }

    /// Returns the contents of a model file.
    ///
    /// # Errors
    ///
    /// If the model contains numbers that are not finite.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let schema = serde_json::to_value(&self.schema);
        let schema = schema.map_err(|error| Error::fit(format!("the model cannot be saved: {error}")))?;
        self.model.to_bytes_with(Some(schema))
    }

    /// Returns a digest (SHA-256, hexadecimal) of the contents of the model file.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::to_bytes`].
    pub fn digest(&self) -> Result<String> {
        Ok(sparsegp::files::hexadecimal(Sha256::new_with_prefix(self.to_bytes()?)))
    }

    /// Reads the contents of a model file; messages call it `name`. No input causes a panic.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::load`].
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<TableModel> {
        TableModel::from_bytes_with(name, bytes, &Registry::default())
    }

    /// Like [`from_bytes`](Self::from_bytes), with the custom kernels and likelihoods of `registry`.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::load`].
    pub fn from_bytes_with(name: &str, bytes: &[u8], registry: &Registry) -> Result<TableModel> {
        let (model, schema) = Model::from_bytes_with(name, bytes, registry)?;
        let schema = schema.ok_or_else(|| {
            Error::data(format!("{name}: the model was fitted to arrays, so it has no names of columns"))
                .hint("load it in a program, and pass arrays to it")
        })?;
        let schema: Schema = serde_json::from_value(schema).map_err(|error| damaged_model(name, &error))?;
        let (encoding, likelihood) = (schema.encoding(), &model.latent().likelihood);
        let levels = encoding.levels().len();
        let contradictions = [
            (
                !schema.places_are_consistent(),
                "the number of coordinates of its places does not match their surface",
            ),
            (!schema.trees_are_consistent(), "its trees do not match its columns"),
            (
                schema.offset_names().len() != model.scaling().offsets().columns(),
                "its columns of offsets do not match its scaling",
            ),
            (schema.dims() != model.inputs(), "its columns do not match its number of inputs"),
            (
                schema.dimensions() != model.options().dimensions,
                "the categories of its columns do not match its inputs",
            ),
            (
                likelihood.target_kind() != encoding.kind() || (levels > 0 && likelihood.levels() != levels),
                "its likelihood does not match the kind of its target",
            ),
        ];
        if let Some((_, what)) = contradictions.iter().find(|(found, _)| *found) {
            return Err(damaged_model(name, what));
        }
        Ok(TableModel { schema, model })
    }
}
