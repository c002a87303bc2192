//! The code that fuzz targets run on one input, and tests on every input of the corpus.
//!
//! Each function returns true if the input was accepted, and panics if a guarantee is violated.
#![allow(dead_code)] // every fuzz target uses its own part

pub mod checkpoint;
pub mod fit;
pub mod kernel;
pub mod model;
pub mod table;
