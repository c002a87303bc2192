//! Objectives beyond the ELBO: weights, exposure, Monte Carlo gradients, guards of the q update, square loss.

use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::gradient::Batch;
use sparsegp::hyper::Constraints;
use sparsegp::latent::Jitter;
use sparsegp::likelihood::{
    Expectation, LatentMarginal, LikelihoodKind, Observation, OneFunction, PoissonExp, Row,
};
use sparsegp::model::{LatentModel, LatentPrior};
use sparsegp::objective::{Estimator, Loss, Objective, Targets};
use sparsegp::options::{FitOptions, Hyper, ObjectiveKind, StepOptions};
use sparsegp::training::{CollapsedObjective, Start, TrainingData, VariationalModel, fit_arrays};
use sparsegp::variational::{Guard, NaturalGradient, QUpdate, UpdateRule};
use sparsegp_testkit::problems::{Normals, data, model, posterior};

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

/// Returns the rows of a table, each repeated `times` times.
fn repeated(x: &Mat<f64>, values: &[f64], times: &[f64]) -> (Mat<f64>, Vec<f64>) {
    let rows: Vec<usize> =
        times.iter().enumerate().flat_map(|(row, &t)| std::iter::repeat_n(row, t as usize)).collect();
    (Mat::from_fn(x.nrows(), rows.len(), |i, j| x[(i, rows[j])]), rows.iter().map(|&r| values[r]).collect())
}

fn assert_same(a: &[f64], b: &[f64], tolerance: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what} [{i}]: {a} and {b}");
    }
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
        assert_same(&[weighted.0], &[long.0], 1e-11, "value");
        assert_same(&weighted.1, &long.1, 1e-9, "gradient in θ");
        assert_same(&weighted.2, &long.2, 1e-9, "gradient in m");
    }
    for bound in [Objective::elbo(1.3), Objective::square(0.4)] {
        let evaluate = |x: &Mat<f64>, targets: Targets<'_>| {
            let set = Dataset { x: x.transpose(), targets };
            let model = with_likelihood(LikelihoodKind::Gaussian, 2, 9);
            CollapsedObjective::new(model, set, bound).natural_gradient().expect("bound")
        };
        let weighted = evaluate(&x, Targets { y: &y, exposure: &[], weights: &weights, outputs: &[] });
        let long = evaluate(&long_x, Targets::of(&long_y));
        assert_same(&[weighted.0], &[long.0], 1e-10, "bound");
        assert_same(&weighted.1, &long.1, 1e-8, "gradient of the bound");
    }
}

#[test]
fn an_exposure_is_an_offset_in_the_log_rate() {
    let (_, y) = counts(4, 30);
    let likelihood = PoissonExp;
    let mut integrator = sparsegp::quadrature::Integrator::default();
    for (i, &y) in y.iter().enumerate() {
        let (e, mu, v) = (0.3 + i as f64, 0.2 * i as f64 - 1.0, 0.1 + 0.05 * i as f64);
        let latent = LatentMarginal::new(mu + e.ln(), v);
        let exposed = Row::new(Observation::exposed(y, e), LatentMarginal::new(mu, v));
        let plain = Row::new(Observation::of(y), latent);
        for of in [Expectation::ExpectedLog, Expectation::LogPredictive] {
            let [a, b] =
                [exposed, plain].map(|row| likelihood.expectation(of, row, &mut [], &mut integrator));
            assert_same(&[a.value, a.mean, a.variance], &[b.value, b.mean, b.variance], 1e-9, "offset");
        }
        let [a, b] = [exposed, plain].map(|row| likelihood.predictive_moments(row, &mut integrator));
        assert_same(&[a.0, a.1], &[b.0, b.1], 1e-12, "moments");
    }
}

