//! Likelihoods with several latent functions at means up to ±1e6, variances from 1e-12 to 1e6,
//! exposures from 1e-6 to 1e6 and targets at the ends of their domain: finite values unless the
//! exact ones overflow, Jensen's inequality, valid distributions, draws in the domain.

use super::extremes::{admissible, extreme_target, places, sizes};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sparsegp::likelihood::{
    BetaPrecise, GammaShaped, GaussianHeteroskedastic, Likelihood, Marginal, NegativeBinomialDispersed,
    Observation, Row, Softmax, StudentTHeteroskedastic, TargetKind, ZeroAltered,
};
use sparsegp::quadrature::Integrator;
use sparsegp_testkit::families::{Expectation, joint_expectation};

/// Marginals of up to four functions, the position of the target in its domain from 0 to 1, and an
/// exposure.
#[derive(Clone, Debug)]
struct Case {
    mean: [f64; 4],
    variance: [f64; 4],
    place: f64,
    log_exposure: f64,
}

fn any_case() -> impl Strategy<Value = Case> {
    let (mean, variance, exposure) = sizes();
    (prop::array::uniform4(mean), prop::array::uniform4(variance), places(), exposure)
        .prop_map(|(mean, variance, place, log_exposure)| Case { mean, variance, place, log_exposure })
}

impl Case {
    fn observation(&self, likelihood: &dyn Likelihood) -> Observation<'_> {
        let y = extreme_target(likelihood.target_kind(), self.place, likelihood.levels());
        let counts = likelihood.target_kind() == TargetKind::Count;
        Observation::exposed(y, if counts { 10f64.powf(self.log_exposure) } else { 1.0 })
    }

    fn marginal(&self, likelihood: &dyn Likelihood) -> Marginal<'_> {
        let n = likelihood.functions();
        Marginal { mean: &self.mean[..n], variance: &self.variance[..n] }
    }
}

/// Checks that expectations are finite unless the exact values overflow, and satisfy Jensen's
/// inequality.
fn check_expectations(likelihood: &dyn Likelihood, case: &Case) -> Result<(), TestCaseError> {
    let (at, marginal) = (case.observation(likelihood), case.marginal(likelihood));
    let widest = marginal.variance.iter().copied().fold(0.0, f64::max);
    let mut integrator = Integrator::new(None);
    let mut values = [0.0; 2];
    for predictive in [false, true] {
        let found = joint_expectation(likelihood, predictive, at, marginal, &mut integrator);
        let Expectation { value, mean, variance, own } = found;
        prop_assert!(!value.is_nan() && value < f64::INFINITY, "{predictive} {at:?}: {value}");
        // The derivatives of an almost infinite value are even larger.
        if predictive || value > -1e250 {
            prop_assert!(
                value.is_finite() && mean.iter().chain(&variance).chain(&own).all(|x| x.is_finite()),
                "{predictive} {at:?}: {value} {mean:?} {variance:?} {own:?}"
            );
        }
        if likelihood.target_kind() == TargetKind::Class {
            let sum: f64 = mean.iter().sum();
            // Curves with huge variances are not tabulated but integrated one by one.
            prop_assert!(
                sum.abs() < if widest < 400.0 { 1e-11 } else { 1e-7 },
                "{predictive} {at:?}: ∂/∂μ {mean:?} sum to {sum}"
            );
        }
        values[usize::from(predictive)] = value;
    }
    let [expected, predictive] = values;
    let discrete = matches!(likelihood.target_kind(), TargetKind::Count | TargetKind::Class);
    // Log probabilities of counts are differences of terms like y f and y log y.
    let size = case.mean.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let counted = if discrete { 1e-15 * at.y * (1.0 + at.y.ln_1p() + size) } else { 0.0 };
    // For such wide marginals, a smooth bend of the integrand is a kink to any quadrature rule.
    let kink = if widest > 1e4 { 1e-5 } else { 1e-9 };
    let rounding = kink * (1.0 + expected.abs()) + counted;
    // Averages of densities treat shapes and precisions beyond e²³ as e²³.
    let ordered = expected <= predictive + rounding || !discrete && case.mean[1] > 20.0;
    prop_assert!(ordered, "{at:?}: E log p {expected} > log E p {predictive}");
    prop_assert!(!discrete || predictive <= 1e-9 + counted, "{at:?}: log probability {predictive}");
    Ok(())
}

