//! How far Monte Carlo gradients of the predictive log loss are from the exact one, and what a step costs, at the start of a fit to counts.
//!
//! `cargo run --release --example estimator_bias -- [DATA.csv TARGET] [--runs N]`; the embedded visits to a doctor by
//! default. For every estimator the gradients in the mean and in the covariance of q are averaged over runs; the table shows the
//! distance of the averages from the exact gradients and the standard error in the mean, relative to the size of the exact gradients, and
//! the time of an evaluation of all rows, features included.

use sparsegp::data::Scaling;
use sparsegp::gradient::Batch;
use sparsegp::kernels::parse;
use sparsegp::latent::{InducingInit, InducingPrior, Jitter, choose_inducing};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::likelihood::TargetKind;
use sparsegp::model::LatentModel;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::training::VariationalModel;
use sparsegp::variational::{DataGradient, Family, Normal};
use sparsegp_tables::schema::{Schema, SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::{Table, read_csv, read_table};
use std::error::Error;
use std::time::Instant;

const VISITS: &str = sparsegp_data::DOCTOR_VISITS;
const ROWS: usize = 1000;
const INDUCING: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut runs = 200;
    if let Some(at) = arguments.iter().position(|a| a == "--runs") {
        runs = arguments.get(at + 1).ok_or("--runs N")?.parse()?;
        arguments.drain(at..at + 2);
    }
    let (table, target) = match arguments.as_slice() {
        [path, target] => (read_table(path.as_ref())?, target.clone()),
        [] => (read_csv("doctor_visits.csv", VISITS.as_bytes())?, "visits".to_owned()),
        _ => return Err("expected DATA TARGET or nothing".into()),
    };
    let columns = SchemaOptions { target, target_kind: Some(TargetKind::Count), ..SchemaOptions::default() };
    let (schema, _) = Schema::infer(&table, &columns)?;
    let (start, x, y) = start(&schema, &table)?;
    let batch = Batch::of(x.as_ref(), &y, 1.0);

    let measure = |estimator: Estimator, runs: usize| {
        let objective = Objective { loss: Loss::LogPredictive(estimator), beta: 1.0, nodes: None };
        let q = Normal::standard(Family::Full, INDUCING);
        let mut svgp = VariationalModel::new(start.clone(), q, objective, y.len());
        let mut averages = Averages::default();
        let clock = Instant::now();
        for _ in 0..runs {
            svgp.evaluate(batch, false);
            averages.take(svgp.q_gradient(), runs as f64);
        }
        (averages, clock.elapsed().as_secs_f64() / runs as f64, svgp.estimator_counts())
    };
    let (exact, exact_seconds, _) = measure(Estimator::Exact, 50);
    println!(
        "estimator          bias in m  standard error  bias in S  ms a step  of exact  accepted  starved"
    );
    let mut estimators = vec![Estimator::Exact];
    for samples in [1, 10, 100] {
        estimators.push(Estimator::Biased { samples });
        estimators.push(Estimator::BiasedPrice { samples });
        estimators.push(Estimator::Smoothed { samples, nu: 0.01, decays: false });
        estimators.push(Estimator::Product { samples });
    }
    estimators.push(Estimator::Biased { samples: 10_000 });
    estimators.push(Estimator::Product { samples: 10_000 });
    for estimator in estimators {
        let samples = estimator.latent_samples().unwrap_or(10);
        let runs = (runs * 100 / samples.max(10)).max(2);
        let (averages, seconds, counts) = measure(estimator, runs);
        let share =
            |n: u64, of: u64| if of == 0 { "-".into() } else { format!("{:.3}", n as f64 / of as f64) };
        println!(
            "{:<17}  {:<9.5}  {:<14.5}  {:<9.5}  {:<9.3}  {:<8.2}  {:<8}  {}",
            estimator.to_string(),
            distance(&averages.mean, &exact.mean),
            averages.error(runs as f64) / size(&exact.mean),
            distance(&averages.cov, &exact.cov),
            1e3 * seconds,
            seconds / exact_seconds,
            share(counts.accepted, counts.proposals),
            share(counts.starved, counts.accepted + counts.starved),
        );
    }
    Ok(())
}

/// Averages over runs of the gradients in m, of their squares, and of the gradients in S.
#[derive(Default)]
struct Averages {
    mean: Vec<f64>,
    squares: Vec<f64>,
    cov: Vec<f64>,
}

impl Averages {
    fn take(&mut self, gradient: DataGradient<'_>, runs: f64) {
        let cov = gradient.cov.to_dense();
        self.mean.resize(INDUCING, 0.0);
        self.squares.resize(INDUCING, 0.0);
        self.cov.resize(INDUCING * INDUCING, 0.0);
        for (k, g) in gradient.mean.iter().enumerate() {
            self.mean[k] += g / runs;
            self.squares[k] += g * g / runs;
        }
        let entries = cov.col_iter().flat_map(|column| column.iter().copied().collect::<Vec<_>>());
        self.cov.iter_mut().zip(entries).for_each(|(sum, g)| *sum += g / runs);
    }

    /// The standard error of the average in m.
    fn error(&self, runs: f64) -> f64 {
        let variance: f64 = self.squares.iter().zip(&self.mean).map(|(s, m)| (s - m * m).max(0.0)).sum();
        (variance / runs).sqrt()
    }
}

fn size(a: &[f64]) -> f64 {
    a.iter().map(|a| a * a).sum::<f64>().sqrt()
}

/// The distance of `a` from `b`, relative to the size of `b`.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let difference: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    size(&difference) / size(b)
}

/// A Poisson model as a fit would start it, and the first rows.
fn start(schema: &Schema, table: &Table) -> sparsegp::Result<(LatentModel, faer::Mat<f64>, Vec<f64>)> {
    let mut x = schema.design(table, UnseenLevels::Error)?;
    let mut y = schema.target(table)?.unwrap_or_default();
    y.truncate(ROWS);
    x.truncate(y.len(), x.ncols());
    Scaling::standardise(x.as_ref(), &y).scale_inputs(x.as_mut());
    let mut kernel = parse("rbf(ard)", x.ncols()).map_err(|e| sparsegp::Error::usage(e.to_string()))?;
    kernel.initialise(&vec![1.0; x.ncols()], 1.0);
    let mut likelihood = LikelihoodKind::Poisson.build(0);
    let mean = likelihood.initialise(&y, &[]);
    let z = choose_inducing(x.as_ref(), INDUCING, InducingInit::KMeans, kernel.as_ref(), 0)?;
    let layer = InducingPrior::new(kernel, z, Jitter::DEFAULT)?.with_mean(mean, false);
    let model = LatentModel::new(layer.into(), likelihood, false);
    let model = model.factorised().map_err(|_| sparsegp::Error::fit("K_uu is singular"))?;
    Ok((model, x, y))
}
