//! Schedules of steps and of samples or rows on conjugate models: figures 1, 3 and 4 with the bounds of Propositions 4 and 5.

use super::problem::{Means, Problem, Record, START, Schedules};
use crate::data::{Data, listed, record_at, rotation, series};
use crate::paper::common::normals;
use crate::paper::{Axes, Paper, Verdict};
use faer::{Mat, Scale};
use sparsegp::Result;
use sparsegp::data::SizeSchedule;
use sparsegp::likelihood::TargetKind;
use sparsegp::objective::Estimator;
use sparsegp::variational::Schedule;
use sparsegp_research::{ConjugateBound, price_noise};

const STEPS: usize = 1000;
const STEP: f64 = 0.01;
const SIZE: usize = 100;
const DIVERGENCE: &str = "mean KL(q* ‖ q)";
const GROWING: SizeSchedule = SizeSchedule::Power { exponent: 1.0 };

/// Returns the four schedules of figure 1: constant steps and numbers, growing numbers, decreasing steps, and
/// both.
fn four() -> [Schedules; 4] {
    let constant = Schedules::constant(STEP, SIZE);
    let decreasing = Schedule::TwoOverT;
    [
        constant,
        Schedules { size: GROWING, ..constant },
        Schedules { step: decreasing, ..constant },
        Schedules { step: decreasing, size: GROWING },
    ]
}

/// Data whose posterior under a prior N(0, I) has a precision with eigenvalues from 1 to 100 in random directions.
fn target() -> (Data, Mat<f64>) {
    let d = 10;
    let rotation = rotation(d, 0);
    let eigenvalue = |i: usize| 100f64.powf(i as f64 / (d - 1) as f64);
    let x = Mat::from_fn(d, d, |j, i| (eigenvalue(i) - 1.0).sqrt() * rotation[(j, i)]);
    let precision = &x * x.transpose() + Mat::<f64>::identity(d, d);
    let mut draw = normals(1);
    let y = (0..d).map(|_| draw()).collect();
    (Data { x, y }, precision)
}

fn divergences(kl: impl IntoIterator<Item = f64>) -> String {
    listed(kl, |kl| format!("{kl:.2e}"))
}

fn hundredths(slopes: &[f64]) -> String {
    listed(slopes.iter().copied(), |slope| format!("{slope:.2}"))
}

/// Bonnet–Price gradients of a Gaussian target.
pub fn gaussian(paper: &mut Paper, runs: u64) -> Result<()> {
    let (data, precision) = target();
    let covariance = Scale(START) * Mat::<f64>::identity(10, 10);
    let noise = price_noise(precision.as_ref(), covariance.as_ref(), (0.0, f64::INFINITY))?;
    let problem = Problem::new(data, 1.0, Estimator::Price { samples: SIZE }, noise)?;
    paper.settings(format!(
        "Gaussian target: d = 10, condition number 100, start of random mean in [−5, 5] and covariance 10 I, {runs} runs of {STEPS} \
         steps, V = {noise:.3e} nats."
    ));
    let means = figure(paper, &problem, ("gaussian", runs))?;
    let slopes = means.each_ref().map(|means| means.slope_from(STEPS as f64 / 10.0));
    paper.claim(
        "Gaussian target: constant steps and samples reach a neighbourhood at a geometric rate (Fig. 1a)",
        "KL falls, then stays",
        format!("KL {} at t = 0, 300 and {STEPS}", divergences([0.0, 300.0, 1e3].map(|t| means[0].at(t)))),
        Verdict::of(means[0].at(300.0) < 0.02 * means[0].at(0.0), "it has not fallen after 300 steps"),
    );
    let sublinear =
        (slopes[1] + 1.0).abs() < 0.25 && (slopes[2] + 1.0).abs() < 0.25 && (slopes[3] + 2.0).abs() < 0.3;
    paper.claim(
        "the other schedules converge at sub-geometric rates, with both fastest (Fig. 1a)",
        "1/T, 1/T and 1/T²",
        format!("slopes of log KL {}", hundredths(&slopes[1..])),
        Verdict::of(sublinear, "the slopes are others"),
    );
    budget(paper, "Gaussian target", &means);
    bounds(paper, "Gaussian target", &means);
    paper.expect("slope of decreasing steps and growing samples", slopes[3], -2.2..=-1.8);
    paper.expect("records above their bound", violations(&means), 0.0..=0.0);
    sweeps(paper, &problem, runs)
}

