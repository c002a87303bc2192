//! Criterion benchmarks of likelihoods with several latent functions: expectations of one datum, one thread.
#![allow(missing_docs)] // criterion's macros make public functions without any

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sparsegp::likelihood::{
    BetaPrecise, GammaShaped, GaussianHeteroskedastic, Likelihood, Marginal, NegativeBinomialDispersed,
    Observation, Slopes, Softmax, StudentTHeteroskedastic, ZeroAltered,
};
use sparsegp::quadrature::Integrator;
use std::hint::black_box;

const ROWS: usize = 64;

fn expectations(c: &mut Criterion, likelihood: &dyn Likelihood, name: &str, y: &[f64]) {
    let functions = likelihood.functions();
    let number = |i: usize, scale: f64| (scale * i as f64).sin();
    let mu: Vec<f64> = (0..ROWS * functions).map(|i| 1.5 * number(i, 0.7)).collect();
    let v: Vec<f64> = (0..ROWS * functions).map(|i| 0.5 + 0.45 * number(i, 1.3)).collect();
    let mut integrator = Integrator::new(None);
    let (mut mean, mut variance) = (vec![0.0; functions], vec![0.0; functions]);
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(20);
    for (what, predictive, slopes) in
        [("elbo value", false, false), ("elbo", false, true), ("dlm value", true, false), ("dlm", true, true)]
    {
        group.bench_function(BenchmarkId::new(what, functions), |b| {
            b.iter(|| {
                for i in 0..ROWS {
                    let at = Observation::of(y[i % y.len()]);
                    let row = i * functions..(i + 1) * functions;
                    let marginal = Marginal { mean: &mu[row.clone()], variance: &v[row] };
                    let slopes = if slopes {
                        Slopes { mean: &mut mean, variance: &mut variance, own: &mut [] }
                    } else {
                        Slopes::none()
                    };
                    black_box(if predictive {
                        likelihood.log_predictive(at, marginal, slopes, &mut integrator)
                    } else {
                        likelihood.expected_log_density(at, marginal, slopes, &mut integrator)
                    });
                }
            });
        });
    }
    if likelihood.name() == "softmax" {
        let mut out = vec![0.0; functions];
        group.bench_function(BenchmarkId::new("probabilities", functions), |b| {
            b.iter(|| {
                for i in 0..ROWS {
                    let row = i * functions..(i + 1) * functions;
                    let marginal = Marginal { mean: &mu[row.clone()], variance: &v[row] };
                    likelihood.probabilities(marginal, &mut integrator, black_box(&mut out));
                }
            });
        });
    }
}

fn softmax(c: &mut Criterion) {
    for classes in [3, 10, 100] {
        let y: Vec<f64> = (0..classes).map(f64::from).collect();
        expectations(c, &Softmax::new(classes as usize), "softmax", &y);
    }
}

fn pairs(c: &mut Criterion) {
    let families: [(Box<dyn Likelihood>, &[f64]); 6] = [
        (Box::new(GaussianHeteroskedastic::new()), &[-0.5, 1.2]),
        (Box::new(StudentTHeteroskedastic::new()), &[-0.5, 1.2]),
        (Box::new(NegativeBinomialDispersed::new()), &[0.0, 3.0]),
        (Box::new(GammaShaped::new()), &[0.3, 1.2]),
        (Box::new(BetaPrecise::new()), &[0.3, 0.8]),
        (Box::new(ZeroAltered::inflated_poisson()), &[0.0, 3.0]),
    ];
    for (likelihood, y) in &families {
        expectations(c, likelihood.as_ref(), likelihood.name(), y);
    }
}

criterion_group!(benches, softmax, pairs);
criterion_main!(benches);
