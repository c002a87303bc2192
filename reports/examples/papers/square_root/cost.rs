//! Times of the steps of VN, SR-VN and Bures–Wasserstein descent against the dimension: figure 5.

use crate::data::{series, slope};
use crate::paper::common::{self, median, normals};
use crate::paper::{Axes, Paper, Verdict};
use faer::Mat;
use sparsegp::Result;
use sparsegp::variational::{DataGradient, Family, Guard, MatrixRef, Normal, QUpdate, RuleOptions};

const METHODS: [(&str, QUpdate); 3] =
    [("VN", QUpdate::Ngd), ("SR-VN", QUpdate::SrVn), ("BW-GD", QUpdate::BwGd)];

/// Returns the median milliseconds of a step, without the gradient.
fn milliseconds(d: usize, update: QUpdate, repeats: usize) -> f64 {
    let mut draw = normals(d as u64);
    let root = Mat::from_fn(d, d, |_, _| 0.1 * draw());
    let cov = &root * root.transpose();
    let mean = vec![0.01; d];
    let mut q = Normal::standard(Family::Full, d);
    let guard = if update == QUpdate::SrVn { Guard::None } else { Guard::Trust };
    let mut rule = RuleOptions { guard, smoothness: Some(1.0), ..RuleOptions::of(update) }.build(&q);
    let times = (0..=repeats).map(|_| {
        let gradient =
            DataGradient { mean: &mean, cov: MatrixRef::Full(cov.as_ref()), curvature: None, path: None };
        common::milliseconds(|| _ = rule.step(&mut q, gradient, 1.0, 0.01))
    });
    median(times.skip(1))
}

pub fn run(paper: &mut Paper) -> Result<()> {
    let sizes: &[usize] = paper.setting(&[25, 50, 100, 200, 400, 800], &[10, 20, 40]);
    let times = METHODS.map(|(_, update)| -> Vec<(f64, f64)> {
        sizes.iter().map(|&d| (d as f64, milliseconds(d, update, paper.setting(9, 3)))).collect()
    });
    let lines = METHODS.iter().zip(&times).map(|((name, _), times)| series(name, times.clone()));
    paper.figure("cost.svg", ("dimension", "milliseconds of a step"), Axes::LogLog, lines.collect())?;
    let last = sizes.len() - 1;
    let exponent = |times: &[(f64, f64)]| slope(times[last.saturating_sub(2)..].iter().copied());
    let text: Vec<String> = METHODS
        .iter()
        .zip(&times)
        .map(|((name, _), times)| format!("{name} {:.2} ms, exponent {:.1}", times[last].1, exponent(times)))
        .collect();
    paper.claim(
        "a step costs d³ for all three, in different products (App. F.1, Fig. 5)",
        "d³",
        format!("at d = {}: {}", sizes[last], text.join("; ")),
        Verdict::of(times.iter().all(|times| exponent(times) < 3.5), "some grow faster"),
    );
    Ok(())
}
