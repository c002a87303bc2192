//! Sums over data in parts: any partition of the rows, stored and merged in any order, gives the result of one pass over all rows.
//!
//! Merging changes the order in which sums over rows are rounded, so a sum of n terms differs by up
//! to n ε times the sum of the absolute values of the terms. Comparisons are therefore relative to
//! that sum, which parts of one row give. With at most 40 rows, the tolerance 1e-12 leaves a factor
//! of a hundred for the M × M algebra.

mod parts;

use faer::{Mat, MatRef};
use parts::{Rows, partition};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sparsegp::Result;
use sparsegp::collapsed::{Solution, noise_derivative, solve};
use sparsegp::gradient::{Batch, BatchPass, BatchSums, Form, Problem, Wanted};
use sparsegp::latent::{Jitter, Layer, LayerGradient, Layers, LinearLayer};
use sparsegp::likelihood::{BernoulliLogit, Gaussian, NegativeBinomial, ObservationModel};
use sparsegp::objective::{Estimator, EstimatorCounts, Loss, Objective};
use sparsegp::training::CollapsedObjective;
use sparsegp::variational::{DataGradient, Factor, Family, Matrix, MatrixRef, Normal};
use sparsegp_testkit::compare::entries;
use sparsegp_testkit::problems::{Normals, flat, model, posterior};
use sparsegp_testkit::statistics::{assert_unbiased, moments};

const M: usize = 6;
const NOISE: f64 = 0.2;

fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("bytes")
}

/// Returns the value after a round trip through postcard; checks that a round trip through JSON
/// gives the same bits.
fn travelled<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let sent = bytes(value);
    let back: T = postcard::from_bytes(&sent).expect("what was sent");
    assert!(bytes(&back) == sent, "another value came back");
    let text = serde_json::to_string(value).expect("text");
    let read: T = serde_json::from_str(&text).expect("what was written");
    assert!(bytes(&read) == sent, "another value was read");
    back
}

/// Merges parts into the first of them.
fn merged<T: Serialize + DeserializeOwned>(parts: &[T], merge: impl Fn(&mut T, &T) -> Result<()>) -> T {
    let mut all = travelled(&parts[0]);
    parts[1..].iter().for_each(|part| merge(&mut all, &travelled(part)).expect("parts of one sum"));
    all
}

fn close(got: &[f64], want: &[f64], scale: &[f64], what: &str) -> std::result::Result<(), TestCaseError> {
    prop_assert_eq!(got.len(), want.len());
    for (i, ((got, want), scale)) in got.iter().zip(want).zip(scale).enumerate() {
        prop_assert!((got - want).abs() <= 1e-12 * scale, "{what} [{i}]: {got} and {want}, of terms {scale}");
    }
    Ok(())
}

fn add_sizes(scale: &mut Vec<f64>, terms: &[f64]) {
    scale.resize(terms.len(), 0.0);
    scale.iter_mut().zip(terms).for_each(|(scale, term)| *scale += term.abs());
}

fn flat_layer(gradient: &LayerGradient) -> Vec<f64> {
    let LayerGradient { kernel, mean, z, .. } = gradient;
    kernel.iter().chain(mean).copied().chain(entries(z.as_ref())).collect()
}

/// Returns a layer whose `K_uu` has a condition number below M/0.1, the factor by which whitening
/// amplifies rounding errors.
fn layer(seed: u64, kernel: &str) -> Layer {
    model(seed, kernel, 2, M, Jitter::Relative(0.1)).layers.remove(0)
}

// ------------------------------------------------------------------------------------------------ collapsed bounds

/// Returns the sums of a pass over some rows.
fn sums_of(layer: &Layer, q: &Normal, objective: Objective, rows: &Rows, how: (Form, Wanted)) -> BatchSums {
    let likelihood = Gaussian::new(NOISE).into();
    let problem = Problem::new(Layers::one(layer), &likelihood, objective, q.as_ref());
    let mut pass = BatchPass::new(problem.layers, &likelihood, objective, q.as_ref(), rows.len());
    let batch = Batch { scale: 1.0, ..rows.batch() };
    pass.sums_of(problem, batch, how.0, how.1, 0).expect("sums").clone()
}

fn origin(layer: &Layer, rows: &Rows, objective: Objective) -> BatchSums {
    sums_of(layer, &Normal::standard(Family::Full, M), objective, rows, (Form::Stable, Wanted::Origin))
}

