//! One output as a combination of latent processes, `f = b + Σ_l w_l g_l`, seen through a
//! likelihood of one latent function.

use super::{
    Expectation, LatentMarginal, LatentRow, Likelihood, LikelihoodKind, Marginal, Observation, OneFunction,
    Row, Slopes,
};
use crate::quadrature::Integrator;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::{Parameter, Transform};

/// An output of the linear model of coregionalisation (Journel & Huijbregts 1978): its likelihood, its row `w` of the
/// mixing W and its offset b.
///
/// Its functions are the L processes, so that expectations are those of the likelihood under `N(b + Σ w_l μ_l, Σ w_l² v_l)`.
#[derive(Clone, Debug)]
pub struct Mixed {
    likelihood: Box<dyn OneFunction>,
    weights: Parameter,
    offset: Parameter,
}

impl Mixed {
    /// Creates an output with one weight per process and an offset; both are trained unless they
    /// are fixed.
    pub fn new(likelihood: Box<dyn OneFunction>, weights: Vec<f64>, offset: f64) -> Mixed {
        let parameter = |name: &str, values| Parameter::new(name, values, Transform::Identity);
        let (weights, offset) = (parameter("weights", weights), parameter("offset", vec![offset]));
        Mixed { likelihood, weights, offset }
    }

    /// Creates the output that equals one of `processes` processes, with fixed weights and offset.
    pub(super) fn alone(likelihood: Box<dyn OneFunction>, which: usize, processes: usize) -> Mixed {
        let unit = (0..processes).map(|process| f64::from(u8::from(process == which))).collect();
        let mut output = Mixed::new(likelihood, unit, 0.0).fixed();
        output.offset.fixed = true;
        output
    }

    /// The likelihood of the output.
    pub fn likelihood(&self) -> &dyn OneFunction {
        &*self.likelihood
    }

    /// Returns the likelihood without the mixing.
    pub(crate) fn into_likelihood(self) -> Box<dyn Likelihood> {
        self.likelihood.as_likelihood().boxed_clone()
    }

    /// The weights of the processes.
    pub fn weights(&self) -> &[f64] {
        &self.weights.values
    }

    /// The offset b.
    pub fn offset(&self) -> f64 {
        self.offset.values[0]
    }

    /// Fixes the weights.
    pub fn fixed(mut self) -> Mixed {
        self.weights.fixed = true;
        self
    }

    /// The number of own parameter values.
    pub(super) fn own_len(&self) -> usize {
        (self as &dyn Likelihood).own_len()
    }

    /// Returns f, given the values of the processes.
    pub(super) fn mix(&self, processes: &[f64]) -> f64 {
        self.offset() + self.weights().iter().zip(processes).map(|(w, g)| w * g).sum::<f64>()
    }

    /// `E log p(y|f)` or `log E p(y|f)`, with its derivatives added to the slopes: `g_l = w_l g`, `h_l = w_l² h`,
    /// `∂/∂w_l = g μ_l + 2 w_l h v_l`, `∂/∂b = g`.
    pub(super) fn add(
        &self,
        of: Expectation,
        row: Row,
        slopes: &mut Slopes,
        integrator: &mut Integrator,
    ) -> f64 {
        let marginal = row.marginal;
        let processes = self.weights().len();
        let (mixing, own) = slopes.own.split_at_mut(slopes.own.len().min(processes + 1));
        let local = self.likelihood.expectation(of, self.latent_row(row), own, integrator);
        for (l, w) in self.weights().iter().enumerate() {
            if let (Some(mean), Some(variance)) = (slopes.mean.get_mut(l), slopes.variance.get_mut(l)) {
                *mean += w * local.mean;
                *variance += w * w * local.variance;
            }
            if let Some(by_weight) = mixing.get_mut(l) {
                *by_weight += local.mean * marginal.mean[l] + 2.0 * w * local.variance * marginal.variance[l];
            }
        }
        if let Some(by_offset) = mixing.get_mut(processes) {
            *by_offset += local.mean;
        }
        local.value
    }

