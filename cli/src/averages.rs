//! `predict --grid --average`: averages over the cells of a grid, block by block.

use super::args::PredictArgs;
use super::{output, predict};
use sparsegp::Result;
use sparsegp_rasters::Raster;
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::{Column, Grid, NamedColumn, PredictedRows, PredictedTable};
use sparsegp_tables::tabular::{TableModel, TableOutputs};

/// The number of cells that are averaged at once.
const CELLS: usize = 1024;

/// Writes the average over the cell around each point of a grid, computed from `parts` points in every direction.
pub fn run(
    args: &PredictArgs,
    outputs: &TableOutputs,
    grid: &Grid,
    raster: Option<&Raster>,
    parts: usize,
    unseen: UnseenLevels,
) -> Result<()> {
    outputs.models().try_for_each(|model| model.check_averages(grid, parts).map(|_| ()))?;
    output::note(&format!("grid: {}, averaged over cells", grid.words()));
    let grid = raster.map_or(grid, Raster::grid);
    let (mut out, mut first) = (None, 0);
    for block in grid.clone().blocks(CELLS) {
        let (block, cells) = block.map(|block| (block.copies().to_vec(), block.rows()))?;
        let of_output = |model: &TableModel| model.averages(grid, first, cells, parts, unseen);
        let averages = outputs.models().map(of_output).collect::<Result<Vec<_>>>()?;
        let of_cell = |cell: usize| averages.iter().flat_map(move |of| [of[cell].mean, of[cell].variance]);
        let numbers = (0..cells).flat_map(of_cell).collect();
        let ready = match out {
            Some(out) => out,
            None => predict::writer(&args.out, raster, columns(args, outputs, &block))?,
        };
        let leading = block.into_iter().map(|copy| copy.column).collect();
        out = Some(ready.write_rows(PredictedRows { leading, numbers, rows: cells })?);
        first += cells as u64;
    }
    out.map_or(Ok(()), |out| out.finish())
}

/// Returns the output columns: those of the grid, then mean and variance for every target.
fn columns(args: &PredictArgs, outputs: &TableOutputs, copies: &[NamedColumn]) -> PredictedTable {
    let is_text = |copy: &NamedColumn| !matches!(copy.column, Column::Number(_));
    let suffix = |target: &str| if outputs.models().len() > 1 { format!("_{target}") } else { String::new() };
    let targets = outputs.models().map(|model| suffix(model.schema().target_name()));
    PredictedTable {
        leading: copies.iter().map(|copy| (copy.name.clone(), is_text(copy))).collect(),
        numbers: targets.flat_map(|target| [format!("mean{target}"), format!("variance{target}")]).collect(),
        csv_safe: args.csv_safe,
    }
}