/// Rows drawn with replacement for a linear regression.
pub fn regression(paper: &mut Paper, runs: u64) -> Result<()> {
    let Some(mut data) = paper.read("gas_turbine", "NOX", TargetKind::Real)? else { return Ok(()) };
    if !paper.quick {
        // Excludes the year, which is the first column, and CO, which is the last.
        data.x = data.x.subrows(1, data.x.nrows() - 2).to_owned();
    }
    data.standardise(true);
    let (n, d) = (data.y.len(), data.x.nrows());
    // No S_t exceeds the start, 10 I, so the start replaces the prior in V₂, which uses the prior as the
    // bound on S_t.
    let largest = Scale(START) * Mat::<f64>::identity(d, d);
    let noise = ConjugateBound::new(data.x.transpose(), &data.y, largest.as_ref(), 1.0, 1)?.v2;
    let problem = Problem::new(data, 5.0, Estimator::Exact, noise)?;
    paper.settings(format!(
        "Linear regression: {} ({n} rows, {d} inputs), prior N(0, 5 I), σ² = 1, batches with replacement, V = {noise:.3e} nats.",
        paper.setting("gas_turbine, NOX", "visits to a doctor")
    ));
    let means = figure(paper, &problem, ("regression", runs))?;
    let ends = means.each_ref().map(|means| means.end().kl);
    let slopes = means.each_ref().map(|means| means.slope_from(STEPS as f64 / 10.0));
    paper.claim(
        "Regression: the same picture from subsampled rows (Fig. 1c)",
        "as for the target",
        format!(
            "KL {} after {STEPS} steps; slopes {} of the last three",
            divergences(ends),
            hundredths(&slopes[1..])
        ),
        Verdict::of(
            ends[3] < ends[1].min(ends[2]) && ends[2] < ends[0],
            "the order of the schedules is another",
        ),
    );
    budget(paper, "Regression", &means);
    bounds(paper, "Regression", &means);
    Ok(())
}

/// Runs the four schedules and draws them with their bounds.
fn figure(paper: &Paper, problem: &Problem, (name, runs): (&str, u64)) -> Result<[Means; 4]> {
    let at = record_at(STEPS, 10);
    let mut all = Vec::new();
    for (index, schedules) in four().into_iter().enumerate() {
        let means = problem.means(schedules, runs, &at)?;
        let Record { kl, bound, .. } = means.end();
        paper.say(&format!("{name}, {}: KL {kl:.3e}, bound {bound:.3e}", schedules.label()));
        let rows: Vec<[f64; 4]> =
            means.0.iter().map(|record| [record.t, record.used, record.kl, record.bound]).collect();
        paper.csv(&format!("{name}_{index}.csv"), &["t", "used", "kl", "bound"], &rows)?;
        all.push(means);
    }
    let lines = |point: fn(&Record) -> (f64, f64), suffix: &str| {
        let named = four().into_iter().zip(&all);
        named
            .map(|(schedules, means)| {
                series(&format!("{}{suffix}", schedules.label()), means.0.iter().map(point))
            })
            .collect::<Vec<_>>()
    };
    let by_step = [lines(|m| (m.t, m.kl), ""), lines(|m| (m.t, m.bound), ": bound")].concat();
    paper.figure(&format!("{name}_iterations.svg"), ("iteration", DIVERGENCE), Axes::LogLog, by_step)?;
    let by_use = lines(|m| (m.used, m.kl), "");
    paper.figure(&format!("{name}_used.svg"), ("samples or rows", DIVERGENCE), Axes::LogLog, by_use)?;
    all.try_into().map_err(|_| sparsegp::Error::fit("four schedules have four curves"))
}

/// Finds the best schedule for the number of samples or rows that the constant schedule uses.
fn budget(paper: &mut Paper, name: &str, means: &[Means; 4]) {
    let budget = means[0].end().used;
    let spent = means.each_ref().map(|means| means.within(budget));
    let best = (0..4).min_by(|&a, &b| spent[a].total_cmp(&spent[b])).unwrap_or(0);
    paper.claim(
        &format!("{name}: per sample, constant numbers with decreasing steps are best (Fig. 1b, d)"),
        "decreasing step, constant N",
        format!(
            "KL {} after {budget:.0} samples or rows; best: {}",
            divergences(spent),
            four()[best].label()
        ),
        Verdict::of(best == 2, "another schedule is ahead"),
    );
}