/// Returns the factor by which solves with `B` amplify rounding errors: the condition
/// number of B, which is at most its trace. The tolerance 1e-12 allows a factor of 100.
fn amplification(sums: &BatchSums, beta: f64) -> f64 {
    let process = &sums.processes[0];
    let (matrix, factor) = match &process.curvature {
        Some(curvature) => (curvature, 1.0 / beta),
        None => (&process.cov, 2.0 / beta),
    };
    let trace: f64 = (0..M).map(|i| matrix.as_ref().full()[(i, i)]).sum();
    ((1.0 + factor * trace) / 100.0).max(1.0)
}

/// Value with the size of its terms, derivative in σ², q, and the gradient in θ, Z and FITC's σ².
struct Evaluated {
    value: (f64, f64),
    noise_bar: f64,
    q: Normal,
    gradient: Vec<f64>,
}

fn evaluate(layer: &Layer, s: &BatchSums, parts: &[&Rows], objective: Objective, form: Form) -> Evaluated {
    let Solution { value, mut q } = solve(s, objective.beta).expect("a bound");
    let (process, q) = (&s.processes[0], q.swap_remove(0));
    let size = s.weight + s.value.abs() + process.squares + q.log_det().abs();
    let noise_bar = match objective.loss {
        Loss::ExpectedLog(_) => noise_derivative(process, s.weight, NOISE, objective.beta, &q),
        _ => 0.0,
    };
    let how = (form, Wanted::Envelope);
    let sums: Vec<BatchSums> = parts.iter().map(|rows| sums_of(layer, &q, objective, rows, how)).collect();
    let mut sum = merged(&sums, BatchSums::merge);
    let likelihood = Gaussian::new(NOISE).into();
    let problem = Problem::new(Layers::one(layer), &likelihood, objective, q.as_ref());
    let mut pass = BatchPass::new(problem.layers, &likelihood, objective, q.as_ref(), 0);
    pass.exchange(&mut sum);
    pass.finish_envelope(problem, s, 1.0);
    let mut gradient = flat_layer(&pass.layer_gradients()[0]);
    gradient.push(if objective.loss == Loss::Fitc { pass.likelihood_gradient()[0] } else { 0.0 });
    Evaluated { value: (value, size), noise_bar, gradient, q }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn closed_forms_of_parts(
        seed in 0u64..1000, partition in partition(), kind in 0usize..4, beta in 0.3f64..2.0, direct: bool,
        smooth: bool,
    ) {
        let objective =
            [Objective::elbo(1.0), Objective::elbo(beta), Objective::fitc(), Objective::square(beta)][kind];
        let form = if direct { Form::Direct } else { Form::Stable };
        let rows = Rows::new(if kind == 2 { 2 * seed + 1 } else { seed }, partition.part_of.len(), false);
        let layer = layer(seed, if smooth { "rbf(ard)" } else { "matern32 + linear(ard)" });
        let whole = origin(&layer, &rows, objective);
        let parts = partition.parts(&rows);
        let sums: Vec<BatchSums> = parts.iter().map(|(_, part)| origin(&layer, part, objective)).collect();
        let sum = merged(&sums, BatchSums::merge);
        let absolute = |s: &BatchSums| {
            let process = &s.processes[0];
            let mut all = flat(process.cov.as_ref());
            all.extend(process.curvature.iter().flat_map(|curvature| flat(curvature.as_ref())));
            all.extend(process.mean.iter().chain([&s.value, &process.squares, &process.residual, &s.weight]));
            all
        };
        let mut scale = Vec::new();
        rows.each().iter().for_each(|row| add_sizes(&mut scale, &absolute(&origin(&layer, row, objective))));
        close(&absolute(&sum), &absolute(&whole), &scale, "sums")?;

        let want = evaluate(&layer, &whole, &[&rows], objective, form);
        let parts: Vec<&Rows> = parts.iter().map(|(_, part)| part).collect();
        let got = evaluate(&layer, &sum, &parts, objective, form);
        let mut sizes = Vec::new();
        rows.each().iter().for_each(|row| add_sizes(&mut sizes, &evaluate(&layer, &whole, &[row], objective, form).gradient));
        // Adjoints come from solves, so their rounding errors are relative to the whole matrix.
        let largest_size = sizes.iter().fold(0.0f64, |most, size| most.max(*size));
        sizes.fill(largest_size);
        let amplified = amplification(&whole, objective.beta);
        let check = |got: &[f64], want: &[f64], sizes: &[f64], what: &str| {
            let sizes: Vec<f64> = sizes.iter().map(|size| amplified * size).collect();
            close(got, want, &sizes, what)
        };
        check(&[got.value.0], &[want.value.0], &[want.value.1], "value")?;
        check(&[got.noise_bar], &[want.noise_bar], &[want.value.1 / NOISE], "σ²")?;
        let largest = |values: &[f64]| vec![values.iter().fold(1.0, |most: f64, v| most.max(v.abs())); values.len()];
        check(got.q.mean(), want.q.mean(), &largest(want.q.mean()), "m")?;
        let cov = [&got.q, &want.q].map(|q| flat(q.cov()));
        check(&cov[0], &cov[1], &largest(&cov[1]), "S")?;
        check(&got.gradient, &want.gradient, &sizes, "gradient")?;
    }
}

