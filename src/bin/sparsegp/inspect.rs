//! `inspect`: what is in a model file, for people or as JSON; no data.

use super::args::InspectArgs;
use super::{coefficients, output, search};
use sparsegp::Result;
use sparsegp::latent::Layer;
use sparsegp::report::{DataSummary, Document};
use sparsegp::schema::Feature;
use sparsegp::tabular::TableModel;

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<()> {
    let model = TableModel::load(&args.model)?;
    if args.json {
        let rows = model.training_rows() as u64;
        let (features, target) = (model.schema().dims(), model.schema().target_name().to_owned());
        let data = DataSummary { rows, train: rows, test: 0, features, target };
        let document = Document::new("inspect", &model, data, &output::dashes)
            .with_config("program_version", model.program())
            .with_config("input_names", model.schema().input_names());
        return output::print(&document.to_json());
    }
    let mut text = output::table(&overview(&model));
    let rows: Vec<_> =
        hyperparameters(&model).into_iter().map(|row| [vec!["".to_owned()], row].concat()).collect();
    if !rows.is_empty() {
        text.push_str("\nhyper-parameters (on the scale the model sees)\n");
        text.push_str(&output::table(&rows));
    }
    text.push_str(&coefficients::text(&model));
    text.push_str("\nfeatures\n");
    text.push_str(&output::table(&features(&model)));
    for warning in &model.summary().warnings {
        text.push_str(&format!("\nwarning: {}", warning.words_with(&output::dashes)));
    }
    if !model.summary().warnings.is_empty() {
        text.push('\n');
    }
    output::print(&text)
}

/// What a model is and how it came about; also the head of a fit's summary.
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
        row(
            "stopped",
            format!(
                "{} after {} epochs, {:.1} s: {}",
                summary.stop_reason.word(),
                summary.epochs,
                summary.seconds,
                summary.stop_reason.sentence()
            ),
        ),
    ]);
    rows.push(row("hyper-parameters", format!("{}, by {}", options.hyper_mode(), options.optimizer())));
    if !options.is_collapsed() {
        rows.push(row("q", format!("{} covariance, by {}", options.steps.family, options.steps.update)));
    }
    if let (Some(lower), Some(upper)) = (summary.elbo_sum, summary.evidence_upper_bound) {
        let (lower, upper) = (output::number(lower), output::number(upper));
        let text = if lower == upper { lower } else { format!("between {lower} and {upper}") };
        rows.push(row("log evidence", text));
    }
    rows.extend(search::rows(model));
    rows
}

/// Hyper-parameters with their values and what is special about them.
pub fn hyperparameters(model: &TableModel) -> Vec<Vec<String>> {
    let notes = model.latent().constraint_notes();
    let note = |name: &str| notes.iter().find(|note| note.0 == name).map_or("", |note| &note.1).to_owned();
    let row = |(name, value): (String, f64)| vec![name.clone(), output::number(value), note(&name)];
    model.hyperparameters().into_iter().map(row).collect()
}

/// What was minimised and what came out.
fn objective(model: &TableModel) -> String {
    let summary = model.summary();
    let on = summary.estimated_on.map(|rows| format!(", estimated on {rows} of them"));
    let value = output::number(summary.objective);
    format!("{}, {value} per row{}", model.options().objective, on.unwrap_or_default())
}

/// What the latent function is.
fn latent_rows(model: &TableModel) -> Vec<Vec<String>> {
    let options = model.options();
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    match &model.latent().layer {
        Layer::Inducing(layer) => {
            vec![row("kernel", options.kernel.clone()), row("inducing inputs", layer.z().nrows().to_string())]
        }
        Layer::Linear(layer) => {
            let count = layer.coefficient_count();
            let intercept = if layer.has_intercept() { ", with the intercept" } else { ", no intercept" };
            let (mean, variance) =
                (output::number(options.prior_mean), output::number(options.prior_variance));
            let scale = if options.standardize { ", on standardised inputs" } else { "" };
            vec![
                row("model", "linear (glm)".to_owned()),
                row("coefficients", format!("{count}{intercept}")),
                row("prior", format!("mean {mean}, variance {variance}{scale}")),
            ]
        }
    }
}

fn features(model: &TableModel) -> Vec<Vec<String>> {
    let describe = |feature: &Feature| match feature {
        Feature::Numeric { name } => vec![format!("  {name}"), "number".to_owned()],
        Feature::Categorical { name, levels } => {
            let first = if model.schema().drops_first() { " (the first makes no input)" } else { "" };
            vec![format!("  {name}"), format!("{} categories: {}{first}", levels.len(), levels.join(", "))]
        }
    };
    model.schema().features().iter().map(describe).collect()
}
