//! `inspect`: the contents of a model file, as text or as JSON; and `effects`: its grouped effects as a table.

use super::args::{EffectsArgs, InspectArgs};
use super::evaluate::documents_text;
use super::{output, predict};
use sparsegp::Result;
use sparsegp_reports::words::{self, parameters};
use sparsegp_reports::{DataSummary, Document};
use sparsegp_tables::schema::{Feature, FeatureKind, Surface};
use sparsegp_tables::tabular::{TableModel, TableOutputs};
use std::path::Path;

pub fn run(args: &InspectArgs) -> Result<()> {
    let models = TableOutputs::load(&args.model)?;
    if args.json {
        return output::print(&json(&models));
    }
    let texts: Vec<String> = models.models().map(|model| text(args, model)).collect();
    output::print(&texts.join("\n"))
}

pub fn json(models: &TableOutputs) -> String {
    let documents: Vec<Document<'_>> = models.models().map(document).collect();
    documents_text("inspect", &documents.iter().collect::<Vec<_>>())
}

fn document(model: &TableModel) -> Document<'_> {
    Document::new("inspect", model, DataSummary::of(model), &output::dashes)
        .with_config("program_version", model.program())
        .with_config("input_names", model.schema().input_names())
        .with_config("inputs", serde_json::to_value(model.schema().features()).unwrap_or_default())
}

fn text(args: &InspectArgs, model: &TableModel) -> String {
    let mut text = output::table(&words::overview(model, &output::dashes));
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
    if let Some(coefficients) = words::coefficient_text(model, most, &where_all) {
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

/// Returns a note with the command that shows all parameters of a model file.
pub fn where_all(path: &Path) -> String {
    format!("all: sparsegp inspect {} --all", path.display())
}

fn features(model: &TableModel) -> Vec<Vec<String>> {
    let describe = |feature: &Feature| {
        let or_missing = if feature.tells_missing() { ", or missing" } else { "" };
        let words = match &feature.kind {
            FeatureKind::Date { .. } => format!("date{or_missing}"),
            FeatureKind::Place { places, .. } => match places.surface {
                Surface::Sphere => format!("place: longitude and latitude in degrees{or_missing}"),
                Surface::Plane => format!("place: coordinates in a plane{or_missing}"),
            },
            FeatureKind::Numeric => format!("number{or_missing}"),
            FeatureKind::Trees { scores } => {
                let rounds: Vec<String> =
                    scores.forests().iter().map(|forest| forest.rounds().to_string()).collect();
                let folds = scores.forests()[0].folds();
                format!(
                    "scores of boosted trees on the other inputs ({} rounds, {folds} folds)",
                    rounds.join(", ")
                )
            }
            FeatureKind::Categorical { levels, .. } => {
                let first = if model.schema().drops_first() { " (the first has no input)" } else { "" };
                let missing = if feature.missing { ", and one of missing cells" } else { "" };
                format!("{} categories: {}{missing}{first}", levels.len(), levels.join(", "))
            }
        };
        vec![format!("  {}", feature.name), words]
    };
    model.schema().features().iter().map(describe).collect()
}

/// Writes the grouped effects of a saved model, one row per level and effect.
pub fn effects(args: &EffectsArgs) -> Result<()> {
    let to_file = args.out != Path::new("-");
    if to_file {
        output::check_paths(&[&args.out], &[&args.model])?;
    }
    let (table, rows) = TableOutputs::load(&args.model)?.effects_table()?;
    predict::writer(&args.out, None, table)?.write_rows(rows)?.finish()
}
