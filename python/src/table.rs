//! Tables of the engine, created from columns of Python.

use crate::convert::{LentMatrix, LentVector, raised};
use numpy::ndarray::Axis;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sparsegp_tables::tables::{Column, NamedColumn, RowNames, Table as Columns, read_csv};
use std::io::Cursor;

/// The number of rows of a matrix that are converted to columns at once.
const ROWS: usize = 256;

/// Named columns of equal length.
#[pyclass(frozen, module = "sparsegp._sparsegp")]
pub struct Table(pub Columns);

/// A column as Python passes it.
#[derive(FromPyObject)]
enum Given<'py> {
    /// Distinct values, and for each row the index of its value, or −1 for a missing cell.
    Coded(Vec<String>, LentVector<'py, i64>),
    /// The kind of the numbers (`number` or `time`, in seconds since 1970), and the numbers.
    Numbers(String, LentVector<'py>),
    /// Cells as a CSV file would have them: whole numbers beyond 2^53, which floats do not hold.
    Cells(Vec<Option<String>>),
}

impl Given<'_> {
    fn column(self) -> PyResult<Column> {
        match self {
            Given::Numbers(kind, numbers) => {
                let numbers = numbers.as_array().to_vec();
                Ok(if kind == "time" { Column::Time(numbers) } else { Column::Number(numbers) })
            }
            Given::Cells(cells) => Ok(Column::from_text(cells.iter().map(Option::as_deref))),
            Given::Coded(levels, codes) => {
                let codes: Vec<Option<usize>> =
                    codes.as_array().iter().map(|&code| usize::try_from(code).ok()).collect();
                if codes.iter().flatten().any(|&code| code >= levels.len()) {
                    return Err(PyValueError::new_err("a code of a category is out of range"));
                }
                Ok(Column::of_labels(&levels, codes))
            }
        }
    }
}

#[pymethods]
impl Table {
    /// Creates a table from columns in their order; messages call it `source`.
    #[staticmethod]
    fn of_columns(source: &str, columns: Vec<(String, Given<'_>)>) -> PyResult<Table> {
        let named = |(name, given): (String, Given<'_>)| Ok(NamedColumn { name, column: given.column()? });
        let columns = columns.into_iter().map(named).collect::<PyResult<_>>()?;
        Columns::new(source, columns).map(Table).map_err(raised)
    }

    /// Creates a table from the columns of a matrix, with these names.
    #[staticmethod]
    fn of_matrix(source: &str, names: Vec<String>, values: LentMatrix<'_>) -> PyResult<Table> {
        let values = values.as_array();
        let mut columns: Vec<Vec<f64>> = names.iter().map(|_| Vec::with_capacity(values.nrows())).collect();
        // Blocks of rows that fit into the cache are read for all columns, because the numbers of a row are
        // adjacent.
        for rows in values.axis_chunks_iter(Axis(0), ROWS) {
            columns.iter_mut().zip(rows.columns()).for_each(|(column, some)| column.extend(some));
        }
        let columns = names.into_iter().zip(columns);
        let columns = columns.map(|(name, values)| NamedColumn { name, column: Column::Number(values) });
        Columns::new(source, columns.collect()).map(Table).map_err(raised)
    }

    /// Reads a Parquet file in memory, as the command line reads a file on disk.
    #[staticmethod]
    fn of_parquet(source: &str, bytes: &Bound<'_, PyBytes>) -> PyResult<Table> {
        read_csv(source, Cursor::new(bytes.as_bytes().to_vec())).map(Table).map_err(raised)
    }

    /// Returns the table with more columns at the end; they replace columns with the same names.
    fn with_columns(&self, other: &Table) -> PyResult<Table> {
        let kept = self.0.columns().iter().filter(|named| other.0.column(&named.name).is_none());
        let columns = kept.chain(other.0.columns()).cloned().collect();
        let all = Columns::new(self.0.source(), columns).map_err(raised)?;
        Ok(Table(all.with_row_names(self.0.row_names().clone())))
    }

    /// Returns the table with another name in messages. Messages name rows by these labels, or by their
    /// numbers from 0.
    #[pyo3(signature = (source, labels=None))]
    fn called(&self, source: &str, labels: Option<Vec<String>>) -> Table {
        let names = labels.map_or(RowNames::FromZero, |labels| RowNames::Labels(labels.into()));
        Table(self.0.clone().called(source).with_row_names(names))
    }

    /// Returns the names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.columns().iter().map(|named| named.name.clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }
}
