//! Continuous ranked probability scores of every likelihood: slow integrals, limits of large counts.

use crate::prelude::*;
use sparsegp::likelihood::testkit::check_scores;
use std::slice::from_ref;

type Case = (Box<dyn OneFunction>, f64, LatentMarginal);

/// Returns the marginal as one of several functions.
fn of(latent: &LatentMarginal) -> Marginal<'_> {
    Marginal { mean: from_ref(&latent.mean), variance: from_ref(&latent.variance) }
}

fn score(likelihood: &dyn OneFunction, y: f64, latent: LatentMarginal) -> f64 {
    likelihood.crps(Row::new(Observation::of(y), latent), &mut Integrator::default())
}

fn assert_close(got: f64, want: f64, what: &str) {
    assert!((got - want).abs() <= 1e-6 * want.abs(), "{what}: {got} instead of {want}");
}

/// Returns `Φ(z)` by Simpson's rule.
fn normal_cdf(z: f64) -> f64 {
    let steps = 2000;
    let h = z / steps as f64;
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let weight = |k: usize| if k == 0 || k == steps { 1.0 } else { 2.0 + 2.0 * (k % 2) as f64 };
    0.5 + (0..=steps).map(|k| weight(k) * h / 3.0 * density(k as f64 * h)).sum::<f64>()
}

#[test]
fn every_family_and_extreme_parameters_agree_with_slow_integration() {
    let mut cases: Vec<Case> = vec![
        (Box::new(StudentT::new(0.1, 1.05)), 1.0, LatentMarginal::new(3.0, 0.2)),
        (Box::new(StudentT::new(2.0, 90.0)), 1.0, LatentMarginal::new(-700.0, 1e-3)),
        (Box::new(StudentT::new(1e-3, 3.0)), 1.0, LatentMarginal::new(0.0, 400.0)),
        (Box::new(Gamma::new(0.15)), 1.0, LatentMarginal::new(0.0, 0.5)),
        (Box::new(Gamma::new(400.0)), 1.0, LatentMarginal::new(-9.0, 0.01)),
        (Box::new(Gamma::new(3.0)), 1.0, LatentMarginal::new(8.0, 6.0)),
        (Box::new(BetaLogit::new(0.4)), 1.0, LatentMarginal::new(0.5, 3.0)),
        (Box::new(BetaLogit::new(60.0)), 1.0, LatentMarginal::new(-2.0, 0.5)),
        (Box::new(BetaProbit::new(0.7)), 1.0, LatentMarginal::new(1.0, 0.1)),
        (Box::new(BetaProbit::new(30.0)), 1.0, LatentMarginal::new(0.2, 0.5)),
        (Box::new(Poisson::Exp), 1e-3, LatentMarginal::new(0.0, 1.0)),
        (Box::new(Poisson::Exp), 1.0, LatentMarginal::new(7.0, 0.04)),
        (Box::new(Poisson::Exp), 40.0, LatentMarginal::new(0.0, 0.1)),
        (Box::new(Poisson::Exp), 1.0, LatentMarginal::new(0.0, 1.0)),
        (Box::new(Poisson::Softplus), 1.0, LatentMarginal::new(2000.0, 100.0)),
        (Box::new(Poisson::Softplus), 300.0, LatentMarginal::new(-2.0, 1.0)),
        (Box::new(NegativeBinomial::new(8.0)), 1.0, LatentMarginal::new(0.0, 0.1)),
        (Box::new(NegativeBinomial::new(1e-4)), 1.0, LatentMarginal::new(6.0, 0.01)),
        (Box::new(NegativeBinomial::new(0.5)), 20.0, LatentMarginal::new(1.0, 0.01)),
    ];
    for kind in every_kind() {
        for (u, marginal) in [
            ([0.15, 0.1, 0.9, 0.5], LatentMarginal::new(-2.5, 2.0)),
            ([0.3, 0.6, 0.7, 0.5], LatentMarginal::new(0.1, 0.0)),
        ] {
            let (likelihood, at) = any_family(kind, u);
            cases.push((likelihood, at.exposure, marginal));
        }
    }
    let check = |(likelihood, exposure, marginal): &Case| {
        let verdict = check_scores(likelihood.as_likelihood(), *exposure, of(marginal));
        verdict.err().map(|error| format!("{} with exposure {exposure}: {error}", likelihood.name()))
    };
    assert_eq!(cases.iter().filter_map(check).collect::<Vec<_>>(), Vec::<String>::new());
}

/// Counts with a large mean are distributed like their log-normal rate: `y (2Φ(ω) − 1) − 2 e^{μ + v/2} (Φ(ω −
/// √v) + Φ(√(v/2)) − 1)`, `ω = (log y − μ)/√v` (Baran & Lerch 2015).
#[test]
fn counts_of_any_size_cost_no_sum() {
    let (mu, v) = (1e12f64.ln(), 0.09f64);
    for ratio in [0.5f64, 1.0, 1.4, 30.0] {
        let y = (1e12 * ratio).floor();
        let omega = (y.ln() - mu) / v.sqrt();
        let mean = (mu + 0.5 * v).exp();
        let want = y * (2.0 * normal_cdf(omega) - 1.0)
            - 2.0 * mean * (normal_cdf(omega - v.sqrt()) + normal_cdf((0.5 * v).sqrt()) - 1.0);
        assert_close(score(&Poisson::Exp, y, LatentMarginal::new(mu, v)), want, "poisson");
        assert_close(
            score(&NegativeBinomial::new(1e-9), y, LatentMarginal::new(mu, v)),
            want,
            "negative binomial",
        );
    }
    // The softplus rate of a large f is f.
    let (y, mu, sd) = (1e12 + 3e5, 1e12, 1e6);
    let want = score(&Gaussian::new(1e12), y, LatentMarginal::new(mu, sd * sd));
    assert_close(score(&Poisson::Softplus, y, LatentMarginal::new(mu, sd * sd)), want, "softplus");
}

#[test]
fn targets_that_are_not_finite_have_no_score() {
    for kind in every_kind() {
        let likelihood = one(&*kind.build(3));
        assert!(score(&*likelihood, f64::NAN, LatentMarginal::new(0.1, 0.2)).is_nan(), "{kind}: y");
        if kind.target_kind() != TargetKind::Binary {
            assert!(score(&*likelihood, 1.0, LatentMarginal::new(f64::NAN, 0.2)).is_nan(), "{kind}: μ");
        }
    }
}
