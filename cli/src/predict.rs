//! `predict`: predicts the rows of a data file of any length, block by block, and writes the predictions.

use super::args::{Contents, PredictArgs};
use super::output;
use rayon::prelude::*;
use sparsegp::likelihood::{TargetKind, Task};
use sparsegp::model::{Model, Predictions};
use sparsegp::{Error, Result};
use sparsegp_rasters::{Raster, RasterFormat};
use sparsegp_tables::schema::{UnseenColumn, UnseenLevels};
use sparsegp_tables::tables::{
    Column, Grid, NamedColumn, PredictedRows, PredictedTable, PredictionWriter, Table, WriterBehind,
};
use sparsegp_tables::tabular::{DrawRequest, OutputDraws, TableModel, TableOutputs};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The number of rows per block, which bounds the memory of a prediction for a file of any length.
pub const BLOCK_ROWS: usize = 8192;

const DRAWN_NUMBERS: usize = 1 << 23;

/// The minimum number of rows that one thread computes at a time.
const PART_ROWS: usize = 256;

pub struct PredictedColumns<'a> {
    pub model: &'a TableModel,
    /// True if the moments of the latent function are among the columns.
    pub latent: bool,
    pub quantiles: &'a [f64],
    /// The times of survival probabilities.
    pub survival: &'a [f64],
    /// The times of hazards.
    pub hazard: &'a [f64],
    /// True if the data have the target, so that each row has a log density.
    pub log_density: bool,
    pub drawn: (usize, usize),
}

impl<'a> PredictedColumns<'a> {
    /// Creates the columns for test rows, whose targets are known.
    fn of_test(model: &'a TableModel) -> Self {
        PredictedColumns {
            model,
            latent: true,
            quantiles: &[],
            survival: &[],
            hazard: &[],
            log_density: true,
            drawn: (0, 0),
        }
    }

    fn kind(&self) -> TargetKind {
        self.model.schema().encoding().kind()
    }

    fn has_label(&self) -> bool {
        matches!(self.kind(), TargetKind::Binary | TargetKind::Class | TargetKind::Ordinal)
    }

    /// Returns true if the predictions have a mean and a variance in addition to probabilities.
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
            TargetKind::Binary => {
                names.extend(levels.last().map(|positive| format!("probability_{positive}")))
            }
            _ => names.extend(levels.iter().map(|level| format!("probability_{level}"))),
        }
        let likelihood = &self.model.latent().likelihood;
        if self.latent && likelihood.one().is_some() {
            names.extend(["latent_mean".to_owned(), "latent_variance".to_owned()]);
        } else if self.latent {
            names.extend(likelihood.function_names().iter().enumerate().flat_map(|(c, function)| {
                let name = levels.get(c).unwrap_or(function);
                [format!("latent_mean_{name}"), format!("latent_variance_{name}")]
            }));
        }
        names.extend(self.quantiles.iter().map(|p| format!("q{p}")));
        names.extend(self.survival.iter().map(|t| format!("survival_{t}")));
        names.extend(self.hazard.iter().map(|t| format!("hazard_{t}")));
        names.extend(likelihood.details().iter().map(|&name| name.to_owned()));
        if self.log_density {
            names.push("log_density".to_owned());
        }
        names.extend((0..self.drawn.0).map(|k| format!("sample{k}")));
        names.extend((0..self.drawn.1).map(|k| format!("draw{k}")));
        names
    }

    /// Returns the numbers of a row without draws. NaN marks an unknown target.
    fn values(&self, predictions: &Predictions, row: usize, target: f64) -> Vec<f64> {
        let (moments, mut values) = (predictions.row(row), Vec::new());
        if self.has_mean() {
            values.extend([moments.mean, moments.variance]);
        }
        match self.kind() {
            TargetKind::Binary => values.push(moments.mean),
            _ => values.extend(predictions.probabilities(row)),
        }
        let likelihood = &self.model.latent().likelihood;
        if self.latent && likelihood.one().is_some() {
            values.extend([moments.latent_mean, moments.latent_variance]);
        } else if self.latent {
            values.extend((0..likelihood.functions()).flat_map(|function| {
                let (mean, variance) = predictions.latent(row, function);
                [mean, variance]
            }));
        }
        values.extend(self.quantiles.iter().map(|&p| predictions.quantile(row, p)));
        values.extend(self.survival.iter().map(|&t| predictions.survives(row, t)));
        values.extend(self.hazard.iter().map(|&t| predictions.hazard(row, t)));
        values.extend(predictions.details(row));
        if self.log_density {
            values.push(predictions.log_density(row, target));
        }
        values
    }

    /// Returns the columns of predicted rows, given their targets, if these are known, and draws.
    pub fn rows(
        &self,
        predictions: &Predictions,
        targets: Option<&[f64]>,
        draws: &[Vec<f64>],
    ) -> PredictedRows {
        let rows = predictions.rows();
        let of_row = |row: usize| {
            let target = targets.map_or(f64::NAN, |targets| targets[row]);
            let draws = draws.iter().map(move |draw| draw[row]);
            self.values(predictions, row, target).into_iter().chain(draws)
        };
        let numbers = (0..rows).into_par_iter().with_min_len(PART_ROWS).flat_map_iter(of_row).collect();
        let label = || {
            let labels = (0..rows).into_par_iter().map(|row| predictions.most_probable(row));
            Column::of_labels(self.model.schema().encoding().levels(), labels.collect::<Vec<_>>())
        };
        PredictedRows { leading: self.has_label().then(label).into_iter().collect(), numbers, rows }
    }
}

