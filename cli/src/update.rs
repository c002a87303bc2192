//! `update`: adds new rows to a model, and scores the model on these rows before and after.

use super::args::UpdateArgs;
use super::predict::Unfamiliar;
use super::{interruption, output};
use serde_json::{Map, Value, json};
use sparsegp::Result;
use sparsegp::hyper::{Event, Session};
use sparsegp_reports::Evaluation;
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::{Table, read_table_with};
use sparsegp_tables::tabular::{TableModel, TableOutputs};

pub fn run(args: &UpdateArgs) -> Result<()> {
    output::check_paths(&[&args.model_out], &[&args.data])?;
    let models = TableOutputs::load(&args.model)?;
    let missing = models.models().next().map(|model| model.schema().missing_values().to_vec());
    let table = read_table_with(&args.data, args.delimiter, &missing.unwrap_or_default())?;
    let table = table.with_interval(models.models().find_map(|model| model.schema().interval()));
    let mut unfamiliar = Unfamiliar::default();
    models.models().next().map_or(Ok(()), |model| unfamiliar.add(model, &table))?;
    unfamiliar.tell(&args.data);
    let mut quiet = |_: &Event| {};
    let mut session = Session::new(&mut quiet).with_interrupt(interruption::flag());
    let updated = models.updated(&table, args.forget, &mut session)?;
    let several = models.models().len() > 1;
    let (mut outputs, mut texts) = (Map::new(), String::new());
    for (old, new) in models.models().zip(updated.models()) {
        let (target, (scores, text)) = (old.schema().target_name(), scores(old, new, &table)?);
        texts.push_str(&if several { format!("{target}\n{text}") } else { text });
        outputs.insert(target.to_owned(), scores);
    }
    // The output may replace the model file, so it is written last, after everything that can fail.
    updated.save(&args.model_out)?;
    for (old, new) in models.models().zip(updated.models()) {
        let warnings = &new.summary().warnings[old.summary().warnings.len()..];
        output::warn(warnings, new.schema().target_name(), several);
    }
    let (model, forget) = (&args.model_out, args.forget);
    if args.json {
        let document = json!({ "command": "update", "model": model, "forget": forget, "outputs": outputs });
        return output::print(&format!("{document:#}\n"));
    }
    output::print(&format!("{texts}written to {}\n", model.display()))
}

/// Returns the scores of the new rows before and after the update of a model, as JSON and as text.
fn scores(old: &TableModel, new: &TableModel, table: &Table) -> Result<(Value, String)> {
    let figures = |model| Evaluation::of_table(model, None, table, UnseenLevels::New);
    let (before, after) = (figures(old)?, figures(new)?);
    let (rows, known) = (before.rows, old.training_rows());
    let mut cells = vec![["figures of the new rows", "before", "after"].map(str::to_owned).to_vec()];
    let pairs = output::report_rows(&before.report).into_iter().zip(output::report_rows(&after.report));
    cells.extend(pairs.map(|((name, before), (_, after))| vec![name, before, after]));
    let text = format!("{rows} new rows on top of {known}\n{}", output::table(&cells));
    let (before, after) = (before.report, after.report);
    Ok((json!({ "rows": rows, "rows_before": known, "before": before, "after": after }), text))
}
