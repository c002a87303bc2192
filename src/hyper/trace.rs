//! What a solver's run leaves for the trace: an argmin observer that collects epochs; no decisions.

use argmin::core::observers::Observe;
use argmin::core::{Error as ArgminError, IterState, KV};
use std::cell::RefCell;
use std::rc::Rc;

/// A solver's state: a vector, its gradient, and a number.
pub(super) type Iterate = IterState<Vec<f64>, Vec<f64>, (), (), (), f64>;

/// The epochs that a run completed, each with its objective, until somebody takes them.
#[derive(Clone, Default)]
pub(super) struct Epochs(Rc<RefCell<Vec<f64>>>);

impl Epochs {
    /// The key under which a solver whose iterations are not epochs hands over the objective of an epoch.
    pub(super) const KEY: &'static str = "epoch objective";

    /// The epochs since the last call.
    pub(super) fn take(&self) -> Vec<f64> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

/// Collects the epochs of a run.
pub(super) struct Observer {
    pub(super) epochs: Epochs,
    /// Whether every iteration with a point is an epoch, whose objective is its cost.
    pub(super) every_iteration: bool,
}

impl Observe<Iterate> for Observer {
    fn observe_iter(&mut self, state: &Iterate, kv: &KV) -> Result<(), ArgminError> {
        if self.every_iteration {
            // A failed line search comes back without a point: not an iteration.
            if state.param.is_some() {
                self.epochs.0.borrow_mut().push(state.cost);
            }
        } else if let Some(objective) = kv.get(Epochs::KEY).and_then(|value| value.get_float()) {
            self.epochs.0.borrow_mut().push(objective);
        }
        Ok(())
    }
}
