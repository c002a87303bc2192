//! Criterion benchmarks of whole training steps: by shape, by likelihood, by rule.
#![allow(missing_docs)] // criterion's macros make public functions without any

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use sparsegp::gradient::Batch;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::objective::Objective;
use sparsegp::training::VariationalModel;
use sparsegp::variational::{Family, NaturalGradient, Normal, Rules, SquareRoot, UpdateRule};
use sparsegp_testkit::shapes::{model, points, targets_for};
use std::hint::black_box;

type Rule = fn(&Normal) -> Box<dyn UpdateRule>;

fn natural(q: &Normal) -> Box<dyn UpdateRule> {
    Box::new(NaturalGradient::new(q))
}

fn square_root(q: &Normal) -> Box<dyn UpdateRule> {
    Box::new(SquareRoot::new(q))
}

fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: BenchmarkId,
    kind: LikelihoodKind,
    (m, b, dims): (usize, usize, usize),
    rule: Rule,
) {
    let x = points(dims, b, 0.0);
    let y = targets_for(kind, &x);
    let q = Normal::standard(Family::Full, m);
    let mut rules = Rules::from(rule(&q));
    let mut svgp = VariationalModel::new(model(kind, m, dims), q, Objective::elbo(1.0), b);
    group.bench_function(name, |bench| {
        bench.iter(|| {
            black_box(svgp.evaluate_under(Batch::of(x.transpose(), &y, 10.0), true, rules.factor()));
            let natural = svgp.model.natural();
            svgp.advance(&mut rules, 0.1, &natural);
        });
    });
}

fn shapes(c: &mut Criterion) {
    let mut group = c.benchmark_group("step/shape");
    group.sample_size(20);
    for (m, b, dims) in
        [(50, 256, 8), (100, 1000, 8), (512, 1024, 8), (512, 1024, 90), (512, 8192, 8), (1024, 1024, 8)]
    {
        let name = BenchmarkId::from_parameter(format!("M={m} b={b} D={dims}"));
        bench(&mut group, name, LikelihoodKind::Gaussian, (m, b, dims), natural);
    }
}

fn likelihoods(c: &mut Criterion) {
    let mut group = c.benchmark_group("step/likelihood M=100 b=1000");
    group.sample_size(20);
    for kind in [LikelihoodKind::Gaussian, LikelihoodKind::BernoulliProbit, LikelihoodKind::PoissonSoftplus] {
        bench(&mut group, BenchmarkId::from_parameter(kind), kind, (100, 1000, 8), natural);
    }
}

fn rules(c: &mut Criterion) {
    let mut group = c.benchmark_group("step/rule M=512 b=1024");
    group.sample_size(20);
    let rules: [(&str, Rule); 2] = [("natural gradient", natural), ("square root", square_root)];
    for (name, rule) in rules {
        let name = BenchmarkId::from_parameter(name);
        bench(&mut group, name, LikelihoodKind::Gaussian, (512, 1024, 8), rule);
    }
}

criterion_group!(benches, shapes, likelihoods, rules);
criterion_main!(benches);
