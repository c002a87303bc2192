//! Logistic regression on generated data with a diagonal covariance, means free or not negative: figures 2 and 7.

use super::problem::{Schedules, start};
use crate::data::{Data, listed, means, record_at, series, trace};
use crate::paper::{Axes, Compared, Paper, short};
use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::Result;
use sparsegp::likelihood::Bernoulli;
use sparsegp::objective::Estimator;
use sparsegp::training::InferenceOptions;
use sparsegp::variational::{Family, QUpdate, RuleOptions};

const PRIOR: f64 = 1.0;
const D: usize = 5;

/// Returns 100 rows, uniform in [−5, 5]⁵, with labels from a logistic model whose coefficients are all 5.
fn data() -> Data {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let x = Mat::from_fn(D, 100, |_, _| random.random_range(-5.0..5.0));
    let y = x.col_iter().map(|z| {
        let eta: f64 = 5.0 * z.iter().sum::<f64>();
        f64::from(random.random_range(0.0..1.0) < 1.0 / (1.0 + (-eta).exp()))
    });
    let y = y.collect();
    Data { x, y }
}

/// Returns the mean over runs of the authors' "ELBO", E log p(y, w), which lacks the entropy, at the given
/// iterations.
fn elbos(
    data: &Data,
    schedules: Schedules,
    (positive, count): (bool, u64),
    at: &[usize],
) -> Result<Vec<f64>> {
    let lower = if positive { vec![0.0; D] } else { Vec::new() };
    let rule = RuleOptions { lower, ..RuleOptions::of(QUpdate::ProjectedNgvi) };
    let means = means(count, |seed| {
        let samples = Some(schedules.size);
        let options =
            InferenceOptions { seed, samples, ..InferenceOptions::full_batch(rule.clone(), schedules.step) };
        let q = start(seed, D, PRIOR, (0.5, Family::Diagonal))?;
        let model = data.model(Bernoulli::Logit, PRIOR)?;
        let mut inference = data.infer_from(q, model, Estimator::Price { samples: 100 }, options);
        let constant = D as f64 * (2.0 * std::f64::consts::PI * std::f64::consts::E).ln();
        Ok(trace(&mut inference, at, |inference| {
            [-inference.objective() - 0.5 * (inference.q().log_det() + constant)]
        }))
    })?;
    Ok(means.into_iter().map(|[elbo]| elbo).collect())
}

/// Runs every schedule with and without the projection of means.
pub fn run(paper: &mut Paper, count: u64) -> Result<()> {
    let (data, steps) = (data(), paper.setting(1000, 300));
    let at = record_at(steps, 8);
    paper.settings(format!(
        "Logistic regression, as in the authors' code: d = 5, 100 rows, coefficients 5, diagonal S, start of random mean in [−5, 5] and \
         covariance ½ I, prior N(0, I), an \"ELBO\" without entropy, step 0.01 and N = 100 where they are constant, {steps} steps, {count} \
         runs (50 in the paper). The expectation is exact (100 samples in the paper)."
    ));
    // The order of figure 7.
    let cases = [1, 3, 0, 2].map(|k| Schedules::four(0.01, 100)[k]);
    let (mut lines, mut found, early) = (Vec::new(), Vec::new(), at.partition_point(|t| *t < 10));
    for schedules in cases {
        let free = elbos(&data, schedules, (false, count), &at)?;
        let positive = elbos(&data, schedules, (true, count), &at)?;
        let behind = free.iter().zip(&positive).map(|(free, positive)| free - positive);
        found.push([behind.fold(0.0, f64::max), positive[at.len() - 1] - free[at.len() - 1], free[early]]);
        for (kind, values) in [("free", &free), ("m ≥ 0", &positive)] {
            let points = at.iter().zip(values).map(|(t, elbo)| (*t as f64, -elbo));
            lines.push(series(&format!("{}, {kind}", schedules.label()), points));
        }
    }
    paper.figure("logistic.svg", ("iteration", "minus the mean ELBO"), Axes::LogLog, lines)?;
    let [behinds, gaps, early_elbos] = [0, 1, 2].map(|k| found.iter().map(|of| of[k]).collect::<Vec<f64>>());
    paper.judge(
        "Logistic: with m ≥ 0 the ELBO is higher at the same iteration, for every schedule (Fig. 7)",
        "higher throughout, then the same",
        format!(
            "it is lower by at most {} nats at a record of the schedules of Fig. 7; most",
            listed(behinds.iter().copied(), short)
        ),
        Compared::at_most(behinds.iter().copied().fold(0.0, f64::max), 0.0, 0.1),
    );
    let furthest = gaps.iter().fold(0.0, |far: f64, gap| far.max(gap.abs()));
    let ours = format!("largest difference of the four schedules after {steps} steps, nats");
    let compared = Compared::at_most(furthest, 0.0, 0.5);
    paper.judge("both reach the same ELBO in the end (Fig. 7)", "the same", ours, compared).expect(0.0..=5.0);
    let other = [0, 2, 3].map(|k| early_elbos[k]).into_iter().fold(f64::NEG_INFINITY, f64::max);
    paper.judge(
        "in the first iterations decreasing steps with growing samples are not the best (Fig. 2)",
        "another schedule is",
        format!(
            "mean ELBO after 10 steps {}; the best of the other three against the second",
            listed(early_elbos.iter().copied(), |elbo| format!("{elbo:.1}")),
        ),
        Compared::at_least(other, early_elbos[1], 0.0),
    );
    Ok(())
}
