//! Logistic regression from samples of w, with the step grids of the paper: figure 2.

use crate::data::{Data, means, record_at, series, trace};
use crate::paper::{Axes, Paper, Verdict};
use faer::Mat;
use sparsegp::Result;
use sparsegp::likelihood::{BernoulliLogit, TargetKind};
use sparsegp::objective::Estimator;
use sparsegp::training::InferenceOptions;
use sparsegp::variational::{QUpdate, Schedule};

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

/// The best step of a grid, with the KL to the optimum and the objective above it at the recorded iterations.
struct Best {
    step: f64,
    records: Vec<[f64; 2]>,
}

impl Best {
    /// The objective above the optimum at the last record.
    fn end(&self) -> f64 {
        self.records[self.records.len() - 1][1]
    }
}

fn compare(paper: &mut Paper, case: &Case, data: &Data, (count, steps): (u64, usize)) -> Result<()> {
    let (best, value) = data.optimum(data.model(BernoulliLogit, 1.0)?, 0.5)?;
    let at = record_at(steps, 10);
    let (name, n, d) = (paper.setting(case.name, "tumours"), data.x.ncols(), data.x.nrows());
    paper.settings(format!(
        "Logistic regression: {name} ({n} rows, {d} inputs), prior N(0, I), all rows, 10 samples of w, from the prior, {steps} steps, \
         {count} runs; the step of the paper's grid that ends lowest."
    ));
    let (mut lines, mut ends) = (Vec::new(), Vec::new());
    for (label, update, estimator) in CONTENDERS {
        let grid = if update == QUpdate::Ngd { case.natural } else { case.euclidean };
        let mut found: Option<Best> = None;
        for &step in grid {
            let records = means(count, |seed| {
                let schedule = Schedule::Constant(step);
                let options = InferenceOptions { seed, ..InferenceOptions::full_batch(update, schedule) };
                let mut run = data.infer(data.model(BernoulliLogit, 1.0)?, estimator, options);
                Ok(trace(&mut run, &at, |run| [run.q().kl_to(&best), run.objective() - value]))
            })?;
            let tried = Best { step, records };
            if tried.end().is_finite() && found.as_ref().is_none_or(|found| tried.end() < found.end()) {
                found = Some(tried);
            }
        }
        let Some(found) = found else {
            ends.push((label, f64::NAN, f64::INFINITY, f64::INFINITY));
            continue;
        };
        let records = at.iter().zip(&found.records);
        let rows: Vec<[f64; 3]> = records.map(|(t, [kl, gap])| [*t as f64, *kl, *gap]).collect();
        lines.push(series(&format!("{label}, step {}", found.step), rows.iter().map(|row| (row[0], row[2]))));
        let file = format!("{name}_{}.csv", label.replace([' ', '(', ')'], ""));
        paper.csv(&file, &["t", "kl", "gap"], &rows)?;
        ends.push((label, found.step, rows[at.partition_point(|t| *t < 10)][2], found.end()));
    }
    let file = if case.name == "mushroom" { "logistic.svg" } else { &format!("{name}.svg") };
    paper.figure(file, ("iteration", "objective above the optimum, nats"), Axes::LogLog, lines)?;
    claims(paper, name, (&ends, steps));
    Ok(())
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
