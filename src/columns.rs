//! Fused passes over the columns of a block (`M × c`), compiled for the widest SIMD the machine
//! has.

use faer::{MatMut, MatRef};
use pulp::Arch;

/// The number of independent partial sums, so that a sum can use SIMD lanes and hide the latency of
/// additions.
const LANES: usize = 16;

#[inline(always)]
fn dot_lanes(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (x, y) = (&x[..x.len().min(y.len())], &y[..x.len().min(y.len())]);
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let tail: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in xs.zip(ys) {
        for l in 0..LANES {
            sums[l] += a[l] * b[l];
        }
    }
    tail + sums.iter().sum::<f64>()
}

/// Returns column `j`; empty if the columns of the matrix are not contiguous.
#[inline(always)]
pub(crate) fn column<'a, T>(a: &MatRef<'a, T>, j: usize) -> &'a [T] {
    a.col(j).try_as_col_major().map_or(&[], |c| c.as_slice())
}

#[inline(always)]
pub(crate) fn column_mut<'b, T>(a: &'b mut MatMut<'_, T>, j: usize) -> &'b mut [T] {
    match a.as_mut().col_mut(j).try_as_col_major_mut() {
        Some(c) => c.as_slice_mut(),
        None => &mut [],
    }
}

/// `out_j += a_jᵀ b_j` for every column `j` of two column-major matrices.
pub(crate) fn add_column_dots(a: MatRef<'_, f64>, b: MatRef<'_, f64>, out: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (j, o) in out.iter_mut().enumerate() {
                *o += dot_lanes(column(&a, j), column(&b, j));
            }
        },
    );
}

/// `mu_j += a_jᵀ x` and `v_j += a_jᵀ t_j` for every column `j`: both moments in one pass over `a`.
pub fn add_moments(a: MatRef<'_, f64>, x: &[f64], t: MatRef<'_, f64>, mu: &mut [f64], v: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (j, (mu, v)) in mu.iter_mut().zip(v).enumerate() {
                let a = column(&a, j);
                *mu += dot_lanes(a, x);
                *v += dot_lanes(a, column(&t, j));
            }
        },
    );
}

/// `out_j += a_jᵀ x` for every column `j`.
pub(crate) fn add_transposed_matvec(a: MatRef<'_, f64>, x: &[f64], out: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (j, o) in out.iter_mut().enumerate() {
                *o += dot_lanes(column(&a, j), x);
            }
        },
    );
}

/// `out += Σ_j w_j a_j`.
pub fn add_matvec(a: MatRef<'_, f64>, w: &[f64], out: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (j, &w) in w.iter().enumerate() {
                for (o, x) in out.iter_mut().zip(column(&a, j)) {
                    *o += w * x;
                }
            }
        },
    );
}

/// The side of the tiles in which matrices are transposed. The strided cache lines of larger tiles
/// would share sets of the first-level cache if the number of rows is a power of two.
const SIDE: usize = 8;

/// A square part of a matrix, with one run per column.
type Tile = [[f64; SIDE]; SIDE];

/// Returns the tile that starts at row `i0` and column `j0`.
#[inline(always)]
fn tile(a: &MatRef<'_, f64>, i0: usize, j0: usize) -> Tile {
    let mut tile = [[0.0; SIDE]; SIDE];
    for (j, run) in tile.iter_mut().enumerate() {
        run.copy_from_slice(&column(a, j0 + j)[i0..i0 + SIDE]);
    }
    tile
}

/// Writes a tile to row `i0` and column `j0`.
#[inline(always)]
fn put(tile: &Tile, out: &mut MatMut<'_, f64>, i0: usize, j0: usize) {
    for (j, run) in tile.iter().enumerate() {
        column_mut(out, j0 + j)[i0..i0 + SIDE].copy_from_slice(run);
    }
}

/// Exchanges the off-diagonal squares of side `S` in every square of side `2S`: a shuffle of two vectors.
#[inline(always)]
fn exchange<const S: usize>(tile: &mut Tile) {
    for r in (0..SIDE).filter(|r| r & S == 0) {
        let (a, b) = (tile[r], tile[r + S]);
        tile[r] = std::array::from_fn(|c| if c & S == 0 { a[c] } else { b[c - S] });
        tile[r + S] = std::array::from_fn(|c| if c & S == 0 { a[c + S] } else { b[c] });
    }
}

/// Returns the transposed tile, computed with vectors; one number at a time took half as long
/// again.
#[inline(always)]
fn transposed(mut tile: Tile) -> Tile {
    exchange::<4>(&mut tile);
    exchange::<2>(&mut tile);
    exchange::<1>(&mut tile);
    tile
}

/// Iterates over the first entries of the whole tiles of an `m × n` matrix.
#[inline(always)]
fn whole_tiles(m: usize, n: usize) -> impl Iterator<Item = (usize, usize)> {
    let (rows, cols) = (m / SIDE * SIDE, n / SIDE * SIDE);
    (0..rows).step_by(SIDE).flat_map(move |i| (0..cols).step_by(SIDE).map(move |j| (i, j)))
}

