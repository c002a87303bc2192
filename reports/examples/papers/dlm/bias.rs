//! Sampled gradients in the mean of q, compared with exact gradients, at the start of a fit: figures 1 (g, h)
//! and 9.

use crate::paper::prelude::*;
use sparsegp::kernels::parse;
use sparsegp::latent::{InducingInit, InducingPrior, Jitter, choose_inducing};

/// M of abalone in table 2, and the ν of the figures.
const INDUCING: usize = 41;
const NU: f64 = 1e-4;

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
    // The largest bias of uPS and of smooth-bMC relative to that of bMC, and the largest distance of dᵀg/‖g‖² from 1.
    let (mut unbiased, mut smoothed, mut off): (f64, f64, f64) = (0.0, 0.0, 0.0);
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
        let [ups, bmc, smooth] = found.map(|(_, found)| found);
        unbiased = unbiased.max(ups.bias / bmc.bias);
        smoothed = smoothed.max(smooth.bias / bmc.bias);
        off = off.max((ups.along - 1.0).abs());
        if samples > 1 {
            off = off.max((bmc.along - 1.0).abs());
        }
    }
    let claim = "gradients at the start: uPS has far less bias than bMC for as many samples (Figs. 1 and 9)";
    let ours =
        format!("dᵀg/‖g‖², ‖d‖/‖g‖ and bias: {}; the largest bias of uPS over that of bMC", rows.join(" · "));
    paper.judge(claim, "uPS near 0", ours, Compared::at_most(unbiased, 0.5, 0.0));
    let claim = "dᵀg/‖g‖² is near 1, except for bMC with one sample (Fig. 9)";
    let ours = "largest distance from 1 of uPS, and of bMC with 10 and 100 samples";
    paper.judge(claim, "about 1", ours, Compared::at_most(off, 0.0, 0.2));
    let claim = "smoothing reduces the bias of bMC (Fig. 9)";
    let ours = "the largest bias of smooth-bMC over that of bMC for as many samples";
    paper.judge(claim, "less bias", ours, Compared::at_most(smoothed, 1.0, 0.0));
    paper.expect("bias of uPS over that of bMC", unbiased, 0.0..=0.5);
    Ok(())
}
