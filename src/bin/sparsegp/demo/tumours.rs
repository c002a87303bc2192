//! The demo's classification: benign or malignant tumours from two measurements, with the decision surface.

use super::{Run, fit_to, tested};
use faer::Mat;
use sparsegp::Result;
use sparsegp::options::{FitOptions, ObjectiveKind};
use sparsegp::report::{Surface, surface};
use sparsegp::tables::{Table, read_csv};
use sparsegp::tabular::TableModel;

const TUMOURS: &str = include_str!("../../../../examples/data/breast_cancer.csv");

/// Cells of the surface along each input.
const CELLS: usize = 50;

/// Both objectives, a third of the rows left out at random.
pub fn run(quiet: bool) -> Result<Vec<Run>> {
    let table = read_csv("breast_cancer.csv", TUMOURS.as_bytes())?;
    let mut runs = Vec::new();
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
        let options = FitOptions { objective, ..FitOptions::default() };
        let fitted = fit_to(&table, "diagnosis", &options, 1.0 / 3.0, quiet)?;
        let mut run = tested("tumours, malignant or benign", fitted)?;
        let caption = "Probability of a malignant tumour, its contour at one half, and all tumours.";
        run.figures.extend(decision(&run.model, &table)?.map(|svg| (svg, caption.to_owned())));
        runs.push(run);
    }
    Ok(runs)
}

/// The probability over the range of both inputs.
fn decision(model: &TableModel, table: &Table) -> Result<Option<String>> {
    let names = model.schema().input_names();
    let [across, up] = [table.numbers(&names[0])?, table.numbers(&names[1])?];
    let range = |values: &[f64]| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    };
    let (x, y) = (range(&across), range(&up));
    let centre =
        |(low, high): (f64, f64), cell: usize| low + (high - low) * (cell as f64 + 0.5) / CELLS as f64;
    let cells = Mat::from_fn(2, CELLS * CELLS, |input, cell| {
        if input == 0 { centre(x, cell % CELLS) } else { centre(y, cell / CELLS) }
    });
    let predictions = model.model().predict(cells.transpose(), &[])?;
    let malignant = model.schema().target(table)?.unwrap_or_default();
    let points = across.iter().zip(up.iter()).zip(&malignant).map(|((&x, &y), &m)| (x, y, m > 0.5));
    Ok(surface(&Surface {
        axes: (names[0].replace('_', " "), names[1].replace('_', " ")),
        x,
        y,
        resolution: (CELLS, CELLS),
        probability: (0..predictions.rows()).map(|row| predictions.row(row).mean).collect(),
        points: points.collect(),
    }))
}