/// Compares parts that are larger than a window of a sweep with the objective of fits.
#[test]
fn parts_of_many_windows_and_what_fits_minimise() {
    let rows = Rows::new(1, 4500, false);
    let start = model(3, "rbf(ard)", 2, M, Jitter::Relative(1e-2));
    let all: Vec<usize> = (0..rows.len()).collect();
    let parts = [&all[..2100], &all[2100..2101], &[], &all[2101..]].map(|part| rows.take(part));
    for objective in [Objective::elbo(0.7), Objective::fitc()] {
        let mut fit = CollapsedObjective::new(start.clone(), rows.set(), objective);
        let (value, want) = fit.natural_gradient().expect("a bound");
        let sums = parts.each_ref().map(|part| origin(start.layer(), part, objective));
        let sum = merged(&sums, BatchSums::merge);
        let got = evaluate(start.layer(), &sum, &parts.each_ref(), objective, Form::Direct);
        assert!(
            (got.value.0 - value).abs() <= 1e-12 * got.value.1,
            "{objective:?}: {} and {value}",
            got.value.0
        );
        // The flat vector of a model has kernel parameters, the mean, the noise and Z.
        let mut gradient = got.gradient;
        let noise = gradient.pop().map(|through_weights| through_weights + got.noise_bar);
        gradient.splice(gradient.len() - 2 * M..gradient.len() - 2 * M, noise);
        let scale = vec![got.value.1 / NOISE; want.len()];
        close(&gradient, &want, &scale, "gradient").expect("the same");
    }
}

// --------------------------------------------------------------------------------------------------- mini-batches

fn likelihood(kind: usize) -> (ObservationModel, bool) {
    match kind {
        0 => (Gaussian::new(NOISE).into(), false),
        _ => (NegativeBinomial::new(0.4).into(), true),
    }
}

/// Returns the value and all gradients of a step, from the last run of a pass.
fn step(pass: &BatchPass, value: f64) -> Vec<(&'static str, Vec<f64>)> {
    let DataGradient { mean, cov, curvature, path } = pass.q_gradient(0);
    let flat = |matrix: Option<MatrixRef<'_>>| matrix.map_or(vec![], flat);
    vec![
        ("value", vec![value]),
        ("m", mean.to_vec()),
        ("S", flat(Some(cov))),
        ("curvature", flat(curvature)),
        ("C", flat(path)),
        ("θ and Z", flat_layer(&pass.layer_gradients()[0])),
        ("ψ", pass.likelihood_gradient().to_vec()),
    ]
}

/// Returns the step from the sums of parts, each computed by a separate pass and merged by a pass
/// without rows.
fn step_of_parts(
    problem: Problem<'_>,
    parts: &[(u64, Rows)],
    (form, train, seed): (Form, bool, u64),
    run: u64,
) -> Vec<(&'static str, Vec<f64>)> {
    let pass = |rows: usize| {
        let mut pass = BatchPass::new(problem.layers, problem.likelihood, problem.objective, problem.q, rows);
        pass.seed(seed);
        pass.go_to_run(run);
        pass
    };
    let (none, mut client) = (Rows { x: Mat::new(), y: vec![], exposure: vec![], weights: vec![] }, pass(0));
    let none = Batch { x: MatRef::from_row_major_slice(&[], 0, 2), ..none.batch() };
    client.sums_of(problem, none, form, Wanted::of(train), 0).expect("a factor");
    for (part, rows) in parts {
        let mut worker = pass(rows.len());
        let sums = worker.sums_of(problem, rows.batch(), form, Wanted::of(train), *part).expect("a factor");
        client.merge(&travelled(sums)).expect("parts of one batch");
    }
    let rows: usize = parts.iter().map(|(_, rows)| rows.len()).sum();
    assert_eq!(client.sums().rows, rows as u64);
    let value = client.finish(problem);
    if train {
        client.finish_theta(problem.layers, None);
    }
    step(&client, value)
}

