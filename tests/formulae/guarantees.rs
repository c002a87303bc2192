//! The guarantees against 50-digit numbers and enumerations.

use crate::prelude::*;
use sparsegp::linalg::symmetric_eigen;
use sparsegp_research::*;

#[test]
fn the_constants_of_wu_and_gardner_are_the_reference_numbers() {
    let file = load("blr.json");
    for case in file["cases"].as_array().expect("cases") {
        let (inputs, want) = (&case["inputs"], &case["outputs"]["V2"]);
        let (x, prior_cov) = (matrix(&inputs["X"]), matrix(&inputs["prior_cov"]));
        let batch = number(&inputs["batch_size"]) as usize;
        let noise = number(&inputs["noise_variance"]);
        let y = numbers(&inputs["y"]);
        let bound = ConjugateBound::new(x.as_ref(), &y, prior_cov.as_ref(), noise, batch).expect("valid");
        let values = [
            ("nu", bound.nu),
            // The paper's b lacks 1/σ², and so does its V₂.
            ("b", bound.kappa * noise),
            ("s1", bound.s1),
            ("s2", bound.s2),
            ("prior_cov_norm2", bound.prior_norm),
        ];
        for (name, got) in values {
            let want = number(&want[name]);
            assert!((got - want).abs() <= 1e-10 * want.abs(), "{name}: {got} instead of {want}");
        }
        assert_eq!(bound.at(99), 4.0 * bound.v2 / 100.0);
    }
}

/// The mean KL of the averaged q from the posterior after each of `steps` steps, over all sequences of batches of
/// one of two rows, for y ~ N(xw, σ²), w ~ N(0, 1).
fn enumerated(x: [f64; 2], y: [f64; 2], noise: f64, steps: usize) -> Vec<f64> {
    let batch = [0, 1].map(|i| (2.0 * x[i] * y[i] / noise, 1.0 + 2.0 * x[i] * x[i] / noise));
    let posterior = (0.5 * (batch[0].0 + batch[1].0), 0.5 * (batch[0].1 + batch[1].1));
    let mut sums = vec![0.0; steps];
    for sequence in 0..1 << steps {
        let (mut eta, mut precision) = (0.0, 1.0);
        let mut average = IterateAverage::new(Average::Expectation);
        for (t, sum) in sums.iter_mut().enumerate() {
            let (rho, chosen) = (2.0 / (t as f64 + 2.0), batch[sequence >> t & 1]);
            eta += rho * (chosen.0 - eta);
            precision += rho * (chosen.1 - precision);
            average.push(&[eta / precision], MatrixRef::Diagonal(&[1.0 / precision]));
            let (mean, variance) = average.result().expect("iterates");
            let off = mean[0] - posterior.0 / posterior.1;
            let share = variance.as_ref().diagonal()[0] * posterior.1;
            *sum += 0.5 * (off * off * posterior.1 + share - 1.0 - share.ln());
        }
    }
    sums.iter().map(|sum| sum / f64::from(1 << steps)).collect()
}

/// The bound covers every sequence of batches at any noise variance, also with n + 1 − H_{n+1} in place of n.
#[test]
fn the_conjugate_bound_covers_every_sequence_of_batches() {
    let mut normals = Normals::new(3);
    let mut problems = vec![
        ([0.01145, 0.02457], [5.734, 2.683], 7.8e-4),
        ([0.2, 0.01], [0.0, 100.0], 0.01),
        ([1.0, -0.5], [2.0, 1.0], 1e-3),
        ([0.3, 2.0], [1.0, -4.0], 50.0),
    ];
    problems.resize_with(200, || {
        let [a, b, c, d, noise, x, y] = [(); 7].map(|()| normals.next());
        let (x, y) = ((2.0 * x).exp(), (2.0 * y).exp());
        ([x * a, x * b], [y * c, y * d], (3.0 * noise).exp())
    });
    for (x, y, noise) in problems {
        let inputs = Mat::from_fn(2, 1, |i, _| x[i]);
        let prior = Mat::<f64>::identity(1, 1);
        let bound = ConjugateBound::new(inputs.as_ref(), &y, prior.as_ref(), noise, 1).expect("a bound");
        let mut number = 1.0;
        for (k, mean) in enumerated(x, y, noise, 8).into_iter().enumerate() {
            let steps = k as f64 + 1.0;
            number += 1.0 / (steps + 1.0);
            let sharper = 4.0 * bound.v2 * (steps + 1.0 - number) / (steps * (steps + 1.0));
            assert!(mean <= sharper, "x {x:?}, y {y:?}, σ² {noise}, step {steps}: {mean}, bound {sharper}");
        }
    }
}

