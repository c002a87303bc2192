//! Several outputs of a table: a model for each, fitted one by one or with shared processes, in one
//! file.

use super::fit::{FitRequest, fit_table_in};
use super::held_out::{Shares, split_table};
use super::model::TableModel;
use super::resolve::{check_start_target, find_schema, resolved};
use super::rows::known_targets;
use super::sharing::{Sharing, decide};
use super::trees::{cross_fitted_outputs, folds_of};
use crate::schema::{Feature, Schema, SchemaOptions, UnseenLevels, input_warnings};
use crate::tables::{Grid, Table, TableBlocks, table_of_cells};
use sparsegp::data::Scaling;
use sparsegp::error::{Error, Result};
use sparsegp::files::{AtomicFile, open_input};
use sparsegp::hyper::{Clock, Session};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::{Model, SEVERAL, Tried, Warning, damaged_model, read_model_file};
use sparsegp::options::{FitOptions, MeanKind, ModelKind};
use sparsegp::registry::Registry;
use sparsegp::training::{OutputRows, ScaledOutputs, fit_outputs, fit_shared_outputs, update_outputs};
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The request for a fit to a table with several targets.
#[derive(Clone, Copy)]
pub struct OutputsRequest<'a> {
    /// The data.
    pub table: &'a Table,
    /// The columns to use; the target in here is ignored.
    pub columns: &'a SchemaOptions,
    /// The targets: two or more columns, which are not inputs of each other. A row that lacks some targets is
    /// used for the other targets.
    pub targets: &'a [String],
    /// The options of the fit.
    pub options: &'a FitOptions,
    /// The share of the rows with a target that is held out for testing.
    pub test_fraction: f64,
    /// The structure that the outputs share. If it is `None`, it is that of `start`, or held-out training rows decide, unless nothing is
    /// [open](FitOptions::open).
    pub sharing: Option<Sharing>,
    /// Models of these targets to start from: their columns, scaling, kernels, hyper-parameters and inducing inputs.
    pub start: Option<&'a TableOutputs>,
}

/// Models of several outputs, with the held-out rows.
pub struct OutputsFit {
    /// A model for every target, in the order of the targets.
    pub models: TableOutputs,
    /// The training rows.
    pub train: Table,
    /// The test rows, if any were requested.
    pub test: Option<Table>,
    /// The rows of the data, counted from 0, that the test rows are.
    pub test_rows: Vec<usize>,
    /// The structure that the outputs share.
    pub sharing: Sharing,
    /// The candidates that held-out training rows judged, if they decided.
    pub tried: Vec<Tried>,
}

/// Fits models of several outputs, which are trained and tested on the same rows. Unless a sharing is asked for, outputs with grouped effects or offsets share
/// nothing.
///
/// # Errors
///
/// As for [`fit_table`](super::fit_table) with each target, which the message names, and if targets to mix are not numbers.
pub fn fit_outputs_in(request: &OutputsRequest<'_>, session: &mut Session<'_>) -> Result<OutputsFit> {
    let OutputsRequest { table, columns, targets, options, .. } = *request;
    check_targets(table, targets)?;
    let any =
        |row: &usize| targets.iter().any(|name| table.column(name).is_some_and(|c| !c.is_missing(*row)));
    let known: Vec<usize> = (0..table.rows()).filter(any).collect();
    let labelled = table.take(&known);
    let shares = Shares { test: request.test_fraction, validation: 0.0, seed: options.seed };
    let rows = split_table(&labelled, columns.split.as_ref(), shares)?;
    let train = labelled.take(&rows.train);
    let test_rows = rows.test.iter().map(|&row| known[row]).collect();
    let test = (!rows.test.is_empty()).then(|| labelled.take(&rows.test));
    // Columns are found in the whole table, so that its parts have the same categories.
    let find = |target: &String| match request.start {
        Some(start) => {
            let schema = start.of_target(target)?.schema();
            check_start_target(schema, &columns_of(request, target))?;
            schema.check_training(&labelled.with_values(target))?;
            Ok((schema.clone(), Vec::new()))
        }
        None => find_schema(&labelled, &columns_of(request, target), options, &rows.train),
    };
    let found = targets.iter().map(find).collect::<Result<Vec<_>>>()?;
    let (schemas, notes): (Vec<Schema>, Vec<_>) = found.into_iter().unzip();
    let request = OutputsRequest { table: &train, ..*request };
    let clock = session.clock(options.max_seconds);
    let (sharing, tried) = match request.sharing {
        Some(sharing) => (sharing, Vec::new()),
        None if request.start.is_some() => (Sharing::Own, Vec::new()),
        None if options.open.is_empty() || !columns.groups.is_empty() || !columns.offset.is_empty() => {
            (Sharing::Own, Vec::new())
        }
        None => decide(&request, &schemas, &mut session.until(clock, Clock::CHOICES))?,
    };
    let mut models = fit_known(&request, schemas, sharing, &mut session.until(clock, 1.0))?;
    for (model, notes) in models.models.iter_mut().zip(notes) {
        if let Some(model) = Arc::get_mut(model) {
            model.model.warn_first(notes.into_iter().map(Warning::from));
        }
    }
    Ok(OutputsFit { models, train, test, test_rows, sharing, tried })
}

