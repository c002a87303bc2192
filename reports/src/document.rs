//! The metrics document: one JSON shape for every command that reports scores.

use super::baselines::{BaselineReport, TrainFigures};
use super::cross::CrossValidation;
use super::words::prior_variance;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};
use sparsegp::effects::{Ends, VarianceComponent};
use sparsegp::error::Say;
use sparsegp::hyper::{Record, StopReason};
use sparsegp::metrics::Report;
use sparsegp::model::{BetaCurve, Choices, Coefficient, InducingCurve, InducingPoint, Restart};
use sparsegp::objective::EstimatorCounts;
use sparsegp::options::ModelKind;
use sparsegp_tables::tabular::TableModel;

/// The version of the shape of the document.
pub(crate) const SCHEMA: u32 = 1;

/// The metrics document. Keys that do not apply are null, never absent, and so are numbers that are not finite.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    schema: u32,
    command: &'static str,
    /// Classes or levels in the order of the rows and columns of confusion matrices.
    classes: Option<Vec<String>>,
    data: DataSummary,
    config: Value,
    fit: FitFigures,
    #[serde(serialize_with = "as_map")]
    hyperparameters: Vec<(String, f64)>,
    /// Notes about hyper-parameters, in words.
    #[serde(serialize_with = "as_map")]
    hyperparameter_notes: Vec<(String, String)>,
    coefficients: Option<Vec<Coefficient>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<GroupFigures>,
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
    trace: Vec<Record>,
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GroupFigures {
    components: Vec<VarianceComponent>,
    residual_sd: Option<f64>,
    residual_interval: Option<Ends>,
    #[serde(serialize_with = "as_map")]
    intraclass_correlations: Vec<(String, f64)>,
    #[serde(serialize_with = "as_map")]
    intraclass_intervals: Vec<(String, Option<Ends>)>,
    log_likelihood: Option<f64>,
    reml: bool,
}

impl GroupFigures {
    fn of(model: &TableModel) -> Option<GroupFigures> {
        let components = model.variance_components();
        let shares = model.intraclass_correlations();
        (!components.is_empty()).then(|| GroupFigures {
            components,
            residual_sd: model.residual_deviation(),
            residual_interval: model.residual_interval(),
            intraclass_correlations: shares.iter().map(|own| (own.group.clone(), own.share)).collect(),
            intraclass_intervals: shares.into_iter().map(|own| (own.group, own.interval)).collect(),
            log_likelihood: model.grouped_log_likelihood(),
            reml: model.options().reml,
        })
    }
}

/// The outcome of the fit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FitFigures {
    objective: f64,
    objective_sum: f64,
    estimated_on: Option<usize>,
    elbo_sum: Option<f64>,
    evidence_upper_bound: Option<f64>,
    epochs: usize,
    iterations: usize,
    evaluations: usize,
    seconds: f64,
    seconds_per_step: f64,
    stop_reason: StopReason,
    rollbacks: usize,
    jitter: f64,
    sampling: Option<EstimatorCounts>,
    beta_curve: Option<BetaCurve>,
    inducing_curve: Option<Vec<InducingPoint>>,
    inducing_certificate: Option<Value>,
    restarts: Option<Vec<Restart>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<Choices>,
    warnings: Vec<String>,
}

impl Document {
    /// Creates the document of a command about a model. `say` returns the spelling of options in warnings.
    /// The caller adds test and validation scores.
    pub fn new(command: &'static str, model: &TableModel, data: DataSummary, say: &Say<'_>) -> Document {
        Document {
            schema: SCHEMA,
            command,
            classes: Some(model.schema().encoding().levels().to_vec()).filter(|levels| !levels.is_empty()),
            data,
            config: config(model),
            fit: FitFigures::of(model, say),
            hyperparameters: model.hyperparameters(),
            hyperparameter_notes: model.hyperparameter_notes(),
            coefficients: model.coefficients(),
            groups: GroupFigures::of(model),
            validation: None,
            test: None,
            train: None,
            baselines: None,
            cross_validation: None,
            next: Vec::new(),
            trace: model.summary().trace.clone(),
        }
    }

    /// Adds an option of the command line to the configuration.
    pub fn with_config(mut self, name: &str, value: impl Into<Value>) -> Document {
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

impl FitFigures {
    fn of(model: &TableModel, say: &Say<'_>) -> FitFigures {
        let (summary, search) = (model.summary(), model.search());
        let (elbo_sum, evidence_upper_bound) = model.log_evidence();
        FitFigures {
            sampling: summary.sampling,
            beta_curve: model.beta_curve().cloned(),
            inducing_curve: search.inducing.as_ref().map(|curve| curve.points.clone()),
            inducing_certificate: search.inducing.as_ref().map(certificate),
            restarts: Some(search.restarts.clone()).filter(|restarts| !restarts.is_empty()),
            choices: search.choices.clone(),
            objective: summary.objective,
            objective_sum: summary.objective_sum,
            estimated_on: summary.estimated_on,
            elbo_sum,
            evidence_upper_bound,
            epochs: summary.epochs,
            iterations: summary.iterations,
            evaluations: summary.evaluations,
            seconds: summary.seconds,
            seconds_per_step: summary.seconds_per_step,
            stop_reason: summary.stop_reason,
            rollbacks: summary.rollbacks,
            jitter: summary.jitter,
            warnings: summary.warnings.iter().map(|warning| warning.words_with(say)).collect(),
        }
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
    let of_model = json!({
        "task": model.task(),
        "likelihood": model.latent().likelihood.name(),
        "features": features,
        "exposure": schema.exposure_name(),
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
    });
    let of_training = json!({
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
    });
    let of_steps = json!({
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
    });
    let parts = [of_model, of_training, of_steps];
    let entries = parts.iter().filter_map(Value::as_object).flatten();
    entries.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn as_map<S: Serializer, T: Serialize>(values: &[(String, T)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(values.len()))?;
    for (name, value) in values {
        map.serialize_entry(name, value)?;
    }
    map.end()
}
