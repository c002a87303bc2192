//! Outputs of one datum, each a combination of latent processes, `f = b + Σ_l w_l g_l`, seen through a likelihood of one latent function.

use super::{
    Expectation, LatentMarginal, LatentRow, Likelihood, LikelihoodKind, Marginal, Observation, OneFunction,
    Row, Slopes, TargetKind,
};
use crate::quadrature::Integrator;
use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::{Parameter, Transform};
use std::f64::consts::TAU;

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
    fn alone(likelihood: Box<dyn OneFunction>, which: usize, processes: usize) -> Mixed {
        let unit = (0..processes).map(|process| f64::from(u8::from(process == which))).collect();
        let mut output = Mixed::new(likelihood, unit, 0.0).fixed();
        output.offset.fixed = true;
        output
    }

    /// Returns true if the output always equals the process with this index.
    fn is_alone(&self, which: usize) -> bool {
        let unit = |(process, weight): (usize, &f64)| *weight == f64::from(u8::from(process == which));
        self.weights.fixed && self.offset.fixed && self.weights().iter().enumerate().all(unit)
    }

    /// The likelihood of the output.
    pub fn likelihood(&self) -> &dyn OneFunction {
        &*self.likelihood
    }

    /// Returns the likelihood of the output, as one of any number of functions.
    pub fn into_likelihood(self) -> Box<dyn Likelihood> {
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
    pub(crate) fn fixed(mut self) -> Mixed {
        self.weights.fixed = true;
        self
    }

    fn own_len(&self) -> usize {
        (self as &dyn Likelihood).own_len()
    }

    /// Returns f, given the values of the processes.
    fn mix(&self, processes: &[f64]) -> f64 {
        self.offset() + self.weights().iter().zip(processes).map(|(w, g)| w * g).sum::<f64>()
    }

    /// `E log p(y|f)` or `log E p(y|f)`, with its derivatives added to the slopes: `g_l = w_l g`, `h_l = w_l² h`,
    /// `∂/∂w_l = g μ_l + 2 w_l h v_l`, `∂/∂b = g`.
    fn add(&self, of: Expectation, row: Row, slopes: &mut Slopes, integrator: &mut Integrator) -> f64 {
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
    fn add_slopes(&self, at: Observation, nodes: &[f64], values: &mut [f64], slopes: &mut [f64]) {
        let processes = self.weights().len();
        for ((g, sum), slopes) in nodes.chunks(processes).zip(values).zip(slopes.chunks_mut(processes)) {
            let (value, first) = self.likelihood.value_and_slope(at, self.mix(g));
            *sum += value;
            slopes.iter_mut().zip(self.weights()).for_each(|(slope, w)| *slope += w * first);
        }
    }

    fn add_curvature(&self, at: Observation, nodes: &[f64], out: &mut [f64]) {
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

fn process_names(processes: usize) -> Vec<String> {
    (0..processes).map(|process| format!("process_{process}")).collect()
}

/// `f_p = b_p + Σ_l W_pl g_l` for P outputs, which are independent given f; a target of NaN adds nothing.
///
/// Its functions are the L processes, and its observations the [targets of all outputs](Observation::outputs). Expectations need only the
/// marginals of single outputs, so they are exact although outputs are correlated. Predictions are those of [`Mixed`], one output at a
/// time.
#[derive(Clone, Debug)]
pub struct Outputs {
    outputs: Vec<Mixed>,
    /// True if every output is a separate process.
    apart: bool,
}

impl Outputs {
    /// Creates a likelihood of outputs that mix the same processes. The names of their parameters
    /// begin with the names of the outputs.
    pub fn new(outputs: Vec<(String, Mixed)>) -> Outputs {
        let named = |(name, mut output): (String, Mixed)| {
            output.for_each_parameter_mut(&mut |p| p.name = format!("{name}.{}", p.name));
            output
        };
        let outputs: Vec<Mixed> = outputs.into_iter().map(named).collect();
        let apart = outputs.iter().enumerate().all(|(which, output)| output.is_alone(which));
        Outputs { outputs, apart }
    }

    /// Creates a likelihood of outputs that are separate processes, all with one kernel and the same inducing inputs.
    pub fn apart(outputs: Vec<(String, Box<dyn OneFunction>)>) -> Outputs {
        let processes = outputs.len();
        let alone = |(which, (name, likelihood)): (usize, (String, Box<dyn OneFunction>))| {
            (name, Mixed::alone(likelihood, which, processes))
        };
        Outputs::new(outputs.into_iter().enumerate().map(alone).collect())
    }

    fn processes(&self) -> usize {
        self.outputs.first().map_or(0, |output| output.weights().len())
    }

    /// Returns the observed outputs, with their targets and the range of their own parameters.
    fn observed<'a>(
        &'a self,
        at: Observation<'a>,
    ) -> impl Iterator<Item = (&'a Mixed, Observation<'a>, std::ops::Range<usize>)> {
        let mut end = 0;
        let outputs = self.outputs.iter().map(move |output| {
            let start = end;
            end += output.own_len();
            (output, start..end)
        });
        let cells = outputs.zip(at.outputs).filter(|(_, y)| !y.is_nan());
        cells.map(move |((output, own), &y)| (output, Observation::exposed(y, at.exposure), own))
    }
}

impl Likelihood for Outputs {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::new("outputs", TargetKind::Real)
    }

    fn function_names(&self) -> Vec<String> {
        process_names(self.processes())
    }

    fn alike(&self) -> bool {
        self.apart
    }

    fn output(&self, which: usize) -> Option<Mixed> {
        let mut output = self.outputs.get(which)?.clone();
        output.for_each_parameter_mut(&mut |p| {
            p.name = p.name.rsplit('.').next().unwrap_or_default().to_owned();
        });
        Some(output)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], slope: &mut [f64]) {
        value.fill(0.0);
        slope.fill(0.0);
        self.observed(at).for_each(|(output, at, _)| output.add_slopes(at, f, value, slope));
    }

    fn curvature(&self, at: Observation, f: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        self.observed(at).for_each(|(output, at, _)| output.add_curvature(at, f, out));
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        self.observed(at)
            .for_each(|(output, at, place)| output.own_gradient(at, f, weights, &mut own[place]));
    }

    /// For log predictive densities `Σ_p log E p(y_p|f_p)`: the loss of predicting every output by itself.
    fn expectation(&self, of: Expectation, row: Row, mut slopes: Slopes, integrator: &mut Integrator) -> f64 {
        slopes.clear();
        let mut value = 0.0;
        for (output, at, own) in self.observed(row.at) {
            let own = if slopes.own.is_empty() { &mut [] } else { &mut slopes.own[own] };
            let mut slopes = Slopes { mean: slopes.mean, variance: slopes.variance, own };
            value += output.add(of, Row::new(at, row.marginal), &mut slopes, integrator);
        }
        value
    }

    /// For outputs with Gaussian noise in closed form: with the rows `W` and noises `D` of the observed outputs, `C = W V Wᵀ + D` and
    /// `a = C⁻¹ (y − b − W μ)` it is `log N(y; b + W μ, C)`, and
    ///
    /// ```text
    /// ∂μ_l = (Wᵀa)_l,   ∂v_l = ½ ((Wᵀa)_l² − (WᵀC⁻¹W)_ll),   ∂b_p = a_p,   ∂σ_p² = ½ (a_p² − C⁻¹_pp)
    /// ∂W_pl = a_p μ_l + v_l (a_p (Wᵀa)_l − (C⁻¹W)_pl)
    /// ```
    fn log_evidence(&self, row: Row, mut slopes: Slopes, integrator: &mut Integrator) -> f64 {
        let known: Vec<_> = self.observed(row.at).collect();
        let noises: Option<Vec<f64>> =
            known.iter().map(|(output, ..)| output.likelihood().gaussian_noise()).collect();
        let Some(noises) = noises else {
            return self.expectation(Expectation::LogPredictive, row, slopes, integrator);
        };
        slopes.clear();
        let Marginal { mean, variance } = row.marginal;
        let (count, processes) = (known.len(), mean.len());
        let weights = Mat::from_fn(count, processes, |p, l| known[p].0.weights()[l]);
        let spread = Mat::from_fn(processes, count, |l, p| variance[l] * weights[(p, l)]);
        let mut covariance = &weights * spread;
        noises.iter().enumerate().for_each(|(p, noise)| covariance[(p, p)] += noise);
        let Ok(factor) = covariance.llt(Side::Lower) else { return f64::NAN };
        let errors = Mat::from_fn(count, 1, |p, _| known[p].1.y - known[p].0.mix(mean));
        let (a, inverse) = (factor.solve(&errors), factor.solve(Mat::<f64>::identity(count, count)));
        let (of_mean, loads) = (weights.transpose() * &a, &inverse * &weights);
        for l in 0..processes.min(slopes.mean.len()) {
            let explained: f64 = (0..count).map(|p| weights[(p, l)] * loads[(p, l)]).sum();
            slopes.mean[l] = of_mean[(l, 0)];
            slopes.variance[l] = 0.5 * (of_mean[(l, 0)].powi(2) - explained);
        }
        let trained = if slopes.own.is_empty() { &[] } else { &known[..] };
        for (p, (_, _, place)) in trained.iter().enumerate() {
            let (own, a) = (&mut slopes.own[place.clone()], a[(p, 0)]);
            for l in 0..processes {
                own[l] += a * mean[l] + variance[l] * (a * of_mean[(l, 0)] - loads[(p, l)]);
            }
            own[processes] += a;
            own[processes + 1] += 0.5 * (a * a - inverse[(p, p)]);
        }
        let log_det: f64 = 2.0 * (0..count).map(|p| factor.L()[(p, p)].ln()).sum::<f64>();
        let squares: f64 = (0..count).map(|p| errors[(p, 0)] * a[(p, 0)]).sum();
        -0.5 * (count as f64 * TAU.ln() + log_det + squares)
    }

    fn sample(&self, _: Observation, _: &[f64], _: &mut ChaCha8Rng) -> f64 {
        f64::NAN
    }

    /// Returns the least-squares solution over the observed outputs; of several solutions, the one
    /// nearest to 0.
    fn working_response(&self, at: Observation, out: &mut [f64]) {
        let mut normal = Mat::<f64>::zeros(out.len(), out.len());
        let mut right = Mat::<f64>::zeros(out.len(), 1);
        for (output, at, _) in self.observed(at) {
            let response = output.likelihood().working_response(at) - output.offset();
            for (i, a) in output.weights().iter().enumerate() {
                right[(i, 0)] += a * response;
                output.weights().iter().enumerate().for_each(|(j, b)| normal[(i, j)] += a * b);
            }
        }
        let trace: f64 = (0..out.len()).map(|i| normal[(i, i)]).sum();
        (0..out.len()).for_each(|i| normal[(i, i)] += 1e-6 * trace + f64::MIN_POSITIVE);
        let solution = normal.llt(Side::Lower).map(|factor| factor.solve(&right));
        let solved = |i: usize| solution.as_ref().map_or(0.0, |solution| solution[(i, 0)]);
        out.iter_mut().enumerate().for_each(|(i, out)| *out = solved(i));
    }

    fn initialise(&mut self, _: &[f64], _: &[f64]) -> Vec<f64> {
        vec![0.0; self.processes()]
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.outputs.iter().for_each(|output| output.for_each_parameter(visit));
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.outputs.iter_mut().for_each(|output| output.for_each_parameter_mut(visit));
    }
}
