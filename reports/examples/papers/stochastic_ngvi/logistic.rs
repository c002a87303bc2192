//! Logistic regression from samples of w, with the step grids of the paper: figure 2.

use crate::paper::prelude::*;

const PRICE: Estimator = Estimator::Price { samples: 10 };

/// Name, rule and gradient: (p) by Price's theorem, (r) by reparameterisation.
const CONTENDERS: [(&str, QUpdate, Estimator); 4] = [
    ("NGD (p)", QUpdate::Ngd, PRICE),
    ("NGD (r)", QUpdate::Ngd, Estimator::Energy { samples: 10 }),
    ("SGD (p)", QUpdate::Sgd, PRICE),
    ("SGD (r)", QUpdate::Sgd, Estimator::EnergyEntropy { samples: 10 }),
];

/// A data set with the grids of steps and the number of iterations.
struct Case {
    name: &'static str,
    /// The divisor of the inputs.
    unit: f64,
    natural: &'static [f64],
    euclidean: &'static [f64],
    /// The factor of the Euclidean steps: the paper's number of rows over ours.
    scale: f64,
    steps: usize,
}

const CASES: [Case; 2] = [
    Case {
        name: "mushroom",
        unit: 1.0,
        natural: &[0.5, 0.1, 0.01, 0.001],
        euclidean: &[1e-3, 1e-4, 1e-5, 1e-6],
        scale: 1.0,
        steps: 200,
    },
    Case {
        name: "mnist17",
        unit: 255.0,
        natural: &[0.1, 0.01, 0.001],
        euclidean: &[1e-5, 1e-6, 1e-7],
        scale: 13.0,
        steps: 60,
    },
];

pub fn run(paper: &mut Paper, count: u64) -> Result<()> {
    for case in CASES.iter().take(paper.setting(2, 1)) {
        let Some(mut data) = paper.read(case.name, "y", TargetKind::Binary)? else { continue };
        if paper.quick {
            data.standardise(false);
        }
        // For inputs that are always 0, q stays at the prior.
        let occupied = |&d: &usize| data.x.row(d).iter().any(|x| *x != 0.0);
        let rows: Vec<usize> = (0..data.x.nrows()).filter(occupied).collect();
        data.x = Mat::from_fn(rows.len(), data.x.ncols(), |d, i| data.x[(rows[d], i)] / case.unit);
        let steps = paper.setting(case.steps, 100);
        compare(paper, case, &data, (count.min(2), steps))?;
        if case.name == "mnist17" {
            oscillations(paper, case.name, &data)?;
        }
    }
    Ok(())
}

/// Returns D_ℓ(ω′, ω)/D_A*(ω′, ω) for consecutive iterates ω, ω′ of exact natural gradients from the prior. Its largest
/// value over all pairs is the smoothness constant relative to A*.
///
/// A step is `θ′ = θ − γ ∇ℓ(ω)`, so that `γ⟨∇ℓ(ω), ω′ − ω⟩ = −KL(q, q′) − KL(q′, q)`, and D_A*(ω′, ω) = KL(q′, q).
fn relative_curvature(data: &Data, model: LatentModel, (step, steps): (f64, usize)) -> Vec<f64> {
    let options = InferenceOptions::full_batch(QUpdate::Ngd, Schedule::Constant(step));
    let mut run = data.infer(model, Estimator::Exact, options);
    let ratios = (0..steps).map(|_| {
        let (q, value) = (run.q().clone(), run.objective());
        run.step();
        let [to, from] = [q.kl_to(run.q()), run.q().kl_to(&q)];
        // Of smaller divergences, the difference of the objectives is lost in rounding errors.
        (from > 1e-5).then(|| (run.objective() - value + (to + from) / step) / from)
    });
    ratios.map_while(|ratio| ratio).collect()
}