/// Fits models of several outputs with known columns and a given sharing to all rows of the request.
pub(super) fn fit_known(
    request: &OutputsRequest<'_>,
    schemas: Vec<Schema>,
    sharing: Sharing,
    session: &mut Session<'_>,
) -> Result<TableOutputs> {
    if sharing != Sharing::Own {
        let clock = session.clock(request.options.max_seconds);
        let session = &mut session.until(clock, Clock::TRAINING);
        return Ok(together(request, schemas, sharing, session)?.into());
    }
    let (clock, targets) = (session.clock(None), schemas.len());
    let one = |(place, schema): (usize, Schema)| {
        let columns =
            SchemaOptions { known: Some(schema.clone()), ..columns_of(request, schema.target_name()) };
        let start = request.start.map(|start| start.of_target(schema.target_name())).transpose()?;
        let request = FitRequest { start, ..FitRequest::new(request.table, &columns, request.options) };
        let session = &mut session.until(clock.map(|clock| clock.for_next_of(targets - place)), 1.0);
        fit_table_in(&request, session).map(|fit| fit.model)
    };
    Ok(schemas.into_iter().enumerate().map(one).collect::<Result<Vec<_>>>()?.into())
}

fn check_targets(table: &Table, targets: &[String]) -> Result<()> {
    let mut seen = HashSet::new();
    if let Some(twice) = targets.iter().find(|name| !seen.insert(*name)) {
        return Err(Error::usage(format!("⟨target⟩ names '{twice}' twice")));
    }
    targets.iter().try_for_each(|name| table.require(name).map(|_| ()))
}

/// Returns the columns of one target; the other targets are not inputs.
fn columns_of(request: &OutputsRequest<'_>, target: &str) -> SchemaOptions {
    let others = request.targets.iter().filter(|name| *name != target);
    let exclude = request.columns.exclude.iter().chain(others).cloned().collect();
    SchemaOptions { target: target.to_owned(), exclude, ..request.columns.clone() }
}

/// Refuses columns, targets and options that cannot share processes or a kernel.
fn check_shareable(options: &FitOptions, schemas: &[Schema], sharing: Sharing) -> Result<()> {
    if schemas.iter().any(|schema| !schema.offset_names().is_empty()) {
        return Err(Error::usage(format!("⟨outputs {sharing}⟩ cannot be combined with ⟨offset⟩"))
            .hint("use ⟨outputs own⟩ for a separate model of every target"));
    }
    for schema in schemas {
        let kind = LikelihoodKind::default_of(schema.encoding().kind());
        if options.likelihood_kind() != LikelihoodKind::Gaussian || kind != LikelihoodKind::Gaussian {
            let target = schema.target_name();
            return Err(Error::usage(format!(
                "⟨outputs {sharing}⟩ needs targets that are numbers with Gaussian noise, but '{target}' is of another kind"
            ))
            .hint("use ⟨task regression⟩ if they are numbers, or ⟨outputs own⟩ for a separate model of every target"));
        }
    }
    if options.model == ModelKind::Glm {
        let what = format!("⟨outputs {sharing}⟩ is for Gaussian processes");
        return Err(Error::usage(format!("{what}, not for ⟨model glm⟩")));
    }
    Ok(())
}

