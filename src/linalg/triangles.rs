//! The triangles and the diagonal of a square matrix: copies, reflections, small additions.

use super::LEAF;
use crate::columns;
use crate::parallel::*;
use faer::{MatMut, MatRef};

/// Copies the lower triangle onto the upper one.
pub fn reflect_lower(a: MatMut<'_, f64>) {
    let small = |mut a: MatMut<'_, f64>| {
        for j in 0..a.nrows() {
            for i in j + 1..a.nrows() {
                a[(j, i)] = a[(i, j)];
            }
        }
    };
    for_mirror_images(a, &small, &|a21, a12| columns::transpose(a21.as_ref(), a12));
}

/// `a ← a + aᵀ`.
pub(super) fn add_transpose(a: MatMut<'_, f64>) {
    let small = |mut a: MatMut<'_, f64>| {
        for j in 0..a.nrows() {
            for i in j..a.nrows() {
                let sum = a[(i, j)] + a[(j, i)];
                (a[(i, j)], a[(j, i)]) = (sum, sum);
            }
        }
    };
    for_mirror_images(a, &small, &columns::add_transposes);
}

/// Calls `small` for square blocks along the diagonal and `pair` for pairs of a block below them and its mirror image.
fn for_mirror_images(
    a: MatMut<'_, f64>,
    small: &(impl Fn(MatMut<'_, f64>) + Sync),
    pair: &(impl Fn(MatMut<'_, f64>, MatMut<'_, f64>) + Sync),
) {
    const SMALL: usize = 32;
    let n = a.nrows();
    if n <= SMALL || a.row_stride() != 1 {
        return small(a);
    }
    let middle = (n / 2).next_multiple_of(SMALL / 2);
    let (a11, mut a12, mut a21, a22) = a.split_at_mut(middle, middle);
    if n <= 2 * LEAF {
        pair(a21, a12);
        for_mirror_images(a11, small, pair);
        for_mirror_images(a22, small, pair);
        return;
    }
    let corner = || {
        let (left, right) =
            (columns::col_chunks(a21.as_mut(), LEAF), columns::row_chunks(a12.as_mut(), LEAF));
        left.into_par_iter().zip(right).for_each(|(a21, a12)| pair(a21, a12));
    };
    join(corner, || join(|| for_mirror_images(a11, small, pair), || for_mirror_images(a22, small, pair)));
}

pub(crate) fn copy_lower(a: MatRef<'_, f64>, mut out: MatMut<'_, f64>) {
    for j in 0..a.ncols() {
        let rows = a.nrows() - j;
        out.as_mut().col_mut(j).subrows_mut(j, rows).copy_from(a.col(j).subrows(j, rows));
    }
}

pub(crate) fn add_outer_lower(mut a: MatMut<'_, f64>, x: &[f64], y: &[f64]) {
    for (j, y) in y.iter().enumerate() {
        let column = a.as_mut().col_mut(j);
        column.iter_mut().zip(x).skip(j).for_each(|(a, x)| *a += x * y);
    }
}

/// Sets everything strictly above the diagonal to zero.
pub fn clear_upper(mut a: MatMut<'_, f64>) {
    for j in 1..a.ncols() {
        let above = j.min(a.nrows());
        a.as_mut().col_mut(j).subrows_mut(0, above).fill(0.0);
    }
}

pub(crate) fn add_diagonal(mut a: MatMut<'_, f64>, value: f64) {
    for i in 0..a.nrows() {
        a[(i, i)] += value;
    }
}
