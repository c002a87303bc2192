//! Finite differences of every objective through the whole chain: kernel, mean, noise, Z, and q.

use faer::Mat;
use proptest::prelude::*;
use sparsegp::collapsed::Dataset;
use sparsegp::gradient::Batch;
use sparsegp::hyper::HyperObjective;
use sparsegp::kernels::Prior;
use sparsegp::latent::Jitter;
use sparsegp::model::LatentModel;
use sparsegp::objective::Objective;
use sparsegp::training::{CollapsedObjective, VariationalModel};
use sparsegp::variational::{Normal, Parameterization};
use sparsegp_testkit::problems::{Normals, data, model, posterior};

const KERNELS: [&str; 7] = [
    "rbf(ard)",
    "matern52(ard)",
    "matern32 + linear(ard)",
    "rational_quadratic * periodic[0:1]",
    "rbf[0:1] + rbf(ard)[1:2] + constant",
    "arccosine(order=1) + white",
    "polynomial(degree=2) + matern12",
];

/// Steps of the finite differences, from the least rounding error to the least truncation error.
/// Matérn 1/2 has a kink where an input equals an inducing input, so only steps that stay on one
/// side of the kink give the derivative.
const STEPS: [f64; 3] = [1e-4, 1e-5, 1e-6];

/// A directional derivative by central differences.
struct Difference {
    value: f64,
    /// The difference between two step lengths.
    truncation: f64,
    /// The rounding error of a value of this size, divided by the step.
    rounding: f64,
}

/// Returns the derivative of `value` at `at` along `direction`, extrapolated from steps h and 2 h
/// (Richardson).
fn difference(value: &mut dyn FnMut(&[f64]) -> f64, at: &[f64], direction: &[f64], h: f64) -> Difference {
    let mut central = |h: f64| {
        let shifted = |s: f64| -> Vec<f64> { at.iter().zip(direction).map(|(a, d)| a + s * h * d).collect() };
        (value(&shifted(1.0)) - value(&shifted(-1.0))) / (2.0 * h)
    };
    let (coarse, fine) = (central(2.0 * h), central(h));
    Difference {
        value: (4.0 * fine - coarse) / 3.0,
        truncation: (fine - coarse).abs(),
        rounding: 1e-13 / h * (1.0 + value(at).abs()),
    }
}

/// Compares an analytic gradient with finite differences along random directions.
fn check(
    value: &mut dyn FnMut(&[f64]) -> f64,
    at: &[f64],
    gradient: &[f64],
    seed: u64,
) -> Result<(), TestCaseError> {
    let mut normals = Normals::new(seed);
    for _ in 0..3 {
        let direction = normals.vec(at.len());
        let expected: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let mut seen = Vec::new();
        let agrees = STEPS.into_iter().any(|h| {
            let found = difference(value, at, &direction, h);
            seen.push(found.value);
            (found.value - expected).abs()
                <= 1e-6 * (1.0 + expected.abs()) + 0.1 * found.truncation + found.rounding
        });
        prop_assert!(agrees, "finite differences {seen:?}, analytic {expected}");
    }
    Ok(())
}

fn moved(start: &LatentModel, natural: &[f64]) -> LatentModel {
    let mut model = start.clone();
    model.set_natural(natural).expect("K_uu factorises nearby");
    model
}

