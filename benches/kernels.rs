//! Criterion benchmarks of covariance functions: values and adjoints of a block, by kernel and number of inputs.
#![allow(missing_docs)] // criterion's macros make public functions without any

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use faer::Mat;
use sparsegp::kernels::{Gradient, Inputs, Kernel, Scratch, Stationary};
use sparsegp_testkit::shapes::points;
use std::hint::black_box;

const ROWS: usize = 512;
const COLUMNS: usize = 256;

fn cross(c: &mut Criterion) {
    let mut group = c.benchmark_group("kernels/cross 512 x 256");
    group.throughput(Throughput::Elements((ROWS * COLUMNS) as u64));
    for dims in [2, 8, 26, 90] {
        let lengthscales = vec![(dims as f64).sqrt(); dims];
        let kernels = [Stationary::rbf(1.0, &lengthscales), Stationary::matern52(1.0, &lengthscales)];
        for (name, kernel) in ["rbf", "matern52"].into_iter().zip(kernels) {
            let (left, right) = (points(dims, ROWS, 0.37), points(dims, COLUMNS, 0.0));
            let inputs = Inputs::Cross { left: left.transpose(), right: right.transpose() };
            let (mut out, mut scratch) = (Mat::zeros(ROWS, COLUMNS), Scratch::new());
            group.bench_function(BenchmarkId::new(format!("{name} value"), dims), |b| {
                b.iter(|| {
                    kernel.eval(inputs, out.as_mut(), &mut scratch);
                    black_box(&out);
                });
            });
            let bar = Mat::from_fn(ROWS, COLUMNS, |i, j| 0.01 * ((i + 3 * j) % 7) as f64);
            let (mut parameters, mut z) = (vec![0.0; dims + 1], Mat::zeros(ROWS, dims));
            group.bench_function(BenchmarkId::new(format!("{name} adjoint"), dims), |b| {
                b.iter(|| {
                    let target =
                        Gradient { parameters: &mut parameters, left: Some(z.as_mut()), right: None };
                    kernel.adjoint(inputs.evaluated(out.as_ref(), bar.as_ref()), target, &mut scratch);
                });
            });
        }
    }
}

fn gram(c: &mut Criterion) {
    let mut group = c.benchmark_group("kernels/gram 512");
    group.throughput(Throughput::Elements((ROWS * ROWS) as u64));
    let x = points(8, ROWS, 0.37);
    let kernel = Stationary::rbf(1.0, &[2.8; 8]);
    let (mut out, mut scratch) = (Mat::zeros(ROWS, ROWS), Scratch::new());
    group.bench_function("rbf value", |b| {
        b.iter(|| {
            kernel.eval(Inputs::Gram(x.transpose()), out.as_mut(), &mut scratch);
            black_box(&out);
        });
    });
}

criterion_group!(benches, cross, gram);
criterion_main!(benches);