/// Fits the outputs that share processes or a kernel together.
fn together(
    request: &OutputsRequest<'_>,
    schemas: Vec<Schema>,
    sharing: Sharing,
    session: &mut Session<'_>,
) -> Result<Vec<TableModel>> {
    let base = schemas.first().ok_or_else(|| Error::usage("there are no targets"))?;
    let known =
        |schema: &Schema| request.start.map(|start| start.of_target(schema.target_name())).transpose();
    let known: Vec<Option<&TableModel>> = schemas.iter().map(known).collect::<Result<_>>()?;
    let start: Vec<&Model> = known.iter().flatten().map(|start| &start.model).collect();
    let options = resolved(request.options, base, None)?;
    check_shareable(&options, &schemas, sharing)?;
    let table = &*request.table.read(&base.readings, &|_| true)?;
    let all: Vec<usize> = (0..table.rows()).collect();
    // All outputs share one interpretation of the inputs.
    let mut base = base.clone();
    if start.is_empty() {
        base.settle(table, &all, true)?;
    }
    let has_trees = base.trees().is_some();
    base = base.without_trees();
    let with_target = |schema: &Schema, base: &Schema| Schema {
        target: schema.target.clone(),
        encoding: schema.encoding.clone(),
        ..base.clone()
    };
    let mut schemas: Vec<Schema> = schemas.iter().map(|schema| with_target(schema, &base)).collect();
    let columns = schemas.iter().map(|schema| known_targets(schema, table)).collect::<Result<Vec<_>>>()?;
    let mut x = base.design(table, UnseenLevels::New)?;
    let weights = base.weights(table)?.unwrap_or_default();
    if has_trees || options.mean == MeanKind::Trees {
        let folds = folds_of(table, request.columns.split.as_ref(), options.seed)?;
        let rows = (x.as_ref(), &columns[..], &weights[..]);
        (base, x) = cross_fitted_outputs((&base, &schemas), rows, &folds, &options, session)?;
    }
    let options = base.options_of(options)?;
    if start.is_empty() {
        base.take_means(&Scaling::standardise(x.as_ref(), &[]));
    }
    schemas.iter_mut().for_each(|schema| *schema = with_target(schema, &base));
    let targets: Vec<f64> =
        all.iter().flat_map(|&row| columns.iter().map(move |column| column[row])).collect();
    let scaled = ScaledOutputs::of(x.as_ref(), &targets, schemas.len(), &options, &start);
    let mut options = options.with_units_of(&scaled.scalings[0]);
    options.constraints.columns = options.constraints.columns.without_target();
    let names: Vec<String> = schemas.iter().map(|schema| schema.target_name().to_owned()).collect();
    let (rows, of) = (scaled.rows(&weights), (&options, None));
    let fitted = match sharing {
        Sharing::Processes(processes) => fit_outputs(rows, &names, processes, of, &start, session)?,
        Sharing::Own | Sharing::Kernel => fit_shared_outputs(rows, &names, of, &start, session)?,
    };
    let notes = input_warnings(&base.input_names(), x.as_ref());
    let scaled = scaled.scalings.into_iter().zip(scaled.known);
    let model = |((fitted, schema), (scaling, known))| {
        TableModel::of(fitted, schema, scaling, &options, known, notes.clone())
    };
    Ok(fitted.into_iter().zip(schemas).zip(scaled).map(model).collect())
}

/// Models of one or several outputs of the same tables.
pub struct TableOutputs {
    models: Vec<Arc<TableModel>>,
}

impl From<Vec<Arc<TableModel>>> for TableOutputs {
    fn from(models: Vec<Arc<TableModel>>) -> Self {
        TableOutputs { models }
    }
}

impl From<Vec<TableModel>> for TableOutputs {
    fn from(models: Vec<TableModel>) -> Self {
        TableOutputs { models: models.into_iter().map(Arc::new).collect() }
    }
}

impl TableOutputs {
    /// Returns a model for every output.
    pub fn models(&self) -> impl ExactSizeIterator<Item = &TableModel> {
        self.models.iter().map(|model| &**model)
    }

