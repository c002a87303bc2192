//! Every family against finite differences, closed forms and samples.

use crate::prelude::*;
use sparsegp::likelihood::testkit::{check_density, check_expectations, check_likelihood};

fn unit() -> impl Strategy<Value = [f64; 4]> {
    prop::array::uniform4(0.001..0.999f64)
}

fn close(got: f64, want: f64, tolerance: f64, scale: f64) -> bool {
    (got - want).abs() <= tolerance * (want.abs() + scale)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn derivatives_of_the_density_match_differences(kind in any_kind(), u in unit(), f in -6.0..6.0f64) {
        let (likelihood, at) = any_family(kind, u);
        let verdict = check_density(likelihood.as_likelihood(), at, &[f]);
        prop_assert!(verdict.is_ok(), "{kind}: {verdict:?}");
    }

    #[test]
    fn derivatives_of_expectations_match_differences(
        kind in any_kind(), u in unit(), mu in -3.0..3.0f64, log_v in -5.0..2.0f64,
    ) {
        let (likelihood, at) = any_family(kind, u);
        let verdict = check_expectations(likelihood.as_likelihood(), Row::new(at, Marginal { mean: &[mu], variance: &[log_v.exp()] }));
        prop_assert!(verdict.is_ok(), "{kind}: {verdict:?}");
    }
}

/// Returns a likelihood of a family with an exposure, with moderate counts and finite fourth moments.
fn predictive_setting(kind: LikelihoodKind) -> (Box<dyn OneFunction>, f64) {
    let likelihood: Box<dyn OneFunction> = match kind {
        LikelihoodKind::StudentT => Box::new(StudentT::new(0.7, 9.0)),
        LikelihoodKind::StudentTCensored => Box::new(Censored::new(StudentT::new(0.7, 9.0))),
        LikelihoodKind::Gamma => Box::new(Gamma::new(2.5)),
        LikelihoodKind::GammaCensored => Box::new(Censored::new(Gamma::new(2.5))),
        LikelihoodKind::LogNormal => Box::new(LogNormal::new(0.3)),
        LikelihoodKind::Weibull => Box::new(Weibull::new(0.4)),
        LikelihoodKind::LogLogistic => Box::new(LogLogistic::new(0.17)),
        _ => any_family(kind, [0.5, 0.4, 0.5, 0.5]).0,
    };
    let exposure = match kind.target_kind() {
        TargetKind::Count | TargetKind::CensoredCount => 2.5,
        TargetKind::Trials => 12.0,
        _ => 1.0,
    };
    (likelihood, exposure)
}

