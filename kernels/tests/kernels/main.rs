//! Covariance functions: the contract, the grammar, edges, reference numbers, a kernel of another crate.

mod categories;
mod contract;
mod edges;
mod evaluation;
mod grammar;
mod places;
mod random_features;
mod reference;
