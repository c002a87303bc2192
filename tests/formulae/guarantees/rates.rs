//! Rates of SR-VN and projected natural gradients against their bounds, and curvatures in the
//! coordinates of rules.

use super::{Natural, inverse, kl};
use faer::Mat;
use sparsegp::linalg::{Factorizer, dot, matvec, symmetric_eigen};
use sparsegp::variational::research::guarantees::{Curvature, ProjectedBound, SquareRootRate, price_noise};
use sparsegp::variational::{
    DataGradient, Family, Guard, MatrixRef, Normal, QUpdate, RuleOptions, SquareRoot, UpdateRule,
};
use sparsegp_testkit::problems::Normals;

/// For SR-VN on a quadratic, without shortened steps, F − F* falls by at least the contraction in
/// every step.
#[test]
fn square_root_newton_converges_at_its_rate() {
    let d = 3;
    let mut normals = Normals::new(11);
    let a = normals.mat(d, d);
    let hessian = &a * a.transpose() + Mat::<f64>::identity(d, d);
    let mode = normals.vec(d);
    let data = &hessian - Mat::<f64>::identity(d, d);
    let value = |q: &Normal| {
        let off: Vec<f64> = q.mean().iter().zip(&mode).map(|(m, z)| m - z).collect();
        let mut image = vec![0.0; d];
        matvec(hessian.as_ref(), &off, &mut image);
        let cov = q.cov().to_dense();
        let product = &hessian * &cov;
        0.5 * dot(&off, &image) + 0.5 * (0..d).map(|i| product[(i, i)]).sum::<f64>() - 0.5 * q.log_det()
    };
    let (optimum, _) = inverse(&hessian, &mut Factorizer::new(d));
    let best = value(&Normal::new(mode.clone(), optimum).expect("optimum"));
    let (eigenvalues, _) = symmetric_eigen(hessian.as_ref()).expect("finite");
    let curvature = Curvature { smoothness: eigenvalues[d - 1], strong_convexity: eigenvalues[0] };
    // Covariances stay between the start and the optimum.
    let rate = SquareRootRate::new(curvature, 1.0 / curvature.smoothness, 1.0, 1.0).expect("constants");
    let step = rate.best_step();
    let mut q = Normal::standard(Family::Full, d);
    let mut rule = SquareRoot::new(&q).with_guard(Guard::None);
    let first = value(&q) - best;
    let (mut gap, mut steps) = (first, 0);
    let cov = 0.5 * &data;
    while gap > 1e-3 * first {
        let mut mean = vec![0.0; d];
        let mut shift = vec![0.0; d];
        matvec(hessian.as_ref(), &mode, &mut shift);
        matvec(data.as_ref(), q.mean(), &mut mean);
        mean.iter_mut().zip(&shift).for_each(|(g, s)| *g -= s);
        let gradient =
            DataGradient { mean: &mean, cov: MatrixRef::Full(cov.as_ref()), curvature: None, path: None };
        rule.step(&mut q, gradient, 1.0, step);
        let next = value(&q) - best;
        assert!(next <= rate.contraction(step) * gap + 1e-12, "step {steps}: {gap} to {next}");
        (gap, steps) = (next, steps + 1);
    }
    assert!(f64::from(steps) <= rate.steps_to(step, 1e-3), "{steps} steps");
    assert!(
        rate.contraction(1.01 * rate.largest_step()) > 1.0
            && rate.steps_to(2.0 * rate.largest_step(), 0.1).is_infinite()
    );
    assert_eq!(rate.bias(0.0, 0.0), Ok(0.0));
}

/// For Bonnet–Price gradients of a Gaussian target with N samples, the mean of KL(q* ‖ q_T) over
/// runs stays below its bounds.
#[test]
fn projected_natural_gradients_stay_below_their_bounds() {
    let (d, samples, runs, steps) = (3, 5, 200, 60);
    let precision = Mat::from_fn(d, d, |i, j| if i == j { [1.0, 3.0, 10.0][i] } else { 0.2 });
    let start_cov = Mat::<f64>::identity(d, d) * faer::Scale(2.0);
    let mode = [1.0, -1.0, 0.5];
    let noise = price_noise(precision.as_ref(), start_cov.as_ref(), (0.0, f64::INFINITY)).expect("V");
    let (target_cov, _) = inverse(&precision, &mut Factorizer::new(d));
    for decreasing in [false, true] {
        let mut sums = vec![0.0; steps + 1];
        for run in 0..runs {
            let mut normals = Normals::new(run);
            let mut factorizer = Factorizer::new(d);
            let (mut s, _) = inverse(&start_cov, &mut factorizer);
            let mut eta = vec![0.0; d];
            for (t, sum) in sums.iter_mut().enumerate() {
                let q = Natural { eta: eta.clone(), precision: s.clone() };
                let (mean, _) = q.moments(&mut factorizer);
                let [a, b] = kl(&mode, &target_cov, (&mean, &s), &mut factorizer);
                *sum += (a + b) / runs as f64;
                let step = if decreasing { 2.0 / (t as f64 + 2.0) } else { 0.2 };
                // The error of the average of N samples is normal with covariance S/N.
                let (cov, _) = inverse(&s, &mut factorizer);
                let mut factor = cov.clone();
                factorizer.cholesky(factor.as_mut()).expect("positive definite");
                let u = normals.vec(d);
                let off: Vec<f64> = (0..d)
                    .map(|i| (0..=i).map(|k| factor[(i, k)] * u[k]).sum::<f64>() / (samples as f64).sqrt())
                    .collect();
                for i in 0..d {
                    let wanted: f64 = (0..d).map(|j| precision[(i, j)] * (mode[j] - off[j])).sum();
                    eta[i] = (1.0 - step) * eta[i] + step * wanted;
                }
                s = Mat::from_fn(d, d, |i, j| (1.0 - step) * s[(i, j)] + step * precision[(i, j)]);
            }
        }
        let bound = ProjectedBound::new(1.0, noise, sums[0]).expect("constants");
        for (t, got) in sums.iter().enumerate().skip(1) {
            let most = match decreasing {
                true => bound.decreasing((0..t).map(|_| samples as f64)),
                false => bound.constant(0.2, samples as f64, t),
            };
            assert!(*got <= 1.05 * most, "after {t} steps: {got}, bound {most}");
        }
    }
}

