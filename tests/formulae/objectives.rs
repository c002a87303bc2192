//! Objectives beyond the ELBO: weights, exposure, samples of the log loss and of its gradients, guards of the q update.

use crate::prelude::*;

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
    Objective { loss: Loss::LogPredictive(estimator), ..Objective::elbo(1.0) }
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
        let weighted = evaluate(&x, Targets { weights: &weights, ..Targets::of(&y) });
        let long = evaluate(&long_x, Targets::of(&long_y));
        assert_close(weighted.0, long.0, 1e-11, "value");
        assert_all_close(&weighted.1, &long.1, 1e-9, "gradient in θ");
        assert_all_close(&weighted.2, &long.2, 1e-9, "gradient in m");
    }
    for bound in [Objective::elbo(1.3), Objective::square(0.4), Objective::fitc()] {
        let evaluate = |x: &Mat<f64>, targets: Targets<'_>| {
            let set = Dataset { x: x.transpose(), targets };
            let model = with_likelihood(LikelihoodKind::Gaussian, 2, 9);
            CollapsedObjective::new(model, set, bound).natural_gradient().expect("bound")
        };
        let weighted = evaluate(&x, Targets { weights: &weights, ..Targets::of(&y) });
        let long = evaluate(&long_x, Targets::of(&long_y));
        assert_close(weighted.0, long.0, 1e-10, "bound");
        assert_all_close(&weighted.1, &long.1, 1e-8, "gradient of the bound");
    }
}

#[test]
fn an_exposure_is_an_offset_in_the_log_rate() {
    let (_, y) = counts(4, 30);
    let likelihood: &dyn OneFunction = &Poisson::Exp;
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

#[test]
fn the_samples_of_corollary_5_follow_their_formula() {
    let poisson: &dyn OneFunction = &Poisson::Exp;
    let at = Observation::of(2.0);
    let bounds = poisson.density_bounds(at).expect("bounds");
    let moments =
        DensityMoments::at(poisson, Row::new(at, LatentMarginal::new(0.3, 0.5)), &mut Integrator::default());
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
