//! `inspect`: what is in a model file, for people or as JSON; no data.

use super::args::InspectArgs;
use super::evaluate::documents_text;
use super::{coefficients, output, parameters, search};
use sparsegp::Result;
use sparsegp::latent::{Layer, LinearLayer};
use sparsegp::model::{FitSummary, Nearby};
use sparsegp::options::FitOptions;
use sparsegp::report::{DataSummary, Document};
use sparsegp::schema::Feature;
use sparsegp::tabular::{TableModel, TableOutputs};
use std::path::Path;

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<()> {
    let models = TableOutputs::load(&args.model)?;
    if args.json {
        let documents: Vec<Document> = models.models().iter().map(document).collect();
        return output::print(&documents_text("inspect", &documents.iter().collect::<Vec<_>>()));
    }
    let texts: Vec<String> = models.models().iter().map(|model| text(args, model)).collect();
    output::print(&texts.join("\n"))
}

fn document(model: &TableModel) -> Document {
    let rows = model.training_rows() as u64;
    let (features, target) = (model.schema().dims(), model.schema().target_name().to_owned());
    let data = DataSummary { rows, train: rows, test: 0, features, target };
    Document::new("inspect", model, data, &output::dashes)
        .with_config("program_version", model.program())
        .with_config("input_names", model.schema().input_names())
}

fn text(args: &InspectArgs, model: &TableModel) -> String {
    let mut text = output::table(&overview(model));
    let where_all = where_all(&args.model);
    let (parameters, most) = match args.all {
        true => (parameters::all(model), usize::MAX),
        false => (parameters::shortened(model, &where_all), parameters::MOST_SHOWN),
    };
    let rows: Vec<_> = parameters.into_iter().map(|row| [vec!["".to_owned()], row].concat()).collect();
    if !rows.is_empty() {
        text.push_str("\nhyper-parameters (on the scale the model sees)\n");
        text.push_str(&output::table(&rows));
    }
    if let Some(coefficients) = coefficients::text(model, most, &where_all) {
        text.push_str(&format!("\n{coefficients}"));
    }
    text.push_str("\nfeatures\n");
    text.push_str(&output::table(&features(model)));
    for warning in &model.summary().warnings {
        text.push_str(&format!("\nwarning: {}", warning.words_with(&output::dashes)));
    }
    if !model.summary().warnings.is_empty() {
        text.push('\n');
    }
    text
}

/// How to see all parameters of the model in a file.
pub fn where_all(path: &Path) -> String {
    format!("all: sparsegp inspect {} --all", path.display())
}

/// What a model is and how it came about.
pub fn overview(model: &TableModel) -> Vec<Vec<String>> {
    let (options, summary) = (model.options(), model.summary());
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let target = model.schema().target_name();
    let affine = model.scaling().target;
    let mut rows = vec![
        row("task", format!("{} of '{target}'", model.task())),
        row("written by", format!("sparsegp {}", model.program())),
        row("training rows", model.training_rows().to_string()),
        row("inputs", model.schema().dims().to_string()),
    ];
    rows.extend(latent_rows(model));
    rows.extend([
        row("likelihood", model.latent().likelihood.name().to_owned()),
        row("objective", objective(model)),
        row(
            "target scaling",
            format!("({target} − {}) / {}", output::number(affine.shift), output::number(affine.scale)),
        ),
        row("seed", options.seed.to_string()),
        row("stopped", stopped(summary)),
    ]);
    rows.push(row("hyper-parameters", format!("{}, by {}", options.hyper_mode(), options.optimizer())));
    if !options.is_collapsed() {
        rows.push(row("q", format!("{} covariance, by {}", options.steps.family, options.steps.update)));
    }
    rows.extend(evidence(summary).map(|text| row("log evidence", text)));
    rows.extend(search::rows(model));
    rows.extend(summary.updates.iter().map(|update| {
        let forgot =
            if update.forget > 0.0 { format!(", {} forgotten", update.forget) } else { String::new() };
        row("updated with", format!("{} rows{forgot}", update.rows))
    }));
    rows
}

/// Why training ended, and when.
pub fn stopped(summary: &FitSummary) -> String {
    let (reason, epochs, seconds) = (summary.stop_reason, summary.epochs, summary.seconds);
    format!("{} after {epochs} epochs, {seconds:.1} s: {}", reason.word(), reason.sentence())
}

/// What is known of the log evidence.
pub fn evidence(summary: &FitSummary) -> Option<String> {
    let (lower, upper) = (output::number(summary.elbo_sum?), output::number(summary.evidence_upper_bound?));
    Some(if lower == upper { lower } else { format!("between {lower} and {upper}") })
}

/// What was minimised and what came out.
pub fn objective(model: &TableModel) -> String {
    let summary = model.summary();
    let on = summary.estimated_on.map(|rows| format!(", estimated on {rows} of them"));
    let value = output::number(summary.objective);
    format!("{}, {value} per row{}", model.options().objective, on.unwrap_or_default())
}

/// What the latent function is.
fn latent_rows(model: &TableModel) -> Vec<Vec<String>> {
    let options = model.options();
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    match model.latent().layer() {
        Layer::Inducing(layer) => {
            let mut rows = vec![
                row("kernel", options.kernel.clone()),
                row("inducing inputs", layer.z().nrows().to_string()),
            ];
            rows.extend(model.neighbours().map(|nearby| row("neighbours", kept(nearby))));
            rows
        }
        Layer::Linear(layer) => {
            vec![
                row("model", "linear (glm)".to_owned()),
                row("coefficients", coefficient_count(layer)),
                row("prior", prior(options)),
            ]
        }
    }
}

/// What a model with neighbours keeps of its training rows.
fn kept(nearby: &Nearby) -> String {
    let precision = if nearby.is_single() { "single" } else { "double" };
    let megabytes = nearby.bytes() as f64 / 1e6;
    let (count, rows) = (nearby.count(), nearby.len());
    format!(
        "{count} nearest of {rows} training rows, kept in {precision} precision ({megabytes:.1} MB of the file)"
    )
}

/// How many coefficients there are.
pub fn coefficient_count(layer: &LinearLayer) -> String {
    let intercept = if layer.has_intercept() { ", with the intercept" } else { ", no intercept" };
    format!("{}{intercept}", layer.coefficient_count())
}

/// The prior of the coefficients.
pub fn prior(options: &FitOptions) -> String {
    let (mean, variance) = (output::number(options.prior_mean), output::number(options.prior_variance));
    let scale = if options.standardize { ", on standardised inputs" } else { "" };
    format!("mean {mean}, variance {variance}{scale}")
}

fn features(model: &TableModel) -> Vec<Vec<String>> {
    let describe = |feature: &Feature| match feature {
        Feature::Date { name, .. } => {
            let missing = if feature.tells_missing() { ", or missing" } else { "" };
            vec![format!("  {name}"), format!("date{missing}")]
        }
        Feature::Numeric { name, .. } => {
            let missing = if feature.tells_missing() { ", or missing" } else { "" };
            vec![format!("  {name}"), format!("number{missing}")]
        }
        Feature::Categorical { name, levels, .. } => {
            let first = if model.schema().drops_first() { " (the first makes no input)" } else { "" };
            let missing = if feature.tells_missing() { ", and one of missing cells" } else { "" };
            vec![
                format!("  {name}"),
                format!("{} categories: {}{missing}{first}", levels.len(), levels.join(", ")),
            ]
        }
    };
    model.schema().features().iter().map(describe).collect()
}
