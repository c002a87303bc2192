//! What several files of these tests use: the items of the crates, and helpers for tables, fits and model files.

pub use faer::{Mat, MatRef};
pub use proptest::prelude::*;
pub use rand::SeedableRng;
pub use rand_chacha::ChaCha8Rng;
pub use sparsegp::ErrorKind;
pub use sparsegp::kernels::{Dimension, Grammar, Kernel, Make, Stationary, parse};
pub use sparsegp::{
    collapsed::*, data::*, hyper::*, latent::*, likelihood::*, model::*, objective::*, options::*,
    training::*, variational::*,
};
pub use sparsegp_tables::{explain::*, schema::*, tables::*, tabular::*};
pub use sparsegp_testkit::{compare::*, dense::*, problems::*};

pub fn csv(text: impl Into<String>) -> Table {
    read_csv("f.csv", std::io::Cursor::new(text.into())).expect("a table")
}

pub fn numbers<N: Into<String>>(columns: impl IntoIterator<Item = (N, Vec<f64>)>) -> Table {
    let named = |(name, values): (N, _)| NamedColumn { name: name.into(), column: Column::Number(values) };
    Table::new("f.csv", columns.into_iter().map(named).collect()).expect("a table")
}

pub fn target(name: &str) -> SchemaOptions {
    SchemaOptions { target: name.to_owned(), ..SchemaOptions::default() }
}

pub fn fit(table: &Table, columns: &SchemaOptions, options: &FitOptions) -> sparsegp::Result<TableModel> {
    fit_from(table, columns, options, None)
}

/// Fits a model to all rows of a table, from a saved model.
pub fn fit_from(
    table: &Table,
    columns: &SchemaOptions,
    options: &FitOptions,
    start: Option<&TableModel>,
) -> sparsegp::Result<TableModel> {
    let request = FitRequest { start, ..FitRequest::new(table, columns, options) };
    fit_table(&request, &mut |_| {}).map(|fit| fit.model)
}

/// Returns the bits of the predictions of all rows, so that NaN equals NaN.
pub fn predicted(model: &TableModel, table: &Table) -> Vec<[u64; 6]> {
    let predictions = model.predict(table, UnseenLevels::Error).expect("predictions");
    let of_row = |row| {
        let p = predictions.row(row);
        let (quantile, density) = (predictions.quantile(row, 0.1), predictions.log_density(row, 1.0));
        [p.mean, p.variance, p.latent_mean, p.latent_variance, quantile, density].map(f64::to_bits)
    };
    (0..table.rows()).map(of_row).collect()
}

/// Writes a model and reads it, and checks that the copy equals the model to the last bit.
pub fn read_back(model: &TableModel, table: &Table) -> TableModel {
    let bytes = model.to_bytes().expect("bytes");
    let read = TableModel::from_bytes("m", &bytes).expect("a model");
    assert_eq!(predicted(model, table), predicted(&read, table));
    if !model.mean_only() {
        let draws = |model: &TableModel| model.samples(table, UnseenLevels::Error, 2, 5).expect("draws");
        assert_eq!(draws(model), draws(&read));
    }
    assert_eq!((model.options(), model.summary()), (read.options(), read.summary()));
    assert_eq!(model.hyperparameters(), read.hyperparameters());
    assert_eq!(model.coefficients(), read.coefficients());
    assert_eq!(model.in_units(), read.in_units());
    assert_eq!(model.schema(), read.schema());
    let (q, copy) = (model.q(), read.q());
    assert_eq!((q.family(), q.mean()), (copy.family(), copy.mean()));
    assert_eq!(q.cov().to_dense(), copy.cov().to_dense());
    assert_eq!(q.log_det(), copy.log_det());
    // Except for the order of the metadata, the file of the copy equals the original.
    assert_eq!(read.to_bytes().expect("bytes").len(), bytes.len());
    read
}
