//! Sampled gradients in the mean of q, compared with exact gradients, at the start of a fit: figures 1 (g, h)
//! and 9.

use crate::data::Data;
use crate::paper::{Paper, Verdict};
use sparsegp::Result;
use sparsegp::gradient::Batch;
use sparsegp::kernels::parse;
use sparsegp::latent::{InducingInit, InducingPrior, Jitter, choose_inducing};
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::model::LatentModel;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::training::VariationalModel;
use sparsegp::variational::{Family, Normal};

/// M of abalone in table 2, and the ν of the figures.
const INDUCING: usize = 41;
const NU: f64 = 1e-4;

/// Statistics of the gradient d in the mean, with the exact gradient g.
struct Statistics {
    /// E dᵀg/‖g‖², which condition (i) bounds from below.
    along: f64,
    /// E ‖d‖/‖g‖, which condition (ii) bounds from above.
    length: f64,
    /// ‖E d − g‖/‖g‖.
    bias: f64,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns a Poisson model at the start of a fit.
fn start(data: &Data) -> Result<LatentModel> {
    let x = data.x.transpose();
    let mut kernel = parse("rbf", x.ncols()).map_err(|error| sparsegp::Error::usage(error.to_string()))?;
    kernel.initialise(&vec![1.0; x.ncols()], 1.0);
    let mut likelihood = LikelihoodKind::Poisson.build(0);
    let mean = likelihood.initialise(&data.y, &[])[0];
    let z = choose_inducing(x, INDUCING, InducingInit::KMeans, kernel.as_ref(), 0)?;
    let layer = InducingPrior::new(kernel, z, Jitter::DEFAULT)?.with_mean(mean, false);
    let model = LatentModel::new(layer.into(), likelihood, false);
    model.factorised().map_err(|_| sparsegp::Error::fit("K_uu is singular"))
}

/// Returns gradients in the mean, one for each run.
fn gradients(model: &LatentModel, data: &Data, (estimator, runs): (Estimator, usize)) -> Vec<Vec<f64>> {
    let objective = Objective { loss: Loss::LogPredictive(estimator), ..Objective::elbo(1.0) };
    let q = Normal::standard(Family::Full, INDUCING);
    let mut svgp = VariationalModel::new(model.clone(), q, objective, data.y.len());
    let batch = Batch::of(data.x.transpose(), &data.y, 1.0);
    let one = |_| {
        svgp.evaluate(batch, false);
        svgp.q_gradient().mean.to_vec()
    };
    (0..runs).map(one).collect()
}

fn statistics(found: &[Vec<f64>], exact: &[f64]) -> Statistics {
    let (n, size) = (found.len() as f64, dot(exact, exact).sqrt());
    let mean: Vec<f64> = (0..exact.len()).map(|i| found.iter().map(|d| d[i]).sum::<f64>() / n).collect();
    let off: Vec<f64> = mean.iter().zip(exact).map(|(mean, exact)| mean - exact).collect();
    Statistics {
        along: found.iter().map(|d| dot(d, exact)).sum::<f64>() / n / (size * size),
        length: found.iter().map(|d| dot(d, d).sqrt()).sum::<f64>() / n / size,
        bias: dot(&off, &off).sqrt() / size,
    }
}

pub fn run(paper: &mut Paper) -> Result<()> {
    let Some(mut data) = paper.read("abalone", "y", TargetKind::Count)? else { return Ok(()) };
    let n = data.y.len().min(1000);
    data = data.take(&(0..n).collect::<Vec<_>>());
    data.standardise(false);
    let model = start(&data)?;
    let exact = gradients(&model, &data, (Estimator::Exact, 1)).remove(0);
    let runs = paper.setting(400, 60);
    paper.settings(format!(
        "Bias: {}, {n} rows, M = {INDUCING}, q = prior, exact gradients by quadrature, {runs} draws, ν = {NU}.",
        paper.setting("abalone", "visits to a doctor")
    ));
    let mut rows = Vec::new();
    let mut biases = Vec::new();
    for samples in [1, 10, 100] {
        let all = [
            ("uPS", Estimator::Product { samples }),
            ("bMC", Estimator::Biased { samples }),
            ("smooth-bMC", Estimator::Smoothed { samples, nu: NU, decays: false }),
        ];
        let found = all.map(|(name, estimator)| {
            let gradients = gradients(&model, &data, (estimator, (runs / samples.min(10)).max(20)));
            (name, statistics(&gradients, &exact))
        });
        let text = found.each_ref().map(|(name, found)| {
            format!("{name} {:.3}, {:.3}, {:.3}", found.along, found.length, found.bias)
        });
        rows.push(format!("L = {samples}: {}", text.join("; ")));
        biases.push(found.map(|(_, found)| found.bias));
    }
    let [one, .., many] = &biases[..] else { return Ok(()) };
    paper.claim(
        "gradients at the start: uPS has far less bias than bMC, which few samples make noisy (Figs. 1 and 9)",
        "uPS near 0",
        format!("dᵀg/‖g‖², ‖d‖/‖g‖ and bias: {}", rows.join(" · ")),
        Verdict::of(one[0] < 0.3 * one[1], "the biases are alike"),
    );
    paper.claim(
        "smoothing reduces the bias of bMC (Fig. 9)",
        "less bias",
        format!(
            "bias with one sample {:.3} instead of {:.3}, with 100 samples {:.3} instead of {:.3}",
            one[2], one[1], many[2], many[1]
        ),
        Verdict::of(one[2] < one[1], "it changes little or adds bias"),
    );
    paper.expect("bias of uPS over that of bMC, one sample", one[0] / one[1], 0.0..=0.5);
    Ok(())
}
