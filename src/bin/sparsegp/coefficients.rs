//! The coefficients of a linear model as rows of text; no estimates.

use super::output;
use sparsegp::model::Coefficient;
use sparsegp::tabular::TableModel;

/// The most coefficients that are shown on a terminal.
pub const MOST_SHOWN: usize = 40;

/// The coefficients of a linear model as rows of a table with a header, at most `most` of them: then those farthest from 0 in
/// standard deviations come first, and the text beside the table says so. `None` for other models.
pub fn table(model: &TableModel, most: usize) -> Option<(Vec<Vec<String>>, String)> {
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

/// The same as lines of text under a heading; empty for other models.
pub fn text(model: &TableModel) -> String {
    let Some((mut rows, about)) = table(model, MOST_SHOWN) else { return String::new() };
    rows.iter_mut().for_each(|row| row[0].insert_str(0, "  "));
    format!("\n{about}\n{}", output::table(&rows))
}

/// How far from 0, in standard deviations where there are any.
fn evidence(coefficient: &Coefficient) -> f64 {
    coefficient.mean.abs() / coefficient.sd.unwrap_or(1.0)
}

fn row(coefficient: &Coefficient) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), output::number);
    let Coefficient { name, mean, sd, lower, upper } = coefficient;
    vec![name.clone(), output::number(*mean), number(*sd), number(*lower), number(*upper)]
}
