//! The common code of the examples that measure times: random numbers, timing and reports.

#![allow(dead_code)] // each example uses a part

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::time::Instant;

/// Returns a generator of standard normal random numbers with this seed.
pub fn normals(seed: u64) -> impl FnMut() -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    move || StandardNormal.sample(&mut random)
}

/// Returns the milliseconds that a function takes.
pub fn milliseconds(what: impl FnOnce()) -> f64 {
    let from = Instant::now();
    what();
    from.elapsed().as_secs_f64() * 1e3
}

/// Returns a function that times one product of `M × M` by `M × b` on all threads, in milliseconds.
pub fn gemm_timer(m: usize, b: usize) -> impl FnMut() -> f64 {
    let left = Mat::from_fn(m, m, |i, j| ((i * 7 + j * 3) % 11) as f64 * 0.1);
    let right = Mat::from_fn(m, b, |i, j| ((i * 5 + j * 3) % 13) as f64 * 0.1);
    let mut out = Mat::zeros(m, b);
    let threads = rayon::current_num_threads();
    move || milliseconds(|| gemm(out.as_mut(), left.as_ref(), right.as_ref(), threads))
}

/// Computes a product with a share of the columns on each thread.
fn gemm(out: MatMut<'_, f64>, left: MatRef<'_, f64>, right: MatRef<'_, f64>, threads: usize) {
    if threads == 1 {
        return matmul(out, Accum::Replace, left, right, 1.0, Par::Seq);
    }
    let (half, at) = (threads / 2, out.ncols() * (threads / 2) / threads);
    let (first, second) = out.split_at_col_mut(at);
    let (x, z) = right.split_at_col(at);
    rayon::join(|| gemm(first, left, x, half), || gemm(second, left, z, threads - half));
}

/// Prints a report as one line of JSON, or as readable text.
pub fn print_report(report: &serde_json::Value, json: bool) {
    if json {
        println!("{report}");
    } else {
        println!("{report:#}");
    }
}

/// Returns the middle value, or the upper of the two middle values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted = Vec::from_iter(values);
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
