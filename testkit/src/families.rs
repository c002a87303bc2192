//! Likelihoods of every family for the numeric tests, and functions that evaluate them.

use proptest::prelude::*;
use sparsegp::likelihood::{
    self, BetaBinomial, BetaLogit, BetaProbit, Censored, Gamma, Gaussian, LatentMarginal, Likelihood,
    LikelihoodKind, Local, Marginal, NegativeBinomial, Observation, OneFunction, OrderedBeta, Ordinal, Row,
    Slopes, StudentT, TargetKind, Tweedie,
};
use sparsegp::quadrature::Integrator;

/// Returns `log E p` if `predictive` is true, otherwise `E log p`.
fn kind_of(predictive: bool) -> likelihood::Expectation {
    if predictive { likelihood::Expectation::LogPredictive } else { likelihood::Expectation::ExpectedLog }
}

pub fn expectation(
    likelihood: &dyn OneFunction,
    predictive: bool,
    at: Observation,
    latent: LatentMarginal,
    own: &mut [f64],
    integrator: &mut Integrator,
) -> Local {
    likelihood.expectation(kind_of(predictive), Row::new(at, latent), own, integrator)
}

/// An expectation with its slopes in means, variances and the likelihood's parameters.
#[derive(Debug)]
pub struct Expectation {
    pub value: f64,
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
    pub own: Vec<f64>,
}

/// Returns an expectation under a likelihood of any number of functions.
pub fn joint_expectation(
    likelihood: &dyn Likelihood,
    predictive: bool,
    at: Observation,
    marginal: Marginal<'_>,
    integrator: &mut Integrator,
) -> Expectation {
    let unset = || vec![f64::NAN; marginal.mean.len()];
    let (mut mean, mut variance, mut own) = (unset(), unset(), vec![0.0; likelihood.own_len()]);
    let slopes = Slopes { mean: &mut mean, variance: &mut variance, own: &mut own };
    let value = likelihood.expectation(kind_of(predictive), Row::new(at, marginal), slopes, integrator);
    Expectation { value, mean, variance, own }
}

/// Maps (0, 1) onto (0.1, 10), evenly in the logarithm.
fn scale(u: f64) -> f64 {
    10f64.powf(2.0 * u - 1.0)
}

/// Returns a likelihood of a family; three numbers in (0, 1) determine its parameters.
pub fn family(kind: LikelihoodKind, [a, b, c]: [f64; 3]) -> Box<dyn OneFunction> {
    match kind {
        LikelihoodKind::Gaussian => Box::new(Gaussian::new(scale(a))),
        LikelihoodKind::NegativeBinomial => Box::new(NegativeBinomial::new(scale(a))),
        LikelihoodKind::NegativeBinomialCensored => Box::new(Censored::new(NegativeBinomial::new(scale(a)))),
        LikelihoodKind::StudentT => Box::new(StudentT::new(scale(a), 1.5 + 18.0 * b)),
        LikelihoodKind::StudentTCensored => Box::new(Censored::new(StudentT::new(scale(a), 1.5 + 18.0 * b))),
        LikelihoodKind::Gamma => Box::new(Gamma::new(scale(a))),
        LikelihoodKind::GammaCensored => Box::new(Censored::new(Gamma::new(scale(a)))),
        LikelihoodKind::BetaBinomial => Box::new(BetaBinomial::new(3.0 * scale(a))),
        LikelihoodKind::OrderedBeta => Box::new(OrderedBeta::new(4.0 * b - 3.0, scale(c), 2.0 * scale(a))),
        LikelihoodKind::Tweedie => Box::new(Tweedie::new(1.15 + 0.7 * b, scale(a))),
        LikelihoodKind::BetaLogit => Box::new(BetaLogit::new(2.0 * scale(a))),
        LikelihoodKind::BetaProbit => Box::new(BetaProbit::new(2.0 * scale(a))),
        LikelihoodKind::Ordinal => {
            let edges = [a - 1.0, a - 1.0 + scale(b) / 3.0, a - 1.0 + scale(b) / 3.0 + 0.01 + c];
            Box::new(Ordinal::with_edges(&edges, 0.3 + c))
        }
        other => one(&*other.build(2)),
    }
}

/// Returns a copy of a likelihood as one with a single function.
pub fn one(likelihood: &dyn Likelihood) -> Box<dyn OneFunction> {
    likelihood.one().expect("one function").boxed_clone()
}

/// Returns a [`family`], and from a fourth number a target in its domain; only counts use the
/// exposure, and successes the number of trials.
pub fn any_family(
    kind: LikelihoodKind,
    [a, b, c, d]: [f64; 4],
) -> (Box<dyn OneFunction>, Observation<'static>) {
    let trials = 1.0 + (10.0 * scale(c)).floor();
    let y = match kind.target_kind() {
        TargetKind::Real | TargetKind::Measured | TargetKind::Censored => 10.0 * (d - 0.5),
        TargetKind::Positive | TargetKind::Lifetime => 10.0 * scale(d),
        TargetKind::Amount => {
            if d < 0.3 {
                0.0
            } else {
                10.0 * scale(d)
            }
        }
        TargetKind::UnitInterval => 0.01 + 0.98 * d,
        TargetKind::Share => (1.4 * d - 0.2).clamp(0.0, 1.0),
        TargetKind::Count | TargetKind::CensoredCount => (100.0 * d * d * d).floor(),
        TargetKind::Trials => (d * (trials + 1.0)).floor(),
        TargetKind::Binary => d.round(),
        TargetKind::Ordinal | TargetKind::Class => (4.0 * d).floor(),
    };
    let exposure = match kind.target_kind() {
        TargetKind::Count | TargetKind::CensoredCount => scale(c),
        TargetKind::Trials => trials,
        _ => 1.0,
    };
    (family(kind, [a, b, c]), Observation::exposed(y, exposure))
}

/// Returns a strategy for any built-in likelihood with one function.
pub fn any_kind() -> impl Strategy<Value = LikelihoodKind> {
    let kinds: Vec<LikelihoodKind> = every_kind().collect();
    (0..kinds.len()).prop_map(move |k| kinds[k])
}

/// Returns every built-in likelihood with one function.
pub fn every_kind() -> impl Iterator<Item = LikelihoodKind> {
    let kinds = LikelihoodKind::WORDS.iter().map(|word| word.parse().expect("a known word"));
    kinds.filter(|kind: &LikelihoodKind| !kind.is_joint())
}
