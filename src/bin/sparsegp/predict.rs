//! `predict`: a model and a data file of any length to a file of predictions, block by block; no fitting.

use super::args::PredictArgs;
use super::output;
use rayon::prelude::*;
use sparsegp::data::{Purpose, generator};
use sparsegp::likelihood::TargetKind;
use sparsegp::model::{Model, Predictions};
use sparsegp::schema::UnseenLevels;
use sparsegp::tables::{
    Column, NamedColumn, PredictedRows, PredictedTable, PredictionWriter, Table, WriterBehind,
};
use sparsegp::tabular::TableModel;
use sparsegp::{Error, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Rows per block: the memory of a prediction, whatever the length of the file.
pub const BLOCK_ROWS: usize = 8192;

/// Rows whose values one thread computes at a time.
const PART_ROWS: usize = 256;

/// The columns of a predictions file besides those of draws.
pub struct PredictedColumns<'a> {
    /// Whose predictions they are.
    pub model: &'a TableModel,
    /// Whether rows are numbered.
    pub row_numbers: bool,
    /// Columns of the data that are copied.
    pub keep: &'a [String],
    /// Whether the latent moments are among them.
    pub latent: bool,
    /// The probabilities of the quantiles.
    pub quantiles: &'a [f64],
    /// Whether there is a target to have a log density.
    pub log_density: bool,
}

impl PredictedColumns<'_> {
    /// Their names in order, given what the copied columns of the first block hold.
    pub fn table(&self, copies: &[NamedColumn]) -> PredictedTable {
        let mut leading = Vec::new();
        leading.extend(self.row_numbers.then(|| ("row".to_owned(), false)));
        leading.extend(self.keep.iter().map(|name| {
            let copy = copies.iter().find(|copy| copy.name == *name);
            (name.clone(), !copy.is_some_and(|copy| matches!(copy.column, Column::Number(_))))
        }));
        leading.extend(self.has_label().then(|| ("label".to_owned(), true)));
        PredictedTable { leading, numbers: self.numbers() }
    }

    fn kind(&self) -> TargetKind {
        self.model.schema().encoding().kind()
    }

    fn has_label(&self) -> bool {
        matches!(self.kind(), TargetKind::Binary | TargetKind::Class | TargetKind::Ordinal)
    }

    /// Whether a mean says more than the probabilities do.
    fn has_mean(&self) -> bool {
        !matches!(self.kind(), TargetKind::Binary | TargetKind::Class)
    }

    fn numbers(&self) -> Vec<String> {
        let levels = self.model.schema().encoding().levels();
        let mut names = Vec::new();
        if self.has_mean() {
            names.extend(["mean".to_owned(), "variance".to_owned()]);
        }
        match self.kind() {
            TargetKind::Binary => names.push("probability".to_owned()),
            _ => names.extend(levels.iter().map(|level| format!("probability_{level}"))),
        }
        if self.latent {
            match self.model.latent().likelihood.joint() {
                None => names.extend(["latent_mean".to_owned(), "latent_variance".to_owned()]),
                Some(joint) => {
                    names.extend(joint.functions().iter().enumerate().flat_map(|(c, function)| {
                        let name = levels.get(c).unwrap_or(function);
                        [format!("latent_mean_{name}"), format!("latent_variance_{name}")]
                    }))
                }
            }
        }
        names.extend(self.quantiles.iter().map(|p| format!("q{p}")));
        names.extend(
            self.model
                .latent()
                .likelihood
                .joint()
                .map_or(&[][..], |joint| joint.details())
                .iter()
                .map(|&name| name.to_owned()),
        );
        if self.log_density {
            names.push("log_density".to_owned());
        }
        names
    }

    /// Adds the numbers of a row; a target that is NaN is not known.
    pub fn values(&self, predictions: &Predictions<'_>, row: usize, target: f64, values: &mut Vec<f64>) {
        let moments = predictions.row(row);
        if self.has_mean() {
            values.extend([moments.mean, moments.variance]);
        }
        match self.kind() {
            TargetKind::Binary => values.push(moments.mean),
            _ => values.extend(predictions.probabilities(row)),
        }
        if self.latent {
            match self.model.latent().likelihood.joint() {
                None => values.extend([moments.latent_mean, moments.latent_variance]),
                Some(joint) => values.extend((0..joint.functions().len()).flat_map(|function| {
                    let (mean, variance) = predictions.latent(row, function);
                    [mean, variance]
                })),
            }
        }
        values.extend(self.quantiles.iter().map(|&p| predictions.quantile(row, p)));
        values.extend(predictions.details(row));
        if self.log_density {
            values.push(predictions.log_density(row, target));
        }
    }

    /// The columns that come first, for rows of these numbers, with copies of columns of the data.
    pub fn leading(
        &self,
        predictions: &Predictions<'_>,
        rows: impl Iterator<Item = u64>,
        copies: &[NamedColumn],
    ) -> Vec<Column> {
        let mut leading = Vec::new();
        if self.row_numbers {
            let numbers = rows.take(predictions.rows());
            leading.push(Column::Number(numbers.map(|row| (row + 1) as f64).collect()));
        }
        leading.extend(copies.iter().map(|copy| copy.column.clone()));
        if self.has_label() {
            let labels: Vec<Option<usize>> =
                (0..predictions.rows()).into_par_iter().map(|row| predictions.most_probable(row)).collect();
            leading.push(Column::of_labels(self.model.schema().encoding().levels(), labels));
        }
        leading
    }
}

