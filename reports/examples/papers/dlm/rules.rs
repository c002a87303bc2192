//! The final objective of every update rule on the predictive log loss, at the same hyper-parameters.

use crate::data::evenly;
use crate::paper::{Paper, Verdict};
use crate::{elbo, q_alone};
use sparsegp::Result;
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::options::{FitOptions, StepOptions};
use sparsegp::variational::QUpdate;

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
        data = data.take(&evenly(data.y.len(), rows));
        data.standardise(false);
        let elbo = elbo(*likelihood, paper.setting(*inducing, 15), paper.setting(60, 15));
        let model = data.fit(&elbo, None)?.model;
        let (options, start) = q_alone(elbo, model);
        let mut ends = Vec::new();
        for &q_update in QUpdate::ALL {
            let steps = StepOptions { q_update, polish: false, batch_size, ..StepOptions::default() };
            let options = FitOptions { epochs: Some(epochs), steps, ..options.clone() };
            ends.push((q_update, data.fit(&options, Some(&start))?.summary.objective));
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
