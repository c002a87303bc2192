//! Coordinates of the parameters in which searches for intervals move.
//!
//! Row i of a factor F has the coordinates `log s_i`, the logarithm of its norm, and `v_ij = F_ij/F_ii`. Standard deviations and correlations of
//! two effects then depend on one coordinate each. Standard deviations that are not the subject of a search move linearly from the
//! estimate, `s = ŝ |1 + x|` with x = 0 there: the evidence is an even function of s, which a Newton step towards s = 0 can follow. First
//! derivatives at the estimate are the same in both kinds of coordinates.

use crate::training::solver::Place;
use sparsegp_kernels::Transform;

/// The least relative standard deviation on a linear scale.
const LEAST: f64 = 1e-9;

/// A row of the factor of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub term: usize,
    pub effect: usize,
}

/// The indices of a row's coordinates, starting with that of `log s_i`.
struct RowPlaces {
    row: Row,
    places: Vec<usize>,
}

/// The map from coordinates to the free vector of a fit.
pub(super) struct Coordinates {
    /// The free vector at the estimate.
    theta: Vec<f64>,
    /// The indices in `theta` of the parameters that move.
    moved: Vec<usize>,
    rows: Vec<RowPlaces>,
    start: Vec<f64>,
}

impl Coordinates {
    /// Creates the coordinates of a model at its estimate; [`Place::named`] says which parameters
    /// move. A row of a factor has the coordinates `log s_i` and `v_ij` if all its entries are
    /// free, without bounds or ties.
    pub fn new(at: &Place, most: usize) -> Self {
        let (theta, moved) = (at.start(), at.named(most));
        let effects = &at.model.effects;
        let (descriptors, first) =
            (at.model.descriptors(), at.model.natural().len() - effects.parameter_count());
        let mut rows = Vec::new();
        for (term, of) in effects.terms().iter().enumerate() {
            for effect in 0..of.width() {
                let own: Vec<usize> =
                    effects.row_places(term, effect).iter().map(|place| first + place).collect();
                let plain = |index: usize, transform| {
                    descriptors[index].transform == transform && descriptors[index].tie.is_none()
                };
                let plain = plain(own[0], Transform::POSITIVE)
                    && own[1..].iter().all(|&index| plain(index, Transform::Identity));
                let place = |&index: &usize| {
                    let free = at.free_place(index)?;
                    moved.iter().position(|&place| place == free)
                };
                let places: Option<Vec<usize>> = own.iter().map(place).collect();
                rows.extend(
                    places.filter(|_| plain).map(|places| RowPlaces { row: Row { term, effect }, places }),
                );
            }
        }
        let mut start: Vec<f64> = moved.iter().map(|&place| theta[place]).collect();
        for RowPlaces { places, .. } in &rows {
            let diagonal = start[places[0]].exp();
            places[1..].iter().for_each(|&place| start[place] /= diagonal);
            start[places[0]] += 0.5 * squares(&start, &places[1..]).ln_1p();
        }
        Coordinates { theta, moved, rows, start }
    }

    /// Returns the coordinates of the estimate.
    pub fn start(&self) -> &[f64] {
        &self.start
    }

    /// Returns the coordinates of a row, its standard deviation first; empty if the row has none.
    pub fn places(&self, row: Row) -> Vec<usize> {
        let found = self.rows.iter().find(|own| own.row == row);
        found.map_or(Vec::new(), |own| own.places.clone())
    }

    /// Returns the coordinate of the standard deviation of a row.
    pub fn place(&self, row: Row) -> Option<usize> {
        self.places(row).first().copied()
    }

    /// Returns `log s` of a row, and its derivative in the coordinate.
    fn log_deviation(&self, at: &[f64], own: Option<Row>, of: &RowPlaces) -> [f64; 2] {
        let (x, start) = (at[of.places[0]], self.start[of.places[0]]);
        if own == Some(of.row) {
            return [x, 1.0];
        }
        let relative = 1.0 + x - start;
        let size = relative.abs().max(LEAST);
        [start + size.ln(), relative.signum() / size]
    }

    /// Returns the free vector at a point. The standard deviation of `own` moves by its logarithm, all others linearly.
    pub fn theta(&self, at: &[f64], own: Option<Row>) -> Vec<f64> {
        let mut theta = self.theta.clone();
        self.moved.iter().zip(at).for_each(|(&place, value)| theta[place] = *value);
        for of in &self.rows {
            let rest = &of.places[1..];
            let diagonal = self.log_deviation(at, own, of)[0] - 0.5 * squares(at, rest).ln_1p();
            theta[self.moved[of.places[0]]] = diagonal;
            rest.iter().for_each(|&place| theta[self.moved[place]] = at[place] * diagonal.exp());
        }
        theta
    }

    /// Returns the derivatives in the coordinates, given the derivatives in the free vector.
    pub fn pull_back(&self, at: &[f64], own: Option<Row>, slopes: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = self.moved.iter().map(|&place| slopes[place]).collect();
        for of in &self.rows {
            let (rest, squares) = (&of.places[1..], squares(at, &of.places[1..]));
            let [log, change] = self.log_deviation(at, own, of);
            let diagonal = (log - 0.5 * squares.ln_1p()).exp();
            // The derivative in the logarithm of the diagonal entry at fixed v.
            let size =
                out[of.places[0]] + rest.iter().map(|&place| out[place] * at[place] * diagonal).sum::<f64>();
            for &place in rest {
                out[place] = diagonal * out[place] - size * at[place] / (1.0 + squares);
            }
            out[of.places[0]] = size * change;
        }
        out
    }
}

/// Returns `Σ v²`.
fn squares(at: &[f64], places: &[usize]) -> f64 {
    places.iter().map(|&place| at[place] * at[place]).sum()
}
