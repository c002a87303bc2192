//! Partial dependence: the mean prediction over rows as a function of one column.

use super::output::{mean, mean_probabilities, values};
use super::relevance::shuffled;
use super::{Explainer, InputColumn, InputKind, Rows, Scale, Settings};
use faer::Mat;
use sparsegp::functions::normal::HALF_95;
use sparsegp::likelihood::TargetKind;

/// The maximum number of settings of a column.
pub(super) const SETTINGS: usize = 25;

/// The share of the rows beyond either end of the range of settings.
const BEYOND: f64 = 0.02;

/// The maximum of the number of classes times the number of rows that curves are averaged over, and
/// the minimum number of rows.
const CLASS_ROWS: usize = 1000;
const FEWEST_ROWS: usize = 20;

/// The change of predictions with a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependence {
    /// The position of the column in the explainer.
    pub column: usize,
    /// The values that the column is set to.
    pub settings: Vec<Setting>,
    /// A curve for the mean, for the probability of the positive class of two, or for each of at most [`Settings::classes`] classes.
    pub curves: Vec<Curve>,
    /// The number of classes without a curve: the least probable on average.
    pub left_out: usize,
    /// The number of rows that the curves are averaged over.
    pub rows: usize,
}

/// A value that a column is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The number; for a date the years since the first training row; for a category its index.
    pub value: f64,
    /// The name of a category.
    pub category: Option<String>,
    /// The inputs, in original units.
    pub inputs: Vec<f64>,
}

/// A number at every setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The number that the curve shows.
    pub scale: Scale,
    /// The mean over rows, and the ends of its central 95 % interval, which are NaN if the model has no distribution.
    pub points: Vec<(f64, f64, f64)>,
}

