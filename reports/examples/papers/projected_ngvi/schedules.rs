//! Schedules of steps and of samples or rows on conjugate models: figures 1, 3 and 4 with the bounds of Propositions 4 and 5.

use super::problem::{Batches, Means, NORMAL, START, Schedules, Target, of_library};
use crate::paper::prelude::*;
use sparsegp_research::price_noise;

const D: usize = 10;
/// The prior variance of the data whose posterior is the target.
const WIDE: f64 = 1000.0;

/// A normal target with a mean uniform in [−5, 5] and a covariance with eigenvalues from 1 to 100 in random
/// directions, and data whose posterior it is under a prior N(0, 1000 I).
fn target() -> Result<(Target, Data)> {
    let (rotation, mut random) = (rotation(D, 0), ChaCha8Rng::seed_from_u64(1));
    let precisions: Vec<f64> = (0..D).map(|i| 100f64.powf(-(i as f64) / (D - 1) as f64)).collect();
    let mean = Mat::from_fn(D, 1, |_, _| random.random_range(-5.0..5.0));
    let along = rotation.transpose() * &mean;
    let share = |i: usize| (precisions[i] - 1.0 / WIDE).sqrt();
    let x = Mat::from_fn(D, D, |j, i| share(i) * rotation[(j, i)]);
    let y = (0..D).map(|i| precisions[i] * along[(i, 0)] / share(i)).collect();
    // The starts have means uniform in [−5, 5], of variance 25/3.
    let errors = (0..D).map(|i| 25.0 / 3.0 + along[(i, 0)].powi(2)).collect();
    let noise = noise_from(&precisions, START)?;
    Ok((Target { precisions, errors, noise }, Data { x, y }))
}

/// Returns V for a start of covariance `start` · I.
fn noise_from(precisions: &[f64], start: f64) -> Result<f64> {
    let precision = Mat::from_fn(D, D, |i, j| if i == j { precisions[i] } else { 0.0 });
    let start = Scale(start) * Mat::<f64>::identity(D, D);
    price_noise(precision.as_ref(), start.as_ref(), (0.0, f64::INFINITY))
}

fn divergences(kl: impl IntoIterator<Item = f64>) -> String {
    listed(kl, |kl| format!("{kl:.2e}"))
}

/// Claims that the slopes of log KL in log t are the theoretical ones.
fn slopes(paper: &mut Paper, claim: &str, theory: &[f64], means: &[Means]) {
    let slopes: Vec<f64> = means.iter().map(Means::slope).collect();
    let furthest = slopes.iter().zip(theory).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let says = format!("slopes {}", listed(theory.iter().copied(), short));
    let ours = format!(
        "slopes {} of log KL from 0.3 T to T; largest difference",
        listed(slopes, |slope| format!("{slope:.2}"))
    );
    paper.judge(claim, &says, ours, Compared::at_most(furthest, 0.0, 0.15));
}

pub fn gaussian(paper: &mut Paper, runs: u64) -> Result<()> {
    let (target, data) = target()?;
    let (four, at) = (Schedules::four(0.01, 100), record_at(10_000, 20));
    let means = target.expected(&four, START, &at)?;
    // The library's own runs, which the expectations stand for.
    let short_at = record_at(paper.setting(1000, 100), 10);
    let mut ratios = Vec::new();
    for (schedules, theory) in four.into_iter().zip(target.expected(&four, START, &short_at)?) {
        let ours = of_library((&data, WIDE), schedules, runs, &short_at)?;
        ratios.extend(ours.0.iter().zip(&theory.0).skip(1).map(|(ours, theory)| ours.kl / theory.kl));
    }
    let ratio = ratios.iter().sum::<f64>() / ratios.len() as f64;
    paper.settings(format!(
        "Gaussian target, as in the authors' code: d = {D}, covariance with eigenvalues from 1 to 100, mean uniform in [−5, 5], start of mean \
         uniform in [−5, 5] and covariance 10 I, 10,000 steps, step 0.01 and N = 100 where they are constant. In place of 100 runs the \
         expectation is exact, by a recursion of moments; means of {runs} runs of {} steps of the library are on average {ratio:.3} times it.",
        short_at[short_at.len() - 1]
    ));
    paper.expect("mean of runs over the expectation", ratio, 0.9..=1.1);
    figure(paper, "gaussian", &four, &means)?;
    let [early, late] = [100.0, 400.0].map(|t| means[0].at(t));
    let factor = (late.kl / early.kl).powf(1.0 / (late.t - early.t));
    let claim = "Gaussian target: constant steps and samples converge to a neighbourhood at a geometric rate (Fig. 1a, Prop. 4)";
    let ours = format!(
        "KL {} at t = 0, 1000 and the end; factor of a step between t = 100 and 400",
        divergences([means[0].at(0.0).kl, means[0].at(1e3).kl, means[0].end().kl])
    );
    paper.judge(claim, "at most 1 − η", ours, Compared::at_most(factor, 0.99, 0.0));
    let claim =
        "Gaussian target: the other schedules converge at sub-geometric rates, with both fastest (Fig. 1a)";
    slopes(paper, claim, &[-1.0, -1.0, -2.0], &means[1..]);
    budget(paper, "Gaussian target", (&four, &means));
    bounds(paper, &target, &means)?;
    sweeps(paper, &target)
}

