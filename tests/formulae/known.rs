//! Targets of which more is known than a number: censored ones against 40-digit numbers, and known noise against other noise.

use crate::prelude::*;
use sparsegp::likelihood::testkit::{check_density, check_expectations, check_likelihood};
use sparsegp::likelihood::{CensoredGaussian, LogLogistic, LogNormal, Weibull};

/// The value of f at which the numbers below were computed.
const F: f64 = 0.4;

/// Family, scale, target, other end of its interval, and log density or log probability at [`F`]: mpmath with 40 digits, from
/// `F(e) = Φ(e)`, `1 − exp(−e^e)` and `1/(1 + e^{−e})`, `e = (g(y) − F)/s`.
const KNOWN: &[(&str, f64, f64, f64, f64)] = &[
    ("gaussian-censored", 0.3, 0.2, f64::NAN, 0.062812048899041),
    ("gaussian-censored", 0.3, 3.0, f64::NAN, -37.2705212844343),
    ("gaussian-censored", 0.3, 2.5, f64::INFINITY, -27.3843074988111),
    ("gaussian-censored", 0.3, 0.7, -f64::INFINITY, -0.17275377902345),
    ("gaussian-censored", 0.3, 1.1, 1.4, -4.66850747737658),
    ("gaussian-censored", 0.3, 4.0, 2.0, -16.8476364447434),
    ("gaussian-censored", 0.3, 1.1, 1.1000001, -18.5552839909482),
    ("gaussian-censored", 0.3, 40.0, f64::INFINITY, -8717.80179783966),
    ("gaussian-censored", 0.3, 0.01, -f64::INFINITY, -2.33510327866244),
    ("gaussian-censored", 1.7, 0.2, f64::NAN, -1.45648719949176),
    ("gaussian-censored", 1.7, 3.0, f64::NAN, -2.61911695727722),
    ("gaussian-censored", 1.7, 2.5, f64::INFINITY, -2.22229136061884),
    ("gaussian-censored", 1.7, 0.7, -f64::INFINITY, -0.562052475832998),
    ("gaussian-censored", 1.7, 1.1, 1.4, -2.77951245626516),
    ("gaussian-censored", 1.7, 4.0, 2.0, -1.85658775098418),
    ("gaussian-censored", 1.7, 1.1, 1.1000001, -17.6524375338411),
    ("gaussian-censored", 1.7, 40.0, f64::INFINITY, -275.376932387376),
    ("gaussian-censored", 1.7, 0.01, -f64::INFINITY, -0.893369329554304),
    ("log-normal", 0.3, 0.2, f64::NAN, -20.5379762827086),
    ("log-normal", 0.3, 3.0, f64::NAN, -3.5250176279807),
    ("log-normal", 0.3, 2.5, f64::INFINITY, -3.15523892022651),
    ("log-normal", 0.3, 0.7, -f64::INFINITY, -5.14467940364345),
    ("log-normal", 0.3, 1.1, 1.4, -1.34229550338957),
    ("log-normal", 0.3, 4.0, 2.0, -1.80947236577398),
    ("log-normal", 0.3, 1.1, 1.1000001, -16.4441263763837),
    ("log-normal", 0.3, 40.0, f64::INFINITY, -63.414546022428),
    ("log-normal", 0.3, 0.01, -f64::INFINITY, -142.913213559035),
    ("log-normal", 1.7, 0.2, f64::NAN, -0.538717232373835),
    ("log-normal", 1.7, 3.0, f64::NAN, -2.63261836876161),
    ("log-normal", 1.7, 2.5, f64::INFINITY, -0.965801234822612),
    ("log-normal", 1.7, 0.7, -f64::INFINITY, -1.11436767460807),
    ("log-normal", 1.7, 1.1, 1.4, -2.87854569080104),
    ("log-normal", 1.7, 4.0, 2.0, -1.89281542682613),
    ("log-normal", 1.7, 1.1, 1.1000001, -17.679034227756),
    ("log-normal", 1.7, 40.0, f64::INFINITY, -3.62994840294104),
    ("log-normal", 1.7, 0.01, -f64::INFINITY, -6.42603274595969),
    ("weibull", 0.3, 0.2, f64::NAN, -3.88594887835245),
    ("weibull", 0.3, 3.0, f64::NAN, -7.83059905335355),
    ("weibull", 0.3, 2.5, f64::INFINITY, -5.58994308894789),
    ("weibull", 0.3, 0.7, -f64::INFINITY, -2.56212069460973),
    ("weibull", 0.3, 1.1, 1.4, -1.38258261151198),
    ("weibull", 0.3, 4.0, 2.0, -2.65689266406579),
    ("weibull", 0.3, 1.1, 1.1000001, -16.3872389072641),
    ("weibull", 0.3, 40.0, f64::INFINITY, -57695.3300212106),
    ("weibull", 0.3, 0.01, -f64::INFINITY, -16.6839006483554),
    ("weibull", 1.7, 0.2, f64::NAN, -0.409870596344035),
    ("weibull", 1.7, 3.0, f64::NAN, -2.72653967129941),
    ("weibull", 1.7, 2.5, f64::INFINITY, -1.35486311964155),
    ("weibull", 1.7, 0.7, -f64::INFINITY, -0.748433092083262),
    ("weibull", 1.7, 1.1, 1.4, -2.95931632040242),
    ("weibull", 1.7, 4.0, 2.0, -1.98632796073976),
    ("weibull", 1.7, 1.1, 1.1000001, -17.7591776261694),
    ("weibull", 1.7, 40.0, f64::INFINITY, -6.92151705364562),
    ("weibull", 1.7, 0.01, -f64::INFINITY, -2.97042389969026),
    ("log-logistic", 0.3, 0.2, f64::NAN, -3.8871805791014),
    ("log-logistic", 0.3, 3.0, f64::NAN, -2.40927391630859),
    ("log-logistic", 0.3, 2.5, f64::INFINITY, -1.88554471250564),
    ("log-logistic", 0.3, 0.7, -f64::INFINITY, -2.59946896090362),
    ("log-logistic", 0.3, 1.1, 1.4, -1.70717104823968),
    ("log-logistic", 0.3, 4.0, 2.0, -1.4377610251057),
    ("log-logistic", 0.3, 1.1, 1.1000001, -16.643228463185),
    ("log-logistic", 0.3, 40.0, f64::INFINITY, -10.9629488459883),
    ("log-logistic", 0.3, 0.01, -f64::INFINITY, -16.6839006767506),
    ("log-logistic", 1.7, 0.2, f64::NAN, -0.638158038065828),
    ("log-logistic", 1.7, 3.0, f64::NAN, -3.05746076809382),
    ("log-logistic", 1.7, 2.5, f64::INFINITY, -0.856482602484699),
    ("log-logistic", 1.7, 0.7, -f64::INFINITY, -0.940261441548216),
    ("log-logistic", 1.7, 1.1, 1.4, -3.34255495579338),
    ("log-logistic", 1.7, 4.0, 2.0, -2.32172840354461),
    ("log-logistic", 1.7, 1.1, 1.1000001, -18.1383485460842),
    ("log-logistic", 1.7, 40.0, f64::INFINITY, -2.06958273466099),
    ("log-logistic", 1.7, 0.01, -f64::INFINITY, -2.99552211314867),
];

