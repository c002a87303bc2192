//! Steps on q with a convergence proof: constants from the rows, the schedule that follows, the
//! bound before any step.
//!
//! Domke, Garrigos & Gower 2023 in the whitened coordinates w that rules move, where the prior of w is N(0, I): with features a_i of w and
//! second derivatives of the losses between θ_min and θ_max (their Theorem 21) the energy is 𝓜-smooth and ϖ-strongly convex with
//!
//! ```text
//! 𝓜 = λ_max(βI + θ_max Σ w_i a_i a_iᵀ),    ϖ = λ_min(βI + θ_min Σ w_i a_i a_iᵀ)
//! ```
//!
//! Before training, the optimum θ* = (m*, C*) is known only to satisfy `‖θ* − θ̄‖² ≤ βd/ϖ` with
//! θ̄ = (mode, 0). This bounds everything that depends on θ*. The distance of the mode from w = 0
//! is at most `‖∇‖/ϖ`, where ∇ is the gradient of the energy at w = 0.

use crate::{Curvature, DistanceBound, NoiseConstants};
use faer::{Accum, Mat};
use sparsegp::collapsed::Dataset;
use sparsegp::latent::{Layer, whiten};
use sparsegp::likelihood::{Expectation, LatentMarginal, OneFunction, Row};
use sparsegp::linalg::{self, Operand, Part, product, symmetric_eigen};
use sparsegp::quadrature::Integrator;
use sparsegp::training::{InferenceOptions, VariationalModel};
use sparsegp::variational::Normal;
use sparsegp::{Error, Result};
use sparsegp_kernels::Scratch;

/// The kind of stochastic gradients that a convergence theorem is about (Domke, Garrigos & Gower 2023).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theorem {
    /// Theorems 6 and 7, for proximal gradients: the gradient is that of the energy.
    Proximal,
    /// Theorems 9 and 10, for projected gradients: the gradient is that of energy and entropy.
    Projected,
}

/// Replaces the schedule and the smoothness in options of steps on all `rows` by those of the theorem for their rule, and returns the
/// constants of its guarantee. θ and Z must stay fixed.
///
/// # Errors
///
/// Usage errors if the theorem does not apply: losses with unbounded curvature, or an energy that is not strongly convex.
pub fn with_proven_steps(
    mut options: InferenceOptions,
    svgp: &VariationalModel,
    rows: Dataset<'_>,
    theorem: Theorem,
) -> Result<(InferenceOptions, Proven)> {
    let likelihood = &svgp.model.likelihood;
    let bounded = likelihood.one().and_then(|one| Some((one, one.loss_curvature()?)));
    let Some((likelihood, bounds)) = bounded else {
        return Err(Error::usage(format!(
            "steps with a proof need losses of bounded curvature; the curvature of {} is unbounded",
            likelihood.name()
        )));
    };
    let beta = svgp.objective().beta;
    let sums = Sums::over(svgp.model.layer(), likelihood, rows);
    let curvature = sums.curvature(bounds.0, bounds.1, beta)?;
    if curvature.strong_convexity <= 0.0 {
        return Err(Error::usage(format!(
            "steps with a proof need a strongly convex energy; here its curvature may be {:.3}",
            curvature.strong_convexity
        )));
    }
    let proven = Proven::new(theorem, curvature, beta, svgp.q(), &sums)?;
    options.step = proven.bound.schedule();
    options.rule.smoothness = Some(curvature.smoothness);
    Ok((options, proven))
}

/// The sums over rows that bound the energy at w = 0.
struct Sums {
    /// `Σ w_i a_i a_iᵀ`, both triangles.
    gram: Mat<f64>,
    /// `Σ w_i a_i ∂_f(−log p)` at w = 0.
    gradient: Vec<f64>,
}

impl Sums {
    fn over(layer: &Layer, likelihood: &dyn OneFunction, rows: Dataset<'_>) -> Sums {
        let (m, n) = (layer.dim(), rows.len());
        let (mut raw, mut features) = (Mat::zeros(m, n), Mat::zeros(m, n));
        let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
        layer.features(rows.x, raw.as_mut(), &mut base, &mut offset, &mut Scratch::new());
        whiten(layer, raw.as_ref(), features.as_mut());
        let mut integrator = Integrator::default();
        let mut gradient = vec![0.0; m];
        let mut scaled = features.clone();
        for (i, (a, scaled)) in features.col_iter().zip(scaled.col_iter_mut()).enumerate() {
            let weight = rows.targets.weight(i);
            let left = layer.kappa() * a.squared_norm_l2();
            let latent = LatentMarginal::new(offset[i], (base[i] - left).max(0.0));
            let row = Row::new(rows.targets.at(i), latent);
            let slope = likelihood.expectation(Expectation::ExpectedLog, row, &mut [], &mut integrator).mean;
            gradient.iter_mut().zip(a.iter()).for_each(|(sum, a)| *sum -= weight * slope * a);
            scaled.iter_mut().for_each(|a| *a *= weight);
        }
        let mut gram = Mat::zeros(m, m);
        let right = Operand::full(features.transpose());
        product(gram.as_mut(), Part::Lower, Accum::Replace, Operand::full(scaled.as_ref()), right, 1.0);
        linalg::reflect_lower(gram.as_mut());
        Sums { gram, gradient }
    }

    /// 𝓜 and ϖ.
    fn curvature(&self, least: f64, most: f64, beta: f64) -> Result<Curvature> {
        let (values, _) = symmetric_eigen(self.gram.as_ref()).ok_or_else(|| {
            Error::fit("the curvature is not a finite number, because the features are too large")
        })?;
        let extremes = [values.first(), values.last()].map(|value| value.copied().unwrap_or(0.0).max(0.0));
        let all = [least, most].into_iter().flat_map(|bound| extremes.map(|value| beta + bound * value));
        let (low, high) = all.fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x.abs())));
        Ok(Curvature { smoothness: high, strong_convexity: low })
    }
}

/// The guarantee of a convergence theorem for steps on q, in the whitened coordinates (m, C) of w, with S = C Cᵀ and the prior N(0, I).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proven {
    /// The curvature of the energy.
    pub curvature: Curvature,
    /// The noise of the gradient.
    pub noise: NoiseConstants,
    /// The bound on `E(‖m − m*‖² + ‖C − C*‖²)`, known before training.
    pub bound: DistanceBound,
}

impl Proven {
    fn new(theorem: Theorem, curvature: Curvature, beta: f64, start: &Normal, sums: &Sums) -> Result<Proven> {
        let d = sums.gradient.len();
        let convexity = curvature.strong_convexity;
        // ‖θ* − θ̄‖².
        let spread = beta * d as f64 / convexity;
        let (noise, at_optimum) = match theorem {
            Theorem::Proximal => {
                (curvature.noise_of_energy(d, spread), Some(curvature.smoothness.powi(2) * spread))
            }
            Theorem::Projected => (curvature.noise_of_energy_entropy(d, spread, beta), None),
        };
        // The distance from (m_0, C_0) to θ* is at most the way through θ̄, with ‖C_0‖² = tr S_0.
        let norm = |x: &[f64]| linalg::dot(x, x).sqrt();
        let mode = norm(start.mean()) + norm(&sums.gradient) / convexity;
        let initial = (mode.hypot(start.trace().sqrt()) + spread.sqrt()).powi(2);
        Ok(Proven { curvature, noise, bound: curvature.distance_bound(initial, noise, at_optimum)? })
    }
}
