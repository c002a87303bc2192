//! Student-t regression, whose precision may become indefinite, with and without the projection of S: figures
//! 5 and 6.

use crate::data::{Data, quantile, record_at, runs, series, trace};
use crate::paper::common::normals;
use crate::paper::{Axes, Paper, Verdict};
use faer::Mat;
use sparsegp::Result;
use sparsegp::likelihood::{StudentT, TargetKind};
use sparsegp::model::LatentModel;
use sparsegp::objective::Estimator;
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::{Guard, QUpdate, RuleOptions, Schedule};

const PRIOR: f64 = 5.0;
const SAMPLES: usize = 250;

struct Regression {
    data: Data,
    model: LatentModel,
}

impl Regression {
    /// Regresses TEY on the other ten columns of the first 715 rows of 2013, all standardised, or uses
    /// generated data with heavy tails.
    fn new(paper: &Paper) -> Result<Option<Regression>> {
        let mut data = if paper.quick {
            generated()
        } else {
            let Some(data) = paper.read("gas_turbine", "TEY", TargetKind::Real)? else { return Ok(None) };
            let of_2013 = (0..data.y.len()).filter(|&i| data.x[(0, i)] == 2013.0);
            let mut data = data.take(&of_2013.take(715).collect::<Vec<_>>());
            data.x = data.x.subrows(1, data.x.nrows() - 1).to_owned();
            data
        };
        data.standardise(true);
        let model = data.model(StudentT::new(1.0, 3.0), PRIOR)?;
        Ok(Some(Regression { data, model }))
    }

    fn start(&self, rule: RuleOptions, step: Schedule, seed: u64) -> Inference<'_> {
        let options = InferenceOptions { seed, ..InferenceOptions::full_batch(rule, step) };
        self.data.infer(self.model.clone(), Estimator::Price { samples: SAMPLES }, options)
    }

    /// Returns the first step of a run without projection that would make the precision indefinite, which
    /// ends the run.
    fn first_indefinite(&self, step: Schedule, seed: u64, steps: usize) -> Option<usize> {
        let rule = RuleOptions { guard: Guard::Backtrack, ..RuleOptions::of(QUpdate::Ngd) };
        let mut inference = self.start(rule, step, seed);
        (0..steps).find(|_| inference.step().1.rollbacks > 0)
    }

    /// Returns the ELBO of a run with projection.
    fn projected(&self, step: Schedule, seed: u64, at: &[usize]) -> Vec<f64> {
        // In whitened coordinates, S is the covariance of the coefficients divided by the prior variance.
        let bounds = (1e-4 / PRIOR, 1e4 / PRIOR);
        let rule = RuleOptions { bounds, ..RuleOptions::of(QUpdate::ProjectedNgvi) };
        trace(&mut self.start(rule, step, seed), at, |inference| -inference.objective())
    }
}

/// Returns 150 rows of ten inputs with Student-t noise of three degrees of freedom.
fn generated() -> Data {
    let mut draw = normals(3);
    let x = Mat::from_fn(10, 150, |_, _| draw());
    let y = x.col_iter().map(|x| {
        let chi: f64 = (0..3).map(|_| draw().powi(2)).sum();
        x.iter().sum::<f64>() + draw() / (chi / 3.0).sqrt()
    });
    let y = y.collect();
    Data { x, y }
}

/// Runs both schedules with and without projection.
pub fn run(paper: &mut Paper, count: u64) -> Result<()> {
    let Some(regression) = Regression::new(paper)? else { return Ok(()) };
    paper.settings(format!(
        "Student-t regression: {} ({} rows, {} inputs), 3 degrees of freedom, scale 1, prior N(0, 5 I) as the start, {SAMPLES} \
         Bonnet–Price samples a step, eigenvalues of S in [1e-4, 1e4], {count} runs.",
        paper.setting("gas_turbine, TEY", "generated data"), regression.data.y.len(), regression.data.x.nrows()
    ));
    let mut lines = Vec::new();
    for (label, step, steps) in [
        ("step 5e-3", Schedule::Constant(5e-3), paper.setting(1200, 600)),
        ("step 2/(t+2)", Schedule::TwoOverT, paper.setting(300, 100)),
    ] {
        let at = record_at(steps, 10);
        let first = runs(count, |seed| Ok(regression.first_indefinite(step, seed, steps)))?;
        let failed: Vec<f64> = first.iter().flatten().map(|t| *t as f64).collect();
        let all = runs(count, |seed| Ok(regression.projected(step, seed, &at)))?;
        let of = |k: usize, share: f64| quantile(all.iter().map(|run| run[k]), share);
        let last = at.len() - 1;
        let mean = |k: usize| all.iter().map(|run| run[k]).sum::<f64>() / count as f64;
        let row = |k: usize| [at[k] as f64, of(k, 0.25), of(k, 0.5), of(k, 0.75), mean(k)];
        let rows: Vec<[f64; 5]> = (0..at.len()).map(row).collect();
        let file = format!("student_{}.csv", label.replace([' ', '/', '(', ')', '+'], "_"));
        paper.csv(&file, &["t", "q25", "median", "q75", "mean"], &rows)?;
        let names = ["lower quartile", "median", "upper quartile", "mean"];
        for (column, name) in names.iter().enumerate() {
            let points = rows.iter().map(|row| (row[0], -row[column + 1]));
            lines.push(series(&format!("{label}: {name}"), points));
        }
        paper.claim(
            &format!("Student-t, {label}: without projection the algorithm fails (Fig. 5)"),
            "the ELBO stays where it is",
            if failed.is_empty() {
                "no step was indefinite".to_owned()
            } else {
                let early = quantile(failed.iter().copied(), 0.5);
                format!(
                    "{} of {count} runs meet an indefinite precision, the median of them at step {early:.0}",
                    failed.len()
                )
            },
            Verdict::of(2 * failed.len() > count as usize, "most runs do not fail"),
        );
        let rises = of(last, 0.5) > of(0, 0.5);
        let falls =
            (1..at.len()).filter(|&k| of(k, 0.5) < of(k - 1, 0.5) - 0.01 * of(0, 0.5).abs().max(1.0)).count();
        paper.claim(
            &format!("Student-t, {label}: with projection the median of the ELBO rises (Figs. 5 and 6)"),
            "monotone",
            format!(
                "median {:.1} at the start, {:.1} after 10 steps, {:.2} at the end (quartiles {:.2} and {:.2}); {falls} of {last} records \
                 below the one before by more than 1 % of the start",
                of(0, 0.5), of(at.partition_point(|t| *t < 10), 0.5), of(last, 0.5), of(last, 0.25), of(last, 0.75)
            ),
            Verdict::of(
                rises && falls == 0,
                if rises { "it rises in the end, after falling first" } else { "it ends below its start" },
            ),
        );
        if matches!(step, Schedule::TwoOverT) {
            let (mean, median) = (mean(last), of(last, 0.5));
            let outliers = all.iter().filter(|run| run[last] < of(last, 0.25) - 10.0).count();
            paper.claim(
                "Student-t, step 2/(t+2): means suffer from few outlying runs (Fig. 5b)",
                "few",
                format!("mean {mean:.1}, median {median:.1}; {outliers} of {count} runs end 10 nats below the lower quartile"),
                Verdict::of(outliers > 0 || mean >= median - 1.0, "there are none, and the mean is low all the same"),
            );
        }
        paper.expect(
            &format!("Student-t, {label}: gain of the median"),
            of(last, 0.5) - of(0, 0.5),
            1.0..=1e6,
        );
    }
    paper.figure("student.svg", ("iteration", "minus the ELBO"), Axes::LogLog, lines)
}
