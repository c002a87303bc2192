//! A model and its history as rows of a name and words.

use super::{count, duration, group_rows, number, row, search_rows};
use sparsegp::collapsed::WeightPrior;
use sparsegp::data::Affine;
use sparsegp::error::Say;
use sparsegp::latent::LinearLayer;
use sparsegp::model::{FitSummary, Nearby};
use sparsegp::options::FitOptions;
use sparsegp_tables::tabular::TableModel;

/// Describes a model and its history. `say` returns the spelling of options.
pub fn overview(model: &TableModel, say: &Say<'_>) -> Vec<Vec<String>> {
    let (options, summary) = (model.options(), model.summary());
    let target = model.schema().target_name();
    let mut rows = vec![
        row("task", format!("{} of '{target}'", model.task())),
        row("written by", format!("sparsegp {}", model.program())),
        row("training rows", count(model.training_rows())),
        row("inputs", model.schema().feature_dims().to_string()),
    ];
    rows.extend(latent_rows(model));
    rows.extend(place_rows(model));
    rows.extend(group_rows(model));
    rows.push(row("likelihood", model.latent().likelihood.name()));
    rows.push(row("objective", objective(model)));
    // Classes and counts have no scaling.
    let affine = model.scaling().target;
    if affine != Affine::IDENTITY {
        let scaled = format!("({target} − {}) / {}", number(affine.shift), number(affine.scale));
        rows.push(row("target scaling", scaled));
    }
    rows.extend([row("seed", options.seed.to_string()), row("stopped", stopped(summary))]);
    rows.push(row("hyper-parameters", format!("{}, by {}", options.hyper_mode(), options.optimizer())));
    if !options.is_collapsed() {
        rows.push(row("q", format!("{} covariance, by {}", options.steps.family, options.steps.q_update)));
    }
    rows.extend(evidence(model).map(|text| row("log evidence", text)));
    rows.extend(search_rows(model, say));
    rows.extend(summary.updates.iter().map(|update| {
        let forgot = Some(update.forget).filter(|share| *share > 0.0);
        let forgot = forgot.map_or(String::new(), |share| format!(", {share} forgotten"));
        row("updated with", format!("{} rows{forgot}", update.rows))
    }));
    rows
}

/// Returns the reason and the time of the end of training, with an explanation.
pub fn stopped(summary: &FitSummary) -> String {
    format!("{}: {}", ended(summary), summary.stop_reason.sentence())
}

/// Returns the reason and the time of the end of training, in a few words.
pub fn ended(summary: &FitSummary) -> String {
    let (reason, epochs, time) = (summary.stop_reason, summary.epochs, duration(summary.seconds));
    format!("{} after {epochs} epochs, {time}", reason.word())
}

/// Returns the bounds on the log evidence in units of the target, if they are known.
pub fn evidence(model: &TableModel) -> Option<String> {
    let (lower, upper) = model.log_evidence();
    let (lower, upper) = (number(lower?), number(upper?));
    Some(if lower == upper { lower } else { format!("between {lower} and {upper}") })
}

/// Returns the objective and its final value.
pub fn objective(model: &TableModel) -> String {
    let summary = model.summary();
    let on = summary.estimated_on.map(|rows| format!(", estimated on {rows} of them"));
    let value = number(summary.objective);
    format!("{}, {value} per row{}", model.options().objective, on.unwrap_or_default())
}

fn latent_rows(model: &TableModel) -> Vec<Vec<String>> {
    let options = model.options();
    let layer = model.latent().layer();
    match layer.inducing() {
        Some(layer) => {
            let mut rows = vec![
                row("kernel", model.schema().kernel_in_names(&options.kernel)),
                row("inducing inputs", layer.z().nrows().to_string()),
            ];
            rows.extend(model.neighbours().map(|nearby| row("neighbours", kept(nearby))));
            rows
        }
        None => layer.linear().map_or(Vec::new(), |layer| {
            vec![
                row("model", "linear (glm)"),
                row("coefficients", coefficient_count(layer)),
                row("prior", prior(options, layer)),
            ]
        }),
    }
}

/// Returns the columns of the place with its lengthscales, as a row of a name and words. Returns no row for
/// models without places.
pub fn place_rows(model: &TableModel) -> Vec<Vec<String>> {
    let Some((places, _)) = model.schema().place_inputs() else { return Vec::new() };
    let values = model.in_units().into_iter().filter(|(_, columns)| columns.len() > 1);
    let lengthscales: Vec<String> = values.filter_map(|(of, _)| of.value.map(number)).collect();
    let noun = if lengthscales.len() == 1 { "lengthscale" } else { "lengthscales" };
    let mut words = places.columns.join(", ");
    // A kernel may have one lengthscale for all inputs together.
    if !lengthscales.is_empty() {
        words.push_str(&format!(": {noun} {} {}", lengthscales.join(", "), places.surface.unit()));
    }
    vec![row("places", words)]
}

/// Describes the training rows that a model with neighbours stores.
fn kept(nearby: &Nearby) -> String {
    let precision = if nearby.is_single() { "single" } else { "double" };
    let megabytes = nearby.bytes() as f64 / 1e6;
    let (count, rows) = (nearby.count(), nearby.len());
    format!(
        "{count} nearest of {rows} training rows, kept in {precision} precision ({megabytes:.1} MB of the file)"
    )
}

/// Returns the number of coefficients, in words.
pub fn coefficient_count(layer: &LinearLayer) -> String {
    let intercept = if layer.has_intercept() { ", with the intercept" } else { ", no intercept" };
    format!("{}{intercept}", layer.coefficient_count())
}

/// Returns the prior variance of the coefficients, which is trained if there are more of them than rows.
pub fn prior_variance(options: &FitOptions, layer: &LinearLayer) -> f64 {
    let inputs = layer.coefficient_count() - usize::from(layer.has_intercept());
    let trained = layer.prior_deviations().filter(|_| inputs > 0).map(|deviations| deviations[0].powi(2));
    let asked = options.prior_variance;
    trained.filter(|_| asked == FitOptions::default().prior_variance).unwrap_or(asked)
}

/// Describes the prior of the coefficients.
pub fn prior(options: &FitOptions, layer: &LinearLayer) -> String {
    if !options.effects.is_empty() {
        let weak = matches!(options.weight_prior(), WeightPrior::Weak { .. });
        return if weak { "weak (fixed effects)" } else { "flat (fixed effects)" }.to_owned();
    }
    let (mean, variance) = (number(options.prior_mean), number(prior_variance(options, layer)));
    let scale = if options.standardize { ", on standardised inputs" } else { "" };
    format!("mean {mean}, variance {variance}{scale}")
}
