//! Every update rule on the same sparse GPs: which rule a practitioner should use.

use crate::data::{self, Data, series};
use crate::paper::{Axes, Paper, Verdict};
use sparsegp::Result;
use sparsegp::data::BatchPlan;
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::model::{LatentModel, Posterior, Score};
use sparsegp::objective::Estimator;
use sparsegp::options::{FitOptions, StepOptions};
use sparsegp::training::InferenceOptions;
use sparsegp::variational::{QUpdate, RuleOptions};

const SETS: [(&str, TargetKind, LikelihoodKind, usize); 3] = [
    ("magic", TargetKind::Binary, LikelihoodKind::BernoulliProbit, 200),
    ("bike_count", TargetKind::Count, LikelihoodKind::NegativeBinomial, 200),
    ("kin40k", TargetKind::Real, LikelihoodKind::Gaussian, 200),
];

const BATCH: usize = 1024;

/// Trains q from the prior at the hyper-parameters of a short fit, then all parameters, for the same number
/// of epochs.
pub fn run(paper: &mut Paper, epochs: usize) -> Result<()> {
    let sets = &SETS[..paper.setting(3, 1)];
    paper.settings(format!(
        "All rules on sparse GPs: {epochs} epochs, batches of {BATCH}, M = {}, 10 % test rows, default steps.",
        paper.setting(200, 20)
    ));
    for (name, kind, likelihood, inducing) in sets {
        let Some(data) = paper.read(name, "y", *kind)? else { continue };
        let (mut train, mut test) = data.split(0.1, 0)?;
        let scaling = train.standardise(*kind == TargetKind::Real);
        test.scale(&scaling);
        let options = FitOptions {
            likelihood: Some(*likelihood),
            inducing: Some(paper.setting(*inducing, 20)),
            epochs: Some(epochs),
            tolerance: Some(0.0),
            steps: StepOptions { polish: false, batch_size: BATCH, ..StepOptions::default() },
            ..FitOptions::default()
        };
        let short = FitOptions { epochs: Some(5), ..options.clone() };
        let start = train.fit(&short, None)?.model;
        let start = start.factorised().map_err(|_| sparsegp::Error::fit("K_uu is singular"))?;
        let mut q_alone = Vec::new();
        let mut everything = Vec::new();
        for &update in QUpdate::ALL {
            q_alone.push((update, trace(&start, (&train, &test), update, epochs)));
            let steps = StepOptions { q_update: update, ..options.steps.clone() };
            let options = FitOptions { steps, ..options.clone() };
            let fitted = train.fit(&options, None)?;
            let nll = fitted.posterior.score(test.set(), Score::LogLoss) - scaling.log_density_shift(0.0);
            everything.push((update, fitted.summary.objective, nll));
        }
        let name = paper.setting(*name, "tumours");
        write(paper, name, &q_alone)?;
        claim(paper, name, (&q_alone, &everything));
    }
    Ok(())
}

/// Returns epochs, objective per row and test NLL along a run from the prior.
fn trace(
    start: &LatentModel,
    (train, test): (&Data, &Data),
    update: QUpdate,
    epochs: usize,
) -> Vec<[f64; 3]> {
    let steps = StepOptions { q_update: update, ..StepOptions::default() };
    let schedule = FitOptions { steps, ..FitOptions::default() }.step_schedule();
    let rule = RuleOptions { relative: true, ..RuleOptions::of(update) };
    let batches = BatchPlan::Epochs(BATCH);
    let options = InferenceOptions { batches, ..InferenceOptions::full_batch(rule, schedule) };
    let mut inference = train.infer(start.clone(), Estimator::Exact, options);
    let per_epoch = train.y.len().div_ceil(BATCH);
    let at: Vec<usize> = (0..=epochs).map(|epoch| epoch * per_epoch).collect();
    data::trace(&mut inference, &at, |inference| {
        let nll = Posterior::new(start, inference.q()).score(test.set(), Score::LogLoss);
        [(inference.iterations() / per_epoch) as f64, inference.objective() / train.y.len() as f64, nll]
    })
}

fn write(paper: &Paper, name: &str, traces: &[(QUpdate, Vec<[f64; 3]>)]) -> Result<()> {
    for (rule, rows) in traces {
        paper.csv(&format!("{name}_{rule}.csv"), &["epochs", "objective", "test_nll"], rows)?;
    }
    let lines =
        traces.iter().map(|(rule, points)| series(&rule.to_string(), points.iter().map(|p| (p[0], p[1]))));
    let names = ("epochs", "objective per row");
    paper.figure(&format!("{name}_rules.svg"), names, Axes::Linear, lines.collect())
}

type Ends<'a> = (&'a [(QUpdate, Vec<[f64; 3]>)], &'a [(QUpdate, f64, f64)]);

fn claim(paper: &mut Paper, name: &str, (q_alone, everything): Ends<'_>) {
    let end = |points: &Vec<[f64; 3]>| points[points.len() - 1];
    let alone: Vec<String> = q_alone
        .iter()
        .map(|(rule, points)| format!("{rule} {:.4}, {:.4}", end(points)[1], end(points)[2]))
        .collect();
    let lowest = q_alone.iter().map(|(_, points)| end(points)[1]).fold(f64::INFINITY, f64::min);
    let ngd = end(&q_alone[0].1)[1];
    paper.claim(
        &format!("{name}, q alone: natural gradients reach a lower objective than plain gradients (§6.2)"),
        "as cited there",
        format!("objective per row and test NLL: {}", alone.join("; ")),
        Verdict::of(ngd <= lowest + 1e-3, "another rule ends lower"),
    );
    let all: Vec<String> =
        everything.iter().map(|(rule, objective, nll)| format!("{rule} {objective:.4}, {nll:.4}")).collect();
    let best = everything.iter().map(|end| end.1).fold(f64::INFINITY, f64::min);
    paper.claim(
        &format!("{name}, everything trained: which rule"),
        "no claim",
        format!("objective per row and test NLL: {}", all.join("; ")),
        Verdict::of(everything[0].1 <= best + 0.01, "`ngd` is not within 0.01 of the best objective"),
    );
    paper.expect(&format!("{name}: objective of ngd above the best rule"), ngd - lowest, 0.0..=0.05);
}
