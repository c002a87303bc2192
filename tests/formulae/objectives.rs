//! Objectives beyond the ELBO: weights, exposure, samples of the log loss and of its gradients, guards of the q update.

use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::gradient::Batch;
use sparsegp::latent::Jitter;
use sparsegp::likelihood::{
    Expectation, LatentMarginal, LikelihoodKind, Observation, OneFunction, PoissonExp, Row,
};
use sparsegp::model::{LatentModel, LatentPrior};
use sparsegp::objective::{
    DensityMoments, Estimator, Loss, Objective, Targets, failure_at, samples_for_step,
};
use sparsegp::options::{FitOptions, Hyper, ObjectiveKind, StepOptions};
use sparsegp::quadrature::Integrator;
use sparsegp::training::{CollapsedObjective, Start, TrainingData, VariationalModel, fit_arrays};
use sparsegp::variational::{Family, Guard, NaturalGradient, Normal, QUpdate};
use sparsegp_testkit::compare::{assert_all_close, assert_close};
use sparsegp_testkit::differences::check_gradient;
use sparsegp_testkit::problems::{Normals, data, flat, model, posterior};
use sparsegp_testkit::statistics::{assert_unbiased, moments};

/// Returns a model with the likelihood `kind` and a smooth latent function.
fn with_likelihood(kind: LikelihoodKind, d: usize, m: usize) -> LatentModel {
    LatentModel { likelihood: kind.build(3), ..model(3, "rbf(ard)", d, m, Jitter::Relative(1e-6)) }
}

/// Returns counts whose rate follows the first input.
fn counts(seed: u64, n: usize) -> (Mat<f64>, Vec<f64>) {
    let (x, _) = data(seed, 2, n);
    let mut normals = Normals::new(seed);
    let y = (0..n).map(|j| (1.5 * x[(0, j)].sin() + 0.4 * normals.next()).exp().round()).collect();
    (x, y)
}

fn log_predictive(estimator: Estimator) -> Objective {
    Objective { loss: Loss::LogPredictive(estimator), beta: 1.0, nodes: None, coarse: false }
}

/// Returns the rows of a table, each repeated `times` times.
fn repeated(x: &Mat<f64>, values: &[f64], times: &[f64]) -> (Mat<f64>, Vec<f64>) {
    let rows: Vec<usize> =
        times.iter().enumerate().flat_map(|(row, &t)| std::iter::repeat_n(row, t as usize)).collect();
    (Mat::from_fn(x.nrows(), rows.len(), |i, j| x[(i, rows[j])]), rows.iter().map(|&r| values[r]).collect())
}

#[test]
fn a_weight_is_a_number_of_rows() {
    let (x, y) = counts(1, 40);
    let weights: Vec<f64> = (0..40).map(|i| f64::from(1 + i % 3)).collect();
    let (long_x, long_y) = repeated(&x, &y, &weights);
    for objective in [Objective::elbo(0.7), Objective::dlm(0.7)] {
        let evaluate = |x: &Mat<f64>, targets: Targets<'_>| {
            let model = with_likelihood(LikelihoodKind::Poisson, 2, 9);
            let mut svgp = VariationalModel::new(model, posterior(2, 9), objective, targets.len());
            let value = svgp.evaluate(Batch { x: x.transpose(), targets, scale: 1.0 }, true);
            (value, svgp.theta_gradient().to_vec(), svgp.q_gradient().mean.to_vec())
        };
        let weighted = evaluate(&x, Targets { y: &y, exposure: &[], weights: &weights, outputs: &[] });
        let long = evaluate(&long_x, Targets::of(&long_y));
        assert_close(weighted.0, long.0, 1e-11, "value");
        assert_all_close(&weighted.1, &long.1, 1e-9, "gradient in θ");
        assert_all_close(&weighted.2, &long.2, 1e-9, "gradient in m");
    }
    for bound in [Objective::elbo(1.3), Objective::square(0.4)] {
        let evaluate = |x: &Mat<f64>, targets: Targets<'_>| {
            let set = Dataset { x: x.transpose(), targets };
            let model = with_likelihood(LikelihoodKind::Gaussian, 2, 9);
            CollapsedObjective::new(model, set, bound).natural_gradient().expect("bound")
        };
        let weighted = evaluate(&x, Targets { y: &y, exposure: &[], weights: &weights, outputs: &[] });
        let long = evaluate(&long_x, Targets::of(&long_y));
        assert_close(weighted.0, long.0, 1e-10, "bound");
        assert_all_close(&weighted.1, &long.1, 1e-8, "gradient of the bound");
    }
}

