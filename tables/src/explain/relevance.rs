//! The relevance of columns: how far f may change along them, and how much permuting them raises
//! the loss.

use super::{Explainer, InputColumn, InputKind, Rows, Settings, at_rows, offsets_of};
use faer::{Mat, MatRef};
use rand::seq::SliceRandom;
use sparsegp::data::{Moments, Purpose, generator};
use sparsegp::effects::POPULATION;
use sparsegp::kernels::{Gradient, Inputs, Scratch};
use sparsegp::latent::{InducingPrior, Layer};

/// The number of points per kernel evaluation.
const POINTS: usize = 256;

/// The maximum number of rows by which columns are screened.
const SCREENED_BY: usize = 200;

/// The maximum number of multiplications for permuting, which limits the rows if predictions are
/// expensive, and the minimum number of rows.
const WORK: usize = 200_000_000_000;
const FEWEST: usize = 100;

/// The relevance of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevance {
    /// Its index among the columns of the explainer.
    pub column: usize,
    /// The relevance by lengthscales: the prior standard deviation of the change of f if only one
    /// input of the column moves, by one standard deviation from its mean (by one unit if inputs
    /// are not standardised; into or out of a category). It is the maximum over the inputs of the
    /// column and over latent functions, on the scale the model sees; 0 for a column that is
    /// constant in the rows. `None` for linear models.
    pub sensitivity: Option<f64>,
    /// The relevance by permutation; `None` for columns that were screened out, and without
    /// targets.
    pub permutation: Option<Increase>,
}

/// The effect of permuting a column on the loss of the rows: minus the log predictive density, or the squared error if the model has no
/// density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Increase {
    /// The mean increase.
    pub mean: f64,
    /// Its standard error over rows.
    pub error: f64,
    /// The number of rows.
    pub rows: usize,
}