/// A Gaussian target of precision P, and a start of covariance S and mean error δ with `δδᵀ` given.
struct Target {
    precision: Mat<f64>,
    start: Mat<f64>,
    error: Mat<f64>,
}

/// Returns the inverse and the determinant of a symmetric 2 × 2 matrix.
fn inverse(a: &Mat<f64>) -> (Mat<f64>, f64) {
    let det = a[(0, 0)] * a[(1, 1)] - a[(0, 1)] * a[(1, 0)];
    let sign = |i: usize, j: usize| if i == j { 1.0 } else { -1.0 };
    (Mat::from_fn(2, 2, |i, j| sign(i, j) * a[(1 - j, 1 - i)] / det), det)
}

impl Target {
    fn random(normals: &mut Normals) -> Target {
        let mut positive = || {
            let root = normals.mat(2, 2);
            let scale = (2.0 * normals.next()).exp();
            (&root * root.transpose() + Mat::<f64>::identity(2, 2) * faer::Scale(0.01)) * faer::Scale(scale)
        };
        let (precision, start) = (positive(), positive());
        let error = normals.mat(2, 1);
        Target { precision, start, error: &error * error.transpose() }
    }

    /// Returns the exact E KL(q* ‖ q_t) of Bonnet–Price gradients for t = 0, 1, …, and the S_t. The precision has
    /// no noise: `S₊⁻¹δ₊ = (1 − η) S⁻¹δ − ηP S^½ε̄`.
    fn run(&self, steps: &[(f64, f64)]) -> (Vec<f64>, Vec<Mat<f64>>) {
        let (mut s, mut error) = (self.start.clone(), self.error.clone());
        let (mut divergences, mut covariances) = (Vec::new(), Vec::new());
        let cov = inverse(&self.precision).0;
        for &(step, samples) in steps.iter().chain([&(0.0, 1.0)]) {
            let (precision, det) = inverse(&s);
            let log_det = (det * inverse(&self.precision).1).ln();
            let squares = (&precision * (&cov + &error)).diagonal().column_vector().sum();
            divergences.push(0.5 * (squares - 2.0 + log_det));
            let noise = &self.precision * &s * &self.precision * faer::Scale(step * step / samples);
            let kept = &precision * &error * &precision * faer::Scale((1.0 - step).powi(2));
            let mixed = precision * faer::Scale(1.0 - step) + &self.precision * faer::Scale(step);
            covariances.push(std::mem::replace(&mut s, inverse(&mixed).0));
            error = &s * (kept + noise) * &s;
        }
        (divergences, covariances)
    }
}

/// Exact expectations stay below the bounds for constant steps with constant and growing samples, and for decreasing steps.
#[test]
fn the_projected_bounds_cover_exact_expectations() {
    let mut normals = Normals::new(5);
    for problem in 0..200 {
        let target = Target::random(&mut normals);
        let free = (0.0, f64::INFINITY);
        let noise = price_noise(target.precision.as_ref(), target.start.as_ref(), free).expect("V");
        let step = [1.0, 0.5, 0.1, 0.02][problem % 4];
        let samples = [1.0, 10.0][problem / 4 % 2];
        let exponent = [0.5, 1.0, 1.5, 2.0][problem / 8 % 4];
        let power = |t: usize| (t as f64 + 1.0).powf(exponent).round();
        let kinds: [Vec<(f64, f64)>; 3] = [
            vec![(step, samples); 300],
            (0..300).map(|t| (step, power(t))).collect(),
            (0..300).map(|t| (2.0 / (t as f64 + 2.0), power(t))).collect(),
        ];
        for (kind, steps) in kinds.iter().enumerate() {
            let (divergences, _) = target.run(steps);
            let bound = ProjectedBound::new(1.0, noise, divergences[0]).expect("a bound");
            for (t, exact) in divergences.iter().enumerate().skip(1) {
                let most = match kind {
                    0 => bound.constant(step, samples, t),
                    1 => bound.growing(step, exponent, t),
                    _ => bound.decreasing(steps[..t].iter().map(|step| step.1)),
                };
                assert!(*exact <= most * (1.0 + 1e-9), "problem {problem}, {kind}, t = {t}: {exact}, {most}");
            }
        }
    }
}

