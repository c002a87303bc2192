//! The guarantees against 50-digit numbers and against simulations of the methods that they are
//! about.

mod proven;
mod rates;

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::linalg::{Factorizer, dot, gram_of_inverse, invert_lower, log_det, matvec, symmetric_eigen};
use sparsegp::variational::{Average, IterateAverage, MatrixRef, Schedule};
use sparsegp_research::*;
use sparsegp_testkit::problems::Normals;
use sparsegp_testkit::reference::{load, matrix, number, numbers};

/// Bayesian linear regression: inputs `D × n`, targets, prior mean and covariance, noise variance.
struct Regression {
    x: Mat<f64>,
    y: Vec<f64>,
    prior_mean: Vec<f64>,
    prior_cov: Mat<f64>,
    noise: f64,
}

/// A Gaussian by its natural parameters `(S⁻¹m, S⁻¹)`.
#[derive(Clone)]
struct Natural {
    eta: Vec<f64>,
    precision: Mat<f64>,
}

/// Returns the inverse of a positive definite matrix, and its log-determinant.
fn inverse(a: &Mat<f64>, factorizer: &mut Factorizer) -> (Mat<f64>, f64) {
    let d = a.nrows();
    let (mut factor, mut half, mut out) = (a.clone(), Mat::zeros(d, d), Mat::zeros(d, d));
    factorizer.cholesky(factor.as_mut()).expect("positive definite");
    invert_lower(factor.as_ref(), half.as_mut());
    gram_of_inverse(half.as_ref(), out.as_mut());
    (out, -log_det(factor.as_ref()))
}

impl Natural {
    fn moments(&self, factorizer: &mut Factorizer) -> (Vec<f64>, Mat<f64>) {
        let (cov, _) = inverse(&self.precision, factorizer);
        let mut mean = vec![0.0; self.eta.len()];
        matvec(cov.as_ref(), &self.eta, &mut mean);
        (mean, cov)
    }
}

impl Regression {
    fn random(seed: u64, d: usize, n: usize) -> Self {
        let mut normals = Normals::new(seed);
        let x = normals.mat(d, n);
        let weights = normals.vec(d);
        let noise: f64 = 0.5;
        let target =
            |i: usize, e: f64| (0..d).map(|k| weights[k] * x[(k, i)]).sum::<f64>() + noise.sqrt() * e;
        let y = normals.vec(n).into_iter().enumerate().map(|(i, e)| target(i, e)).collect();
        let root = normals.mat(d, d);
        let prior_cov = &root * root.transpose() + Mat::<f64>::identity(d, d);
        Regression { x, y, prior_mean: normals.vec(d), prior_cov, noise }
    }

    /// Returns the natural parameters of the posterior, estimated from the data `batch`.
    fn natural(&self, batch: &[usize], prior: &Natural) -> Natural {
        let (d, scale) = (self.x.nrows(), self.x.ncols() as f64 / (batch.len() as f64 * self.noise));
        let mut out = prior.clone();
        for &i in batch {
            for a in 0..d {
                out.eta[a] += scale * self.x[(a, i)] * self.y[i];
                for b in 0..d {
                    out.precision[(a, b)] += scale * self.x[(a, i)] * self.x[(b, i)];
                }
            }
        }
        out
    }

    fn prior(&self, factorizer: &mut Factorizer) -> Natural {
        let (precision, _) = inverse(&self.prior_cov, factorizer);
        let mut eta = vec![0.0; self.prior_mean.len()];
        matvec(precision.as_ref(), &self.prior_mean, &mut eta);
        Natural { eta, precision }
    }

    fn asymptotic(&self, batch: usize, sampling: Sampling) -> ConjugateAsymptotic {
        let (x, y, cov) = (self.x.transpose(), &self.y, self.prior_cov.as_ref());
        ConjugateAsymptotic::new(x, y, &self.prior_mean, cov, self.noise, batch, sampling)
            .expect("a valid problem")
    }
}