impl Explainer<'_> {
    /// Returns the relevance of every column, the most relevant first: by permutation (Breiman
    /// 2001; Fisher, Rudin & Dominici 2019), then by lengthscales.
    ///
    /// At most [`Settings::rows`] rows are put into a random order. Every row takes the column from
    /// the next row, then from the row after that, and so on, [`Settings::repeats`] times. If it
    /// takes the column from every other row, the result is the mean over all pairs.
    ///
    /// If there are more columns than [`Settings::columns`], only the columns along which the posterior mean has the largest mean squared
    /// derivatives (Sobol & Kucherenko 2009) are permuted. One backward pass gives these for all columns; linear models use their
    /// coefficients. There are fewer rows, but at least 100, if D, M or the neighbours of a model make predictions too expensive, so the
    /// work is bounded for any number of columns.
    pub fn relevance(&self, rows: Rows<'_>, settings: &Settings) -> Vec<Relevance> {
        let sensitivities = self.sensitivities(rows);
        let mut all: Vec<Relevance> = (0..self.columns.len())
            .map(|column| Relevance {
                column,
                sensitivity: sensitivities.as_ref().map(|all| all[column]),
                permutation: None,
            })
            .collect();
        if rows.targets.len() == rows.len() && rows.len() > 1 {
            let chosen = self.screened(rows, settings);
            for (column, increase) in self.increases(rows, &chosen, settings) {
                all[column].permutation = Some(increase);
            }
        }
        // A stable sort keeps the order of equal columns. NaN comes last.
        let number = |value: f64| if value.is_nan() { f64::NEG_INFINITY } else { value };
        let key = |relevance: &Relevance| {
            let by = relevance.permutation.map_or(f64::NEG_INFINITY, |increase| number(increase.mean));
            (by, number(relevance.sensitivity.unwrap_or(0.0)))
        };
        all.sort_by(|a, b| key(b).0.total_cmp(&key(a).0).then(key(b).1.total_cmp(&key(a).1)));
        all
    }

    /// Returns [`Relevance::sensitivity`] for every column: 0 for columns that are constant in the
    /// rows; `None` for linear models.
    fn sensitivities(&self, rows: Rows<'_>) -> Option<Vec<f64>> {
        let layers: Vec<&InducingPrior> =
            self.model.latent().layers.iter().map(Layer::inducing).collect::<Option<_>>()?;
        let mut all = self.moved_by_effects();
        for layer in layers {
            for (own, moved) in all.iter_mut().zip(self.moved(layer)) {
                *own = own.max(moved);
            }
        }
        let varies = |input: usize| {
            let values = rows.x.col(input);
            values.iter().any(|value| value.to_bits() != values[0].to_bits())
        };
        let largest = |column: &InputColumn| {
            let varying = |input: &usize| rows.is_empty() || varies(*input);
            let own = column.inputs.clone().filter(varying).map(|input| all[input]).fold(0.0, f64::max);
            own.hypot(column.slope.filter(varying).map_or(0.0, |input| all[input]))
        };
        Some(self.columns.iter().map(largest).collect())
    }

    /// Returns the prior standard deviation of the change that effects cause, for every input: `√2` times that of an intercept for the code of a
    /// grouping, that of a slope times the step for the values of slopes, and 0 for inputs of f and offsets.
    fn moved_by_effects(&self) -> Vec<f64> {
        let effects = &self.model.latent().effects;
        let (mut variances, steps) = (vec![0.0; self.model.inputs()], self.steps());
        let first = offsets_of(self.model).start - effects.columns();
        for (index, term) in effects.terms().iter().enumerate() {
            if term.intercept {
                variances[first + term.code] += 2.0 * effects.variance(index, 0);
            }
            for (effect, &value) in (usize::from(term.intercept)..).zip(&term.values) {
                variances[first + value] += effects.variance(index, effect) * steps[first + value].powi(2);
            }
        }
        variances.into_iter().map(f64::sqrt).collect()
    }

    /// Returns `√(k(0, 0) + k(s e_d, s e_d) − 2 k(0, s e_d))` for every input d of f, with s the step.
    fn moved(&self, layer: &InducingPrior) -> Vec<f64> {
        let (kernel, inputs, mut scratch) = (layer.kernel(), layer.z().ncols(), Scratch::new());
        let origin: Mat<f64> = Mat::zeros(1, inputs);
        let (mut own, mut at_origin) = (Mat::zeros(1, 1), [0.0]);
        kernel.eval(
            Inputs::Cross { left: origin.as_ref(), right: origin.as_ref() },
            own.as_mut(),
            &mut scratch,
        );
        kernel.diag(origin.as_ref(), &mut at_origin, &mut scratch);
        // The difference between two draws at the same inputs is noise.
        let noise = at_origin[0] - own[(0, 0)];
        let steps = self.steps();
        let mut moved = Vec::with_capacity(inputs);
        for first in (0..inputs).step_by(POINTS) {
            let count = POINTS.min(inputs - first);
            let points = Mat::from_fn(inputs, count, |d, i| if d == first + i { steps[d] } else { 0.0 });
            let points = points.transpose();
            let (mut k, mut diagonal) = (Mat::zeros(1, count), vec![0.0; count]);
            kernel.eval(Inputs::Cross { left: origin.as_ref(), right: points }, k.as_mut(), &mut scratch);
            kernel.diag(points, &mut diagonal, &mut scratch);
            let distance = |i: usize| own[(0, 0)] + (diagonal[i] - noise) - 2.0 * k[(0, i)];
            moved.extend((0..count).map(|i| distance(i).max(0.0).sqrt()));
        }
        moved
    }

    /// Returns the step of every input, on the scale the model sees.
    fn steps(&self) -> Vec<f64> {
        let mut steps = vec![1.0; self.model.inputs()];
        let categories = |column: &&InputColumn| matches!(column.kind, InputKind::Categories { .. });
        for input in self.columns.iter().filter(categories).flat_map(|column| column.inputs.clone()) {
            let step = 1.0 / self.model.scaling().inputs[input].scale;
            steps[input] = if self.model.scaling().warps_input(input) { 1.0 } else { step };
        }
        steps
    }

    /// Returns the columns to permute: all, or the columns with the largest derivatives.
    fn screened(&self, rows: Rows<'_>, settings: &Settings) -> Vec<usize> {
        let all = 0..self.columns.len();
        if all.len() <= settings.columns {
            return all.collect();
        }
        let few: Vec<usize> = shuffled(rows.len(), settings.seed).into_iter().take(SCREENED_BY).collect();
        let inputs = rows.inputs_of(&few);
        let slopes = self.slopes(self.model.on_scale(inputs.transpose()).transpose());
        let (steps, of_f) = (self.steps(), self.model.posterior().layer().input_dims());
        // Codes and slopes have no derivatives, so their columns come first.
        let of_column = |column: &InputColumn| match column.kind {
            InputKind::Codes { .. } => f64::INFINITY,
            _ if column.slope.is_some() || column.inputs.start >= of_f => f64::INFINITY,
            _ => column.inputs.clone().map(|input| slopes[input] * steps[input].powi(2)).sum::<f64>(),
        };
        let mut scores: Vec<(f64, f64)> =
            self.columns.iter().map(|column| (of_column(column), 0.0)).collect();
        if let Some(sensitivities) = self.sensitivities(rows) {
            scores.iter_mut().zip(sensitivities).for_each(|(score, sensitivity)| score.1 = sensitivity);
        }
        let mut order: Vec<usize> = all.collect();
        order.sort_by(|&a, &b| scores[b].0.total_cmp(&scores[a].0).then(scores[b].1.total_cmp(&scores[a].1)));
        order.truncate(settings.columns);
        order
    }

    /// Returns the mean over rows (`n × D`, on the scale the model sees) of the squared derivatives
    /// of the latent mean, from inducing inputs or coefficients, in every input; summed over latent
    /// functions.
    fn slopes(&self, x: MatRef<'_, f64>) -> Vec<f64> {
        let posterior = self.model.posterior();
        let mut squares = vec![0.0; self.model.inputs()];
        let inputs = posterior.layer().input_dims();
        let x = x.subcols(0, inputs);
        for process in 0..self.model.latent().processes() {
            let weights = posterior.weights(process);
            let layers = posterior.layers();
            match layers.get(layers.of(process)).inducing() {
                Some(layer) if layer.z().nrows() > 0 => {
                    let sides = Inputs::Cross { left: layer.z(), right: x };
                    let (rows, columns) = sides.shape();
                    let (mut k, mut scratch) = (Mat::zeros(rows, columns), Scratch::new());
                    layer.kernel().eval(sides, k.as_mut(), &mut scratch);
                    let kbar = Mat::from_fn(rows, columns, |m, _| weights[m]);
                    let mut slopes = Mat::zeros(columns, inputs);
                    let gradient = Gradient { parameters: &mut [], left: None, right: Some(slopes.as_mut()) };
                    layer.kernel().adjoint(
                        sides.evaluated(k.as_ref(), kbar.as_ref()),
                        gradient,
                        &mut scratch,
                    );
                    for (square, slopes) in squares.iter_mut().zip(slopes.col_iter()) {
                        *square += slopes.squared_norm_l2() / columns as f64;
                    }
                }
                Some(_) => {}
                None => {
                    let rise = |input: usize| {
                        let points = Mat::from_fn(offsets_of(self.model).start, 2, |d, i| match d < inputs {
                            true => f64::from(u8::from(i == 1 && d == input)),
                            false => POPULATION,
                        });
                        let means = posterior.means_of(process, points.transpose());
                        means[1] - means[0]
                    };
                    let rises: Vec<f64> = (0..inputs).map(rise).collect();
                    squares.iter_mut().zip(rises).for_each(|(square, rise)| *square += rise.powi(2));
                }
            }
        }
        squares
    }

    /// Returns the effect of permuting each of `columns`.
    fn increases(&self, rows: Rows<'_>, columns: &[usize], settings: &Settings) -> Vec<(usize, Increase)> {
        let order: Vec<usize> = shuffled(rows.len(), settings.seed)
            .into_iter()
            .take(self.affordable(columns.len(), settings))
            .collect();
        let (count, repeats) = (order.len(), settings.repeats.clamp(1, order.len() - 1));
        let (mut inputs, exposure) = (rows.inputs_of(&order), rows.exposure_of(&order));
        self.complete(inputs.as_mut().transpose_mut());
        let (targets, other_ends) = (at_rows(rows.targets, &order), at_rows(rows.other_ends, &order));
        let loss = |inputs: &Mat<f64>| -> Vec<f64> {
            let predictions = self.model.predict_rows(inputs.transpose(), exposure.clone());
            let predictions = predictions.with_other_ends(&other_ends);
            let losses = predictions.losses(&targets).into_iter();
            losses
                .map(|(log_density, square)| if self.model.mean_only() { square } else { -log_density })
                .collect()
        };
        let before = loss(&inputs);
        let of_column = |&column: &usize| {
            let own: Vec<usize> = self.columns[column].all_inputs().collect();
            let mut increases = vec![0.0; count];
            for repeat in 1..=repeats {
                let mut moved = inputs.clone();
                for row in 0..count {
                    for &input in &own {
                        moved[(input, row)] = inputs[(input, (row + repeat) % count)];
                    }
                }
                self.complete(moved.as_mut().transpose_mut());
                for ((increase, after), before) in increases.iter_mut().zip(loss(&moved)).zip(&before) {
                    *increase += (after - before) / repeats as f64;
                }
            }
            let mut moments = Moments::default();
            increases.iter().for_each(|increase| moments.push(*increase));
            let mean = moments.mean()?;
            let error = (moments.variance()? / (count as f64 - 1.0)).sqrt();
            mean.is_finite().then_some((column, Increase { mean, error, rows: count }))
        };
        columns.iter().filter_map(of_column).collect()
    }

    /// Returns the affordable number of rows in which this many columns are permuted.
    fn affordable(&self, columns: usize, settings: &Settings) -> usize {
        let model = self.model;
        let m = model.posteriors().iter().map(|q| q.dim()).sum::<usize>();
        let k = model.neighbours().map_or(0, |nearby| nearby.count());
        let row = (m + k) * (model.inputs() + m + k) + k * k * k / 3;
        let each = row.saturating_mul(columns * settings.repeats).max(1);
        settings.rows.min((WORK / each).max(FEWEST)).max(2)
    }
}

pub(super) fn shuffled(rows: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows).collect();
    order.shuffle(&mut generator(seed, Purpose::Explanation, 0));
    order
}
