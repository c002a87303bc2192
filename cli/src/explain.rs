//! `explain`: tables and a report about what the predictions of a saved model depend on.

use super::args::{DEFAULT_ROWS, ExplainArgs};
use super::predict::{BLOCK_ROWS, Unfamiliar};
use super::{output, page};
use sparsegp::files::AtomicFile;
use sparsegp::{Error, Result};
use sparsegp_reports::{Explained, ExplainedRow, KeptRows, explained_page};
use sparsegp_tables::explain::Settings;
use sparsegp_tables::tabular::{TableModel, TableOutputs};
use std::path::PathBuf;

const WIDTH: usize = 100;

const PARTS: usize = 4;

const DEPENDENCES: usize = 10;

pub fn run(args: &ExplainArgs) -> Result<()> {
    for folder in args.out.iter().chain(&args.plots) {
        page::check_folder(folder)?;
    }
    let names = ["relevance.csv", "dependence.csv", "contributions.csv"];
    let files = args.out.iter().flat_map(|folder| names.map(|name| folder.join(name)));
    let files: Vec<PathBuf> = files.chain(args.report.clone()).collect();
    output::check_paths(&files, &[&args.model, &args.data])?;
    let models = TableOutputs::load(&args.model)?;
    output::check_readable(&args.data, &models)?;
    let read = models.models().map(|model| read(args, model)).collect::<Result<Vec<_>>>()?;
    let settings =
        Settings { columns: args.columns, orders: args.orders, seed: args.seed, ..Settings::default() };
    let explained: Vec<Explained<'_>> = models
        .models()
        .zip(&read)
        .map(|(model, (kept, rows))| {
            Explained::of((model, kept, Some("rows of the data")), rows, DEPENDENCES, &settings)
        })
        .collect();
    if let Some(folder) = &args.out {
        for (name, text) in Explained::files(&explained, args.csv_safe)? {
            AtomicFile::write_all_to(&folder.join(name), text.as_bytes())?;
        }
    }
    if args.report.is_some() || args.plots.is_some() {
        let title = format!("What the predictions of {} depend on", args.model.display());
        let page = explained_page(&title, &explained, &page::command());
        page::write(&page, args.report.as_deref(), args.plots.as_deref())?;
    }
    explained.iter().try_for_each(show)
}

fn read(args: &ExplainArgs, model: &TableModel) -> Result<(KeptRows, Vec<ExplainedRow>)> {
    let (mut kept, mut rows, mut unfamiliar) = (KeptRows::new(model), Vec::new(), Unfamiliar::default());
    let (schema, unseen) = (model.schema(), args.unseen.unseen);
    let mut count = 0;
    for block in schema.open_with(&args.data, BLOCK_ROWS, args.delimiter, &[])?.ahead()? {
        let block = block?;
        unfamiliar.add(model, &block)?;
        kept.push_table(model, &block, unseen)?;
        let here = count..count + block.rows() as u64;
        let wanted: Vec<u64> =
            args.rows.0.iter().copied().filter(|number| here.contains(&(number - 1))).collect();
        if !wanted.is_empty() {
            let places: Vec<usize> = wanted.iter().map(|number| (number - 1 - count) as usize).collect();
            let part = block.take(&places);
            let (inputs, exposure) = (schema.design(&part, unseen)?, schema.exposure(&part)?);
            rows.extend(wanted.into_iter().enumerate().map(|(row, number)| ExplainedRow {
                number,
                inputs: inputs.row(row).iter().copied().collect(),
                exposure: exposure.as_ref().map_or(1.0, |exposure| exposure[row]),
            }));
        }
        count = here.end;
    }
    let name = args.data.display();
    if count == 0 {
        return Err(Error::data(format!("{name}: has no rows, expected at least one row to explain")));
    }
    // The default range may end after the last row.
    let last = args.rows.0.last().copied().filter(|&last| last > count && last > DEFAULT_ROWS);
    if let Some(last) = last {
        return Err(Error::usage(format!("--rows names row {last}, but {name} has {count} rows")));
    }
    unfamiliar.tell(&args.data);
    Ok((kept, rows))
}

/// Prints the ten most relevant columns, the meaning of the figures, and the contributions to the rows of `--rows`.
fn show(explained: &Explained<'_>) -> Result<()> {
    const SHOWN: usize = 10;
    let table = explained.relevance_table();
    let short = |cell: &String| cell.parse().map_or_else(|_| cell.clone(), output::number);
    let more = table.len().saturating_sub(SHOWN + 1);
    let rows: Vec<Vec<String>> = table
        .iter()
        .take(SHOWN + 1)
        .map(|row| [vec![row[1].clone()], row[2..].iter().map(short).collect()].concat())
        .collect();
    let note = if more > 0 { format!("… {more} more columns\n") } else { String::new() };
    let target = table.get(1).map_or("", |row| &row[0]);
    let about = output::table(&output::wrapped(&explained.legend(), WIDTH));
    let parts = explained.contribution_lines(PARTS);
    let parts = output::table(&output::wrapped(&parts, WIDTH));
    output::print(&format!("{target}\n{}{note}{about}{parts}", output::table(&rows)))
}
