//! The coefficients of a linear model as rows of text.

use super::{number, table};
use sparsegp::model::Coefficient;
use sparsegp_tables::tabular::TableModel;

/// Returns the coefficients of a linear model as a table with a header, with at most `most` rows. A longer
/// list is cut to the coefficients that are farthest from 0 in standard deviations. The second value is a
/// caption, which mentions the cut. Returns `None` for other models.
pub(crate) fn coefficient_table(model: &TableModel, most: usize) -> Option<(Vec<Vec<String>>, String)> {
    let mut coefficients = model.coefficients()?;
    let all = coefficients.len();
    let units = match model.latent().likelihood.scales_target() {
        true => "in original units",
        false => "per unit of the column, on the scale of the link",
    };
    let mut about = format!("coefficients ({units})");
    if all > most {
        coefficients.sort_by(|a, b| evidence(b).total_cmp(&evidence(a)));
        coefficients.truncate(most);
        about = format!("coefficients ({units}; the {most} of {all} with the largest |mean / sd|)");
    }
    let header = ["coefficient", "mean", "sd", "95 % from", "to"].map(str::to_owned).to_vec();
    Some((std::iter::once(header).chain(coefficients.iter().map(row)).collect(), about))
}

/// Returns the coefficients as lines of text under a heading. If the list is cut, the last line gives the
/// number of other coefficients and ends with `where_all`.
pub fn coefficient_text(model: &TableModel, most: usize, where_all: &str) -> Option<String> {
    let (mut rows, about) = coefficient_table(model, most)?;
    rows.iter_mut().for_each(|row| row[0].insert_str(0, "  "));
    let mut text = format!("{about}\n{}", table(&rows));
    let left = model.coefficients()?.len() + 1 - rows.len();
    if left > 0 {
        text.push_str(&format!("  … {left} more coefficients  {where_all}\n"));
    }
    Some(text)
}

/// Returns the distance from 0, in standard deviations if they are known.
fn evidence(coefficient: &Coefficient) -> f64 {
    coefficient.mean.abs() / coefficient.sd.unwrap_or(1.0)
}

fn row(coefficient: &Coefficient) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let Coefficient { name, mean, sd, lower, upper } = coefficient;
    vec![name.clone(), number(*mean), shown(*sd), shown(*lower), shown(*upper)]
}
