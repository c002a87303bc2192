//! Learning with exact and with sampled gradients of the log loss: figures 10 to 16, and the time of a step.

use crate::fits::by_adam;
use crate::paper::{Compared, Paper};
use crate::raw::{Row, Unit};
use crate::sets::{Counts, HELD_OUT, Rows};
use crate::{elbo, q_alone};
use sparsegp::Result;
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::model::Score;
use sparsegp::objective::Estimator;
use sparsegp::options::FitOptions;

/// The number of training rows of the raw results, and the repeats.
const ROWS: usize = 1200;
const REPEATS: u64 = 3;

/// A data set with a weight of the KL term.
pub type Case = (&'static str, TargetKind, f64);

/// The counts of figures 14 and 15, the classes that replace airline in figures 10 to 13, and the sets of figure 16.
pub const CASES: [Case; 9] = [
    ("randhie", TargetKind::Count, 1.0),
    ("abalone", TargetKind::Count, 1.0),
    ("magic", TargetKind::Binary, 0.1),
    ("magic", TargetKind::Binary, 1.0),
    ("magic", TargetKind::Binary, 10.0),
    ("pol", TargetKind::Real, 0.1),
    ("cadata", TargetKind::Real, 0.1),
    ("sarcos_test", TargetKind::Real, 0.1),
    ("kin40k", TargetKind::Real, 0.1),
];

/// The largest gap between test NLLs that counts as none.
const NO_GAP: f64 = 0.01;

/// Returns a unit for every case and repeat.
pub fn units() -> impl Iterator<Item = Unit> {
    let unit = |case: Case, repeat: u64| Unit {
        order: 1.1,
        name: format!("estimators on {}, β = {}, repeat {repeat}", case.0, case.2),
        has: Box::new(move |row| (&*row.set, row.n, row.repeat, row.beta) == (case.0, ROWS, repeat, case.2)),
        fit: Box::new(move |paper| fit(paper, case, repeat)),
    };
    CASES.into_iter().flat_map(move |case| (0..REPEATS).map(move |repeat| unit(case, repeat)))
}

/// Fits q with every estimator at the hyper-parameters of an ELBO fit.
pub fn fit(paper: &Paper, (name, kind, beta): Case, repeat: u64) -> Result<Vec<Row>> {
    let Some(data) = paper.read(name, "y", kind)? else { return Ok(Vec::new()) };
    let counts = Counts { train: paper.setting(ROWS, 600), validation: 0, test: HELD_OUT, most: HELD_OUT };
    let rows = Rows::of(&data, counts, repeat, kind == TargetKind::Real);
    let likelihood = match kind {
        TargetKind::Real => LikelihoodKind::Gaussian,
        TargetKind::Binary => LikelihoodKind::BernoulliLogit,
        _ => LikelihoodKind::Poisson,
    };
    let elbo = elbo(likelihood, paper.setting(60, 20), paper.setting(60, 15));
    let elbo = FitOptions { kernel: "rbf".into(), seed: repeat, ..elbo };
    let model = rows.train.fit(&elbo, None)?.model;
    let (options, start) = q_alone(elbo, model);
    let batch_size = rows.train.y.len().div_ceil(2);
    let options =
        FitOptions { beta, epochs: Some(paper.setting(300, 60)), ..by_adam(options, batch_size, true) };
    let mut found = Vec::new();
    for estimator in estimators(paper.setting(3, 2)) {
        let fitted = rows.train.fit(&FitOptions { estimator, ..options.clone() }, Some(&start))?;
        let row = Row::of(name, rows.train.y.len(), repeat, estimator, beta).of_fit(&fitted);
        let times = fitted.summary.trace.windows(2).map(|two| two[1].seconds - two[0].seconds);
        // The fastest epoch, of two steps, had the processor to itself.
        let seconds = times.fold(f64::INFINITY, f64::min) / 2.0;
        found.push(Row { nll: fitted.posterior.score(rows.test.set(), Score::LogLoss), seconds, ..row });
    }
    Ok(found)
}

/// Returns the estimators of the paper; exact gradients come first.
fn estimators(sizes: usize) -> Vec<Estimator> {
    let mut all = vec![Estimator::Exact];
    for samples in [1, 10, 100].into_iter().take(sizes) {
        all.push(Estimator::Biased { samples });
        all.push(Estimator::Smoothed { samples, nu: 1e-4, decays: false });
        all.push(Estimator::Product { samples });
    }
    all
}

/// The causes of gaps of bMC on counts: its objective if smoothing keeps the gap, and otherwise the noise of its gradients.
const OBJECTIVE: &str = "L samples train E log (mean of L densities), the ELBO's loss for L = 1, which does not see that the counts vary more \
                         than their mean";
const NOISE: &str = "single samples with small densities have long gradients, which smoothing shortens";

/// The fits of a case in all repeats.
struct Fits<'a> {
    label: String,
    kind: TargetKind,
    rows: Vec<&'a Row>,
}