/// Exact gradients of a target N(3, 0.4) under the library's rule: the upper limit 0.1 of the variance keeps q far above the geometric rate,
/// so that no V is given; limits that never bind allow the bound.
#[test]
fn a_binding_upper_limit_has_no_bound() {
    let kl_after = |limits: (f64, f64), best: f64| {
        let options = RuleOptions { bounds: limits, ..RuleOptions::of(QUpdate::ProjectedNgvi) };
        let mut q = Normal::new(vec![0.0], Mat::from_fn(1, 1, |_, _| 0.1)).expect("a start");
        let kl = |q: &Normal| {
            let (m, s) = (q.mean()[0], q.cov().full()[(0, 0)]);
            0.5 * ((m - 3.0).powi(2) / s + best / s - 1.0 - (best / s).ln())
        };
        let (mut rule, first) = (options.build(&q), kl(&q));
        let cov = Mat::from_fn(1, 1, |_, _| 0.75);
        for _ in 0..50 {
            let mean = [1.5 * q.mean()[0] - 7.5];
            let cov = MatrixRef::Full(cov.as_ref());
            rule.step(&mut q, DataGradient { mean: &mean, cov, curvature: None, path: None }, 1.0, 0.1);
        }
        (first, kl(&q))
    };
    let precision = Mat::from_fn(1, 1, |_, _| 2.5);
    let start = Mat::from_fn(1, 1, |_, _| 0.1);
    let bound = |first| ProjectedBound::new(1.0, 0.0, first).expect("constants").constant(0.1, 1.0, 50);
    let (first, last) = kl_after((1e-4, 0.1), 0.1);
    assert!((first - 45.0).abs() < 1e-9 && (last - 2.906).abs() < 1e-3, "{first} to {last}");
    assert!(last > 10.0 * bound(first));
    assert!(price_noise(precision.as_ref(), start.as_ref(), (1e-4, 0.1)).is_err());
    let (first, last) = kl_after((1e-4, 1e4), 0.4);
    assert!(last <= bound(first), "{last}, bound {}", bound(first));
    assert!(price_noise(precision.as_ref(), start.as_ref(), (1e-4, 1e4)).is_ok());
}

/// The paper's one-step inequality, `D₊ ≤ (1 − mη) D + η²V/N_t` with N_t = (t + 1)^γ, iterated as an equality: `growing` is an upper bound
/// on it, and a close one.
#[test]
fn growing_samples_have_a_close_bound() {
    for (m, step, exponent) in [(1.0, 0.1, 1.0), (0.5, 0.01, 0.5), (1.0, 0.8, 2.0), (0.2, 0.3, 0.25)] {
        let bound = ProjectedBound::new(m, 7.0, 2.0).expect("constants");
        let mut distance = 2.0;
        for t in 0..3000 {
            distance = (1.0 - m * step) * distance + step * step * 7.0 / f64::from(t + 1).powf(exponent);
            let most = bound.growing(step, exponent, t as usize + 1);
            assert!(distance <= most * (1.0 + 1e-12), "after {t} steps: {distance}, bound {most}");
        }
        let last = bound.growing(step, exponent, 3000);
        assert!(last <= 5.0 * distance, "{last} after 3000 steps, {distance} by the recursion");
    }
}

/// Computes the smoothness of a linear model in the coordinates of the rules in two ways; a prior
/// variance p scales it by p.
#[test]
fn curvature_has_the_coordinates_of_the_rules() {
    let mut normals = Normals::new(21);
    let x = normals.mat(20, 3);
    let root = normals.mat(3, 3);
    let prior = &root * root.transpose() + Mat::<f64>::identity(3, 3);
    let plain = Curvature::linear(x.as_ref(), prior.as_ref(), 0.5).expect("valid");
    let general = Curvature::generalized(x.as_ref(), prior.as_ref(), 2.0, 2.0).expect("valid");
    let logistic = Curvature::logistic(x.as_ref(), prior.as_ref()).expect("valid");
    let other = Curvature::generalized(x.as_ref(), prior.as_ref(), 0.0, 0.25).expect("valid");
    let close = |a: Curvature, b: Curvature| {
        assert!((a.smoothness - b.smoothness).abs() < 1e-9 * a.smoothness, "{a:?} {b:?}");
        assert!((a.strong_convexity - b.strong_convexity).abs() < 1e-9 * a.strong_convexity, "{a:?} {b:?}");
    };
    close(plain, general);
    close(logistic, other);
    let scaled = Mat::<f64>::identity(3, 3) * faer::Scale(4.0);
    let in_w = Curvature::whitened(x.as_ref(), scaled.as_ref(), 2.0, 2.0).expect("valid");
    let in_coefficients = Curvature::generalized(x.as_ref(), scaled.as_ref(), 2.0, 2.0).expect("valid");
    assert!((in_w.smoothness - 4.0 * in_coefficients.smoothness).abs() < 1e-9 * in_w.smoothness);
    // A loss with negative curvature may leave no convexity.
    let concave = Curvature::generalized(x.as_ref(), prior.as_ref(), -1.0, 2.0).expect("valid");
    assert!(concave.strong_convexity < 0.0 && concave.smoothness >= -concave.strong_convexity);
}
