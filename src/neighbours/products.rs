//! Products with the features of rows: the dense features of f, then the features of grouped
//! effects, which are mostly zeros.

use crate::columns::column;
use crate::linalg::{Operand, Part, block_product, dot, product};
use faer::{Accum, MatMut, MatRef};

/// Returns the indices and values of the nonzero entries in the sparse part of a column.
fn sparse(column: &[f64], dense: usize) -> Vec<(usize, f64)> {
    let values = column.iter().enumerate().skip(dense);
    values.filter(|(_, value)| **value != 0.0).map(|(place, value)| (place, *value)).collect()
}

/// Computes `out = scale · G X` for a symmetric G, where X is dense in its first `dense` rows. In
/// the sparse rows only entries at which X is not zero are computed; all others remain zero.
pub(crate) fn image(
    symmetric: MatRef<'_, f64>,
    x: MatRef<'_, f64>,
    dense: usize,
    scale: f64,
    mut out: MatMut<'_, f64>,
) {
    if x.nrows() == dense {
        return block_product(out, Accum::Replace, Operand::full(symmetric), x, scale);
    }
    out.fill(0.0);
    if dense > 0 {
        let corner = Operand::full(symmetric.submatrix(0, 0, dense, dense));
        block_product(out.as_mut().subrows_mut(0, dense), Accum::Replace, corner, x.subrows(0, dense), scale);
    }
    for j in 0..x.ncols() {
        let (own, mut to) = (column(&x, j), out.as_mut().col_mut(j));
        let met = sparse(own, dense);
        for &(place, value) in &met {
            let row = column(&symmetric, place);
            to.as_mut().iter_mut().zip(&row[..dense]).for_each(|(out, g)| *out += scale * value * g);
            let others = met.iter().map(|&(other, value)| value * row[other]).sum::<f64>();
            to[place] = scale * (dot(&row[..dense], &own[..dense]) + others);
        }
    }
}

/// Adds the lower triangle of `X Y`, where `Y = D Xᵀ` for a diagonal D and X is dense in its first `dense` rows.
pub(crate) fn add_gram(mut gram: MatMut<'_, f64>, x: MatRef<'_, f64>, y: MatRef<'_, f64>, dense: usize) {
    if x.nrows() == dense {
        return product(gram, Part::Lower, Accum::Add, Operand::full(x), Operand::full(y), 1.0);
    }
    let (own, own_scaled) = (x.subrows(0, dense), y.subcols(0, dense));
    if dense > 0 {
        let corner = gram.as_mut().submatrix_mut(0, 0, dense, dense);
        product(corner, Part::Lower, Accum::Add, Operand::full(own), Operand::full(own_scaled), 1.0);
    }
    for j in 0..x.ncols() {
        let met = sparse(column(&x, j), dense);
        for &(place, value) in &met {
            (0..dense).for_each(|k| gram[(place, k)] += value * own_scaled[(j, k)]);
            for &(other, _) in met.iter().filter(|(other, _)| *other <= place) {
                gram[(place, other)] += value * y[(j, other)];
            }
        }
    }
}
