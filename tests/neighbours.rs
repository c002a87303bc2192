//! Rows conditioned on neighbours: k = 0 is FITC, all predecessors are the exact GP, no inducing inputs matter then; gradients.

use faer::{Mat, MatRef};
use sparsegp::collapsed::{
    BoundAdjoint, BoundGradient, ConditionalStream, DataStream, Dataset, Weighting, fitc,
};
use sparsegp::kernels::{Inputs, Scratch, parse};
use sparsegp::latent::{InducingLayer, Jitter, LayerScratch};
use sparsegp::linalg::{Factorizer, dot, log_det, solve_factored, solve_lower};
use sparsegp::neighbours::{Blocks, COMPARISONS, Index, Predictor, nearest_before};

const N: usize = 90;
const NOISE: f64 = 0.07;

fn data() -> (Mat<f64>, Vec<f64>) {
    let x = Mat::from_fn(N, 2, |i, d| ((i * (7 + 4 * d)) as f64 * 0.618_034).fract() * 3.0);
    let y = (0..N).map(|i| x[(i, 0)].sin() + (2.0 * x[(i, 1)]).cos() + 0.2 * (i as f64 * 1.7).sin() + 0.3);
    let y = y.collect();
    (x, y)
}

fn layer(expression: &str, m: usize) -> InducingLayer {
    let mut kernel = parse(expression, 2).expect("a kernel");
    let mut at = 0.0;
    kernel.for_each_parameter_mut(&mut |parameter| {
        for value in &mut parameter.values {
            at += 1.0;
            *value = 0.5 + 0.17 * at;
        }
    });
    let z = Mat::from_fn(m, 2, |i, d| ((i * (3 + 2 * d)) as f64 * 0.414_214).fract() * 3.0);
    let mut layer =
        InducingLayer::new(kernel, z, Jitter::Absolute(1e-8)).expect("a layer").with_mean(0.3, false);
    layer.refresh().expect("a factor");
    layer
}

fn blocks(x: MatRef<'_, f64>, k: usize) -> Blocks {
    let order: Vec<u32> = (0..N as u32).map(|i| (i * 37) % N as u32).collect();
    let lists = nearest_before(x, &order, k, COMPARISONS);
    Blocks::new(&order, &lists)
}

/// The negative log evidence and its gradient: kernel parameters, mean, Z by columns, σ².
fn evidence(layer: &InducingLayer, blocks: &Blocks, noise: f64) -> (f64, Vec<f64>) {
    let (x, y) = data();
    let data = Dataset::of(x.as_ref(), &y);
    let mut stream = ConditionalStream::new(layer, blocks);
    stream.forward(layer, data, blocks, noise);
    let found = fitc(&stream.statistics).expect("a value");
    let mut sums = BoundGradient::zeros(layer);
    let posterior = (found.q.mean(), found.q.cov().full());
    stream.add_rows(layer, data, (blocks, noise), posterior, &mut sums);
    sums.finish(layer, &mut LayerScratch::new(layer.z().nrows()));
    (found.value, flat(&sums))
}

fn flat(sums: &BoundGradient) -> Vec<f64> {
    let mut all = sums.layer.kernel.clone();
    all.push(sums.layer.mean);
    all.extend((0..2).flat_map(|d| sums.layer.z.col(d).iter().copied().collect::<Vec<_>>()));
    all.push(sums.noise);
    all
}

fn exact(layer: &InducingLayer) -> f64 {
    let (x, y) = data();
    let mut k = Mat::zeros(N, N);
    layer.kernel().eval(Inputs::Gram(x.as_ref()), k.as_mut(), &mut Scratch::new());
    (0..N).for_each(|i| k[(i, i)] += NOISE);
    Factorizer::new(N).cholesky(k.as_mut()).expect("positive definite");
    let mut c: Vec<f64> = y.iter().map(|y| y - 0.3).collect();
    solve_lower(k.as_ref(), &mut c);
    0.5 * (N as f64 * std::f64::consts::TAU.ln() + log_det(k.as_ref()) + c.iter().map(|c| c * c).sum::<f64>())
}

fn assert_close(a: f64, b: f64, tolerance: f64, what: &str) {
    assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}: {a} and {b}");
}

#[test]
fn without_neighbours_it_is_fitc() {
    let (x, y) = data();
    let data = Dataset::of(x.as_ref(), &y);
    for expression in ["rbf(ard)", "matern32(ard) + linear", "matern52 + white"] {
        let layer = layer(expression, 12);
        let (value, gradient) = evidence(&layer, &blocks(x.as_ref(), 0), NOISE);
        let mut stream = DataStream::new(&layer, N);
        stream.forward(&layer, data, Weighting::Residual(NOISE));
        let wanted = fitc(&stream.statistics).expect("a value");
        let posterior = (wanted.q.mean(), wanted.q.cov().full());
        let by = BoundAdjoint::Fitc { noise: NOISE, posterior };
        let mut sums = BoundGradient::of_statistics(&layer, &stream.statistics, by);
        stream.add_rows(&layer, data, by, &mut sums);
        sums.finish(&layer, &mut LayerScratch::new(12));
        assert_close(value, wanted.value, 1e-12, expression);
        for (i, (a, b)) in gradient.iter().zip(flat(&sums)).enumerate() {
            assert_close(*a, b, 1e-9, &format!("{expression}, entry {i}"));
        }
    }
}

