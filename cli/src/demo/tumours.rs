//! The demo's classification: benign or malignant tumours from two measurements.

use super::{Run, fit_to, tested};
use sparsegp::Result;
use sparsegp::options::{FitOptions, ObjectiveKind};
use sparsegp_data::BREAST_CANCER;
use sparsegp_tables::tables::read_csv;

/// Fits both objectives, without a random third of the rows.
pub fn run(quiet: bool) -> Result<Vec<Run>> {
    let table = read_csv("breast_cancer.csv", BREAST_CANCER.as_bytes())?;
    let mut runs = Vec::new();
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
        let options = FitOptions { objective, ..FitOptions::default() };
        let fitted = fit_to(&table, "diagnosis", &options, 1.0 / 3.0, quiet)?;
        runs.push(tested("tumours, malignant or benign", fitted)?);
    }
    Ok(runs)
}
