//! Several outputs whose processes share a kernel and inducing inputs: the sum of their collapsed
//! bounds as one objective.

use super::outputs::OutputRows;
use super::row_sums::{Sweep, pass_over, sum_over};
use super::rows::RowBuffer;
use super::solver::{Place, Solved};
use crate::collapsed::{Solution, noise_derivative, solve};
use crate::gradient::{Form, Problem, Wanted};
use crate::latent::{InducingLayer, LayerGradient};
use crate::likelihood::{Gaussian, Likelihood, OneFunction, Outputs};
use crate::model::LatentModel;
use crate::objective::Objective;
use crate::variational::{Family, Normal};
use sparsegp_kernels::Parameter;

/// Outputs that were observed in the same rows.
struct Group {
    outputs: Vec<usize>,
    /// The rows with the targets of these outputs, row by row; `y` has those of the first output.
    rows: RowBuffer,
}

/// The sum of the collapsed β-ELBOs of P outputs with separate Gaussian noise, as a function of the kernel, inducing inputs, means and
/// noises. Outputs observed in the same rows share one pass over them.
pub(super) struct SharedObjective {
    at: Place,
    groups: Vec<Group>,
    beta: f64,
    /// The derivatives with respect to the likelihood's values.
    own: Vec<f64>,
    width: usize,
}

impl SharedObjective {
    /// Creates the objective of a model with one layer; the noise variance of each output comes last among the likelihood's values of that
    /// output.
    pub fn new(model: LatentModel, rows: OutputRows<'_>, beta: f64) -> SharedObjective {
        let width = model.processes();
        let mut patterns: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for output in 0..width {
            let observed = rows.observed(output);
            match patterns.iter_mut().find(|(_, known)| *known == observed) {
                Some((outputs, _)) => outputs.push(output),
                None => patterns.push((vec![output], observed)),
            }
        }
        let group = |(outputs, observed): (Vec<usize>, Vec<usize>)| Group {
            rows: rows.taken(&observed, &outputs, true),
            outputs,
        };
        let groups = patterns.into_iter().map(group).collect();
        let mut own = Vec::new();
        model.likelihood.for_each_parameter(&mut |p| own.extend(p.values.iter().map(|_| 0.0)));
        SharedObjective { groups, beta, own, width, at: Place::new(model) }
    }

    /// Returns the free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.at.start()
    }

    /// Returns the model at `theta`; `None` if it cannot be evaluated.
    pub fn into_model(mut self, theta: &[f64]) -> Option<LatentModel> {
        self.at.move_to(theta)?;
        Some(self.at.model)
    }

    /// Returns the index of the noise variance of an output among the likelihood's values.
    fn noise_of(&self, output: usize) -> usize {
        (output + 1) * (self.own.len() / self.width) - 1
    }
}

/// The bound of the outputs of a group with its gradient.
struct GroupBound {
    value: f64,
    gradient: LayerGradient,
    /// The derivatives with respect to the noise variances.
    noises: Vec<f64>,
}

impl Group {
    /// Returns the sum of the bounds of these outputs, given the layer and the noise variances of all outputs.
    fn bound(&self, layer: &InducingLayer, noises: &[f64], beta: f64) -> Option<GroupBound> {
        let noises: Vec<f64> = self.outputs.iter().map(|&output| noises[output]).collect();
        let (mut layer, means) = (layer.clone(), layer.mean());
        let values = self.outputs.iter().map(|&output| means.values[output]).collect();
        layer.set_mean(Parameter { values, ..means.clone() });
        let gaussian = |noise: &f64| -> Box<dyn OneFunction> { Box::new(Gaussian::new(*noise)) };
        let named = noises.iter().map(|noise| (String::new(), gaussian(noise))).collect();
        let joint: Box<dyn Likelihood> = Box::new(Outputs::apart(named));
        let model = LatentModel::new(layer.into(), joint, false);
        let least = noises.iter().copied().fold(f64::INFINITY, f64::min);
        let form = Form::at_best_q(model.layer(), least);
        let (objective, rows) = (Objective::elbo(beta), self.rows.data());
        let q = vec![Normal::standard(Family::Full, model.layer().dim()); noises.len()];
        let mut pass = pass_over(&rows, &model, objective, &q);
        let like =
            Problem { noises: &noises, ..Problem::new(model.layers(), &model.likelihood, objective, &q) };
        sum_over(Sweep::over(&rows), &mut pass, &model, like, (form, Wanted::Origin)).ok()?;
        let Solution { value, q } = solve(pass.sums(), beta).ok()?;
        let origin = pass.sums().clone();
        let terms = origin.processes.iter().zip(&noises).zip(&q);
        let at_best = Problem { q: &q, ..like };
        let bars =
            terms.map(|((sums, noise), q)| noise_derivative(sums, origin.weight, *noise, beta, q)).collect();
        sum_over(Sweep::over(&rows), &mut pass, &model, at_best, (form, Wanted::Envelope)).ok()?;
        pass.finish_envelope(at_best, &origin, 1.0);
        let gradient = pass.layer_gradients()[0].clone();
        Some(GroupBound { value, gradient, noises: bars })
    }
}

impl Solved for SharedObjective {
    fn place(&self) -> &Place {
        &self.at
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.at
    }

    fn value(&mut self) -> Option<f64> {
        self.value_with_gradient()
    }

    fn value_with_gradient(&mut self) -> Option<f64> {
        let (model, mut own) = (&self.at.model, Vec::new());
        model.likelihood.for_each_parameter(&mut |p| own.extend(p.values.iter().copied()));
        let noises: Vec<f64> = (0..self.width).map(|output| own[self.noise_of(output)]).collect();
        let (mut value, mut bars) = (0.0, vec![0.0; noises.len()]);
        let mut gradient = model.layer().zero_gradient();
        for group in &self.groups {
            let of_group = group.bound(model.layer().inducing()?, &noises, self.beta)?;
            value += of_group.value;
            let LayerGradient { kernel, mean, z, .. } = of_group.gradient;
            gradient.kernel.iter_mut().zip(kernel).for_each(|(sum, own)| *sum += own);
            gradient.z += z;
            for ((output, mean), bar) in group.outputs.iter().zip(mean).zip(of_group.noises) {
                (gradient.mean[*output], bars[*output]) = (mean, bar);
            }
        }
        for (output, bar) in bars.into_iter().enumerate() {
            let place = self.noise_of(output);
            self.own[place] = bar;
        }
        self.at.model.flatten_gradient(std::slice::from_ref(&gradient), &self.own, &mut self.at.flat);
        value.is_finite().then_some(value)
    }
}
