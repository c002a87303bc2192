//! Finite differences of every objective through the whole chain: kernel, mean, noise, Z, q, effects and sites.

use super::grouped::{self, FITC, Problem, VFE, linear_model};
use super::grouped_sites::{elbo, observed, of_several};
use crate::prelude::*;

const KERNELS: [&str; 7] = [
    "rbf(ard)",
    "matern52(ard)",
    "matern32 + linear(ard)",
    "rational_quadratic * periodic[0:1]",
    "rbf[0:1] + rbf(ard)[1:2] + constant",
    "arccosine(order=1) + white",
    "polynomial(degree=2) + matern12",
];

const M: usize = 6;

fn jitter(relative: bool) -> Jitter {
    if relative { Jitter::Relative(1e-3) } else { Jitter::Absolute(1e-3) }
}

fn q(seed: u64, diagonal: bool) -> Normal {
    if !diagonal {
        return posterior(seed, M);
    }
    let mut normals = Normals::new(seed);
    let variances = normals.vec(M).iter().map(|v| 0.1 + v * v).collect();
    Normal::diagonal(normals.vec(M), variances).expect("q")
}

/// Returns the model with all rows as fixed inducing inputs.
fn every_row(model: LatentModel, x: &Mat<f64>) -> LatentModel {
    let layer = model.layer().inducing().expect("inducing inputs");
    let prior = InducingPrior::new(layer.kernel().boxed_clone(), x.transpose().to_owned(), layer.jitter());
    let prior = prior.expect("inputs").with_mean(0.3, false);
    LatentModel::new(prior.into(), Gaussian::new(0.2), true).factorised().expect("a factor")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn svgp_in_theta_and_z(
        seed in 0u64..1000, kernel in 0..KERNELS.len(), beta in 0.1f64..3.0, relative: bool,
        sites: bool, diagonal: bool, direct: bool,
    ) {
        let (x, y) = data(seed, 2, 23);
        let start = model(seed, KERNELS[kernel], 2, M, jitter(relative));
        let parameterization =
            if sites && !diagonal { Parameterization::Sites } else { Parameterization::Whitened };
        // The model moves from the start, so the q(w) or the sites of the start are held fixed.
        let evaluated = |theta: &[f64]| {
            let mut svgp = VariationalModel::new(start.clone(), q(seed, diagonal), Objective::elbo(beta), y.len())
                .with_parameterization(parameterization)
                .with_direct_guard(direct.then_some(f64::INFINITY));
            assert!(svgp.set_natural(theta));
            let value = svgp.evaluate(Batch::of(x.transpose(), &y, 2.5), true);
            (value, svgp.theta_gradient().to_vec())
        };
        let natural = start.natural();
        let (_, gradient) = evaluated(&natural);
        check_gradient(&mut |theta| evaluated(theta).0, &natural, &gradient, seed)?;
    }

    #[test]
    fn svgp_in_q(
        seed in 0u64..1000, kernel in 0..KERNELS.len(), beta in 0.1f64..3.0, direct: bool, diagonal: bool
    ) {
        let (x, y) = data(seed, 2, 23);
        let (start, q) = (model(seed, KERNELS[kernel], 2, M, jitter(true)), q(seed, diagonal));
        let evaluated = |q: &Normal, train: bool| {
            let mut svgp = VariationalModel::new(start.clone(), q.clone(), Objective::elbo(beta), y.len())
                .with_direct_guard(direct.then_some(f64::INFINITY));
            let value = svgp.evaluate(Batch::of(x.transpose(), &y, 1.5), train);
            (value, svgp.q_gradient().mean.to_vec(), svgp.q_gradient().cov.to_dense())
        };
        // The covariance as free numbers: its diagonal, or its lower triangle.
        let places: Vec<(usize, usize)> =
            (0..M).flat_map(|j| (j..M).map(move |i| (i, j))).filter(|(i, j)| !diagonal || i == j).collect();
        let flat = |mean: &[f64], cov: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            mean.iter().copied().chain(places.iter().map(|&(i, j)| cov(i, j))).collect()
        };
        let moved = |flat: &[f64]| {
            let mut cov = Mat::zeros(M, M);
            for (&(i, j), s) in places.iter().zip(&flat[M..]) {
                (cov[(i, j)], cov[(j, i)]) = (*s, *s);
            }
            let mean = flat[..M].to_vec();
            if diagonal { Normal::diagonal(mean, flat[M..].to_vec()) } else { Normal::new(mean, cov) }.expect("q")
        };
        // The gradient in q is computed differently with and without the gradient in θ.
        let ((_, mean, data), (_, _, trained)) = (evaluated(&q, false), evaluated(&q, true));
        let (cov, precision) = (q.cov().to_dense(), inverse(q.cov().to_dense().as_ref()));
        for &(i, j) in &places {
            prop_assert!((data[(i, j)] - trained[(i, j)]).abs() <= 1e-10 * (1.0 + data[(i, j)].abs()));
        }
        let mean: Vec<f64> = mean.iter().zip(q.mean()).map(|(g, m)| g + beta * m).collect();
        let gradient = flat(&mean, &|i, j| {
            let identity = if i == j { 1.0 } else { 0.0 };
            // An off-diagonal number represents two entries of the symmetric matrix.
            (2.0 - identity) * (data[(i, j)] + 0.5 * beta * (identity - precision[(i, j)]))
        });
        let start = flat(q.mean(), &|i, j| cov[(i, j)]);
        check_gradient(&mut |flat| evaluated(&moved(flat), false).0, &start, &gradient, seed)?;
    }

    #[test]
    fn collapsed_bounds(
        seed in 0u64..1000, kernel in 0..KERNELS.len(), beta in 0.1f64..3.0, relative: bool, way in 0usize..3,
    ) {
        let (x, y) = data(seed, 2, 23);
        let start = model(seed, KERNELS[kernel], 2, M, jitter(relative));
        let bound = [Objective::elbo(beta), Objective::fitc(), Objective::square(beta)][way];
        let mut objective = CollapsedObjective::new(start, Dataset::of(x.transpose(), &y), bound);
        let theta = objective.start();
        check_objective(&mut objective, &theta, seed)?;
    }

    /// With every row as an inducing input, the whole kernel matrix gives the evidence.
    #[test]
    fn exact_evidence(seed in 0u64..1000, kernel in 0..KERNELS.len()) {
        let (x, y) = data(seed, 2, 23);
        let start = every_row(model(seed, KERNELS[kernel], 2, M, Jitter::EXACT), &x);
        let mut objective = CollapsedObjective::new(start, Dataset::of(x.transpose(), &y), Objective::elbo(1.0));
        let theta = objective.start();
        check_objective(&mut objective, &theta, seed)?;
    }

    #[test]
    fn bounds_with_grouped_effects(
        seed in 0u64..1000, a in 1usize..40, b in 1usize..9, way in 0usize..8, which in 0usize..6, correlated: bool
    ) {
        let Problem { x, y, weights, model } = grouped::problem(seed, [a, b, 3], correlated);
        let linear = |likelihood| linear_model(&model.effects, likelihood);
        let noise = || Gaussian::new(0.4).into();
        let beta = if seed % 3 == 0 { 0.5 } else { 1.0 };
        let of = |weights| GroupedBound { weights, ..VFE };
        let (likelihood, targets) = observed(which, &y);
        let (start, bound, y) = match way {
            0 => (model.clone(), VFE, y),
            1 => (model.clone(), FITC, y),
            2 => (linear(noise()), of(WeightPrior::Profiled), y),
            3 => (linear(noise()), of(WeightPrior::Integrated), y),
            4 | 5 => (LatentModel { likelihood, ..model.clone() }, elbo(WeightPrior::Unit, beta), targets),
            _ => (linear(likelihood), elbo(WeightPrior::Profiled, beta), targets),
        };
        let weights = if matches!(way, 1..4) || seed % 2 == 0 { &[][..] } else { &weights };
        let data = Dataset { x: x.as_ref(), targets: Targets { weights, ..Targets::of(&y) } };
        let mut objective = GroupedObjective::new(start, data, bound);
        let theta = objective.start();
        check_objective(&mut objective, &theta, seed)?;
    }

    /// Classes share a layer, and zero-inflated counts have one for each function.
    #[test]
    fn direct_losses_of_several_functions_with_effects(seed in 0u64..1000, which in 0usize..2) {
        let (model, x, y) = of_several(which, seed);
        let model = model.with_summed_effects();
        let q = (0..model.likelihood.functions() as u64).map(|process| posterior(seed + process, model.layer().dim()));
        let mut svgp = VariationalModel::new(model.clone(), q.collect::<Vec<_>>(), Objective::dlm(0.7), y.len());
        let mut evaluated = |natural: &[f64]| {
            assert!(svgp.set_natural(natural));
            (svgp.evaluate(Batch::of(x.as_ref(), &y, 1.0), true), svgp.theta_gradient().to_vec())
        };
        let natural = model.natural();
        let (_, gradient) = evaluated(&natural);
        check_gradient(&mut |natural| evaluated(natural).0, &natural, &gradient, seed)?;
    }

    #[test]
    fn rows_given_their_neighbours(
        seed in 0u64..1000, kernel in 0..KERNELS.len(), inducing: bool, k in 0usize..9, loss in 0usize..3,
        beta in 0.3f64..1.5,
    ) {
        let (x, y) = data(seed, 2, 31);
        let model = model(seed, KERNELS[kernel], 2, if inducing { M } else { 0 }, jitter(false));
        let loss = [LossKind::Elbo, LossKind::Log, LossKind::Square][loss];
        check_neighbours(model, Dataset::of(x.transpose(), &y), (loss, beta), (31, k), seed)?;
    }

    #[test]
    fn rows_with_grouped_effects_given_their_neighbours(
        seed in 0u64..1000, a in 1usize..30, b in 1usize..9, k in 0usize..9, direct: bool, correlated: bool
    ) {
        let Problem { x, y, model, .. } = grouped::problem(seed, [a, b, 3], correlated);
        let loss = if direct { LossKind::Log } else { LossKind::Elbo };
        check_neighbours(model, Dataset::of(x.as_ref(), &y), (loss, 1.0), (31, k), seed)?;
    }

    #[test]
    fn several_functions_with_effects_given_their_neighbours(seed in 0u64..1000, which in 0usize..2, direct: bool) {
        let (model, x, y) = of_several(which, seed);
        let loss = if direct { LossKind::Log } else { LossKind::Elbo };
        check_neighbours(model, Dataset::of(x.as_ref(), &y), (loss, 1.0), (31, 5), seed)?;
    }

    /// Sites stay as they were matched at the start.
    #[test]
    fn sites_given_their_neighbours(seed in 0u64..1000, which in 3usize..6, direct: bool, terms in 20usize..=31) {
        let (x, y) = data(seed, 2, 31);
        let (likelihood, y) = observed(which, &y);
        let model = LatentModel { likelihood, ..model(seed, "matern52", 2, M, jitter(false)) };
        let (loss, terms) = if direct { (LossKind::Log, terms) } else { (LossKind::Elbo, 31) };
        check_neighbours(model, Dataset::of(x.transpose(), &y), (loss, 1.0), (terms, 5), seed)?;
    }
}

/// Checks the gradient of an objective with the nearest `k` neighbours of `terms` rows.
fn check_neighbours(
    model: LatentModel,
    data: Dataset<'_>,
    (loss, beta): (LossKind, f64),
    (terms, k): (usize, usize),
    seed: u64,
) -> Result<(), TestCaseError> {
    let plan = NeighbourPlan { count: k, loss, beta, keeping: Keeping::default(), nodes: None };
    let mut objective = NeighbourObjective::new(model, data, plan, seed).expect("a sparse GP");
    objective.look_up(terms, k);
    let theta = objective.start();
    check_objective(&mut objective, &theta, seed)
}