/// Checks that distribution functions rise from 0 to 1, moments are finite, draws are in the
/// domain, and probabilities sum to 1.
fn check_predictions(likelihood: &dyn Likelihood, case: &Case) -> Result<(), TestCaseError> {
    // With two wide marginals, a distribution function would take a tenth of a second, so variances
    // are limited.
    let mut case = case.clone();
    if likelihood.target_kind() != TargetKind::Class {
        case.variance = case.variance.map(|v| v.min(30.0));
    }
    let (at, marginal) = (case.observation(likelihood), case.marginal(likelihood));
    let mut integrator = Integrator::new(None);
    let mut random = ChaCha8Rng::seed_from_u64(case.place.to_bits());
    for z in [-2.0, 0.0, 2.0] {
        let f: Vec<f64> =
            (0..marginal.mean.len()).map(|c| marginal.mean[c] + z * marginal.variance[c].sqrt()).collect();
        let y = likelihood.sample(at, &f, &mut random);
        let inside = admissible(likelihood.target_kind(), y);
        prop_assert!(inside, "{y} drawn at f = {f:?}, {at:?}");
    }
    if likelihood.target_kind() == TargetKind::Class {
        let mut probabilities = vec![f64::NAN; likelihood.levels()];
        likelihood.probabilities(marginal, &mut integrator, &mut probabilities);
        let total: f64 = probabilities.iter().sum();
        let narrow = marginal.variance.iter().all(|v| *v < 400.0);
        // The step of the nodes gives the sum an error of up to 2 |Γ(1 + 2πi/STEP)|, 7.3e-12.
        prop_assert!(
            (total - 1.0).abs() < if narrow { 8e-12 } else { 1e-7 },
            "{probabilities:?} sum to {total}"
        );
        return Ok(());
    }
    let (mean, variance) = likelihood.predictive_moments(Row::new(at, marginal), &mut integrator);
    prop_assert!(!mean.is_nan() && variance >= 0.0, "{at:?}: mean {mean}, variance {variance}");
    let around = [at.y - 1.0, at.y, at.y + 1.0, 2.0 * at.y.abs() + 1.0];
    let below = around.map(|y| likelihood.predictive_cdf(Row::new(at.with(y), marginal), &mut integrator));
    prop_assert!(below.iter().all(|p| (0.0..=1.0).contains(p)), "{at:?} {below:?}");
    prop_assert!(below.windows(2).all(|pair| pair[0] <= pair[1] + 1e-4), "{at:?} {below:?}");
    for which in 0..likelihood.details().len() {
        let detail = likelihood.detail(which, Row::new(Observation::of(1.0), marginal), &mut integrator);
        prop_assert!(detail >= 0.0, "{} is {detail}", likelihood.details()[which]);
    }
    Ok(())
}

/// A property that must hold for a case of a family.
type Check = fn(&dyn Likelihood, &Case) -> Result<(), TestCaseError>;

fn check(likelihood: &dyn Likelihood, cases: u32) {
    let checks: [(&str, u32, Check); 2] =
        [("expectations", cases, check_expectations), ("predictions", cases / 4, check_predictions)];
    for (name, cases, run) in checks {
        let config = Config { cases, failure_persistence: None, max_shrink_iters: 50, ..Config::default() };
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let outcome =
            TestRunner::new_with_rng(config, random).run(&any_case(), |case| run(likelihood, &case));
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, case)) => panic!("{} {name}: {why} for {case:?}", likelihood.name()),
            Err(TestError::Abort(why)) => panic!("{} {name}: {why}", likelihood.name()),
        }
    }
}

#[test]
fn every_family() {
    let families: [(Box<dyn Likelihood>, u32); 10] = [
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
    ];
    // Threads of their own, because other tests wait for the pool.
    std::thread::scope(|threads| {
        for (likelihood, cases) in &families {
            threads.spawn(|| check(&**likelihood, *cases));
        }
    });
}
