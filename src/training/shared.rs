//! Several outputs whose processes share a kernel and inducing inputs: the sum of their collapsed
//! bounds as one objective.

use super::collapsed::CollapsedObjective;
use super::place::Place;
use crate::collapsed::{BoundAdjoint, BoundGradient, DataStream, Dataset, Weighting, collapsed_elbos};
use crate::gradient::Form;
use crate::hyper::HyperObjective;
use crate::latent::LayerScratch;
use crate::model::LatentModel;
use crate::objective::Targets;
use faer::{Mat, MatRef};

/// Rows with several outputs, all of which are present.
struct Observed {
    columns: Mat<f64>,
    /// The targets of all outputs, row by row, and of the first output.
    targets: Vec<f64>,
    first: Vec<f64>,
    weights: Vec<f64>,
}

impl Observed {
    fn data(&self) -> Dataset<'_> {
        let Observed { columns, targets, first, weights } = self;
        let targets = Targets { outputs: targets, weights, ..Targets::of(first) };
        Dataset { x: columns.transpose(), targets }
    }
}

/// Outputs that were observed in the same rows.
struct Group {
    outputs: Vec<usize>,
    rows: Observed,
    stream: DataStream,
}

/// The sum of the collapsed β-ELBOs of P outputs with separate Gaussian noise, as a function of the kernel, inducing inputs, means and
/// noises. Outputs observed in the same rows share one pass over them.
pub(super) struct SharedObjective {
    at: Place,
    groups: Vec<Group>,
    beta: f64,
    gradient: BoundGradient,
    scratch: LayerScratch,
    /// The derivatives with respect to the likelihood's values.
    own: Vec<f64>,
    flat: Vec<f64>,
    width: usize,
}

impl SharedObjective {
    /// Creates the objective of a model with one layer; the noise variance of each output comes last among the likelihood's values of that
    /// output. Inputs are `n × D`; targets of P outputs are stored row by row, with NaN for a missing one; weights may be empty.
    pub fn new(
        model: LatentModel,
        x: MatRef<'_, f64>,
        targets: &[f64],
        weights: &[f64],
        beta: f64,
    ) -> SharedObjective {
        let (layer, width) = (&**model.layer(), model.processes());
        let mut patterns: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for output in 0..width {
            let rows: Vec<usize> =
                (0..x.nrows()).filter(|row| !targets[row * width + output].is_nan()).collect();
            match patterns.iter_mut().find(|(_, known)| *known == rows) {
                Some((outputs, _)) => outputs.push(output),
                None => patterns.push((vec![output], rows)),
            }
        }
        let group = |(outputs, rows): (Vec<usize>, Vec<usize>)| {
            let cells = rows.iter().flat_map(|row| outputs.iter().map(move |output| row * width + output));
            let observed = Observed {
                columns: Mat::from_fn(x.ncols(), rows.len(), |d, i| x[(rows[i], d)]),
                targets: cells.map(|cell| targets[cell]).collect(),
                first: rows.iter().map(|row| targets[row * width + outputs[0]]).collect(),
                weights: rows.iter().filter_map(|row| weights.get(*row).copied()).collect(),
            };
            let stream = DataStream::of_outputs(layer, rows.len(), outputs.clone());
            Group { outputs, rows: observed, stream }
        };
        let groups = patterns.into_iter().map(group).collect();
        let (m, mut own) = (layer.dim(), Vec::new());
        model.likelihood.for_each_parameter(&mut |p| own.extend(p.values.iter().map(|_| 0.0)));
        SharedObjective {
            groups,
            beta,
            gradient: BoundGradient::zeros(layer),
            scratch: LayerScratch::new(m),
            own,
            flat: Vec::new(),
            width,
            at: Place::new(model),
        }
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
    fn place(&self, output: usize) -> usize {
        (output + 1) * (self.own.len() / self.width) - 1
    }

    /// Returns the value, and leaves its flat natural gradient in `flat`.
    fn bound(&mut self) -> Option<f64> {
        let (layer, mut own) = (&**self.at.model.layer(), Vec::new());
        self.at.model.likelihood.for_each_parameter(&mut |p| own.extend(p.values.iter().copied()));
        let noises: Vec<f64> = (0..self.width).map(|output| own[self.place(output)]).collect();
        let direct = self.at.model.layer().condition_is_at_most(CollapsedObjective::DIRECT_GUARD);
        let form = if direct { Form::Direct } else { Form::Stable };
        let (mut value, mut bars) = (0.0, vec![0.0; noises.len()]);
        self.gradient = BoundGradient::zeros(layer);
        for Group { outputs, rows, stream } in &mut self.groups {
            stream.forward(layer, rows.data(), Weighting::Unit);
            let own: Vec<f64> = outputs.iter().map(|&output| noises[output]).collect();
            let bounds = collapsed_elbos(&stream.statistics, &own, self.beta).ok()?;
            let by = BoundAdjoint::Unweighted { adjoint: &bounds.adjoint, form };
            let mut sums = BoundGradient::of_statistics(layer, &stream.statistics, by);
            stream.add_rows(layer, rows.data(), by, &mut sums);
            self.gradient.merge(&sums).ok()?;
            value += bounds.value;
            outputs.iter().zip(bounds.noise_bars).for_each(|(&output, bar)| bars[output] = bar);
        }
        self.gradient.finish(layer, &mut self.scratch);
        for (output, bar) in bars.into_iter().enumerate() {
            let place = self.place(output);
            self.own[place] = bar;
        }
        let layers = std::slice::from_ref(&self.gradient.layer);
        self.at.model.flatten_gradient(layers, &self.own, &mut self.flat);
        value.is_finite().then_some(value)
    }
}

impl HyperObjective for SharedObjective {
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let found = self.at.move_to(theta).and_then(|()| self.bound());
        found.map_or(f64::NAN, |value| value + self.at.pull_back(&self.flat, gradient))
    }

    fn prior_terms(&self, theta: &[f64]) -> f64 {
        self.at.prior_terms(theta)
    }
}