/// The columns of all outputs side by side. With several outputs, all names except row numbers and copied columns end in the name of the
/// target.
pub struct OutputColumns<'a> {
    pub row_numbers: bool,
    pub keep: &'a [String],
    pub outputs: Vec<PredictedColumns<'a>>,
    /// The outputs for whose pairs the latent covariances are added as columns; `None` without `--covariance`.
    pub covariance: Option<&'a TableOutputs>,
}

impl<'a> OutputColumns<'a> {
    pub fn of_test(models: impl IntoIterator<Item = &'a TableModel>) -> Self {
        let outputs = models.into_iter().map(PredictedColumns::of_test).collect();
        OutputColumns { row_numbers: false, keep: &[], outputs, covariance: None }
    }

    /// Returns the names of the columns in order; `copies` holds the copied columns of the first block.
    pub fn table(&self, copies: &[NamedColumn]) -> PredictedTable {
        let mut all = PredictedTable::default();
        all.leading.extend(self.row_numbers.then(|| ("row".to_owned(), false)));
        all.leading.extend(self.keep.iter().map(|name| {
            let copy = copies.iter().find(|copy| copy.name == *name);
            (name.clone(), !copy.is_some_and(|copy| matches!(copy.column, Column::Number(_))))
        }));
        let several = self.outputs.len() > 1;
        for output in &self.outputs {
            let target = output.model.schema().target_name();
            let named = |name: &str| if several { format!("{name}_{target}") } else { name.to_owned() };
            all.leading.extend(output.has_label().then(|| (named("label"), true)));
            all.numbers.extend(output.numbers().iter().map(|name| named(name)));
        }
        if let Some(outputs) = self.covariance {
            let names: Vec<&str> = outputs.models().map(|model| model.schema().target_name()).collect();
            for (p, name) in names.iter().enumerate() {
                all.numbers.extend(names[p + 1..].iter().map(|other| format!("covariance_{name}_{other}")));
            }
        }
        all
    }

