//! Targets of which more is known than a number: censored ones against 40-digit numbers, and known noise against other noise.

use crate::prelude::*;
use sparsegp::likelihood::testkit::{check_density, check_expectations, check_likelihood};
use sparsegp::likelihood::{Censored, CensoredGaussian, LogLogistic, LogNormal, Weibull};

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

const INF: f64 = f64::INFINITY;

/// Family, its parameter and second parameter or exposure, f, ends, log probability of the interval with both ends, and its derivatives in
/// the parameters: mpmath with 40 digits, by regularised incomplete gamma and beta functions, and differences with a step of 1e-8.
type Interval = (&'static str, [f64; 2], f64, [f64; 2], f64, &'static [f64]);
const INTERVALS: &[Interval] = &[
    ("student-t", [0.5, 3.0], 0.4, [2.5, INF], -4.39685287512907, &[5.29603500048, -0.656914081904]),
    ("student-t", [0.5, 3.0], 0.4, [-INF, 2.5], -0.0123925100259364, &[-0.0660395193819, 0.00819146592503]),
    ("student-t", [0.5, 3.0], 0.4, [-INF, -40.0], -13.0787587546477, &[5.99779528908, -3.48325202795]),
    ("student-t", [0.5, 3.0], 0.4, [-30.0, -20.0], -11.3907963020968, &[5.98930657554, -2.62844162541]),
    ("student-t", [0.5, 3.0], 0.4, [0.1, 0.6], -1.05949210272381, &[-1.77892588061, 0.0306833784397]),
    ("student-t", [0.3, 80.0], 0.4, [2.5, INF], -21.7595386754571, &[103.237742144, -0.0513106622853]),
    (
        "student-t",
        [0.3, 80.0],
        0.4,
        [-INF, 2.5],
        -3.54774522802503e-10,
        &[-3.6626120711e-8, 1.82037157302e-11],
    ),
    ("student-t", [0.3, 80.0], 0.4, [-INF, -40.0], -220.230136732629, &[265.509759218, -2.22236957349]),
    ("student-t", [0.3, 80.0], 0.4, [-30.0, -20.0], -166.070385306012, &[262.186803468, -1.55167904107]),
    ("student-t", [0.3, 80.0], 0.4, [0.1, 0.6], -0.533777789329450, &[-2.57117583222, 5.24333991765e-5]),
    ("gamma", [0.4, 1.0], 0.4, [0.18, INF], -0.630337935238066, &[1.85709889619]),
    ("gamma", [0.4, 1.0], 0.4, [-INF, 0.006], -2.08793384229225, &[-5.45666281453]),
    ("gamma", [0.4, 1.0], 0.4, [18.0, INF], -14.4019128160224, &[5.12569530116]),
    ("gamma", [0.4, 1.0], 0.4, [0.54, 0.72], -2.81092615219947, &[1.68890968965]),
    ("gamma", [2.5, 1.0], 0.4, [3.75, INF], -0.885409071951336, &[0.630536911237]),
    ("gamma", [2.5, 1.0], 0.4, [-INF, 3.75], -0.531956275119518, &[-0.442800309441]),
    ("gamma", [2.5, 1.0], 0.4, [-INF, 0.0375], -10.4274501218012, &[-4.78862863067]),
    ("gamma", [2.5, 1.0], 0.4, [112.5, INF], -69.1914339994786, &[3.63314116705]),
    ("gamma", [2.5, 1.0], 0.4, [18.75, 22.5], -9.04985176906813, &[1.89034573668]),
    ("gamma", [60.0, 1.0], 0.4, [90.0, INF], -0.763631948969541, &[0.110281323982]),
    ("gamma", [60.0, 1.0], 0.4, [27.0, INF], -6.76231604633968e-15, &[8.20649793061e-15]),
    ("gamma", [60.0, 1.0], 0.4, [-INF, 0.9], -219.543154814339, &[-4.60817893465]),
    ("gamma", [60.0, 1.0], 0.4, [81.0, 108.0], -0.353493448142232, &[0.0361427031286]),
    ("gamma", [20000.0, 1.0], 0.4, [30000.0, INF], -1.51918069878378, &[0.00952866982751]),
    ("gamma", [20000.0, 1.0], 0.4, [-INF, 30000.0], -0.247040767909907, &[-0.0026702315718]),
    ("gamma", [20000.0, 1.0], 0.4, [-INF, 300.0], -72201.0581527067, &[-4.59973058547]),
    ("gamma", [20000.0, 1.0], 0.4, [900000.0, INF], -515164.035273777, &[3.40668920439]),
    ("gamma", [20000.0, 1.0], 0.4, [150000.0, 180000.0], -48257.2103175661, &[1.61494043532]),
    ("exponential", [0.0, 1.0], 0.4, [2.0, INF], -1.34064009207128, &[]),
    ("exponential", [0.0, 1.0], 0.4, [900.0, INF], -603.288041432075, &[]),
    ("exponential", [0.0, 1.0], 0.4, [-INF, 1e-09], -21.1232658372816, &[]),
    ("exponential", [0.0, 1.0], 0.4, [3.0, 4.0], -2.72746772809659, &[]),
    ("poisson", [0.0, 1.0], 0.4, [1.0, INF], -0.254842952198662, &[]),
    ("poisson", [0.0, 1.0], 0.4, [-INF, 1.0], -0.578809445241318, &[]),
    ("poisson", [0.0, 1.0], 0.4, [43.0, INF], -105.790440281947, &[]),
    ("poisson", [0.0, 1.0], 0.4, [3.0, 6.0], -1.67021645881603, &[]),
    ("poisson", [0.0, 1.0], 0.4, [0.0, INF], 0.0, &[]),
    ("poisson", [0.0, 2.5], 3.0, [50.0, INF], -0.633321983145796, &[]),
    ("poisson", [0.0, 2.5], 3.0, [-INF, 16.0], -17.8539574041551, &[]),
    ("poisson", [0.0, 2.5], 3.0, [52.0, 55.0], -1.63756490091567, &[]),
    ("poisson", [0.0, 30000.0], 0.4, [44754.0, INF], -0.689103725472676, &[]),
    ("poisson", [0.0, 30000.0], 0.4, [-INF, 44754.0], -0.693427303803945, &[]),
    ("poisson", [0.0, 30000.0], 0.4, [134302.0, INF], -58042.7685917136, &[]),
    ("poisson", [0.0, 30000.0], 0.4, [-INF, 14918.0], -13452.7144984716, &[]),
    ("poisson", [0.0, 30000.0], 0.4, [44756.0, 44759.0], -4.88725219308002, &[]),
    ("negative-binomial", [0.5, 1.0], 1.4, [4.0, INF], -0.761594575976768, &[-0.288668890794]),
    ("negative-binomial", [0.5, 1.0], 1.4, [-INF, 4.0], -0.441914867570476, &[0.083586015152]),
    ("negative-binomial", [0.5, 1.0], 1.4, [64.0, INF], -22.5613794447470, &[30.2681685807]),
    ("negative-binomial", [0.5, 1.0], 1.4, [6.0, 9.0], -1.65588237646337, &[-0.434197355793]),
    ("negative-binomial", [3.0, 2.5], 3.0, [50.0, INF], -1.25464620039865, &[-0.106533130935]),
    ("negative-binomial", [3.0, 2.5], 3.0, [-INF, 12.0], -0.733816615213444, &[0.160644965656]),
    ("negative-binomial", [3.0, 2.5], 3.0, [340.0, INF], -3.97822828345142, &[0.447562471988]),
    ("negative-binomial", [3.0, 2.5], 3.0, [52.0, 55.0], -4.28176896739824, &[-0.224653729185]),
    ("negative-binomial", [0.001, 1.0], 4.0, [54.0, INF], -0.601381863258486, &[-3.97701334709]),
    ("negative-binomial", [0.001, 1.0], 4.0, [364.0, INF], -343.467038440058, &[36039.9757495]),
    ("negative-binomial", [0.001, 1.0], 4.0, [-INF, 13.0], -24.0479267205721, &[805.06296715]),
    ("negative-binomial", [1e-07, 1.0], 4.0, [54.0, INF], -0.597278249931070, &[-4.23631005669]),
    ("negative-binomial", [1e-07, 1.0], 4.0, [-INF, 54.0], -0.685734828423033, &[1.75138435288]),
    ("negative-binomial", [1e-07, 1.0], 4.0, [364.0, INF], -384.863183366800, &[47735.6404835]),
    ("negative-binomial", [1e-07, 1.0], 4.0, [56.0, 59.0], -1.64425259914146, &[-24.097690938]),
];