fn diagonal_of(q: &Normal) -> Normal {
    let variances = (0..q.dim()).map(|i| q.cov().full()[(i, i)]).collect();
    Normal::diagonal(q.mean().to_vec(), variances).expect("q")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mini_batches_of_parts(
        seed in 0u64..1000, partition in partition(), kind in 0usize..2, predictive: bool, diagonal: bool,
        direct: bool, train: bool, linear: bool,
    ) {
        let (likelihood, counts) = likelihood(kind);
        let rows = Rows::new(seed, partition.part_of.len(), counts);
        let layer = if linear {
            LinearLayer::isotropic(2, 0.1, 1.5).expect("prior").into()
        } else {
            layer(seed, "rbf(ard)")
        };
        let q = posterior(seed, layer.dim());
        let q = if diagonal { diagonal_of(&q) } else { q };
        let objective = if predictive { Objective::dlm(0.7) } else { Objective::elbo(0.7) };
        let problem =
            Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref());
        let form = if direct { Form::Direct } else { Form::Stable };

        let mut pass = BatchPass::new(Layers::one(&layer), &likelihood, objective, q.as_ref(), rows.len());
        let value = pass.run(problem, rows.batch(), form, train);
        if train {
            pass.finish_theta(Layers::one(&layer), None);
        }
        let want = step(&pass, value);
        // For a given q everything is linear in the sums, so the terms are the steps of single
        // rows.
        let mut scales = vec![Vec::new(); want.len()];
        for row in rows.each() {
            let terms = step_of_parts(problem, &[(0, row)], (form, train, 0), 0);
            scales.iter_mut().zip(&terms).for_each(|(scale, (_, terms))| add_sizes(scale, terms));
        }
        let got = step_of_parts(problem, &partition.parts(&rows), (form, train, 0), 0);
        for (((what, got), (_, want)), scale) in got.iter().zip(&want).zip(&mut scales) {
            if ["m", "S", "curvature"].contains(what) {
                // The rounding errors of whitening are relative to the whole row.
                let largest = scale.iter().fold(0.0f64, |most, size| most.max(*size));
                scale.fill(largest);
            }
            close(got, want, scale, what)?;
        }
    }

    /// A linear layer has no residual variance, so only w is sampled, and all parts share its
    /// draws.
    #[test]
    fn samples_of_w_are_those_of_all_rows_in_every_part(
        seed in 0u64..1000, partition in partition(), estimator in 0usize..4, diagonal: bool, factored: bool,
        run in 0u64..5,
    ) {
        let rows = Rows::new(seed, partition.part_of.len(), false);
        let layer = Layer::from(LinearLayer::isotropic(2, 0.1, 1.5).expect("prior"));
        let q = posterior(seed, 2);
        let lower = q.cov().full().llt(faer::Side::Lower).expect("S").L().to_owned();
        let q = if diagonal { diagonal_of(&q) } else { q };
        let deviations: Vec<f64> = if diagonal { flat(q.cov()).iter().map(|s| s.sqrt()).collect() } else { vec![] };
        let factor = factored.then_some(if diagonal {
            Factor::Diagonal(&deviations)
        } else {
            Factor::Lower(lower.as_ref())
        });
        let samples = 3;
        let estimator = [
            Estimator::Price { samples },
            Estimator::Energy { samples },
            Estimator::EnergyEntropy { samples },
            Estimator::StickingTheLanding { samples },
        ][estimator];
        let objective = Objective { loss: Loss::ExpectedLog(estimator), beta: 0.7, nodes: None, coarse: false };
        let likelihood = Gaussian::new(NOISE).into();
        let problem = Problem { factor, ..Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref()) };
        let mut pass = BatchPass::new(Layers::one(&layer), &likelihood, objective, q.as_ref(), rows.len());
        pass.seed(seed);
        let mut value = f64::NAN;
        for _ in 0..=run {
            value = pass.run(problem, rows.batch(), Form::Stable, true);
        }
        let want = step(&pass, value);
        let got = step_of_parts(problem, &partition.parts(&rows), (Form::Stable, true, seed), run);
        for ((what, got), (_, want)) in got.iter().zip(&want) {
            // Terms are products of slopes, scale · |y − f|/σ², and samples of w: at most a few
            // thousand each.
            let largest = want.iter().fold(1e3 * rows.len() as f64, |most: f64, v| most.max(v.abs()));
            close(got, want, &vec![largest; want.len()], what)?;
        }
    }
}

