//! The contribution of every column to a single prediction: terms of an additive function, or
//! Shapley values by sampled orders.

use super::output::at;
use super::relevance::shuffled;
use super::{Explainer, Rows, Scale, Settings, offsets_of};
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef};
use rand::seq::SliceRandom;
use sparsegp::data::{Moments, Purpose, generator};
use sparsegp::likelihood::TargetKind;

/// The maximum number of input values in one batch of predictions.
const NUMBERS: usize = 4_000_000;

/// A prediction split into parts: `prediction = base + Σ parts`.
#[derive(Clone, Debug, PartialEq)]
pub struct Contributions {
    /// The number that is split.
    pub scale: Scale,
    /// Its mean over the background rows.
    pub base: f64,
    /// The number itself.
    pub prediction: f64,
    /// The contributions of columns.
    pub parts: Vec<Part>,
}

/// The contribution to a prediction of a column, of a term of several columns, or of all columns that are not listed separately.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The column, or the columns of the term with × between them.
    pub name: String,
    /// The positions of the columns in the explainer.
    pub columns: Vec<usize>,
    /// The contribution.
    pub value: f64,
    /// Its standard error; `None` if the contribution is exact.
    pub error: Option<f64>,
}

/// A column, or several that change together.
struct Player {
    name: String,
    columns: Vec<usize>,
    inputs: Vec<usize>,
}

