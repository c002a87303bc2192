//! Fits and comparisons: options by name and tables in, events out, models out.

use crate::convert::{python, raised};
use crate::custom::Custom;
use crate::host::{self, Hear, Host};
use crate::model::Model;
use crate::table::Table;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};
use sparsegp::Error;
use sparsegp::hyper::{Event, Session};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::Warning;
use sparsegp::options::{Betas, FitOptions};
use sparsegp_tables::compare::{Contender, Plan};
use sparsegp_tables::compare::{Settings, Store, results_csv, run as run_plan, summarise, summary_csv};
use sparsegp_tables::options::{fit_options, options};
use sparsegp_tables::schema::{Censoring, Places, SchemaOptions, Surface};
use sparsegp_tables::tabular::{
    FitRequest, TableModel, TrainingSample, fit_conformal_in, fit_table_in, select_beta,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The maximum number of values of training rows that a model keeps for its report.
const MOST_KEPT: usize = 4_000_000;

/// Returns the kinds of values that each option of a fit accepts: `bool`, `number`, `whole`, `text` and
/// `list`.
#[pyfunction]
pub fn option_types() -> BTreeMap<&'static str, Vec<&'static str>> {
    options().map(|option| (option.name, option.kind.types().to_vec())).collect()
}

/// The roles of the columns of a table.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Columns {
    target: String,
    exposure: Option<String>,
    weights: Option<String>,
    keep: Vec<String>,
    exclude: Vec<String>,
    categorical: Vec<String>,
    ordered: Vec<(String, Vec<String>)>,
    #[pyo3(default)]
    continuous: bool,
    #[pyo3(default)]
    trials: Option<String>,
    #[pyo3(default)]
    noise_std: Option<String>,
    #[pyo3(default)]
    censored: Option<String>,
    #[pyo3(default)]
    lower: Option<String>,
    #[pyo3(default)]
    upper: Option<String>,
    #[pyo3(default)]
    offset: Vec<String>,
    #[pyo3(default)]
    groups: Vec<String>,
    #[pyo3(default)]
    places: Option<(String, String)>,
    #[pyo3(default)]
    plane: Option<(String, String)>,
    positive_label: Option<String>,
}

impl Columns {
    pub fn options(self) -> sparsegp::Result<SchemaOptions> {
        let on = |columns: Option<(String, String)>, surface| {
            columns.map(|(first, second)| Places { columns: [first, second], surface })
        };
        let places = on(self.places, Surface::Sphere).or(on(self.plane, Surface::Plane));
        let ends = Censoring::of_ends(self.lower, self.upper);
        let groups = self.groups.iter().map(|formula| formula.parse());
        Ok(SchemaOptions {
            groups: groups.collect::<sparsegp::Result<_>>()?,
            places,
            target: self.target,
            continuous: self.continuous,
            exposure: self.exposure,
            trials: self.trials,
            noise_std: self.noise_std,
            censored: self.censored.map(Censoring::Column).or(ends),
            offset: self.offset,
            weights: self.weights,
            keep: self.keep,
            exclude: self.exclude,
            categorical: self.categorical,
            ordered: self.ordered,
            positive_label: self.positive_label,
            ..SchemaOptions::default()
        })
    }
}

/// Reads options by name from JSON text, which may name custom kernels and likelihoods. `others` are the
/// names of options that are given elsewhere.
pub fn options_of(json: &str, others: &[&str], custom: &Custom) -> PyResult<FitOptions> {
    let mut values: Map<String, Value> =
        serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("options: {error}")))?;
    let (registry, mut others) = (&custom.registry, others.to_vec());
    let named = values.get("likelihood").and_then(Value::as_str);
    // Options can only parse the names of built-in likelihoods.
    let own = named.filter(|name| name.parse::<LikelihoodKind>().is_err());
    let own = own.and_then(|name| registry.likelihood_kind(name));
    if own.is_some() {
        values.remove("likelihood");
        others.push("likelihood");
    }
    let options = fit_options(&values, &others).map_err(raised)?;
    let likelihood = own.or(options.likelihood);
    Ok(FitOptions { likelihood, registry: registry.clone(), ..options })
}

fn grid_of(betas: Option<&str>) -> PyResult<(Option<Betas>, &'static [&'static str])> {
    let betas: Option<Betas> = betas.map(str::parse).transpose().map_err(raised)?;
    let others: &[&str] = if betas.is_some() { &["betas"] } else { &[] };
    Ok((betas, others))
}

