//! Every family at extreme targets, marginals and exposures: results are finite, or infinite if the exact value overflows; Jensen's
//! inequality holds, distributions are valid, and draws are in the domain.

use crate::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use sparsegp_testkit::families::Expectation;

/// A target, an exposure and marginals of up to four functions far from standardised values.
#[derive(Clone, Debug)]
struct Case {
    /// Numbers that determine the parameters of families of one function.
    own: [f64; 3],
    /// The position of the target within its domain, from 0 to 1.
    place: f64,
    log_exposure: f64,
    mean: [f64; 4],
    variance: [f64; 4],
}

/// Returns strategies for means of all sizes up to 1e6, variances from 1e-12 to 1e6, and logarithms of exposures from 1e-6 to 1e6;
/// the ends are frequent.
fn sizes() -> (impl Strategy<Value = f64>, impl Strategy<Value = f64>, impl Strategy<Value = f64>) {
    let size = prop_oneof![4 => -6.0..6.0f64, 1 => Just(6.0), 1 => Just(-300.0)];
    let mean =
        (size, any::<bool>()).prop_map(|(size, up)| if up { 10f64.powf(size) } else { -(10f64.powf(size)) });
    let variance =
        prop_oneof![6 => -12.0..6.0f64, 1 => Just(-12.0), 1 => Just(6.0)].prop_map(|size| 10f64.powf(size));
    (mean, variance, prop_oneof![4 => -6.0..6.0f64, 1 => Just(-6.0), 1 => Just(6.0)])
}

fn any_case() -> impl Strategy<Value = Case> {
    let ((mean, variance, exposure), own) = (sizes(), prop::array::uniform3(0.001..0.999f64));
    // The ends of the domain are frequent.
    let place = prop_oneof![6 => 0.0..1.0f64, 1 => Just(0.0), 1 => Just(1.0)];
    let marginals = (prop::array::uniform4(mean), prop::array::uniform4(variance));
    (own, place, exposure, marginals).prop_map(|(own, place, log_exposure, (mean, variance))| Case {
        own,
        place,
        log_exposure,
        mean,
        variance,
    })
}

/// Returns a target from one end of the domain to the other: up to ±1e8, 1e±150, 1e-300 from
/// the edges, counts up to 2^30. Log probabilities of larger counts are differences of numbers
/// like y log y, and lose digits accordingly.
fn extreme_target(kind: TargetKind, place: f64, levels: usize, trials: f64) -> f64 {
    let from_middle = 2.0 * (place - 0.5);
    match kind {
        TargetKind::Real | TargetKind::Measured | TargetKind::Censored => {
            (10f64.powf(8.0 * from_middle.abs()) - 1.0).copysign(from_middle)
        }
        TargetKind::Positive | TargetKind::Lifetime => 10f64.powf(150.0 * from_middle),
        TargetKind::Amount if place < 0.1 => 0.0,
        TargetKind::Amount => 10f64.powf(15.0 * from_middle),
        TargetKind::Share if from_middle.abs() > 0.9 => place.round(),
        TargetKind::Share => 1.0 / (1.0 + (-40.0 * from_middle).exp()),
        TargetKind::Trials => (place * trials).round(),
        TargetKind::UnitInterval if from_middle < 0.0 => 0.5 * 10f64.powf(300.0 * from_middle),
        TargetKind::UnitInterval => 1.0 - (0.5 * 10f64.powf(-16.0 * from_middle)).max(0.5 * f64::EPSILON),
        TargetKind::Count | TargetKind::CensoredCount => (2f64.powf(30.0 * place) - 1.0).floor(),
        TargetKind::Binary => place.round(),
        TargetKind::Ordinal | TargetKind::Class => (levels as f64 * place).floor().min(levels as f64 - 1.0),
    }
}

impl Case {
    fn observation(&self, likelihood: &dyn Likelihood) -> Observation<'_> {
        let exposure = match likelihood.target_kind() {
            TargetKind::Count | TargetKind::CensoredCount => 10f64.powf(self.log_exposure),
            TargetKind::Trials => 10f64.powf(self.log_exposure.abs()).floor(),
            _ => 1.0,
        };
        let y = extreme_target(likelihood.target_kind(), self.place, likelihood.levels(), exposure);
        Observation::exposed(y, exposure)
    }

    fn marginal(&self, likelihood: &dyn Likelihood) -> Marginal<'_> {
        let n = likelihood.functions();
        Marginal { mean: &self.mean[..n], variance: &self.variance[..n] }
    }

    fn latent(&self) -> LatentMarginal {
        LatentMarginal::new(self.mean[0], self.variance[0])
    }
}

