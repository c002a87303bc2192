//! Criterion benchmarks of the parts a fit is made of: kernel evaluation, a step, a collapsed bound, a prediction.
#![allow(missing_docs)] // criterion's macros make public functions without any

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::gradient::Batch;
use sparsegp::hyper::HyperObjective;
use sparsegp::kernels::{Inputs, Kernel, Scratch, Stationary};
use sparsegp::latent::{InducingLayer, Jitter};
use sparsegp::likelihood::Gaussian;
use sparsegp::model::{CollapsedBound, CollapsedObjective, LatentModel, Posterior, VariationalModel};
use sparsegp::objective::Objective;
use sparsegp::variational::{Family, NaturalGradient, Normal};
use std::hint::black_box;

const DIMS: usize = 8;

/// Points that fill the unit cube evenly without a generator (a Kronecker sequence), scaled to width 4.
fn points(n: usize, shift: f64) -> Mat<f64> {
    Mat::from_fn(DIMS, n, |i, j| {
        let irrational = [0.9, 0.82, 0.74, 0.67, 0.61, 0.55, 0.50, 0.45][i] + 0.001_234_5;
        4.0 * ((j as f64 + shift) * irrational).fract()
    })
}

fn targets(x: &Mat<f64>) -> Vec<f64> {
    (0..x.ncols()).map(|j| (2.0 * x[(0, j)]).sin() + 0.1 * (40.0 * x[(1, j)]).cos()).collect()
}

fn model(m: usize) -> LatentModel {
    let kernel = Box::new(Stationary::rbf(1.0, &[2.8; DIMS]));
    let z = points(m, 0.37).transpose().to_owned();
    let layer = InducingLayer::new(kernel, z, Jitter::DEFAULT).expect("layer");
    let mut model = LatentModel::new(layer.into(), Box::new(Gaussian::new(0.1)), false);
    model.refresh().expect("K_uu factorises");
    model
}

fn kernels(c: &mut Criterion) {
    let mut group = c.benchmark_group("cross covariance 512 x 256");
    group.throughput(Throughput::Elements(512 * 256));
    let (left, right) = (points(512, 0.37), points(256, 0.0));
    let (mut out, mut scratch) = (Mat::zeros(512, 256), Scratch::new());
    for kernel in [Stationary::rbf(1.0, &[2.8; DIMS]), Stationary::matern52(1.0, &[2.8; DIMS])] {
        group.bench_function(kernel.expression(), |b| {
            b.iter(|| {
                let inputs = Inputs::Cross { left: left.transpose(), right: right.transpose() };
                kernel.eval(inputs, out.as_mut(), &mut scratch);
                black_box(&out);
            });
        });
    }
}

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("svgp step");
    group.sample_size(20);
    for (m, b) in [(100, 1000), (512, 1024)] {
        let x = points(b, 0.0);
        let y = targets(&x);
        let q = Normal::standard(Family::Full, m);
        let mut rule = NaturalGradient::new(&q);
        let mut svgp = VariationalModel::new(model(m), q, Objective::elbo(1.0), b);
        group.bench_function(BenchmarkId::from_parameter(format!("M={m} b={b}")), |bench| {
            bench.iter(|| {
                black_box(svgp.step(Batch::of(x.as_ref(), &y, 10.0), true, &mut rule, 0.1));
                let natural = svgp.model.natural();
                svgp.set_natural(&natural);
            });
        });
    }
}

fn bounds(c: &mut Criterion) {
    let mut group = c.benchmark_group("collapsed bound, value and gradient");
    group.sample_size(10);
    let x = points(10_000, 0.0);
    let y = targets(&x);
    for bound in [CollapsedBound::Elbo { beta: 1.0 }, CollapsedBound::Fitc] {
        let data = Dataset::of(x.as_ref(), &y);
        let mut objective = CollapsedObjective::new(model(200), data, bound);
        let theta = objective.start();
        let mut gradient = vec![0.0; theta.len()];
        group.bench_function(format!("{bound:?} n=10000 M=200"), |b| {
            b.iter(|| black_box(objective.value_and_gradient(&theta, &mut gradient)));
        });
    }
}

fn predictions(c: &mut Criterion) {
    let mut group = c.benchmark_group("prediction of mean and variance, M=512");
    group.throughput(Throughput::Elements(10_000));
    group.sample_size(20);
    let x = points(10_000, 0.0);
    let model = model(512);
    let posterior = Posterior::new(&model, &Normal::standard(Family::Full, 512));
    group.bench_function("10000 rows", |b| b.iter(|| black_box(posterior.marginals(x.as_ref()))));
    group.bench_function("10000 rows, mean only", |b| b.iter(|| black_box(posterior.means(x.as_ref()))));
}

criterion_group!(benches, kernels, steps, bounds, predictions);
criterion_main!(benches);
