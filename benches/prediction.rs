//! Criterion benchmarks of predictions: latent means and variances, means alone, and quantiles.
#![allow(missing_docs)] // criterion's macros make public functions without any

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use faer::Mat;
use sparsegp::likelihood::{LatentMarginal, LikelihoodKind, Observation, Row};
use sparsegp::model::Posterior;
use sparsegp::quadrature::Integrator;
use sparsegp::variational::Normal;
use sparsegp_testkit::shapes::{model, points};
use std::hint::black_box;

fn marginals(c: &mut Criterion) {
    const ROWS: usize = 10_000;
    let mut group = c.benchmark_group("prediction");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(20);
    let x = points(8, ROWS, 0.0);
    for m in [100, 512, 1024] {
        let cov = Mat::from_fn(m, m, |i, j| if i == j { 0.5 } else { 0.0 });
        let q = Normal::new(vec![0.1; m], cov).expect("positive definite");
        let posterior = Posterior::new(&model(LikelihoodKind::Gaussian, m, 8), &q);
        group.bench_function(BenchmarkId::new("mean and variance", m), |b| {
            b.iter(|| black_box(posterior.marginals(x.transpose())));
        });
        group.bench_function(BenchmarkId::new("mean only", m), |b| {
            b.iter(|| black_box(posterior.means(x.transpose())));
        });
    }
}

fn quantiles(c: &mut Criterion) {
    const ROWS: usize = 100;
    let mut group = c.benchmark_group("prediction/quantile");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(20);
    for kind in [LikelihoodKind::Gaussian, LikelihoodKind::StudentT, LikelihoodKind::Poisson] {
        let built = kind.build(4);
        let likelihood = built.one().expect("one function");
        let mut integrator = Integrator::default();
        group.bench_function(BenchmarkId::from_parameter(kind), |b| {
            b.iter(|| {
                for i in 0..ROWS {
                    let latent = LatentMarginal::new(0.02 * i as f64, 0.3);
                    let row = Row::new(Observation::of(1.0), latent);
                    black_box(likelihood.predictive_quantile(0.9, row, &mut integrator));
                }
            });
        });
    }
}

criterion_group!(benches, marginals, quantiles);
criterion_main!(benches);