/// Returns a family of targets that may be censored, and the exposure.
fn wrapped(name: &str, [first, second]: [f64; 2]) -> (Box<dyn OneFunction>, f64) {
    match name {
        "student-t" => (Box::new(Censored::new(StudentT::new(first, second))), 1.0),
        "gamma" => (Box::new(Censored::new(Gamma::new(first))), 1.0),
        "exponential" => (Box::new(Censored::new(Gamma::exponential())), 1.0),
        "poisson" => (Box::new(Censored::new(Poisson::Exp)), second),
        _ => (Box::new(Censored::new(NegativeBinomial::new(first))), second),
    }
}

/// Returns the observation of an interval with a finite end.
fn between([low, high]: [f64; 2], exposure: f64) -> Observation<'static> {
    let (y, other_end) = if low == -INF { (high, low) } else { (low, high) };
    Observation { exposure, ..Observation::between(y, other_end) }
}

#[test]
fn probabilities_of_intervals_are_right_in_far_tails() {
    for &(name, parameters, f, ends, want, slopes) in INTERVALS {
        let ((own, exposure), case) = (wrapped(name, parameters), format!("{name} {parameters:?} {ends:?}"));
        let at = between(ends, exposure);
        let found = own.value_and_slope(at, f).0;
        assert!((found - want).abs() <= 1e-9 * want.abs(), "{case}: {found} instead of {want}");
        let mut gradient = vec![0.0; slopes.len()];
        own.own_gradient(at, &[f], &[1.0], &mut gradient);
        for ((found, want), value) in gradient.iter().zip(slopes).zip(parameters) {
            let error = (found - want).abs() * value;
            assert!(error <= 1e-7 * (want * value).abs() + 1e-9, "{case}: {found} instead of {want}");
        }
        let is_narrow = ends.iter().any(|end| end.is_finite() && end.abs() > 1e4);
        if is_narrow || name == "negative-binomial" && parameters[0] < 1e-4 {
            // Differences with fixed steps are too coarse for such densities and parameters.
            continue;
        }
        check_density(own.as_likelihood(), at, &[f]).unwrap_or_else(|why| panic!("{case}: {why}"));
    }
}

