//! Grouped effects as features of a layer: the bound, its gradient and predictions against the closed form that eliminates a grouping, the
//! optimum of the sites, and finite differences of direct losses.

use crate::grouped::{FITC, problem, solved};
use crate::grouped_sites::{elbo, observed};
use crate::prelude::*;

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
        assert_eq!(gradient.len(), want_gradient.len());
        for (at, (got, want)) in gradient.iter().zip(&want_gradient).enumerate() {
            assert_close(*got, *want, 1e-8, &format!("gradient {at}"));
        }
        let (model, q) = summed.into_parts();
        // Levels 50 and 51 are new, and two rows share one of them.
        let mut x = problem.x.clone();
        [(0, 50.0), (1, 50.0), (2, 51.0), (3, POPULATION)]
            .into_iter()
            .for_each(|(row, code)| x[(row, 2)] = code);
        let [got, want] = [&Posterior::new(&model, [q]), &closed]
            .map(|p| (p.marginals(x.as_ref()), p.covariance(x.as_ref())));
        for i in 0..x.nrows() {
            assert_close(got.0.mean[i], want.0.mean[i], 1e-8, "mean");
            assert_close(got.0.variance[i], want.0.variance[i], 1e-8, "variance");
            (0..x.nrows()).for_each(|j| assert_close(got.1[(i, j)], want.1[(i, j)], 1e-8, "covariance"));
        }
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
        for (got, want) in svgp.theta_gradient().iter().zip(&want_gradient) {
            assert_close(*got, *want, 1e-6, &format!("{which}, gradient"));
        }
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
