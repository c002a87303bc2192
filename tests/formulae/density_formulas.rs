//! Likelihoods from formulas: the contract, expectations and predictions against the built-in likelihoods, and formulas that are refused.

use crate::prelude::*;
use sparsegp::likelihood::testkit::{check_density, check_expectations, check_likelihood};
use sparsegp::quadrature::Integrator;
use sparsegp_testkit::density_formulas as formulas;

/// A formula, the built-in likelihood of the same density, and targets.
struct Pair {
    own: Box<dyn OneFunction>,
    built_in: Box<dyn OneFunction>,
    targets: Vec<Observation<'static>>,
}

fn student_t(scale: f64, df: f64, has_moments: bool) -> FormulaLikelihood<formulas::StudentT> {
    FormulaLikelihood::new(formulas::StudentT { scale, df, has_moments })
}

fn pairs() -> Vec<Pair> {
    let of = |targets: &[f64]| targets.iter().map(|&y| Observation::of(y)).collect();
    vec![
        Pair {
            own: Box::new(FormulaLikelihood::new(formulas::Logit)),
            built_in: Box::new(Bernoulli::Logit),
            targets: of(&[0.0, 1.0]),
        },
        Pair {
            own: Box::new(FormulaLikelihood::new(formulas::Poisson)),
            built_in: Box::new(Poisson::Exp),
            targets: [(0.0, 1.0), (3.0, 1.0), (5.0, 2.5), (300.0, 90.0)]
                .map(|(y, exposure)| Observation::exposed(y, exposure))
                .to_vec(),
        },
        Pair {
            own: Box::new(student_t(0.4, 5.0, false)),
            built_in: Box::new(StudentT::new(0.4, 5.0)),
            targets: of(&[-2.0, 0.3, 9.0]),
        },
    ]
}

fn close(got: f64, want: f64, tolerance: f64) -> bool {
    got == want || (got - want).abs() <= tolerance * (1.0 + want.abs())
}

#[test]
fn formulas_of_classes_and_counts_keep_the_contract() {
    for Pair { own, targets, .. } in &pairs()[..2] {
        let verdict = check_likelihood(own.as_likelihood(), &targets[..targets.len().min(3)]);
        assert_eq!(verdict, Ok(()), "{}", own.name());
    }
}

#[test]
fn formulas_of_real_targets_keep_the_contract() {
    let normal = FormulaLikelihood::new(formulas::Normal::default());
    assert_eq!(check_likelihood(&normal, &[-1.3, 0.4].map(Observation::of)), Ok(()));
    let Pair { own, targets, .. } = &pairs()[2];
    for &at in targets {
        for f in [-2.0, 0.4, 3.0] {
            assert_eq!(check_density(own.as_likelihood(), at, &[f]), Ok(()));
            let mean = [f];
            let row = Row::new(at, Marginal { mean: &mean, variance: &[0.7] });
            assert_eq!(check_expectations(own.as_likelihood(), row), Ok(()));
        }
    }
}

#[test]
fn formulas_have_the_densities_and_expectations_of_the_built_in_likelihoods() {
    for Pair { own, built_in, targets } in pairs() {
        let name = own.name();
        for at in targets {
            for f in [-2.0, 0.3, 4.0] {
                let [(a, a1), (b, b1)] =
                    [&own, &built_in].map(|likelihood| likelihood.value_and_slope(at, f));
                assert!(close(a, b, 1e-11) && close(a1, b1, 1e-11), "{name} {at} {f}: {a} {b}, {a1} {b1}");
                let [a, b] = [&own, &built_in].map(|likelihood| likelihood.curvature(at, f));
                assert!(close(a, b, 1e-11), "{name} {at} {f}: {a} {b}");
            }
            for (mean, variance) in [(0.3, 0.01), (-1.0, 0.8), (2.0, 4.0), (0.0, 30.0)] {
                for of in [Expectation::ExpectedLog, Expectation::LogPredictive] {
                    let row = Row::new(at, LatentMarginal::new(mean, variance));
                    let [(a, own_a), (b, own_b)] = [&own, &built_in].map(|likelihood| {
                        let mut slopes = vec![0.0; likelihood.as_likelihood().own_len()];
                        let found = likelihood.expectation(of, row, &mut slopes, &mut Integrator::default());
                        (found, slopes)
                    });
                    let same = close(a.value, b.value, 1e-9)
                        && close(a.mean, b.mean, 1e-7)
                        && close(a.variance, b.variance, 1e-7);
                    assert!(same, "{name} {of} {at} {mean} {variance}: {a:?} {b:?}");
                    let same = own_a.iter().zip(&own_b).all(|(a, b)| close(*a, *b, 1e-7));
                    assert!(same, "{name} {of} {at}: {own_a:?} {own_b:?}");
                }
            }
        }
    }
}

#[test]
fn formulas_predict_as_the_built_in_likelihoods() {
    for Pair { own, built_in, targets } in pairs() {
        let name = own.name();
        let row = |at, (mean, variance)| Row::new(at, LatentMarginal::new(mean, variance));
        for latent in [(0.4, 0.3), (-1.5, 2.0), (1.0, 0.0)] {
            let at = targets[1];
            let integrator = &mut Integrator::default();
            let [a, b] = [&own, &built_in]
                .map(|likelihood| likelihood.predictive_moments(row(at, latent), integrator));
            assert!(close(a.0, b.0, 1e-8) && close(a.1, b.1, 1e-6), "{name} {latent:?}: {a:?} {b:?}");
            for y in targets.iter().map(|at| at.y) {
                let row = row(at.with(y), latent);
                let [a, b] = [&own, &built_in].map(|likelihood| likelihood.predictive_cdf(row, integrator));
                assert!(close(a, b, 1e-7), "{name} {latent:?} {y}: {a} {b}");
                let [a, b] = [&own, &built_in].map(|likelihood| likelihood.crps(row, integrator));
                assert!(close(a, b, 1e-6), "{name} {latent:?} {y}: {a} {b}");
            }
            let [a, b] = [&own, &built_in]
                .map(|likelihood| likelihood.predictive_quantile(0.9, row(at, latent), integrator));
            assert!(close(a, b, 1e-8), "{name} {latent:?}: {a} {b}");
        }
    }
}

#[test]
fn wrong_formulas_are_refused_with_the_reason() {
    let rows = [-1.0, 0.2, 1.4].map(Observation::of);
    let check = |formula: formulas::Normal| OneFunction::check(&FormulaLikelihood::new(formula), &rows);
    assert_eq!(check(formulas::Normal::default()), Ok(()));
    let lacks_scale = formulas::Normal { lacks_scale: true, ..Default::default() };
    let reason = check(lacks_scale).unwrap_err();
    assert_eq!(
        reason,
        "the density of own-normal has the total 1.372937 over all targets at f = -1.0000, expected 1"
    );
    let reason = check(formulas::Normal { has_kink: true, ..Default::default() }).unwrap_err();
    assert!(
        reason.starts_with("the log density of own-normal has a kink in f or varies too quickly"),
        "{reason}"
    );
    let reason = check(formulas::Normal { undefined_above: Some(1.0), ..Default::default() }).unwrap_err();
    let want = "the log density of own-normal has the value NaN at y = 1.4000 and f = 1.4000, expected a finite number";
    assert_eq!(reason, want);
    for Pair { own, targets, .. } in pairs() {
        assert_eq!(own.check(&targets), Ok(()), "{}", own.name());
    }
}
