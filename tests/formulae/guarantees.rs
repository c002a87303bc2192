//! The guarantees against 50-digit numbers and enumerations.

use faer::Mat;
use sparsegp::linalg::symmetric_eigen;
use sparsegp::variational::{Average, IterateAverage, MatrixRef};
use sparsegp_research::*;
use sparsegp_testkit::problems::Normals;
use sparsegp_testkit::reference::{load, matrix, number, numbers};

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

/// Enumerates all sequences of batches of one datum for y ~ N(xw, σ²), w ~ N(0, 1): the mean KL of the averaged q from the posterior stays
/// below the bound at any noise variance.
#[test]
fn the_conjugate_bound_covers_every_sequence_of_batches() {
    let problems = [
        ([0.01145, 0.02457], [5.734, 2.683], 7.8e-4),
        ([0.2, 0.01], [0.0, 100.0], 0.01),
        ([1.0, -0.5], [2.0, 1.0], 1e-3),
        ([0.3, 2.0], [1.0, -4.0], 50.0),
    ];
    for (x, y, noise) in problems {
        let inputs = Mat::from_fn(2, 1, |i, _| x[i]);
        let bound = ConjugateBound::new(inputs.as_ref(), &y, Mat::<f64>::identity(1, 1).as_ref(), noise, 1)
            .expect("a bound");
        let batch = [0, 1].map(|i| (2.0 * x[i] * y[i] / noise, 1.0 + 2.0 * x[i] * x[i] / noise));
        let posterior = (0.5 * (batch[0].0 + batch[1].0), 0.5 * (batch[0].1 + batch[1].1));
        for steps in 1..=8 {
            let one = |sequence: usize| {
                let (mut eta, mut precision) = (0.0, 1.0);
                let mut average = IterateAverage::new(Average::Expectation);
                for t in 0..steps {
                    let (rho, chosen) = (2.0 / (t as f64 + 2.0), batch[sequence >> t & 1]);
                    eta += rho * (chosen.0 - eta);
                    precision += rho * (chosen.1 - precision);
                    average.push(&[eta / precision], MatrixRef::Diagonal(&[1.0 / precision]));
                }
                let (mean, variance) = average.result().expect("iterates");
                let off = mean[0] - posterior.0 / posterior.1;
                let share = variance.as_ref().diagonal()[0] * posterior.1;
                0.5 * (off * off * posterior.1 + share - 1.0 - share.ln())
            };
            let count = 1 << steps;
            let mean = (0..count).map(one).sum::<f64>() / count as f64;
            assert!(mean <= bound.at(steps), "σ² {noise}, {steps} steps: {mean}, bound {}", bound.at(steps));
        }
    }
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
