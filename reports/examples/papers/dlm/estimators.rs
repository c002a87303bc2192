//! Learning with exact and with sampled gradients of the log loss: figures 10 to 16, and the time of a step.

use crate::data::{Data, evenly};
use crate::paper::{Paper, Verdict};
use crate::{elbo, q_alone};
use sparsegp::Result;
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::model::Score;
use sparsegp::objective::Estimator;
use sparsegp::options::{FitOptions, StepOptions};
use sparsegp::variational::QUpdate;

/// The number of training rows.
const ROWS: usize = 1200;

const SETS: [(&str, TargetKind, LikelihoodKind); 4] = [
    ("randhie", TargetKind::Count, LikelihoodKind::Poisson),
    ("abalone", TargetKind::Count, LikelihoodKind::Poisson),
    ("magic", TargetKind::Binary, LikelihoodKind::BernoulliLogit),
    ("cadata", TargetKind::Real, LikelihoodKind::Gaussian),
];

/// Returns the estimators of the paper with their numbers of samples; exact gradients come first.
fn estimators(quick: bool) -> Vec<Estimator> {
    let mut all = vec![Estimator::Exact];
    for samples in [1, 10, 100].into_iter().take(if quick { 2 } else { 3 }) {
        all.push(Estimator::Biased { samples });
        all.push(Estimator::Smoothed { samples, nu: 1e-4, decays: false });
        all.push(Estimator::Product { samples });
    }
    all
}

/// The result of a fit.
struct End {
    estimator: Estimator,
    nll: f64,
    /// Milliseconds of a step.
    step: f64,
    /// The share of accepted proposals, if there were any.
    accepted: Option<f64>,
    /// The number of samples for which rejection accepted no proposal.
    starved: u64,
}

pub fn run(paper: &mut Paper) -> Result<()> {
    let sets = &SETS[..paper.setting(4, 1)];
    let rows = paper.setting(ROWS, 600);
    paper.settings(format!(
        "Estimators: {rows} training rows and at most 1,000 others, hyper-parameters of an ELBO fit (isotropic kernel, M = 60), q from \
         the prior by Adam at 0.01 for {} epochs of two batches; ν = 1e-4.",
        paper.setting(300, 60)
    ));
    for (name, kind, likelihood) in sets {
        let Some(data) = paper.read(name, "y", *kind)? else { continue };
        let share = (data.y.len().saturating_sub(rows)).min(1000) as f64;
        let (mut train, mut test) = data.split(share / data.y.len() as f64, 0)?;
        train = train.take(&evenly(train.y.len(), rows));
        test.scale(&train.standardise(likelihood.scales_target()));
        for beta in paper.setting(&[1.0, 0.1, 10.0][..], &[1.0][..]) {
            // Other weights only on the data set that replaces airline.
            if *beta == 1.0 || *name == "magic" {
                compare(paper, (name, *likelihood, *beta), (&train, &test))?;
            }
        }
    }
    Ok(())
}

fn compare(
    paper: &mut Paper,
    (name, likelihood, beta): (&str, LikelihoodKind, f64),
    (train, test): (&Data, &Data),
) -> Result<()> {
    let elbo = elbo(likelihood, paper.setting(60, 20), paper.setting(60, 15));
    let elbo = FitOptions { kernel: "rbf".into(), ..elbo };
    let model = train.fit(&elbo, None)?.model;
    let (options, start) = q_alone(elbo, model);
    let steps = StepOptions {
        q_update: QUpdate::Adam,
        polish: false,
        batch_size: train.y.len().div_ceil(2),
        ..StepOptions::default()
    };
    let options = FitOptions { beta, epochs: Some(paper.setting(300, 60)), steps, ..options };
    let mut ends = Vec::new();
    for estimator in estimators(paper.quick) {
        let fitted = train.fit(&FitOptions { estimator, ..options.clone() }, Some(&start))?;
        let counts = fitted.summary.sampling.unwrap_or_default();
        ends.push(End {
            estimator,
            nll: fitted.posterior.score(test.set(), Score::LogLoss),
            step: 1e3 * fitted.summary.seconds_per_step,
            accepted: (counts.proposals > 0).then(|| counts.accepted as f64 / counts.proposals as f64),
            starved: counts.starved,
        });
    }
    let name = paper.setting(name, "visits");
    let label = format!("{name}, β = {beta}");
    claims(paper, &label, &ends);
    Ok(())
}

fn claims(paper: &mut Paper, label: &str, ends: &[End]) {
    let text = ends.iter().map(|end| format!("{} {:.4}", end.estimator, end.nll));
    let of = |wanted: Estimator, figure: fn(&End) -> f64| {
        ends.iter().find(|end| end.estimator == wanted).map_or(f64::NAN, figure)
    };
    let (exact, ten) = (ends[0].nll, of(Estimator::Biased { samples: 10 }, |end| end.nll));
    paper.claim(
        &format!("{label}: few samples of bMC suffice, uPS needs fewer (Figs. 10 to 16)"),
        "10 to 100 samples of bMC end as exact gradients do",
        format!("test NLL on the scale of the model: {}", text.collect::<Vec<_>>().join(", ")),
        Verdict::of((ten - exact).abs() < 0.01, &format!(
            "bmc:10 is {:.3} from exact gradients: L samples train the bound E log (mean of L densities), which is below log E p by about \
             the squared relative spread of the densities over 2L",
            (ten - exact).abs()
        )),
    );
    paper.expect(
        &format!("{label}: ups:1 less exact"),
        of(Estimator::Product { samples: 1 }, |end| end.nll) - exact,
        -0.02..=0.05,
    );
    let times = ends.iter().map(|end| format!("{} {:.2}", end.estimator, end.step));
    let sampling = ends.iter().filter_map(|end| {
        Some(format!("{} accepts {:.3} and starves {} times", end.estimator, end.accepted?, end.starved))
    });
    let one = of(Estimator::Biased { samples: 1 }, |end| end.step);
    paper.claim(
        &format!("{label}: bMC is cheaper than uPS for as many samples"),
        "much",
        format!(
            "milliseconds of a step: {}; {}",
            times.collect::<Vec<_>>().join(", "),
            sampling.collect::<Vec<_>>().join(", ")
        ),
        Verdict::of(
            ends.iter()
                .filter(|end| matches!(end.estimator, Estimator::Product { .. }))
                .all(|end| end.step >= 0.9 * one),
            "it is not",
        ),
    );
}
