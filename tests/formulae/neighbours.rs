//! Grouped effects with neighbours: all predecessors give the exact GP with effects, no neighbours
//! give FITC with effects, some neighbours agree with dense algebra; finite differences.

use super::grouped::{FITC, Problem, Reference, effect_covariance, problem, term};
use faer::{Mat, MatRef};
use proptest::prelude::*;
use sparsegp::collapsed::{Dataset, solve};
use sparsegp::effects::{EffectTerm, Effects};
use sparsegp::gradient::{BatchPass, GivenRows, Problem as PassProblem, Wanted};
use sparsegp::hyper::HyperObjective;
use sparsegp::kernels::{Inputs, Scratch};
use sparsegp::latent::{InducingLayer, LatentLayer};
use sparsegp::linalg::{Factorizer, log_det, solve_lower};
use sparsegp::model::LatentModel;
use sparsegp::neighbours::{COMPARISONS, Source, Windows, nearest_before};
use sparsegp::objective::{Objective, Targets};
use sparsegp::options::{Keeping, LossKind, NeighbourPlan};
use sparsegp::training::{GroupedObjective, NeighbourObjective};
use sparsegp::variational::{Family, Normal};
use sparsegp_testkit::problems::Normals;
use sparsegp_testkit::reference::*;

fn plan(count: usize, loss: LossKind) -> NeighbourPlan {
    NeighbourPlan { count, loss, beta: 1.0, keeping: Keeping::default(), nodes: None }
}

fn objective<'a>(
    model: &LatentModel,
    data: Dataset<'a>,
    count: usize,
    loss: LossKind,
) -> NeighbourObjective<'a> {
    let mut objective = NeighbourObjective::new(model.clone(), data, plan(count, loss), 3).expect("a GP");
    objective.look_up(data.len(), count);
    objective
}

/// Returns value and gradient in the free parameters at `theta`.
fn evaluated(objective: &mut dyn HyperObjective, theta: &[f64]) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; theta.len()];
    let value = objective.value_and_gradient(theta, &mut gradient);
    (value, gradient)
}

#[test]
fn all_predecessors_give_the_evidence_and_predictions_of_the_exact_gp() {
    let reference = Reference::read();
    let Reference { z, y, train, test, .. } = &reference;
    let value = |name: &str| reference.value(name);
    let (model, data) = (reference.model(z, 1e-6), Dataset::of(train.as_ref(), y));
    for (case, count, tolerance) in [("exact", y.len(), 1e-7), ("fitc", 0, VALUE_TOLERANCE)] {
        let mut objective = objective(&model, data, count, LossKind::Elbo);
        let want = reference.case(case);
        let theta = objective.start();
        let (found, slopes) = evaluated(&mut objective, &theta);
        assert_close(-found, number(&want["log_evidence"]), tolerance, case);

        // The order is variance, lengthscales, noise, mean; then the variances of g1, of its slope
        // and of g2.
        let expected = numbers(&want["gradient"]);
        for direction in 0..theta.len() {
            let mut natural = |step: f64| {
                let mut moved = theta.clone();
                moved[direction] += step;
                objective.solve(&moved).expect("a value");
                objective.model().natural()
            };
            let (above, below) = (natural(1e-5), natural(-1e-5));
            let change = |at: usize| (above[at] - below[at]) / 2e-5;
            let last = above.len() - 3;
            let of_variance = |at: usize, variance: f64| 2.0 * variance.sqrt() * change(last + at);
            let changes = [change(0), change(1), change(2), change(4), change(3)].into_iter().chain([
                of_variance(0, value("var_g1")),
                of_variance(1, value("var_g1_slope")),
                of_variance(2, value("var_g2")),
            ]);
            let is_inducing = (5..last).any(|at| change(at) != 0.0);
            let wanted: f64 = changes.zip(&expected).map(|(change, slope)| -change * slope).sum();
            // The exact GP does not depend on inducing inputs.
            if !is_inducing || case == "exact" {
                assert_close(
                    slopes[direction],
                    wanted,
                    10.0 * GRADIENT_TOLERANCE,
                    &format!("{case} {direction}"),
                );
            }
        }
        objective.solve(&theta).expect("a value");
        let posterior = objective.posterior().expect("a posterior");
        let marginals = posterior.marginals(test.as_ref());
        let covariance = posterior.covariance(test.as_ref());
        let joint = (case == "exact").then(|| exact_covariance(&model, [train, test]));
        let want = &want["predictions"];
        for (i, (mean, variance)) in
            numbers(&want["mean"]).into_iter().zip(numbers(&want["latent_variance"])).enumerate()
        {
            assert_close(marginals.mean[i], mean, tolerance, &format!("{case}, mean {i}"));
            assert_close(marginals.variance[i], variance, tolerance, &format!("{case}, variance {i}"));
            assert_close(covariance[(i, i)], variance, tolerance, &format!("{case}, covariance {i}"));
            let row = joint.iter().flat_map(|joint| joint.row(i).iter().enumerate());
            row.for_each(|(j, &want)| {
                assert_close(covariance[(i, j)], want, tolerance, &format!("covariance {i} {j}"))
            });
        }
    }
}

