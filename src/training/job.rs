//! The rows and the plan of a fit.

use super::rows::TrainingRows;
use crate::options::Plan;

/// The rows and the plan of a fit, which every training method receives.
pub(super) struct Job<'a> {
    pub rows: &'a dyn TrainingRows,
    pub plan: &'a Plan,
    /// True if the start has used only the scale of the data.
    pub fresh: bool,
}
