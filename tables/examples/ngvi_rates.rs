//! Natural-gradient against stochastic-gradient variational inference on mini-batch Bayesian linear regression.
//!
//! `cargo run --release --example ngvi_rates -- DATA_FOLDER [--out DIR] [--runs N] [--steps T]` with bike.csv.gz in the
//! folder; docs/experiments.md says what comes out. (Wu & Gardner 2024, "Understanding Stochastic Natural Gradient
//! Variational Inference": linear regression with a standard normal prior, σ² = 1, batches of 1000.)

mod common;

use common::{Data, Experiment, record_at, series, slope};
use faer::Mat;
use sparsegp::data::BatchPlan;
use sparsegp::data::SizeSchedule;
use sparsegp::latent::LinearLayer;
use sparsegp::likelihood::Gaussian;
use sparsegp::likelihood::TargetKind;
use sparsegp::model::{LatentModel, Posterior, Score};
use sparsegp::objective::Objective;
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::guarantees::{ConjugateAsymptotic, ConjugateBound, Sampling};
use sparsegp::variational::{Average, Family, Normal, QUpdate, RuleOptions, Schedule};
use sparsegp_tables::report::Curves;

const BATCH: usize = 1000;
const HEADER: [&str; 9] =
    ["t", "bound", "sharp", "ngd_kl", "ngd_averaged", "ngd_nlpd", "sgd_kl", "sgd_averaged", "sgd_nlpd"];

fn main() -> sparsegp::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("ngvi_rates", &mut arguments)?;
    let runs = common::option(&mut arguments, "--runs", 3)?;
    let steps = common::option(&mut arguments, "--steps", 100_000)?;
    let Some(mut data) = experiment.read("bike", "y", Some(TargetKind::Real))? else { return Ok(()) };
    data.standardise(true);
    let exact = data.posterior(model(&data)?)?;
    let (d, set) = (data.x.nrows(), (data.x.transpose(), data.y.as_slice()));
    let prior = Mat::<f64>::identity(d, d);
    let bound = ConjugateBound::new(set, prior.as_ref(), 1.0, BATCH)?;
    let sampling = (BATCH, Sampling::WithReplacement);
    let sharp = ConjugateAsymptotic::new(set, (&vec![0.0; d], prior.as_ref()), 1.0, sampling)?;
    let limit = sharp.limit(Average::None);
    println!("{} rows, {d} inputs; V2 = {:.3e}; T·E[KL] tends to {limit:.2}", data.y.len(), bound.v2);
    let at = record_at(steps, 8);
    let start = |&t: &usize| vec![t as f64, bound.at(t), limit / t as f64];
    let mut rows: Vec<Vec<f64>> = at.iter().map(start).collect();
    let ngd = (QUpdate::Ngd, Schedule::TwoOverT, Average::Expectation);
    let sgd = (QUpdate::ProxSgd, Schedule::Inverse { offset: 1e5 }, Average::Tail);
    let mut goal = f64::NAN;
    for (name, (update, step, average)) in [("NGD", ngd), ("SGD on (m, C)", sgd)] {
        let first = rows[0].len();
        rows.iter_mut().for_each(|row| row.resize(first + 3, 0.0));
        for seed in 0..runs {
            let batches = BatchPlan::Independent(SizeSchedule::Constant(BATCH));
            let rule = RuleOptions::of(update);
            let options = InferenceOptions { rule, step, batches, samples: None, average, seed };
            for (row, found) in rows.iter_mut().zip(trace(&data, &exact, options, &at)?) {
                row[first..].iter_mut().zip(found).for_each(|(sum, value)| *sum += value / runs as f64);
            }
        }
        let (last, kl) =
            (rows.len() - 1, |t: f64| rows.iter().find(|r| r[0] >= t).map_or(f64::NAN, |r| r[first]));
        let from =
            |t: f64| slope(&rows.iter().filter(|r| r[0] >= t).map(|r| (r[0], r[first])).collect::<Vec<_>>());
        println!(
            "{name}, step {step}: KL {:.4e} after 10, {:.4e} after {steps} iterations",
            kl(10.0),
            rows[last][first]
        );
        println!("  slope {:.3} from t = 10, {:.3} from t = 1000", from(10.0), from(1000.0));
        println!(
            "  T·KL {:.2}, averaged iterate {:.2}",
            rows[last][first] * rows[last][0],
            rows[last][first + 1] * rows[last][0]
        );
        let reached = rows.iter().find(|r| r[first] <= goal).map(|r| r[0]);
        if goal.is_finite() {
            println!("  reaches what NGD has after 10 iterations at {reached:?}");
        }
        goal = kl(10.0);
    }
    experiment.csv("kl.csv", &HEADER, &rows)?;
    let line = |name: &str, column: usize| series(name, rows.iter().map(|r| (r[0], r[column])));
    let kl = vec![
        line("bound V₂/(T+2)", 1),
        line("sharp asymptotic", 2),
        line("NGD, 2/(t+2)", 3),
        line("SGD, 1/(1e5+t)", 6),
    ];
    let nlpd = vec![line("NGD, 2/(t+2)", 5), line("SGD, 1/(1e5+t)", 8)];
    for (file, y, series) in
        [("kl.svg", "KL to the exact posterior", kl), ("nlpd.svg", "training NLPD", nlpd)]
    {
        let axes = ("iteration".to_owned(), y.to_owned());
        experiment.figure(file, &Curves { axes, log_x: true, log_y: true, series, ..Curves::default() })?;
    }
    Ok(())
}

fn model(data: &Data) -> sparsegp::Result<LatentModel> {
    let layer = LinearLayer::isotropic(data.x.nrows(), 0.0, 1.0)?;
    Ok(LatentModel::new(layer.into(), Gaussian::new(1.0), true))
}

/// KL of the last and of the averaged iterate, and training NLPD, at the given iterations.
fn trace(
    data: &Data,
    exact: &Normal,
    options: InferenceOptions,
    at: &[usize],
) -> sparsegp::Result<Vec<[f64; 3]>> {
    let q = Normal::standard(Family::Full, data.x.nrows());
    let mut inference = Inference::new(model(data)?, q, Objective::elbo(1.0), data.set(), options);
    let mut traced = Vec::new();
    for &t in at {
        while inference.iterations() < t {
            inference.step();
        }
        let posterior = Posterior::new(&inference.model().model, inference.q());
        let averaged = inference.averaged()[0].kl_to(exact);
        traced.push([inference.q().kl_to(exact), averaged, posterior.score(data.set(), Score::LogLoss)]);
    }
    Ok(traced)
}