/// The posterior covariance of the exact GP with effects at the second rows given the first ones.
fn exact_covariance(model: &LatentModel, [train, test]: [&Mat<f64>; 2]) -> Mat<f64> {
    let layer = model.layer().inducing().expect("a sparse GP");
    let prior = |left: &Mat<f64>, right: &Mat<f64>| {
        let mut k = Mat::zeros(left.nrows(), right.nrows());
        let [left_inputs, right_inputs] = [left, right].map(|x| x.as_ref().subcols(0, 2));
        let inputs = Inputs::Cross { left: left_inputs, right: right_inputs };
        layer.kernel().eval(inputs, k.as_mut(), &mut Scratch::new());
        k + effect_covariance(&model.effects, left, right)
    };
    let (mut v, cross) = (prior(train, train), prior(train, test));
    (0..train.nrows()).for_each(|i| v[(i, i)] += model.noise_variance().expect("Gaussian noise"));
    prior(test, test) - cross.transpose() * dense_solve(&v, &cross)
}

#[test]
fn no_neighbours_give_the_objective_and_predictions_of_fitc() {
    let Problem { x, y, model, .. } = problem(11, [9, 4, 3], true);
    let data = Dataset::of(x.as_ref(), &y);
    let mut wanted = GroupedObjective::new(model.clone(), data, FITC);
    let mut found = objective(&model, data, 0, LossKind::Elbo);
    let theta = found.start();
    let (value, gradient) = evaluated(&mut found, &theta);
    let (expected, slopes) = evaluated(&mut wanted, &theta);
    assert_close(value, expected, 1e-9, "value");
    for (at, (slope, expected)) in gradient.into_iter().zip(slopes).enumerate() {
        assert_close(slope, expected, 1e-8, &format!("slope {at}"));
    }
}

/// Returns `A = L⁻¹ K_uf`, a column for each row.
fn features(layer: &InducingLayer, x: MatRef<'_, f64>) -> Mat<f64> {
    let (n, m) = (x.nrows(), layer.dim());
    let mut raw = Mat::zeros(m, n);
    let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
    layer.features(x, raw.as_mut(), &mut base, &mut offset, &mut Scratch::new());
    layer.whitening().expect("a whitening").matrix * raw
}