/// Returns every family, and outputs that mix two functions, with moderate parameters, targets and an exposure.
fn moderate() -> Vec<(Box<dyn Likelihood>, Vec<f64>, f64)> {
    let mixed = |family: Box<dyn OneFunction>| Box::new(Mixed::new(family, vec![0.7, -0.4], 0.2));
    let several: [(Box<dyn Likelihood>, &[f64], f64); 15] = [
        (Box::new(Softmax::new(3)), &[0.0, 1.0, 2.0], 1.0),
        (Box::new(GaussianHeteroskedastic::new()), &[-1.3, 0.4, 2.5], 1.0),
        (Box::new(StudentTHeteroskedastic::new()), &[-1.3, 0.4, 2.5], 1.0),
        (Box::new(GammaShaped::new()), &[0.2, 1.1, 4.0], 1.0),
        (Box::new(BetaPrecise::new()), &[0.1, 0.5, 0.93], 1.0),
        (Box::new(NegativeBinomialDispersed::new()), &[0.0, 1.0, 8.0], 2.5),
        (Box::new(ZeroAltered::inflated_poisson()), &[0.0, 1.0, 5.0], 2.5),
        (Box::new(ZeroAltered::inflated_negative_binomial(0.7)), &[0.0, 2.0, 7.0], 1.6),
        (Box::new(ZeroAltered::hurdle_poisson()), &[0.0, 1.0, 5.0], 2.5),
        (Box::new(ZeroAltered::hurdle_negative_binomial(0.7)), &[0.0, 1.0, 2.0, 7.0], 1.6),
        (Box::new(ZeroAltered::hurdle_gamma(1.7)), &[0.0, 0.3, 2.5], 1.0),
        (Box::new(ZeroAltered::hurdle_log_normal(0.6)), &[0.0, 0.3, 2.5], 1.0),
        (mixed(Box::new(Gaussian::new(0.4))), &[-1.3, 0.4, 2.5], 1.0),
        (mixed(Box::new(Poisson::Exp)), &[0.0, 2.0], 1.0),
        (mixed(Box::new(StudentT::new(4.0, 0.7))), &[-0.6, 1.9], 1.0),
    ];
    let several = several.map(|(family, targets, exposure)| (family, targets.to_vec(), exposure));
    let of_one = every_kind().map(|kind| {
        let (mut likelihood, exposure) = predictive_setting(kind);
        if kind == LikelihoodKind::Weibull {
            // The hazards of a narrower distribution lie beyond the range of slow integration.
            likelihood = Box::new(Weibull::new(0.7));
        }
        let targets = match kind.target_kind() {
            TargetKind::Real | TargetKind::Measured | TargetKind::Censored => [-1.7, 0.4, 3.1],
            TargetKind::Positive | TargetKind::Lifetime => [0.2, 1.1, 6.0],
            TargetKind::Amount => [0.0, 0.4, 6.0],
            TargetKind::UnitInterval => [0.04, 0.5, 0.9],
            TargetKind::Share => [0.0, 0.6, 1.0],
            TargetKind::Count | TargetKind::CensoredCount => [0.0, 2.0, 9.0],
            TargetKind::Trials => [0.0, 5.0, 12.0],
            TargetKind::Binary => [0.0, 1.0, 1.0],
            TargetKind::Ordinal | TargetKind::Class => [0.0, 1.0, 3.0],
        };
        (likelihood.as_likelihood().boxed_clone(), targets.to_vec(), exposure)
    });
    several.into_iter().chain(of_one).collect()
}

#[test]
fn every_family_keeps_the_contract() {
    for (likelihood, targets, exposure) in moderate() {
        let observations: Vec<Observation> =
            targets.iter().map(|&y| Observation::exposed(y, exposure)).collect();
        check_likelihood(&*likelihood, &observations)
            .unwrap_or_else(|why| panic!("{}: {why}", likelihood.name()));
    }
}

/// The reported probability of zero is that of the density with the exposure of the row; that of an extra zero is smaller.
#[test]
fn the_probability_of_zero_is_that_of_the_density() {
    let marginal = Marginal { mean: &[0.4, -0.6], variance: &[0.3, 0.2] };
    for (likelihood, details) in [
        (ZeroAltered::inflated_poisson(), 2),
        (ZeroAltered::inflated_negative_binomial(0.7), 2),
        (ZeroAltered::hurdle_poisson(), 1),
        (ZeroAltered::hurdle_negative_binomial(0.7), 1),
    ] {
        assert_eq!(likelihood.details(), &["probability_of_zero", "probability_of_excess_zero"][..details]);
        for exposure in [0.1, 1.0, 6.0] {
            let (at, mut tools) = (Observation::exposed(0.0, exposure), Integrator::new(None));
            let zero = joint_expectation(&likelihood, true, at, marginal, &mut tools).value.exp();
            let mut detail = |which| likelihood.detail(which, Row::new(at, marginal), &mut tools);
            assert!((detail(0) - zero).abs() < 1e-9, "{}: {zero}", likelihood.name());
            assert!(details == 1 || (1e-9..zero).contains(&detail(1)), "{}: {zero}", likelihood.name());
        }
    }
}

