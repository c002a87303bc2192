//! Criterion benchmarks of collapsed bounds: one evaluation of value and gradient.
#![allow(missing_docs)] // criterion's macros make public functions without any

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sparsegp::collapsed::Dataset;
use sparsegp::hyper::HyperObjective;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::objective::Objective;
use sparsegp::training::CollapsedObjective;
use sparsegp_testkit::shapes::{model, points, targets};
use std::hint::black_box;

fn bounds(c: &mut Criterion) {
    let mut group = c.benchmark_group("collapsed");
    group.sample_size(10);
    for (n, m) in [(1000, 50), (10_000, 200), (10_000, 500)] {
        let x = points(8, n, 0.0);
        let y = targets(&x);
        group.throughput(Throughput::Elements(n as u64));
        for (name, bound) in [("VFE", Objective::elbo(1.0)), ("FITC", Objective::fitc())] {
            let data = Dataset::of(x.transpose(), &y);
            let mut objective = CollapsedObjective::new(model(LikelihoodKind::Gaussian, m, 8), data, bound);
            let theta = objective.start();
            let mut gradient = vec![0.0; theta.len()];
            group.bench_function(BenchmarkId::new(name, format!("n={n} M={m}")), |b| {
                b.iter(|| black_box(objective.value_and_gradient(&theta, &mut gradient)));
            });
        }
    }
}

criterion_group!(benches, bounds);
criterion_main!(benches);