/// Returns `KL(N(mean, cov) ‖ N(m, S))` in nats as two terms, one of the means and one of the
/// covariances; `to` is m and `S⁻¹`.
fn kl(mean: &[f64], cov: &Mat<f64>, to: (&[f64], &Mat<f64>), factorizer: &mut Factorizer) -> [f64; 2] {
    let d = mean.len();
    let (_, log_det_to) = inverse(to.1, factorizer);
    let (_, minus_log_det) = inverse(cov, factorizer);
    let product = to.1 * cov;
    let trace: f64 = (0..d).map(|i| product[(i, i)]).sum();
    let difference: Vec<f64> = mean.iter().zip(to.0).map(|(a, b)| a - b).collect();
    let mut image = vec![0.0; d];
    matvec(to.1.as_ref(), &difference, &mut image);
    [0.5 * dot(&difference, &image), 0.5 * (trace - d as f64 + log_det_to + minus_log_det)]
}

/// Returns a batch of data, drawn according to `sampling`.
fn draw(n: usize, batch: usize, sampling: Sampling, random: &mut ChaCha8Rng) -> Vec<usize> {
    match sampling {
        Sampling::WithReplacement => (0..batch).map(|_| random.random_range(0..n)).collect(),
        Sampling::WithoutReplacement => {
            let mut all: Vec<usize> = (0..n).collect();
            for i in 0..batch {
                all.swap(i, random.random_range(i..n));
            }
            all.truncate(batch);
            all
        }
    }
}

const AVERAGES: [Average; 3] = [Average::None, Average::Expectation, Average::Tail];

/// Returns the KL from the posterior, in the terms of [`kl`], of the last iterate and of both
/// averages after a run of stochastic natural gradients.
fn simulate(
    problem: &Regression,
    batch: usize,
    sampling: Sampling,
    steps: usize,
    seed: u64,
) -> [[f64; 2]; 3] {
    let (d, n) = problem.x.shape();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut factorizer = Factorizer::new(d);
    let prior = problem.prior(&mut factorizer);
    let mut q = prior.clone();
    let mut averages = [Average::Expectation, Average::Tail].map(IterateAverage::new);
    for t in 0..steps {
        let estimate = problem.natural(&draw(n, batch, sampling, &mut random), &prior);
        let rho = Schedule::TwoOverT.at(t);
        q.eta.iter_mut().zip(&estimate.eta).for_each(|(q, e)| *q += rho * (e - *q));
        q.precision =
            Mat::from_fn(d, d, |i, j| (1.0 - rho) * q.precision[(i, j)] + rho * estimate.precision[(i, j)]);
        let (mean, cov) = q.moments(&mut factorizer);
        for average in &mut averages {
            average.push(&mean, MatrixRef::Full(cov.as_ref()));
        }
    }
    let posterior = problem.natural(&(0..n).collect::<Vec<_>>(), &prior);
    let (to, _) = posterior.moments(&mut factorizer);
    let mut from = |mean: &[f64], cov: &Mat<f64>| kl(mean, cov, (&to, &posterior.precision), &mut factorizer);
    let (mean, cov) = q.moments(&mut Factorizer::new(d));
    let [expectation, tail] = averages.map(|average| {
        let (mean, second) = average.result().expect("iterates");
        from(&mean, &second.as_ref().to_dense())
    });
    [from(&mean, &cov), expectation, tail]
}

