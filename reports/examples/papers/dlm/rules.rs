//! The final objective of every update rule on the predictive log loss, at the same hyper-parameters.

use crate::paper::prelude::*;
use crate::raw::{Row, Unit};
use crate::{elbo, q_alone};

/// A data set with its likelihood and its number of inducing inputs.
pub type Case = (&'static str, TargetKind, LikelihoodKind, usize);

pub const CASES: [Case; 2] = [
    ("randhie", TargetKind::Count, LikelihoodKind::Poisson, 60),
    ("banana", TargetKind::Binary, LikelihoodKind::BernoulliProbit, 53),
];

pub fn units() -> impl Iterator<Item = Unit> {
    CASES.into_iter().map(|case| Unit {
        name: format!("rules on {}", case.0),
        has: Box::new(move |row| row.set == case.0 && row.method == QUpdate::Sgd.to_string()),
        fit: Box::new(move |paper| fit(paper, case)),
    })
}

pub fn fit(paper: &Paper, (name, kind, likelihood, inducing): Case) -> Result<Vec<Row>> {
    let Some(mut data) = paper.read(name, "y", kind)? else { return Ok(Vec::new()) };
    data = data.take(&evenly(data.y.len(), paper.setting(4000, 600)));
    data.standardise(false);
    let elbo = elbo(likelihood, paper.setting(inducing, 15), paper.setting(60, 15));
    let model = data.fit(&elbo, None)?.model;
    let (options, start) = q_alone(elbo, model);
    let (epochs, batch_size) = (Some(paper.setting(400, 120)), paper.setting(1024, 100));
    let one = |&q_update: &QUpdate| {
        let steps = StepOptions { q_update, polish: false, batch_size, ..StepOptions::default() };
        let fitted = data.fit(&FitOptions { epochs, steps, ..options.clone() }, Some(&start))?;
        Ok(Row::of(name, data.y.len(), 0, q_update, 1.0).of_fit(&fitted))
    };
    QUpdate::ALL.iter().map(one).collect()
}

pub fn judge(paper: &mut Paper, rows: &[Row]) {
    for (name, ..) in CASES {
        let of_rule =
            |row: &&Row| row.set == name && QUpdate::ALL.iter().any(|rule| rule.to_string() == row.method);
        let ends: Vec<&Row> = rows.iter().filter(of_rule).collect();
        if ends.is_empty() {
            continue;
        }
        paper.settings(format!(
            "Rules on the log loss, {name}: {} rows, hyper-parameters of an ELBO fit, q from the prior, 400 epochs of batches of 1024, \
             default steps, β = 1.",
            ends[0].n
        ));
        let bounds = |(low, high): (f64, f64), row: &&Row| (low.min(row.training), high.max(row.training));
        let (best, worst) = ends.iter().fold((f64::INFINITY, f64::NEG_INFINITY), bounds);
        let text: Vec<String> =
            ends.iter().map(|row| format!("{} {:.4}", row.method, row.training)).collect();
        let claim = format!("{name}: every rule minimises the log loss");
        let ours = format!("objective per row: {}; worst less best", text.join(", "));
        paper
            .judge(&claim, "Adam in the paper", ours, Compared::at_most(worst - best, 0.0, 0.01))
            .expect(0.0..=0.05);
    }
}