/// Iterates over the entries outside the whole tiles.
fn beyond_tiles(m: usize, n: usize) -> impl Iterator<Item = (usize, usize)> {
    let (rows, cols) = (m / SIDE * SIDE, n / SIDE * SIDE);
    (0..n).flat_map(move |j| (if j < cols { rows..m } else { 0..m }).map(move |i| (i, j)))
}

/// `out = diag(w) aᵀ` with each weight from `weight`.
fn transpose_weighted(a: MatRef<'_, f64>, mut out: MatMut<'_, f64>, weight: impl Fn(usize) -> f64) {
    let (m, n) = a.shape();
    Arch::new().dispatch(
        #[inline(always)]
        || {
            // Iterates along the rows of `out`, which is written to memory, because `a` is in a
            // cache.
            for (i0, j0) in whole_tiles(m, n) {
                let mut tile = tile(&a, i0, j0);
                for (j, run) in tile.iter_mut().enumerate() {
                    let weight = weight(j0 + j);
                    run.iter_mut().for_each(|x| *x *= weight);
                }
                put(&transposed(tile), &mut out, j0, i0);
            }
        },
    );
    for (i, j) in beyond_tiles(m, n) {
        out[(j, i)] = weight(j) * a[(i, j)];
    }
}

/// `out = diag(w) aᵀ`, the transpose of `a` with its columns scaled: the right operand of `a diag(w) aᵀ`, which GEMM reads
/// along columns.
pub fn scale_columns_transposed(a: MatRef<'_, f64>, w: &[f64], out: MatMut<'_, f64>) {
    transpose_weighted(a, out, |j| w[j]);
}

/// `out = aᵀ`.
pub(crate) fn transpose(a: MatRef<'_, f64>, out: MatMut<'_, f64>) {
    transpose_weighted(a, out, |_| 1.0);
}

/// `(a, b) ← (a + bᵀ, (a + bᵀ)ᵀ)`.
pub(crate) fn add_transposes(mut a: MatMut<'_, f64>, mut b: MatMut<'_, f64>) {
    let (m, n) = a.shape();
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (i0, j0) in whole_tiles(m, n) {
                let mut sums = transposed(tile(&b.as_ref(), j0, i0));
                for (sums, run) in sums.iter_mut().zip(&tile(&a.as_ref(), i0, j0)) {
                    sums.iter_mut().zip(run).for_each(|(sum, x)| *sum += x);
                }
                put(&sums, &mut a, i0, j0);
                put(&transposed(sums), &mut b, j0, i0);
            }
        },
    );
    for (i, j) in beyond_tiles(m, n) {
        let sum = a[(i, j)] + b[(j, i)];
        (a[(i, j)], b[(j, i)]) = (sum, sum);
    }
}

/// Returns the largest absolute value of an entry; infinite if an entry is not finite.
pub(crate) fn largest(a: MatRef<'_, f64>) -> f64 {
    if a.row_stride() != 1 {
        // The columns of this view are not contiguous; those of a copy are.
        return largest(a.to_owned().as_ref());
    }
    // The bits of absolute values, read as integers, have the order of the values; infinity and NaN
    // come last.
    let size = |x: f64| x.abs().to_bits() as i64;
    let most = Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut most = [0i64; LANES];
            for j in 0..a.ncols() {
                let runs = column(&a, j).chunks_exact(LANES);
                most[0] = runs.remainder().iter().fold(most[0], |most, &x| most.max(size(x)));
                for run in runs {
                    for l in 0..LANES {
                        most[l] = most[l].max(size(run[l]));
                    }
                }
            }
            most.iter().fold(0, |most, &size| most.max(size))
        },
    );
    f64::from_bits(most as u64).min(f64::INFINITY)
}

/// `out += Σ_j w_j a_j ∘ a_j`: the diagonal of `a diag(w) aᵀ`.
pub(crate) fn add_weighted_squares(a: MatRef<'_, f64>, w: &[f64], out: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (j, &w) in w.iter().enumerate() {
                for (o, x) in out.iter_mut().zip(column(&a, j)) {
                    *o += w * x * x;
                }
            }
        },
    );
}

/// `out_j = d ∘ a_j`.
pub(crate) fn scale_rows(a: MatRef<'_, f64>, d: &[f64], mut out: MatMut<'_, f64>) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for j in 0..a.ncols() {
                for ((o, x), d) in column_mut(&mut out, j).iter_mut().zip(column(&a, j)).zip(d) {
                    *o = d * x;
                }
            }
        },
    );
}

