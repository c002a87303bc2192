//! Grouped effects with sites that replace the likelihood, and as features of a layer: against the closed form that eliminates a grouping, a
//! dense variational posterior and finite differences.

use crate::grouped::{FITC, VFE, linear_model, problem, solved, term};
use crate::prelude::*;

/// Returns the ELBO of a function (or of fixed effects) and grouped effects.
pub fn elbo(weights: WeightPrior, beta: f64) -> GroupedBound {
    GroupedBound { weights, losses: Some(Objective::elbo(beta)), ..VFE }
}

/// Returns a likelihood, and suitable targets made of standard normal numbers.
pub fn observed(which: usize, y: &[f64]) -> (ObservationModel, Vec<f64>) {
    let map = |f: &dyn Fn(f64) -> f64| y.iter().map(|y| f(*y)).collect::<Vec<f64>>();
    // Some rows have the other class, so that no line separates the classes.
    let classes = y.iter().enumerate().map(|(i, y)| f64::from((*y > 0.1) != (i % 4 == 0))).collect();
    let counts = map(&|y| (1.5 * y.abs() + y).round().max(0.0));
    match which {
        0 => (Bernoulli::Logit.into(), classes),
        1 => (Bernoulli::Probit.into(), classes),
        2 => (Poisson::Exp.into(), counts),
        3 => (NegativeBinomial::new(2.5).into(), counts),
        4 => (Gamma::new(3.0).into(), map(&|y| (0.7 * y).exp())),
        _ => (StudentT::new(0.5, 5.0).into(), y.to_vec()),
    }
}

#[test]
fn gaussian_noise_has_the_evidence_the_gradient_and_the_posterior_of_the_closed_form() {
    for correlated in [false, true] {
        let problem = problem(4, [7, 4, 3], correlated);
        let data = Dataset {
            x: problem.x.as_ref(),
            targets: Targets { weights: &problem.weights, ..Targets::of(&problem.y) },
        };
        let linear = linear_model(&problem.model.effects, Gaussian::new(0.4).into());
        for (model, weights) in [(&problem.model, WeightPrior::Unit), (&linear, WeightPrior::Profiled)] {
            let (want, want_gradient, closed) = solved(model, data, GroupedBound { weights, ..VFE });
            let (value, gradient, posterior) = solved(model, data, elbo(weights, 1.0));
            assert_close(value, want, 1e-11, "value");
            assert_all_close(&gradient, &want_gradient, 1e-8, "gradient");
            let [got, want] = [&posterior, &closed].map(|posterior| posterior.marginals(data.x));
            assert_all_close(&got.mean, &want.mean, 1e-9, "mean");
            assert_all_close(&got.variance, &want.variance, 1e-9, "variance");
        }
    }
}

/// Finds the best q(η) = N(μ, S) of all rows under the prior N(o, V), by dense algebra and damped steps in
/// natural parameters from the prior mean. Returns minus the ELBO, μ and the diagonal of S.
fn dense_posterior(
    likelihood: &dyn OneFunction,
    y: &[f64],
    offset: f64,
    v: &Mat<f64>,
) -> (f64, Vec<f64>, Vec<f64>) {
    let n = y.len();
    let prior = inverse(v.as_ref());
    let (mut precision, mut shift) = (vec![0.3; n], vec![0.0; n]);
    let mut integrator = Integrator::new(None);
    let mut found = (f64::NAN, Vec::new(), Vec::new());
    for _ in 0..400 {
        let cov = inverse(with_diagonal(prior.clone(), |i| precision[i]).as_ref());
        let mean = &cov * Mat::from_fn(n, 1, |i, _| shift[i]);
        let mut value = 0.0;
        for i in 0..n {
            let at = Observation::of(y[i]);
            let latent = LatentMarginal::new(offset + mean[(i, 0)], cov[(i, i)]);
            let row = Row::new(at, latent);
            let local = likelihood.expectation(Expectation::ExpectedLog, row, &mut [], &mut integrator);
            value -= local.value;
            let d = -2.0 * local.variance;
            precision[i] = 0.6 * precision[i] + 0.4 * d;
            shift[i] = 0.6 * shift[i] + 0.4 * (local.mean + d * mean[(i, 0)]);
        }
        let log_det = |m: &Mat<f64>| {
            let factor = m.llt(Side::Lower).expect("positive definite");
            2.0 * (0..n).map(|i| factor.L()[(i, i)].ln()).sum::<f64>()
        };
        let trace: f64 = (0..n).map(|i| (0..n).map(|j| prior[(i, j)] * cov[(j, i)]).sum::<f64>()).sum();
        let square = (mean.transpose() * &prior * &mean)[(0, 0)];
        value += 0.5 * (trace + square - n as f64 + log_det(v) - log_det(&cov));
        let means = mean.col(0).iter().map(|mean| offset + mean);
        found = (value, means.collect(), (0..n).map(|i| cov[(i, i)]).collect());
    }
    found
}