impl<'a> Fits<'a> {
    fn of(rows: &'a [Row], (name, kind, beta): Case) -> Fits<'a> {
        let of_case = rows.iter().filter(|row| row.set == name && row.beta == beta && row.n <= ROWS);
        let rows = of_case.filter(|row| row.method.parse::<Estimator>().is_ok()).collect();
        Fits { label: format!("{name}, β = {beta}"), kind, rows }
    }

    fn of_method(&self, method: &str) -> impl Iterator<Item = &&'a Row> {
        self.rows.iter().filter(move |row| row.method == method)
    }

    /// Returns the mean over the repeats of the test NLL above that of exact gradients.
    fn gap(&self, method: &str) -> f64 {
        let exact =
            |row: &Row| self.of_method("exact").find(|exact| exact.repeat == row.repeat).map(|row| row.nll);
        let gaps: Vec<f64> = self.of_method(method).filter_map(|row| Some(row.nll - exact(row)?)).collect();
        gaps.iter().sum::<f64>() / gaps.len() as f64
    }

    /// Returns the seconds of the fastest step.
    fn step(&self, method: &str) -> f64 {
        self.of_method(method).map(|row| row.seconds).fold(f64::INFINITY, f64::min)
    }

    fn gaps(&self) -> String {
        let of = |samples| {
            let gap = |method| self.gap(&format!("{method}:{samples}"));
            let smooth = self.gap(&format!("smooth-bmc:{samples}:0.0001"));
            format!("L = {samples}: bMC {:.4}, smooth-bMC {smooth:.4}, uPS {:.4}", gap("bmc"), gap("ups"))
        };
        [1, 10, 100].map(of).join("; ")
    }
}

/// Compares the estimators in each case.
pub fn judge(paper: &mut Paper, rows: &[Row]) {
    let known: Vec<Fits> = CASES.into_iter().map(|case| Fits::of(rows, case)).collect();
    let known: Vec<&Fits> = known.iter().filter(|fits| !fits.rows.is_empty()).collect();
    let repeats = known.iter().map(|fits| fits.of_method("exact").count()).min();
    let Some(repeats) = repeats else { return };
    paper.settings(format!(
        "Estimators: {ROWS} training rows, {HELD_OUT} test rows, repeats: {repeats}, hyper-parameters of an ELBO fit (isotropic kernel, M = 60), q from the prior by \
         Adam at 0.01 for 300 epochs of two batches, ν = 1e-4. Gaps are test NLLs less that of exact gradients, means over the repeats. Times \
         are those of the fastest step on one thread."
    ));
    let (real, others): (Vec<&Fits>, Vec<&Fits>) =
        known.iter().copied().partition(|fits| fits.kind == TargetKind::Real);
    others.into_iter().for_each(|fits| judge_case(paper, fits));
    judge_regression(paper, &real);
    judge_times(paper, &known);
}

