//! `predict`: a model and a data file of any length to a file of predictions, block by block; no fitting.

use super::args::PredictArgs;
use super::output;
use rayon::prelude::*;
use sparsegp::data::{Purpose, generator};
use sparsegp::likelihood::Task;
use sparsegp::model::{Model, Predictions};
use sparsegp::schema::UnseenLevels;
use sparsegp::tables::{PredictionWriter, Table};
use sparsegp::tabular::TableModel;
use sparsegp::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Rows per block: the memory of a prediction, whatever the length of the file.
pub const BLOCK_ROWS: usize = 8192;

/// Rows whose values one thread computes at a time.
const PART_ROWS: usize = 256;

/// The columns of a predictions file besides those of draws.
pub struct PredictedColumns {
    /// Whether the latent moments are among them.
    pub latent: bool,
    /// The probabilities of the quantiles.
    pub quantiles: Vec<f64>,
    /// Whether there is a probability of the positive class.
    pub probability: bool,
    /// Whether there is a target to have a log density.
    pub log_density: bool,
}

impl PredictedColumns {
    /// Their names in order.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec!["mean".to_owned(), "variance".to_owned()];
        if self.latent {
            names.extend(["latent_mean".to_owned(), "latent_variance".to_owned()]);
        }
        names.extend(self.quantiles.iter().map(|p| format!("q{p}")));
        if self.probability {
            names.push("probability".to_owned());
        }
        if self.log_density {
            names.push("log_density".to_owned());
        }
        names
    }

    /// Adds the values of a row; a target that is NaN is not known.
    pub fn values(&self, predictions: &Predictions<'_>, row: usize, target: f64, values: &mut Vec<f64>) {
        let moments = predictions.row(row);
        values.extend([moments.mean, moments.variance]);
        if self.latent {
            values.extend([moments.latent_mean, moments.latent_variance]);
        }
        values.extend(self.quantiles.iter().map(|&p| predictions.quantile(row, p)));
        if self.probability {
            values.push(moments.mean);
        }
        if self.log_density {
            values.push(predictions.log_density(row, target));
        }
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
    let blocks = model.schema().open_with(&args.data, most, args.delimiter)?;
    let has_target = blocks.names().iter().any(|name| name == model.schema().target_name());
    let columns = PredictedColumns {
        latent: args.latent,
        quantiles: args.quantiles.clone(),
        probability: model.task() == Task::Classification,
        log_density: has_target,
    };
    let mut names = columns.names();
    names.extend((0..args.samples).map(|k| format!("sample{k}")));
    names.extend((0..args.draws).map(|k| format!("draw{k}")));
    let mut writer = PredictionWriter::create(&args.out, &names)?.behind()?;
    let mut first = 0;
    let mut filled = Filled::default();
    for block in blocks.ahead()? {
        let block = block?;
        filled.add(&model, &block);
        let mut draws = match args.samples {
            0 => Vec::new(),
            count => model.samples(&block, unseen, count, args.seed)?,
        };
        draws.extend(target_draws(&model, &block, args, first)?);
        writer = writer.write_rows(block_values(&model, &block, unseen, &columns, &draws)?)?;
        first += block.rows() as u64;
    }
    filled.tell(&args.data);
    writer.finish()
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
    output::check_predictions_name(&args.out)?;
    output::check_paths(&[&args.out], &[&args.model, &args.data])
}

/// The values of the predictions of one block, row after row.
pub fn block_values(
    model: &TableModel,
    block: &Table,
    unseen: UnseenLevels,
    columns: &PredictedColumns,
    draws: &[Vec<f64>],
) -> Result<Vec<f64>> {
    let predictions = model.predict(block, unseen)?;
    let targets = model.schema().target_where_known(block)?;
    let width = columns.names().len() + draws.len();
    let mut values = vec![0.0; predictions.rows() * width];
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
    values.par_chunks_mut(PART_ROWS * width).enumerate().for_each(fill);
    Ok(values)
}
