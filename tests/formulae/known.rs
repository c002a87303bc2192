//! Targets of which more is known than a number: censored ones against 40-digit numbers, and known noise against other noise.

use crate::prelude::*;
use sparsegp::likelihood::testkit::{check_density, check_expectations, check_likelihood};
use sparsegp::likelihood::{CensoredGaussian, LogLogistic, LogNormal, Weibull};

/// The value of f at which the numbers below were computed.
const F: f64 = 0.4;

/// Family, scale, target, other end of its interval, and log density or log probability at [`F`]: mpmath with 40 digits, from
/// `F(e) = Φ(e)`, `1 − exp(−e^e)` and `1/(1 + e^{−e})`, `e = (g(y) − F)/s`.
const KNOWN: &[(&str, f64, f64, f64, f64)] = &[
    ("gaussian-censored", 0.3, 0.2, f64::NAN, 0.062812048899041029),
    ("gaussian-censored", 0.3, 3.0, f64::NAN, -37.270521284434292),
    ("gaussian-censored", 0.3, 2.5, f64::INFINITY, -27.384307498811075),
    ("gaussian-censored", 0.3, 0.7, -f64::INFINITY, -0.17275377902344989),
    ("gaussian-censored", 0.3, 1.1, 1.4, -4.6685074773765836),
    ("gaussian-censored", 0.3, 4.0, 2.0, -16.847636444743404),
    ("gaussian-censored", 0.3, 1.1, 1.1000001, -18.555283990948161),
    ("gaussian-censored", 0.3, 40.0, f64::INFINITY, -8717.8017978396616),
    ("gaussian-censored", 0.3, 0.01, -f64::INFINITY, -2.3351032786624424),
    ("gaussian-censored", 1.7, 0.2, f64::NAN, -1.4564871994917566),
    ("gaussian-censored", 1.7, 3.0, f64::NAN, -2.6191169572772238),
    ("gaussian-censored", 1.7, 2.5, f64::INFINITY, -2.2222913606188364),
    ("gaussian-censored", 1.7, 0.7, -f64::INFINITY, -0.56205247583299827),
    ("gaussian-censored", 1.7, 1.1, 1.4, -2.7795124562651558),
    ("gaussian-censored", 1.7, 4.0, 2.0, -1.8565877509841768),
    ("gaussian-censored", 1.7, 1.1, 1.1000001, -17.65243753384108),
    ("gaussian-censored", 1.7, 40.0, f64::INFINITY, -275.3769323873755),
    ("gaussian-censored", 1.7, 0.01, -f64::INFINITY, -0.89336932955430407),
    ("log-normal", 0.3, 0.2, f64::NAN, -20.53797628270861),
    ("log-normal", 0.3, 3.0, f64::NAN, -3.5250176279807032),
    ("log-normal", 0.3, 2.5, f64::INFINITY, -3.1552389202265116),
    ("log-normal", 0.3, 0.7, -f64::INFINITY, -5.1446794036434516),
    ("log-normal", 0.3, 1.1, 1.4, -1.3422955033895698),
    ("log-normal", 0.3, 4.0, 2.0, -1.8094723657739766),
    ("log-normal", 0.3, 1.1, 1.1000001, -16.444126376383712),
    ("log-normal", 0.3, 40.0, f64::INFINITY, -63.414546022428032),
    ("log-normal", 0.3, 0.01, -f64::INFINITY, -142.91321355903536),
    ("log-normal", 1.7, 0.2, f64::NAN, -0.53871723237383537),
    ("log-normal", 1.7, 3.0, f64::NAN, -2.6326183687616127),
    ("log-normal", 1.7, 2.5, f64::INFINITY, -0.96580123482261246),
    ("log-normal", 1.7, 0.7, -f64::INFINITY, -1.1143676746080703),
    ("log-normal", 1.7, 1.1, 1.4, -2.8785456908010395),
    ("log-normal", 1.7, 4.0, 2.0, -1.8928154268261336),
    ("log-normal", 1.7, 1.1, 1.1000001, -17.67903422775597),
    ("log-normal", 1.7, 40.0, f64::INFINITY, -3.6299484029410424),
    ("log-normal", 1.7, 0.01, -f64::INFINITY, -6.4260327459596921),
    ("weibull", 0.3, 0.2, f64::NAN, -3.8859488783524463),
    ("weibull", 0.3, 3.0, f64::NAN, -7.8305990533535516),
    ("weibull", 0.3, 2.5, f64::INFINITY, -5.5899430889478864),
    ("weibull", 0.3, 0.7, -f64::INFINITY, -2.562120694609728),
    ("weibull", 0.3, 1.1, 1.4, -1.3825826115119778),
    ("weibull", 0.3, 4.0, 2.0, -2.6568926640657881),
    ("weibull", 0.3, 1.1, 1.1000001, -16.387238907264122),
    ("weibull", 0.3, 40.0, f64::INFINITY, -57695.330021210615),
    ("weibull", 0.3, 0.01, -f64::INFINITY, -16.683900648355445),
    ("weibull", 1.7, 0.2, f64::NAN, -0.40987059634403513),
    ("weibull", 1.7, 3.0, f64::NAN, -2.7265396712994059),
    ("weibull", 1.7, 2.5, f64::INFINITY, -1.3548631196415526),
    ("weibull", 1.7, 0.7, -f64::INFINITY, -0.74843309208326193),
    ("weibull", 1.7, 1.1, 1.4, -2.9593163204024241),
    ("weibull", 1.7, 4.0, 2.0, -1.98632796073976),
    ("weibull", 1.7, 1.1, 1.1000001, -17.759177626169352),
    ("weibull", 1.7, 40.0, f64::INFINITY, -6.9215170536456156),
    ("weibull", 1.7, 0.01, -f64::INFINITY, -2.970423899690258),
    ("log-logistic", 0.3, 0.2, f64::NAN, -3.887180579101399),
    ("log-logistic", 0.3, 3.0, f64::NAN, -2.4092739163085886),
    ("log-logistic", 0.3, 2.5, f64::INFINITY, -1.8855447125056365),
    ("log-logistic", 0.3, 0.7, -f64::INFINITY, -2.5994689609036221),
    ("log-logistic", 0.3, 1.1, 1.4, -1.7071710482396804),
    ("log-logistic", 0.3, 4.0, 2.0, -1.4377610251057033),
    ("log-logistic", 0.3, 1.1, 1.1000001, -16.643228463185007),
    ("log-logistic", 0.3, 40.0, f64::INFINITY, -10.962948845988255),
    ("log-logistic", 0.3, 0.01, -f64::INFINITY, -16.683900676750585),
    ("log-logistic", 1.7, 0.2, f64::NAN, -0.63815803806582853),
    ("log-logistic", 1.7, 3.0, f64::NAN, -3.0574607680938153),
    ("log-logistic", 1.7, 2.5, f64::INFINITY, -0.85648260248469943),
    ("log-logistic", 1.7, 0.7, -f64::INFINITY, -0.94026144154821638),
    ("log-logistic", 1.7, 1.1, 1.4, -3.3425549557933765),
    ("log-logistic", 1.7, 4.0, 2.0, -2.3217284035446078),
    ("log-logistic", 1.7, 1.1, 1.1000001, -18.138348546084199),
    ("log-logistic", 1.7, 40.0, f64::INFINITY, -2.0695827346609929),
    ("log-logistic", 1.7, 0.01, -f64::INFINITY, -2.9955221131486664),
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
    let pairs: [(&dyn OneFunction, &dyn OneFunction); 2] = [(&known, &plain), (&heavy, &plain_heavy)];
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
        for s in [0.0, 0.7, 3.0] {
            let at = Observation::exposed(1.1, s);
            let row = Row::new(at, Marginal { mean: &[-0.2], variance: &[0.5] });
            check_density(known.as_likelihood(), at, &[0.6]).unwrap_or_else(|why| panic!("{why}"));
            check_expectations(known.as_likelihood(), row).unwrap_or_else(|why| panic!("{why}"));
        }
    }
}
