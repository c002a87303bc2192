//! Special functions, vectorised and accurate in their tails: the normal distribution's, and those of the gamma function.

pub(crate) mod gamma;
pub mod normal;