/// Returns true if the expected rate or scale overflows; the exact expectations of `exp(±f)` are then infinite in floating point.
fn overflows(likelihood: &dyn Likelihood, at: Observation, latent: LatentMarginal) -> bool {
    let log_linked = |u: f64| u + 0.5 * latent.variance > 650.0;
    match LikelihoodKind::of(likelihood) {
        LikelihoodKind::Poisson | LikelihoodKind::PoissonCensored => {
            log_linked(latent.mean + at.exposure.ln())
        }
        LikelihoodKind::Gamma
        | LikelihoodKind::GammaCensored
        | LikelihoodKind::Exponential
        | LikelihoodKind::ExponentialCensored => log_linked(at.y.ln() - latent.mean),
        LikelihoodKind::Weibull => {
            let mut scale = 1.0;
            likelihood.for_each_parameter(&mut |own| scale = own.values[0]);
            (at.y.ln() - latent.mean) / scale + 0.5 * latent.variance / (scale * scale) > 650.0
        }
        LikelihoodKind::Tweedie => log_linked(latent.mean.abs() + at.y.max(1.0).ln().abs()),
        _ => false,
    }
}

/// Checks that expectations are finite unless the exact values overflow, satisfy Jensen's inequality, and have slopes of the right sign.
fn check_expectations(likelihood: &dyn Likelihood, case: &Case) -> Result<(), TestCaseError> {
    let (at, marginal) = (case.observation(likelihood), case.marginal(likelihood));
    let (kind, alone) = (likelihood.target_kind(), likelihood.one());
    let widest = marginal.variance.iter().copied().fold(0.0, f64::max);
    let mut found = Vec::new();
    for predictive in [false, true] {
        let local = joint_expectation(likelihood, predictive, at, marginal, &mut Integrator::new(None));
        let Expectation { value, mean, variance, own } = &local;
        prop_assert!(!value.is_nan() && *value < f64::INFINITY, "{predictive} {at:?}: {local:?}");
        // The derivatives of an almost infinite value are even larger.
        let infinite = *value < -1e250 || alone.is_some() && overflows(likelihood, at, case.latent());
        if predictive && alone.is_none() || !infinite {
            let finite = mean.iter().chain(variance).chain(own).all(|x| x.is_finite());
            prop_assert!(value.is_finite() && finite, "{predictive} {at:?}: {local:?}");
        }
        if kind == TargetKind::Class {
            // Curves with huge variances are not tabulated but integrated one by one.
            let most = if widest < 400.0 { 1e-11 } else { 1e-7 };
            prop_assert!(mean.iter().sum::<f64>().abs() < most, "{predictive} {at:?}: ∂/∂μ {mean:?}");
        }
        found.push(local);
    }
    let (expected, predictive) = (found[0].value, found[1].value);
    let positive = matches!(kind, TargetKind::Positive | TargetKind::Lifetime);
    let continuous = kind.is_standardised() || positive || kind == TargetKind::UnitInterval;
    let discrete = !continuous && !kind.has_ends();
    // Log probabilities of counts are differences of terms like y f and y log y.
    let size = marginal.mean.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let counted = if discrete { 1e-15 * at.y * (1.0 + at.y.ln_1p() + size) } else { 0.0 };
    // For such wide marginals of several functions, a smooth bend of the integrand is a kink to any quadrature rule.
    let kink = if alone.is_none() && widest > 1e4 { 1e-5 } else { 1e-9 };
    let rounding = kink * (1.0 + expected.abs()) + counted;
    // Averages of densities treat shapes and precisions beyond e²³ as e²³.
    let ordered = expected <= predictive + rounding || alone.is_none() && !discrete && case.mean[1] > 20.0;
    prop_assert!(ordered, "{at:?}: E log p {expected} > log E p {predictive}");
    prop_assert!(!discrete || predictive <= 1e-9 + counted, "{at:?}: log probability {predictive}");
    if let Some(one) = alone {
        check_slopes(one, at, case, &found)?;
    }
    Ok(())
}