/// Returns the mean of numbers and its standard error.
fn estimate(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

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

/// Checks that the mean of numbers is within 5 standard errors of `want`, plus a `slack` for
/// neglected terms.
fn agrees(values: impl Iterator<Item = f64>, want: f64, slack: f64, what: &str) {
    let (mean, error) = estimate(&values.collect::<Vec<_>>());
    assert!((mean - want).abs() <= 5.0 * error + slack, "{what}: {mean} ± {error} instead of {want}");
}

#[test]
fn stochastic_natural_gradients_reach_the_asymptotic_distance() {
    let (runs, steps, batch) = (300, 2500, 2);
    // There are few data, so that the noise in the covariance is a considerable share of the total.
    let problem = Regression::random(3, 3, 10);
    for sampling in [Sampling::WithReplacement, Sampling::WithoutReplacement] {
        let kls: Vec<_> = (0..runs).map(|seed| simulate(&problem, batch, sampling, steps, seed)).collect();
        let asymptotic = problem.asymptotic(batch, sampling);
        for (i, average) in AVERAGES.into_iter().enumerate() {
            let share = asymptotic.at(steps, average) / asymptotic.cost();
            // The limit neglects terms that are smaller by a factor of about ln²T/T.
            let slack = (steps as f64).ln().powi(2) / steps as f64 * asymptotic.at(steps, average);
            let what = format!("{average}, {sampling}");
            agrees(kls.iter().map(|kl| kl[i][0]), share * asymptotic.mean_cost, slack, &what);
            agrees(kls.iter().map(|kl| kl[i][1]), share * asymptotic.covariance_cost, slack, &what);
        }
    }
}

/// Returns T times the sum of the squared weights that the noises of all steps have in Σ_t v_t λ_t,
/// where λ_t is the iterate after t = 1, …, T steps.
fn squared_weights(steps: usize, v: impl Fn(f64) -> f64) -> f64 {
    // Noise s is in every iterate t > s, with weight 2(s + 1)/(t(t + 1)): from the last step to the first.
    let (mut later, mut total) = (0.0, 0.0);
    for t in (1..=steps).rev().map(|t| t as f64) {
        later += v(t) / (t * (t + 1.0));
        total += (2.0 * t * later).powi(2);
    }
    steps as f64 * total
}

#[test]
fn the_factors_of_the_averages_are_their_squared_weights() {
    let steps = 1_000_000;
    let last = steps as f64;
    let unit = ConjugateAsymptotic { mean_cost: 0.75, covariance_cost: 0.25 };
    let close = |got: f64, average| assert!((got - unit.limit(average)).abs() < 1e-4, "{got} for {average}");
    close(squared_weights(steps, |t| f64::from(t == last)), Average::None);
    close(squared_weights(steps, |t| 2.0 * t / (last * (last + 1.0))), Average::Expectation);
    for share in [0.5, 0.6, 0.75] {
        let kept = share * last;
        close(squared_weights(steps, |t| f64::from(t > last - kept) / kept), Average::Tail);
    }
}

#[test]
fn the_whole_data_as_a_batch_leave_no_noise() {
    let problem = Regression::random(4, 3, 20);
    assert_eq!(problem.asymptotic(20, Sampling::WithoutReplacement).cost(), 0.0);
    let one = Regression {
        x: Mat::from_fn(2, 1, |i, _| i as f64 + 1.0),
        y: vec![1.0],
        ..Regression::random(4, 2, 1)
    };
    assert_eq!(one.asymptotic(1, Sampling::WithoutReplacement).cost(), 0.0);
}

/// A case in one dimension in which the data do not affect the mean: the precision of a batch is ½
/// or 3/2 with equal chances, that of the posterior is 1. After the first step, of size 1, q has
/// the precision of a batch. V is the mean inner product of the batch's errors in natural and in
/// expectation parameters, which bounds the cost of noise in a step.
#[test]
fn the_constant_of_the_conjugate_bound_needs_its_factor() {
    let precisions = [0.5f64, 1.5];
    let mean = |f: &dyn Fn(f64) -> f64| 0.5 * precisions.map(f).iter().sum::<f64>();
    let kl = mean(&|p| 0.5 * (1.0 / p - 1.0 + p.ln()));
    let v = mean(&|p| -0.5 * (p - 1.0) * (1.0 / p - 1.0));
    assert!((kl - 0.0947).abs() < 1e-4 && (v - 1.0 / 6.0).abs() < 1e-15, "{kl} and {v}");
    let bound = ConjugateBound { nu: 1.0, kappa: 0.0, s1: 0.0, s2: 0.0, prior_norm: 1.0, v2: v };
    assert!(kl > v / 2.0, "the bound of the paper holds here: {kl} and {}", v / 2.0);
    assert!(kl <= bound.at(1), "{kl} and {}", bound.at(1));
}

#[test]
fn the_asymptotic_lies_far_below_the_bound() {
    let problem = Regression { prior_mean: vec![0.0; 3], ..Regression::random(5, 3, 50) };
    let (x, prior_cov) = (problem.x.transpose(), problem.prior_cov.as_ref());
    let bound = ConjugateBound::new(x, &problem.y, prior_cov, problem.noise, 5).expect("valid");
    let sharp = problem.asymptotic(5, Sampling::WithReplacement);
    assert!(sharp.limit(Average::Expectation) < bound.v2);
}

/// A Gaussian target of precision H and mode z̄, for a q with parameters (m, C), where C is lower
/// triangular or symmetric.
struct Target {
    hessian: Mat<f64>,
    mode: Vec<f64>,
    symmetric: bool,
}

impl Target {
    fn curvature(&self) -> Curvature {
        let (values, _) = symmetric_eigen(self.hessian.as_ref()).expect("finite");
        Curvature { smoothness: values[values.len() - 1], strong_convexity: values[0] }
    }

    /// Returns C*, with `C* C*ᵀ = H⁻¹`.
    fn optimum(&self) -> Mat<f64> {
        let (cov, _) = inverse(&self.hessian, &mut Factorizer::new(self.mode.len()));
        factor(&cov, self.symmetric)
    }

    /// Returns the projection of a gradient in C onto the lower triangular or the symmetric
    /// matrices.
    fn project(&self, a: &Mat<f64>) -> Mat<f64> {
        Mat::from_fn(a.nrows(), a.ncols(), |i, j| {
            if self.symmetric {
                0.5 * (a[(i, j)] + a[(j, i)])
            } else if i >= j {
                a[(i, j)]
            } else {
                0.0
            }
        })
    }

    /// Takes one step of proximal (lower) or projected (symmetric) gradients from one sample.
    fn step(&self, (mean, c): (&mut [f64], &mut Mat<f64>), step: f64, normals: &mut Normals) {
        let d = mean.len();
        let u = normals.vec(d);
        let off: Vec<f64> =
            (0..d).map(|i| mean[i] - self.mode[i] + (0..d).map(|k| c[(i, k)] * u[k]).sum::<f64>()).collect();
        let mut r = vec![0.0; d];
        matvec(self.hessian.as_ref(), &off, &mut r);
        let mut gradient = self.project(&Mat::from_fn(d, d, |i, j| r[i] * u[j]));
        if self.symmetric {
            gradient -= rebuild(c, |value| 1.0 / value);
        }
        mean.iter_mut().zip(&r).for_each(|(m, r)| *m -= step * r);
        *c = Mat::from_fn(d, d, |i, j| c[(i, j)] - step * gradient[(i, j)]);
        if self.symmetric {
            let floor = self.curvature().eigenvalue_floor(1.0);
            *c = rebuild(c, |value| value.max(floor));
        } else {
            // The proximal map of −γ log C_ii.
            (0..d).for_each(|i| c[(i, i)] = 0.5 * (c[(i, i)] + (c[(i, i)].powi(2) + 4.0 * step).sqrt()));
        }
    }

    /// Returns the bound for a start at distance `initial`, with the constants of the estimator
    /// that each method uses, and the schedule.
    fn bound(&self, initial: f64) -> (DistanceBound, Schedule) {
        let (curvature, d, c) = (self.curvature(), self.mode.len(), self.optimum());
        let norm = c.squared_norm_l2();
        let (constants, gradient) = if self.symmetric {
            let constant = curvature.noise_constant_energy_entropy(d);
            (NoiseConstants { constant, floor: curvature.noise_floor_energy_entropy(d, norm, 1.0) }, None)
        } else {
            let gradient = (0..d).map(|i| c[(i, i)].powi(-2)).sum();
            let constant = curvature.noise_constant_energy(d);
            (NoiseConstants { constant, floor: curvature.noise_floor_energy(d, norm) }, Some(gradient))
        };
        let bound = curvature.distance_bound(initial, constants, gradient).expect("valid");
        (bound, bound.schedule())
    }
}

/// Returns the symmetric matrix with changed eigenvalues.
fn rebuild(a: &Mat<f64>, change: impl Fn(f64) -> f64) -> Mat<f64> {
    let (values, vectors) = symmetric_eigen(a.as_ref()).expect("finite");
    let scaled = Mat::from_fn(a.nrows(), a.ncols(), |i, j| vectors[(i, j)] * change(values[j]));
    scaled * vectors.transpose()
}

/// Returns the factor C of S, lower triangular or symmetric.
fn factor(cov: &Mat<f64>, symmetric: bool) -> Mat<f64> {
    if symmetric {
        return rebuild(cov, f64::sqrt);
    }
    let mut c = cov.clone();
    Factorizer::new(c.nrows()).cholesky(c.as_mut()).expect("positive definite");
    c
}

/// Returns the squared distances of one run from the optimum at the given numbers of steps.
fn distances(
    target: &Target,
    start: (&[f64], &Mat<f64>),
    at: &[usize],
    schedule: Schedule,
    seed: u64,
) -> Vec<f64> {
    let mut normals = Normals::new(seed);
    let optimum = target.optimum();
    let (mut mean, mut c) = (start.0.to_vec(), start.1.clone());
    let mut out = Vec::new();
    for t in 0..at[at.len() - 1] {
        target.step((&mut mean, &mut c), schedule.at(t), &mut normals);
        if at.contains(&(t + 1)) {
            let off = mean.iter().zip(&target.mode).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
            out.push(off + (&c - &optimum).squared_norm_l2());
        }
    }
    out
}

#[test]
fn proximal_and_projected_gradients_stay_below_their_bound() {
    for symmetric in [false, true] {
        let hessian = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 + 0.5 * i as f64 } else { 0.2 });
        let target = Target { hessian, mode: vec![0.5, -1.0], symmetric };
        let (mean, c) = (vec![3.0, 3.0], Mat::from_fn(2, 2, |i, j| if i == j { 2.0 } else { 0.0 }));
        let initial = mean.iter().zip(&target.mode).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
            + (&c - target.optimum()).squared_norm_l2();
        let (bound, schedule) = target.bound(initial);
        let at = [1, 30, 200, 1000, 3000];
        let runs: Vec<Vec<f64>> =
            (0..100).map(|seed| distances(&target, (&mean, &c), &at, schedule, seed)).collect();
        for (i, &t) in at.iter().enumerate() {
            let (got, error) = estimate(&runs.iter().map(|run| run[i]).collect::<Vec<_>>());
            let (closed, recursion) = (bound.at(t), bound.recursion(t));
            assert!(got - 5.0 * error <= recursion, "{got} ± {error} above {recursion} at {t}");
            assert!(recursion <= closed * (1.0 + 1e-9), "{recursion} above {closed} at {t}");
        }
    }
}