    /// Predicts one block, and appends the draws of each output, if any. `numbers` has the indices of the rows, from 0.
    pub fn rows(
        &self,
        block: &Table,
        numbers: impl Iterator<Item = u64>,
        unseen: UnseenLevels,
        draws: &[Vec<Vec<f64>>],
    ) -> Result<PredictedRows> {
        let of_output = |(index, output): (usize, &PredictedColumns<'_>)| {
            let predictions = output.model.predict(block, unseen)?;
            let targets = output.model.schema().target_where_known(block)?;
            let draws = draws.get(index).map_or(&[][..], |draws| draws);
            Ok(output.rows(&predictions, targets.as_deref(), draws))
        };
        let mut parts = self.outputs.iter().enumerate().map(of_output).collect::<Result<Vec<_>>>()?;
        let rows = block.rows();
        if let Some(outputs) = self.covariance {
            let (all, width) = (outputs.covariances(block, unseen)?, outputs.models().len());
            let pairs = |row| (0..width).flat_map(move |p| (p + 1..width).map(move |other| (row, p, other)));
            let values = (0..rows).flat_map(pairs);
            let values = values.map(|(row, p, other)| all[(row * width + p) * width + other]).collect();
            parts.push(PredictedRows { leading: Vec::new(), numbers: values, rows });
        }
        Ok(self.joined(parts, numbers, block.copies()))
    }

    /// Joins the columns of all outputs, after row numbers and copied columns. `numbers` has the indices of the rows, from 0.
    pub fn joined(
        &self,
        mut parts: Vec<PredictedRows>,
        numbers: impl Iterator<Item = u64>,
        copies: &[NamedColumn],
    ) -> PredictedRows {
        let rows = parts.first().map_or(0, |part| part.rows);
        let mut leading = Vec::new();
        if self.row_numbers {
            leading.push(Column::Number(numbers.take(rows).map(|row| (row + 1) as f64).collect()));
        }
        let kept = copies.iter().filter(|copy| self.keep.contains(&copy.name));
        leading.extend(kept.map(|copy| copy.column.clone()));
        leading.extend(parts.iter_mut().flat_map(|part| std::mem::take(&mut part.leading)));
        let row = |row: usize| {
            parts.iter().flat_map(move |part| {
                let width = part.numbers.len() / rows;
                &part.numbers[row * width..(row + 1) * width]
            })
        };
        PredictedRows { leading, numbers: (0..rows).flat_map(row).copied().collect(), rows }
    }
}

const CELLS: usize = 1024;

/// `--average`: averages over the cell around each point of a grid, each computed from `parts` points in every direction.
struct Averages<'a> {
    outputs: &'a TableOutputs,
    grid: &'a Grid,
    parts: usize,
}

impl Averages<'_> {
    /// Averages the cells of a block, which begins at cell `first`.
    fn rows(&self, block: &Table, first: u64, unseen: UnseenLevels) -> Result<PredictedRows> {
        let rows = block.rows();
        let of_output = |model: &TableModel| model.averages(self.grid, first, rows, self.parts, unseen);
        let averages = self.outputs.models().map(of_output).collect::<Result<Vec<_>>>()?;
        let of_cell = |cell: usize| averages.iter().flat_map(move |of| [of[cell].mean, of[cell].variance]);
        let leading = block.copies().iter().map(|copy| copy.column.clone()).collect();
        Ok(PredictedRows { leading, numbers: (0..rows).flat_map(of_cell).collect(), rows })
    }

    /// Returns the output columns: the columns of the grid, then mean and variance for every target.
    fn table(&self, copies: &[NamedColumn]) -> PredictedTable {
        let is_text = |copy: &NamedColumn| !matches!(copy.column, Column::Number(_));
        let several = self.outputs.models().len() > 1;
        let targets = self.outputs.models().map(|model| model.schema().target_name());
        let suffixes = targets.map(|target| if several { format!("_{target}") } else { String::new() });
        PredictedTable {
            leading: copies.iter().map(|copy| (copy.name.clone(), is_text(copy))).collect(),
            numbers: suffixes.flat_map(|of| [format!("mean{of}"), format!("variance{of}")]).collect(),
            ..PredictedTable::default()
        }
    }
}

/// Creates the writer of predictions, to a file, a raster file, or as CSV to standard output.
pub fn writer(out: &Path, raster: Option<&Raster>, table: PredictedTable) -> Result<WriterBehind> {
    if let Some(raster) = raster {
        raster.create(out, table)?.behind()
    } else if out == Path::new("-") {
        PredictionWriter::stream("standard output", Box::new(output::StandardOutput), table)?.behind()
    } else {
        PredictionWriter::create(out, table)?.behind()
    }
}

