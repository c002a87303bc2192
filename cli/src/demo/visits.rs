//! The demo's counts: yearly visits to a doctor, predicted from insurance, income and health.

use super::{Run, fit_to, tested};
use sparsegp::Result;
use sparsegp::options::{FitOptions, ObjectiveKind};
use sparsegp_data::DOCTOR_VISITS;
use sparsegp_tables::tables::read_csv;

/// Fits both objectives, without a random fifth of the rows.
pub fn run(quiet: bool) -> Result<Vec<Run>> {
    let table = read_csv("doctor_visits.csv", DOCTOR_VISITS.as_bytes())?;
    let fit = |objective| {
        let options = FitOptions { objective, inducing: Some(100), ..FitOptions::default() };
        tested("visits to a doctor in a year", fit_to(&table, "visits", &options, 0.2, quiet)?)
    };
    [ObjectiveKind::Elbo, ObjectiveKind::DlmLog].into_iter().map(fit).collect()
}
