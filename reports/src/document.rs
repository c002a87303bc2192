//! The metrics document: one JSON shape for every command that reports scores.

use super::baselines::{BaselineReport, TrainFigures};
use super::cross::CrossValidation;
use super::words::prior_variance;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};
use sparsegp::error::Say;
use sparsegp::hyper::Record;
use sparsegp::metrics::Report;
use sparsegp::model::{Coefficient, InducingCurve};
use sparsegp::options::ModelKind;
use sparsegp_tables::tabular::TableModel;

/// The version of the shape of the document.
pub(crate) const SCHEMA: u32 = 1;

/// The metrics document. Keys that do not apply are null, never absent, and so are numbers that are not finite.
#[derive(Serialize)]
pub struct Document<'a> {
    schema: u32,
    command: &'static str,
    /// Classes or levels in the order of the rows and columns of confusion matrices.
    classes: Option<Vec<String>>,
    data: DataSummary,
    config: Value,
    fit: FitFigures<'a>,
    hyperparameters: Pairs<f64>,
    hyperparameter_notes: Pairs<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hyperparameter_intervals: Option<Pairs<[f64; 2]>>,
    coefficients: Option<Vec<Coefficient>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<GroupFigures<'a>>,
    /// The figures of the validation rows.
    pub validation: Option<Report>,
    /// The figures of the test rows.
    pub test: Option<Report>,
    /// The scores of training rows, if there are test rows.
    pub train: Option<TrainFigures>,
    /// The test figures of baselines.
    pub baselines: Option<BaselineReport>,
    /// The scores of the fits of a cross-validation, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_validation: Option<CrossValidation>,
    /// Suggestions for the next fit, in words.
    pub next: Vec<String>,
    trace: &'a [Record],
}

/// The size of the data.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DataSummary {
    /// The number of all rows.
    pub rows: u64,
    /// The number of training rows.
    pub train: u64,
    /// The number of test rows.
    pub test: u64,
    /// The number of inputs of the model; a category counts as one.
    pub features: usize,
    /// The column that is predicted.
    pub target: String,
}

impl DataSummary {
    /// Describes the training rows of a model.
    pub fn of(model: &TableModel) -> DataSummary {
        let (rows, target) = (model.training_rows() as u64, model.schema().target_name().to_owned());
        DataSummary { rows, train: rows, test: 0, features: model.schema().feature_dims(), target }
    }
}

/// The results of a fit with grouped effects, in original units.
struct GroupFigures<'a>(&'a TableModel);

impl Serialize for GroupFigures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (model, shares) = (self.0, self.0.intraclass_correlations());
        let correlations = shares.iter().map(|own| (own.group.clone(), own.share)).collect();
        let intervals = shares.iter().map(|own| (own.group.clone(), own.interval)).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("components", &model.variance_components())?;
        map.serialize_entry("residual_sd", &model.residual_deviation())?;
        map.serialize_entry("residual_interval", &model.residual_interval())?;
        map.serialize_entry("intraclass_correlations", &Pairs(correlations))?;
        map.serialize_entry("intraclass_intervals", &Pairs(intervals))?;
        map.serialize_entry("log_likelihood", &model.grouped_log_likelihood())?;
        map.serialize_entry("reml", &model.options().reml)?;
        map.end()
    }
}

struct FitFigures<'a> {
    model: &'a TableModel,
    warnings: Vec<String>,
}

impl Serialize for FitFigures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (model, summary, search) = (self.model, self.model.summary(), self.model.search());
        let (elbo_sum, evidence_upper_bound) = model.log_evidence();
        let curve = search.inducing.as_ref();
        let restarts = Some(&search.restarts).filter(|restarts| !restarts.is_empty());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("objective", &summary.objective)?;
        map.serialize_entry("objective_sum", &summary.objective_sum)?;
        map.serialize_entry("estimated_on", &summary.estimated_on)?;
        map.serialize_entry("elbo_sum", &elbo_sum)?;
        map.serialize_entry("evidence_upper_bound", &evidence_upper_bound)?;
        map.serialize_entry("epochs", &summary.epochs)?;
        map.serialize_entry("iterations", &summary.iterations)?;
        map.serialize_entry("evaluations", &summary.evaluations)?;
        map.serialize_entry("seconds", &summary.seconds)?;
        map.serialize_entry("seconds_per_step", &summary.seconds_per_step)?;
        map.serialize_entry("stop_reason", &summary.stop_reason)?;
        map.serialize_entry("rollbacks", &summary.rollbacks)?;
        map.serialize_entry("jitter", &summary.jitter)?;
        map.serialize_entry("sampling", &summary.sampling)?;
        map.serialize_entry("beta_curve", &model.beta_curve())?;
        map.serialize_entry("inducing_curve", &curve.map(|curve| &curve.points))?;
        map.serialize_entry("inducing_certificate", &curve.map(certificate))?;
        map.serialize_entry("restarts", &restarts)?;
        if let Some(choices) = &search.choices {
            map.serialize_entry("choices", choices)?;
        }
        if let Some(scores) = model.conformal() {
            let figures = json!({ "scores": scores.count(), "levels": scores.levels(), "factor_95": scores.factor_95() });
            map.serialize_entry("conformal", &figures)?;
        }
        map.serialize_entry("warnings", &self.warnings)?;
        map.end()
    }
}

struct Pairs<T>(Vec<(String, T)>);

