//! Targets of which more is known than a number: known noise against dense GPs and scikit-learn, censored times against the truth.

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::hyper::StopReason;
use sparsegp::kernels::Stationary;
use sparsegp::likelihood::{
    Censored, Gaussian, LogNormal, NegativeBinomial, ObservationModel, StudentT, Weibull,
};
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, Hyper, HyperOptimizer, MeanKind, ObjectiveKind};
use sparsegp::training::{Fit, Inducing, Linear, Points};

fn fixed(options: &mut FitOptions) {
    (options.hyper, options.mean, options.standardize) = (Some(Hyper::Fixed), MeanKind::Zero, false);
}

/// 300 rows with standard errors from 0.05 to 0.41.
fn measured() -> (Mat<f64>, Vec<f64>, Vec<f64>) {
    let x = Mat::from_fn(300, 1, |i, _| (i as f64 * 0.37) % 10.0);
    let errors: Vec<f64> = (0..300).map(|i| 0.05 + 0.4 * ((7 * i) % 11) as f64 / 11.0).collect();
    let y = (0..300).map(|i| x[(i, 0)].sin() + 0.3 * x[(i, 0)] + errors[i] * (5.0 * i as f64).sin());
    let y = y.collect();
    (x, y, errors)
}

/// Inputs, and means and standard deviations of f by scikit-learn 1.9, `GaussianProcessRegressor(ConstantKernel(2) * RBF(1.3), alpha=σ² + errors**2,
/// optimizer=None)`, of the rows of [`measured`], for σ² = 0.01 and for σ² = 0.
const SCIKIT: [(f64, [(f64, f64); 2]); 5] = [
    (0.5, [(0.618340954735622, 0.04023923677137327), (0.6129284205901868, 0.026380158031641173)]),
    (3.3, [(0.8319832528022317, 0.03615269561281852), (0.8279747912188036, 0.02310050544221183)]),
    (7.25, [(2.9944750255023838, 0.036190723324082734), (2.997159985522913, 0.023035896764507492)]),
    (9.9, [(2.5095606679989686, 0.05121658172652725), (2.5220550102810364, 0.03346018403463942)]),
    (12.0, [(0.812688221184998, 1.1925347998217515), (0.9203040552564516, 1.1603489791995643)]),
];

#[test]
fn known_noise_is_the_alpha_of_scikit_learn() {
    let (x, y, errors) = measured();
    // A grid of inducing inputs as close as the lengthscale needs for 8 digits.
    let z = Mat::from_fn(70, 1, |i, _| -1.0 + 14.0 * i as f64 / 69.0);
    let new = Mat::from_fn(5, 1, |i, _| SCIKIT[i].0);
    let cases = [(Gaussian::new(0.01).with_known_noise(), 0.01), (Gaussian::known_noise_only(), 0.0)];
    for (case, (likelihood, noise)) in cases.into_iter().enumerate() {
        let gp = Inducing::new(Stationary::rbf(2.0, &[1.3])).points(Points::Given(z.clone()));
        let fit = Fit::new(gp, likelihood).exposure(&errors).with(fixed).with(|options| {
            options.fix_inducing = true;
            options.jitter = sparsegp::latent::Jitter::Relative(1e-12);
        });
        let model = fit.fit(&x, &y).expect("a fit");
        // Without standard errors, predictions of y have the noise of the likelihood alone.
        let found = model.predict(&new, &[]).expect("predictions");
        let with = model.predict(&new, &[0.3; 5]).expect("predictions");
        for (row, (x, wanted)) in SCIKIT.into_iter().enumerate() {
            let ((mean, sd), own, wider) = (wanted[case], found.row(row), with.row(row));
            let own_sd = own.latent_variance.sqrt();
            assert!((own.mean - mean).abs() < 1e-6, "at {x}: {} instead of {mean}", own.mean);
            assert!((own_sd - sd).abs() < 1e-6, "at {x}: {own_sd} instead of {sd}");
            assert!((own.variance - sd * sd - noise).abs() < 1e-6, "at {x}: {}", own.variance);
            assert!((wider.variance - own.variance - 0.09).abs() < 1e-8, "at {x}: {}", wider.variance);
        }
    }
}

