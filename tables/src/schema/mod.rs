//! What the columns of a table mean to a model: inputs, categories, the kind of target, its classes
//! and levels.

mod calendar;
mod check;
mod columns;
mod counts;
mod design;
mod distinct;
mod exposures;
mod extremes;
pub(crate) mod facts;
mod groups;
mod in_kernel;
mod infer_schema;
mod left_out;
mod offsets;
mod places;
pub(crate) mod ratings;
mod spread;
pub(crate) mod table_facts;
mod target;
mod trees;

pub use calendar::Cycle;
pub use calendar::after;
pub use check::input_warnings;
pub(crate) use check::odd_values;
pub(crate) use check::{constant_inputs, folded};
pub use columns::{Feature, FeatureKind, Schema, SchemaOptions, SplitBy, UnseenLevels};
pub(crate) use columns::{check_labelled, check_rows};
pub use design::UnseenColumn;
pub use exposures::Censoring;
pub use groups::{GroupFormula, Grouping};
pub(crate) use groups::{GroupLevels, label};
pub(crate) use left_out::followed;
pub use places::{EARTH_RADIUS, Places, Surface};
pub use ratings::natural_order;
pub use target::TargetEncoding;
pub use trees::TreeScores;
