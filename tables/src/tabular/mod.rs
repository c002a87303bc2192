//! From tables and files to training rows, and back to predictions; no training.

mod baselines;
mod effects;
mod fit;
mod fit_file;
mod fit_parts;
mod held_out;
mod model;
mod output_draws;
mod outputs;
mod reservoir;
mod resolve;
mod rows;
mod sampled;
mod select;
mod sharing;
mod shuffle;
mod streamed;
mod survey;
mod test_file;

pub use baselines::{Baselines, Constant, TrainingSample};
pub use effects::NamedEffect;
pub use fit::{FitRequest, TableFit, fit_table, fit_table_in};
pub use fit_file::{FileFit, FileFitRequest, MemoryPlan, check_file_fit, fit_file};
pub use fit_parts::{PartSurvey, PartsFit, PartsRequest, Preparation, TableParts};
pub(crate) use held_out::{Shares, split_table};
pub use model::TableModel;
pub use output_draws::{DrawRequest, OutputDraws};
pub use outputs::{OutputsFit, OutputsRequest, TableOutputs, fit_outputs_in};
pub(crate) use resolve::find_schema;
pub use rows::TableRows;
pub use select::select_beta;
pub(crate) use select::{fit_grid, refit_best};
pub use sharing::Sharing;
pub use survey::{Sample, Survey, Surveyed, TableSums};
pub use test_file::check_test_file;