impl<T: Serialize> Serialize for Pairs<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'a> Document<'a> {
    /// Creates the document of a command about a model. `say` returns the spelling of options in warnings.
    /// The caller adds test and validation scores.
    pub fn new(command: &'static str, model: &'a TableModel, data: DataSummary, say: &Say<'_>) -> Self {
        let warnings = model.summary().warnings.iter();
        Document {
            schema: SCHEMA,
            command,
            classes: Some(model.schema().encoding().levels().to_vec()).filter(|levels| !levels.is_empty()),
            data,
            config: config(model),
            fit: FitFigures { model, warnings: warnings.map(|warning| warning.words_with(say)).collect() },
            hyperparameters: Pairs(model.hyperparameters()),
            hyperparameter_notes: Pairs(model.hyperparameter_notes()),
            hyperparameter_intervals: model.hyper_summary().map(|_| Pairs(model.hyperparameter_intervals())),
            coefficients: model.coefficients(),
            groups: (!model.variance_components().is_empty()).then_some(GroupFigures(model)),
            validation: None,
            test: None,
            train: None,
            baselines: None,
            cross_validation: None,
            next: Vec::new(),
            trace: &model.summary().trace,
        }
    }

    /// Adds an option of the command line to the configuration.
    pub fn with_config(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Value::Object(config) = &mut self.config {
            config.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Returns the target.
    pub fn target(&self) -> &str {
        &self.data.target
    }

    /// Returns the document as JSON text of one object, with a line end.
    pub fn to_json(&self) -> String {
        // A structure of strings, numbers and maps with text keys always has a JSON form.
        serde_json::to_string_pretty(self).map_or_else(|_| "null\n".to_owned(), |text| text + "\n")
    }
}

/// Returns the evidence that there are enough inducing inputs, and the bounds on the posterior.
fn certificate(curve: &InducingCurve) -> Value {
    let known = curve.certificate;
    json!({
        "words": curve.words(),
        "criterion": curve.criterion,
        "tolerance": curve.tolerance,
        "most": curve.most,
        "validation_rows": curve.validation_rows,
        "chosen": curve.chosen,
        "end": curve.end,
        "rollbacks": curve.rollbacks,
        "lower": known.map(|known| known.lower),
        "upper": known.map(|known| known.upper),
        "kl": known.map(|known| known.kl),
        "kl_per_row": known.map(|known| known.kl_per_row),
    })
}

/// Returns the resolved options of the fit, under their names on the command line. Options of other kinds of models are null.
fn config(model: &TableModel) -> Value {
    let (options, schema) = (model.options(), model.schema());
    let features: Vec<&str> = schema.features().iter().map(|feature| feature.name.as_str()).collect();
    let sparse = model.model_kind() == ModelKind::Gp;
    let gp = |value: Value| if sparse { value } else { Value::Null };
    json!({
        "task": model.task(),
        "likelihood": model.latent().likelihood.name(),
        "features": features,
        "exposure": schema.exposure_as("exposure"),
        "trials": schema.exposure_as("trials"),
        "noise_std": schema.exposure_as("noise-std"),
        "censored": schema.censored(),
        "offset": schema.offset_names(),
        "weights": schema.weights_name(),
        "positive_label": schema.encoding().positive(),
        "model": model.model_kind(),
        "mean": options.mean,
        "prior_mean": (!sparse).then_some(options.prior_mean),
        "prior_variance": model.latent().layer().linear().map(|layer| prior_variance(options, layer)),
        "kernel": gp(json!(options.kernel)),
        "inducing": gp(json!(options.inducing)),
        "inducing_auto": gp(json!(options.growth.is_some())),
        "inducing_init": gp(json!(options.inducing_init)),
        "fix_inducing": gp(json!(options.fix_inducing)),
        "neighbours": gp(json!(options.neighbours)),
        "keep_rows": gp(json!(options.keep_rows)),
        "keep_single": gp(json!(options.keep_single)),
        "jitter": gp(json!(options.jitter.to_string())),
        "warm_start": gp(json!(options.warm_start)),
        "constraints": options.constraints,
        "default_priors": gp(json!(options.has_default_priors())),
        "standardize": options.standardize,
        "objective": options.objective,
        "beta": options.beta,
        "estimator": options.estimator,
        "quadrature_nodes": options.quadrature_nodes,
        "hyper": options.hyper_mode(),
        "hyper_optimizer": options.optimizer(),
        "epochs": options.epoch_limit(),
        "max_steps": options.max_steps,
        "max_seconds": options.max_seconds,
        "tolerance": options.stopping_tolerance(),
        "stop_at": options.stop_at,
        "stop_range": options.stop_range,
        "patience": options.patience,
        "validation_fraction": options.validation_fraction,
        "restarts": options.restarts,
        "seed": options.seed,
        "family": options.steps.family,
        "q_update": options.steps.q_update,
        "q_guard": options.steps.q_guard,
        "q_step": options.step_schedule().to_string(),
        "q_average": options.steps.q_average,
        "q_bounds": options.steps.q_update.rule().projects.then(|| options.steps.rule().bounds),
        "q_nonnegative": options.steps.q_nonnegative,
        "q_smoothness": options.steps.q_smoothness,
        "polish": options.steps.polish,
        "learning_rate": options.learning_rate,
        "batch_size": options.steps.batch_size,
        "batch_schedule": options.steps.batch_schedule,
        "sample_schedule": options.steps.sample_schedule,
    })
}
