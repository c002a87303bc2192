//! The variational posterior q(w) = N(m, S) and the rules that update it from one gradient.
//!
//! Comments about rules use these symbols. F is the objective `Σ ℓ_i + β KL(q ‖ N(0, I))` and ĝ its
//! gradient in m. B is the gradient of the losses in S, `A diag(h) Aᵀ` with a column of features in A and
//! `h_i = ∂ℓ_i/∂v_i` for each row. `H = 2B + βI` and `Ĝ = H − β S⁻¹`, which is twice the gradient of F in
//! S. C is a factor of `S = C Cᵀ`. ρ is the size of a step that mixes natural parameters, γ that of any
//! other step. 𝓜 is the smoothness of the negative log joint density. Values with ₊ are those after a step.

#[macro_use]
mod carried;

mod adam;
mod average;
pub(crate) mod carry;
mod diagonal;
mod evidence;
mod factor;
mod limits;
mod mean_newton;
mod natural;
mod normal;
mod projected_natural;
#[doc(hidden)]
pub mod research;
mod rules;
mod schedule;
mod square_root;

pub(crate) use adam::Coordinates;
pub use average::{Average, IterateAverage};
pub use carry::Parameterization;
pub(crate) use diagonal::DiagonalRule;
pub(crate) use evidence::Evidence;
pub use limits::Guard;
pub use natural::NaturalGradient;
pub use normal::{Family, Matrix, MatrixRef, Normal};
pub use projected_natural::{ProjectedNatural, clip_eigenvalues};
pub use rules::{QUpdate, Rule, RuleOptions, Rules};
pub use schedule::Schedule;
pub use square_root::SquareRoot;

use crate::columns;
use faer::{Mat, MatRef};

/// The data part of the gradient with respect to `(m, S)`; the rules add the gradient of the KL
/// term themselves.
#[derive(Clone, Copy)]
pub struct DataGradient<'a> {
    /// `A g` (M): the data part of `∇_m F`.
    pub mean: &'a [f64],
    /// `A diag(h) Aᵀ` (`M × M`, both triangles, or its diagonal): the data part of `∇_S F`.
    pub cov: MatrixRef<'a>,
    /// `A diag(∂²ℓ/∂μ²) Aᵀ`, positive semi-definite, if it differs from `2 A diag(h) Aᵀ`.
    pub curvature: Option<MatrixRef<'a>>,
    /// The data part of `∇_C F` for `S = C Cᵀ` (all entries), if reparameterised samples estimate it directly; rules without a factor use
    /// `cov` instead.
    pub path: Option<MatrixRef<'a>>,
}

/// The factor C of `S = C Cᵀ` that a rule carries.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub enum Factor<'a> {
    /// Lower triangular, zeros above the diagonal.
    Lower(MatRef<'a, f64>),
    /// Symmetric and positive definite.
    Symmetric(MatRef<'a, f64>),
    /// The diagonal of a diagonal factor.
    Diagonal(&'a [f64]),
}

/// The outcome of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepInfo {
    /// The step size taken; 0 if the update was rejected, which leaves q unchanged.
    pub step: f64,
    /// The number of times that the step was shrunk to keep q valid.
    pub rollbacks: usize,
}

/// A rule that moves q(w) against the prior N(0, I), given the gradient of the data part and β.
pub trait UpdateRule: Send {
    /// Moves `q` by a step of at most size `step`. A step that would make `q` invalid is shortened or rejected.
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo;

    /// Resets the state of the rule to match `q`, after `q` was changed by other code.
    fn restart(&mut self, q: &Normal);

    /// Returns the lower triangle of `S⁻¹`, if the rule carries it.
    #[doc(hidden)]
    fn precision(&self) -> Option<MatRef<'_, f64>> {
        None
    }

    /// Like [`UpdateRule::restart`], if the caller knows `S⁻¹` (`precision`, lower triangle). A rule that carries `S⁻¹` takes the matrix
    /// and leaves another one of the same size.
    #[doc(hidden)]
    fn restart_at(&mut self, q: &Normal, precision: &mut Mat<f64>) {
        let _ = precision;
        self.restart(q);
    }

    /// Returns the state that the rule carries from step to step, for a checkpoint.
    fn state(&self) -> Vec<u8>;

    /// Continues from a state that [`state`](Self::state) returned; returns false if `state` does not suit the rule, whose state is then
    /// undefined.
    fn restore(&mut self, state: &[u8]) -> bool;

    /// Returns the factor of S that the rule moves, if it moves one; reparameterised gradients are
    /// then gradients with respect to this factor.
    #[doc(hidden)]
    fn factor(&self) -> Option<Factor<'_>> {
        None
    }
}

impl StepInfo {
    /// A rejected update: the gradient, or a result computed from it, was not finite.
    const REJECTED: StepInfo = StepInfo { step: 0.0, rollbacks: 1 };
}

/// The maximum number of times that a step is halved before it is rejected.
const MAX_HALVINGS: usize = 30;

/// Halves a step until `accept` takes it; returns the step, 0 if none was taken, and the number of halvings.
fn halved(mut step: f64, mut accept: impl FnMut(f64) -> bool) -> StepInfo {
    for rollbacks in 0..=MAX_HALVINGS {
        if accept(step) {
            return StepInfo { step, rollbacks };
        }
        step *= 0.5;
    }
    StepInfo { step: 0.0, rollbacks: MAX_HALVINGS + 1 }
}

/// Entries of at least this size count as overflow. Products of smaller entries, as steps compute them, stay finite.
const OVERFLOW: f64 = 1e100;

/// The smallest ratio of the smallest to the largest eigenvalue of C for which `C Cᵀ` is positive definite in floating point.
const CONDITION: f64 = 1e-7;

/// Returns true if all entries are numbers below [`OVERFLOW`] in size.
fn is_sane(values: &[f64]) -> bool {
    values.iter().all(|x| x.abs() < OVERFLOW)
}

fn is_sane_matrix(a: MatRef<'_, f64>) -> bool {
    columns::largest(a) < OVERFLOW
}

/// Writes `∇_m F = A g + β m` to `out`; returns false if it is not finite.
fn mean_gradient(gradient: &DataGradient<'_>, q: &Normal, beta: f64, out: &mut [f64]) -> bool {
    for ((g, data), m) in out.iter_mut().zip(gradient.mean).zip(&q.mean) {
        *g = data + beta * m;
    }
    is_sane(out)
}

/// `m ← m − scale · direction`.
fn move_mean(q: &mut Normal, direction: &[f64], scale: f64) {
    q.mean.iter_mut().zip(direction).for_each(|(m, d)| *m -= scale * d);
}