/// Refuses probabilities of quantiles that are invalid or repeated; `named` is the option.
pub fn check_quantiles(quantiles: &[f64], named: &str) -> Result<()> {
    if let Some(p) = quantiles.iter().find(|p| !(**p > 0.0 && **p < 1.0)) {
        return Err(Error::usage(format!("{named}: {p} is not between 0 and 1")));
    }
    check_distinct(quantiles, named)
}

fn check_distinct(values: &[f64], named: &str) -> Result<()> {
    match values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
        Some((_, value)) => Err(Error::usage(format!("{named}: {value} is given twice"))),
        None => Ok(()),
    }
}

impl Contents {
    pub fn unseen(&self) -> UnseenLevels {
        if self.population { UnseenLevels::Population } else { self.unseen.unseen }
    }

    /// Refuses probabilities of quantiles and times that are invalid or repeated; `named` spells an option for the user.
    pub fn check(&self, named: &dyn Fn(&str) -> String) -> Result<()> {
        check_quantiles(&self.quantiles, &named("quantiles"))?;
        for (name, times) in [("survival", &self.survival), ("hazard", &self.hazard)] {
            if let Some(time) = times.iter().find(|time| !time.is_finite()) {
                return Err(Error::usage(format!("{}: {time} is not a finite number", named(name))));
            }
            check_distinct(times, &named(name))?;
        }
        Ok(())
    }

    pub fn check_models(&self, outputs: &TableOutputs, named: &dyn Fn(&str) -> String) -> Result<()> {
        let several = outputs.models().len() > 1;
        let grouped = outputs.models().any(|model| !model.schema().groups().is_empty());
        let of_kind = |suits: fn(TargetKind) -> bool| {
            outputs.models().all(|model| suits(model.schema().encoding().kind()))
        };
        let problem = if !self.survival.is_empty() && !of_kind(|kind| !kind.is_of_classes()) {
            ("survival", "needs targets with an order; the model predicts classes")
        } else if !self.hazard.is_empty()
            && !of_kind(|kind| kind.task() == Task::Regression && !kind.has_ends())
        {
            ("hazard", "needs continuous targets")
        } else if self.covariance && !several {
            ("covariance", "needs several outputs; the model has one")
        } else if self.covariance && !outputs.are_mixed() {
            (
                "covariance",
                "needs outputs fitted with --mixing; outputs of separate processes are independent",
            )
        } else if self.population && !grouped {
            ("population", "needs a model fitted with --group; this one was fitted without it")
        } else {
            return Ok(());
        };
        Err(Error::usage(format!("{} {}", named(problem.0), problem.1)))
    }

    /// Returns the columns of all outputs, for data with columns of these names.
    pub fn columns<'a>(&'a self, outputs: &'a TableOutputs, names: &[String]) -> OutputColumns<'a> {
        let of_output = |model: &'a TableModel| PredictedColumns {
            model,
            latent: self.latent,
            quantiles: &self.quantiles,
            survival: &self.survival,
            hazard: &self.hazard,
            log_density: names.iter().any(|name| name == TableModel::schema(model).target_name()),
            drawn: (self.samples, self.draws),
        };
        let (covariance, outputs) = (self.covariance.then_some(outputs), outputs.models().map(of_output));
        OutputColumns { row_numbers: false, keep: &[], outputs: outputs.collect(), covariance }
    }

    /// Predicts a block, which begins at row `first` of the data.
    pub fn rows(
        &self,
        outputs: &TableOutputs,
        columns: &OutputColumns<'_>,
        block: &Table,
        first: u64,
    ) -> Result<PredictedRows> {
        let drawn = self.drawn(outputs, block, first)?;
        columns.rows(block, first.., self.unseen(), &drawn)
    }

    /// Draws the latent functions and the targets of every output at the rows of a block, which begins at row `first` of the data.
    fn drawn(&self, outputs: &TableOutputs, block: &Table, first: u64) -> Result<Vec<OutputDraws>> {
        let mut all = vec![OutputDraws::new(); outputs.models().len()];
        let request = DrawRequest { count: 0, seed: self.seed, first_row: first, unseen: self.unseen() };
        let mut add = |draws: Vec<OutputDraws>| {
            all.iter_mut().zip(draws).for_each(|(all, draws)| all.extend(draws));
        };
        if self.samples > 0 {
            add(outputs.samples(block, &DrawRequest { count: self.samples, ..request })?);
        }
        if self.draws > 0 {
            add(outputs.draws(block, &DrawRequest { count: self.draws, ..request })?);
        }
        Ok(all)
    }
}

