//! Slice sampling of densities of several variables, as a slow reference for approximate posteriors.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The first width of a slice, and the maximum number of steps that widen it on each side.
const WIDTH: f64 = 1.0;
const STEPS: usize = 12;

/// Returns `count` states of a chain that leaves the density `exp(log_density)` invariant, one after each sweep over all variables by
/// univariate slices that are stepped out and shrunk (Neal 2003, figs. 3 and 5).
pub fn slice_sample(
    start: &[f64],
    count: usize,
    seed: u64,
    mut log_density: impl FnMut(&[f64]) -> f64,
) -> Vec<Vec<f64>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut at, mut value) = (start.to_vec(), log_density(start));
    let mut states = Vec::with_capacity(count);
    for _ in 0..count {
        for j in 0..at.len() {
            let centre = at[j];
            let level = value + random.random::<f64>().ln();
            let mut density = |x: f64| {
                at[j] = x;
                log_density(&at)
            };
            let mut low = centre - WIDTH * random.random::<f64>();
            let mut high = low + WIDTH;
            for _ in 0..STEPS {
                if density(low) <= level {
                    break;
                }
                low -= WIDTH;
            }
            for _ in 0..STEPS {
                if density(high) <= level {
                    break;
                }
                high += WIDTH;
            }
            loop {
                let x = low + (high - low) * random.random::<f64>();
                value = density(x);
                if value > level {
                    break;
                }
                if x < centre { low = x } else { high = x }
            }
        }
        states.push(at.clone());
    }
    states
}
