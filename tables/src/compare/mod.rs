//! Comparisons of objectives by test figures, over training-set sizes and repeats: plan, fits,
//! results, summary.

mod plan;
mod results;
mod running;
mod store;
mod summary;

pub use plan::{Contender, Plan, Settings, Unit};
pub use results::{FitOutcome, Results, Role, Row, results_csv};
pub use running::{Finished, on_one_thread, run};
pub use store::{Store, fingerprint};
pub use summary::{Estimate, Group, summarise, summary_csv};
