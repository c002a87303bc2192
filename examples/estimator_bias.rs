//! How far Monte Carlo gradients of the predictive log loss are from the exact one, at the start of a fit to counts.
//!
//! `cargo run --release --example estimator_bias -- [DATA.csv TARGET] [--runs N]`; the embedded visits to a doctor by
//! default. For every estimator the gradient in the mean of q is averaged over runs; the table shows the distance of that
//! average from the exact gradient and its own standard error, both relative to the size of the exact gradient.

use sparsegp::data::Scaling;
use sparsegp::gradient::Batch;
use sparsegp::kernels::parse;
use sparsegp::latent::{InducingInit, InducingPrior, Jitter, choose_inducing};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::likelihood::TargetKind;
use sparsegp::model::LatentModel;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::schema::{Schema, SchemaOptions, UnseenLevels};
use sparsegp::tables::{Table, read_csv, read_table};
use sparsegp::training::VariationalModel;
use sparsegp::variational::{Family, Normal};
use std::error::Error;
use std::time::Instant;

const VISITS: &str = include_str!("data/doctor_visits.csv");
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
        let (mut sum, mut squares) = (vec![0.0; INDUCING], vec![0.0; INDUCING]);
        let clock = Instant::now();
        for _ in 0..runs {
            svgp.evaluate(batch, false);
            for (k, g) in svgp.q_gradient().mean.iter().enumerate() {
                sum[k] += g / runs as f64;
                squares[k] += g * g / runs as f64;
            }
        }
        let seconds = clock.elapsed().as_secs_f64() / runs as f64;
        let variance: f64 = squares.iter().zip(&sum).map(|(s, m)| (s - m * m).max(0.0)).sum();
        (sum, (variance / runs as f64).sqrt(), seconds, svgp.estimator_counts())
    };
    let (exact, _, exact_seconds, _) = measure(Estimator::Exact, 10);
    let size = exact.iter().map(|g| g * g).sum::<f64>().sqrt();
    println!("estimator          bias     standard error  µs a sample  accepted  starved");
    let mut estimators = Vec::new();
    for samples in [1, 10, 100] {
        estimators.push((Estimator::Biased { samples }, samples));
        estimators.push((Estimator::Smoothed { samples, nu: 0.01 }, samples));
        estimators.push((Estimator::Product { samples }, samples));
    }
    estimators.push((Estimator::Biased { samples: 10_000 }, 10_000));
    estimators.push((Estimator::Product { samples: 10_000 }, 10_000));
    for (estimator, samples) in estimators {
        let runs = (runs * 100 / samples.max(10)).max(2);
        let (mean, error, seconds, counts) = measure(estimator, runs);
        let distance = mean.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        let cost = 1e6 * (seconds - exact_seconds) / (samples * y.len()) as f64;
        let share =
            |n: u64, of: u64| if of == 0 { "-".into() } else { format!("{:.3}", n as f64 / of as f64) };
        println!(
            "{:<17}  {:.5}  {:.5}         {cost:<11.3}  {:<8}  {}",
            estimator.to_string(),
            distance / size,
            error / size,
            share(counts.accepted, counts.proposals),
            share(counts.starved, counts.accepted + counts.starved),
        );
    }
    Ok(())
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