/// The standard errors are in units of the target, whatever it is scaled by, and rows without noise beyond a common one are rows of that noise.
#[test]
fn known_noise_has_the_units_of_the_target() {
    let (x, y, errors) = measured();
    let fit = |scale: f64, noise: ObservationModel, errors: &[f64]| -> Model {
        let y: Vec<f64> = y.iter().map(|y| 100.0 + scale * y).collect();
        let gp = Inducing::new(Stationary::rbf(2.0 * scale * scale, &[1.3])).points(Points::KMeans(15));
        let fit = Fit::new(gp, noise).with(|options| options.hyper = Some(Hyper::Fixed));
        fit.exposure(errors).fit(&x, &y).expect("a fit")
    };
    let new = Mat::from_fn(4, 1, |i, _| 1.0 + 2.3 * i as f64);
    let means = |model: &Model| model.predict(&new, &[]).expect("predictions").means();
    let families: [fn(f64) -> (ObservationModel, ObservationModel); 2] = [
        |s| (Gaussian::new(0.02 * s * s).with_known_noise().into(), Gaussian::new(0.11 * s * s).into()),
        |s| {
            (
                StudentT::new(0.2 * s, 5.0).with_known_noise().into(),
                StudentT::new(s * 0.13f64.sqrt(), 5.0).into(),
            )
        },
    ];
    for family in families {
        let small = means(&fit(1.0, family(1.0).0, &errors));
        let scaled: Vec<f64> = errors.iter().map(|error| 250.0 * error).collect();
        let large = means(&fit(250.0, family(250.0).0, &scaled));
        for (small, large) in small.iter().zip(&large) {
            assert!((100.0 + 250.0 * (small - 100.0) - large).abs() < 250.0 * 1e-6, "{small} {large}");
        }
        // σ² + s² = 0.11, or scale² + s² = 0.13.
        let common = means(&fit(1.0, family(1.0).0, &[0.3; 300]));
        let plain = means(&fit(1.0, family(1.0).1, &[]));
        for (common, plain) in common.iter().zip(&plain) {
            assert!((common - plain).abs() < 1e-4, "{common} {plain}");
        }
    }
}

/// Noise that is trained beside known noise is that of the data: 0.3² in addition to standard errors that vary.
#[test]
fn noise_beside_known_noise_is_learned_in_every_way_to_train() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut normal = move || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let x = Mat::from_fn(600, 1, |i, _| i as f64 / 60.0);
    let errors: Vec<f64> = (0..600).map(|i| [0.05, 0.2, 1.5][i % 3]).collect();
    let y: Vec<f64> =
        (0..600).map(|i| 2.0 * x[(i, 0)].sin() + 0.3 * normal() + errors[i] * normal()).collect();
    type Change = fn(&mut FitOptions);
    let ways: [(&str, Change); 4] = [
        ("default", |_| {}),
        ("batches", |options| (options.hyper, options.epochs) = (Some(Hyper::Joint), Some(60))),
        ("direct loss", |options| options.objective = ObjectiveKind::DlmLog),
        ("neighbours", |options| options.neighbours = Some(10)),
    ];
    for (name, change) in ways {
        let gp = Inducing::new(Stationary::rbf(1.0, &[1.0])).points(Points::KMeans(20));
        let likelihood = Gaussian::default().with_known_noise();
        let model = Fit::new(gp, likelihood).exposure(&errors).with(change).fit(&x, &y).expect(name);
        let found = model.predict(&[[5.0]], &[]).expect("predictions").row(0);
        // Direct losses leave open how much of the variance is that of f.
        assert!(
            (0.06..0.16).contains(&found.variance),
            "{name}: variance {} instead of 0.09",
            found.variance
        );
    }
}