    /// Adds to `log p(y|f)` and `∂_{g_l}`, or to `∂²_{g_l}`, at every node.
    pub(super) fn add_slopes(&self, at: Observation, nodes: &[f64], values: &mut [f64], slopes: &mut [f64]) {
        let processes = self.weights().len();
        for ((g, sum), slopes) in nodes.chunks(processes).zip(values).zip(slopes.chunks_mut(processes)) {
            let (value, first) = self.likelihood.value_and_slope(at, self.mix(g));
            *sum += value;
            slopes.iter_mut().zip(self.weights()).for_each(|(slope, w)| *slope += w * first);
        }
    }

    pub(super) fn add_curvature(&self, at: Observation, nodes: &[f64], out: &mut [f64]) {
        let processes = self.weights().len();
        for (g, out) in nodes.chunks(processes).zip(out.chunks_mut(processes)) {
            let curvature = self.likelihood.curvature(at, self.mix(g));
            out.iter_mut().zip(self.weights()).for_each(|(out, w)| *out += w * w * curvature);
        }
    }
}

impl Likelihood for Mixed {
    fn mixing(&self) -> Option<&[f64]> {
        Some(self.weights())
    }

    fn kind(&self) -> LikelihoodKind {
        self.likelihood.kind()
    }

    fn function_names(&self) -> Vec<String> {
        process_names(self.weights().len())
    }

    fn of_mixture(&self) -> Option<&dyn OneFunction> {
        Some(&*self.likelihood)
    }

    fn latent_row<'a>(&self, Row { at, marginal: Marginal { mean, variance } }: Row<'a>) -> LatentRow<'a> {
        let variance = self.weights().iter().zip(variance).map(|(w, v)| w * w * v).sum();
        Row::new(at, LatentMarginal { mean: self.mix(mean), variance })
    }

    fn output(&self, which: usize) -> Option<Mixed> {
        (which == 0).then(|| self.clone())
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], slope: &mut [f64]) {
        value.fill(0.0);
        slope.fill(0.0);
        self.add_slopes(at, f, value, slope);
    }

    fn curvature(&self, at: Observation, f: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        self.add_curvature(at, f, out);
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let processes = self.weights().len();
        let (mixing, own) = own.split_at_mut(own.len().min(processes + 1));
        for (f, weight) in f.chunks(processes).zip(weights) {
            let mixed = self.mix(f);
            let (_, first) = self.likelihood.value_and_slope(at, mixed);
            for (by_weight, g) in mixing.iter_mut().zip(f.iter().chain(&[1.0])) {
                *by_weight += weight * first * g;
            }
            self.likelihood.own_gradient(at, &[mixed], &[*weight], own);
        }
    }

    fn expectation(&self, of: Expectation, row: Row, mut slopes: Slopes, integrator: &mut Integrator) -> f64 {
        slopes.clear();
        self.add(of, row, &mut slopes, integrator)
    }

    fn sample(&self, at: Observation, f: &[f64], random: &mut ChaCha8Rng) -> f64 {
        self.likelihood.sample(at, self.mix(f), random)
    }

    /// Returns the processes nearest to 0 whose mixture is the response of the likelihood.
    fn working_response(&self, at: Observation, out: &mut [f64]) {
        let squares: f64 = self.weights().iter().map(|w| w * w).sum();
        let share = (self.likelihood.working_response(at) - self.offset()) / squares.max(f64::MIN_POSITIVE);
        out.iter_mut().zip(self.weights()).for_each(|(out, w)| *out = w * share);
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> Vec<f64> {
        let centre = self.likelihood.initialise(y, exposure);
        if !(self.offset.fixed || self.offset.given) {
            self.offset.values[0] = centre;
        }
        vec![0.0; self.weights().len()]
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.weights);
        visit(&self.offset);
        self.likelihood.for_each_parameter(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.weights);
        visit(&mut self.offset);
        self.likelihood.for_each_parameter_mut(visit);
    }
}

/// Returns the names of L processes.
pub(super) fn process_names(processes: usize) -> Vec<String> {
    (0..processes).map(|process| format!("process_{process}")).collect()
}
