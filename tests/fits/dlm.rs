//! Direct loss minimisation of the log loss: samples without integrals, gradients of sampled
//! estimates, and progress of every rule.

use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::gradient::Batch;
use sparsegp::kernels::Parameter;
use sparsegp::latent::Jitter;
use sparsegp::likelihood::{
    Expectation, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, ObservationModel,
    OneFunction, PoissonExp, Row, TargetKind,
};
use sparsegp::model::{FitSummary, LatentModel};
use sparsegp::objective::{DensityMoments, Estimator, Loss, Objective, failure_at, samples_for_step};
use sparsegp::options::{FitOptions, Hyper, ObjectiveKind, StepOptions};
use sparsegp::quadrature::{Integrator, Resolution};
use sparsegp::training::{Start, TrainingData, VariationalModel, fit_arrays};
use sparsegp::variational::{Family, Normal, QUpdate};
use sparsegp_testkit::problems::{Normals, data, model, posterior};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A Poisson likelihood that counts the integrals it computes.
#[derive(Clone, Debug, Default)]
struct Counted {
    integrals: Arc<AtomicUsize>,
}

impl OneFunction for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn target_kind(&self) -> TargetKind {
        TargetKind::Count
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        PoissonExp.log_density(at, f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        PoissonExp.curvature(at, f)
    }

    fn resolution(&self, at: Observation) -> Resolution {
        PoissonExp.resolution(at)
    }

    fn peak(&self, at: Observation) -> f64 {
        PoissonExp.peak(at)
    }

    fn expectation(
        &self,
        of: Expectation,
        row: LatentRow,
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        self.integrals.fetch_add(usize::from(of == Expectation::LogPredictive), Ordering::Relaxed);
        PoissonExp.expectation(of, row, own, integrator)
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        PoissonExp.conditional_moments(at, f)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        PoissonExp.conditional_cdf(at, f)
    }

    fn sample(&self, at: Observation, f: f64, random: &mut rand_chacha::ChaCha8Rng) -> f64 {
        PoissonExp.sample(at, f, random)
    }

    fn initialise(&mut self, _: &[f64], _: &[f64]) -> f64 {
        0.0
    }

    fn for_each_parameter<'a>(&'a self, _: &mut dyn FnMut(&'a Parameter)) {}

    fn for_each_parameter_mut(&mut self, _: &mut dyn FnMut(&mut Parameter)) {}
}

fn with(likelihood: impl Into<ObservationModel>, d: usize, m: usize) -> LatentModel {
    LatentModel { likelihood: likelihood.into(), ..model(3, "rbf", d, m, Jitter::Relative(1e-6)) }
}

/// Returns counts whose rate follows the first input, and which vary more than Poisson counts.
fn counts(seed: u64, n: usize) -> (Mat<f64>, Vec<f64>) {
    let (x, _) = data(seed, 2, n);
    let mut normals = Normals::new(seed);
    let y = (0..n).map(|j| (x[(0, j)].sin() + 1.2 * normals.next()).exp().floor()).collect();
    (x, y)
}

/// Returns two classes along a curve, with overlap.
fn classes(seed: u64, n: usize) -> (Mat<f64>, Vec<f64>) {
    let (x, _) = data(seed, 2, n);
    let mut normals = Normals::new(seed ^ 1);
    let class =
        |j: usize, noise: f64| f64::from(u8::from((2.0 * x[(0, j)]).sin() - x[(1, j)] + 0.5 * noise > 0.0));
    let y = (0..n).map(|j| class(j, normals.next())).collect();
    (x, y)
}

fn log_predictive(estimator: Estimator) -> Objective {
    Objective { loss: Loss::LogPredictive(estimator), beta: 1.0, nodes: None, coarse: false }
}

#[test]
fn sampled_estimators_compute_no_integral() {
    let (x, y) = counts(1, 60);
    for estimator in ["bmc:3", "bmc-price:3", "smooth-bmc:3:0.1", "ups:3"] {
        let likelihood = Counted::default();
        let integrals = likelihood.integrals.clone();
        let model = with(likelihood, 2, 6);
        let objective = log_predictive(estimator.parse().expect("an estimator"));
        let mut svgp = VariationalModel::new(model, posterior(2, 6), objective, 60).with_seed(4);
        assert!(svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), true).is_finite(), "{estimator}");
        // A starved rejection sampler inverts the distribution function, which quadrature tabulates.
        let starved = svgp.estimator_counts().starved > 0;
        assert!(starved || integrals.load(Ordering::Relaxed) == 0, "{estimator}: {integrals:?}");
    }
}

