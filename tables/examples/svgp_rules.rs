//! Every update rule on the same sparse GP: objective and test NLL against time, and a table at equal time.
//!
//! `cargo run --release --example svgp_rules -- DATA_FOLDER [--out DIR] [--seconds S] [--table-seconds S]`, with
//! magic.csv.gz, bike_count.csv.gz and kin40k.csv.gz in the folder; docs/experiments.md says what comes out. The first part
//! trains q alone from the prior, at the hyper-parameters of one short fit; the second trains everything, as `fit` does.

mod common;

use common::{Data, Experiment, series};
use sparsegp::data::BatchPlan;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::likelihood::TargetKind;
use sparsegp::model::{LatentModel, Posterior, Score};
use sparsegp::objective::Objective;
use sparsegp::options::{FitOptions, StepOptions};
use sparsegp::training::{Inference, InferenceOptions, TrainingData, fit_arrays};
use sparsegp::variational::{Average, Family, Normal, QUpdate, RuleOptions};
use sparsegp_tables::report::Curves;
use std::time::Instant;

const SETS: [(&str, TargetKind, LikelihoodKind, usize); 3] = [
    ("magic", TargetKind::Binary, LikelihoodKind::BernoulliProbit, 200),
    ("bike_count", TargetKind::Count, LikelihoodKind::NegativeBinomial, 200),
    ("kin40k", TargetKind::Real, LikelihoodKind::Gaussian, 500),
];

fn main() -> sparsegp::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("svgp_rules", &mut arguments)?;
    let seconds = common::option(&mut arguments, "--seconds", 10.0)?;
    let table_seconds = common::option(&mut arguments, "--table-seconds", 30.0)?;
    let mut table = Vec::new();
    for (name, kind, likelihood, inducing) in SETS {
        let Some(data) = experiment.read(name, "y", Some(kind))? else { continue };
        let (mut train, mut test) = data.split(0.1, 0)?;
        let scaling = train.standardise(kind == TargetKind::Real);
        scaling.scale_inputs(test.x.as_mut().transpose_mut());
        scaling.scale_target(&mut test.y);
        let options = FitOptions {
            likelihood: Some(likelihood),
            inducing: Some(inducing),
            epochs: Some(usize::MAX),
            tolerance: Some(0.0),
            steps: StepOptions { polish: false, ..StepOptions::default() },
            ..FitOptions::default()
        };
        if kind != TargetKind::Real {
            let short = FitOptions { epochs: Some(5), ..options.clone() };
            let start = fit_arrays(TrainingData::of(train.set()), &short, None, &mut |_| ())?.model;
            let start = start.factorised().map_err(|_| sparsegp::Error::fit("K_uu is singular"))?;
            let traces = QUpdate::WORDS
                .iter()
                .map(|word| Ok((*word, trace(&start, (&train, &test), word.parse()?, seconds))));
            write(&experiment, name, &traces.collect::<sparsegp::Result<Vec<_>>>()?)?;
        }
        for word in QUpdate::WORDS.iter().chain(&["ngd with full-batch steps at the end"]) {
            let polish = word.len() > 20;
            let options = FitOptions {
                max_seconds: Some(table_seconds),
                steps: StepOptions {
                    update: if polish { QUpdate::Ngd } else { word.parse()? },
                    polish,
                    ..options.steps.clone()
                },
                ..options.clone()
            };
            let clock = Instant::now();
            let fitted = fit_arrays(TrainingData::of(train.set()), &options, None, &mut |_| ())?;
            let elapsed = clock.elapsed().as_secs_f64();
            let nll = fitted.posterior.score(test.set(), Score::LogLoss) - scaling.log_density_shift(0.0);
            println!(
                "{name}, {word}: objective {:.4} per row, test NLL {nll:.4}, {elapsed:.1} s, {} epochs",
                fitted.summary.objective, fitted.summary.epochs
            );
            table.push(vec![fitted.summary.objective, nll, elapsed, fitted.summary.epochs as f64]);
        }
    }
    experiment.csv("table.csv", &["objective", "test_nll", "seconds", "epochs"], &table)
}

/// Seconds of training, objective per row and test NLL along a run from the prior.
fn trace(start: &LatentModel, (train, test): (&Data, &Data), update: QUpdate, seconds: f64) -> Vec<[f64; 3]> {
    let options = InferenceOptions {
        rule: RuleOptions { relative: true, ..RuleOptions::of(update) },
        step: FitOptions { steps: StepOptions { update, ..StepOptions::default() }, ..FitOptions::default() }
            .step_schedule(),
        batches: BatchPlan::Epochs(1024),
        samples: None,
        average: Average::None,
        seed: 0,
    };
    let q = Normal::standard(Family::Full, start.layer().dim());
    let mut inference = Inference::new(start.clone(), q, Objective::elbo(1.0), train.set(), options);
    let (mut points, mut spent, mut next) = (Vec::new(), 0.0, 0.05);
    while spent < seconds {
        let clock = Instant::now();
        inference.step();
        spent += clock.elapsed().as_secs_f64();
        if spent >= next {
            let nll = Posterior::new(start, inference.q()).score(test.set(), Score::LogLoss);
            points.push([spent, inference.objective() / train.y.len() as f64, nll]);
            next *= 1.5;
        }
    }
    points
}

fn write(experiment: &Experiment, name: &str, traces: &[(&str, Vec<[f64; 3]>)]) -> sparsegp::Result<()> {
    for (column, what) in [(1, "objective per row"), (2, "test NLL")] {
        let series =
            traces.iter().map(|(rule, points)| series(rule, points.iter().map(|p| (p[0], p[column]))));
        let axes = ("seconds".to_owned(), what.to_owned());
        let curves = Curves { axes, log_x: true, series: series.collect(), ..Curves::default() };
        experiment.figure(&format!("{name}_{}.svg", what.replace(' ', "_")), &curves)?;
    }
    for (rule, points) in traces {
        let rows: Vec<Vec<f64>> = points.iter().map(|p| p.to_vec()).collect();
        experiment.csv(&format!("{name}_{rule}.csv"), &["seconds", "objective", "test_nll"], &rows)?;
        let [seconds, objective, nll] = points.last().copied().unwrap_or([f64::NAN; 3]);
        println!("{name}, {rule}, q alone: objective {objective:.4}, test NLL {nll:.4} after {seconds:.1} s");
    }
    Ok(())
}
