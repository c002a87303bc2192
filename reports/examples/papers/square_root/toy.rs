//! Linear regression in two dimensions, badly conditioned: figure 1 with Euclidean, Wasserstein and natural gradients.

use crate::paper::prelude::*;
use crate::roots::{self, Way, fastest, reached};

const NOISE: f64 = 5.0;

/// Returns 50 rows. The posterior precision is near 10 in one direction and near 1 in the other.
fn data() -> Data {
    let mut draw = normals(2);
    let x = Mat::from_fn(2, 50, |i, _| [1.0, 0.1][i] * draw());
    let y = x.col_iter().map(|x| x[0] - 2.0 * x[1] + NOISE.sqrt() * draw()).collect();
    Data { x, y }
}

/// Returns KL(q ‖ posterior) at the given iterations of exact steps. Steps of SR-VN are not shortened.
fn divergences(
    data: &Data,
    exact: &Normal,
    (update, step): (QUpdate, f64),
    at: &[usize],
) -> Result<Vec<f64>> {
    let guard = if update == QUpdate::SrVn { Guard::None } else { Guard::Trust };
    let rule = RuleOptions { guard, ..RuleOptions::of(update) };
    let options = InferenceOptions::full_batch(rule, Schedule::Constant(step));
    let mut run = data.infer(data.model(Gaussian::new(NOISE), 1.0)?, Estimator::Exact, options);
    Ok(trace(&mut run, at, |run| run.q().kl_to(exact)))
}

pub fn run(paper: &mut Paper) -> Result<()> {
    let data = data();
    let exact = data.posterior(data.model(Gaussian::new(NOISE), 1.0)?)?;
    let at: Vec<usize> = (0..=400).collect();
    paper.settings("Toy problem: linear regression on 50 rows in two dimensions, precisions near 10 and 1, exact steps from the prior.".into());
    let natural: &[f64] = &[1.0, 0.7, 0.5, 0.3, 0.2, 0.15, 0.1];
    let gradient: &[f64] = &[0.2, 0.15, 0.1, 0.05, 0.02];
    let (mut ends, mut lines) = (Vec::new(), Vec::new());
    for (name, update, grid) in [
        ("GD", QUpdate::Sgd, gradient),
        ("BW-GD", QUpdate::BwGd, gradient),
        ("SR-VN", QUpdate::SrVn, natural),
        ("VN", QUpdate::Ngd, natural),
    ] {
        let mut best = (f64::INFINITY, f64::NAN, Vec::new());
        for &step in grid {
            let kl = divergences(&data, &exact, (update, step), &at)?;
            let t = reached(&kl, 1e-6);
            if t < best.0 || best.2.is_empty() {
                best = (t, step, kl);
            }
        }
        let (t, step, kl) = best;
        let points = record_at(400, 10).into_iter().map(|t| (t as f64, kl[t].max(1e-16)));
        lines.push(series(&format!("{name}, step {step}"), points));
        ends.push((name, t, step));
    }
    paper.figure("toy.svg", ("iteration", "KL to the posterior"), Axes::LogLog, lines)?;
    let text = |&(name, t, step): &(&str, f64, f64)| match t.is_finite() {
        true => format!("{name} {t:.0} (step {step})"),
        false => format!("{name} not within 400"),
    };
    let [euclidean, wasserstein, square_root, newton] = [0, 1, 2, 3].map(|k| ends[k].1);
    let claim = "toy problem: natural gradients need far fewer iterations than Euclidean and Wasserstein ones (Fig. 1a)";
    let ours = format!(
        "iterations to a KL of 1e-6, best steps: {}",
        ends.iter().map(text).collect::<Vec<_>>().join(", ")
    );
    let compared = Compared::at_most(square_root.max(newton), 0.5 * euclidean.min(wasserstein), 0.0);
    paper.judge(claim, "far fewer (we ask for half)", ours, compared);
    let start = Normal::standard(Family::Full, 2);
    let svgd = [Way::Svgd, Way::CentredSvgd].map(|way| {
        fastest([0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.005], |step| {
            let model = data.model(Gaussian::new(NOISE), 1.0).expect("the toy problem has a model");
            reached(&roots::trace((&data, model), &start, way, (step, 400), |_, q| q.kl_to(&exact)), 1e-6)
        })
    });
    roots::judge_svgd(
        paper,
        "toy problem",
        (svgd, 400),
        [("VN", newton), ("SR-VN", square_root), ("BW-GD", wasserstein)],
    );
    let small = 0.002;
    let [vn, sr] =
        [QUpdate::Ngd, QUpdate::SrVn].map(|update| divergences(&data, &exact, (update, small), &at));
    let apart = vn?.iter().zip(sr?).map(|(a, b)| (a - b).abs() / a.max(1e-12)).fold(0.0, f64::max);
    let claim = "with small steps VN and SR-VN follow the same flow (Fig. 1b)";
    let ours = format!("largest relative difference of KL over 400 iterations with step {small}");
    paper.judge(claim, "the same", ours, Compared::at_most(apart, 0.0, 0.05));
    let one = divergences(&data, &exact, (QUpdate::Ngd, 1.0), &[0, 1])?[1];
    let sr = divergences(&data, &exact, (QUpdate::SrVn, 1.0), &[0, 1, 10])?;
    let claim = "with step 1, VN converges in one step and SR-VN does not (Fig. 1c)";
    let ours = format!(
        "KL after one step of VN; {:.0} after one and {:.1e} after ten steps of plain SR-VN",
        sr[1], sr[2]
    );
    paper.judge(claim, "one step", ours, Compared::at_most(one, 0.0, 1e-9)).expect(-1e-9..=1e-9);
    paper.expect("iterations of SR-VN with its best step", square_root, 3.0..=60.0);
    Ok(())
}
