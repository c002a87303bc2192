//! Criterion benchmarks of likelihoods: the loss of a block of data with its derivatives, one thread.
#![allow(missing_docs)] // criterion's macros make public functions without any

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sparsegp::data::{Purpose, generator};
use sparsegp::likelihood::{LikelihoodKind, ObservationModel, TargetKind};
use sparsegp::objective::{Derivatives, LossInputs, LossScratch, Objective, Targets};
use sparsegp_testkit::shapes::{points, targets_for};
use std::hint::black_box;

const ROWS: usize = 1024;

fn losses(c: &mut Criterion) {
    let mut group = c.benchmark_group("likelihoods");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(20);
    for &name in LikelihoodKind::WORDS {
        let kind: LikelihoodKind = name.parse().expect("a word");
        let classes = kind.target_kind() == TargetKind::Class;
        for &levels in if classes { &[3, 10, 100][..] } else { &[4] } {
            let name = if classes { format!("{name} of {levels}") } else { name.to_owned() };
            family(&mut group, &name, &kind.build(levels), &targets_for(kind, &points(1, ROWS, 0.0)));
        }
    }
}

fn family(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, likelihood: &ObservationModel, y: &[f64]) {
    let numbers = ROWS * likelihood.functions();
    let mu: Vec<f64> = (0..numbers).map(|i| 2.0 * (0.1 * i as f64).sin()).collect();
    let v: Vec<f64> = (0..numbers).map(|i| 0.05 + 0.9 * (i as f64 / numbers as f64)).collect();
    for (loss, objective) in [("elbo", Objective::elbo(1.0)), ("dlm", Objective::dlm(1.0))] {
        let mut own = vec![0.0; likelihood.own_len()];
        let mut scratch = LossScratch::new(&objective);
        let mut random = generator(0, Purpose::Estimator, 0);
        let [mut g, mut h, mut residual, mut bend] = [0; 4].map(|_| vec![0.0; numbers]);
        group.bench_function(BenchmarkId::new(name, loss), |b| {
            b.iter(|| {
                let out = Derivatives {
                    mean: &mut g,
                    variance: &mut h,
                    residual: &mut residual,
                    curvature: &mut bend,
                    own: &mut own,
                };
                let rows = LossInputs { targets: Targets::of(y), mean: &mu, variance: &v, residual: &[] };
                black_box(objective.losses(likelihood, 1.0, rows, out, &mut scratch, &mut random));
            });
        });
    }
}

criterion_group!(benches, losses);
criterion_main!(benches);