impl Explainer<'_> {
    /// Returns the contributions of every column to the prediction of every row of `x` (`n × D`,
    /// original units), relative to the background rows. `exposure` is empty if all exposures
    /// are 1. Background rows count with the exposure and the offsets of the explained row.
    ///
    /// If the latent function is a sum of functions of different columns, the parts are its terms minus their means over the background,
    /// which is exact. That holds for a linear model, and for one latent function without neighbours whose kernel is a sum over columns or
    /// `additive(order=1)`. The effects of a grouping are a term of its column and the columns of its slopes. They are terms of the
    /// predictive mean if it is linear in the latent function, otherwise terms of the latent function.
    ///
    /// Otherwise the parts are Shapley values (Shapley 1953; Štrumbelj & Kononenko 2014) of the
    /// mean, of the probability of the positive class, or, with several classes, of the probability
    /// of the most probable class. A background row is turned into the explained row, column by
    /// column, in [`Settings::orders`] random orders, each forwards and backwards. The contribution
    /// of a column is the mean change that it causes, with the standard error over the orders. In
    /// each order the changes add up to the difference between both rows, so the parts add up
    /// exactly for any number of orders.
    ///
    /// If there are more columns than [`Settings::columns`], only the most relevant ones are listed separately (see
    /// [`Explainer::relevance`]); all others change together, as one column. A row takes at most `2 · orders · columns` predictions.
    pub fn contributions(
        &self,
        x: MatRef<'_, f64>,
        exposure: &[f64],
        background: Rows<'_>,
        settings: &Settings,
    ) -> Vec<Contributions> {
        if background.is_empty() {
            return Vec::new();
        }
        if let Some(exact) = self.by_terms(x, background) {
            return exact;
        }
        let players = self.players(background, settings);
        let of_row = |row: usize| {
            let exposure = exposure.get(row).copied().unwrap_or(1.0);
            self.shapley(x.row(row).iter().copied().collect(), exposure, background, &players, settings)
        };
        (0..x.nrows()).map(of_row).collect()
    }

    /// Returns the players: single columns and, if there are too many, all others together.
    fn players(&self, background: Rows<'_>, settings: &Settings) -> Vec<Player> {
        let player = |name: String, columns: Vec<usize>| {
            let inputs = columns.iter().flat_map(|&column| self.columns[column].all_inputs()).collect();
            Player { name, columns, inputs }
        };
        let single = |column: usize| player(self.columns[column].name.clone(), vec![column]);
        if self.columns.len() <= settings.columns.max(1) {
            return (0..self.columns.len()).map(single).collect();
        }
        let relevance = self.relevance(background, settings);
        let (few, others) = relevance.split_at(settings.columns.max(1));
        let mut players: Vec<_> = few.iter().map(|relevance| single(relevance.column)).collect();
        let rest = others.iter().map(|relevance| relevance.column).collect();
        players.push(player(format!("{} other columns", others.len()), rest));
        players
    }

    fn shapley(
        &self,
        mut x: Vec<f64>,
        exposure: f64,
        background: Rows<'_>,
        players: &[Player],
        settings: &Settings,
    ) -> Contributions {
        let inputs = x.len();
        self.complete(MatMut::from_row_major_slice_mut(&mut x, 1, inputs));
        let scale = self.explained(&x, exposure);
        let row = Mat::from_fn(x.len(), 1, |input, _| x[input]);
        let prediction = at(self.model, row.transpose(), exposure, scale)[0];
        let drawn = shuffled(background.len(), settings.seed);
        let mut random = generator(settings.seed, Purpose::Explanation, 1);
        let (orders, offsets) = (settings.orders.max(2), offsets_of(self.model));
        // The background row, and the points between both ends, forwards and backwards.
        let steps = 1 + 2 * (players.len() - 1);
        let together = (NUMBERS / (steps * x.len())).max(1);
        let mut changes = vec![Moments::default(); players.len()];
        let mut base = Moments::default();
        for first in (0..orders).step_by(together) {
            let count = together.min(orders - first);
            let mut walks = Vec::with_capacity(count);
            let mut points = Vec::with_capacity(x.len() * count * steps);
            for walk in 0..count {
                // The offset of the explained row is part of f at every point, like its exposure.
                let start = background.x.row(drawn[(first + walk) % drawn.len()]);
                let mut start: Vec<f64> = start.iter().copied().collect();
                start[offsets.clone()].copy_from_slice(&x[offsets.clone()]);
                let mut order: Vec<usize> = (0..players.len()).collect();
                order.shuffle(&mut random);
                points.extend(&start);
                for backwards in [false, true] {
                    let mut place = start.clone();
                    for step in 0..players.len() - 1 {
                        let player = if backwards { order[players.len() - 1 - step] } else { order[step] };
                        players[player].inputs.iter().for_each(|&input| place[input] = x[input]);
                        points.extend(&place);
                    }
                }
                walks.push(order);
            }
            let mut points = MatMut::from_row_major_slice_mut(&mut points, count * steps, x.len());
            self.complete(points.rb_mut());
            let points = points.as_ref();
            let values = at(self.model, points, exposure, scale);
            for (order, values) in walks.iter().zip(values.chunks_exact(steps)) {
                base.push(values[0]);
                add_walks(order, values, prediction, &mut changes);
            }
        }
        let part = |(player, change): (&Player, &Moments)| Part {
            name: player.name.clone(),
            columns: player.columns.clone(),
            value: change.mean().unwrap_or(f64::NAN),
            error: change.variance().map(|variance| (variance / (orders as f64 - 1.0)).sqrt()),
        };
        let parts = players.iter().zip(&changes).map(part).collect();
        Contributions { scale, base: base.mean().unwrap_or(f64::NAN), prediction, parts }
    }

    /// Returns the number that is explained for a row.
    fn explained(&self, x: &[f64], exposure: f64) -> Scale {
        match self.model.latent().likelihood.target_kind() {
            TargetKind::Class => {
                let row = Mat::from_fn(x.len(), 1, |input, _| x[input]);
                let predictions = self.model.predict_rows(row.transpose(), vec![exposure]);
                Scale::Probability(predictions.most_probable(0).unwrap_or(0))
            }
            TargetKind::Binary => Scale::Probability(1),
            _ => Scale::Mean,
        }
    }
}