/// Counts of cells that training did not see: missing numbers in columns that were complete, and new levels.
#[derive(Default)]
pub struct Unfamiliar {
    filled: BTreeMap<String, usize>,
    levels: Vec<UnseenColumn>,
}

impl Unfamiliar {
    pub fn add(&mut self, model: &TableModel, block: &Table) -> Result<()> {
        for (name, count) in model.schema().silent_gaps(block) {
            *self.filled.entry(name.to_owned()).or_default() += count;
        }
        for found in model.schema().unseen_levels(block)? {
            match self.levels.iter_mut().find(|known| known.column == found.column) {
                Some(known) => known.merge(found),
                None => self.levels.push(found),
            }
        }
        Ok(())
    }

    pub fn tell(&self, data: &Path) {
        for warning in self.warnings(&data.display().to_string()) {
            output::note(&format!("warning: {warning}"));
        }
    }

    /// Returns the warnings about the rows of `source`, one for each kind of cell.
    pub fn warnings(&self, source: &str) -> Vec<String> {
        const MOST: usize = 5;
        let mut warnings = Vec::from_iter(UnseenColumn::told(source, &self.levels));
        if !self.filled.is_empty() {
            let names =
                output::few(self.filled.iter().map(|(name, count)| format!("'{name}' ({count})")), MOST);
            warnings.push(format!(
                "{source}: cells are missing in columns that were complete in training: {names}; the mean of the training rows replaces them"
            ));
        }
        warnings
    }
}

struct Source {
    name: PathBuf,
    names: Vec<String>,
    keep: Vec<String>,
    blocks: Box<dyn Iterator<Item = Result<Table>>>,
}

impl Source {
    /// Opens the data file, or creates the grid, with blocks of at most `most` rows.
    fn of(
        args: &PredictArgs,
        outputs: &TableOutputs,
        raster: Option<&Raster>,
        unseen: UnseenLevels,
        most: usize,
    ) -> Result<Source> {
        if let Some(grid) = &args.grid {
            let averaged = if args.average.is_some() { ", averaged over cells" } else { "" };
            output::note(&format!("grid: {}{averaged}", grid.words()));
            let grid = raster.map_or(grid, Raster::grid);
            let names: Vec<String> = grid.names().map(str::to_owned).collect();
            let blocks = Box::new(grid.clone().blocks(most));
            return Ok(Source { name: "the grid".into(), keep: names.clone(), names, blocks });
        }
        let data = args.data.as_deref().unwrap_or(Path::new("-"));
        let blocks = outputs.open_for(data, most, args.delimiter, &args.keep, unseen)?.or_none();
        let (name, names, keep) = (data.to_owned(), blocks.names().to_vec(), args.keep.clone());
        Ok(Source { name, names, keep, blocks: Box::new(blocks.ahead()?) })
    }
}