/// Claims that long steps oscillate in the end. A run has as many steps as forget the start to e^{−15}.
fn oscillations(paper: &mut Paper, name: &str, data: &Data) -> Result<()> {
    let rises = runs(2, |k| {
        let (step, steps) = [(0.1, 150), (0.01, 1500)][k as usize];
        let rule = RuleOptions { guard: Guard::Backtrack, ..RuleOptions::of(QUpdate::Ngd) };
        let options = InferenceOptions::full_batch(rule, Schedule::Constant(step));
        let mut run = data.infer(data.model(Bernoulli::Logit, 1.0)?, PRICE, options);
        let last = Vec::from_iter(2 * steps / 3..=steps);
        let values = trace(&mut run, &last, |run| run.objective());
        Ok(values.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max))
    })?;
    let claim =
        format!("{name}: NGD oscillates in the end with steps of 0.1, and not with 0.01 (Fig. 2, right)");
    let ours = format!(
        "largest rise of the objective from an iterate to the next in the last third of 15/γ steps, nats: {} and {}; their ratio",
        short(rises[0]),
        short(rises[1])
    );
    let compared = Compared::at_most(rises[1] / rises[0], 0.1, 0.0);
    paper.judge(&claim, "it does (we ask for a tenth)", ours, compared);
    Ok(())
}

/// The best step of a grid, with the objective above the optimum at the recorded iterations.
struct Best {
    label: &'static str,
    step: f64,
    gaps: Vec<f64>,
}

impl Best {
    fn end(&self) -> f64 {
        self.gaps[self.gaps.len() - 1]
    }
}

fn compare(paper: &mut Paper, case: &Case, data: &Data, (count, steps): (u64, usize)) -> Result<()> {
    let (_, value) = data.optimum(data.model(Bernoulli::Logit, 1.0)?, 0.5)?;
    let at = record_at(steps, 10);
    let (name, n, d) = (paper.setting(case.name, "tumours"), data.x.ncols(), data.x.nrows());
    paper.settings(format!(
        "Logistic regression: {name} ({n} rows, {d} inputs), prior N(0, I), all rows, 10 samples of w, from the prior, {steps} steps, \
         {count} runs; the step of the paper's grid that ends lowest, SGD's times {}; natural gradients without the library's trust region. \
         The paper does not state batches, samples and the number of steps; its MNIST has 13,000 rows.",
        case.scale
    ));
    let (mut lines, mut found) = (Vec::new(), Vec::new());
    for (label, update, estimator) in CONTENDERS {
        let natural = update == QUpdate::Ngd;
        let (grid, scale) = if natural { (case.natural, 1.0) } else { (case.euclidean, case.scale) };
        let of = RuleOptions::of(update);
        let guard = if natural { Guard::Backtrack } else { of.guard };
        let rule = RuleOptions { guard, ..of };
        let mut best = Best { label, step: f64::NAN, gaps: vec![f64::INFINITY; at.len()] };
        for step in grid.iter().map(|step| step * scale) {
            let records = means(count, |seed| {
                let all = InferenceOptions::full_batch(rule.clone(), Schedule::Constant(step));
                let options = InferenceOptions { seed, ..all };
                let mut run = data.infer(data.model(Bernoulli::Logit, 1.0)?, estimator, options);
                // A run whose covariance is wider than the prior has failed, and its steps take long.
                Ok(Vec::from_iter(at.iter().map(|&t| {
                    while run.iterations() < t && run.q().trace() <= 2.0 * d as f64 {
                        run.step();
                    }
                    [if run.iterations() < t { f64::INFINITY } else { run.objective() - value }]
                })))
            })?;
            let tried = Best { label, step, gaps: records.into_iter().map(|[gap]| gap).collect() };
            if tried.end() < best.end() {
                best = tried;
            }
        }
        let rows: Vec<[f64; 2]> = at.iter().zip(&best.gaps).map(|(t, gap)| [*t as f64, *gap]).collect();
        lines.push(series(&format!("{label}, step {}", best.step), rows.iter().map(|row| (row[0], row[1]))));
        let file = format!("{name}_{}.csv", label.replace([' ', '(', ')'], ""));
        paper.csv(&file, &["t", "gap"], &rows)?;
        found.push(best);
    }
    let file = if case.name == "mushroom" { "logistic.svg" } else { &format!("{name}.svg") };
    paper.figure(file, ("iteration", "objective above the optimum, nats"), Axes::LogLog, lines)?;
    claims(paper, name, (&found, &at));
    let linear = relative_curvature(data, data.model(Gaussian::new(1.0), 1.0)?, (0.1, 50));
    let off = linear.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
    paper.expect("D_ℓ/D_A* of the linear model less 1", off, 0.0..=1e-6);
    let ratios = relative_curvature(data, data.model(Bernoulli::Logit, 1.0)?, (0.1, 200));
    let largest = ratios.iter().copied().fold(0.0, f64::max);
    let last = ratios.iter().rposition(|ratio| *ratio > 1.5);
    let (wide, rest) = ratios.split_at(last.map_or(0, |last| last + 1));
    let cause = format!(
        "only in the first {} of {} steps, where q is near the prior, it is above 1.5; then it is at most {} and ends at {}",
        wide.len(),
        ratios.len(),
        short(rest.iter().copied().fold(0.0, f64::max)),
        short(rest.last().copied().unwrap_or(f64::NAN))
    );
    let claim = format!(
        "{name}: the smoothness constant in expectation parameters is close to 1 (hypothesis of §6.2)"
    );
    let ours =
        "largest D_ℓ/D_A* of consecutive iterates of exact natural gradients from the prior, steps of 0.1";
    paper.judge(&claim, "close to 1 (we allow 0.5)", ours, Compared::near(largest, 1.0, 0.5)).because(&cause);
    Ok(())
}

