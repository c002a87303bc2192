//! Guarantees on update rules as Python objects: numbers and arrays in, bounds out.

// The documentation is in the format of Python tools.
#![allow(rustdoc::all)]

use crate::convert::{Matrix, Vector, raised};
use pyo3::prelude::*;
use sparsegp_research as engine;

/// Bounds on the Hessian of a negative log joint: no eigenvalue is above ``smoothness`` or below ``strong_convexity``.
///
/// Domke, Garrigos & Gower 2023. For a beta other than 1 pass the prior covariance divided by beta.
///
/// Parameters
/// ----------
/// smoothness : float
///     The largest curvature, in units of the inverse square of the parameters.
/// strong_convexity : float
///     The smallest curvature, in the same units.
#[pyclass(frozen, module = "sparsegp.guarantees", from_py_object)]
#[derive(Clone, Copy)]
pub struct Curvature(engine::Curvature);

#[pymethods]
impl Curvature {
    #[new]
    fn new(smoothness: f64, strong_convexity: f64) -> Self {
        Curvature(engine::Curvature { smoothness, strong_convexity })
    }

    /// Return the curvature of Bayesian linear regression on inputs ``x`` (n × d) with a prior covariance (d × d) and a noise variance.
    #[staticmethod]
    fn linear(x: Matrix, prior_cov: Matrix, noise_variance: f64) -> PyResult<Self> {
        let found = engine::Curvature::linear(x.0.as_ref(), prior_cov.0.as_ref(), noise_variance);
        found.map(Curvature).map_err(raised)
    }

    /// Return the curvature of Bayesian logistic regression on inputs ``x`` (n × d) with a prior covariance (d × d).
    #[staticmethod]
    fn logistic(x: Matrix, prior_cov: Matrix) -> PyResult<Self> {
        engine::Curvature::logistic(x.0.as_ref(), prior_cov.0.as_ref()).map(Curvature).map_err(raised)
    }

    /// Return the curvature of a generalised linear model whose losses have second derivatives between ``least`` and ``most``, in coefficients.
    #[staticmethod]
    fn generalized(x: Matrix, prior_cov: Matrix, least: f64, most: f64) -> PyResult<Self> {
        let found = engine::Curvature::generalized(x.0.as_ref(), prior_cov.0.as_ref(), least, most);
        found.map(Curvature).map_err(raised)
    }

    /// Like ``generalized``, in the whitened coordinates that update rules move, whose prior is N(0, I).
    #[staticmethod]
    fn whitened(x: Matrix, prior_cov: Matrix, least: f64, most: f64) -> PyResult<Self> {
        let found = engine::Curvature::whitened(x.0.as_ref(), prior_cov.0.as_ref(), least, most);
        found.map(Curvature).map_err(raised)
    }

    /// The largest curvature.
    #[getter]
    fn smoothness(&self) -> f64 {
        self.0.smoothness
    }

    /// The smallest curvature.
    #[getter]
    fn strong_convexity(&self) -> f64 {
        self.0.strong_convexity
    }

    /// Return a of E‖g‖² ≤ a‖θ − θ*‖² + b for reparameterised gradients of the energy, d weights, one sample.
    fn noise_constant_energy(&self, d: usize) -> f64 {
        self.0.noise_of_energy(d, 0.0).constant
    }

    /// Return a for gradients of energy and entropy.
    fn noise_constant_energy_entropy(&self, d: usize) -> f64 {
        self.0.noise_of_energy_entropy(d, 0.0, 1.0).constant
    }

    /// Return b for gradients of the energy, given the squared distance of the optimum from (mode, 0).
    fn noise_floor_energy(&self, d: usize, squared_distance: f64) -> f64 {
        self.0.noise_of_energy(d, squared_distance).floor
    }

    /// Return b for gradients of energy and entropy.
    #[pyo3(signature = (d, squared_distance, beta=1.0))]
    fn noise_floor_energy_entropy(&self, d: usize, squared_distance: f64, beta: f64) -> f64 {
        self.0.noise_of_energy_entropy(d, squared_distance, beta).floor
    }

    /// Return a lower bound on the eigenvalues of the optimal symmetric factor of S.
    #[pyo3(signature = (beta=1.0))]
    fn eigenvalue_floor(&self, beta: f64) -> f64 {
        self.0.eigenvalue_floor(beta)
    }

