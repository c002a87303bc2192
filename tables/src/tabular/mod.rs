//! From tables and files to training rows, and back to predictions.

mod averages;
mod baselines;
mod censored;
mod cross;
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
mod sharing;
mod streamed;
mod survey;
mod trees;

pub use averages::CellAverage;
pub use baselines::{Baselines, Constant, TrainingSample};
pub use cross::{Fold, folds};
pub use effects::NamedEffect;
pub use fit::select_beta;
pub use fit::{FitRequest, TableFit, fit_table, fit_table_in, table_model};
pub(crate) use fit::{fit_grid, refit_best};
pub use fit_file::{FileFit, FileFitRequest, MemoryPlan, check_file_fit, check_test_file, fit_file};
pub use fit_parts::{PartsFit, PartsRequest, Preparation, TableParts};
pub(crate) use held_out::{Shares, split_table, times_in, training_rows};
pub use model::TableModel;
pub use output_draws::{DrawRequest, OutputDraws};
pub use outputs::{OutputsFit, OutputsRequest, TableOutputs, fit_outputs_in};
pub(crate) use resolve::find_schema;
pub use rows::TableRows;
pub use sharing::Sharing;
pub use survey::PartSurvey;