/// Judges the claims about a set of counts or of classes.
fn judge_case(paper: &mut Paper, fits: &Fits) {
    let label = &fits.label;
    paper.expect(&format!("{label}: ups:1 less exact"), fits.gap("ups:1"), -0.02..=0.05);
    paper.judge(
        &format!("{label}: bMC with 100 samples ends as exact gradients do (Figs. 10 to 15)"),
        "no difference",
        format!("gaps: {}", fits.gaps()),
        Compared::near(fits.gap("bmc:100"), 0.0, NO_GAP),
    );
    let [one, ten, ups_one, ups_ten] = ["bmc:1", "bmc:10", "ups:1", "ups:10"].map(|method| fits.gap(method));
    if fits.kind == TargetKind::Count {
        let is_noise = fits.gap("smooth-bmc:1:0.0001").abs() < NO_GAP;
        let cause = if is_noise { NOISE } else { OBJECTIVE };
        let claim = format!("{label}: uPS and bMC with 10 samples end alike (Fig. 14)");
        let compared = Compared::near(ups_ten, ten, NO_GAP);
        paper.judge(&claim, "no significant difference", "gaps", compared).because(cause);
        let claim = format!("{label}: even one sample of bMC yields good results (Fig. 14)");
        let compared = Compared::at_most(one, 0.0, NO_GAP);
        paper.judge(&claim, "good results", "gap of bmc:1", compared).because(cause);
        return;
    }
    let rows = [
        (
            "10 samples of uPS end as close to exact gradients as 10 of bMC, or closer (Figs. 10 to 12)",
            "closer",
            Compared::at_most(ups_ten.abs(), ten.abs(), 0.002),
            "",
        ),
        (
            "bMC needs more than 10 samples (Figs. 10 to 12)",
            "100",
            Compared::at_least(ten.abs(), NO_GAP, 0.0),
            "10 samples end as exact gradients do",
        ),
        (
            "one sample of uPS is better than 10 of bMC (Fig. 1 i)",
            "better with β = 0.1",
            Compared::at_most(ups_one, ten, 0.0),
            "",
        ),
    ];
    for (claim, says, compared, cause) in rows {
        paper.judge(&format!("{label}: {claim}"), says, "gaps", compared).because(cause);
    }
}

/// Judges figure 16 over its sets.
fn judge_regression(paper: &mut Paper, real: &[&Fits]) {
    if real.is_empty() {
        return;
    }
    let most = |gap: fn(&Fits) -> f64| real.iter().map(|fits| gap(fits)).fold(f64::NEG_INFINITY, f64::max);
    let gaps: Vec<String> = real.iter().map(|fits| format!("{}: {}", fits.label, fits.gaps())).collect();
    paper.judge(
        "regression: bMC with 100 samples ends as exact gradients do (Fig. 16)",
        "almost no difference",
        format!("gaps: {}; the largest of bmc:100", gaps.join(" · ")),
        Compared::at_most(most(|fits| fits.gap("bmc:100").abs()), 0.0, NO_GAP),
    );
    paper.judge(
        "regression: one sample of bMC is the worst (Fig. 16)",
        "on all sets",
        "the largest NLL of bmc:10 above bmc:1",
        Compared::at_most(most(|fits| fits.gap("bmc:10") - fits.gap("bmc:1")), 0.0, 0.0),
    );
}

fn judge_times(paper: &mut Paper, known: &[&Fits]) {
    let ratio = |fits: &Fits, samples: usize| {
        fits.step(&format!("ups:{samples}")) / fits.step(&format!("bmc:{samples}"))
    };
    let text = known.iter().map(|fits| {
        let ratios = [1, 10, 100].map(|samples| format!("{:.2}", ratio(fits, samples)));
        let (exact, ten) = (1e3 * fits.step("exact"), 1e3 * fits.step("bmc:10"));
        format!("{}: {} (exact {exact:.2} ms, bmc:10 {ten:.2} ms)", fits.label, ratios.join(", "))
    });
    let text = text.collect::<Vec<_>>().join(" · ");
    let least = known.iter().map(|fits| ratio(fits, 10)).fold(f64::INFINITY, f64::min);
    paper.judge(
        "bMC is cheaper than uPS for as many samples",
        "much",
        format!("time of uPS over bMC with 1, 10 and 100 samples: {text}; the smallest with 10"),
        Compared::at_least(least, 1.0, 0.0),
    );
}