#[test]
fn the_closed_bound_covers_the_recursion_and_its_first_phase_ends_where_the_schedule_turns() {
    for (smoothness, strong_convexity, d) in [(1.0, 1.0, 1), (10.0, 0.5, 4), (3.0, 2.9, 2)] {
        let curvature = Curvature { smoothness, strong_convexity };
        let noise = curvature.noise_constant_energy(d);
        let bound = curvature
            .distance_bound(2.0, NoiseConstants { constant: noise, floor: 1.5 }, Some(0.3))
            .expect("valid");
        let (schedule, turn) = (bound.schedule(), bound.constant_phase() as usize);
        let constant = strong_convexity / (2.0 * noise);
        assert!(schedule.at(turn - 1) == constant && schedule.at(turn + 1) < constant);
        assert!((turn as f64) < 4.0 * noise / strong_convexity.powi(2));
        for t in [0, 1, turn / 2, turn, turn + 1, 2 * turn, 10 * turn] {
            assert!(bound.recursion(t) <= bound.at(t) * (1.0 + 1e-9), "at {t}");
        }
    }
    let curvature = Curvature { smoothness: 2.0, strong_convexity: 1.0 };
    let noise = |constant| NoiseConstants { constant, floor: 1.0 };
    assert!(curvature.distance_bound(1.0, noise(0.4), Some(0.0)).is_err());
    assert!(curvature.distance_bound(-1.0, noise(10.0), Some(0.0)).is_err());
}