/// V is refused for every limit that an eigenvalue of a covariance exceeds on its way, and the bound fails where the upper limit binds.
#[test]
fn no_bound_is_given_where_a_limit_binds() {
    let mut normals = Normals::new(6);
    for problem in 0..200 {
        let target = Target::random(&mut normals);
        let (_, covariances) = target.run(&[(0.1, 1.0); 100]);
        let values = covariances.iter().map(|s| symmetric_eigen(s.as_ref()).expect("finite").0);
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        values.for_each(|values| (least, most) = (least.min(values[0]), most.max(values[1])));
        let refused = |limits| price_noise(target.precision.as_ref(), target.start.as_ref(), limits).is_err();
        let share = 0.5 + 0.49 * (problem as f64 / 200.0);
        assert!(refused((0.0, share * most)) && refused((least / share, f64::INFINITY)), "problem {problem}");
    }
    // Exact gradients of the posterior N(3, 0.4): the limit 0.1 on the variance slows the mean down.
    let optimum = Normal::new(vec![3.0], Mat::from_fn(1, 1, |_, _| 0.1)).expect("normal");
    let mut q = Normal::new(vec![0.0], Mat::from_fn(1, 1, |_, _| 0.1)).expect("normal");
    let options = RuleOptions { bounds: (1e-4, 0.1), ..RuleOptions::of(QUpdate::ProjectedNgvi) };
    let mut rule = options.build(&q);
    let bound = ProjectedBound::new(1.0, 0.0, optimum.kl_to(&q)).expect("a bound");
    for _ in 0..50 {
        let (mean, cov) = ([2.5 * (q.mean()[0] - 3.0) - q.mean()[0]], Mat::from_fn(1, 1, |_, _| 0.75));
        let (cov, curvature, path) = (MatrixRef::Full(cov.as_ref()), None, None);
        rule.step(&mut q, DataGradient { mean: &mean, cov, curvature, path }, 1.0, 0.1);
    }
    let (exact, most) = (optimum.kl_to(&q), bound.constant(0.1, 1.0, 50));
    assert!(exact > 10.0 * most, "KL {exact}, bound {most}");
}

#[test]
fn the_square_root_step_turns_singular_exactly_at_its_limit() {
    let mut normals = Normals::new(9);
    for beta in [0.1, 1.0, 7.0] {
        let mut c = normals.mat(4, 4);
        (0..4).for_each(|j| (0..4).for_each(|i| c[(i, j)] = if i > j { c[(i, j)] } else { 0.0 }));
        (0..4).for_each(|i| c[(i, i)] = 0.5 + i as f64);
        let root = normals.mat(4, 4);
        let h = &root * root.transpose();
        let whitened = c.transpose() * &h * &c - Mat::from_fn(4, 4, |i, j| if i == j { beta } else { 0.0 });
        let limit = square_root_step(whitened.as_ref(), beta).expect("valid");
        let half = Mat::from_fn(4, 4, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Greater => whitened[(i, j)],
            std::cmp::Ordering::Equal => 0.5 * whitened[(i, j)],
            std::cmp::Ordering::Less => 0.0,
        });
        let least = |rho: f64| {
            let moved = &c - (&c * &half) * faer::Scale(rho / beta);
            (0..4).map(|i| moved[(i, i)]).fold(f64::INFINITY, f64::min)
        };
        assert!(least(limit * (1.0 - 1e-9)) > 0.0 && least(limit * (1.0 + 1e-9)) < 0.0);
        let (h_values, _) = symmetric_eigen(h.as_ref()).expect("finite");
        let (s_values, _) = symmetric_eigen((&c * c.transpose()).as_ref()).expect("finite");
        assert!(square_root_step_bound(h_values[3], s_values[3], beta).expect("valid") <= limit);
    }
    assert_eq!(square_root_step(Mat::<f64>::zeros(2, 2).as_ref(), 1.0), Ok(f64::INFINITY));
    assert_eq!(square_root_step_bound(2.0, 0.5, 1.0), Ok(f64::INFINITY));
    assert!(square_root_step(Mat::<f64>::zeros(2, 3).as_ref(), 1.0).is_err());
    assert!(square_root_step(Mat::from_fn(1, 1, |_, _| f64::NAN).as_ref(), 1.0).is_err());
    assert!(square_root_step_bound(1.0, 1.0, 0.0).is_err());
}
