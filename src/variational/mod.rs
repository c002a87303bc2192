//! The variational posterior q(w) and the rules that update it from one gradient; no likelihoods, no kernels.

mod adam;
mod average;
mod gaussian;
pub mod guarantees;
mod natural;
mod schedule;
mod size_schedule;

pub use adam::AdamRule;
pub use average::{Average, IterateAverage};
pub use gaussian::FullGaussian;
pub use natural::{Guard, NaturalGradient};
pub use schedule::Schedule;
pub use size_schedule::SizeSchedule;

use faer::MatRef;

/// The data part of the gradient with respect to `(m, S)`; the rules add the KL's part themselves.
#[derive(Clone, Copy)]
pub struct DataGradient<'a> {
    /// `A g` (M): the data part of `∇_m F`.
    pub mean: &'a [f64],
    /// `A diag(h) Aᵀ` (`M × M`, both triangles): the data part of `∇_S F`.
    pub cov: MatRef<'a, f64>,
    /// `A diag(∂²ℓ/∂μ²) Aᵀ`, positive semi-definite, where that is not `2 A diag(h) Aᵀ`.
    pub curvature: Option<MatRef<'a, f64>>,
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepInfo {
    /// The step actually taken; 0 when the update was rejected and q is as before.
    pub step: f64,
    /// How often the step was shrunk to stay valid.
    pub rollbacks: usize,
}

/// A rule that moves q(w) against the prior N(0, I), given the gradient of the data part and β.
pub trait UpdateRule: Send {
    /// Moves `q`, asking for step size `step`; never leaves it invalid.
    fn step(&mut self, q: &mut FullGaussian, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo;

    /// Forgets what the rule carries from step to step and takes up `q`, which was changed outside.
    fn restart(&mut self, q: &FullGaussian);
}