/// CSV to standard output, or a file of predictions.
fn writer(out: &Path, table: PredictedTable) -> Result<WriterBehind> {
    if out == Path::new("-") {
        PredictionWriter::stream("standard output", Box::new(output::StandardOutput), table)?.behind()
    } else {
        PredictionWriter::create(out, table)?.behind()
    }
}

/// Missing cells that the mean stands in for although training met none in their column.
#[derive(Default)]
pub struct Filled(BTreeMap<String, usize>);

impl Filled {
    /// Takes in those of a block.
    pub fn add(&mut self, model: &TableModel, block: &Table) {
        for (name, count) in model.schema().silent_gaps(block) {
            *self.0.entry(name.to_owned()).or_default() += count;
        }
    }

    /// Says how many there were, in one line of standard error.
    pub fn tell(&self, data: &Path) {
        const MOST: usize = 5;
        let mut names: Vec<String> =
            self.0.iter().take(MOST).map(|(name, count)| format!("'{name}' ({count})")).collect();
        if self.0.len() > MOST {
            names.push(format!("{} more", self.0.len() - MOST));
        }
        if !names.is_empty() {
            output::note(&format!(
                "warning: {}: cells are missing in columns that had all in training: {}; the mean of training stands in for them",
                data.display(),
                names.join(", ")
            ));
        }
    }
}

/// Runs the command.
pub fn run(args: &PredictArgs) -> Result<()> {
    check(args)?;
    let model = TableModel::load(&args.model)?;
    let unseen = args.unseen.unseen;
    // Draws need all rows together: one block, one row longer than allowed so that longer files are noticed.
    let most = if args.samples > 0 { Model::MOST_JOINT_ROWS + 1 } else { BLOCK_ROWS };
    let blocks = model.schema().open_with(&args.data, most, (args.delimiter, &args.keep))?.or_none();
    let has_target = blocks.names().iter().any(|name| name == model.schema().target_name());
    let columns = PredictedColumns {
        model: &model,
        row_numbers: args.row_numbers,
        keep: &args.keep,
        latent: args.latent,
        quantiles: &args.quantiles,
        log_density: has_target,
    };
    let table = |copies: &[NamedColumn]| -> Result<PredictedTable> {
        let mut table = columns.table(copies);
        table.numbers.extend((0..args.samples).map(|k| format!("sample{k}")));
        table.numbers.extend((0..args.draws).map(|k| format!("draw{k}")));
        check_names(&table)?;
        Ok(table)
    };
    check_names(&table(&[])?)?;
    let (mut out, mut first, mut filled) = (None, 0, Filled::default());
    for block in blocks.ahead()? {
        let block = block?;
        filled.add(&model, &block);
        let mut draws = match args.samples {
            0 => Vec::new(),
            count => model.samples(&block, unseen, count, args.seed)?,
        };
        draws.extend(target_draws(&model, &block, args, first)?);
        let rows = block_rows((&block, first), unseen, &columns, &draws)?;
        let ready = match out {
            Some(out) => out,
            None => writer(&args.out, table(block.copies())?)?,
        };
        out = Some(ready.write_rows(rows)?);
        first += block.rows() as u64;
    }
    filled.tell(&args.data);
    match out {
        Some(out) => out.finish(),
        None => writer(&args.out, table(&[])?)?.finish(),
    }
}

