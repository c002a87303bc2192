//! The variational posterior q(w) and the rules that update it from one gradient; no likelihoods, no kernels.

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
pub mod research;
mod rule;
mod rules;
mod schedule;
mod square_root;
mod together;

pub use average::{Average, IterateAverage};
pub use carry::Parameterization;
pub use diagonal::DiagonalRule;
pub(crate) use evidence::Evidence;
pub use limits::Guard;
pub use natural::NaturalGradient;
pub use normal::{Family, Matrix, MatrixRef, Normal};
pub use projected_natural::{ProjectedNatural, clip_eigenvalues};
pub use rule::{Rule, RuleOptions, Theorem};
pub use rules::QUpdate;
pub use schedule::Schedule;
pub use square_root::SquareRoot;
pub use together::Rules;

use crate::checkpoint::Archive;
use crate::columns;
use faer::{Mat, MatRef};

/// The data part of the gradient with respect to `(m, S)`; the rules add the KL's part themselves.
#[derive(Clone, Copy)]
pub struct DataGradient<'a> {
    /// `A g` (M): the data part of `∇_m F`.
    pub mean: &'a [f64],
    /// `A diag(h) Aᵀ` (`M × M`, both triangles, or its diagonal): the data part of `∇_S F`.
    pub cov: MatrixRef<'a>,
    /// `A diag(∂²ℓ/∂μ²) Aᵀ`, positive semi-definite, if it differs from `2 A diag(h) Aᵀ`.
    pub curvature: Option<MatrixRef<'a>>,
    /// The data part of `∇_C F` for `S = C Cᵀ`, every entry, where samples give it directly; `cov` then is for
    /// rules without a factor.
    pub path: Option<MatrixRef<'a>>,
}

/// The factor C of `S = C Cᵀ` that a rule carries.
#[derive(Clone, Copy)]
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
    /// The step actually taken; 0 when the update was rejected and q is as before.
    pub step: f64,
    /// How often the step was shrunk to stay valid.
    pub rollbacks: usize,
}

/// A rule that moves q(w) against the prior N(0, I), given the gradient of the data part and β.
pub trait UpdateRule: Send {
    /// Moves `q`, asking for step size `step`; never leaves it invalid.
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo;

    /// Forgets what the rule carries from step to step and takes up `q`, which was changed outside.
    fn restart(&mut self, q: &Normal);

    /// The lower triangle of `S⁻¹`, where the rule carries it.
    fn precision(&self) -> Option<MatRef<'_, f64>> {
        None
    }

    /// [`UpdateRule::restart`] where `S⁻¹` is known (lower triangle read), so that a rule that carries it can take it, leaving
    /// another matrix of that size.
    fn restart_at(&mut self, q: &Normal, precision: &mut Mat<f64>) {
        let _ = precision;
        self.restart(q);
    }

    /// Passes what the rule carries from step to step through an archive.
    fn archive(&mut self, archive: &mut Archive);

    /// The factor of S that the rule moves, if it moves one; reparameterised gradients are then in this factor.
    fn factor(&self) -> Option<Factor<'_>> {
        None
    }
}

impl StepInfo {
    /// Nothing was done: the gradient or what it led to was no number.
    const REJECTED: StepInfo = StepInfo { step: 0.0, rollbacks: 1 };
}

/// How often a step may be halved before it is rejected.
const MAX_HALVINGS: usize = 30;

/// Entries from here on count as overflown: what a step forms from smaller ones, squares included, stays finite.
const OVERFLOW: f64 = 1e100;

/// The smallest ratio of the smallest to the largest eigenvalue of C for which `C Cᵀ` is positive definite in floating point.
const CONDITION: f64 = 1e-7;

/// True if all entries are numbers of reasonable size.
fn is_sane(values: &[f64]) -> bool {
    values.iter().all(|x| x.abs() < OVERFLOW)
}

/// Returns true if no entry of a matrix overflows.
fn is_sane_matrix(a: MatRef<'_, f64>) -> bool {
    columns::largest(a) < OVERFLOW
}

/// `∇_m F = A g + β m` into `out`; false when it is not finite.
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
