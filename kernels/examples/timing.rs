//! Prints nanoseconds per matrix element of kernel evaluation and adjoint.

use faer::Mat;
use sparsegp_kernels::vector_math::exp_in_place;
use sparsegp_kernels::{Gradient, Inputs, Kernel, Scratch, Stationary};
use std::time::Instant;

fn points(n: usize, d: usize, seed: u64) -> Mat<f64> {
    let mut state = seed;
    Mat::from_fn(n, d, |_, _| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5) * 3.4
    })
}

/// The best of several timings, in nanoseconds per element.
fn best(elements: usize, mut work: impl FnMut()) -> f64 {
    work();
    let mut best = f64::INFINITY;
    for _ in 0..25 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / elements as f64);
    }
    best
}

fn main() {
    let mut values = vec![-1.3; 4096];
    println!(
        "exp: {:.3}",
        best(4096, || {
            values.fill(-1.3);
            exp_in_place(&mut values)
        })
    );
    println!(
        "{:>10} {:>5} {:>5} {:>4} {:>8} {:>8} {:>10}",
        "kernel", "M", "chunk", "D", "eval", "adjoint", "both sides"
    );
    for (m, chunk, d) in [
        (100, 256, 8),
        (512, 256, 1),
        (512, 256, 2),
        (512, 256, 4),
        (512, 256, 8),
        (512, 256, 12),
        (512, 256, 16),
        (512, 256, 32),
        (512, 256, 90),
        (2048, 256, 8),
    ] {
        let (left, right) = (points(m, d, 1), points(chunk, d, 2));
        let inputs = Inputs::Cross { left: left.as_ref(), right: right.as_ref() };
        let lengthscales = vec![(d as f64).sqrt(); d];
        let kernels = [
            ("rbf", Stationary::rbf(1.3, &lengthscales)),
            ("matern52", Stationary::matern52(1.3, &lengthscales)),
            ("rq", Stationary::rational_quadratic(1.3, &lengthscales, 1.5)),
        ];
        for (name, kernel) in kernels {
            let mut scratch = Scratch::new();
            let mut k = Mat::zeros(m, chunk);
            let kbar = points(m, chunk, 3);
            let eval = best(m * chunk, || kernel.eval(inputs, k.as_mut(), &mut scratch));
            let mut parameters = vec![0.0; d + 3];
            let (mut left_grad, mut right_grad) = (Mat::zeros(m, d), Mat::zeros(chunk, d));
            let mut adjoint = |both: bool| {
                best(m * chunk, || {
                    let gradient = Gradient {
                        parameters: &mut parameters,
                        left: Some(left_grad.as_mut()),
                        right: both.then(|| right_grad.as_mut()),
                    };
                    kernel.adjoint(inputs.evaluated(k.as_ref(), kbar.as_ref()), gradient, &mut scratch);
                })
            };
            let (one, two) = (adjoint(false), adjoint(true));
            println!("{name:>10} {m:>5} {chunk:>5} {d:>4} {eval:>8.3} {one:>8.3} {two:>10.3}");
        }
    }
}