#[test]
fn the_bound_and_the_marginals_are_those_of_a_dense_variational_posterior() {
    let n = 24;
    let mut normals = Normals::new(17);
    let numbers: Vec<f64> = (0..n).map(|_| normals.next()).collect();
    // A grouping of a few levels; a single level; one level per row; and effects of almost no variance.
    for (levels, deviation) in [(5, 0.8), (1, 0.8), (n, 0.8), (5, 1e-7)] {
        for which in [0, 2, 3, 4] {
            let x = Mat::from_fn(n, 2, |i, j| if j == 0 { 0.37 * i as f64 } else { (i % levels) as f64 });
            let (likelihood, y) = observed(which, &numbers);
            let start = model(3, "matern32", 1, 4, Jitter::Absolute(1e-9));
            let kernel = start.layer().inducing().expect("inducing inputs").kernel().boxed_clone();
            // With an inducing input at every row the variational posterior is that of the exact process.
            let layer =
                InducingPrior::new(kernel, x.as_ref().subcols(0, 1).to_owned(), Jitter::Absolute(1e-9));
            let layer = layer.expect("a layer").with_mean(0.3, false);
            let mut prior = LatentModel::new(layer.into(), likelihood.clone(), false);
            prior.effects = Effects::new(1, vec![term("g", levels, 0, &[])]);
            prior.effects.start(0, &[deviation]);
            let model = prior.factorised().expect("K_uu factorises");

            let layer = model.layer().inducing().expect("inducing inputs");
            let k = gram(layer.kernel(), x.as_ref().subcols(0, 1));
            let same = |i: usize, j: usize| if x[(i, 1)] == x[(j, 1)] { deviation * deviation } else { 0.0 };
            let v = Mat::from_fn(n, n, |i, j| k[(i, j)] + same(i, j));
            let one = likelihood.one().expect("one function");
            let (want, mean, variance) = dense_posterior(one, &y, 0.3, &v);

            let (value, _, posterior) =
                solved(&model, Dataset::of(x.as_ref(), &y), elbo(WeightPrior::Unit, 1.0));
            let case = format!("{}, {levels} levels of sd {deviation}", likelihood.name());
            assert_close(value, want, 1e-6, &case);
            let marginals = posterior.marginals(x.as_ref());
            assert_all_close(&marginals.mean, &mean, 1e-5, &case);
            assert_all_close(&marginals.variance, &variance, 1e-5, &case);
        }
    }
}

