//! Times evidence, gradient and predictions with nearest neighbours and inducing inputs, on rows of
//! a smooth function.
//!
//! `cargo run --release --example neighbours -- ROWS INDUCING NEIGHBOURS INPUTS`

use faer::Mat;
use sparsegp::collapsed::solve;
use sparsegp::effects::Effects;
use sparsegp::gradient::{BatchPass, GivenRows, Problem, Wanted};
use sparsegp::kernels::parse;
use sparsegp::latent::{InducingPrior, Jitter};
use sparsegp::likelihood::Gaussian;
use sparsegp::model::LatentModel;
use sparsegp::neighbours::{
    COMPARISONS, Index, Predictor, Source, Windows, half_lengths, in_units_of, nearest_before,
};
use sparsegp::objective::{Objective, Targets};
use sparsegp::variational::{Family, Normal};
use std::time::Instant;

/// Runs `work`, and prints its time.
fn timed<T>(what: &str, rows: usize, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    println!("{what:<34} {seconds:8.3} s {:10.1} µs a row", 1e6 * seconds / rows as f64);
    result
}

/// Returns points that fill the unit cube evenly (Kronecker's sequence of square roots of primes).
fn inputs(rows: usize, dims: usize, first: usize) -> Mat<f64> {
    const PRIMES: [f64; 12] = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0, 31.0, 37.0];
    Mat::from_fn(rows, dims, |i, d| ((first + i + 1) as f64 * PRIMES[d % 12].sqrt()).fract())
}

fn target(x: &Mat<f64>, i: usize) -> f64 {
    (0..x.ncols()).map(|d| ((3 + d) as f64 * x[(i, d)]).sin()).sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let at = |i: usize, default: usize| numbers.get(i).copied().unwrap_or(default);
    let (n, m, k, dims) = (at(0, 4000), at(1, 50), at(2, 15), at(3, 4));
    let x = inputs(n, dims, 0);
    let y: Vec<f64> = (0..n).map(|i| target(&x, i) + 0.05 * ((i * 7919) as f64).sin()).collect();
    let z = Mat::from_fn(m, dims, |i, d| x[(i * n / m, d)]);
    let mut layer = InducingPrior::new(parse("matern52(ard)", dims)?, z, Jitter::DEFAULT)?;
    layer.kernel_mut().for_each_parameter_mut(&mut |p| {
        if p.name.starts_with("lengthscale") {
            p.values.fill(0.7);
        }
    });
    let layer = layer
        .factorised()
        .map_err(|_| "the covariance matrix of the inducing inputs cannot be factorised")?;
    let noise = [0.003];

    let near = in_units_of(layer.kernel(), x.as_ref(), &half_lengths(layer.kernel(), x.as_ref()));
    let order: Vec<u32> = (0..n as u32).collect();
    let lists = timed("search among predecessors", n, || {
        nearest_before(near.as_ref(), &order, &order, k, COMPARISONS)
    });
    let most = Windows::most_members(m);
    let windows = timed("windows", n, || Windows::near(near.as_ref(), &order, &lists, most));
    println!("{:<34} {:8.2}", "features computed for each row", windows.overhead());
    let source = Source { x: x.as_ref(), y: &y, noise: &noise, queries: None, effects: Effects::NONE };
    let rows = GivenRows { windows: &windows, sources: &[source], targets: Targets::of(&y), scale: 1.0 };
    let model = LatentModel::new(layer.clone().into(), Gaussian::new(noise[0]), false);
    let standard = [Normal::standard(Family::Full, m)];
    let problem = Problem::new(model.layers(), &model.likelihood, Objective::fitc(), &standard);
    let mut pass = BatchPass::given(problem, &windows, Effects::NONE);
    timed("evidence", n, || pass.run_given(problem, rows, Wanted::Origin, &[]));
    let found = solve(pass.sums(), 1.0).map_err(|_| "the posterior's precision cannot be factorised")?;
    let problem = Problem { q: &found.q, ..problem };
    timed("gradient", n, || pass.run_given(problem, rows, Wanted::Envelope, &[]));
    println!("{:<34} {:8.4} a row", "negative log evidence", found.value / n as f64);

    let index = timed("index of all data", n, || Index::new(near.as_ref(), order.clone(), COMPARISONS));
    let new = inputs(n, dims, n);
    let near_new = in_units_of(layer.kernel(), new.as_ref(), &half_lengths(layer.kernel(), x.as_ref()));
    let posterior = (found.q[0].mean(), found.q[0].cov().full());
    let predictor = Predictor {
        layer: &layer,
        place: 0,
        effects: Effects::NONE,
        posterior,
        noise: &noise,
        data: (x.as_ref(), &y),
    };
    let (mean, _) =
        timed("predictions", n, || predictor.marginals(new.as_ref(), &index, near_new.as_ref(), k));
    let squares: f64 = (0..n).map(|i| (mean[i] - target(&new, i)).powi(2)).sum();
    println!("{:<34} {:8.4}", "RMSE without noise", (squares / n as f64).sqrt());
    Ok(())
}