fn check_slopes(
    likelihood: &dyn OneFunction,
    at: Observation,
    case: &Case,
    found: &[Expectation],
) -> Result<(), TestCaseError> {
    let flat = 1e-9 * (1.0 + found[0].mean[0].abs() / case.variance[0].sqrt());
    let concave = likelihood.resolution(at).concave;
    prop_assert!(!concave || found[0].variance[0] <= flat, "{at:?}: {:?}", found[0]);
    let rising = match likelihood.target_kind() {
        TargetKind::Binary => Some(at.y == 1.0),
        TargetKind::Ordinal if at.y == 3.0 => Some(true),
        TargetKind::Share if at.y == 1.0 => Some(true),
        TargetKind::Trials if at.y == at.exposure => Some(true),
        TargetKind::Ordinal if at.y == 0.0 => Some(false),
        kind if kind.is_of_counts() && at.y == 0.0 => Some(false),
        TargetKind::Amount | TargetKind::Share if at.y == 0.0 => Some(false),
        _ => None,
    };
    for local in found {
        let wrong = rising.is_some_and(|up| if up { local.mean[0] < 0.0 } else { local.mean[0] > 0.0 });
        prop_assert!(!wrong, "{at:?}: {local:?}");
    }
    Ok(())
}

/// Returns true if y is a value that targets can take, or an infinity at the end of its range.
fn admissible(kind: TargetKind, y: f64) -> bool {
    match kind {
        TargetKind::Real | TargetKind::Measured | TargetKind::Censored => !y.is_nan(),
        TargetKind::Positive | TargetKind::Lifetime | TargetKind::Amount => y >= 0.0,
        TargetKind::UnitInterval | TargetKind::Share => (0.0..=1.0).contains(&y),
        TargetKind::Count | TargetKind::CensoredCount | TargetKind::Trials => {
            y == f64::INFINITY || y >= 0.0 && y.fract() == 0.0
        }
        TargetKind::Binary => y == 0.0 || y == 1.0,
        TargetKind::Ordinal | TargetKind::Class => [0.0, 1.0, 2.0, 3.0].contains(&y),
    }
}

/// Checks that distribution functions rise from 0 to 1, moments are not NaN, draws are in the domain, probabilities sum to 1, and quantiles
/// of one function grow with p.
fn check_predictions(likelihood: &dyn Likelihood, case: &Case) -> Result<(), TestCaseError> {
    let (kind, mut case) = (likelihood.target_kind(), case.clone());
    // With two wide marginals, a distribution function would take a tenth of a second, so variances are limited.
    if likelihood.functions() > 1 && kind != TargetKind::Class {
        case.variance = case.variance.map(|v| v.min(30.0));
    }
    let (at, marginal) = (case.observation(likelihood), case.marginal(likelihood));
    let mut integrator = Integrator::new(None);
    let mut random = ChaCha8Rng::seed_from_u64(case.place.to_bits());
    for z in [-2.0, 0.0, 2.0] {
        let node = |(mean, variance): (&f64, &f64)| mean + z * variance.sqrt();
        let f: Vec<f64> = marginal.mean.iter().zip(marginal.variance).map(node).collect();
        let y = likelihood.sample(at, &f, &mut random);
        prop_assert!(admissible(kind, y), "{y} drawn at f = {f:?}, {at:?}");
    }
    if kind == TargetKind::Class {
        let mut probabilities = vec![f64::NAN; likelihood.levels()];
        likelihood.probabilities(marginal, &mut integrator, &mut probabilities);
        let narrow = marginal.variance.iter().all(|v| *v < 400.0);
        // The step of the nodes gives the sum an error of up to 2 |Γ(1 + 2πi/STEP)|, 7.3e-12.
        let most = if narrow { 8e-12 } else { 1e-7 };
        prop_assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < most, "{probabilities:?}");
        return Ok(());
    }
    let (mean, variance) = likelihood.predictive_moments(Row::new(at, marginal), &mut integrator);
    prop_assert!(!mean.is_nan() && variance >= 0.0, "{at:?}: mean {mean}, variance {variance}");
    let around = [at.y - 1.0, at.y, at.y + 1.0, 2.0 * at.y.abs() + 1.0];
    let below = around.map(|y| likelihood.predictive_cdf(Row::new(at.with(y), marginal), &mut integrator));
    let rounding = if likelihood.functions() > 1 { 1e-4 } else { 1e-9 };
    prop_assert!(below.iter().all(|p| (0.0..=1.0).contains(p)), "{at:?} {below:?}");
    prop_assert!(below.windows(2).all(|pair| pair[0] <= pair[1] + rounding), "{at:?} {below:?}");
    for which in 0..likelihood.details().len() {
        let detail = likelihood.detail(which, Row::new(Observation::of(1.0), marginal), &mut integrator);
        prop_assert!(detail >= 0.0, "{} is {detail}", likelihood.details()[which]);
    }
    likelihood.one().map_or(Ok(()), |one| check_quantiles(one, at, case.latent()))
}