pub fn regression(paper: &mut Paper, runs: u64) -> Result<()> {
    let Some(mut data) = paper.read("gas_turbine", "NOX", TargetKind::Real)? else { return Ok(()) };
    if paper.quick {
        data.standardise(true);
    } else {
        // Excludes the year, which is the first column, and CO, which is the last.
        data.x = data.x.subrows(1, data.x.nrows() - 2).to_owned();
    }
    let (n, d, steps) = (data.y.len(), data.x.nrows(), paper.setting(20_000, 300));
    let problem = Batches::new(&data, 5.0)?;
    let four = Schedules::four(paper.setting(1e-3, 1e-2), paper.setting(1000, 50));
    paper.settings(format!(
        "Linear regression, as in the authors' code: {} ({n} rows, {d} inputs as in the file), prior N(0, 5 I), σ² = 1, batches with \
         replacement, step {} and N {} where they are constant, {steps} steps, {runs} runs (100 in the paper), simulated in the \
         natural parameters with normal sums over batches of {NORMAL} rows or more. V₂ exceeds all divergences by far, so the bounds say nothing here.",
        paper.setting("gas_turbine, NOX", "visits to a doctor"), four[0].step, four[0].size
    ));
    let at = record_at(steps, 10);
    let means = four.iter().map(|schedules| problem.means(*schedules, runs, &at));
    let means = means.collect::<Result<Vec<Means>>>()?;
    figure(paper, "regression", &four, &means)?;
    let claim =
        "Regression: the other schedules converge to the solution, as for the Gaussian target (Fig. 1c)";
    slopes(paper, claim, &[-1.0, -1.0, -2.0], &means[1..]);
    let ends: Vec<f64> = means.iter().map(|means| means.end().kl).collect();
    let claim = "Regression: both schedules together end closest (Fig. 1c)";
    let ours = format!(
        "KL {} at the end; the last one over the least of the others",
        divergences(ends.iter().copied())
    );
    let compared =
        Compared::at_most(ends[3] / ends[..3].iter().copied().fold(f64::INFINITY, f64::min), 1.0, 0.0);
    paper.judge(claim, "closest", ours, compared);
    budget(paper, "Regression", (&four, &means));
    Ok(())
}

/// Writes the records of schedules, and draws them with their bounds if they have any.
fn figure(paper: &Paper, name: &str, schedules: &[Schedules], all: &[Means]) -> Result<()> {
    let (mut by_step, mut by_use) = (Vec::new(), Vec::new());
    for (index, (schedules, means)) in schedules.iter().zip(all).enumerate() {
        let rows: Vec<[f64; 4]> = means.0.iter().map(|m| [m.t, m.used, m.kl, m.bound]).collect();
        paper.csv(&format!("{name}_{index}.csv"), &["t", "used", "kl", "bound"], &rows)?;
        let label = schedules.label();
        by_step.push(series(&label, rows.iter().map(|row| (row[0], row[2]))));
        by_use.push(series(&label, rows.iter().map(|row| (row[1], row[2]))));
        if name == "gaussian" {
            by_step.push(series(&format!("{label}: bound"), rows.iter().map(|row| (row[0], row[3]))));
        }
    }
    let divergence = "mean KL(q* ‖ q)";
    paper.figure(&format!("{name}_iterations.svg"), ("iteration", divergence), Axes::LogLog, by_step)?;
    paper.figure(&format!("{name}_used.svg"), ("samples or rows", divergence), Axes::LogLog, by_use)
}