/// Theorems 6 and 9 at ϖ = 1, a = 10, b = 3 and D₀ = 2: their steps at t = 0 and 99, and eq. 12 and 13.
#[test]
fn projected_gradients_take_the_steps_of_their_own_theorem() {
    let curvature = Curvature { smoothness: 2.0, strong_convexity: 1.0 };
    let bound = |gradient| {
        let noise = NoiseConstants { constant: 10.0, floor: 3.0 };
        curvature.distance_bound(2.0, noise, gradient).expect("valid")
    };
    let (proximal, projected) = (bound(Some(0.0)), bound(None));
    for (bound, late) in [(proximal, 0.0199), (projected, 0.0398)] {
        assert_eq!(bound.schedule().at(0), 0.05);
        assert!((bound.schedule().at(99) - late).abs() < 1e-12);
    }
    let constant = 0.985f64.powi(100) * 2.0 + 2.0 * 0.03 * 3.0;
    assert!((projected.with_constant_step(0.03, 100) - constant).abs() < 1e-12);
    // Late, eq. 13 is 16b/(ϖ²T).
    assert!((1e9 * projected.at(1_000_000_000) - 48.0).abs() < 1e-3);
    assert!([100, 1000, 10_000].iter().all(|&steps| projected.recursion(steps) <= projected.at(steps)));
}

