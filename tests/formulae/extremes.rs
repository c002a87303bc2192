//! Every family at extreme targets, marginals and exposures: results are finite, or infinite if the
//! exact value overflows.

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sparsegp::likelihood::TargetKind;
use sparsegp::likelihood::{Expectation, LatentMarginal, LikelihoodKind, Observation, OneFunction, Row};
use sparsegp::quadrature::Integrator;
use sparsegp_testkit::families::{expectation, family, log_density};

/// A target, a marginal and a likelihood far from standardised values.
#[derive(Clone, Copy, Debug)]
struct Case {
    own: [f64; 3],
    /// The position of the target within its domain, from 0 to 1.
    place: f64,
    log_exposure: f64,
    mu: f64,
    v: f64,
}

/// Returns strategies for means of all sizes up to 1e6, variances from 1e-12 to 1e6, and logarithms of exposures from 1e-6 to 1e6;
/// the ends are frequent.
pub fn sizes() -> (impl Strategy<Value = f64>, impl Strategy<Value = f64>, impl Strategy<Value = f64>) {
    let size = prop_oneof![4 => -6.0..6.0f64, 1 => Just(6.0), 1 => Just(-300.0)];
    let mean =
        (size, any::<bool>()).prop_map(|(size, up)| if up { 10f64.powf(size) } else { -(10f64.powf(size)) });
    let variance =
        prop_oneof![6 => -12.0..6.0f64, 1 => Just(-12.0), 1 => Just(6.0)].prop_map(|size| 10f64.powf(size));
    (mean, variance, prop_oneof![4 => -6.0..6.0f64, 1 => Just(-6.0), 1 => Just(6.0)])
}

/// Returns a strategy for positions of targets in their domain, with frequent ends.
pub fn places() -> impl Strategy<Value = f64> {
    prop_oneof![6 => 0.0..1.0f64, 1 => Just(0.0), 1 => Just(1.0)]
}

fn any_case() -> impl Strategy<Value = Case> {
    let ((mean, variance, exposure), own) = (sizes(), prop::array::uniform3(0.001..0.999f64));
    (own, places(), exposure, mean, variance).prop_map(|(own, place, log_exposure, mu, v)| Case {
        own,
        place,
        log_exposure,
        mu,
        v,
    })
}

/// Returns a target from one end of the domain to the other: up to ±1e8, 1e±150, 1e-300 from
/// the edges, counts up to 2^30. Log probabilities of larger counts are differences of numbers
/// like y log y, and lose digits accordingly.
pub fn extreme_target(kind: TargetKind, place: f64, levels: usize) -> f64 {
    let from_middle = 2.0 * (place - 0.5);
    match kind {
        TargetKind::Real => (10f64.powf(8.0 * from_middle.abs()) - 1.0).copysign(from_middle),
        TargetKind::Positive => 10f64.powf(150.0 * from_middle),
        TargetKind::UnitInterval if from_middle < 0.0 => 0.5 * 10f64.powf(300.0 * from_middle),
        TargetKind::UnitInterval => 1.0 - (0.5 * 10f64.powf(-16.0 * from_middle)).max(0.5 * f64::EPSILON),
        TargetKind::Count => (2f64.powf(30.0 * place) - 1.0).floor(),
        TargetKind::Binary => place.round(),
        TargetKind::Ordinal | TargetKind::Class => (levels as f64 * place).floor().min(levels as f64 - 1.0),
    }
}

impl Case {
    fn build(&self, kind: LikelihoodKind) -> (Box<dyn OneFunction>, Observation<'_>) {
        let counts = kind.target_kind() == TargetKind::Count;
        let exposure = if counts { 10f64.powf(self.log_exposure) } else { 1.0 };
        (
            family(kind, self.own),
            Observation::exposed(extreme_target(kind.target_kind(), self.place, 4), exposure),
        )
    }
}

/// Returns true if the expected rate or scale overflows; the exact expectations of `exp(±f)` are
/// then infinite in floating point.
fn overflows(kind: LikelihoodKind, at: Observation, latent: LatentMarginal) -> bool {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let log_linked = |u: f64| u + 0.5 * v > 650.0;
    match kind {
        LikelihoodKind::Poisson => log_linked(mu + at.exposure.ln()),
        LikelihoodKind::Gamma | LikelihoodKind::Exponential => log_linked(at.y.ln() - mu),
        _ => false,
    }
}