/// Adds, for every player, the mean over both directions of the change that it causes. `values` has
/// the number at the start, then the numbers between both ends in the two directions; `end` is the
/// number at the end.
fn add_walks(order: &[usize], values: &[f64], end: f64, changes: &mut [Moments]) {
    let (start, between) = (values[0], order.len() - 1);
    let (forwards, backwards) = values[1..].split_at(between);
    let change = |way: &[f64], step: usize| {
        let before = if step == 0 { start } else { way[step - 1] };
        let after = if step == between { end } else { way[step] };
        after - before
    };
    for (step, &player) in order.iter().enumerate() {
        changes[player].push(0.5 * (change(forwards, step) + change(backwards, between - step)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{InputColumn, InputKind};
    use super::*;
    use sparsegp::effects::EffectTerm;
    use sparsegp::options::FitOptions;
    use sparsegp::training::Fit;

    /// The contribution of a column to a sum over columns does not depend on the order. The change from a background row is the change of
    /// the column's term, so the mean over all background rows is the term minus its mean. Here one column is alone in its term; the inputs
    /// of a grouping follow those of the function.
    #[test]
    fn sampled_orders_give_the_terms_of_groups_exactly() {
        let level = |i: usize| (i * 7 % 5) as f64;
        let x = Mat::from_fn(60, 4, |i, d| match d {
            2 => level(i),
            _ => ((i * (2 * (d % 3) + 3) * 7919) % 101) as f64 / 20.0,
        });
        assert_eq!(x.col(0), x.col(3), "the slope's column repeats the input");
        let y: Vec<f64> = (0..60).map(|i| x[(i, 1)].sin() + (level(i) - 2.0) * (1.0 + x[(i, 0)])).collect();
        let term =
            EffectTerm { slopes: vec!["x0".into()], values: vec![1], ..EffectTerm::intercepts("g", 5, 0) };
        let options = FitOptions {
            kernel: "rbf[0] + rbf[1]".into(),
            effects: vec![term],
            epochs: Some(20),
            ..FitOptions::default()
        };
        let model = Fit::of(options).fit(x.as_ref(), &y).expect("a fit");
        let names = (0..5).map(|level| level.to_string()).collect();
        let grouping = InputColumn { kind: InputKind::Codes { names }, ..InputColumn::number("g", 2) };
        let with_slope = InputColumn { slope: Some(3), ..InputColumn::number("x0", 0) };
        let explainer = Explainer::new(&model, vec![with_slope, InputColumn::number("x1", 1), grouping]);
        let background = Rows { x: x.as_ref(), exposure: &[], targets: &y, other_ends: &[] };
        let settings = Settings { orders: 60, ..Settings::default() };
        let exact = explainer.by_terms(x.as_ref().subrows(4, 1), background).expect("a sum over columns");
        let names: Vec<&str> = exact[0].parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["x0", "x1", "x0 × g"]);
        let sum = |parts: &[Part]| -> f64 { parts.iter().map(|part| part.value).sum() };
        assert!((exact[0].base + sum(&exact[0].parts) - exact[0].prediction).abs() < 1e-9);
        assert!(exact[0].parts[2].value.abs() > 0.5, "levels differ");
        let players = explainer.players(background, &settings);
        let row = x.row(4).iter().copied().collect();
        let sampled = explainer.shapley(row, 1.0, background, &players, &settings);
        assert!((sampled.base - exact[0].base).abs() < 1e-9);
        assert!((sampled.parts[1].value - exact[0].parts[1].value).abs() < 1e-8, "{:?}", sampled.parts);
        let relevance = explainer.relevance(background, &settings);
        assert_eq!(relevance[0].column, 2, "the grouping matters most: {relevance:?}");
        // The band of a level is that of the mean of f over the rows.
        let dependence = explainer.dependence(2, background, &settings);
        let (middle, low, high) = dependence.curves[0].points[4];
        assert!(dependence.settings.len() == 5 && low < middle && middle < high);
        let rows = Mat::from_fn(60, 4, |i, d| if d == 2 { 4.0 } else { x[(i, d)] });
        let (means, covariance) = model.joint(rows.as_ref()).expect("a joint prediction");
        let half = 1.959964 * covariance.sum().sqrt() / 60.0;
        let mean = means.iter().sum::<f64>() / 60.0;
        assert!((middle - mean).abs() < 1e-9 && (high - mean - half).abs() < 1e-5 * half.max(1.0));
    }
}