    fn __repr__(&self) -> String {
        format!("Curvature(smoothness={}, strong_convexity={})", self.0.smoothness, self.0.strong_convexity)
    }
}

/// A bound on E‖θ_T − θ*‖² of proximal or projected stochastic gradients, in the squared units of (m, C).
///
/// The form of Theorems 6 and 9 of Domke, Garrigos & Gower 2023, with constants derived for this package.
///
/// Parameters
/// ----------
/// curvature : Curvature
///     The curvature of the negative log joint.
/// initial : float
///     The squared distance ‖θ_0 − θ*‖² at the start.
/// noise : float
///     The constant a of E‖g‖² ≤ a‖θ − θ*‖² + b.
/// floor : float
///     The constant b of the same inequality.
/// gradient : float, optional
///     The squared gradient at the optimum of the part that is differentiated, for proximal gradients (Theorem 6); None for projected
///     gradients (Theorem 9).
#[pyclass(frozen, module = "sparsegp.guarantees")]
pub struct DistanceBound(engine::DistanceBound);

#[pymethods]
impl DistanceBound {
    #[new]
    #[pyo3(signature = (curvature, initial, noise, floor, gradient=None))]
    fn new(
        curvature: Curvature,
        initial: f64,
        noise: f64,
        floor: f64,
        gradient: Option<f64>,
    ) -> PyResult<Self> {
        let bound =
            curvature.0.distance_bound(initial, engine::NoiseConstants { constant: noise, floor }, gradient);
        bound.map(DistanceBound).map_err(raised)
    }

    /// Return the bound in closed form after ``steps`` steps of the theorem.
    fn at(&self, steps: usize) -> f64 {
        self.0.at(steps)
    }

    /// Return the tighter bound of the recursion after ``steps`` steps.
    fn recursion(&self, steps: usize) -> f64 {
        self.0.recursion(steps)
    }

    /// Return the bound after ``steps`` constant steps; infinite for steps that are too large.
    fn with_constant_step(&self, step: f64, steps: usize) -> f64 {
        self.0.with_constant_step(step, steps)
    }

    /// The number of steps before the steps of the theorem begin to decrease.
    #[getter]
    fn constant_phase(&self) -> f64 {
        self.0.constant_phase()
    }
}

/// Bounds on E F(θ̄) − F* in nats, for convex energies and a constant step.
///
/// Theorems 7 and 10 of Domke, Garrigos & Gower 2023, general forms.
///
/// Parameters
/// ----------
/// noise : float
///     The constant a of E‖g‖² ≤ a‖θ − θ*‖² + b.
/// floor : float
///     The constant b of the same inequality.
/// initial : float
///     The squared distance ‖θ_0 − θ*‖² at the start.
#[pyclass(frozen, module = "sparsegp.guarantees")]
pub struct ConvexBound(engine::ConvexBound);

#[pymethods]
impl ConvexBound {
    #[new]
    fn new(noise: f64, floor: f64, initial: f64) -> PyResult<Self> {
        let noise = engine::NoiseConstants { constant: noise, floor };
        engine::ConvexBound::new(noise, initial).map(ConvexBound).map_err(raised)
    }

    /// Return the bound for proximal gradients.
    fn proximal(&self, step: f64, steps: usize) -> f64 {
        self.0.at(engine::Theorem::Proximal, step, steps)
    }

    /// Return the bound for projected gradients.
    fn projected(&self, step: f64, steps: usize) -> f64 {
        self.0.at(engine::Theorem::Projected, step, steps)
    }
}

/// The bound 4V₂/(n + 1) on E KL in nats of averaged natural gradients with steps 2/(t + 2) on linear regression.
///
/// V₂ of Wu & Gardner 2024, Lemma 3; the proof of their Theorem 1 loses the factor 4.
///
/// Parameters
/// ----------
/// x : array-like of shape (n, d)
///     Inputs.
/// y : array-like of shape (n,)
///     Targets.
/// prior_cov : array-like of shape (d, d)
///     The prior covariance of the coefficients; their prior mean is 0.
/// noise_variance : float
///     The variance of the noise, in squared units of the targets.
/// batch : int
///     Rows per batch, drawn with replacement.
#[pyclass(frozen, module = "sparsegp.guarantees")]
pub struct ConjugateBound(engine::ConjugateBound);