/// Checks that expectations are finite unless the exact values overflow, satisfy Jensen's
/// inequality, and have slopes of the right sign.
fn check_expectations(kind: LikelihoodKind, case: Case) -> Result<(), TestCaseError> {
    let (likelihood, at) = case.build(kind);
    let marginal = LatentMarginal::new(case.mu, case.v);
    let mut integrator = Integrator::new(None);
    let mut locals = Vec::new();
    for predictive in [false, true] {
        let mut own = vec![0.0; likelihood.own_len()];
        let local = expectation(&*likelihood, predictive, at, marginal, &mut own, &mut integrator);
        // The derivatives of such a large loss are even larger.
        if !predictive && overflows(kind, at, marginal) || local.value < -1e290 {
            prop_assert!(!local.value.is_nan() && local.value < f64::INFINITY, "{local:?}");
        } else {
            let all = [local.value, local.mean, local.variance];
            prop_assert!(
                all.iter().chain(&own).all(|x| x.is_finite()),
                "{predictive} {at:?} {local:?} {own:?}"
            );
        }
        locals.push(local);
    }
    let (expected, predictive) = (locals[0], locals[1]);
    let discrete = matches!(kind.target_kind(), TargetKind::Binary | TargetKind::Count | TargetKind::Ordinal);
    // Log probabilities of counts are differences of terms like y f and y log y.
    let counted = if discrete { 1e-15 * at.y * (1.0 + at.y.ln_1p() + case.mu.abs()) } else { 0.0 };
    let rounding = 1e-9 * (1.0 + expected.value.abs()) + counted;
    prop_assert!(
        expected.value <= predictive.value + rounding,
        "{at:?}: E log p {expected:?} > log E p {predictive:?}"
    );
    prop_assert!(
        !discrete || predictive.value <= 1e-9 + counted,
        "{at:?}: log probability {}",
        predictive.value
    );
    if likelihood.resolution(at).concave {
        prop_assert!(
            expected.variance <= 1e-9 * (1.0 + expected.mean.abs() / case.v.sqrt()),
            "{at:?}: {expected:?}"
        );
    }
    let rising = match kind.target_kind() {
        TargetKind::Binary => Some(at.y == 1.0),
        TargetKind::Ordinal if at.y == 0.0 => Some(false),
        TargetKind::Ordinal if at.y == 3.0 => Some(true),
        TargetKind::Count if at.y == 0.0 => Some(false),
        _ => None,
    };
    for local in [expected, predictive] {
        prop_assert!(
            rising.is_none_or(|up| if up { local.mean >= 0.0 } else { local.mean <= 0.0 }),
            "{at:?}: {local:?}"
        );
    }
    Ok(())
}

/// Returns true if y is a value that targets can take, or an infinity at the end of its range.
pub fn admissible(kind: TargetKind, y: f64) -> bool {
    match kind {
        TargetKind::Real => !y.is_nan(),
        TargetKind::Positive => y >= 0.0,
        TargetKind::UnitInterval => (0.0..=1.0).contains(&y),
        TargetKind::Count => y == f64::INFINITY || y >= 0.0 && y.fract() == 0.0,
        TargetKind::Binary => y == 0.0 || y == 1.0,
        TargetKind::Ordinal | TargetKind::Class => [0.0, 1.0, 2.0, 3.0].contains(&y),
    }
}