/// Fits a model to the rows of a table. `options` are options of the command line by name, as JSON text.
/// `listener` is called with every event, as a dictionary, and ends training by returning True.
#[pyfunction]
#[pyo3(signature = (table, columns, options, *, betas=None, conformal=false, custom=None, listener=None, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn fit(
    py: Python<'_>,
    table: &Table,
    columns: Columns,
    options: &str,
    betas: Option<&str>,
    conformal: bool,
    custom: Option<Custom>,
    listener: Option<Py<PyAny>>,
    threads: Option<usize>,
) -> PyResult<Model> {
    let custom = custom.unwrap_or_default();
    let (betas, others) = grid_of(betas)?;
    let options = options_of(options, others, &custom)?;
    let columns = columns.options().map_err(raised)?;
    let work = |host: Host<'_>| -> sparsegp::Result<(TableModel, Option<TrainingSample>)> {
        let request = FitRequest::new(&table.0, &columns, &options);
        let poll = || host.interrupted.load(Ordering::Relaxed) || custom.has_raised();
        let mut session = Session::new(host.tell).with_poll(&poll).with_enough(host.enough);
        let fit = match &betas {
            Some(_) if conformal => {
                return Err(Error::usage("⟨conformal⟩ cannot be combined with a list of values of ⟨beta⟩")
                    .hint("choose ⟨beta⟩ first, then give it"));
            }
            Some(betas) => select_beta(&request, betas, &mut session)?.0,
            None if conformal => fit_conformal_in(&request, None, &mut session)?,
            None => fit_table_in(&request, &mut session)?,
        };
        let sample = sample_of(&request, &fit.model);
        Ok((fit.model, sample))
    };
    let (model, sample) = custom.run(py, threads, hearing(listener).as_deref_mut(), work)?;
    Ok(Model::new(Arc::new(model), custom).with_sample(sample))
}

/// Returns rows of a fit for its report, or `None` if they are too many or unavailable.
pub fn sample_of(request: &FitRequest<'_>, model: &TableModel) -> Option<TrainingSample> {
    TrainingSample::draw(request, model).ok().filter(|sample| sample.numbers() <= MOST_KEPT)
}

/// Returns a listener that calls a Python function with every event.
pub fn hearing(listener: Option<Py<PyAny>>) -> Option<Box<Hear<'static>>> {
    let listener = listener?;
    let hear =
        move |py: Python<'_>, event: &Event| listener.call1(py, (told(py, event)?,))?.bind(py).is_truthy();
    Some(Box::new(hear))
}

/// Returns an event as a dictionary: the record of an epoch with the limit of epochs, or the description of a
/// stage.
fn told<'py>(py: Python<'py>, event: &Event) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    match event {
        Event::Stage(stage) => told.set_item("stage", stage.to_string())?,
        Event::Epoch { record, limits } => {
            told.set_item("epoch", record.epoch)?;
            told.set_item("epochs", limits.epochs)?;
            told.set_item("seconds", record.seconds)?;
            told.set_item("objective", record.objective)?;
            told.set_item("validation_nll", record.validation_nll)?;
        }
    }
    Ok(told)
}

/// Compares objectives by held-out rows, like the command `compare`, and keeps its results in a folder.
/// Returns the text of results.csv and of summary.csv, and notes about the data.
#[pyfunction]
#[pyo3(signature = (table, columns, options, objectives, *, betas, repeats, train_sizes, test_fraction, folder, custom=None, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn compare(
    py: Python<'_>,
    table: &Table,
    columns: Columns,
    options: &str,
    objectives: Vec<String>,
    betas: Option<&str>,
    repeats: u64,
    train_sizes: Vec<usize>,
    test_fraction: f64,
    folder: PathBuf,
    custom: Option<Custom>,
    threads: Option<usize>,
) -> PyResult<(String, String, Vec<String>)> {
    let custom = custom.unwrap_or_default();
    let (betas, others) = grid_of(betas)?;
    let options = options_of(options, others, &custom)?;
    let objectives = objectives.iter().map(|word| word.parse::<Contender>());
    let settings = Settings {
        objectives: objectives.collect::<sparsegp::Result<_>>().map_err(raised)?,
        betas,
        repeats,
        train_sizes,
        test_fraction,
        columns: columns.options().map_err(raised)?,
        options,
    };
    let threads = threads.unwrap_or_else(host::usual_threads);
    let work = |_: Host<'_>| {
        settings.validate()?;
        let plan = Plan::new(&settings, &table.0)?;
        let store = Store::open(&folder, &Value::Null)?;
        let results = run_plan(&plan, &store, threads, &mut |_| {})?;
        results.check()?;
        let notes = plan.notes.iter().map(|note| Warning::from(note.clone()).words_with(&python)).collect();
        Ok((results_csv(&results)?, summary_csv(&summarise(&results))?, notes))
    };
    custom.run(py, None, None, work)
}