fn jitter(relative: bool) -> Jitter {
    if relative { Jitter::Relative(1e-3) } else { Jitter::Absolute(1e-3) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn svgp_in_theta_and_z(
        seed in 0u64..1000, kernel in 0..KERNELS.len(), beta in 0.1f64..3.0, relative: bool,
        sites: bool, direct: bool,
    ) {
        let (x, y) = data(seed, 2, 23);
        let start = model(seed, KERNELS[kernel], 2, 6, jitter(relative));
        let q = posterior(seed, 6);
        let parameterization = if sites { Parameterization::Sites } else { Parameterization::Whitened };
        let build = |model: LatentModel| {
            VariationalModel::new(model, q.clone(), Objective::elbo(beta), y.len())
                .with_parameterization(parameterization)
                .with_direct_guard(direct.then_some(f64::INFINITY))
        };
        let mut svgp = build(start.clone());
        svgp.evaluate(Batch::of(x.transpose(), &y, 2.5), true);
        let gradient = svgp.theta_gradient().to_vec();
        let natural = start.natural();
        let mut value = |theta: &[f64]| {
            // The model moves from the start, so the q(w) or the sites of the start are held fixed.
            let mut svgp = build(start.clone());
            assert!(svgp.set_natural(theta));
            svgp.evaluate(Batch::of(x.transpose(), &y, 2.5), false)
        };
        check(&mut value, &natural, &gradient, seed)?;
    }

    #[test]
    fn a_diagonal_posterior_in_theta_z_and_q(seed in 0u64..1000, kernel in 0..KERNELS.len(), beta in 0.1f64..3.0) {
        let (x, y) = data(seed, 2, 23);
        let m = 6;
        let start = model(seed, KERNELS[kernel], 2, m, jitter(true));
        let mut normals = Normals::new(seed);
        let q = Normal::diagonal(normals.vec(m), normals.vec(m).iter().map(|v| 0.1 + v * v).collect()).expect("q");
        let build = |model: LatentModel, q: Normal| VariationalModel::new(model, q, Objective::elbo(beta), y.len());
        let mut svgp = build(start.clone(), q.clone());
        svgp.evaluate(Batch::of(x.transpose(), &y, 2.5), true);
        let gradient = svgp.theta_gradient().to_vec();
        let natural = start.natural();
        let mut value = |theta: &[f64]| {
            build(moved(&start, theta), q.clone()).evaluate(Batch::of(x.transpose(), &y, 2.5), false)
        };
        check(&mut value, &natural, &gradient, seed)?;

        // The gradient in q is computed differently with and without the gradient in θ.
        let (trained, data_part) = (svgp.q_gradient().cov.diagonal().to_vec(), {
            svgp.evaluate(Batch::of(x.transpose(), &y, 2.5), false);
            svgp.q_gradient()
        });
        let variances = q.cov().diagonal().to_vec();
        let at: Vec<f64> = q.mean().iter().chain(&variances).copied().collect();
        let mut gradient: Vec<f64> = (0..m).map(|i| data_part.mean[i] + beta * q.mean()[i]).collect();
        for i in 0..m {
            let data = data_part.cov.diagonal()[i];
            prop_assert!((data - trained[i]).abs() <= 1e-10 * (1.0 + data.abs()));
            gradient.push(data + 0.5 * beta * (1.0 - 1.0 / variances[i]));
        }
        let mut value = |flat: &[f64]| {
            let q = Normal::diagonal(flat[..m].to_vec(), flat[m..].to_vec()).expect("q");
            build(start.clone(), q).evaluate(Batch::of(x.transpose(), &y, 2.5), false)
        };
        check(&mut value, &at, &gradient, seed)?;
    }

    #[test]
    fn svgp_in_q(seed in 0u64..1000, beta in 0.1f64..3.0, direct: bool) {
        let (x, y) = data(seed, 2, 23);
        let m = 5;
        let start = model(seed, "rbf(ard)", 2, m, jitter(true));
        let q = posterior(seed, m);
        let build = |q: Normal| {
            VariationalModel::new(start.clone(), q, Objective::elbo(beta), y.len())
                .with_direct_guard(direct.then_some(f64::INFINITY))
        };
        let mut svgp = build(q.clone());
        svgp.evaluate(Batch::of(x.transpose(), &y, 1.5), false);
        let precision = inverse(q.cov().full());
        let mut flat = q.mean().to_vec();
        let data_part = svgp.q_gradient();
        let mut gradient: Vec<f64> = (0..m).map(|i| data_part.mean[i] + beta * q.mean()[i]).collect();
        for j in 0..m {
            for i in j..m {
                flat.push(q.cov().full()[(i, j)]);
                let identity = if i == j { 1.0 } else { 0.0 };
                let g = data_part.cov.full()[(i, j)] + 0.5 * beta * (identity - precision[(i, j)]);
                // An off-diagonal number represents two entries of the symmetric matrix.
                gradient.push(if i == j { g } else { 2.0 * g });
            }
        }
        let mut value = |flat: &[f64]| {
            let mut cov = Mat::zeros(m, m);
            let mut rest = flat[m..].iter();
            for j in 0..m {
                for i in j..m {
                    let s = *rest.next().expect("a number per entry");
                    (cov[(i, j)], cov[(j, i)]) = (s, s);
                }
            }
            build(Normal::new(flat[..m].to_vec(), cov).expect("q")).evaluate(Batch::of(x.transpose(), &y, 1.5), false)
        };
        check(&mut value, &flat, &gradient, seed)?;
    }

    /// The gradient for a solver: transforms, units, priors and fixed parameters on top of the natural gradient.
    #[test]
    fn the_free_vector_with_priors(seed in 0u64..1000) {
        let (x, y) = data(seed, 2, 23);
        let mut start = model(seed, "rbf(ard) + linear", 2, 6, jitter(true)).to_prior();
        let priors = [
            Prior::LogNormal { mu: 0.1, sigma: 0.7 },
            Prior::Gamma { shape: 2.0, rate: 1.5 },
            Prior::HalfCauchy { scale: 0.8 },
            Prior::Normal { mean: 0.3, sd: 0.5 },
        ];
        let mut index = 0;
        start.for_each_parameter_mut(&mut |p| {
            p.prior = priors.get(index).copied();
            p.fixed = index == 2;
            index += 1;
        });
        let start = start.factorised().expect("K_uu factorises");
        let set = Dataset::of(x.transpose(), &y);
        let mut objective = CollapsedObjective::new(start.clone(), set, Objective::elbo(1.0));
        let theta = objective.start();
        prop_assert!(theta.len() < start.natural().len(), "something is fixed");
        let mut gradient = vec![0.0; theta.len()];
        objective.value_and_gradient(&theta, &mut gradient);
        let mut ignored = gradient.clone();
        let mut value = |theta: &[f64]| objective.value_and_gradient(theta, &mut ignored);
        check(&mut value, &theta, &gradient, seed)?;
    }

    #[test]
    fn collapsed_bounds_in_theta_and_z(
        seed in 0u64..1000, kernel in 0..KERNELS.len(), beta in 0.1f64..3.0, relative: bool, fitc: bool,
    ) {
        let (x, y) = data(seed, 2, 23);
        let set = Dataset::of(x.transpose(), &y);
        let start = model(seed, KERNELS[kernel], 2, 6, jitter(relative));
        let bound = if fitc { Objective::fitc() } else { Objective::elbo(beta) };
        let evaluate = |model: LatentModel| {
            let found = CollapsedObjective::new(model, set, bound).natural_gradient();
            found.expect("the bound can be evaluated")
        };
        let (_, gradient) = evaluate(start.clone());
        let natural = start.natural();
        let mut value = |theta: &[f64]| evaluate(moved(&start, theta)).0;
        check(&mut value, &natural, &gradient, seed)?;
    }
}

fn inverse(a: faer::MatRef<'_, f64>) -> Mat<f64> {
    use faer::linalg::solvers::DenseSolveCore;
    a.llt(faer::Side::Lower).expect("positive definite").inverse()
}