/// Returns the means and standard errors, over runs, of the components of the gradient in m and S.
fn sampled_gradient(estimator: Estimator, runs: usize) -> (Vec<f64>, Vec<f64>) {
    let (x, y) = counts(5, 30);
    let objective = Objective { loss: Loss::LogPredictive(estimator), beta: 1.0, nodes: None, coarse: false };
    let model = with_likelihood(LikelihoodKind::Poisson, 2, 5);
    let mut svgp = VariationalModel::new(model, posterior(6, 5), objective, 30).with_seed(7);
    let mut all = Vec::new();
    for _ in 0..runs {
        svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), false);
        let gradient = svgp.q_gradient();
        let cov = gradient.cov.full();
        let mut flat = gradient.mean.to_vec();
        flat.extend((0..5).flat_map(|j| (j..5).map(move |i| cov[(i, j)])));
        all.push(flat);
    }
    let n = runs as f64;
    let len = all[0].len();
    let mean: Vec<f64> = (0..len).map(|k| all.iter().map(|g| g[k]).sum::<f64>() / n).collect();
    let error = (0..len).map(|k| {
        let variance = all.iter().map(|g| (g[k] - mean[k]).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        (variance / n).sqrt()
    });
    let error = error.collect();
    (mean, error)
}

#[test]
fn product_sampling_is_unbiased_and_the_bias_of_plain_sampling_shrinks() {
    let (exact, _) = sampled_gradient(Estimator::Exact, 1);
    let size = exact.iter().map(|g| g * g).sum::<f64>().sqrt();
    let bias =
        |mean: &[f64]| mean.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt() / size;
    let (mean, error) = sampled_gradient(Estimator::Product { samples: 10 }, 4000);
    for (k, ((mean, error), exact)) in mean.iter().zip(&error).zip(&exact).enumerate() {
        // With twenty components, five standard errors are exceeded by chance once in 90,000 such
        // tests.
        assert!((mean - exact).abs() <= 5.0 * error, "component {k}: {mean} ± {error}, exact {exact}");
    }
    let biased = |samples| bias(&sampled_gradient(Estimator::Biased { samples }, 4000).0);
    let (one, ten, hundred) = (biased(1), biased(10), biased(100));
    assert!(one > 3.0 * ten && ten > 3.0 * hundred, "bias {one}, {ten}, {hundred}");
    // Smoothing reduces the variance but increases the bias.
    let smooth =
        bias(&sampled_gradient(Estimator::Smoothed { samples: 100, nu: 0.5, decays: false }, 1000).0);
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
        let objective =
            Objective { loss: Loss::LogPredictive(estimator), beta: 1.0, nodes: None, coarse: false };
        let model = with_likelihood(LikelihoodKind::Poisson, 2, 5);
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

#[test]
fn sampled_gradients_do_not_depend_on_the_number_of_threads() {
    let gradient = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        pool.install(|| sampled_gradient(Estimator::Product { samples: 3 }, 3).0)
    };
    assert_eq!(gradient(1), gradient(3));
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

#[test]
fn adam_and_natural_gradients_agree_on_classification() {
    let (x, y) = data(12, 2, 200);
    let y: Vec<f64> = y.iter().map(|y| f64::from(u8::from(*y > 0.0))).collect();
    let fit = |q_update, epochs| {
        let options = FitOptions {
            likelihood: Some(LikelihoodKind::BernoulliProbit),
            inducing: Some(12),
            constraints: Constraints::fixing([("kernel.variance", 4.0)]).expect("a name"),
            epochs: Some(epochs),
            steps: StepOptions { q_update, ..StepOptions::default() },
            ..FitOptions::default()
        };
        fit_arrays(TrainingData::of(Dataset::of(x.transpose(), &y)), &options, None, &mut |_| {})
            .expect("fit")
            .summary
            .objective
    };
    let (ngd, adam) = (fit(QUpdate::Ngd, 300), fit(QUpdate::Adam, 300));
    assert!((ngd - adam).abs() < 5e-3, "{ngd} and {adam}");
}

#[test]
fn a_restarted_rule_continues_from_the_new_q() {
    let (x, y) = data(13, 2, 50);
    let start = with_likelihood(LikelihoodKind::Gaussian, 2, 8);
    let (first, second) = (posterior(14, 8), posterior(15, 8));
    let batch = Batch::of(x.transpose(), &y, 1.0);
    let after = |rule: &mut dyn UpdateRule| {
        let mut svgp = VariationalModel::new(start.clone(), second.clone(), Objective::elbo(1.0), 50);
        svgp.evaluate(batch, false);
        svgp.update_q(rule, 0.5);
        svgp.q().mean().to_vec()
    };
    let mut used = NaturalGradient::new(&first);
    used.restart(&second);
    assert_eq!(after(&mut used), after(&mut NaturalGradient::new(&second)));
}
