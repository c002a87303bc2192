//! Natural-gradient against stochastic-gradient variational inference on mini-batch Bayesian linear regression.
//!
//! `cargo run --release --example ngvi_rates -- DATA_FOLDER [--out DIR] [--runs N] [--steps T]` with bike.csv.gz in the
//! folder; docs/experiments.md says what comes out. (Wu & Gardner 2024, "Understanding Stochastic Natural Gradient
//! Variational Inference": linear regression with a standard normal prior, σ² = 1, batches of 1000.)

mod common;

use common::{Data, Experiment, record_at, slope};
use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::data::{BatchPlan, TargetKind};
use sparsegp::latent::LinearLayer;
use sparsegp::likelihood::Gaussian;
use sparsegp::model::{
    CollapsedBound, CollapsedObjective, Inference, InferenceOptions, LatentModel, Posterior, Score,
};
use sparsegp::objective::Objective;
use sparsegp::report::{CurveSeries, Curves};
use sparsegp::variational::guarantees::{ConjugateAsymptotic, ConjugateBound, Sampling};
use sparsegp::variational::{Average, Family, Normal, QUpdate, RuleOptions, Schedule, SizeSchedule};
use std::error::Error;

const BATCH: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("ngvi_rates", &mut arguments)?;
    let runs = common::option(&mut arguments, "--runs", 5)?;
    let steps = common::option(&mut arguments, "--steps", 100_000)?;
    let Some(mut data) = experiment.read("bike", "y", Some(TargetKind::Real))? else { return Ok(()) };
    data.standardise(true);
    let d = data.x.nrows();
    let exact = exact(&data)?;
    let prior = Mat::<f64>::identity(d, d);
    let set = (data.x.as_ref(), data.y.as_slice());
    let bound = ConjugateBound::new(set, prior.as_ref(), 1.0, BATCH)?;
    let sampling = (BATCH, Sampling::WithReplacement);
    let sharp = ConjugateAsymptotic::new(set, (&vec![0.0; d], prior.as_ref()), 1.0, sampling)?;
    println!("{} rows, {d} inputs; V2 = {:.3e}", data.y.len(), bound.v2);
    println!(
        "limit of T·E[KL] for the last iterate {:.3}, averaged {:.3}",
        sharp.limit(Average::None),
        sharp.limit(Average::Expectation)
    );

    let at = record_at(steps, 8);
    let ngd = (QUpdate::Ngd, Schedule::TwoOverT, Average::Expectation);
    let sgd = (QUpdate::ProxSgd, Schedule::Inverse { offset: 1e5 }, Average::None);
    let contenders = [("NGD, 2/(t+2)", ngd), ("SGD on (m, C), 1/(1e5+t)", sgd)];
    let mut rows: Vec<Vec<f64>> =
        at.iter().map(|&t| vec![t as f64, bound.at(t), sharp.limit(Average::None) / t as f64]).collect();
    let mut series = vec![line("bound V2/(T+2)", &rows, 1), line("sharp asymptotic", &rows, 2)];
    let mut nlpd = Vec::new();
    for (name, (update, step, average)) in contenders {
        let first = rows[0].len();
        for run in 0..runs {
            let options = InferenceOptions {
                rule: RuleOptions::of(update),
                step,
                batches: BatchPlan::Independent(SizeSchedule::Constant(BATCH)),
                samples: None,
                average,
                seed: run as u64,
            };
            let traced = trace(&data, &exact, options, &at)?;
            for (row, (kl, averaged, loss)) in rows.iter_mut().zip(traced) {
                row.resize(first + 3, 0.0);
                for (k, value) in [kl, averaged, loss].into_iter().enumerate() {
                    row[first + k] += value / runs as f64;
                }
            }
        }
        let late: Vec<_> = rows.iter().map(|r| (r[0], r[first])).filter(|(t, _)| *t >= 10.0).collect();
        let reached = |goal: f64| rows.iter().find(|r| r[first] <= goal).map_or(-1.0, |r| r[0]);
        println!(
            "{name}: slope {:.3} from t = 10; T·KL at the end {:.2}, averaged {:.2}; KL at t = 10 {:.4e}, {:.4e} after {} steps",
            slope(&late),
            steps as f64 * rows[rows.len() - 1][first],
            steps as f64 * rows[rows.len() - 1][first + 1],
            rows.iter().find(|r| r[0] >= 10.0).map_or(f64::NAN, |r| r[first]),
            rows[rows.len() - 1][first],
            steps
        );
        if update != QUpdate::Ngd {
            let goal = rows.iter().find(|r| r[0] >= 10.0).map_or(f64::NAN, |r| r[3]);
            println!(
                "it reaches what NGD has after 10 steps at step {} (-1: not within {steps})",
                reached(goal)
            );
        }
        series.push(line(name, &rows, first));
        nlpd.push(line(name, &rows, first + 2));
    }
    let header = [
        "t",
        "bound",
        "sharp",
        "ngd_kl",
        "ngd_averaged_kl",
        "ngd_nlpd",
        "sgd_kl",
        "sgd_averaged_kl",
        "sgd_nlpd",
    ];
    experiment.csv("kl.csv", &header, &rows)?;
    let axes = |y: &str| ("iteration".to_owned(), y.to_owned());
    experiment.figure(
        "kl.svg",
        &Curves { axes: axes("KL to the exact posterior"), log_x: true, log_y: true, series },
    )?;
    experiment.figure(
        "nlpd.svg",
        &Curves { axes: axes("training NLPD"), log_x: true, log_y: true, series: nlpd },
    )?;
    Ok(())
}

fn model(data: &Data) -> sparsegp::Result<LatentModel> {
    let layer = LinearLayer::isotropic(data.x.nrows(), 0.0, 1.0)?;
    Ok(LatentModel { layer: layer.into(), likelihood: Box::new(Gaussian::new(1.0)), fix_inducing: true })
}

fn exact(data: &Data) -> Result<Normal, Box<dyn Error>> {
    let set = Dataset::of(data.x.as_ref(), &data.y);
    let mut closed = CollapsedObjective::new(model(data)?, set, CollapsedBound::Elbo { beta: 1.0 });
    let theta = closed.start();
    closed.solve(&theta).ok_or("no posterior")?;
    Ok(closed.q().clone())
}

/// KL of the last and of the averaged iterate, and training NLPD, at the given iterations.
fn trace(
    data: &Data,
    exact: &Normal,
    options: InferenceOptions,
    at: &[usize],
) -> sparsegp::Result<Vec<(f64, f64, f64)>> {
    let set = Dataset::of(data.x.as_ref(), &data.y);
    let q = Normal::standard(Family::Full, data.x.nrows());
    let mut inference = Inference::new(model(data)?, q, Objective::elbo(1.0), set, options);
    let mut traced = Vec::new();
    for &t in at {
        while inference.iterations() < t {
            inference.step();
        }
        let posterior = Posterior::new(&inference.model().model, inference.q());
        traced.push((
            inference.q().kl_to(exact),
            inference.averaged().kl_to(exact),
            posterior.score(set, Score::LogLoss),
        ));
    }
    Ok(traced)
}

fn line(name: &str, rows: &[Vec<f64>], column: usize) -> CurveSeries {
    CurveSeries { name: name.to_owned(), points: rows.iter().map(|r| (r[0], r[column], f64::NAN)).collect() }
}