#[test]
fn some_neighbours_give_the_density_by_dense_algebra() {
    let Problem { x, y, model, .. } = problem(5, [8, 5, 3], true);
    let (n, k, noise) = (y.len(), 4, 0.3);
    let layer = model.layer().inducing().expect("a sparse GP");
    let inputs = x.as_ref().subcols(0, 2);
    let order: Vec<u32> = (0..n as u32).map(|i| (i * 13) % n as u32).collect();
    let lists = nearest_before(inputs, &order, &order, k, COMPARISONS);
    let windows = Windows::new(&order, &lists, n);
    let source = Source { x: x.as_ref(), y: &y, noise: &[noise], queries: None, effects: &model.effects };
    let q = [Normal::standard(Family::Full, layer.dim() + model.effects.coefficients())];
    let problem = PassProblem::new(model.layers(), &model.likelihood, Objective::fitc(), &q);
    let mut pass =
        BatchPass::given(problem.layers, problem.likelihood, problem.objective, &q, &windows, &model.effects);
    let rows = GivenRows { windows: &windows, sources: &[source], targets: Targets::of(&y), scale: 1.0 };
    pass.run_given(problem, rows, Wanted::Origin, &[]);
    let found = solve(pass.sums(), 1.0).expect("a value").value;

    // y − o ~ N(0, B⁻¹ D B⁻ᵀ + AᵀA + ZᵀΣZ), where B and D belong to the residual process and the
    // noise.
    let a = features(layer, inputs);
    let mut residual = Mat::zeros(n, n);
    layer.kernel().eval(Inputs::Gram(inputs), residual.as_mut(), &mut Scratch::new());
    residual -= a.transpose() * &a;
    (0..n).for_each(|i| residual[(i, i)] += noise);
    let (mut b, mut d) = (Mat::<f64>::identity(n, n), vec![0.0; n]);
    for i in 0..n {
        let near: Vec<usize> = lists.get(i).iter().map(|&row| row as usize).collect();
        let own = Mat::from_fn(near.len(), near.len(), |p, q| residual[(near[p], near[q])]);
        let cross = Mat::from_fn(near.len(), 1, |p, _| residual[(near[p], i)]);
        let weights = if near.is_empty() { cross.clone() } else { dense_solve(&own, &cross) };
        d[i] = residual[(i, i)]
            - (cross.transpose() * &weights).as_ref().diagonal().column_vector().iter().sum::<f64>();
        near.iter().enumerate().for_each(|(p, &row)| b[(i, row)] = -weights[(p, 0)]);
    }
    let inverse = dense_solve(&b, &Mat::identity(n, n));
    let scaled = Mat::from_fn(n, n, |i, j| inverse[(i, j)] * d[j]);
    let mut v = scaled * inverse.transpose() + a.transpose() * &a + effect_covariance(&model.effects, &x, &x);
    Factorizer::new(n).cholesky(v.as_mut()).expect("positive definite");
    let mean = layer.mean().values[0];
    let mut c: Vec<f64> = y.iter().map(|y| y - mean).collect();
    solve_lower(v.as_ref(), &mut c);
    let square: f64 = c.iter().map(|c| c * c).sum();
    let wanted = 0.5 * (n as f64 * std::f64::consts::TAU.ln() + log_det(v.as_ref()) + square);
    assert_close(found, wanted, 1e-9, "minus the log density");
}

fn dense_solve(matrix: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
    use faer::linalg::solvers::Solve;
    matrix.partial_piv_lu().solve(right)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gradients_are_those_of_finite_differences(
        seed in 0u64..1000, a in 1usize..30, b in 1usize..9, k in 0usize..9, direct: bool, correlated: bool
    ) {
        let Problem { x, y, model, .. } = problem(seed, [a, b, 3], correlated);
        let loss = if direct { LossKind::Log } else { LossKind::Elbo };
        let mut objective = objective(&model, Dataset::of(x.as_ref(), &y), k, loss);
        let theta = objective.start();
        let (_, gradient) = evaluated(&mut objective, &theta);
        let mut normals = Normals::new(seed);
        for _ in 0..3 {
            let direction = normals.vec(theta.len());
            let mut at = |step: f64| {
                let moved: Vec<f64> = theta.iter().zip(&direction).map(|(t, d)| t + step * d).collect();
                objective.solve(&moved).expect("a value")
            };
            let mut central = |h: f64| (at(h) - at(-h)) / (2.0 * h);
            let (coarse, fine) = (central(2e-4), central(1e-4));
            let (got, error) = ((4.0 * fine - coarse) / 3.0, (fine - coarse).abs());
            let expected: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
            prop_assert!(
                (got - expected).abs() <= 1e-6 * (1.0 + expected.abs()) + 0.1 * error,
                "finite differences {got}, analytic {expected}, step error {error}"
            );
        }
    }
}

#[test]
fn effects_without_variance_leave_the_objective_without_effects() {
    let Problem { x, y, mut model, .. } = problem(2, [9, 4, 3], false);
    model.effects = Effects::new(2, vec![term("a", 9, 0, &[]), EffectTerm::intercepts("b", 4, 1)]);
    (0..2).for_each(|term| model.effects.start(term, &[0.0]));
    let data = Dataset::of(x.as_ref(), &y);
    let inputs = x.as_ref().subcols(0, 2);
    for loss in [LossKind::Elbo, LossKind::Log] {
        let mut with = objective(&model, data, 6, loss);
        let theta = with.start();
        let found = evaluated(&mut with, &theta).0;
        let mut plain = model.clone();
        plain.effects = Effects::NONE.clone();
        let mut without = objective(&plain, Dataset::of(inputs, &y), 6, loss);
        let theta = without.start();
        let wanted = evaluated(&mut without, &theta).0;
        assert_close(found, wanted, 1e-12, "the objective");
    }
}
