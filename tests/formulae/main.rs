//! Values, gradients, identities and rules on problems of a few rows, each against numbers that do
//! not come from the code under test.

mod density_formulas;
mod equivalence;
mod extremes;
mod feature_maps;
mod gradients;
mod grouped;
mod grouped_sites;
mod guarantees;
mod hyper;
mod known;
mod likelihoods;
mod linalg;
mod metrics;
mod neighbours;
mod objectives;
mod prelude;
mod reference;
mod rules;
mod sampling;
mod scores;
mod successes_and_ends;
mod sums;
