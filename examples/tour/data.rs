//! Tables of the embedded data sets, with every fifth row held out.

use sparsegp::faer::Mat;
use sparsegp::prelude::*;

/// Rows of inputs and their targets.
pub struct Part {
    pub x: Mat<f64>,
    pub y: Vec<f64>,
}

/// Reads a table whose last column is the target; `target` turns its text into a number. Returns training and test rows.
pub fn split(csv: &str, target: impl Fn(&str) -> f64) -> Result<(Part, Part)> {
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (i, line) in csv.lines().skip(1).enumerate() {
        let (inputs, y) = line.rsplit_once(',').ok_or_else(|| Error::data("found a line of one column"))?;
        let inputs: Vec<f64> = inputs.split(',').map(number).collect();
        if i % 5 == 0 { &mut test } else { &mut train }.push((inputs, target(y)));
    }
    Ok((part(&train)?, part(&test)?))
}

/// The number that a text holds, or NaN, which fits refuse with its row and column.
pub fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

fn part(rows: &[(Vec<f64>, f64)]) -> Result<Part> {
    let columns = rows.first().map_or(0, |(inputs, _)| inputs.len());
    let numbers = rows.iter().flat_map(|(inputs, _)| inputs).copied().collect::<Vec<_>>();
    Ok(Part {
        x: Rows::from_row_major(&numbers, columns)?.into_mat(),
        y: rows.iter().map(|(_, y)| *y).collect(),
    })
}