/// The truth behind 50 % censored times is found if the fit knows which are censored, and missed if it does not.
#[test]
fn censored_times_are_unbiased() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let x = Mat::from_fn(800, 1, |i, _| i as f64 / 200.0);
    let log_time = |x: f64| 1.0 + 0.8 * x.sin();
    type Quantile = fn(f64) -> f64;
    let shapes: [(&str, ObservationModel, Quantile); 2] = [
        ("weibull", Weibull::new(1.0).into(), |u| (-(1.0 - u).ln()).ln()),
        ("log-normal", LogNormal::new(1.0).into(), |u| (u / (1.0 - u)).ln() * 0.6),
    ];
    for (name, likelihood, quantile) in shapes {
        let times: Vec<f64> =
            (0..800).map(|i| (log_time(x[(i, 0)]) + 0.5 * quantile(random.random::<f64>())).exp()).collect();
        let ends: Vec<f64> = (0..800).map(|_| 8.0 * random.random::<f64>()).collect();
        let y: Vec<f64> = times.iter().zip(&ends).map(|(time, end)| time.min(*end)).collect();
        let other_ends: Vec<f64> = times
            .iter()
            .zip(&ends)
            .map(|(time, end)| if time > end { f64::INFINITY } else { f64::NAN })
            .collect();
        let censored = other_ends.iter().filter(|end| end.is_infinite()).count();
        assert!((250..550).contains(&censored), "{censored} censored");
        let gp = || Inducing::new(Stationary::rbf(1.0, &[1.0])).points(Points::KMeans(12));
        let error = |other_ends: &[f64]| {
            let fit = Fit::new(gp(), likelihood.clone()).other_ends(other_ends);
            let model = fit.fit(&x, &y).expect(name);
            let new = Mat::from_fn(30, 1, |i, _| 0.1 + i as f64 * 3.8 / 30.0);
            let predictions = model.predict(&new, &[]).expect("predictions");
            let off = (0..30).map(|row| predictions.row(row).latent_mean - log_time(new[(row, 0)]));
            off.sum::<f64>() / 30.0
        };
        let (known, ignored) = (error(&other_ends), error(&[]));
        assert!(
            known.abs() < 0.1 && ignored < -0.3,
            "{name}: bias {known}, and {ignored} if censoring is ignored"
        );
    }
}

/// The default fit of a linear model ends where L-BFGS on coefficients and parameters together does, in at most 60 passes.
#[test]
fn linear_models_with_other_parameters_end_at_the_optimum() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let x = Mat::from_fn(600, 2, |i, d| (i as f64 * [0.37, 0.71][d]) % 2.0 - 1.0);
    // Poisson counts of gamma distributed rates, which are exponential here: α = 1. Those of 8 or more are censored at 8.
    let mut count = |rate: f64| {
        let rate = -rate * (1.0 - random.random::<f64>()).ln();
        let (mut count, mut left) = (0.0, (-rate).exp() / random.random::<f64>().max(1e-300));
        while left < 1.0 && count < 8.0 {
            count += 1.0;
            left /= random.random::<f64>().max(1e-300);
        }
        count
    };
    let counts: Vec<f64> = (0..600).map(|i| count((1.0 + x[(i, 0)]).exp())).collect();
    let ends: Vec<f64> = counts.iter().map(|&y| if y < 8.0 { f64::NAN } else { f64::INFINITY }).collect();
    let numbers: Vec<f64> =
        (0..600).map(|i| x[(i, 0)] + [0.1, -0.3, 0.2, -0.1, 4.0][i % 5] * x[(i, 1)]).collect();
    let cases: [(ObservationModel, &[f64], &[f64]); 2] = [
        (Censored::new(NegativeBinomial::new(0.3)).into(), &counts, &ends),
        (StudentT::new(1.0, 5.0).into(), &numbers, &[]),
    ];
    for (likelihood, y, ends) in cases {
        let fit = Fit::new(Linear::default(), likelihood).other_ends(ends);
        let own = fit.clone().fit(&x, y).expect("a fit");
        let together = fit.with(|options| {
            options.hyper = Some(Hyper::Joint);
            options.hyper_optimizer = Some(HyperOptimizer::Lbfgs);
            options.tolerance = Some(1e-10);
        });
        let together = together.fit(&x, y).expect("a fit");
        let (own, best) = (own.summary(), together.summary().objective);
        assert!((own.objective - best).abs() < 1e-4, "{} instead of {best}", own.objective);
        assert!(own.stop_reason == StopReason::Converged && own.epochs <= 60, "{}", own.epochs);
    }
}