pub fn run(args: &PredictArgs) -> Result<()> {
    check(args)?;
    let outputs = TableOutputs::load(&args.model)?;
    let (contents, unseen) = (&args.contents, args.contents.unseen());
    contents.check_models(&outputs, &dashed)?;
    let mut raster = None;
    if let Some(grid) = &args.grid {
        outputs.check_grid(grid, unseen)?;
        raster = Raster::of_models(&args.out, grid, &outputs)?;
    }
    let raster = raster.as_ref();
    let mut averages = None;
    if let (Some(grid), Some(parts)) = (&args.grid, args.average) {
        outputs.models().try_for_each(|model| model.check_averages(grid, parts.into()).map(|_| ()))?;
        let grid = raster.map_or(grid, Raster::grid);
        averages = Some(Averages { outputs: &outputs, grid, parts: parts.into() });
    }
    // Joint draws need all rows in one block. The block may have one row more than allowed, so that longer files are detected.
    let most = match averages {
        Some(_) => CELLS,
        None if contents.samples > 0 => Model::MOST_JOINT_ROWS + 1,
        None => block_rows_of(contents.draws),
    };
    let source = Source::of(args, &outputs, raster, unseen, most)?;
    let mut columns = contents.columns(&outputs, &source.names);
    (columns.row_numbers, columns.keep) = (args.row_numbers, &source.keep);
    let table = |copies: &[NamedColumn]| -> Result<PredictedTable> {
        let table = averages.as_ref().map_or_else(|| columns.table(copies), |all| all.table(copies));
        check_names(&table)?;
        Ok(table.csv_safe(args.csv_safe))
    };
    table(&[])?;
    let (mut out, mut first, mut unfamiliar) = (None, 0, Unfamiliar::default());
    for block in source.blocks {
        let block = block?;
        outputs.models().next().map_or(Ok(()), |model| unfamiliar.add(model, &block))?;
        let rows = match &averages {
            Some(averages) => averages.rows(&block, first, unseen)?,
            None => contents.rows(&outputs, &columns, &block, first)?,
        };
        let ready = match out {
            Some(out) => out,
            None => writer(&args.out, raster, table(block.copies())?)?,
        };
        out = Some(ready.write_rows(rows)?);
        first += block.rows() as u64;
    }
    unfamiliar.tell(&source.name);
    match out {
        Some(out) => out.finish(),
        None => writer(&args.out, raster, table(&[])?)?.finish(),
    }
}

/// Returns the number of rows of a block, which falls with the number of draws to bound the memory.
fn block_rows_of(draws: usize) -> usize {
    BLOCK_ROWS.min(DRAWN_NUMBERS / draws.max(1)).max(1)
}

/// Refuses a copied column that has the name of another column of the output.
fn check_names(table: &PredictedTable) -> Result<()> {
    let mut seen = HashSet::new();
    match table.names().find(|name| !seen.insert(*name)) {
        Some(name) => Err(Error::usage(format!("--keep: the predictions have a column {name:?} already"))
            .hint("rename the column in the data, or leave it out")),
        None => Ok(()),
    }
}

fn dashed(name: &str) -> String {
    output::dashes(name, None)
}

fn check(args: &PredictArgs) -> Result<()> {
    args.contents.check(&dashed)?;
    if args.out == Path::new("-") {
        return Ok(());
    }
    check_format(args)?;
    let data = args.data.as_deref().into_iter();
    output::check_paths(&[&args.out], &data.chain([args.model.as_path()]).collect::<Vec<_>>())
}

/// Refuses a file name of an unknown format, and formats of grids without a grid.
fn check_format(args: &PredictArgs) -> Result<()> {
    let out = args.out.display();
    match (RasterFormat::of(&args.out), &args.grid) {
        (None, None) => output::check_predictions_name(&args.out, ".csv or .parquet"),
        (None, Some(_)) => output::check_predictions_name(&args.out, ".csv, .parquet, .nc or .tif"),
        (Some(_), None) => {
            Err(Error::usage(format!("{out}: NetCDF and GeoTIFF files hold a grid, expected --grid"))
                .hint("predict on a grid, or write the rows of a data file to .csv or .parquet"))
        }
        (Some(_), Some(_)) if args.row_numbers => {
            Err(Error::usage(format!("{out}: NetCDF and GeoTIFF files have no rows to number"))
                .hint("leave --row-numbers out, or write .csv or .parquet"))
        }
        (Some(_), Some(_)) => Ok(()),
    }
}