/// `t_j ← g_j m + 2 h_j t_j`: the adjoint of the feature columns from that of their marginals.
pub fn rank_one_plus_scaled(mut t: MatMut<'_, f64>, m: &[f64], g: &[f64], h: &[f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (j, (&g, &h)) in g.iter().zip(h).enumerate() {
                for (t, m) in column_mut(&mut t, j).iter_mut().zip(m) {
                    *t = g * m + 2.0 * h * *t;
                }
            }
        },
    );
}

/// `T ← T + A`.
pub(crate) fn add(mut t: MatMut<'_, f64>, a: MatRef<'_, f64>) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for j in 0..a.ncols() {
                column_mut(&mut t, j).iter_mut().zip(column(&a, j)).for_each(|(t, x)| *t += x);
            }
        },
    );
}

/// `t_j ← t_j + w_j a_j`.
pub(crate) fn add_scaled_columns(mut t: MatMut<'_, f64>, a: MatRef<'_, f64>, w: &[f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (j, &w) in w.iter().enumerate() {
                for (t, x) in column_mut(&mut t, j).iter_mut().zip(column(&a, j)) {
                    *t += w * x;
                }
            }
        },
    );
}

/// `out_{p_j} += a_j` for the column indices `p`.
pub(crate) fn scatter(mut out: MatMut<'_, f64>, places: &[u32], a: MatRef<'_, f64>) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (j, &place) in places.iter().enumerate() {
                for (o, x) in column_mut(&mut out, place as usize).iter_mut().zip(column(&a, j)) {
                    *o += x;
                }
            }
        },
    );
}

/// `out_j = a_{p_j}` for the column indices `p`.
pub(crate) fn gather(a: MatRef<'_, f64>, places: &[u32], mut out: MatMut<'_, f64>) {
    for (j, &place) in places.iter().enumerate() {
        column_mut(&mut out, j).copy_from_slice(column(&a, place as usize));
    }
}

/// Splits a matrix into parts of `height` rows, the last one maybe smaller.
pub(crate) fn row_chunks(mut a: MatMut<'_, f64>, height: usize) -> Vec<MatMut<'_, f64>> {
    let mut chunks = Vec::with_capacity(a.nrows().div_ceil(height));
    while a.nrows() > 0 {
        let taken = height.min(a.nrows());
        let (first, rest) = a.split_at_row_mut(taken);
        chunks.push(first);
        a = rest;
    }
    chunks
}

/// Splits a matrix into parts of `width` columns, the last one maybe smaller.
pub(crate) fn col_chunks(a: MatMut<'_, f64>, width: usize) -> Vec<MatMut<'_, f64>> {
    row_chunks(a.transpose_mut(), width).into_iter().map(MatMut::transpose_mut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;

    #[test]
    fn the_largest_entry_and_entries_that_are_not_finite_are_found() {
        for (m, n) in [(1, 1), (16, 3), (21, 5)] {
            let a = Mat::from_fn(m, n, |i, j| (i as f64 - 3.0) * (j as f64 + 0.5));
            let plain = a.col_iter().flat_map(|c| c.iter()).fold(0.0f64, |a, x| a.max(x.abs()));
            assert_eq!((largest(a.as_ref()), largest(a.transpose())), (plain, plain), "{m} × {n}");
            for bad in [f64::NAN, f64::NEG_INFINITY] {
                for (i, j) in [(0, 0), (m - 1, n - 1)] {
                    let mut a = a.clone();
                    a[(i, j)] = bad;
                    assert_eq!(largest(a.as_ref()), f64::INFINITY, "{m} × {n}, ({i}, {j})");
                }
            }
        }
    }

    #[test]
    fn transposed_and_squared_columns_are_right_for_every_shape() {
        for (m, n) in [(1, 1), (7, 9), (8, 8), (16, 5), (21, 24)] {
            let a = Mat::from_fn(m, n, |i, j| (1 + i * n + j) as f64);
            let w: Vec<f64> = (0..n).map(|j| 0.5 - j as f64).collect();
            let mut scaled = Mat::zeros(n, m);
            scale_columns_transposed(a.as_ref(), &w, scaled.as_mut());
            let (mut sum, mut image) = (a.clone(), scaled.clone());
            add_transposes(sum.as_mut(), image.as_mut());
            let mut squares = vec![1.0; m];
            add_weighted_squares(a.as_ref(), &w, &mut squares);
            for i in 0..m {
                assert!((0..n).all(|j| scaled[(j, i)] == w[j] * a[(i, j)]), "{m} × {n}");
                let sums = |j: usize| a[(i, j)] + scaled[(j, i)];
                assert!((0..n).all(|j| sum[(i, j)] == sums(j) && image[(j, i)] == sums(j)), "{m} × {n}");
                let want = 1.0 + (0..n).map(|j| w[j] * a[(i, j)] * a[(i, j)]).sum::<f64>();
                assert!(
                    (squares[i] - want).abs() <= 1e-12 * want.abs(),
                    "{m} × {n}: {} and {want}",
                    squares[i]
                );
            }
        }
    }
}