fn family(name: &str, scale: f64) -> Box<dyn OneFunction> {
    match name {
        "gaussian-censored" => Box::new(CensoredGaussian::new(scale)),
        "log-normal" => Box::new(LogNormal::new(scale)),
        "weibull" => Box::new(Weibull::new(scale)),
        _ => Box::new(LogLogistic::new(scale)),
    }
}

#[test]
fn densities_and_probabilities_of_intervals_have_all_digits() {
    for &(name, scale, y, other_end, want) in KNOWN {
        let found = family(name, scale).value_and_slope(Observation::between(y, other_end), F).0;
        // The ends of the narrowest intervals have 9 digits in common.
        let tolerance = if (other_end / y - 1.0).abs() < 1e-6 { 1e-8 } else { 1e-12 };
        assert!(
            (found - want).abs() < tolerance * (1.0 + want.abs()),
            "{name} {scale} {y} {other_end}: {found}"
        );
    }
}

#[test]
fn censored_families_keep_the_contract() {
    let kinds = ["gaussian-censored", "log-normal", "weibull", "log-logistic"];
    // Slow integration would miss hazards of narrower Weibull distributions, which lie beyond 9 standard deviations of f; samples of
    // log-logistic times need finite fourth moments.
    let scales = [[0.45, 0.8], [0.3, 0.5], [0.8, 1.3], [0.17, 0.22]];
    for (name, scale) in
        kinds.into_iter().zip(scales).flat_map(|(name, scales)| scales.map(|scale| (name, scale)))
    {
        let own = family(name, scale);
        let ends = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.1, 0.9];
        let observations = ends.map(|other_end| Observation::between(1.3, other_end));
        check_likelihood(own.as_likelihood(), &observations).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

/// An interval that covers everything says nothing, and one that is cut in two has the sum of the probabilities.
#[test]
fn probabilities_of_intervals_add_up() {
    for (name, scale) in
        [("gaussian-censored", 0.8), ("log-normal", 0.5), ("weibull", 0.7), ("log-logistic", 0.4)]
    {
        let own = family(name, scale);
        let row = |y: f64, other_end: f64| {
            let latent = LatentMarginal::new(0.3, 0.6);
            let row = Row::new(Observation::between(y, other_end), latent);
            own.log_predictive(row, &mut [], &mut Integrator::default()).value.exp()
        };
        let total = row(0.8, f64::NEG_INFINITY) + row(0.8, 1.9) + row(1.9, f64::INFINITY);
        assert!((total - 1.0).abs() < 1e-9, "{name}: {total}");
        assert!((row(1.9, 0.8) - row(0.8, 1.9)).abs() < 1e-15, "{name}: ends in the other order");
    }
}

/// Known noise of standard deviation s beside a noise variance σ² is a noise variance of σ² + s².
#[test]
fn known_noise_adds_to_the_variance() {
    let (known, plain) = (Gaussian::new(0.3).with_known_noise(), Gaussian::new(0.3 + 0.49));
    let (heavy, plain_heavy) =
        (StudentT::new(0.4, 5.0).with_known_noise(), StudentT::new(0.4f64.hypot(0.7), 5.0));
    let (only, plain_only) = (Gaussian::known_noise_only(), Gaussian::new(0.49));
    let (heavy_only, plain_heavy_only) = (StudentT::known_noise_only(5.0), StudentT::new(0.7, 5.0));
    let pairs: [(&dyn OneFunction, &dyn OneFunction); 4] =
        [(&known, &plain), (&heavy, &plain_heavy), (&only, &plain_only), (&heavy_only, &plain_heavy_only)];
    for (known, plain) in pairs {
        let (with, without) = (Observation::exposed(1.1, 0.7), Observation::of(1.1));
        let latent = LatentMarginal::new(-0.2, 0.5);
        let mut tools = Integrator::default();
        for predictive in [false, true] {
            let [a, b] = [(known, with), (plain, without)].map(|(family, at)| {
                expectation(family, predictive, at, latent, &mut [], &mut Integrator::default())
            });
            let pairs = [(a.value, b.value), (a.mean, b.mean), (a.variance, b.variance)];
            assert!(pairs.iter().all(|(a, b)| (a - b).abs() < 1e-12), "{}: {a:?} {b:?}", known.name());
        }
        let [a, b] = [(known, with), (plain, without)].map(|(family, at)| {
            let row = Row::new(at, latent);
            let (mean, variance) = family.predictive_moments(row, &mut tools);
            [
                mean,
                variance,
                family.predictive_cdf(row, &mut tools),
                family.predictive_quantile(0.9, row, &mut tools),
            ]
        });
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-10), "{}: {a:?} {b:?}", known.name());
        // Without other noise, a standard error of 0 leaves next to none.
        let least = if known.name().ends_with("only") { 0.3 } else { 0.0 };
        for s in [least, 0.7, 3.0] {
            let at = Observation::exposed(1.1, s);
            let row = Row::new(at, Marginal { mean: &[-0.2], variance: &[0.5] });
            check_density(known.as_likelihood(), at, &[0.6]).unwrap_or_else(|why| panic!("{why}"));
            check_expectations(known.as_likelihood(), row).unwrap_or_else(|why| panic!("{why}"));
        }
    }
}