#[test]
fn wrapped_families_keep_the_contract() {
    let families = [
        ("student-t", [0.7, 9.0]),
        ("gamma", [2.5, 1.0]),
        ("exponential", [0.0, 1.0]),
        ("poisson", [0.0, 1.7]),
        ("negative-binomial", [0.6, 1.7]),
    ];
    for (name, parameters) in families {
        let (own, exposure) = wrapped(name, parameters);
        let known = Observation::exposed(2.0, exposure);
        let ends = [[2.0, INF], [-INF, 2.0], [1.0, 4.0]].map(|ends| between(ends, exposure));
        let observations: Vec<Observation> = ends.into_iter().chain([known]).collect();
        check_likelihood(own.as_likelihood(), &observations).unwrap_or_else(|why| panic!("{name}: {why}"));
        // With both ends, counts of 0 or more are the counts up to 2 and those from 3 on.
        let next = if own.target_kind().is_of_counts() { 3.0 } else { 2.0 };
        let probability = |ends: [f64; 2]| {
            let row = Row::new(between(ends, exposure), LatentMarginal::new(0.3, 0.6));
            own.log_predictive(row, &mut [], &mut Integrator::default()).value.exp()
        };
        let total = probability([-INF, 2.0]) + probability([next, 5.0]);
        assert!((total - probability([-INF, 5.0])).abs() < 1e-9, "{name}: {total}");
    }
}

/// The logarithm of a rate has exponential tails, so expectations under wide marginals of f are dominated by nodes far from its mean.
#[test]
fn expectations_of_censored_exponential_times_have_their_closed_form() {
    let own = Censored::new(Gamma::exponential());
    for (mean, variance) in [(0.3, 0.5), (-1.0, 20.0), (2.0, 60.0)] {
        let row = Row::new(Observation::between(1.7, INF), LatentMarginal::new(mean, variance));
        let found = own.expected_log(row, &mut [], &mut Integrator::default());
        // log S = −y e^{−f}.
        let want = -1.7 * (0.5 * variance - mean).exp();
        for (found, want) in [(found.value, want), (found.mean, -want), (found.variance, 0.5 * want)] {
            assert!((found - want).abs() < 1e-8 * want.abs(), "{mean} {variance}: {found} {want}");
        }
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