/// Checks that the distribution function is valid, and that quantiles grow with p and lie in the
/// domain.
fn check_distribution(kind: LikelihoodKind, case: Case) -> Result<(), TestCaseError> {
    let (likelihood, at) = case.build(kind);
    let marginal = LatentMarginal::new(case.mu, case.v);
    let mut integrator = Integrator::new(None);
    let mut cdf = |y: f64| likelihood.predictive_cdf(Row::new(at.with(y), marginal), &mut integrator);
    let around = [at.y - 1.0, at.y, at.y + 1.0, 2.0 * at.y.abs() + 1.0];
    let below = around.map(&mut cdf);
    prop_assert!(below.iter().all(|p| (0.0..=1.0).contains(p)), "{at:?} {below:?}");
    prop_assert!(below.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{at:?} {below:?}");
    let mut before = f64::NEG_INFINITY;
    for p in [1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-6] {
        let y = likelihood.predictive_quantile(p, Row::new(at, marginal), &mut Integrator::new(None));
        prop_assert!(admissible(kind.target_kind(), y), "{at:?}: quantile {y} of {p}");
        prop_assert!(
            y >= before || y >= before - 1e-9 * before.abs(),
            "{at:?}: quantile {y} of {p} below {before}"
        );
        before = y;
        if kind.target_kind() == TargetKind::Real {
            let got = cdf(y);
            // Around a mean of 1e6 the distance of adjacent floats may be a large share of a
            // standard deviation.
            let resolution = 1e-8 + 1e-13 * y.abs() / (case.v.sqrt() + 0.1);
            prop_assert!((got - p).abs() < resolution, "{at:?}: {got} below the quantile {y} of {p}");
        }
    }
    Ok(())
}

/// Checks that moments are not NaN, variances not negative, and draws in the domain of the family.
fn check_moments_and_draws(kind: LikelihoodKind, case: Case) -> Result<(), TestCaseError> {
    let (likelihood, at) = case.build(kind);
    let mut random = ChaCha8Rng::seed_from_u64(case.place.to_bits());
    for v in [0.0, case.v] {
        let (mean, variance) = likelihood
            .predictive_moments(Row::new(at, LatentMarginal::new(case.mu, v)), &mut Integrator::new(None));
        prop_assert!(!mean.is_nan() && variance >= 0.0, "{at:?} v {v}: mean {mean}, variance {variance}");
        let ends = [(TargetKind::UnitInterval, 1.0), (TargetKind::Binary, 1.0), (TargetKind::Ordinal, 3.0)];
        let end = ends.iter().find(|(of, _)| *of == kind.target_kind()).map_or(f64::INFINITY, |end| end.1);
        let least = if kind.target_kind() == TargetKind::Real { f64::NEG_INFINITY } else { 0.0 };
        prop_assert!((least..=end * (1.0 + 1e-9)).contains(&mean), "{at:?} v {v}: mean {mean}");
    }
    for z in [-2.0, 0.0, 2.0] {
        let f = case.mu + case.v.sqrt() * z;
        let y = likelihood.sample(at, f, &mut random);
        prop_assert!(admissible(kind.target_kind(), y), "{at:?}: {y} drawn at f = {f}");
        let (mean, variance) = likelihood.conditional_moments(at, f);
        prop_assert!(!mean.is_nan() && variance >= 0.0, "{at:?} f {f}: mean {mean}, variance {variance}");
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
    let g = |z: f64| log_density(likelihood, at, mu + sd * z).0 - 0.5 * z * z;
    let slope = |z: f64| sd * log_density(likelihood, at, mu + sd * z).1 - z;
    // The slope decreases everywhere. If an exponential overflows, the maximum is on the other
    // side.
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
        let (weight, value) = ((-0.5 * z * z).exp(), log_density(likelihood, at, mu + sd * z).0);
        total += weight;
        sum += weight * value;
        size += weight * value.abs();
    }
    (sum / total, size / total)
}

/// Checks that expectations, and the predictive density of log-concave families, agree with slow
/// sums, if floats around the mean are fine enough for the variance.
fn check_against_slow_sums(kind: LikelihoodKind, case: Case) -> Result<(), TestCaseError> {
    let (likelihood, at) = case.build(kind);
    let marginal = LatentMarginal::new(case.mu, case.v);
    if case.v < 1e-11 * (1.0 + case.mu * case.mu) {
        return Ok(());
    }
    // Closed forms need no check, and most of their value comes from f beyond the range of the sum.
    if !matches!(kind, LikelihoodKind::Poisson | LikelihoodKind::Gamma | LikelihoodKind::Exponential) {
        let got = likelihood
            .expectation(
                Expectation::ExpectedLog,
                Row::new(at, marginal),
                &mut [],
                &mut Integrator::new(None),
            )
            .value;
        let (want, size) = slow_expectation(&*likelihood, at, marginal);
        prop_assert!((got - want).abs() <= 1e-7 * (1.0 + size), "{at:?}: expected {got}, slowly {want}");
    }
    if !likelihood.resolution(at).concave {
        return Ok(());
    }
    let want = slow_log_predictive(&*likelihood, at, marginal);
    let got = likelihood
        .expectation(Expectation::LogPredictive, Row::new(at, marginal), &mut [], &mut Integrator::new(None))
        .value;
    prop_assert!((got - want).abs() <= 1e-7 * (1.0 + want.abs()), "{at:?}: {got}, slowly {want}");
    Ok(())
}

/// A property that must hold for a case of a family.
type Check = fn(LikelihoodKind, Case) -> Result<(), TestCaseError>;

fn check(kind: LikelihoodKind) {
    let checks: [(&str, u32, Check); 4] = [
        ("expectations", 150, check_expectations),
        ("distribution", 20, check_distribution),
        ("moments and draws", 75, check_moments_and_draws),
        ("slow sums", 10, check_against_slow_sums),
    ];
    let failures: Vec<String> = checks
        .into_iter()
        .filter_map(|(name, cases, run)| {
            let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
            let outcome = TestRunner::new(config).run(&any_case(), |case| run(kind, case));
            outcome.err().map(|error| match error {
                TestError::Fail(why, case) => format!("{name}: {why} for {case:?}"),
                TestError::Abort(why) => format!("{name}: {why}"),
            })
        })
        .collect();
    assert!(failures.is_empty(), "{kind}\n{}", failures.join("\n"));
}

sparsegp_testkit::per_family!(check);

/// A count of a billion at f ≈ 150, where y f and (y + 1/α) log(1 + αm) are 1.6e11 and differ by less than a hundred.
#[test]
fn large_counts_of_negative_binomials_do_not_cancel() {
    let own = [0.803_046_472_363_468_5, 0.001, 0.001];
    let (mu, v) = (161.697_509_167_567_94, 0.052_337_356_208_854_95);
    let case = Case { own, place: 1.0, log_exposure: -6.0, mu, v };
    let outcome = check_against_slow_sums(LikelihoodKind::NegativeBinomial, case);
    assert!(outcome.is_ok(), "{outcome:?}");
}
