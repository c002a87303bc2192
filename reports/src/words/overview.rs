//! A model and its history as rows of a name and words, with its coefficients and its grouped effects.

use super::search::averaged;
use super::{count, duration, number, row, search_rows, table};
use sparsegp::collapsed::WeightPrior;
use sparsegp::data::Affine;
use sparsegp::effects::{EffectTerm, Ends, VarianceComponent};
use sparsegp::error::Say;
use sparsegp::latent::LinearLayer;
use sparsegp::model::{Coefficient, FitSummary, Nearby};
use sparsegp::options::{FitOptions, ModelKind, ObjectiveKind};
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
    rows.extend(offset_rows(model));
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
    rows.extend(averaged(model).map(|text| row("hyper-posterior", text)));
    rows.extend(conformal_row(model));
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

/// Returns the number of conformity scores and their effect, as a row of a name and words, if the model is calibrated by them.
pub fn conformal_row(model: &TableModel) -> Option<Vec<String>> {
    let scores = model.conformal()?;
    let levels = match scores.levels() {
        0 => String::new(),
        levels => format!("; {levels} levels have their own"),
    };
    let (factor, count) = (number(scores.factor_95()), count(scores.count()));
    Some(row("conformal", format!("{count} scores; 95 % intervals are {factor} times as wide{levels}")))
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

/// Returns the columns of offsets, as a row of a name and words. Returns no row for models without offsets.
pub fn offset_rows(model: &TableModel) -> Vec<Vec<String>> {
    let names = model.schema().offset_names();
    if names.is_empty() {
        return Vec::new();
    }
    let warped = !model.scaling().target_map().is_none();
    let scale = match (model.latent().likelihood.scales_target(), warped) {
        (true, false) => format!(", in units of {}", model.schema().target_name()),
        (true, true) => format!(", in units of {} after its warp", model.schema().target_name()),
        (false, _) => ", on the scale of the link".to_owned(),
    };
    vec![row("offset", names.join(", ") + &scale)]
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

/// Returns the coefficients of a linear model as a table with a header, with at most `most` rows. A longer
/// list is cut to the coefficients that are farthest from 0 in standard deviations. The second value is a
/// caption, which mentions the cut. Returns `None` for other models.
pub(crate) fn coefficient_table(model: &TableModel, most: usize) -> Option<(Vec<Vec<String>>, String)> {
    let mut coefficients = model.coefficients()?;
    let all = coefficients.len();
    let units = match model.latent().likelihood.scales_target() {
        true => "in original units",
        false => "per unit of the column, on the scale of the link",
    };
    let mut about = format!("coefficients ({units})");
    if all > most {
        coefficients.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        coefficients.truncate(most);
        about = format!("coefficients ({units}; the {most} of {all} with the largest |mean / sd|)");
    }
    let header = ["coefficient", "mean", "sd", "95 % from", "to"].map(str::to_owned).to_vec();
    Some((std::iter::once(header).chain(coefficients.iter().map(coefficient_row)).collect(), about))
}

/// Returns the coefficients as lines of text under a heading. If the list is cut, the last line gives the
/// number of other coefficients and ends with `where_all`.
pub fn coefficient_text(model: &TableModel, most: usize, where_all: &str) -> Option<String> {
    let (mut rows, about) = coefficient_table(model, most)?;
    rows.iter_mut().for_each(|row| row[0].insert_str(0, "  "));
    let mut text = format!("{about}\n{}", table(&rows));
    let left = model.coefficients()?.len() + 1 - rows.len();
    if left > 0 {
        text.push_str(&format!("  … {left} more coefficients  {where_all}\n"));
    }
    Some(text)
}

/// Returns the distance from 0, in standard deviations if they are known.
fn distance(coefficient: &Coefficient) -> f64 {
    coefficient.mean.abs() / coefficient.sd.unwrap_or(1.0)
}

fn coefficient_row(coefficient: &Coefficient) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let Coefficient { name, mean, sd, lower, upper } = coefficient;
    vec![name.clone(), number(*mean), shown(*sd), shown(*lower), shown(*upper)]
}

/// Formats a number with its 95 % interval, if the interval is known.
pub(crate) fn with_interval(value: f64, interval: Option<Ends>) -> String {
    let words = interval.map(|ends| format!(" (95 % {})", interval_words(Some(ends))));
    number(value) + &words.unwrap_or_default()
}

pub(crate) fn interval_words(interval: Option<Ends>) -> String {
    interval.map_or("–".to_owned(), |[lower, upper]| format!("{} to {}", number(lower), number(upper)))
}

pub(crate) fn correlations(component: &VarianceComponent) -> Vec<String> {
    let of_pairs = component.correlations.iter().zip(&component.correlation_intervals);
    of_pairs.map(|(value, interval)| with_interval(*value, *interval)).collect()
}

/// Returns the groupings of a model, the noise and the log likelihood, as rows of a name and words; empty for models without groups.
pub fn group_rows(model: &TableModel) -> Vec<Vec<String>> {
    let terms = model.latent().effects.terms();
    if terms.is_empty() {
        return Vec::new();
    }
    let (components, shares) = (model.variance_components(), model.intraclass_correlations());
    let of_term = |term: &EffectTerm| {
        let mut words = format!("{}, {} levels", term.name, count(term.levels));
        let own = components.iter().filter(|component| component.group == term.name);
        for (index, component) in own.enumerate() {
            if component.effect == "intercept" {
                words.push_str("; sd ");
            } else {
                words.push_str(&format!("; sd of slope {} ", component.effect));
            }
            words.push_str(&with_interval(component.sd, component.interval));
            if !component.correlations.is_empty() && index > 0 {
                words.push_str(&format!("; correlation {}", correlations(component).join(", ")));
            }
        }
        if let Some(own) = shares.iter().find(|own| own.group == term.name) {
            words.push_str(&format!("; intraclass correlation {}", with_interval(own.share, own.interval)));
        }
        row("group", words)
    };
    let mut rows: Vec<Vec<String>> = terms.iter().map(of_term).collect();
    let noise = model.residual_deviation();
    rows.extend(noise.map(|sd| row("noise", format!("sd {}", with_interval(sd, model.residual_interval())))));
    let is_gp = model.model_kind() == ModelKind::Gp;
    let name = match (is_gp, model.options().reml) {
        (true, _) => "log evidence",
        (false, true) => "restricted log likelihood",
        (false, false) => "log likelihood",
    };
    let closed = !is_gp || model.options().objective == ObjectiveKind::Fitc || model.neighbours().is_some();
    let exact = closed && model.latent().noise_variance().is_some();
    let bound = if exact { "" } else { "at least " };
    let value = model.grouped_log_likelihood();
    rows.extend(value.map(|value| row(name, format!("{bound}{}", number(value)))));
    rows
}