#[test]
fn an_exposure_is_an_offset_in_the_log_rate() {
    let (_, y) = counts(4, 30);
    let likelihood = PoissonExp;
    let mut integrator = Integrator::default();
    for (i, &y) in y.iter().enumerate() {
        let (e, mu, v) = (0.3 + i as f64, 0.2 * i as f64 - 1.0, 0.1 + 0.05 * i as f64);
        let exposed = Observation::exposed(y, e);
        let plain = Observation::of(y);
        let (latent, at) = (LatentMarginal::new(mu, v), LatentMarginal::new(mu + e.ln(), v));
        for of in [Expectation::ExpectedLog, Expectation::LogPredictive] {
            let [a, b] = [Row::new(exposed, latent), Row::new(plain, at)]
                .map(|row| likelihood.expectation(of, row, &mut [], &mut integrator));
            assert_all_close(&[a.value, a.mean, a.variance], &[b.value, b.mean, b.variance], 1e-9, "offset");
        }
        let (a, b) = (
            likelihood.predictive_moments(Row::new(exposed, latent), &mut integrator),
            likelihood.predictive_moments(Row::new(plain, at), &mut integrator),
        );
        assert_all_close(&[a.0, a.1], &[b.0, b.1], 1e-12, "moments");
    }
}

/// Returns the means and standard errors, over runs, of the components of the gradient in m and S.
fn sampled_gradient(estimator: Estimator, runs: usize) -> Vec<(f64, f64)> {
    let (x, y) = counts(5, 30);
    let (model, objective) = (with_likelihood(LikelihoodKind::Poisson, 2, 5), log_predictive(estimator));
    let mut svgp = VariationalModel::new(model, posterior(6, 5), objective, 30).with_seed(7);
    moments((0..runs).map(|_| {
        svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), false);
        let gradient = svgp.q_gradient();
        [gradient.mean.to_vec(), flat(gradient.cov)].concat()
    }))
}

fn means(moments: &[(f64, f64)]) -> Vec<f64> {
    moments.iter().map(|(mean, _)| *mean).collect()
}

#[test]
fn product_sampling_is_unbiased_and_the_bias_of_plain_sampling_shrinks() {
    let exact = means(&sampled_gradient(Estimator::Exact, 1));
    let size = exact.iter().map(|g| g * g).sum::<f64>().sqrt();
    // With twenty components, five standard errors are exceeded by chance once in 90,000 such tests.
    assert_unbiased(&sampled_gradient(Estimator::Product { samples: 10 }, 4000), &exact, "product samples");
    let bias = |estimator, runs| {
        let mean = means(&sampled_gradient(estimator, runs));
        mean.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt() / size
    };
    let [one, ten, hundred] = [1, 10, 100].map(|samples| bias(Estimator::Biased { samples }, 4000));
    assert!(one > 3.0 * ten && ten > 3.0 * hundred, "bias {one}, {ten}, {hundred}");
    // Smoothing reduces the variance but increases the bias.
    let smooth = bias(Estimator::Smoothed { samples: 100, nu: 0.5, decays: false }, 1000);
    assert!(smooth > hundred, "smoothed {smooth}, plain {hundred}");
}