/// The draws are the same at every q, so finite differences of the sampled average must agree with
/// its gradient.
#[test]
fn gradients_of_sampled_averages_match_finite_differences() {
    let (x, y) = counts(3, 40);
    for estimator in ["bmc:1", "bmc:7", "smooth-bmc:5:0.05"] {
        let objective = log_predictive(estimator.parse().expect("an estimator"));
        let at = |q: &Normal| {
            let model = with(LikelihoodKind::Poisson.build(0), 2, 5);
            let mut svgp = VariationalModel::new(model, q.clone(), objective, 40).with_seed(9);
            let value = svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), false) - q.kl();
            (value, svgp.q_gradient().mean.to_vec(), svgp.q_gradient().cov.to_dense())
        };
        let q = posterior(6, 5);
        let (_, by_mean, by_cov) = at(&q);
        let step = 1e-5;
        let difference =
            |change: &dyn Fn(f64) -> Normal| (at(&change(step)).0 - at(&change(-step)).0) / (2.0 * step);
        for k in 0..5 {
            let moved = |by: f64| {
                let mut mean = q.mean().to_vec();
                mean[k] += by;
                Normal::new(mean, q.cov().to_dense()).expect("q")
            };
            let widened = |by: f64| {
                let mut cov = q.cov().to_dense();
                cov[(k, k)] += by;
                Normal::new(q.mean().to_vec(), cov).expect("q")
            };
            for (got, want) in [(by_mean[k], difference(&moved)), (by_cov[(k, k)], difference(&widened))] {
                assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{estimator} [{k}]: {got}, {want}");
            }
        }
    }
}