impl Explainer<'_> {
    /// Returns the partial dependence on a column (Friedman 2001): the mean prediction over random
    /// rows with the column set to each of at most 25 values.
    ///
    /// The mean is over at most [`Settings::background`] rows. If there are more than ten classes,
    /// the number of rows is at most 1000 divided by the number of classes, but at least 20.
    /// Numbers range from the 2 % to the 98 % quantile of the rows; columns with up to 25 distinct
    /// numbers take all these numbers. Categories are the 25 with the most rows, and dates are
    /// dates of rows.
    ///
    /// The band describes the posterior of the function: `s² = 1ᵀΣ1/n²` is the variance of the mean of f over the rows, with Σ the joint
    /// covariance there, and the ends are the mean prediction with f raised and lowered by 1.96 s. If the mean is linear in f, this is the
    /// exact interval of the curve.
    ///
    /// # Panics
    ///
    /// If there are no rows, or no such column.
    pub fn dependence(&self, column: usize, rows: Rows<'_>, settings: &Settings) -> Dependence {
        let mut chosen = shuffled(rows.len(), settings.seed);
        chosen.truncate(self.background_rows(settings));
        let mut base = rows.inputs_of(&chosen);
        self.complete(base.as_mut().transpose_mut());
        let exposure = rows.exposure_of(&chosen);
        let places = self.settings(column, rows);
        let predictions = self.model.predict_rows(base.transpose(), exposure.clone());
        let scales = Scale::all(self.model, &predictions, settings.classes.max(1));
        let several = self.model.latent().likelihood.target_kind() == TargetKind::Class;
        let left_out = if several { self.model.latent().likelihood.levels() - scales.len() } else { 0 };
        let mut curves: Vec<Curve> =
            scales.iter().map(|&scale| Curve { scale, points: Vec::with_capacity(places.len()) }).collect();
        for setting in &places {
            let mut x = base.clone();
            let InputColumn { inputs, slope, .. } = &self.columns[column];
            for (input, &value) in inputs.clone().zip(&setting.inputs) {
                x.row_mut(input).fill(value);
            }
            slope.iter().for_each(|&slope| x.row_mut(slope).fill(setting.value));
            self.complete(x.as_mut().transpose_mut());
            self.add_points(&x, &exposure, &mut curves);
        }
        Dependence { column, settings: places, curves, left_out, rows: chosen.len() }
    }

    /// Returns the number of rows that curves are averaged over: fewer if the probabilities of many
    /// classes make predictions expensive.
    fn background_rows(&self, settings: &Settings) -> usize {
        let likelihood = &self.model.latent().likelihood;
        let affordable = match likelihood.target_kind() {
            TargetKind::Class => (CLASS_ROWS / likelihood.levels().max(1)).max(FEWEST_ROWS),
            _ => usize::MAX,
        };
        settings.background.min(affordable).max(1)
    }

    fn add_points(&self, x: &Mat<f64>, exposure: &[f64], curves: &mut [Curve]) {
        let predictions = self.model.predict_rows(x.transpose(), exposure.to_vec());
        let on_scale = self.model.on_scale(x.transpose());
        let several = self.model.latent().likelihood.target_kind() == TargetKind::Class;
        let shares = if several { mean_probabilities(&predictions) } else { Vec::new() };
        for Curve { scale, points } in curves {
            let mean = |predictions: &_| mean(&values(self.model, predictions, *scale));
            let middle = match *scale {
                Scale::Probability(class) if several => shares[class],
                _ => mean(&predictions),
            };
            let function = scale.function(self.model).filter(|_| !self.model.mean_only());
            let ends = function.map(|function| {
                let covariance = self.model.posterior().covariance_of(function, on_scale.transpose());
                let half = HALF_95 * (covariance.sum().max(0.0)).sqrt() / x.ncols() as f64;
                [-half, half].map(|by| mean(&predictions.raised(function, by)))
            });
            let [a, b] = ends.unwrap_or([f64::NAN; 2]);
            points.push((middle, a.min(b), a.max(b)));
        }
    }

    fn settings(&self, column: usize, rows: Rows<'_>) -> Vec<Setting> {
        let about = &self.columns[column];
        let first = about.inputs.start;
        let of_row =
            |row: usize| about.inputs.clone().map(|input| rows.x[(row, input)]).collect::<Vec<f64>>();
        match about.kind {
            InputKind::Codes { .. } | InputKind::Categories { .. } => {
                let categories = about.categories();
                let setting = |place: usize| {
                    let (name, inputs) = categories[place].clone();
                    Setting { value: place as f64, category: Some(name), inputs }
                };
                about.most_frequent(rows.x, SETTINGS).into_iter().map(setting).collect()
            }
            InputKind::Date => {
                let mut order: Vec<usize> = (0..rows.len()).collect();
                order.sort_by(|&a, &b| rows.x[(a, first)].total_cmp(&rows.x[(b, first)]));
                let count = SETTINGS.min(order.len());
                let places = (0..count).map(|k| order[k * (order.len() - 1) / (count - 1).max(1)]);
                let setting =
                    |row: usize| Setting { value: rows.x[(row, first)], category: None, inputs: of_row(row) };
                places.map(setting).collect()
            }
            InputKind::Place => Vec::new(),
            InputKind::Number => {
                let setting = |value: f64| {
                    let mut inputs = vec![0.0; about.inputs.len()];
                    inputs[0] = value;
                    Setting { value, category: None, inputs }
                };
                spread(rows.x.col(first).iter().copied().collect()).into_iter().map(setting).collect()
            }
        }
    }
}

/// Returns the distinct values if there are few, otherwise evenly spaced values between quantiles.
fn spread(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let quantile = |p: f64| values[(p * (values.len() - 1) as f64).round() as usize];
    let (low, high) = (quantile(BEYOND), quantile(1.0 - BEYOND));
    let mut distinct = values.clone();
    distinct.dedup();
    if distinct.len() <= SETTINGS || low >= high {
        distinct.truncate(SETTINGS);
        return distinct;
    }
    let step = |k: usize| k as f64 / (SETTINGS - 1) as f64;
    (0..SETTINGS).map(|k| low * (1.0 - step(k)) + high * step(k)).collect()
}
