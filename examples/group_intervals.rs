//! Simulated recovery of variance components: 100 data sets with a Gaussian process of one input, two crossed groupings and a random slope, and
//! the share of 95 % intervals that contain the truth.
//!
//! `cargo run --release --example group_intervals [DATA_SETS] [ROWS]`

use faer::{Mat, Side};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp::effects::EffectTerm;
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, ObjectiveKind};
use sparsegp::training::Fit;

/// The numbers of levels of both groupings.
const LEVELS: [usize; 2] = [40, 25];

/// The standard deviations of the intercepts and slopes of the first grouping, of the intercepts of the second, and of the noise.
const TRUTH: [f64; 4] = [0.7, 0.4, 0.5, 0.5];

const NAMES: [&str; 4] = ["first, intercept", "first, slope", "second, intercept", "noise"];

/// Draws the function, the effects and the noise. Returns rows of an input, two codes of levels and the column of the slope, with their
/// targets.
fn draw(n: usize, seed: u64) -> (Mat<f64>, Vec<f64>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut normals =
        |count: usize| -> Vec<f64> { (0..count).map(|_| StandardNormal.sample(&mut random)).collect() };
    let (slope, noise, draws) = (normals(n), normals(n), normals(n));
    let [a, b, c] = [LEVELS[0], LEVELS[0], LEVELS[1]].map(&mut normals);
    let input: Vec<f64> = (0..n).map(|_| random.random_range(0.0..6.0)).collect();
    let codes: Vec<[usize; 2]> =
        (0..n).map(|_| LEVELS.map(|levels| random.random_range(0..levels))).collect();
    // A function from a Gaussian process with a lengthscale of 1 and a variance of 1.
    let covariance = Mat::from_fn(n, n, |i, j| {
        (-0.5 * (input[i] - input[j]).powi(2)).exp() + if i == j { 1e-8 } else { 0.0 }
    });
    let factor = covariance.llt(Side::Lower).expect("positive definite");
    let f = factor.L() * Mat::from_fn(n, 1, |i, _| draws[i]);
    let y = (0..n).map(|i| {
        let [first, second] = codes[i];
        f[(i, 0)]
            + TRUTH[0] * a[first]
            + TRUTH[1] * b[first] * slope[i]
            + TRUTH[2] * c[second]
            + TRUTH[3] * noise[i]
    });
    let y = y.collect();
    let x = Mat::from_fn(n, 4, |i, j| match j {
        0 => input[i],
        1 | 2 => codes[i][j - 1] as f64,
        _ => slope[i],
    });
    (x, y)
}

fn term(name: &str, levels: usize, code: usize, values: &[usize]) -> EffectTerm {
    EffectTerm {
        slopes: values.iter().map(|_| "slope".to_owned()).collect(),
        values: values.to_vec(),
        ..EffectTerm::intercepts(name, levels, code)
    }
}

/// Returns the estimates with their intervals, in the order of `TRUTH`.
fn estimates(model: &Model) -> Vec<(f64, Option<[f64; 2]>)> {
    let components = model.variance_components().into_iter().map(|own| (own.sd, own.interval));
    components.chain(model.residual_deviation().map(|sd| (sd, model.residual_interval()))).collect()
}

/// The numbers of intervals of one component, by outcome.
#[derive(Clone, Copy, Default)]
struct Tally {
    estimate: f64,
    width: f64,
    covered: usize,
    below: usize,
    above: usize,
    missing: usize,
}

impl Tally {
    fn add(&mut self, truth: f64, sd: f64, interval: Option<[f64; 2]>) {
        self.estimate += sd;
        let Some([lower, upper]) = interval else {
            self.missing += 1;
            return;
        };
        self.width += upper - lower;
        match truth {
            truth if truth < lower => self.above += 1,
            truth if truth > upper => self.below += 1,
            _ => self.covered += 1,
        }
    }
}

fn main() {
    let mut given = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let (sets, n) = (given.next().unwrap_or(100), given.next().unwrap_or(400));
    let options = FitOptions {
        kernel: "rbf".to_owned(),
        objective: ObjectiveKind::Vfe,
        inducing: Some(20),
        effects: vec![term("first", LEVELS[0], 0, &[2]), term("second", LEVELS[1], 1, &[])],
        ..FitOptions::default()
    };
    let mut tallies = [Tally::default(); 4];
    for seed in 0..sets {
        let (x, y) = draw(n, seed as u64);
        let model = Fit::of(options.clone()).fit(x.as_ref(), &y);
        let model = model.expect("a fit");
        for ((tally, truth), (sd, interval)) in tallies.iter_mut().zip(TRUTH).zip(estimates(&model)) {
            tally.add(truth, sd, interval);
        }
    }
    println!("{sets} data sets of {n} rows, {} and {} levels", LEVELS[0], LEVELS[1]);
    println!("component          truth  estimate  width  covered  too high  too low  none");
    for ((name, truth), tally) in NAMES.into_iter().zip(TRUTH).zip(&tallies) {
        let (estimate, width) = (tally.estimate / sets as f64, tally.width / sets as f64);
        let Tally { covered, below, above, missing, .. } = tally;
        println!(
            "{name:17}  {truth:5.2}  {estimate:8.3}  {width:5.3}  {covered:7}  {above:8}  {below:7}  {missing:4}"
        );
    }
    let covered: usize = tallies.iter().map(|tally| tally.covered).sum();
    println!("share of all intervals that contain the truth: {:.3}", covered as f64 / (4 * sets) as f64);
}