fn check_quantiles(
    likelihood: &dyn OneFunction,
    at: Observation,
    latent: LatentMarginal,
) -> Result<(), TestCaseError> {
    let mut before = f64::NEG_INFINITY;
    for p in [1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-6] {
        let y = likelihood.predictive_quantile(p, Row::new(at, latent), &mut Integrator::new(None));
        prop_assert!(admissible(likelihood.target_kind(), y), "{at:?}: quantile {y} of {p}");
        let grows = y >= before || y >= before - 1e-9 * before.abs();
        prop_assert!(grows, "{at:?}: quantile {y} of {p} below {before}");
        before = y;
        if likelihood.target_kind() == TargetKind::Real {
            let got = likelihood.predictive_cdf(Row::new(at.with(y), latent), &mut Integrator::new(None));
            // Around a mean of 1e6 the distance of adjacent floats may be a large share of a standard deviation.
            let resolution = 1e-8 + 1e-13 * y.abs() / (latent.variance.sqrt() + 0.1);
            prop_assert!((got - p).abs() < resolution, "{at:?}: {got} below the quantile {y} of {p}");
        }
    }
    Ok(())
}

/// Returns the logarithm of the sum of `exp` of equidistant values, times their distance.
fn log_trapezoid(values: &[f64], step: f64) -> f64 {
    let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + (values.iter().map(|value| (value - top).exp()).sum::<f64>() * step).ln()
}

/// Returns `log ∫ p(y|f) N(f; μ, v) df` of a log-concave density by a sum over very many points,
/// between the points on both sides of the maximum at which the logarithm has fallen by 40.
fn slow_log_predictive(likelihood: &dyn OneFunction, at: Observation, latent: LatentMarginal) -> f64 {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let sd = v.sqrt();
    let g = |z: f64| likelihood.value_and_slope(at, mu + sd * z).0 - 0.5 * z * z;
    let slope = |z: f64| sd * likelihood.value_and_slope(at, mu + sd * z).1 - z;
    // The slope decreases everywhere. If an exponential overflows, the maximum is on the other side.
    let (mut low, mut high) = (-1e10, 1e10);
    for _ in 0..400 {
        let middle = 0.5 * (low + high);
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
    let mode = 0.5 * (low + high);
    let top = g(mode);
    let end = |sign: f64| {
        let (mut near, mut far) = (0.0, 10.0);
        for _ in 0..200 {
            let middle = 0.5 * (near + far);
            if top - g(mode + sign * middle) < 40.0 { near = middle } else { far = middle }
        }
        mode + sign * far
    };
    let (low, high) = (end(-1.0), end(1.0));
    // A twentieth of a unit of f resolves every family, except sharp counts, for which the interval
    // itself is narrow.
    let count = (20.0 * sd * (high - low)).clamp(20_000.0, 1e6).ceil();
    let step = (high - low) / count;
    let values: Vec<f64> = (0..=count as u32).map(|k| g(low + f64::from(k) * step)).collect();
    log_trapezoid(&values, step) - 0.5 * (2.0 * std::f64::consts::PI).ln()
}

/// Returns `E log p(y|f)` by very many evenly spaced points within nine standard deviations, and
/// the sum of the absolute terms.
fn slow_expectation(likelihood: &dyn OneFunction, at: Observation, latent: LatentMarginal) -> (f64, f64) {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let sd = v.sqrt();
    let half = (9.0 * sd / (0.1 * likelihood.resolution(at).step).min(0.05)).clamp(2000.0, 5e5).ceil() as i32;
    let (mut total, mut sum, mut size) = (0.0, 0.0, 0.0);
    for k in -half..=half {
        let z = 9.0 * f64::from(k) / f64::from(half);
        let (weight, value) = ((-0.5 * z * z).exp(), likelihood.value_and_slope(at, mu + sd * z).0);
        total += weight;
        sum += weight * value;
        size += weight * value.abs();
    }
    (sum / total, size / total)
}

/// Checks that expectations, and the predictive density of log-concave families, agree with slow sums, if floats around the mean are fine
/// enough for the variance. Families of several functions are not checked.
fn check_against_slow_sums(likelihood: &dyn Likelihood, case: &Case) -> Result<(), TestCaseError> {
    let (at, latent) = (case.observation(likelihood), case.latent());
    let fine = latent.variance >= 1e-11 * (1.0 + latent.mean * latent.mean);
    let Some(one) = likelihood.one().filter(|_| fine) else { return Ok(()) };
    let value = |predictive| {
        let marginal = case.marginal(likelihood);
        joint_expectation(likelihood, predictive, at, marginal, &mut Integrator::new(None)).value
    };
    // Closed forms need no check, and most of their value comes from f beyond the range of the sum.
    let name = likelihood.name().trim_end_matches("-censored");
    let closed = ["poisson", "gamma", "exponential", "tweedie", "weibull"].contains(&name);
    if !closed {
        let (got, (want, size)) = (value(false), slow_expectation(one, at, latent));
        prop_assert!((got - want).abs() <= 1e-7 * (1.0 + size), "{at:?}: expected {got}, slowly {want}");
    }
    if one.resolution(at).concave {
        let (got, want) = (value(true), slow_log_predictive(one, at, latent));
        prop_assert!((got - want).abs() <= 1e-7 * (1.0 + want.abs()), "{at:?}: {got}, slowly {want}");
    }
    Ok(())
}

/// A property that must hold for a case of a family.
type Check = fn(&dyn Likelihood, &Case) -> Result<(), TestCaseError>;

/// Checks a family on this number of cases; a case may determine parameters of the family.
fn check(of_case: &dyn Fn(&Case) -> Box<dyn Likelihood>, cases: u32) {
    let checks: [(&str, u32, Check); 3] = [
        ("expectations", cases, check_expectations),
        ("predictions", cases / 4, check_predictions),
        ("slow sums", cases / 15, check_against_slow_sums),
    ];
    for (name, cases, run) in checks {
        let config = Config { cases, failure_persistence: None, max_shrink_iters: 50, ..Config::default() };
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let outcome =
            TestRunner::new_with_rng(config, random).run(&any_case(), |case| run(&*of_case(&case), &case));
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, case)) => {
                panic!("{} {name}: {why} for {case:?}", of_case(&case).name())
            }
            Err(TestError::Abort(why)) => panic!("{name}: {why}"),
        }
    }
}

