//! Fits of arrays from the options to predictions, their warnings and model files.

mod common;
mod conformal;
mod constraints;
mod defaults;
mod diagnosis;
mod families;
mod fit;
mod formulas;
mod function_draws;
mod grouped;
mod grouped_intervals;
mod growth;
mod hyper_posterior;
mod known;
mod leave_one_out;
mod neighbours;
mod offsets;
mod outputs;
mod slopes;
mod values;
