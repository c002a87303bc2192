//! Monte Carlo gradients from samples of w: unbiased in (m, S) and in C, for both layers and
//! families, and noiseless at the posterior.

use crate::prelude::*;
use sparsegp_testkit::compare;

const BETA: f64 = 0.7;

/// Returns means and standard errors of gradients in m, S and C over many passes.
fn moments(
    (layer, likelihood): (&Layer, &ObservationModel),
    (q, factor): (&Normal, Option<Factor<'_>>),
    (x, y): (&Mat<f64>, &[f64]),
    estimator: Estimator,
    runs: usize,
) -> Vec<(f64, f64)> {
    let objective = Objective { loss: Loss::ExpectedLog(estimator), ..Objective::elbo(BETA) };
    let problem = Problem { factor, ..Problem::new(Layers::one(layer), likelihood, objective, q.as_ref()) };
    let mut pass = BatchPass::new(problem, y.len());
    pass.seed(3);
    compare::moments((0..runs).map(|_| {
        pass.run(problem, Batch::of(x.transpose(), y, 2.0), Form::Stable, false);
        let DataGradient { mean, cov, path, .. } = pass.q_gradient(0);
        let cov = path.filter(|_| factor.is_some()).unwrap_or(cov);
        [mean.to_vec(), flat(cov)].concat()
    }))
}

type Case<'a> = (&'a Layer, &'a ObservationModel, &'a Mat<f64>, &'a [f64]);

#[test]
fn gradients_from_samples_are_unbiased() {
    let (x, _) = data(1, 3, 40);
    let mut normals = Normals::new(4);
    let counts: Vec<f64> = (0..40).map(|_| (2.0 * normals.next()).abs().floor()).collect();
    let classes: Vec<f64> = counts.iter().map(|c| f64::from(*c > 1.0)).collect();
    let inducing = model(2, "rbf(ard)", 3, 5, Jitter::DEFAULT).layers.remove(0);
    let linear = Layer::from(LinearLayer::isotropic(3, 0.3, 1.5).expect("prior").with_intercept());
    // With fewer data than coefficients the layer is reduced, and has residual variances.
    let reduced = LinearLayer::isotropic(3, 0.0, 1.0).expect("prior");
    let reduced = Layer::from(reduced.reduced_to(x.transpose().subrows(0, 2)));
    let (logit, counted) = (Bernoulli::Logit.into(), Poisson::Softplus.into());
    let narrow = x.subrows(0, 2).to_owned();
    let cases: [Case<'_>; 3] = [
        (&inducing, &logit, &x, &classes),
        (&linear, &counted, &narrow, &counts),
        (&reduced, &logit, &x, &classes),
    ];
    for (layer, likelihood, x, y) in cases {
        let m = layer.dim();
        let full = posterior(5, m);
        let diagonal = Normal::diagonal(full.mean().to_vec(), (0..m).map(|j| 0.1 + 0.2 * j as f64).collect())
            .expect("q");
        let lower = full.cov().full().llt(faer::Side::Lower).expect("S").L().to_owned();
        let deviations: Vec<f64> = flat(diagonal.cov()).iter().map(|s| s.sqrt()).collect();
        for q in [&full, &diagonal] {
            let exact = moments((layer, likelihood), (q, None), (x, y), Estimator::Exact, 1);
            let exact: Vec<f64> = exact.iter().map(|(mean, _)| *mean).collect();
            // ∇_C = 2 B C.
            let (factor, slopes) = match q.family() {
                Family::Full => {
                    let b = Mat::from_fn(m, m, |i, j| exact[m + j * m + i]);
                    (Factor::Lower(lower.as_ref()), entries((2.0 * b * &lower).as_ref()))
                }
                Family::Diagonal => {
                    let slopes = exact[m..].iter().zip(&deviations).map(|(b, c)| 2.0 * b * c);
                    (Factor::Diagonal(&deviations), slopes.collect())
                }
            };
            let in_factor = [&exact[..m], &slopes].concat();
            let samples = 4;
            for estimator in [
                Estimator::Price { samples },
                Estimator::Energy { samples },
                Estimator::EnergyEntropy { samples },
                Estimator::StickingTheLanding { samples },
            ] {
                let what = format!("{estimator}, {}, {m} weights", q.family());
                let got = moments((layer, likelihood), (q, None), (x, y), estimator, 2000);
                assert_unbiased(&got, &exact, &what);
                if !matches!(estimator, Estimator::Price { .. }) {
                    let got = moments((layer, likelihood), (q, Some(factor)), (x, y), estimator, 2000);
                    assert_unbiased(&got, &in_factor, &format!("{what}, in C"));
                }
            }
        }
    }
}

/// If q is the posterior, gradients that stick the landing have no noise (Roeder, Wu & Duvenaud 2017): they
/// equal the exact gradient, which is 0 including the terms of the prior and the entropy.
#[test]
fn sticking_the_landing_is_noiseless_at_the_posterior() {
    let (x, y) = data(6, 3, 50);
    let layer = Layer::from(LinearLayer::isotropic(3, 0.0, 1.0).expect("prior"));
    let likelihood: ObservationModel = Gaussian::new(0.4).into();
    let start = LatentModel::new(layer.clone(), likelihood.clone(), true);
    let set = Dataset::of(x.transpose(), &y);
    let mut exact = CollapsedObjective::new(start, set, Objective::elbo(1.0));
    let theta = exact.start();
    exact.solve(&theta).expect("posterior");
    let objective = |samples: usize, landing: bool| {
        let estimator = match landing {
            true => Estimator::StickingTheLanding { samples },
            false => Estimator::EnergyEntropy { samples },
        };
        let objective = Objective { loss: Loss::ExpectedLog(estimator), ..Objective::elbo(1.0) };
        let problem = Problem::new(Layers::one(&layer), &likelihood, objective, exact.q().as_ref());
        let mut pass = BatchPass::new(problem, y.len());
        pass.run(problem, Batch::of(x.transpose(), &y, 1.0), Form::Stable, false);
        let gradient = pass.q_gradient(0);
        let mean = gradient.mean.iter().zip(exact.q().mean());
        let mean = mean.map(|(g, m)| (g + m).abs()).fold(0.0, f64::max);
        let precision = inverse(exact.q().cov().full());
        let cov = gradient.cov.full();
        let worst = (0..9)
            .map(|k| (k % 3, k / 3))
            .map(|(i, j)| (2.0 * cov[(i, j)] + if i == j { 1.0 } else { 0.0 } - precision[(i, j)]).abs());
        (mean, worst.fold(0.0, f64::max), precision[(0, 0)])
    };
    let (mean, cov, size) = objective(3, true);
    assert!(mean < 1e-10 * size && cov < 1e-10 * size, "{mean} {cov}");
    let (mean, cov, _) = objective(3, false);
    assert!(mean > 1e-3 && cov > 1e-3, "{mean} {cov}");
}
