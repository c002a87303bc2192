//! Several outputs of one datum, each a combination of the same latent processes with a separate
//! likelihood.

use super::mixed::process_names;
use super::{
    Expectation, Likelihood, LikelihoodKind, Mixed, Observation, OneFunction, Row, Slopes, TargetKind,
};
use crate::quadrature::Integrator;
use faer::Mat;
use faer::linalg::solvers::Solve;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;

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
        Outputs { outputs: outputs.into_iter().map(named).collect(), apart: false }
    }

    /// Creates a likelihood of outputs that are separate processes, all with one kernel and the same inducing inputs.
    pub fn apart(outputs: Vec<(String, Box<dyn OneFunction>)>) -> Outputs {
        let processes = outputs.len();
        let alone = |(which, (name, likelihood)): (usize, (String, Box<dyn OneFunction>))| {
            (name, Mixed::alone(likelihood, which, processes))
        };
        Outputs { apart: true, ..Outputs::new(outputs.into_iter().enumerate().map(alone).collect()) }
    }

    /// The number P of outputs.
    pub(crate) fn count(&self) -> usize {
        self.outputs.len()
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
        let solution = normal.llt(faer::Side::Lower).map(|factor| factor.solve(&right));
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
