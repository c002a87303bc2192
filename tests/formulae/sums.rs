//! Sums over data in parts: any partition of the rows, stored and merged in any order, gives the result of one pass over all rows.
//!
//! Merging changes the order in which sums over rows are rounded, so a sum of n terms differs by up
//! to n ε times the sum of the absolute values of the terms. Comparisons are therefore relative to
//! that sum, which parts of one row give. With at most 40 rows, the tolerance 1e-12 leaves a factor
//! of a hundred for the M × M algebra.

use crate::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

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

struct Rows {
    x: Mat<f64>,
    y: Vec<f64>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
}

impl Rows {
    fn new(seed: u64, n: usize, counts: bool) -> Rows {
        let (x, mut y) = data(seed, 2, n);
        let mut normals = Normals::new(seed ^ 0xabc);
        let mut positive = |wanted| (0..if wanted { n } else { 0 }).map(|_| normals.next().exp()).collect();
        let (exposure, weights) = (positive(counts), positive(seed.is_multiple_of(2)));
        if counts {
            y.iter_mut().for_each(|y| *y = (2.0 * y.abs()).floor());
        }
        Rows { x, y, exposure, weights }
    }

    fn take(&self, rows: &[usize]) -> Rows {
        let some = |all: &[f64]| if all.is_empty() { vec![] } else { rows.iter().map(|&i| all[i]).collect() };
        Rows {
            x: Mat::from_fn(2, rows.len(), |i, j| self.x[(i, rows[j])]),
            y: some(&self.y),
            exposure: some(&self.exposure),
            weights: some(&self.weights),
        }
    }

    fn len(&self) -> usize {
        self.y.len()
    }

    fn each(&self) -> Vec<Rows> {
        (0..self.len()).map(|row| self.take(&[row])).collect()
    }

    fn targets(&self) -> Targets<'_> {
        Targets { exposure: &self.exposure, weights: &self.weights, ..Targets::of(&self.y) }
    }

    fn batch(&self) -> Batch<'_> {
        Batch { x: self.x.transpose(), targets: self.targets(), scale: 2.5 }
    }
}

/// The index of the part, out of up to 7, that contains each row, and the order in which parts are merged.
#[derive(Clone, Debug)]
struct Partition {
    part_of: Vec<usize>,
    order: Vec<usize>,
}

fn partition() -> impl Strategy<Value = Partition> {
    (1usize..=7).prop_flat_map(|parts| {
        let part_of = prop::collection::vec(0..parts, 1..40);
        let order = Just((0..parts).collect::<Vec<usize>>()).prop_shuffle();
        (part_of, order).prop_map(|(part_of, order)| Partition { part_of, order })
    })
}

impl Partition {
    /// Returns the parts in the order of merging, with their numbers.
    fn parts(&self, rows: &Rows) -> Vec<(u64, Rows)> {
        let of = |part: usize| -> Vec<usize> {
            (0..rows.len()).filter(|&row| self.part_of[row] == part).collect()
        };
        self.order.iter().map(|&part| (part as u64, rows.take(&of(part)))).collect()
    }
}

/// Returns a layer whose `K_uu` has a condition number below M/0.1, the factor by which whitening
/// amplifies rounding errors.
fn layer(seed: u64, kernel: &str) -> Layer {
    model(seed, kernel, 2, M, Jitter::Relative(0.1)).layers.remove(0)
}

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
        let mut pass = BatchPass::new(problem, rows);
        pass.seed(seed);
        pass.go_to_run(run);
        pass
    };
    let (none, mut client) = (Rows { x: Mat::new(), y: vec![], exposure: vec![], weights: vec![] }, pass(0));
    let none = Batch { x: MatRef::from_row_major_slice(&[], 0, 2), ..none.batch() };
    assert!(client.begin(problem, form, Wanted::of(train)));
    client.add(problem, none, 0);
    for (part, rows) in parts {
        let mut worker = pass(rows.len());
        assert!(worker.begin(problem, form, Wanted::of(train)));
        worker.add(problem, rows.batch(), *part);
        client.merge(&travelled(worker.sums_so_far())).expect("parts of one batch");
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

        let mut pass = BatchPass::new(problem, rows.len());
        let value = pass.run(problem, rows.batch(), form, train);
        if train {
            pass.finish_theta(Layers::one(&layer), None);
        }
        let want = step(&pass, value);
        // For a given q everything is linear in the sums, so the terms are the steps of single rows.
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

    /// A linear layer has no residual variance, so only w is sampled, and all parts share its draws.
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
        let objective = Objective { loss: Loss::ExpectedLog(estimator), ..Objective::elbo(0.7) };
        let likelihood = Gaussian::new(NOISE).into();
        let problem = Problem { factor, ..Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref()) };
        let mut pass = BatchPass::new(problem, rows.len());
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