/// Samples whose density underflows still have finite ratios.
#[test]
fn sampled_gradients_are_finite_far_from_the_data() {
    let (x, y) = counts(5, 30);
    let y: Vec<f64> = y.iter().map(|y| y + 3000.0).collect();
    for estimator in [
        Estimator::Biased { samples: 1 },
        Estimator::Smoothed { samples: 1, nu: 0.1, decays: false },
        Estimator::Product { samples: 1 },
    ] {
        let (model, objective) = (with_likelihood(LikelihoodKind::Poisson, 2, 5), log_predictive(estimator));
        let mut svgp = VariationalModel::new(model, posterior(6, 5), objective, 30).with_seed(7);
        for _ in 0..20 {
            let value = svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), false);
            assert!(value.is_finite(), "{estimator}: {value}");
            let gradient = svgp.q_gradient();
            assert!(gradient.mean.iter().all(|g| g.is_finite()), "{estimator}: {:?}", gradient.mean);
            assert!((0..5).all(|i| gradient.cov.full()[(i, i)].is_finite()), "{estimator}");
        }
    }
}

/// The draws are the same at every q, so finite differences of the sampled average must agree with
/// its gradient.
#[test]
fn gradients_of_sampled_averages_match_finite_differences() {
    let (x, y) = counts(3, 40);
    let q = posterior(6, 5);
    for estimator in ["bmc:1", "bmc:7", "smooth-bmc:5:0.05"] {
        let objective = log_predictive(estimator.parse().expect("an estimator"));
        // Means and variances of w; covariances stay.
        let evaluated = |flat: &[f64]| {
            let cov = Mat::from_fn(5, 5, |i, j| if i == j { flat[5 + i] } else { q.cov().full()[(i, j)] });
            let q = Normal::new(flat[..5].to_vec(), cov).expect("q");
            let model = with_likelihood(LikelihoodKind::Poisson, 2, 5);
            let mut svgp = VariationalModel::new(model, q.clone(), objective, 40).with_seed(9);
            let value = svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), false) - q.kl();
            let (mean, cov) = (svgp.q_gradient().mean.to_vec(), svgp.q_gradient().cov.to_dense());
            (value, mean.into_iter().chain((0..5).map(|k| cov[(k, k)])).collect::<Vec<_>>())
        };
        let start: Vec<f64> =
            q.mean().iter().copied().chain((0..5).map(|k| q.cov().full()[(k, k)])).collect();
        let (_, gradient) = evaluated(&start);
        let outcome = check_gradient(&mut |flat| evaluated(flat).0, &start, &gradient, 1);
        assert!(outcome.is_ok(), "{estimator}: {outcome:?}");
    }
}

