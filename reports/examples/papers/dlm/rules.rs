//! The final objective of every update rule on the predictive log loss, at the same hyper-parameters.

use crate::paper::{Paper, Verdict};
use sparsegp::Result;
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::options::{FitOptions, Hyper, ObjectiveKind, StepOptions};
use sparsegp::training::{Start, TrainingData, fit_arrays};
use sparsegp::variational::{Family, Normal, QUpdate};

const SETS: [(&str, TargetKind, LikelihoodKind, usize); 2] = [
    ("randhie", TargetKind::Count, LikelihoodKind::Poisson, 60),
    ("banana", TargetKind::Binary, LikelihoodKind::BernoulliProbit, 53),
];

pub fn run(paper: &mut Paper) -> Result<()> {
    let rows = paper.setting(4000, 600);
    let (epochs, batch_size) = (paper.setting(400, 120), paper.setting(1024, 100));
    paper.settings(format!(
        "Rules on the log loss: at most {rows} rows, hyper-parameters of an ELBO fit, q from the prior, {epochs} epochs of batches of {batch_size}, \
         default steps, β = 1."
    ));
    for (name, kind, likelihood, inducing) in &SETS {
        let Some(mut data) = paper.read(name, "y", *kind)? else { continue };
        let n = data.y.len();
        data = data.take(&(0..n.min(rows)).map(|i| i * n / n.min(rows)).collect::<Vec<_>>());
        data.standardise(false);
        let elbo = FitOptions {
            likelihood: Some(*likelihood),
            inducing: Some(paper.setting(*inducing, 15)),
            epochs: Some(paper.setting(60, 15)),
            standardize: false,
            ..FitOptions::default()
        };
        let model = fit_arrays(TrainingData::of(data.set()), &elbo, None, &mut |_| ())?.model;
        let mut ends = Vec::new();
        for &update in QUpdate::ALL {
            let q = Normal::standard(Family::Full, model.layer().dim());
            let start = Start { model: model.clone(), q: Some(vec![q]) };
            let options = FitOptions {
                objective: ObjectiveKind::DlmLog,
                hyper: Some(Hyper::Fixed),
                epochs: Some(epochs),
                tolerance: Some(0.0),
                inducing: None,
                steps: StepOptions { q_update: update, polish: false, batch_size, ..StepOptions::default() },
                ..elbo.clone()
            };
            let fitted = fit_arrays(TrainingData::of(data.set()), &options, Some(&start), &mut |_| ())?;
            ends.push((update, fitted.summary.objective));
        }
        let best = ends.iter().map(|end| end.1).fold(f64::INFINITY, f64::min);
        let worst = ends.iter().map(|end| end.1).fold(f64::NEG_INFINITY, f64::max);
        let text: Vec<String> = ends.iter().map(|(update, end)| format!("{update} {end:.4}")).collect();
        let name = paper.setting(*name, if *kind == TargetKind::Binary { "tumours" } else { "visits" });
        paper.claim(
            &format!("{name}: every rule minimises the log loss"),
            "Adam in the paper",
            format!("objective per row: {}", text.join(", ")),
            Verdict::of(worst - best < 0.01, "some rule is more than 0.01 from the best"),
        );
        paper.expect(&format!("{name}: worst rule less best rule"), worst - best, 0.0..=0.05);
    }
    Ok(())
}