#[test]
fn bounds_gradients_and_predictions_are_those_of_the_closed_form() {
    for (correlated, fitc) in [(false, false), (true, false), (true, true)] {
        let problem = problem(4, [7, 4, 3], correlated);
        let weights = if fitc { &[][..] } else { &problem.weights };
        let data = Dataset { x: problem.x.as_ref(), targets: Targets { weights, ..Targets::of(&problem.y) } };
        let bound = GroupedBound { fitc, ..FITC };
        let (want, want_gradient, closed) = solved(&problem.model, data, bound);
        let objective = if fitc { Objective::fitc() } else { Objective::elbo(1.0) };
        let mut summed =
            CollapsedObjective::new(problem.model.clone().with_summed_effects(), data, objective);
        let theta = summed.start();
        assert_close(summed.solve(&theta).expect("a value"), want, 1e-11, "value");
        let (_, gradient) = summed.natural_gradient().expect("a gradient");
        assert_all_close(&gradient, &want_gradient, 1e-8, "gradient");
        let (model, q) = summed.into_parts();
        // Levels 50 and 51 are new, and two rows share one of them.
        let mut x = problem.x.clone();
        [(0, 50.0), (1, 50.0), (2, 51.0), (3, POPULATION)]
            .into_iter()
            .for_each(|(row, code)| x[(row, 2)] = code);
        let [got, want] = [&Posterior::new(&model, [q]), &closed]
            .map(|p| (p.marginals(x.as_ref()), p.covariance(x.as_ref())));
        assert_all_close(&got.0.mean, &want.0.mean, 1e-8, "mean");
        assert_all_close(&got.0.variance, &want.0.variance, 1e-8, "variance");
        assert_matrices_close(got.1.as_ref(), want.1.as_ref(), 1e-8, "covariance");
    }
}

#[test]
fn the_joint_distribution_of_sites_is_a_stationary_point_of_the_bound() {
    for which in 0..6 {
        let problem = problem(9, [6, 4, 3], true);
        let (likelihood, y) = observed(which, &problem.y);
        let model = LatentModel { likelihood, ..problem.model.clone() };
        let data = Dataset { x: problem.x.as_ref(), targets: Targets::of(&y) };
        let (want, want_gradient, posterior) = solved(&model, data, elbo(WeightPrior::Unit, 1.0));
        let joint = posterior.joint(0).expect("effects");
        let q = Normal::new(joint.mean().to_vec(), joint.cov().to_dense()).expect("positive definite");
        let mut svgp = VariationalModel::new(model.with_summed_effects(), q, Objective::elbo(1.0), y.len());
        let value = svgp.evaluate(Batch { x: data.x, targets: data.targets, scale: 1.0 }, true);
        assert_close(value, want, 1e-9, &format!("{which}, value"));
        assert_all_close(svgp.theta_gradient(), &want_gradient, 1e-6, &format!("{which}, gradient"));
        // The gradient of the ELBO in the mean of q is that of the data and q's mean itself.
        for (data, mean) in svgp.q_gradient().mean.iter().zip(joint.mean()) {
            assert_close(data + mean, 0.0, 1e-6, &format!("{which}, mean"));
        }
    }
}

/// Returns a model of several functions with the effects of the problem for each of its layers, inputs and targets.
pub fn of_several(which: usize, seed: u64) -> (LatentModel, Mat<f64>, Vec<f64>) {
    let problem = problem(seed, [5, 4, 3], true);
    let mut normals = Normals::new(seed);
    let (kind, y): (_, Vec<f64>) = match which {
        0 => (LikelihoodKind::Softmax, problem.y.iter().map(|y| (1.0 + y).round().clamp(0.0, 2.0)).collect()),
        _ => (
            LikelihoodKind::ZeroInflatedPoisson,
            problem.y.iter().map(|y| (2.0 * y).round().max(0.0)).collect(),
        ),
    };
    let likelihood = Registry::default().likelihood(kind, 3).expect("a built-in likelihood");
    let (functions, shared) = (likelihood.functions(), likelihood.alike());
    let prior = problem.model.to_prior().layer().prior().expect("inducing inputs").clone();
    let layer = |means: usize| prior.clone().with_means(vec![0.2; means], false).into();
    let layers = if shared { vec![layer(functions)] } else { (0..functions).map(|_| layer(1)).collect() };
    let mut prior = LatentModel::of_layers(layers, likelihood, false);
    prior.effects = Effects::of_layers(vec![problem.model.effects.clone(); prior.layers.len()]);
    let mut values = prior.natural();
    values.iter_mut().for_each(|value| *value *= (0.1 * normals.next()).exp());
    prior.set_natural(&values);
    (prior.factorised().expect("a factor"), problem.x, y)
}
