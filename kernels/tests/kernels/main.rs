//! Covariance functions: the contract, the grammar, edges, reference numbers, kernels of another crate.

mod categories;
mod contract;
mod edges;
mod evaluation;
mod formulas;
mod grammar;
mod places;
mod random_features;
mod reference;
