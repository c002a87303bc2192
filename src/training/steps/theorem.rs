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

use super::inference::InferenceOptions;
use super::model::VariationalModel;
use crate::collapsed::Dataset;
use crate::data::BatchPlan;
use crate::error::{Error, Result};
use crate::latent::{Layer, whiten};
use crate::likelihood::{LatentMarginal, Likelihood};
use crate::linalg::{self, Operand, Part, product, symmetric_eigen};
use crate::model::StepGuarantee;
use crate::quadrature::Integrator;
use crate::variational::research::guarantees::{Curvature, DistanceBound, NoiseConstants};
use crate::variational::{Normal, Schedule, Theorem};
use faer::{Accum, Mat};
use sparsegp_kernels::Scratch;

/// Replaces [`Schedule::Theorem`] in the options by the steps of the theorem for their rule, and returns its guarantee. Options without
/// that schedule are returned unchanged.
///
/// # Errors
///
/// Usage errors if the theorem does not apply: trained parameters in addition to q, mini-batches, losses with unbounded curvature, or an
/// energy that is not strongly convex.
pub(in crate::training) fn with_proven_steps(
    mut options: InferenceOptions,
    svgp: &VariationalModel,
    rows: Option<Dataset<'_>>,
    trains: bool,
) -> Result<(InferenceOptions, Option<Proven>)> {
    if options.step != Schedule::Theorem {
        return Ok((options, None));
    }
    let refuse = |why: String| Err(Error::usage(format!("⟨q_step theorem⟩ {why}")));
    if trains {
        return refuse("needs fixed hyper-parameters: use ⟨hyper fixed⟩".to_owned());
    }
    let n = rows.map_or(0, |rows| rows.len());
    let Some(rows) = rows.filter(|_| matches!(options.batches, BatchPlan::Epochs(size) if size >= n)) else {
        return refuse("needs batches of all rows, in memory: raise ⟨batch_size⟩".to_owned());
    };
    let likelihood = &svgp.model.likelihood;
    let bounded = likelihood.one().and_then(|one| Some((one, one.loss_curvature()?)));
    let (Some((likelihood, bounds)), Some(theorem)) = (bounded, options.rule.rule.theorem) else {
        let name = svgp.model.likelihood.name();
        return refuse(format!("needs losses of bounded curvature; the curvature of {name} is unbounded"));
    };
    let beta = svgp.objective().beta;
    let sums = Sums::over(svgp.model.layer(), likelihood, rows);
    let curvature = sums.curvature(bounds.0, bounds.1, beta)?;
    if curvature.strong_convexity <= 0.0 {
        return refuse(format!(
            "needs a strongly convex energy; here its curvature may be {:.3}",
            curvature.strong_convexity
        ));
    }
    let proven = Proven::new(theorem, curvature, beta, svgp.q(), &sums)?;
    options.step = proven.bound.schedule();
    options.rule.smoothness = Some(curvature.smoothness);
    Ok((options, Some(proven)))
}

/// The sums over rows that bound the energy at w = 0.
struct Sums {
    /// `Σ w_i a_i a_iᵀ`, both triangles.
    gram: Mat<f64>,
    /// `Σ w_i a_i ∂_f(−log p)` at w = 0.
    gradient: Vec<f64>,
}

impl Sums {
    fn over(layer: &Layer, likelihood: &dyn Likelihood, rows: Dataset<'_>) -> Sums {
        let (m, n) = (layer.dim(), rows.len());
        let (mut raw, mut features) = (Mat::zeros(m, n), Mat::zeros(m, n));
        let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
        layer.features(rows.x, raw.as_mut(), &mut base, &mut offset, &mut Scratch::new());
        whiten(&**layer, raw.as_ref(), features.as_mut());
        let mut integrator = Integrator::default();
        let mut gradient = vec![0.0; m];
        let mut scaled = features.clone();
        for (i, (a, scaled)) in features.col_iter().zip(scaled.col_iter_mut()).enumerate() {
            let weight = rows.targets.weight(i);
            let left = layer.kappa() * a.squared_norm_l2();
            let latent = LatentMarginal::new(offset[i], (base[i] - left).max(0.0));
            let at = rows.targets.at(i);
            let slope =
                likelihood.expected_log_density(at, latent, &mut own_of(likelihood), &mut integrator).mean;
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

/// Returns a buffer for the derivatives in the likelihood's own parameters, which are not used.
fn own_of(likelihood: &dyn Likelihood) -> Vec<f64> {
    vec![0.0; likelihood.own_len()]
}

/// The constants of a theorem and its bound.
pub(in crate::training) struct Proven {
    curvature: Curvature,
    /// a.
    noise: f64,
    bound: DistanceBound,
}

impl Proven {
    fn new(theorem: Theorem, curvature: Curvature, beta: f64, start: &Normal, sums: &Sums) -> Result<Proven> {
        let d = sums.gradient.len();
        let convexity = curvature.strong_convexity;
        // ‖θ* − θ̄‖².
        let spread = beta * d as f64 / convexity;
        let (noise, floor, at_optimum) = match theorem {
            Theorem::Proximal => (
                curvature.noise_constant_energy(d),
                curvature.noise_floor_energy(d, spread),
                Some(curvature.smoothness.powi(2) * spread),
            ),
            Theorem::Projected => (
                curvature.noise_constant_energy_entropy(d),
                curvature.noise_floor_energy_entropy(d, spread, beta),
                None,
            ),
        };
        // The distance from (m_0, C_0) to θ* is at most the way through θ̄, with ‖C_0‖² = tr S_0.
        let norm = |x: &[f64]| linalg::dot(x, x).sqrt();
        let mode = norm(start.mean()) + norm(&sums.gradient) / convexity;
        let initial = (mode.hypot(start.trace().sqrt()) + spread.sqrt()).powi(2);
        let bound =
            curvature.distance_bound(initial, NoiseConstants { constant: noise, floor }, at_optimum)?;
        Ok(Proven { curvature, noise, bound })
    }

    /// Returns the guarantee after this number of steps.
    pub(in crate::training) fn after(&self, steps: usize) -> StepGuarantee {
        let Curvature { smoothness, strong_convexity } = self.curvature;
        StepGuarantee {
            smoothness,
            strong_convexity,
            noise: self.noise,
            steps,
            distance: self.bound.at(steps),
        }
    }
}
