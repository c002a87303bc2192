//! Fits of arrays from the options to predictions, their warnings and model files.

mod common;
mod constraints;
mod defaults;
mod diagnosis;
mod fit;
mod function_draws;
mod grouped;
mod grouped_intervals;
mod growth;
mod inducing_init;
mod neighbours;
mod outputs;
mod restarts;
mod slopes;
mod values;