#[pymethods]
impl ConjugateBound {
    #[new]
    fn new(x: Matrix, y: Vector, prior_cov: Matrix, noise_variance: f64, batch: usize) -> PyResult<Self> {
        let (x, prior) = (x.0.as_ref(), prior_cov.0.as_ref());
        let bound = engine::ConjugateBound::new(x, &y.0, prior, noise_variance, batch);
        bound.map(ConjugateBound).map_err(raised)
    }

    /// V₂ in nats.
    #[getter]
    fn v2(&self) -> f64 {
        self.0.v2
    }

    /// Return the bound after ``steps`` steps.
    fn at(&self, steps: usize) -> f64 {
        self.0.at(steps)
    }
}

/// The limit of T · E KL, in nats, for natural gradients with steps 2/(t + 2) on linear regression.
///
/// Derived for this package.
///
/// Parameters
/// ----------
/// x : array-like of shape (n, d)
///     Inputs.
/// y : array-like of shape (n,)
///     Targets.
/// prior_mean : array-like of shape (d,)
///     The prior mean of the coefficients.
/// prior_cov : array-like of shape (d, d)
///     Their prior covariance.
/// noise_variance : float
///     The variance of the noise, in squared units of the targets.
/// batch : int
///     Rows per batch.
/// sampling : {"with-replacement", "without-replacement"}
///     The method of drawing a batch.
#[pyclass(frozen, module = "sparsegp.guarantees")]
pub struct ConjugateAsymptotic(engine::ConjugateAsymptotic);

#[pymethods]
impl ConjugateAsymptotic {
    #[new]
    #[pyo3(signature = (x, y, prior_mean, prior_cov, noise_variance, batch, sampling="with-replacement"))]
    fn new(
        x: Matrix,
        y: Vector,
        prior_mean: Vector,
        prior_cov: Matrix,
        noise_variance: f64,
        batch: usize,
        sampling: &str,
    ) -> PyResult<Self> {
        let (x, y, mean, prior) = (x.0.as_ref(), &y.0, &prior_mean.0, prior_cov.0.as_ref());
        let sampling = sampling.parse().map_err(raised)?;
        let limit = engine::ConjugateAsymptotic::new(x, y, mean, prior, noise_variance, batch, sampling);
        limit.map(ConjugateAsymptotic).map_err(raised)
    }

    /// The cost in nats of the noise of one batch.
    #[getter]
    fn cost(&self) -> f64 {
        self.0.cost()
    }

    /// Return the limit for the last iterate (``"none"``) or an average (``"expectation"``, ``"tail"``).
    #[pyo3(signature = (average="none"))]
    fn limit(&self, average: &str) -> PyResult<f64> {
        Ok(self.0.limit(average.parse().map_err(raised)?))
    }
}

/// Bounds on E KL(q* ‖ q_T) in nats, of natural gradients with and without projection.
///
/// Propositions 4 and 5 of Guilmeau, Hendrikx & Forbes 2026. They hold only for steps that the upper limit of ``q_bounds`` never shortens.
///
/// Parameters
/// ----------
/// strong_convexity : float
///     The constant m, relative to the mirror map of the family; 1 for a target in the family.
/// noise : float
///     The constant V: gradients from N samples have a variance term of at most V/N, in nats.
/// initial : float
///     The divergence KL(q* ‖ q_0) at the start, in nats.
#[pyclass(frozen, module = "sparsegp.guarantees")]
pub struct ProjectedBound(engine::ProjectedBound);

#[pymethods]
impl ProjectedBound {
    #[new]
    fn new(strong_convexity: f64, noise: f64, initial: f64) -> PyResult<Self> {
        engine::ProjectedBound::new(strong_convexity, noise, initial).map(ProjectedBound).map_err(raised)
    }

    /// Return the bound for constant steps and numbers of samples.
    fn constant(&self, step: f64, samples: f64, steps: usize) -> f64 {
        self.0.constant(step, samples, steps)
    }

    /// Return the bound for constant steps and (t + 1)^exponent samples.
    fn growing(&self, step: f64, exponent: f64, steps: usize) -> f64 {
        self.0.growing(step, exponent, steps)
    }

    /// Return the bound for steps 1/(m(t/2 + 1)), given the number of samples of every step.
    fn decreasing(&self, samples: Vec<f64>) -> f64 {
        self.0.decreasing(samples)
    }
}