fn violations(means: &[Means; 4]) -> f64 {
    means.iter().map(|means| means.0.len() - means.within_bound()).sum::<usize>() as f64
}

/// Claims that mean divergences stay below the bounds.
fn bounds(paper: &mut Paper, name: &str, means: &[Means; 4]) {
    let records: usize = means.iter().map(|means| means.0.len()).sum();
    let loose = means.each_ref().map(|means| means.end().bound / means.end().kl);
    let broken = violations(means);
    paper.claim(
        &format!("{name}: the bounds of Propositions 4 and 5 on KL(q* ‖ q)"),
        "hold",
        format!(
            "{:.0} of {records} records below; at the end the bounds are {} times the means",
            records as f64 - broken,
            listed(loose, |ratio| format!("{ratio:.0e}"))
        ),
        Verdict::of(broken == 0.0, "some records are above"),
    );
}

/// Figures 3 and 4: step sizes, numbers of samples, and how fast these grow.
fn sweeps(paper: &mut Paper, problem: &Problem, runs: u64) -> Result<()> {
    let (runs, at) = (runs.div_ceil(5), record_at(STEPS, 10));
    let sweep = |schedules: &[Schedules], at: &[usize]| -> Result<Vec<Means>> {
        schedules.iter().map(|schedules| problem.means(*schedules, runs, at)).collect()
    };
    let steps = [0.1, 0.03, 0.01].map(|step| Schedules::constant(step, 100));
    let by_step = sweep(&steps, &at)?;
    let floor = |means: &Means| means.end().kl;
    let early = |means: &Means| means.at(50.0);
    paper.claim(
        "smaller constant steps are slower and end closer (Fig. 3a)",
        "both",
        format!(
            "KL after 50 and {STEPS} steps: {:.1e}, {:.1e} (step 0.1); {:.1e}, {:.1e} (0.03); {:.1e}, {:.1e} (0.01)",
            early(&by_step[0]), floor(&by_step[0]), early(&by_step[1]), floor(&by_step[1]), early(&by_step[2]), floor(&by_step[2])
        ),
        Verdict::of(
            by_step.windows(2).all(|pair| early(&pair[0]) < early(&pair[1]) && floor(&pair[0]) > floor(&pair[1])),
            "the order is another",
        ),
    );
    let by_size = sweep(&[10, 100, 1000].map(|size| Schedules::constant(STEP, size)), &at)?;
    let ratios = [0, 1].map(|k| floor(&by_size[k]) / floor(&by_size[k + 1]));
    paper.claim(
        "the floor falls as 1/N (Fig. 3b, Proposition 7)",
        "10 for ten times the samples",
        format!("ratios of the floors {:.1} and {:.1} from N = 10 to 100 to 1000", ratios[0], ratios[1]),
        Verdict::of(ratios.iter().all(|ratio| (7.0..14.0).contains(ratio)), "the ratios are others"),
    );
    paper.expect("ratio of the floors for N = 10 and 100", ratios[0], 7.0..=14.0);
    // At most 10,000 samples are drawn at once, which the exponent 1.5 reaches after 464 steps.
    let at = record_at(400, 10);
    let exponents = [0.5, 1.0, 1.5];
    let growing = exponents
        .map(|exponent| Schedules { step: Schedule::Constant(0.1), size: SizeSchedule::Power { exponent } });
    let by_growth = sweep(&growing, &at)?;
    let slopes: Vec<f64> = by_growth.iter().map(|means| means.slope_from(100.0)).collect();
    paper.claim(
        "constant steps with (t + 1)^γ samples converge at the rate T^−γ (Fig. 4a)",
        "slope −γ",
        format!("slopes {} for γ = 0.5, 1 and 1.5 and step 0.1", hundredths(&slopes)),
        Verdict::of(
            slopes.iter().zip(exponents).all(|(slope, exponent)| (slope + exponent).abs() < 0.25),
            "the slopes are others",
        ),
    );
    Ok(())
}
