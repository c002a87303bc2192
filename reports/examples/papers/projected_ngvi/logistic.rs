//! Logistic regression on generated data with a diagonal covariance, means free or not negative: figures 2 and 7.

use super::problem::{Schedules, start};
use crate::data::{Data, listed, means, record_at, series, trace};
use crate::paper::{Axes, Paper, Verdict};
use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::Result;
use sparsegp::data::SizeSchedule;
use sparsegp::likelihood::BernoulliLogit;
use sparsegp::objective::Estimator;
use sparsegp::training::InferenceOptions;
use sparsegp::variational::{Family, QUpdate, RuleOptions, Schedule};

const PRIOR: f64 = 5.0;
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

/// Returns the mean over runs of the ELBO at the given iterations.
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
        let model = data.model(BernoulliLogit, PRIOR)?;
        let mut inference = data.infer_from(q, model, Estimator::Price { samples: 100 }, options);
        Ok(trace(&mut inference, at, |inference| [-inference.objective()]))
    })?;
    Ok(means.into_iter().map(|[elbo]| elbo).collect())
}

/// Runs every schedule with and without the projection of means.
pub fn run(paper: &mut Paper, count: u64) -> Result<()> {
    let (data, steps) = (data(), paper.setting(1000, 300));
    let at = record_at(steps, 8);
    let growing = SizeSchedule::Power { exponent: 1.0 };
    let hundred = SizeSchedule::Constant(100);
    let constant = Schedule::Constant(0.01);
    let cases = [
        Schedules { step: constant, size: growing },
        Schedules { step: Schedule::TwoOverT, size: growing },
        Schedules { step: constant, size: hundred },
        Schedules { step: Schedule::TwoOverT, size: hundred },
    ];
    paper.settings(format!(
        "Logistic regression: d = 5, 100 rows, coefficients 5, diagonal S, start of random mean in [−5, 5] and covariance ½ I, prior \
         N(0, 5 I) (the paper does not state its prior), exact ELBO, {count} runs."
    ));
    let (mut lines, mut ahead, mut gaps, mut early_elbos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for schedules in cases {
        let free = elbos(&data, schedules, (false, count), &at)?;
        let positive = elbos(&data, schedules, (true, count), &at)?;
        let better = free.iter().zip(&positive).skip(1).filter(|(free, positive)| positive >= free).count();
        ahead.push(better as f64 / (at.len() - 1) as f64);
        gaps.push(positive[at.len() - 1] - free[at.len() - 1]);
        let early = at.partition_point(|t| *t < 10);
        early_elbos.push(free[early]);
        for (kind, values) in [("free", &free), ("m ≥ 0", &positive)] {
            let points = at.iter().zip(values).map(|(t, elbo)| (*t as f64, -elbo));
            lines.push(series(&format!("{}, {kind}", schedules.label()), points));
        }
    }
    paper.figure("logistic.svg", ("iteration", "minus the mean ELBO"), Axes::LogLog, lines)?;
    let least = ahead.iter().copied().fold(1.0, f64::min);
    paper.claim(
        "Logistic: with m ≥ 0 the ELBO is higher at the same iteration, for every schedule (Fig. 7)",
        "higher throughout",
        format!("higher at {:.0} to 100 % of the records of the four schedules", 100.0 * least),
        Verdict::of(least > 0.9, "not at all records"),
    );
    let furthest = gaps.iter().fold(0.0, |far: f64, gap| far.max(gap.abs()));
    paper.claim(
        "both reach the same ELBO in the end (Fig. 7)",
        "the same",
        format!("differences of {furthest:.3} nats at most after {steps} steps"),
        Verdict::of(furthest < 0.5, "they are apart"),
    );
    let best = (0..4).max_by(|&a: &usize, &b| f64::total_cmp(&early_elbos[a], &early_elbos[b])).unwrap_or(0);
    paper.claim(
        "in the first iterations decreasing steps with growing samples are not the best (Fig. 2)",
        "another schedule is",
        format!(
            "mean ELBO after 10 steps {}; best: {}",
            listed(early_elbos.iter().copied(), |elbo| format!("{elbo:.1}")),
            cases[best].label()
        ),
        Verdict::of(best != 1, "they are"),
    );
    paper.expect("logistic: largest final difference", furthest, 0.0..=5.0);
    Ok(())
}
