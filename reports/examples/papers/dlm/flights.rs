//! The ELBO and DLM on many rows, in mini-batches: figure 8, with departures from New York for the airline data.

use crate::fits::{by_adam, scores};
use crate::paper::prelude::*;
use crate::raw::{Row, Unit};
use crate::sets::{Counts, Rows, Says, Set, set};
use crate::{at_prior, untrained};
use sparsegp_tables::compare::Contender;
use sparsegp_tables::tables::Table;

pub const FLIGHTS: Set = set("flights", TargetKind::Binary, 200, Says::Either, Some("airline"));

pub const ROWS: usize = 200_000;
/// The number of test rows, and the number of their parts, whose scores are recorded as repeats.
pub const TEST: usize = 50_000;
const PARTS: usize = 10;

pub fn units() -> impl Iterator<Item = Unit> {
    [1.0, 0.1, 10.0].into_iter().map(|beta| Unit {
        name: format!("{}, β = {beta}", FLIGHTS.name),
        has: Box::new(move |row| row.set == FLIGHTS.name && row.beta == beta),
        fit: Box::new(move |paper| fit(paper, beta)),
    })
}

/// Fits the objectives with this β. Fixed DLM has the hyper-parameters of the ELBO with the same β.
fn fit(paper: &Paper, beta: f64) -> Result<Vec<Row>> {
    let Some(table) = paper.table(FLIGHTS.name)? else { return Ok(Vec::new()) };
    // The column of the delay determines the target.
    let columns = table.columns().iter().filter(|column| column.name != "delay_minutes").cloned().collect();
    let data = Data::of_table(&Table::new(FLIGHTS.name, columns)?, "y", FLIGHTS.kind)?;
    let counts = Counts { train: ROWS, validation: 0, test: TEST, most: TEST };
    let rows = Rows::of(&data, counts, 0, false);
    let options = FitOptions {
        likelihood: Some(FLIGHTS.likelihood()),
        kernel: "rbf(ard)".into(),
        inducing: Some(FLIGHTS.inducing),
        beta,
        default_priors: false,
        standardize: false,
        learning_rate: 1e-3,
        tolerance: Some(0.0),
        epochs: Some(20),
        ..FitOptions::default()
    };
    let mut model = untrained(&rows.train, &options)?;
    let mut found = Vec::new();
    for objective in [Contender::DlmLog, Contender::Elbo, Contender::DlmLogFixed] {
        let options = FitOptions { objective: objective.objective(), ..options.clone() };
        let options = by_adam(options, 1000, objective == Contender::DlmLogFixed);
        let fitted = rows.train.fit(&options, Some(&at_prior(model.clone())))?;
        for part in 0..PARTS {
            let of_part: Vec<usize> = (0..TEST / PARTS).map(|i| i * PARTS + part).collect();
            let (nll, error) = scores(&fitted.posterior, FLIGHTS.kind, &rows.test.take(&of_part));
            let row = Row::of(FLIGHTS.name, ROWS, part as u64, objective, beta);
            found.push(Row { nll, error, ..row }.of_fit(&fitted));
        }
        if objective == Contender::Elbo {
            model = fitted.model;
        }
    }
    Ok(found)
}
