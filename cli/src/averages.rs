//! `predict --grid --average`: averages over the cell around each point of a grid.

use sparsegp::Result;
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::{Column, Grid, NamedColumn, PredictedRows, PredictedTable, Table};
use sparsegp_tables::tabular::{TableModel, TableOutputs};

/// The number of cells that are averaged at once.
pub const CELLS: usize = 1024;

pub struct Averages<'a> {
    pub outputs: &'a TableOutputs,
    pub grid: &'a Grid,
    pub parts: usize,
}

impl Averages<'_> {
    /// Averages the cells of a block, which begins at cell `first`.
    pub fn rows(&self, block: &Table, first: u64, unseen: UnseenLevels) -> Result<PredictedRows> {
        let rows = block.rows();
        let of_output = |model: &TableModel| model.averages(self.grid, first, rows, self.parts, unseen);
        let averages = self.outputs.models().map(of_output).collect::<Result<Vec<_>>>()?;
        let of_cell = |cell: usize| averages.iter().flat_map(move |of| [of[cell].mean, of[cell].variance]);
        let leading = block.copies().iter().map(|copy| copy.column.clone()).collect();
        Ok(PredictedRows { leading, numbers: (0..rows).flat_map(of_cell).collect(), rows })
    }

    /// Returns the output columns: the columns of the grid, then mean and variance for every target.
    pub fn table(&self, copies: &[NamedColumn]) -> PredictedTable {
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
