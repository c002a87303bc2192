//! Logistic regression from samples of w, with the step grids of the paper: figure 2.

use crate::paper::{Paper, Verdict, common};
use common::{Data, record_at, series, trace};
use faer::Mat;
use sparsegp::Result;
use sparsegp::likelihood::{BernoulliLogit, TargetKind};
use sparsegp::objective::Estimator;
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::{Normal, QUpdate, Schedule};
use sparsegp_reports::Curves;

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
    steps: usize,
}

const CASES: [Case; 2] = [
    Case {
        name: "mushroom",
        unit: 1.0,
        natural: &[0.5, 0.1, 0.01, 0.001],
        euclidean: &[1e-3, 1e-4, 1e-5, 1e-6],
        steps: 300,
    },
    Case {
        name: "mnist17",
        unit: 255.0,
        natural: &[0.1, 0.01, 0.001],
        euclidean: &[1e-5, 1e-6, 1e-7],
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
    }
    Ok(())
}

/// A run that can be started again with other seeds and steps.
struct Start<'a> {
    data: &'a Data,
    update: QUpdate,
    estimator: Estimator,
}

impl Start<'_> {
    fn run(&self, step: f64, seed: u64) -> Result<Inference<'_>> {
        let schedule = Schedule::Constant(step);
        let options = InferenceOptions { seed, ..InferenceOptions::full_batch(self.update, schedule) };
        Ok(self.data.infer(self.data.model(BernoulliLogit, 1.0)?, self.estimator, options))
    }
}

/// Returns the optimum, found by exact natural gradients.
fn optimum(data: &Data) -> Result<(Normal, f64)> {
    let exact = Start { data, update: QUpdate::Ngd, estimator: Estimator::Exact };
    let mut run = exact.run(0.5, 0)?;
    let mut change = f64::INFINITY;
    while change > 1e-12 && run.iterations() < 200 {
        let before = run.q().clone();
        run.step();
        change = before.kl_to(run.q());
    }
    Ok((run.q().clone(), run.objective()))
}

/// The best step of a grid, with the KL and the objective above the optimum by iteration.
struct Best {
    step: f64,
    kl: Vec<f64>,
    gap: Vec<f64>,
}

fn compare(paper: &mut Paper, case: &Case, data: &Data, (count, steps): (u64, usize)) -> Result<()> {
    let (best, value) = optimum(data)?;
    let at = record_at(steps, 10);
    let (name, n, d) = (paper.setting(case.name, "tumours"), data.x.ncols(), data.x.nrows());
    paper.settings(format!(
        "Logistic regression: {name} ({n} rows, {d} inputs), prior N(0, I), all rows, 10 samples of w, from the prior, {steps} steps, \
         {count} runs; the step of the paper's grid that ends lowest."
    ));
    let (mut lines, mut ends) = (Vec::new(), Vec::new());
    for (label, update, estimator) in CONTENDERS {
        let start = Start { data, update, estimator };
        let grid = if update == QUpdate::Ngd { case.natural } else { case.euclidean };
        let mut found: Option<Best> = None;
        for &step in grid {
            let tried = mean(&start, (step, count), (&at, &best, value))?;
            let end = tried.gap[at.len() - 1];
            if end.is_finite() && found.as_ref().is_none_or(|found| end < found.gap[at.len() - 1]) {
                found = Some(tried);
            }
        }
        let Some(found) = found else {
            ends.push((label, f64::NAN, f64::INFINITY, f64::INFINITY));
            continue;
        };
        let points = at.iter().zip(&found.gap).map(|(t, gap)| (*t as f64, *gap));
        lines.push(series(&format!("{label}, step {}", found.step), points));
        let rows: Vec<Vec<f64>> =
            (0..at.len()).map(|k| vec![at[k] as f64, found.kl[k], found.gap[k]]).collect();
        let file = format!("{name}_{}.csv", label.replace([' ', '(', ')'], ""));
        paper.experiment.csv(&file, &["t", "kl", "gap"], &rows)?;
        ends.push((label, found.step, found.gap[at.partition_point(|t| *t < 10)], found.gap[at.len() - 1]));
    }
    let axes = ("iteration".to_owned(), "objective above the optimum, nats".to_owned());
    let curves = Curves { axes, log_x: true, log_y: true, series: lines, ..Curves::default() };
    let file = format!("{name}.svg");
    if case.name == "mushroom" {
        paper.book_figure("logistic.svg", &curves)?
    } else {
        paper.experiment.figure(&file, &curves)?
    }
    claims(paper, name, (&ends, steps));
    Ok(())
}

/// Returns the step, with the mean over runs of the KL to the optimum and of the objective above the optimum.
fn mean(
    start: &Start<'_>,
    (step, count): (f64, u64),
    (at, best, value): (&[usize], &Normal, f64),
) -> Result<Best> {
    let (mut kl, mut gap) = (vec![0.0; at.len()], vec![0.0; at.len()]);
    for seed in 0..count {
        let mut run = start.run(step, seed)?;
        let seen = trace(&mut run, at, |run, _| (run.q().kl_to(best), run.objective() - value));
        for (k, (divergence, above)) in seen.into_iter().enumerate() {
            kl[k] += divergence / count as f64;
            gap[k] += above / count as f64;
        }
    }
    Ok(Best { step, kl, gap })
}

fn claims(paper: &mut Paper, name: &str, (ends, steps): (&[(&str, f64, f64, f64)], usize)) {
    let of = |label: &str| ends.iter().find(|end| end.0 == label).map_or(f64::NAN, |end| end.3);
    let text =
        |end: &(&str, f64, f64, f64)| format!("{} {:.2} and {:.2} (step {})", end.0, end.2, end.3, end.1);
    paper.claim(
        &format!("{name}: NGD is faster than SGD, by less than for conjugate likelihoods (Fig. 2)"),
        "NGD first",
        format!(
            "nats above the optimum after 10 and {steps} steps: {}",
            ends.iter().map(text).collect::<Vec<_>>().join(", ")
        ),
        Verdict::of(
            ends[0].2 <= ends[2].2 && of("NGD (p)") <= of("SGD (p)"),
            "SGD ends lower, or starts faster",
        ),
    );
    paper.claim(
        &format!("{name}: SGD gains much from Price gradients (Fig. 2)"),
        "dramatic",
        format!("{:.2} instead of {:.2} nats above the optimum at the end", of("SGD (p)"), of("SGD (r)")),
        Verdict::of(of("SGD (p)") < 0.7 * of("SGD (r)"), "the gain is small"),
    );
    let step = ends.first().map_or(f64::NAN, |end| end.1);
    paper.claim(
        &format!("{name}: steps of 0.1 or 0.01 suit NGD (§6.2)"),
        "0.1, or 0.01",
        format!("{step}"),
        Verdict::of((0.01..=0.1).contains(&step), "another step of the grid ends lower"),
    );
    paper.expect(&format!("{name}: NGD (p) above the optimum"), of("NGD (p)"), 0.0..=2.0);
}
