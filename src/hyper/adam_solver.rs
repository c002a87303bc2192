//! Adam as a solver of argmin, for problems in argmin's interface. This crate minimises its own
//! objectives with `minimize_adam`.

use super::adam::{Adam, AdamOptions, Pace, Taken};
use argmin::core::{
    CostFunction, Error as ArgminError, Gradient, IterState, KV, Problem, Solver, State, TerminationReason,
};
use serde::{Deserialize, Serialize};

/// [`Adam`] for `argmin::core::Executor`, on any problem with cost and gradient whose parameter is a `Vec<f64>`.
///
/// The state holds the point with its cost and gradient. The rate decays over `max_iters`, if that is set and the options ask for decay.
/// The solver ends when no point is left to continue from.
///
/// # Errors
///
/// If the state has no starting parameter, or if cost or gradient return an error. A cost of NaN
/// rolls back the trial step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AdamSolver {
    options: AdamOptions,
    adam: Option<Adam>,
}

impl AdamSolver {
    /// A solver with these settings.
    pub fn new(options: AdamOptions) -> Self {
        AdamSolver { options, adam: None }
    }
}

/// A point with its cost and gradient.
type Iterate = IterState<Vec<f64>, Vec<f64>, (), (), (), f64>;

/// Evaluates a point, and returns the state there.
fn evaluated<O>(problem: &mut Problem<O>, state: Iterate, theta: Vec<f64>) -> Result<Iterate, ArgminError>
where
    O: CostFunction<Param = Vec<f64>, Output = f64> + Gradient<Param = Vec<f64>, Gradient = Vec<f64>>,
{
    let (cost, gradient) = (problem.cost(&theta)?, problem.gradient(&theta)?);
    Ok(state.param(theta).cost(cost).gradient(gradient))
}

impl<O> Solver<O, Iterate> for AdamSolver
where
    O: CostFunction<Param = Vec<f64>, Output = f64> + Gradient<Param = Vec<f64>, Gradient = Vec<f64>>,
{
    fn name(&self) -> &str {
        "Adam"
    }

    fn init(
        &mut self,
        problem: &mut Problem<O>,
        mut state: Iterate,
    ) -> Result<(Iterate, Option<KV>), ArgminError> {
        let start =
            state.take_param().ok_or_else(|| ArgminError::msg("Adam needs a parameter to start from"))?;
        self.adam = Some(Adam::new(start.clone(), self.options));
        Ok((evaluated(problem, state, start)?, None))
    }

    fn next_iter(
        &mut self,
        problem: &mut Problem<O>,
        state: Iterate,
    ) -> Result<(Iterate, Option<KV>), ArgminError> {
        let (Some(adam), Some(gradient)) = (&mut self.adam, state.get_gradient()) else {
            return Err(ArgminError::msg("Adam has no gradient: start it through an executor"));
        };
        let total_steps = usize::try_from(state.get_max_iters()).unwrap_or(usize::MAX);
        let taken = adam.take(state.get_cost(), gradient, Pace { total_steps, plateaus: 0 });
        let theta = adam.theta().to_vec();
        let state = evaluated(problem, state, theta)?;
        let stuck = TerminationReason::SolverExit("no point left to continue from".to_owned());
        Ok((if taken == Taken::Stuck { state.terminate_with(stuck) } else { state }, None))
    }
}