/// Values of `log E p` by uPS agree with quadrature on average.
#[test]
fn the_values_of_product_samples_are_those_of_quadrature() {
    let (x, y) = counts(5, 50);
    let value = |estimator: Estimator, seed: u64| {
        let model = with(LikelihoodKind::Poisson.build(0), 2, 5);
        let mut svgp =
            VariationalModel::new(model, posterior(6, 5), log_predictive(estimator), 50).with_seed(seed);
        svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), false)
    };
    let exact = value(Estimator::Exact, 0);
    let found: Vec<f64> =
        (0..40).map(|seed| value(Estimator::Product { samples: 200 }, seed) - exact).collect();
    let n = found.len() as f64;
    let mean = found.iter().sum::<f64>() / n;
    let variance = found.iter().map(|off| (off - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // The logarithm of an unbiased average is too low by half the relative variance of the average,
    // which is half the variance of the sum.
    let error = (variance / n).sqrt();
    assert!((mean - 0.5 * variance).abs() < 4.0 * error, "{mean} ± {error}, bias {}", 0.5 * variance);
}

/// Trains only q, from the prior, at hyper-parameters that fit the data roughly.
fn fit(data: &(Mat<f64>, Vec<f64>), options: &FitOptions, family: Family) -> FitSummary {
    let (x, y) = data;
    let kind = options.likelihood.expect("a likelihood");
    let start = with(kind.build(0), 2, 12);
    let q = match family {
        Family::Full => Normal::standard(Family::Full, 12),
        Family::Diagonal => Normal::standard(Family::Diagonal, 12),
    };
    let start = Start { model: start.to_prior(), q: Some(vec![q]) };
    let data = TrainingData::of(Dataset::of(x.transpose(), y));
    fit_arrays(data, options, Some(&start), &mut |_| {}).expect("a fit").summary
}

fn options(likelihood: LikelihoodKind, objective: ObjectiveKind, update: QUpdate) -> FitOptions {
    let default = FitOptions::default();
    FitOptions {
        likelihood: Some(likelihood),
        objective,
        hyper: Some(Hyper::Fixed),
        inducing: Some(12),
        epochs: Some(800),
        tolerance: Some(0.0),
        learning_rate: 0.05,
        standardize: false,
        steps: StepOptions { q_update: update, polish: false, ..default.steps.clone() },
        ..default
    }
}

/// For every rule on counts and on classes, full and diagonal: the final objective is near that of
/// the best rule, or the options are refused.
#[test]
fn every_rule_minimises_the_log_loss() {
    let cases =
        [(LikelihoodKind::Poisson, counts(7, 300)), (LikelihoodKind::BernoulliProbit, classes(8, 300))];
    for (kind, data) in &cases {
        for family in [Family::Full, Family::Diagonal] {
            let ends: Vec<(QUpdate, f64)> = QUpdate::ALL
                .iter()
                .filter_map(|&update| {
                    let mut options = options(*kind, ObjectiveKind::DlmLog, update);
                    options.steps.family = family;
                    options.validate().ok()?;
                    Some((update, fit(data, &options, family).objective))
                })
                .collect();
            let best = ends.iter().fold(f64::INFINITY, |best, (_, end)| best.min(*end));
            for (update, end) in &ends {
                assert!(
                    end - best < 0.01,
                    "{kind}, {family}, {update}: {end}, the best rule {best}; {ends:?}"
                );
            }
        }
    }
}

/// Few samples minimise a bound on the log loss; the gap falls with the number of samples. Second
/// derivatives are not used here.
#[test]
fn more_samples_come_closer_to_the_exact_log_loss() {
    let data = counts(7, 300);
    let end = |estimator: &str| {
        let mut options = options(LikelihoodKind::Poisson, ObjectiveKind::DlmLog, QUpdate::Adam);
        options.estimator = estimator.parse().expect("an estimator");
        fit(&data, &options, Family::Full).objective
    };
    let [exact, one, ten, hundred, product] = ["exact", "bmc:1", "bmc:10", "bmc:100", "ups:1"].map(end);
    assert!(product - exact < 0.01, "ups:1 {product}, exact {exact}");
    assert!(hundred - exact < 0.01, "bmc:100 {hundred}, exact {exact}");
    assert!(ten - exact < 0.1 && one - ten > 0.05, "bmc:1 {one}, bmc:10 {ten}, exact {exact}");
}

#[test]
fn the_samples_of_corollary_5_follow_their_formula() {
    let poisson = PoissonExp;
    let at = Observation::of(2.0);
    let bounds = poisson.density_bounds(at).expect("bounds");
    let moments =
        DensityMoments::at(&poisson, Row::new(at, LatentMarginal::new(0.3, 0.5)), &mut Integrator::default());
    // Estimates the three moments by Monte Carlo.
    let (mut normals, n) = (Normals::new(1), 400_000);
    let mut sums = [0.0; 3];
    for _ in 0..n {
        let f = 0.3 + 0.5f64.sqrt() * normals.next();
        let (mut value, mut first) = ([0.0], [0.0]);
        poisson.log_density(at, &[f], &mut value, &mut first);
        let density = value[0].exp();
        let terms = [1.0, first[0], poisson.curvature(at, f) + first[0] * first[0]];
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += density * term / f64::from(n));
    }
    for (got, want) in sums.into_iter().zip([moments.density, moments.slope, moments.curvature]) {
        assert!((got - want).abs() < 5e-3, "{got} and {want}");
    }
    let ratio = moments.ratio(&bounds);
    let width = bounds.curvature.1 - bounds.curvature.0;
    assert!(ratio >= (width / moments.curvature).powi(2) && ratio >= moments.density.powi(-2));
    let (rows, delta) = (1000, 0.05);
    let failure = failure_at(delta, 3);
    let samples = samples_for_step(ratio, rows, 0.25, failure).expect("positive numbers");
    let want = (6.0 * 1000.0 / failure).ln() / (2.0 * 0.25 * 0.25) * ratio;
    assert!(samples > want && samples <= want + 1.0, "{samples} and {want}");
    // The schedule has this number of samples for steps 1/(t + 1).
    let schedule: sparsegp::data::SizeSchedule =
        format!("bias:{ratio}:{rows}:{delta}").parse().expect("a schedule");
    assert!((schedule.at(3, usize::MAX) as f64 - samples).abs() <= 1.0);
    assert!(
        samples_for_step(ratio, rows, 0.6, 0.1).is_err() && samples_for_step(0.0, rows, 0.1, 0.1).is_err()
    );
}