/// Claims which schedule is best for the number of samples or rows that the constant schedule uses.
fn budget(paper: &mut Paper, name: &str, (four, means): (&[Schedules], &[Means])) {
    let budget = means[0].end().used;
    let spent: Vec<f64> = means.iter().map(|means| means.within(budget)).collect();
    let other = [0, 1, 3].map(|k| spent[k]).into_iter().fold(f64::INFINITY, f64::min);
    let claim = format!("{name}: per sample, constant numbers with decreasing steps are best (Fig. 1b, d)");
    let ours = format!(
        "KL {} after {budget:.0} samples or rows; {} over the best of the others",
        divergences(spent.iter().copied()),
        four[2].label()
    );
    let cause = "with step 2/(t + 2), B samples leave a noise of 4/(3B) for constant N, but 1/B for N = t + 1, as the numbers here show";
    paper.judge(&claim, "best", ours, Compared::at_most(spent[2] / other, 1.0, 0.0)).because(cause);
}

/// Claims that divergences stay below the bounds, also where these are tight: long steps from a covariance that is not
/// above the posterior's.
fn bounds(paper: &mut Paper, target: &Target, means: &[Means]) -> Result<()> {
    let mut largest: Vec<f64> = means.iter().map(Means::tightest).collect();
    let narrow = Target { noise: noise_from(&target.precisions, 1.0)?, ..target.clone() };
    let at = record_at(1000, 10);
    let long = [0.1, 1.0].map(|step| Schedules::constant(step, 100));
    largest.extend(narrow.expected(&long, 1.0, &at)?.iter().map(Means::tightest));
    let most = largest.iter().copied().fold(0.0, f64::max);
    let claim =
        "Gaussian target: the bounds of Propositions 4 and 5 on KL(q* ‖ q), with V = ½ Σ max(1, λ)², ours";
    let ours = format!(
        "largest KL over its bound after the start: {} for the four schedules, {} for constant steps 0.1 and 1 from covariance I; largest",
        listed(largest[..4].iter().copied(), short),
        listed(largest[4..].iter().copied(), short)
    );
    paper.judge(claim, "hold", ours, Compared::at_most(most, 1.0, 1e-9)).expect(0.9..=1.0 + 1e-9);
    Ok(())
}

/// Figures 3 and 4: step sizes, numbers of samples, and how fast these grow.
fn sweeps(paper: &mut Paper, target: &Target) -> Result<()> {
    let at = record_at(5000, 20);
    let steps = [0.1, 0.05, 0.01, 0.005];
    let by_step = target.expected(&steps.map(|step| Schedules::constant(step, 100)), START, &at)?;
    let pairs =
        |of: &dyn Fn(&Means) -> f64| by_step.windows(2).filter(|pair| of(&pair[0]) < of(&pair[1])).count();
    let (early, late) = (|means: &Means| means.at(40.0).kl, |means: &Means| -means.end().kl);
    let claim = "smaller constant steps are slower and end closer (Fig. 3a)";
    let ours = format!(
        "KL {} after 40 steps and {} at the end for steps {}; pairs of neighbours in this order, of 6",
        divergences(by_step.iter().map(early)),
        divergences(by_step.iter().map(|means| -late(means))),
        listed(steps, |step| step.to_string())
    );
    paper.judge(claim, "both", ours, Compared::at_least((pairs(&early) + pairs(&late)) as f64, 6.0, 0.0));
    let by_size =
        target.expected(&[10, 100, 1000].map(|size| Schedules::constant(0.01, size)), START, &at)?;
    let ratios = [0, 1].map(|k| by_size[k].end().kl / by_size[k + 1].end().kl);
    let claim = "the floor falls as 1/N (Fig. 3b, Proposition 7)";
    let ours = format!("ratios {} from N = 10 to 100 to 1000; the last", listed(ratios, short));
    paper.judge(claim, "10 for ten times the samples", ours, Compared::near(ratios[1], 10.0, 0.5));
    let exponents = [0.25, 0.5, 1.0, 1.5];
    let growing = exponents
        .map(|exponent| Schedules { step: Schedule::Constant(0.01), size: SizeSchedule::Power { exponent } });
    let by_growth = target.expected(&growing, START, &at)?;
    let claim = "step 0.01 with (t + 1)^γ samples converges at the rate T^−γ (Fig. 4a)";
    slopes(paper, claim, &exponents.map(|exponent| -exponent), &by_growth);
    let budget = by_growth[0].end().used;
    let spent: Vec<f64> = by_growth.iter().map(|means| means.within(budget)).collect();
    let best = (0..exponents.len()).min_by(|&a, &b| spent[a].total_cmp(&spent[b])).unwrap_or(0);
    let claim = "for a budget of samples there is a best γ, neither small nor large (Fig. 4b)";
    let ours =
        format!("KL {} after {budget:.0} samples for these γ; best γ", divergences(spent.iter().copied()));
    paper.judge(claim, "inside 0.25 to 1.5", ours, Compared::near(exponents[best], 0.75, 0.25));
    Ok(())
}
