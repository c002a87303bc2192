//! The spectral mixture kernel, whose spectral density is a sum of Gaussians.

use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch};
use crate::pairwise::{self, LANES, OfDifferences, Run};
use crate::parameter::Parameter;
use crate::units::Unit;
use crate::vector_math::{exp, sin_cos_cycles};
use faer::{MatMut, MatRef};
use pulp::Simd;
use std::f64::consts::{PI, TAU};

/// `Σ_q w_q Π_d exp(−2π² τ_d² b_qd²) cos(2π τ_d f_qd)`, `τ = x − x'` (Wilson and Adams, 2013, eq. 12): the spectral density is
/// a mixture of Gaussians with weights `w_q`, means (frequencies) `f_qd` and standard deviations (bandwidths) `b_qd`.
#[derive(Clone, Debug, PartialEq)]
pub struct SpectralMixture {
    weights: Parameter,
    frequencies: Parameter,
    bandwidths: Parameter,
}

impl SpectralMixture {
    /// Creates the kernel with `Q` positive `weights` in squared units of the target; positive
    /// `frequencies` and `bandwidths` in cycles per unit of the inputs, `Q × D` each, the `D`
    /// values of a component side by side. A bandwidth `b` is a lengthscale `1/(2πb)`.
    /// [`Kernel::check`] refuses no components, and components of different numbers of frequencies and bandwidths.
    pub fn new(weights: &[f64], frequencies: &[f64], bandwidths: &[f64]) -> Self {
        SpectralMixture {
            weights: Parameter::start_at("weights", weights),
            frequencies: Parameter::start_at("frequencies", frequencies),
            bandwidths: Parameter::start_at("bandwidths", bandwidths),
        }
    }

    fn dims(&self) -> usize {
        self.frequencies.values.len() / self.weights.values.len().max(1)
    }

    /// `exp(−2π² Σ_d τ_d² b_d²)` of component `q`.
    #[inline(always)]
    fn envelope<S: Simd>(&self, q: usize, tau: &[Run]) -> Run {
        let mut squares = [0.0; LANES];
        for (tau, &b) in tau.iter().zip(&self.bandwidths.values[q * tau.len()..]) {
            squares.iter_mut().zip(tau).for_each(|(square, tau)| *square += (tau * b) * (tau * b));
        }
        // A closure would not be compiled for the vectors of `S`.
        for square in &mut squares {
            *square = exp::<S>(-2.0 * PI * PI * *square);
        }
        squares
    }

    /// Writes `sin 2πτ_d f_d` and `cos 2πτ_d f_d` of component `q`.
    #[inline(always)]
    fn phases<S: Simd>(&self, q: usize, tau: &[Run], sines: &mut [Run], cosines: &mut [Run]) {
        let frequencies = &self.frequencies.values[q * tau.len()..];
        for (d, (tau, &f)) in tau.iter().zip(frequencies).enumerate() {
            for lane in 0..LANES {
                (sines[d][lane], cosines[d][lane]) = sin_cos_cycles::<S>(tau[lane] * f);
            }
        }
    }
}

impl OfDifferences for SpectralMixture {
    fn workspace(&self) -> usize {
        3 * self.dims()
    }

    fn at_zero(&self) -> f64 {
        self.weights.values.iter().sum()
    }

    fn add_diagonal(&self, total: f64, parameters: &mut [f64]) {
        parameters.iter_mut().take(self.weights.values.len()).for_each(|weight| *weight += total);
    }

    #[inline(always)]
    fn value<S: Simd>(&self, tau: &[Run], work: &mut [Run]) -> Run {
        let dims = tau.len();
        let (sines, cosines) = work.split_at_mut(dims);
        let mut k = [0.0; LANES];
        for (q, &weight) in self.weights.values.iter().enumerate() {
            let mut product = self.envelope::<S>(q, tau);
            self.phases::<S>(q, tau, sines, cosines);
            for cosine in &cosines[..dims] {
                product.iter_mut().zip(cosine).for_each(|(product, cosine)| *product *= cosine);
            }
            k.iter_mut().zip(&product).for_each(|(k, product)| *k += weight * product);
        }
        k
    }