/// Refuses copied columns that are called like a prediction or copied twice.
fn check_names(table: &PredictedTable) -> Result<()> {
    let mut seen = HashSet::new();
    match table.names().find(|name| !seen.insert(*name)) {
        Some(name) => Err(Error::usage(format!("--keep: the predictions have a column {name:?} already"))
            .hint("rename the column in the data, or leave it out")),
        None => Ok(()),
    }
}

/// Draws of the target at the rows of a block that begins at row `first` of the file: one vector per draw. A row's draws
/// depend on the seed and its place alone.
fn target_draws(model: &TableModel, block: &Table, args: &PredictArgs, first: u64) -> Result<Vec<Vec<f64>>> {
    let mut draws = vec![Vec::with_capacity(block.rows()); args.draws];
    if args.draws > 0 {
        let predictions = model.predict(block, args.unseen.unseen)?;
        for row in 0..predictions.rows() {
            let mut random = generator(args.seed, Purpose::Prediction, first + row as u64);
            draws.iter_mut().for_each(|draw| draw.push(predictions.draw(row, &mut random)));
        }
    }
    Ok(draws)
}

fn check(args: &PredictArgs) -> Result<()> {
    if let Some(p) = args.quantiles.iter().find(|p| !(**p > 0.0 && **p < 1.0)) {
        return Err(Error::usage(format!("--quantiles: {p} is not between 0 and 1")));
    }
    let repeated = args.quantiles.iter().enumerate().find(|(i, p)| args.quantiles[..*i].contains(p));
    if let Some((_, p)) = repeated {
        return Err(Error::usage(format!("--quantiles: {p} is given twice")));
    }
    if args.out == Path::new("-") {
        return Ok(());
    }
    output::check_predictions_name(&args.out)?;
    output::check_paths(&[&args.out], &[&args.model, &args.data])
}

/// The predictions of one block, which begins at row `first` of the file.
pub fn block_rows(
    (block, first): (&Table, u64),
    unseen: UnseenLevels,
    columns: &PredictedColumns<'_>,
    draws: &[Vec<f64>],
) -> Result<PredictedRows> {
    let predictions = columns.model.predict(block, unseen)?;
    let targets = columns.model.schema().target_where_known(block)?;
    let width = columns.numbers().len() + draws.len();
    let mut numbers = vec![0.0; predictions.rows() * width];
    let fill = |(part, out): (usize, &mut [f64])| {
        let mut row_values = Vec::with_capacity(width);
        for (offset, out) in out.chunks_exact_mut(width).enumerate() {
            let row = part * PART_ROWS + offset;
            let target = targets.as_ref().map_or(f64::NAN, |targets| targets[row]);
            row_values.clear();
            columns.values(&predictions, row, target, &mut row_values);
            row_values.extend(draws.iter().map(|draw| draw[row]));
            out.copy_from_slice(&row_values);
        }
    };
    numbers.par_chunks_mut(PART_ROWS * width).enumerate().for_each(fill);
    let leading = columns.leading(&predictions, first.., block.copies());
    Ok(PredictedRows { leading, numbers, rows: predictions.rows() })
}