#[test]
fn all_predecessors_are_the_exact_gp_whatever_the_inducing_inputs() {
    let (x, _) = data();
    for expression in ["rbf(ard)", "matern12(ard)", "matern52 * linear + white"] {
        for m in [1, 5, 30] {
            let layer = layer(expression, m);
            let all = blocks(x.as_ref(), N - 1);
            let (value, gradient) = evidence(&layer, &all, NOISE);
            assert_close(value, exact(&layer), 1e-9, expression);
            // Nothing depends on Z.
            let kernel = gradient.len() - 2 - 2 * m;
            let size = gradient[..kernel].iter().fold(1.0f64, |most, g| most.max(g.abs()));
            assert!(
                gradient[kernel + 1..kernel + 1 + 2 * m].iter().all(|g| g.abs() < 1e-6 * size),
                "{expression} {m}"
            );
        }
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    let (x, _) = data();
    for (expression, m, k) in
        [("rbf(ard)", 8, 5), ("matern32(ard) + white", 6, 11), ("periodic * rbf + linear", 5, 3)]
    {
        let start = layer(expression, m);
        let blocks = blocks(x.as_ref(), k);
        let (_, gradient) = evidence(&start, &blocks, NOISE);
        for (i, &slope) in gradient.iter().enumerate() {
            let moved = |step: f64| {
                let (mut layer, mut noise, mut at) = (start.clone(), NOISE, 0);
                layer.kernel_mut().for_each_parameter_mut(&mut |parameter| {
                    for value in &mut parameter.values {
                        *value += if at == i { step } else { 0.0 };
                        at += 1;
                    }
                });
                layer.mean_mut().values[0] += if at == i { step } else { 0.0 };
                at += 1;
                for d in 0..2 {
                    for row in 0..m {
                        layer.z_mut()[(row, d)] += if at == i { step } else { 0.0 };
                        at += 1;
                    }
                }
                noise += if at == i { step } else { 0.0 };
                layer.refresh().expect("a factor");
                evidence(&layer, &blocks, noise).0
            };
            let h = 1e-5;
            let wanted = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h);
            assert_close(slope, wanted, 2e-6, &format!("{expression}, entry {i}"));
        }
    }
}

/// The exact predictive means and variances of f at `x` given all data.
fn exact_predictions(layer: &InducingLayer, new: MatRef<'_, f64>) -> (Vec<f64>, Vec<f64>) {
    let ((x, y), q) = (data(), new.nrows());
    let (mut k, mut between) = (Mat::zeros(N, N), Mat::zeros(N, q));
    let mut scratch = Scratch::new();
    layer.kernel().eval(Inputs::Gram(x.as_ref()), k.as_mut(), &mut scratch);
    layer.kernel().eval(Inputs::Cross { left: x.as_ref(), right: new }, between.as_mut(), &mut scratch);
    (0..N).for_each(|i| k[(i, i)] += NOISE);
    Factorizer::new(N).cholesky(k.as_mut()).expect("positive definite");
    let mut weights: Vec<f64> = y.iter().map(|y| y - 0.3).collect();
    solve_factored(k.as_ref(), &mut weights);
    let mut variance = vec![0.0; q];
    layer.kernel().diag(new, &mut variance, &mut scratch);
    let mean = (0..q).map(|i| 0.3 + dot(&weights, &between.col(i).iter().copied().collect::<Vec<_>>()));
    let mean = mean.collect();
    for (i, variance) in variance.iter_mut().enumerate() {
        let mut column: Vec<f64> = between.col(i).iter().copied().collect();
        solve_lower(k.as_ref(), &mut column);
        *variance -= dot(&column, &column);
    }
    (mean, variance)
}

#[test]
fn predictions_given_all_data_are_those_of_the_exact_gp() {
    let (x, y) = data();
    let new = Mat::from_fn(150, 2, |i, d| ((i * (5 + d)) as f64 * 0.732_051).fract() * 3.5 - 0.2);
    for (expression, m) in [("rbf(ard)", 7), ("matern32(ard) + linear", 20)] {
        let layer = layer(expression, m);
        let mut stream = ConditionalStream::new(&layer, &blocks(x.as_ref(), N - 1));
        stream.forward(&layer, Dataset::of(x.as_ref(), &y), &blocks(x.as_ref(), N - 1), NOISE);
        let q = fitc(&stream.statistics).expect("a posterior").q;
        let posterior = (q.mean(), q.cov().full());
        let predictor = Predictor { layer: &layer, posterior, noise: NOISE, data: (x.as_ref(), &y) };
        let index = Index::new(x.as_ref(), (0..N as u32).collect(), COMPARISONS);
        let (mean, variance) = predictor.marginals(new.as_ref(), (&index, new.as_ref()), N);
        let (means, variances) = exact_predictions(&layer, new.as_ref());
        for i in 0..150 {
            assert_close(mean[i], means[i], 1e-8, expression);
            assert_close(variance[i], variances[i], 1e-8, expression);
        }
        // Few of the data say less.
        let (_, few) = predictor.marginals(new.as_ref(), (&index, new.as_ref()), 3);
        assert!(few.iter().sum::<f64>() > variances.iter().sum::<f64>(), "{expression}");
    }
}

#[test]
fn more_neighbours_come_nearer_to_the_exact_evidence() {
    let (x, _) = data();
    let layer = layer("matern52(ard)", 6);
    let exact = exact(&layer);
    let gaps: Vec<f64> =
        [0, 4, 16, 64].map(|k| (evidence(&layer, &blocks(x.as_ref(), k), NOISE).0 - exact).abs()).into();
    assert!(gaps.windows(2).all(|pair| pair[1] < pair[0]), "{gaps:?}");
}
