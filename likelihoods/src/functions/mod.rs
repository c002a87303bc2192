//! Special functions, vectorised and accurate in their tails: functions of the normal distribution, and the gamma function's relatives.

pub(crate) mod gamma;
pub mod normal;