/// Values of `log E p` by uPS agree with quadrature on average.
#[test]
fn the_values_of_product_samples_are_those_of_quadrature() {
    let (x, y) = counts(5, 50);
    let value = |estimator: Estimator, seed: u64| {
        let model = with_likelihood(LikelihoodKind::Poisson, 2, 5);
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

/// Few samples minimise a bound on the log loss; the gap falls with the number of samples. Second
/// derivatives are not used here.
#[test]
fn more_samples_come_closer_to_the_exact_log_loss() {
    // The counts vary more than Poisson counts.
    let ((x, _), mut normals) = (data(7, 2, 300), Normals::new(7));
    let y: Vec<f64> = (0..300).map(|j| (x[(0, j)].sin() + 1.2 * normals.next()).exp().floor()).collect();
    let model = with_likelihood(LikelihoodKind::Poisson, 2, 12).to_prior();
    let start = Start { model, q: Some(vec![Normal::standard(Family::Full, 12)]) };
    let end = |estimator: &str| {
        let options = FitOptions {
            likelihood: Some(LikelihoodKind::Poisson),
            objective: ObjectiveKind::DlmLog,
            estimator: estimator.parse().expect("an estimator"),
            hyper: Some(Hyper::Fixed),
            inducing: Some(12),
            epochs: Some(800),
            tolerance: Some(0.0),
            learning_rate: 0.05,
            standardize: false,
            steps: StepOptions { q_update: QUpdate::Adam, polish: false, ..StepOptions::default() },
            ..FitOptions::default()
        };
        let data = TrainingData::of(Dataset::of(x.transpose(), &y));
        fit_arrays(data, &options, Some(&start), &mut |_| {}).expect("a fit").summary.objective
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

/// In full-batch DLM steps from a distant q, with every guard, q stays valid and the loss falls.
#[test]
fn every_guard_keeps_dlm_steps_valid() {
    let (x, y) = data(8, 2, 80);
    for guard in [Guard::Trust, Guard::Backtrack, Guard::Retraction, Guard::Projection] {
        for beta in [1.0, 0.1] {
            let mut model = with_likelihood(LikelihoodKind::Gaussian, 2, 12);
            model.likelihood.for_each_parameter_mut(&mut |p| p.values = vec![0.05]);
            let q = posterior(9, 12);
            let mut rule = NaturalGradient::new(&q).with_guard(guard);
            let mut svgp = VariationalModel::new(model, q, Objective::dlm(beta), 80);
            let batch = Batch::of(x.transpose(), &y, 1.0);
            let first = svgp.evaluate(batch, false);
            let mut value = first;
            for _ in 0..200 {
                svgp.update_q(&mut rule, 0.1);
                value = svgp.evaluate(batch, false);
                let diagonal = (0..12).map(|i| svgp.q().cov().full()[(i, i)]).fold(f64::INFINITY, f64::min);
                assert!(diagonal > 0.0 && svgp.q().log_det().is_finite(), "{guard} β = {beta}");
            }
            if guard == Guard::Trust {
                assert!(value < first, "{guard} β = {beta}: from {first} to {value}");
            }
        }
    }
}

/// At fixed hyper-parameters DLM lowers the training log loss plus KL below that of the ELBO's
/// optimum, and ends at a stationary point.
#[test]
fn fixed_dlm_reaches_a_stationary_point_below_the_elbo_optimum() {
    let (x, y) = data(10, 2, 150);
    let train = Dataset::of(x.transpose(), &y);
    let base = FitOptions { inducing: Some(15), warm_start: 30, epochs: Some(30), ..FitOptions::default() };
    let elbo = fit_arrays(TrainingData::of(train), &base, None, &mut |_| {}).expect("elbo");
    let start = Start { model: elbo.model.clone(), q: None };
    for beta in [1.0, 0.03] {
        let options = FitOptions {
            objective: ObjectiveKind::DlmLog,
            hyper: Some(Hyper::Fixed),
            beta,
            epochs: Some(2000),
            // With tolerance 0 the fit does not stop before a stationary point.
            tolerance: Some(0.0),
            ..base.clone()
        };
        let dlm = fit_arrays(TrainingData::of(train), &options, Some(&start), &mut |_| {}).expect("dlm");
        let mut at_elbo = VariationalModel::new(
            elbo.model.factorised().expect("K_uu factorises"),
            elbo.q.clone(),
            Objective::dlm(beta),
            150,
        );
        let batch = Batch::of(x.transpose(), &y, 1.0);
        let before = at_elbo.evaluate(batch, false);
        assert!(dlm.summary.objective_sum < before, "β = {beta}: {} and {before}", dlm.summary.objective_sum);
        let names = |model: &LatentPrior| model.named_values();
        assert_eq!(names(&elbo.model), names(&dlm.model), "hyper-parameters stay");
        let mut at_dlm = VariationalModel::new(
            dlm.model.factorised().expect("K_uu factorises"),
            dlm.q,
            Objective::dlm(beta),
            150,
        );
        at_dlm.evaluate(batch, false);
        let gradient = at_dlm.q_gradient();
        // The Hessian in m is at least β, so the objective is at most ‖∇‖²/(2β) above its minimum in m: a hundredth of a nat per row.
        let square: f64 =
            gradient.mean.iter().zip(at_dlm.q().mean()).map(|(g, m)| (g + beta * m).powi(2)).sum();
        assert!(square / (2.0 * beta) < 1e-2 * 150.0, "β = {beta}: ‖∇_m‖² = {square}");
    }
}
