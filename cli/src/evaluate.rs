//! The command `evaluate`, and the scores of a model on the rows of a data file of any length.

use super::args::EvaluateArgs;
use super::output;
use super::predict::{BLOCK_ROWS, Unfamiliar};
use serde_json::{Map, Value, json};
use sparsegp::files::AtomicFile;
use sparsegp::{Error, Result};
use sparsegp_reports::{DataSummary, Document, Evaluation, Evaluator, words};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tabular::{Baselines, TableModel, TableOutputs};
use std::path::Path;

/// Compares the predictions of a model and of baselines with the targets in a file.
pub fn evaluate(
    model: &TableModel,
    baselines: Option<&Baselines>,
    data: &Path,
    delimiter: Option<u8>,
    unseen: UnseenLevels,
) -> Result<Evaluation> {
    let (mut unfamiliar, mut all, mut used) = (Unfamiliar::default(), 0, 0);
    let target = model.schema().target_name();
    let mut evaluator = Evaluator::new(model, baselines).keeping_rows();
    for block in model.schema().open_with(data, BLOCK_ROWS, delimiter, &[])?.ahead()? {
        let block = block?;
        let labelled = block.with_values(target);
        (all, used) = (all + block.rows(), used + labelled.rows());
        unfamiliar.add(model, &labelled)?;
        evaluator.push_table(&labelled, unseen)?;
    }
    let name = data.display();
    if used == 0 {
        return Err(Error::data(format!("{name}: no row has a value of the target '{target}'"))
            .hint("predict needs no target"));
    }
    if used < all {
        output::note(&format!(
            "warning: {name}: {} of {all} rows have no target '{target}'; they are left out",
            all - used
        ));
    }
    unfamiliar.tell(data);
    Ok(evaluator.finish())
}

pub fn run(args: &EvaluateArgs) -> Result<()> {
    output::check_paths(args.metrics.as_slice(), &[&args.model, &args.data])?;
    let models = TableOutputs::load(&args.model)?;
    output::check_readable(&args.data, &models)?;
    let of_model = |model| of_model(args, model);
    let of_models = models.models().map(of_model).collect::<Result<Vec<_>>>()?;
    let documents: Vec<&Document<'_>> = of_models.iter().map(|(document, _)| document).collect();
    let json = documents_text("evaluate", &documents);
    if let Some(path) = &args.metrics {
        AtomicFile::write_all_to(path, json.as_bytes())?;
    }
    if args.json {
        return output::print(&json);
    }
    let several = of_models.len() > 1;
    of_models.iter().try_for_each(|(document, text)| {
        let head = if several { format!("{}\n", document.target()) } else { String::new() };
        output::print(&format!("{head}{text}"))
    })
}

/// Returns the metrics document as text. With several targets the text is an object that holds a document for each target.
pub fn documents_text(command: &str, documents: &[&Document<'_>]) -> String {
    if let [document] = documents {
        return document.to_json();
    }
    let of_target = |document: &&Document<'_>| {
        let value: Value = serde_json::from_str(&document.to_json()).unwrap_or_default();
        (document.target().to_owned(), value)
    };
    let outputs: Map<String, Value> = documents.iter().map(of_target).collect();
    format!("{:#}\n", json!({ "command": command, "outputs": outputs }))
}

/// Returns the metrics document of one target, and the text that `evaluate` prints about it.
fn of_model<'a>(args: &EvaluateArgs, model: &'a TableModel) -> Result<(Document<'a>, String)> {
    let Evaluation { rows, report, .. } =
        evaluate(model, None, &args.data, args.delimiter, args.unseen.unseen)?;
    let data = DataSummary { rows, train: 0, test: rows, ..DataSummary::of(model) };
    let mut document = Document::new("evaluate", model, data, &output::dashes);
    document.test = Some(report.clone());
    let mut table = vec![words::row("rows", rows.to_string())];
    table.extend(output::report_rows(&report).into_iter().map(|(name, value)| vec![name, value]));
    let mut text = output::table(&table);
    let confusion = words::confusion_table(&report, model.schema().encoding().levels());
    if !confusion.is_empty() {
        text.push_str("\nconfusion matrix (rows: true, columns: predicted)\n");
        text.push_str(&output::table(&confusion));
    }
    Ok((document, text))
}
