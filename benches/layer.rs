//! Criterion benchmarks of the algebra of a layer: structured products, factorisations, the adjoint of `K_uu`.
#![allow(missing_docs)] // criterion's macros make public functions without any

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use faer::{Accum, Mat};
use sparsegp::latent::{LatentLayer, LayerScratch};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::linalg::{
    Factorizer, Operand, Part, block_product, gram_of_inverse, invert_lower, product, spread,
};
use sparsegp_testkit::shapes::model;

const SIZES: [usize; 3] = [100, 512, 1024];

/// Returns a throughput in flops, so that criterion prints flops per second.
fn flops(count: f64) -> Throughput {
    Throughput::Elements(count as u64)
}

fn triangular(m: usize) -> Mat<f64> {
    let mut l = spread(m, m);
    for j in 0..m {
        for i in j..m {
            l[(i, j)] = if i == j { 1.0 } else { 0.1 * ((i + 3 * j) % 7) as f64 / m as f64 };
        }
    }
    l
}

fn products(c: &mut Criterion) {
    let mut group = c.benchmark_group("layer/products");
    for m in SIZES {
        let cube = (m as f64).powi(3);
        let (l, mut out) = (triangular(m), spread(m, m));
        let (lower, upper, full) =
            (Operand::lower(l.as_ref()), Operand::upper(l.transpose()), Operand::full(l.as_ref()));
        for (name, count, part, left, right) in [
            ("full, full", 2.0 * cube, Part::All, full, full),
            ("full, full, one triangle", cube, Part::Lower, full, full),
            ("lower, lower", cube / 3.0, Part::Lower, lower, lower),
            ("upper, lower", cube * 2.0 / 3.0, Part::All, upper, lower),
        ] {
            group.throughput(flops(count));
            group.bench_function(BenchmarkId::new(name, m), |b| {
                b.iter(|| product(out.as_mut(), part, Accum::Replace, left, right, 1.0));
            });
        }
        let (columns, mut block) = (Mat::<f64>::full(m, 128, 0.1), Mat::zeros(m, 128));
        group.throughput(flops(128.0 * (m * m) as f64));
        group.bench_function(BenchmarkId::new("lower, a block of 128 columns", m), |b| {
            b.iter(|| block_product(block.as_mut(), Accum::Replace, lower, columns.as_ref(), 1.0));
        });
    }
}

fn factors(c: &mut Criterion) {
    let mut group = c.benchmark_group("layer/factors");
    for m in SIZES {
        group.throughput(flops((m as f64).powi(3) / 3.0));
        let l = triangular(m);
        let mut a = spread(m, m);
        let (mut work, mut inverse, mut gram) = (spread(m, m), spread(m, m), spread(m, m));
        let (lower, upper) = (Operand::lower(l.as_ref()), Operand::upper(l.transpose()));
        product(a.as_mut(), Part::All, Accum::Replace, lower, upper, 1.0);
        let mut factorizer = Factorizer::new(m);
        group.bench_function(BenchmarkId::new("cholesky, with a copy", m), |b| {
            b.iter(|| {
                work.copy_from(&a);
                factorizer.cholesky(work.as_mut()).expect("positive definite");
            });
        });
        group.bench_function(BenchmarkId::new("inverse of a factor", m), |b| {
            b.iter(|| invert_lower(l.as_ref(), inverse.as_mut()));
        });
        group.bench_function(BenchmarkId::new("inverse from that of a factor", m), |b| {
            b.iter(|| gram_of_inverse(inverse.as_ref(), gram.as_mut()));
        });
    }
}

fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("layer/K_uu");
    for m in SIZES {
        let mut model = model(LikelihoodKind::Gaussian, m, 8);
        let natural = model.natural();
        group.bench_function(BenchmarkId::new("K_uu, L, inverse of L", m), |b| {
            b.iter(|| model.set_natural(&natural).expect("K_uu factorises"));
        });
        let layer = model.layer().clone();
        let (mut g, mut gradient, mut scratch) = (spread(m, m), layer.zero_gradient(), LayerScratch::new(m));
        group.bench_function(BenchmarkId::new("adjoint", m), |b| {
            b.iter(|| {
                g.as_mut().fill(0.01);
                layer.whitening_adjoint(g.as_mut(), &mut gradient, &mut scratch);
            });
        });
    }
}

criterion_group!(benches, products, factors, whole);
criterion_main!(benches);