#[test]
fn curvatures_bound_the_hessians_of_linear_and_logistic_models() {
    let problem = Regression::random(7, 3, 30);
    let (x, p) = (problem.x.transpose(), problem.prior_cov.as_ref());
    let (precision, _) = inverse(&problem.prior_cov, &mut Factorizer::new(3));
    let gram = &problem.x * problem.x.transpose();
    let extremes = |weight: f64| {
        let a = Mat::from_fn(3, 3, |i, j| precision[(i, j)] + weight * gram[(i, j)]);
        let (values, _) = symmetric_eigen(a.as_ref()).expect("finite");
        (values[0], values[2])
    };
    let linear = Curvature::linear(x, p, 0.5).expect("valid");
    let logistic = Curvature::logistic(x, p).expect("valid");
    let wants = [
        (linear.strong_convexity, extremes(2.0).0),
        (linear.smoothness, extremes(2.0).1),
        (logistic.strong_convexity, extremes(0.0).0),
        (logistic.smoothness, extremes(0.25).1),
        (linear.noise_constant_energy(3), 12.0 * linear.smoothness.powi(2)),
        (linear.noise_constant_energy_entropy(3), 24.0 * linear.smoothness.powi(2)),
        (linear.eigenvalue_floor(0.3), (0.3 / linear.smoothness).sqrt()),
    ];
    for (got, want) in wants {
        assert!((got - want).abs() <= 1e-12 * want, "{got} instead of {want}");
    }
    // No eigenvalue of the optimal symmetric factor is below the floor.
    let target = Target {
        hessian: Mat::from_fn(3, 3, |i, j| precision[(i, j)] + 2.0 * gram[(i, j)]),
        mode: vec![0.0; 3],
        symmetric: true,
    };
    let (values, _) = symmetric_eigen(target.optimum().as_ref()).expect("finite");
    assert!((values[0] - linear.eigenvalue_floor(1.0)).abs() < 1e-12);
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

#[test]
fn invalid_constants_are_refused() {
    let Regression { x, y, prior_cov, .. } = Regression::random(8, 3, 10);
    let (x, p, zero) = (x.transpose(), prior_cov.as_ref(), [0.0; 3]);
    let bound = |x, y: &[f64], p, noise, batch| ConjugateBound::new(x, y, p, noise, batch).is_err();
    let asymptotic = |mean: &[f64], p, batch| {
        ConjugateAsymptotic::new(x, &y, mean, p, 1.0, batch, Sampling::WithoutReplacement).is_err()
    };
    let indefinite = Mat::from_fn(3, 3, |i, j| if i == j { i as f64 - 0.5 } else { 0.0 });
    let skew = Mat::from_fn(3, 3, |i, j| if i == j { 1.0 } else { 0.1 * i as f64 });
    let infinite = Mat::from_fn(10, 3, |_, _| f64::INFINITY);
    let none = Mat::<f64>::zeros(0, 3);
    assert!(!bound(x, &y, p, 1.0, 2) && !asymptotic(&zero, p, 10));
    assert!(bound(x, &y[1..], p, 1.0, 2));
    assert!(bound(x, &[f64::NAN; 10], p, 1.0, 2));
    assert!(bound(infinite.as_ref(), &y, p, 1.0, 2));
    assert!(bound(none.as_ref(), &[], p, 1.0, 2));
    assert!(bound(x, &y, p, 0.0, 2) && bound(x, &y, p, f64::NAN, 2) && bound(x, &y, p, 1.0, 0));
    for wrong in [indefinite.as_ref(), skew.as_ref(), none.as_ref(), infinite.as_ref().get(0..3, ..)] {
        assert!(bound(x, &y, wrong, 1.0, 2) && asymptotic(&zero, wrong, 2));
        assert!(Curvature::linear(x, wrong, 1.0).is_err() && Curvature::logistic(x, wrong).is_err());
    }
    assert!(asymptotic(&zero[1..], p, 2) && asymptotic(&[f64::NAN; 3], p, 2));
    assert!(asymptotic(&zero, p, 0) && asymptotic(&zero, p, 11));
    let huge = Mat::from_fn(10, 3, |_, _| 1e200);
    assert!(Curvature::linear(huge.as_ref(), p, 1.0).is_err());
}
