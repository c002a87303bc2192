//! Tables and files of tables: columns and targets, fits to them, model files, the fuzzing corpus.

mod arrays;
mod common;
mod corpus;
mod data;
mod explain;
mod extension;
mod fits;
mod fuzzing;
mod glm;
mod model_file;
mod offsets;
mod parts;
mod places;
mod progress;
mod scalings;
mod states;
mod targets;
mod torture;
mod trees;