    /// Returns the model of a target, or the only model.
    ///
    /// # Errors
    ///
    /// If there are several models, and none of this target.
    pub fn of_target(&self, target: &str) -> Result<&TableModel> {
        if let [only] = &self.models[..] {
            return Ok(only);
        }
        let found = self.models().find(|model| model.schema().target_name() == target);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.models().map(|model| model.schema().target_name()).collect();
            Error::usage(format!("the file has models of {}, but none of '{target}'", known.join(", ")))
        })
    }

    /// Returns the models as shared pointers.
    pub fn into_models(self) -> Vec<Arc<TableModel>> {
        self.models
    }

    /// Returns true if the outputs mix processes, so that their functions are correlated.
    pub fn are_mixed(&self) -> bool {
        !self.models.is_empty() && self.models.iter().all(|model| weights_of(model).is_some())
    }

    /// Returns `Cov(f_p, f_p' | data)` of the functions of outputs p and p', in the units of both targets: a P × P matrix for each row of
    /// a table, row by row. For outputs that mix processes it is `Σ_l W_pl W_p'l v_l(x)`; other outputs are independent.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::predict`].
    pub fn covariances(&self, table: &Table, unseen: UnseenLevels) -> Result<Vec<f64>> {
        let width = self.models.len();
        let mut covariances = vec![0.0; table.rows() * width * width];
        if !self.are_mixed() {
            for (p, model) in self.models.iter().enumerate() {
                let predictions = model.predict(table, unseen)?;
                for (row, out) in covariances.chunks_exact_mut(width * width).enumerate() {
                    out[p * (width + 1)] = predictions.row(row).latent_variance;
                }
            }
            return Ok(covariances);
        }
        let weights: Vec<Vec<f64>> = self.models.iter().filter_map(|model| weights_of(model)).collect();
        // All outputs have the same processes.
        let predictions = self.models[0].predict(table, unseen)?;
        for (row, out) in covariances.chunks_exact_mut(width * width).enumerate() {
            for l in 0..weights[0].len() {
                let variance = predictions.latent(row, l).1;
                for (p, own) in weights.iter().enumerate() {
                    for (other, out) in weights.iter().zip(&mut out[p * width..]) {
                        *out += own[l] * other[l] * variance;
                    }
                }
            }
        }
        Ok(covariances)
    }

    /// Updates each model with the rows of a table that have its target; see [`TableModel::updated`]. Outputs that share processes are
    /// updated together.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::updated`].
    pub fn updated(&self, table: &Table, forget: f64, session: &mut Session<'_>) -> Result<TableOutputs> {
        if !self.are_mixed() {
            let one = |model: &Arc<TableModel>| match table.with_values(model.schema().target_name()).rows() {
                // Rows of other targets only.
                0 if self.models.len() > 1 => Ok(Arc::clone(model)),
                _ => model.updated(table, forget, session).map(Arc::new),
            };
            return Ok(self.models.iter().map(one).collect::<Result<Vec<_>>>()?.into());
        }
        let targets: Vec<&str> = self.models().map(|model| model.schema().target_name()).collect();
        let labelled = table.with_any_value(&targets);
        let schemas =
            self.models().map(|model| model.schema().after(&labelled)).collect::<Result<Vec<_>>>()?;
        let x = schemas[0].design(&labelled, UnseenLevels::New)?;
        let cells =
            schemas.iter().map(|schema| known_targets(schema, &labelled)).collect::<Result<Vec<_>>>()?;
        let targets: Vec<f64> =
            (0..labelled.rows()).flat_map(|row| cells.iter().map(move |own| own[row])).collect();
        let weights = schemas[0].weights(&labelled)?.unwrap_or_default();
        let rows = OutputRows { x: x.as_ref(), targets: &targets, weights: &weights };
        let models: Vec<&Model> = self.models().map(|model| &model.model).collect();
        let updated = update_outputs(&models, rows, forget, session)?.into_iter().zip(schemas);
        Ok(updated.map(|(model, schema)| TableModel::with(schema, model)).collect::<Vec<_>>().into())
    }

    /// Opens a file with the columns of all models, for predictions that treat levels in this way; see [`Schema::open_with`]. Predictions of
    /// the population need no columns of groupings.
    ///
    /// # Errors
    ///
    /// As for [`Schema::open_with`].
    pub fn open_for(
        &self,
        path: &Path,
        block_rows: usize,
        delimiter: Option<u8>,
        copied: &[String],
        unseen: UnseenLevels,
    ) -> Result<TableBlocks> {
        let schemas = self.schemas(unseen);
        Schema::open_all(&schemas.iter().collect::<Vec<_>>(), path, block_rows, delimiter, copied)
    }

    /// Returns the columns of each model for predictions that treat levels in this way.
    fn schemas(&self, unseen: UnseenLevels) -> Vec<Schema> {
        let schema = |model: &TableModel| match unseen {
            UnseenLevels::Population => Schema { groups: Vec::new(), ..model.schema().clone() },
            UnseenLevels::New | UnseenLevels::Error => model.schema().clone(),
        };
        self.models().map(schema).collect()
    }

    /// Creates a table of `rows` rows from columns of text cells (`None` is a missing cell), which are read as in a CSV file; messages call
    /// it `source`. The table has the columns that the models use; the cells of a column that predictions need and that is absent are
    /// missing.
    ///
    /// # Errors
    ///
    /// If the columns differ in length.
    pub fn table_of_cells(
        &self,
        source: &str,
        columns: &[(String, Vec<Option<String>>)],
        rows: usize,
        unseen: UnseenLevels,
    ) -> Result<Table> {
        let schemas = self.schemas(unseen);
        let missing = schemas.first().map_or(&[][..], |schema| schema.missing_values());
        let used: HashSet<&str> = schemas.iter().flat_map(|schema| schema.used_names()).collect();
        let mut given: HashSet<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        let needed = schemas.iter().flat_map(|schema| schema.needed_columns(true)).map(str::to_owned);
        let absent: Vec<_> =
            needed.filter(|name| given.insert(name.clone())).map(|name| (name, vec![None; rows])).collect();
        let columns = columns.iter().filter(|(name, _)| used.contains(name.as_str()));
        table_of_cells(source, columns.chain(&absent), missing)
    }

    /// Checks that a grid gives every column that predictions need, and no other column.
    ///
    /// # Errors
    ///
    /// A usage error that names the columns.
    pub fn check_grid(&self, grid: &Grid, unseen: UnseenLevels) -> Result<()> {
        let schemas = self.schemas(unseen);
        let mut needed: Vec<&str> = Vec::new();
        for name in schemas.iter().flat_map(|schema| schema.needed_columns(true)) {
            if !needed.contains(&name) {
                needed.push(name);
            }
        }
        if let Some(name) = grid.names().find(|name| !needed.contains(name)) {
            let known = needed.join(", ");
            return Err(Error::usage(format!("⟨grid⟩: the model has no input '{name}', expected {known}")));
        }
        let is_missing = |name: &&str| !grid.names().any(|given| given == *name);
        let missing: Vec<&str> = needed.into_iter().filter(is_missing).collect();
        let Some(first) = missing.first() else { return Ok(()) };
        let names = missing.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let grouped = self.models().any(|model| !model.schema().groups().is_empty());
        let population = if grouped { "; ⟨population⟩ predicts without groups" } else { "" };
        Err(Error::usage(format!("⟨grid⟩ has no values of {names}, which the model needs"))
            .hint(format!("add {first}=VALUE or {first}=START:STOP:STEP{population}")))
    }

    /// Saves all models to one file, which appears completely or not at all. A single model is saved as an ordinary model file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        TableOutputs::save_all(&self.models().collect::<Vec<_>>(), path)
    }

    /// Like [`save`](Self::save), for models of the same tables.
    ///
    /// # Errors
    ///
    /// As for [`save`](Self::save).
    pub fn save_all(models: &[&TableModel], path: &Path) -> Result<()> {
        if let [model] = models {
            return model.save(path);
        }
        let mut bytes = SEVERAL.to_vec();
        for model in models {
            let model = model.to_bytes()?;
            bytes.extend((model.len() as u64).to_le_bytes());
            bytes.extend(model);
        }
        AtomicFile::write_all_to(path, &bytes)
    }

    /// Loads a file of one or several models.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::load`].
    pub fn load(path: &Path) -> Result<TableOutputs> {
        TableOutputs::load_with(path, &Registry::default())
    }

    /// Like [`load`](Self::load), for models with custom kernels and likelihoods of a registry.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::load_with`].
    pub fn load_with(path: &Path, registry: &Registry) -> Result<TableOutputs> {
        let name = path.display().to_string();
        let unreadable = |error: std::io::Error| Error::data(format!("{name}: cannot be read: {error}"));
        let mut file = open_input(path, &name)?;
        let mut start = Vec::new();
        (&mut file).take(SEVERAL.len() as u64).read_to_end(&mut start).map_err(unreadable)?;
        if start != SEVERAL {
            let (name, bytes) = read_model_file(path)?;
            return TableModel::from_bytes_with(&name, &bytes, registry).map(|model| vec![model].into());
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        TableOutputs::from_parts(&name, &bytes, registry)
    }

    /// Reads the models that follow the header of a file of several.
    fn from_parts(name: &str, mut bytes: &[u8], registry: &Registry) -> Result<TableOutputs> {
        let cut = || damaged_model(name, &"it ends within a model");
        let mut models: Vec<TableModel> = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
            let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
            let (model, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
            models.push(TableModel::from_bytes_with(name, model, registry)?);
            bytes = rest;
        }
        let of_columns = |feature: &&Feature| feature.is_of_columns();
        let inputs = |model: &TableModel| model.schema().features().iter().filter(of_columns).count();
        let alike = models.iter().all(|model| inputs(model) == inputs(&models[0]));
        if models.len() < 2 || !alike {
            let what = "its models contradict each other as models of several outputs";
            return Err(damaged_model(name, &what));
        }
        Ok(models.into())
    }
}

/// Returns the row of W of an output that mixes processes, in the units of its target.
fn weights_of(model: &TableModel) -> Option<Vec<f64>> {
    let weights = model.latent().likelihood.mixing()?;
    let scale = model.scaling().target.scale;
    Some(weights.iter().map(|weight| scale * weight).collect())
}