#[test]
fn draws_that_differ_between_parts_are_unbiased() {
    let rows = Rows::new(8, 12, false);
    let classes: Vec<f64> = rows.y.iter().map(|y| f64::from(*y > 0.0)).collect();
    let rows = Rows { y: classes, ..rows };
    let layer = model(2, "rbf(ard)", 2, 3, Jitter::DEFAULT).layers.remove(0);
    let q = posterior(5, 3);
    let split: Vec<usize> = (0..12).collect();
    let parts = [(0, rows.take(&split[..5])), (1, rows.take(&split[5..]))];
    let ups = Loss::LogPredictive(Estimator::Product { samples: 2 });
    let price = Loss::ExpectedLog(Estimator::Price { samples: 2 });
    for (loss, exact) in [(ups, Objective::dlm(1.0)), (price, Objective::elbo(1.0))] {
        let likelihood = BernoulliLogit.into();
        let problem = |objective| Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref());
        // The gradient in m and S.
        let gradient = |objective, seed, run| {
            let step = step_of_parts(problem(objective), &parts, (Form::Stable, false, seed), run);
            [&step[1].1[..], &step[2].1].concat()
        };
        let sampled = Objective { loss, beta: 1.0, nodes: None, coarse: false };
        let got = moments((0..2000).map(|run| gradient(sampled, 3, run)));
        assert_unbiased(&got, &gradient(exact, 0, 0), &format!("{loss:?}"));
    }
}

#[test]
fn part_0_is_the_pass_without_parts_and_other_parts_draw_other_numbers() {
    let rows = Rows::new(8, 300, false);
    let layer = layer(4, "rbf(ard)");
    let (q, likelihood) = (posterior(4, M), Gaussian::new(NOISE).into());
    for loss in [
        Loss::LogPredictive(Estimator::Product { samples: 2 }),
        Loss::ExpectedLog(Estimator::Price { samples: 2 }),
        Loss::ExpectedLog(Estimator::StickingTheLanding { samples: 2 }),
    ] {
        let objective = Objective { loss, beta: 1.0, nodes: None, coarse: false };
        let problem = Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref());
        let new = || {
            let mut pass =
                BatchPass::new(Layers::one(&layer), &likelihood, objective, q.as_ref(), rows.len());
            pass.seed(5);
            pass
        };
        let (mut whole, mut apart) = (new(), new());
        for run in 0..3 {
            let value = whole.run(problem, rows.batch(), Form::Stable, true);
            let other = bytes(
                apart.sums_of(problem, rows.batch(), Form::Stable, Wanted::Gradient, 1).expect("a factor"),
            );
            let sums =
                apart.sums_of(problem, rows.batch(), Form::Stable, Wanted::Gradient, 0).expect("a factor");
            assert_ne!(bytes(sums), other, "{loss:?}");
            assert_eq!(apart.finish(problem).to_bits(), value.to_bits());
            assert_eq!(bytes(apart.sums()), bytes(whole.sums()), "{loss:?}, run {run}");
            // Runs of other parts count only in the pass that made them.
            assert_eq!(apart.estimator_counts(), whole.estimator_counts());
        }
    }
}

// ---------------------------------------------------------------------------------------------------------- serde

#[test]
fn values_survive_serialisation_bit_for_bit() {
    let full = posterior(3, 9);
    let lopsided = {
        let mut cov = full.cov().full().to_owned();
        cov[(2, 5)] = f64::from_bits(cov[(2, 5)].to_bits() + 1);
        Normal::new(full.mean().to_vec(), cov).expect("q")
    };
    for (q, numbers) in [(&full, 45), (&lopsided, 81), (&diagonal_of(&full), 9)] {
        let back = travelled(q);
        let bits = |q: &Normal| flat(q.cov()).into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(&back), bits(q));
        assert_eq!((back.mean(), back.log_det().to_bits()), (q.mean(), q.log_det().to_bits()));
        // Mean, log-determinant and matrix, and a few bytes for their sizes.
        assert!((0..8).contains(&(bytes(q).len() - 8 * (9 + 1 + numbers))), "{numbers}");
    }
    travelled(&Matrix::Diagonal(vec![0.1, -0.0]));
    travelled(&EstimatorCounts { proposals: 3, accepted: u64::MAX, starved: 0 });
    travelled(&LayerGradient {
        kernel: vec![0.1, 1e-300],
        mean: vec![-0.0],
        z: Normals::new(1).mat(3, 2),
        effects: vec![0.3],
    });
    let sums = origin(&layer(3, "rbf(ard)"), &Rows::new(3, 20, false), Objective::fitc());
    let value = |sums: &BatchSums| solve(sums, 1.0).expect("FITC").value.to_bits();
    assert_eq!(value(&travelled(&sums)), value(&sums));
}