    #[inline(always)]
    fn pull_back<S: Simd>(
        &self,
        tau: &[Run],
        kbar: &Run,
        tau_bar: &mut [Run],
        parameters: &mut [Run],
        work: &mut [Run],
    ) {
        let dims = tau.len();
        let (sines, rest) = work.split_at_mut(dims);
        let (cosines, after) = rest.split_at_mut(dims);
        let (weights_bar, rest) = parameters.split_at_mut(self.weights.values.len());
        let (frequencies_bar, bandwidths_bar) = rest.split_at_mut(self.frequencies.values.len());
        tau_bar.fill([0.0; LANES]);
        for (q, &weight) in self.weights.values.iter().enumerate() {
            let envelope = self.envelope::<S>(q, tau);
            self.phases::<S>(q, tau, sines, cosines);
            // A cosine may be 0, so the product of all other cosines is computed from the products before and after it, without a division.
            let mut product = [1.0; LANES];
            for d in (0..dims).rev() {
                after[d] = product;
                product.iter_mut().zip(&cosines[d]).for_each(|(product, cosine)| *product *= cosine);
            }
            let mut before = [1.0; LANES];
            for lane in 0..LANES {
                weights_bar[q][lane] += kbar[lane] * envelope[lane] * product[lane];
            }
            for d in 0..dims {
                let at = q * dims + d;
                let (f, b) = (self.frequencies.values[at], self.bandwidths.values[at]);
                for lane in 0..LANES {
                    // An envelope of 0 times an infinite difference would not be a number.
                    let tau = if envelope[lane] == 0.0 { 0.0 } else { tau[d][lane] };
                    let bar = kbar[lane] * weight * envelope[lane];
                    let phase = -TAU * bar * before[lane] * after[d][lane] * sines[d][lane];
                    let decay = -TAU * TAU * bar * product[lane] * tau * b;
                    frequencies_bar[at][lane] += phase * tau;
                    bandwidths_bar[at][lane] += decay * tau;
                    tau_bar[d][lane] += phase * f + decay * b;
                    before[lane] *= cosines[d][lane];
                }
            }
        }
    }
}

impl Kernel for SpectralMixture {
    fn eval(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch) {
        pairwise::evaluate(self, inputs, out, scratch);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        pairwise::adjoint(self, at, grad, scratch);
    }

    fn diag(&self, _: MatRef<'_, f64>, out: &mut [f64], _: &mut Scratch) {
        out.fill(self.at_zero());
    }

    fn diag_adjoint(&self, _: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _: &mut Scratch) {
        self.add_diagonal(kbar.iter().sum(), grad.parameters);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        [&self.weights, &self.frequencies, &self.bandwidths].into_iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        [&mut self.weights, &mut self.frequencies, &mut self.bandwidths].into_iter().for_each(visit);
    }

    /// Weights share the variance equally. Component `q = 0, 1, …` starts at the frequencies `(q + ½)/(4 spread_d √D)`, so about `q + ½`
    /// waves span the data. Its bandwidths, `1/(2π spread_d √D)`, belong to the usual lengthscales, and neighbouring components overlap.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        let (dims, components) = (self.dims(), self.weights.values.len() as f64);
        let length = |i: usize| {
            let s = spread.get(i % dims).copied().filter(|s| s.is_finite() && *s > 0.0).unwrap_or(1.0);
            s * (dims as f64).sqrt()
        };
        self.weights.start(|_| target_variance / components);
        self.frequencies.start(|i| ((i / dims) as f64 + 0.5) / (4.0 * length(i)));
        self.bandwidths.start(|i| 1.0 / (TAU * length(i)));
    }

    /// Only a lone weight multiplies the whole kernel.
    fn fix_scale(&mut self) {
        self.weights.fixed |= self.weights.values.len() == 1;
    }

    /// Frequencies and bandwidths are in cycles per unit of their columns.
    fn units(&self, dims: usize) -> Vec<Unit> {
        let cycles = |values: &Parameter| {
            (0..values.values.len()).map(move |i| Unit::of_columns(-1.0, vec![i % dims.max(1)]))
        };
        let weights = vec![Unit::of_target(2.0); self.weights.values.len()];
        weights.into_iter().chain(cycles(&self.frequencies)).chain(cycles(&self.bandwidths)).collect()
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        let [weights, frequencies, bandwidths] =
            [&self.weights, &self.frequencies, &self.bandwidths].map(|parameter| parameter.values.len());
        if weights > 0 && frequencies == bandwidths && frequencies == weights * dims {
            return Ok(());
        }
        Err(format!(
            "a spectral mixture has {weights} weights, {frequencies} frequencies and {bandwidths} bandwidths, expected as many frequencies and bandwidths as weights times the {dims} columns of the inputs"
        ))
    }

    fn expression(&self) -> String {
        format!("spectral_mixture(components={})", self.weights.values.len())
    }

    fn min_dims(&self) -> usize {
        self.dims()
    }
}