#[test]
fn every_family() {
    let several: [(Box<dyn Likelihood>, u32); 12] = [
        (Box::new(Softmax::new(4)), 40),
        (Box::new(GaussianHeteroskedastic::new()), 40),
        (Box::new(StudentTHeteroskedastic::new()), 40),
        (Box::new(GammaShaped::new()), 40),
        (Box::new(BetaPrecise::new()), 8),
        (Box::new(NegativeBinomialDispersed::new()), 12),
        (Box::new(ZeroAltered::inflated_poisson()), 40),
        (Box::new(ZeroAltered::inflated_negative_binomial(0.6)), 20),
        (Box::new(ZeroAltered::hurdle_poisson()), 40),
        (Box::new(ZeroAltered::hurdle_negative_binomial(0.6)), 20),
        (Box::new(ZeroAltered::hurdle_gamma(1.7)), 40),
        (Box::new(ZeroAltered::hurdle_log_normal(0.6)), 40),
    ];
    // Threads of their own, because other tests wait for the pool.
    std::thread::scope(|threads| {
        for (likelihood, cases) in &several {
            threads.spawn(|| check(&|_| likelihood.clone(), *cases));
        }
        for kind in every_kind() {
            threads.spawn(move || check(&|case| family(kind, case.own).as_likelihood().boxed_clone(), 150));
        }
    });
}

/// A count of a billion at f ≈ 150, where y f and (y + 1/α) log(1 + αm) are 1.6e11 and differ by less than a hundred.
#[test]
fn large_counts_of_negative_binomials_do_not_cancel() {
    let own = [0.803_046_472_363_468_5, 0.001, 0.001];
    let (mean, variance) = ([161.697_509_167_567_94; 4], [0.052_337_356_208_854_95; 4]);
    let case = Case { own, place: 1.0, log_exposure: -6.0, mean, variance };
    let likelihood = family(LikelihoodKind::NegativeBinomial, own);
    let outcome = check_against_slow_sums(likelihood.as_likelihood(), &case);
    assert!(outcome.is_ok(), "{outcome:?}");
}
