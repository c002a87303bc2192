//! Fits of arrays from the options to predictions, their warnings, interruptions and model files.

mod builder;
mod constraints;
mod defaults;
mod diagnosis;
mod dlm;
mod explain;
mod fit;
mod function_draws;
mod grouped;
mod grouped_intervals;
mod growth;
mod inducing_init;
mod interruption;
mod neighbour_groups;
mod neighbour_sites;
mod neighbours;
mod restarts;
mod several;
mod slopes;
