//! `update`: adds new rows to a model, and scores the model on these rows before and after.

use super::args::UpdateArgs;
use super::predict::Unfamiliar;
use super::{interruption, output};
use serde_json::{Map, Value, json};
use sparsegp::Result;
use sparsegp::hyper::{Event, Session};
use sparsegp::metrics::Report;
use sparsegp_reports::Evaluation;
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::{Table, read_table_with};
use sparsegp_tables::tabular::{TableModel, TableOutputs};

pub fn run(args: &UpdateArgs) -> Result<()> {
    output::check_paths(&[&args.model_out], &[&args.data])?;
    let models = TableOutputs::load(&args.model)?;
    let missing = models.models().next().map(|model| model.schema().missing_values().to_vec());
    let table = read_table_with(&args.data, args.delimiter, &missing.unwrap_or_default())?;
    let mut unfamiliar = Unfamiliar::default();
    models.models().next().map_or(Ok(()), |model| unfamiliar.add(model, &table))?;
    unfamiliar.tell(&args.data);
    let mut quiet = |_: &Event| {};
    let mut session = Session::new(&mut quiet).with_interrupt(interruption::flag());
    let updated = models.updated(&table, args.forget, &mut session)?;
    let pairs = models.models().zip(updated.models());
    let of_targets = pairs.map(|(old, new)| Updated::of(old, new, &table)).collect::<Result<Vec<_>>>()?;
    // The output may replace the model file, so it is written last, after everything that can fail.
    updated.save(&args.model_out)?;
    let several = of_targets.len() > 1;
    for (old, new) in models.models().zip(updated.models()) {
        let warnings = &new.summary().warnings[old.summary().warnings.len()..];
        output::warn(warnings, new.schema().target_name(), several);
    }
    if args.json {
        return output::print(&document(args, &of_targets));
    }
    of_targets.iter().try_for_each(|updated| output::print(&updated.text(several)))?;
    output::print(&format!("written to {}\n", args.model_out.display()))
}

/// The result of an update.
struct Updated {
    target: String,
    /// The number of new rows with a target, and the number of training rows before the update.
    rows: (u64, usize),
    before: Report,
    after: Report,
}

impl Updated {
    fn of(old: &TableModel, new: &TableModel, table: &Table) -> Result<Updated> {
        let figures = |model| Evaluation::of_table(model, None, table, UnseenLevels::New);
        let (before, after) = (figures(old)?, figures(new)?);
        Ok(Updated {
            target: old.schema().target_name().to_owned(),
            rows: (before.rows, old.training_rows()),
            before: before.report,
            after: after.report,
        })
    }

    fn text(&self, several: bool) -> String {
        let (new, old) = self.rows;
        let head = if several { format!("{}\n", self.target) } else { String::new() };
        let mut table = vec![["figures of the new rows", "before", "after"].map(str::to_owned).to_vec()];
        let pairs = output::report_rows(&self.before).into_iter().zip(output::report_rows(&self.after));
        table.extend(pairs.map(|((name, before), (_, after))| vec![name, before, after]));
        format!("{head}{new} new rows on top of {old}\n{}", output::table(&table))
    }
}

fn document(args: &UpdateArgs, updated: &[Updated]) -> String {
    let of_target = |one: &Updated| {
        let (new, old) = one.rows;
        json!({ "rows": new, "rows_before": old, "before": one.before, "after": one.after })
    };
    let outputs: Map<String, Value> =
        updated.iter().map(|one| (one.target.clone(), of_target(one))).collect();
    let (model, forget) = (&args.model_out, args.forget);
    format!("{:#}\n", json!({ "command": "update", "model": model, "forget": forget, "outputs": outputs }))
}
