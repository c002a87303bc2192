//! Numbers in rows: which rows are for what, batches of them, scaling, moments, random draws; no tables, no files.

mod batches;
pub(crate) mod moments;
mod random;
pub(crate) mod scaling;
#[cfg(feature = "tables")]
pub(crate) mod shuffle;
mod size_schedule;
mod split;
#[cfg(feature = "tables")]
pub(crate) mod spread;
mod warp;

pub use batches::{BatchPlan, BatchStream};
pub use random::{Purpose, generator, part_generator};
pub use scaling::{Affine, Scaling};
pub use size_schedule::SizeSchedule;
pub use split::{Role, Roles, Split, check_fractions, split};
pub use warp::{InputWarp, NormalScores, TargetMap, TargetWarp};
