//! The place of a model in words.

use super::number;
use sparsegp_tables::tabular::TableModel;

/// Returns the columns of the place with its lengthscales, as a row of a name and words. Returns no row for
/// models without places.
pub fn place_rows(model: &TableModel) -> Vec<Vec<String>> {
    let Some((places, _)) = model.schema().place_inputs() else { return Vec::new() };
    let lengthscales: Vec<String> =
        model.place_lengthscales().iter().map(|(_, lengthscale)| number(*lengthscale)).collect();
    let noun = if lengthscales.len() == 1 { "lengthscale" } else { "lengthscales" };
    let mut words = places.columns.join(", ");
    // A kernel may have one lengthscale for all inputs together.
    if !lengthscales.is_empty() {
        words.push_str(&format!(": {noun} {} {}", lengthscales.join(", "), places.surface.unit()));
    }
    vec![vec!["places".to_owned(), words]]
}