/// Return V of ``ProjectedBound`` for Bonnet–Price gradients of a Gaussian target.
///
/// Parameters
/// ----------
/// precision : array-like of shape (d, d)
///     The precision of the target.
/// start_cov : array-like of shape (d, d)
///     The covariance of q at the start.
/// limits : tuple of float, optional
///     The smallest and the largest eigenvalue of the covariance that the steps allow. Limits that may bind are refused.
///
/// Returns
/// -------
/// float
///     V in nats.
#[pyfunction]
#[pyo3(signature = (precision, start_cov, limits=(0.0, f64::INFINITY)))]
pub fn price_noise(precision: Matrix, start_cov: Matrix, limits: (f64, f64)) -> PyResult<f64> {
    engine::price_noise(precision.0.as_ref(), start_cov.0.as_ref(), limits).map_err(raised)
}

/// The linear rate of square-root variational Newton with constant steps that are not shortened.
///
/// The form of Theorems 2 and 3 of Kumar, Möllenhoff, Khan & Lucchi 2025, with constants derived for this package.
///
/// Parameters
/// ----------
/// curvature : Curvature
///     The curvature of the negative log joint.
/// least_variance : float
///     A lower bound on the eigenvalues of S during the run.
/// largest_variance : float
///     An upper bound on the eigenvalues of S during the run.
/// beta : float
///     The weight of the KL term.
#[pyclass(frozen, module = "sparsegp.guarantees")]
pub struct SquareRootRate(engine::SquareRootRate);

#[pymethods]
impl SquareRootRate {
    #[new]
    #[pyo3(signature = (curvature, least_variance, largest_variance, beta=1.0))]
    fn new(curvature: Curvature, least_variance: f64, largest_variance: f64, beta: f64) -> PyResult<Self> {
        let rate = engine::SquareRootRate::new(curvature.0, least_variance, largest_variance, beta);
        rate.map(SquareRootRate).map_err(raised)
    }

    /// The Polyak–Łojasiewicz constant.
    #[getter]
    fn pl_constant(&self) -> f64 {
        self.0.pl_constant()
    }

    /// The mixing step with the best rate.
    #[getter]
    fn best_step(&self) -> f64 {
        self.0.best_step()
    }

    /// The mixing step below which the objective decreases.
    #[getter]
    fn largest_step(&self) -> f64 {
        self.0.largest_step()
    }

    /// Return the maximum factor by which a step multiplies F − F*.
    fn contraction(&self, step: f64) -> f64 {
        self.0.contraction(step)
    }

    /// Return the number of steps after which F − F* is at most ``share`` of its initial value.
    fn steps_to(&self, step: f64, share: f64) -> f64 {
        self.0.steps_to(step, share)
    }

    /// Return the largest limit of F − F*, in nats, with errors of gradient and Hessian of these norms.
    fn bias(&self, gradient_error: f64, hessian_error: f64) -> PyResult<f64> {
        self.0.bias(gradient_error, hessian_error).map_err(raised)
    }
}

/// Return the mixing step of square-root variational Newton at which the factor of S becomes singular.
///
/// Parameters
/// ----------
/// whitened : array-like of shape (d, d)
///     Cᵀ Ĝ C, with the gradient Ĝ of the data and the KL term.
/// beta : float
///     The weight of the KL term.
///
/// Returns
/// -------
/// float
///     The step; infinite if the factor stays regular for every step.
#[pyfunction]
#[pyo3(signature = (whitened, beta=1.0))]
pub fn square_root_step(whitened: Matrix, beta: f64) -> PyResult<f64> {
    engine::square_root_step(whitened.0.as_ref(), beta).map_err(raised)
}

/// Return a mixing step of square-root variational Newton below which the factor of S stays regular for every gradient.
///
/// Parameters
/// ----------
/// smoothness : float
///     The largest curvature of the negative log joint.
/// largest_variance : float
///     The largest eigenvalue of S.
/// beta : float
///     The weight of the KL term.
///
/// Returns
/// -------
/// float
///     The step; infinite if the factor stays regular for every step.
#[pyfunction]
#[pyo3(signature = (smoothness, largest_variance, beta=1.0))]
pub fn square_root_step_bound(smoothness: f64, largest_variance: f64, beta: f64) -> PyResult<f64> {
    engine::square_root_step_bound(smoothness, largest_variance, beta).map_err(raised)
}