/// Starting values are in range, and near the truth for targets drawn at one latent value; odd
/// targets cause no invalid values.
#[test]
fn starting_values_come_from_the_targets() {
    for kind in every_kind() {
        let ((truth, exposure), f) = (predictive_setting(kind), 0.6);
        let mut random = ChaCha8Rng::seed_from_u64(20);
        let draw = |_| truth.sample(Observation::exposed(1.0, exposure), f, &mut random);
        let y: Vec<f64> = (0..5000).map(draw).collect();
        let mut likelihood = one(&*kind.build(4));
        // A name says nothing about values.
        likelihood.for_each_parameter_mut(&mut |p| p.given = false);
        let mean = likelihood.initialise(&y, &vec![exposure; y.len()]);
        let centre =
            |l: &dyn OneFunction, f: f64| l.conditional_moments(Observation::exposed(1.0, exposure), f).0;
        let (got, want) = (centre(&*likelihood, mean), centre(&*truth, f));
        let ordinal = kind == LikelihoodKind::Ordinal;
        assert!(ordinal || close(got, want, 0.1, 0.0), "{kind}: mean {got} instead of {want}");
        for odd in [vec![], vec![1.0], vec![1.0; 5], vec![0.5, 0.5], vec![0.0, 0.0], vec![f64::NAN, 1.0]] {
            let mean = likelihood.initialise(&odd, &[]);
            let admitted = |p: &Parameter| p.values.iter().all(|v| p.transform.admits(*v));
            if !odd.iter().any(|y| y.is_nan()) {
                assert!(mean.is_finite(), "{kind}: {mean} from {odd:?}");
                likelihood.for_each_parameter(&mut |p| assert!(admitted(p), "{kind}: {p:?} from {odd:?}"));
            }
        }
    }
}

#[test]
fn deviances_of_counts_are_twice_the_log_likelihood_ratio() {
    let mut families = 0;
    for kind in every_kind().filter(|kind| kind.target_kind().is_of_events()) {
        let likelihood = any_family(kind, [0.4; 4]).0;
        // Finds f from a mean with exposure 1, by bisection, for any link.
        let f = |mean: f64| {
            let (mut low, mut high) = (-60.0, 60.0);
            for _ in 0..200 {
                let middle: f64 = 0.5 * (low + high);
                let below = likelihood.conditional_moments(Observation::of(1.0), middle).0 < mean;
                (low, high) = if below { (middle, high) } else { (low, middle) };
            }
            low
        };
        for (y, mean) in [(0.0, 0.7), (1.0, 3.0), (4.0, 4.0), (17.0, 2.5), (3.0, 40.0)] {
            let density = |mean: f64| likelihood.value_and_slope(Observation::of(y), f(mean)).0;
            // A count of 0 has the probability 1 at rate 0.
            let best = if y == 0.0 { 0.0 } else { density(y) };
            let (got, want) = (likelihood.unit_deviance(y, mean), 2.0 * (best - density(mean)));
            assert!(close(got, want, 1e-9, 1.0), "{kind} at {y} and {mean}: {got} and {want}");
        }
        families += 1;
    }
    assert!(families >= 3, "{families}");
}

/// Coarse integrals of classes have their documented accuracy for narrow, wide and mixed marginals.
#[test]
fn coarse_integrals_are_close_to_exact_ones() {
    let softmax = Softmax::new(4);
    let mut worst = [0.0_f64; 3];
    for mean in [[0.0, 0.0, 0.0, 0.0], [1.3, -0.4, 2.2, -3.0], [9.0, -6.0, 0.5, 8.0]] {
        for spread in [1e-6_f64, 1e-4, 0.01, 0.1, 0.5, 1.0, 3.0, 30.0, 300.0] {
            let variance = [spread, 0.3 * spread, 2.0 * spread, spread.min(0.2)];
            let marginal = Marginal { mean: &mean, variance: &variance };
            let [exact, coarse] = [false, true].map(|coarse| {
                let mut tools = Integrator::new(None).coarsely(coarse);
                joint_expectation(&softmax, false, Observation::of(1.0), marginal, &mut tools)
            });
            worst[0] = worst[0].max((exact.value - coarse.value).abs() / (1.0 + spread.sqrt()));
            for c in 0..4 {
                worst[1] = worst[1].max((exact.mean[c] - coarse.mean[c]).abs());
                worst[2] = worst[2].max((exact.variance[c] - coarse.variance[c]).abs());
            }
        }
    }
    // The first and second derivatives multiply the errors of the nodes by 2π/(2 STEP) = 9 and by its square.
    assert!(worst[0] < 2e-6 && worst[1] < 1e-5 && worst[2] < 1e-4, "{worst:?}");
    assert!(worst[0] > 1e-12, "coarse integrals are not coarse: {worst:?}");
}