fn claims(paper: &mut Paper, name: &str, (found, at): (&[Best], &[usize])) {
    let (ten, steps) = (at.partition_point(|t| *t < 10), at[at.len() - 1]);
    let text = |best: &Best| match best {
        Best { label, step, gaps } if best.end().is_finite() => {
            format!("{label} {:.2} and {:.2} (step {})", gaps[ten], best.end(), short(*step))
        }
        _ => format!("{} failed with every step", best.label),
    };
    let [ngd_p, ngd_r, sgd_p, sgd_r] = [0, 1, 2, 3].map(|k| found[k].end());
    let claim = format!("{name}: NGD is faster than SGD (Fig. 2)");
    let ours = format!(
        "nats above the optimum after 10 and {steps} steps: {}; ends of NGD (p) and SGD (p)",
        found.iter().map(text).collect::<Vec<_>>().join(", ")
    );
    paper.judge(&claim, "faster", ours, Compared::at_most(ngd_p, sgd_p, 0.0));
    let reached = (0..at.len()).find(|&k| found[2].gaps[k] <= found[0].gaps[ten]);
    let (claim, says) = (
        format!("{name}: the improvement is less drastic than for conjugate likelihoods (Fig. 2)"),
        "fewer than thousands",
    );
    if let Some(k) = reached {
        let compared = Compared::at_most(at[k] as f64, 1000.0, 0.0);
        paper.judge(&claim, says, "iterations of SGD (p) to what NGD (p) has after 10", compared);
    } else {
        let ours = format!("SGD (p) does not reach it in {steps} steps");
        paper.apart(&claim, says, ours, "the run is too short");
    }
    for (rule, price, path) in [("SGD", sgd_p, sgd_r), ("NGD", ngd_p, ngd_r)] {
        let claim = format!("{name}: {rule} gains much from Price gradients (Fig. 2)");
        if path.is_finite() {
            let ours = format!("nats above the optimum at the end, {price:.2} over {path:.2}");
            let compared = Compared::at_most(price / path, 0.5, 0.0);
            paper.judge(&claim, "dramatic (we ask for half)", ours, compared);
        } else {
            let ours = format!("{price:.2} nats with Price gradients; the others fail with every step");
            let why = "without a trust region the trace of S exceeds twice the prior's, while runs of the paper converge";
            paper.apart(&claim, "dramatic", ours, why);
        }
    }
    let claim = format!("{name}: steps of 0.1 or 0.01 suit NGD (§6.2)");
    let ours = format!("best step {}; its logarithm", found[0].step);
    paper.judge(&claim, "0.1 or 0.01", ours, Compared::near(found[0].step.log10(), -1.5, 0.5));
    paper.expect(&format!("{name}: NGD (p) above the optimum"), ngd_p, 0.0..=2.0);
}
