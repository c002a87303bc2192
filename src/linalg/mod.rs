//! Dense linear algebra on top of faer: blocked structured products, congruences, factors and their
//! inverses, decompositions.

pub(crate) mod stored;
mod triangles;

use crate::columns;
use crate::parallel::*;
use crate::threads::ALONE;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{LltError, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::matmul;
use faer::linalg::qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use std::ops::Range;

use triangles::add_transpose;
pub(crate) use triangles::{add_diagonal, add_outer_lower, copy_lower};
pub use triangles::{clear_upper, reflect_lower};

/// The entries of an operand that may differ from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every entry.
    Full,
    /// The lower triangle; what is stored above the diagonal must be zero.
    Lower,
    /// The upper triangle; what is stored below the diagonal must be zero.
    Upper,
}

impl Shape {
    fn transposed(self) -> Shape {
        match self {
            Shape::Full => Shape::Full,
            Shape::Lower => Shape::Upper,
            Shape::Upper => Shape::Lower,
        }
    }
}

/// A factor of a product: a matrix, and the shape of its nonzero entries.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The matrix.
    pub matrix: MatRef<'a, f64>,
    /// Its nonzero entries.
    pub shape: Shape,
}

impl<'a> Operand<'a> {
    /// Creates an operand whose entries may all differ from zero.
    pub fn full(matrix: MatRef<'a, f64>) -> Self {
        Operand { matrix, shape: Shape::Full }
    }

    /// Creates an operand that is zero above the diagonal.
    pub fn lower(matrix: MatRef<'a, f64>) -> Self {
        Operand { matrix, shape: Shape::Lower }
    }

    /// Creates an operand that is zero below the diagonal.
    pub fn upper(matrix: MatRef<'a, f64>) -> Self {
        Operand { matrix, shape: Shape::Upper }
    }

    pub(crate) fn transposed(self) -> Self {
        Operand { matrix: self.matrix.transpose(), shape: self.shape.transposed() }
    }
}

/// The entries of a product that are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Every entry.
    All,
    /// The lower triangle, up to whole tiles: entries above the diagonal are left as they were or overwritten.
    Lower,
}

/// Returns the side of a tile of a matrix of `n` rows. It does not depend on the number of threads,
/// so that results do not either. GEMM processes 24 rows at a time with AVX-512 (12 elsewhere). The
/// part of a tile outside a triangle is wasted work, and so is the time in which threads wait for
/// the longest strip: tiles of 48 were measured to be a tenth slower.
fn tile(n: usize) -> usize {
    if n >= 192 { 24 } else { 16 }
}

/// Returns the inner indices, out of k, at which the row tile `rows` of the left operand and the
/// column tile `columns` of the right one can both be nonzero.
fn inner_range(
    left: Shape,
    rows: Range<usize>,
    right: Shape,
    columns: Range<usize>,
    k: usize,
) -> (usize, usize) {
    let (mut lo, mut hi) = (0, k);
    match left {
        Shape::Full => {}
        Shape::Lower => hi = hi.min(rows.end),
        Shape::Upper => lo = lo.max(rows.start),
    }
    match right {
        Shape::Full => {}
        Shape::Lower => lo = lo.max(columns.start),
        Shape::Upper => hi = hi.min(columns.end),
    }
    (lo, hi.max(lo))
}

/// The number of `f64` values in a cache line.
const LINE: usize = 8;

/// Returns a matrix of zeros whose columns are spaced a few cache lines more than a power of two,
/// at which the columns of a tile would map to the same cache set.
pub fn spread(rows: usize, cols: usize) -> Mat<f64> {
    let apart = if rows.is_multiple_of(8 * LINE) && cols > 0 { rows + LINE } else { rows };
    let mut out = Mat::with_capacity(apart, cols);
    out.resize_with(rows, cols, |_, _| 0.0);
    out
}

/// Returns a copy whose columns are spaced as in [`spread`].
pub(crate) fn spread_copy(a: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = spread(a.nrows(), a.ncols());
    out.copy_from(a);
    out
}

/// The entries of a product that are computed: a part of it, in square tiles.
#[derive(Clone, Copy)]
struct Tiles {
    part: Part,
    /// The rows of a tile.
    side: usize,
}

/// Computes one row strip of a structured product: the rows from `i0` on. `left` contains only
/// these rows.
fn product_strip(
    mut out: MatMut<'_, f64>,
    i0: usize,
    Tiles { part, side }: Tiles,
    accum: Accum,
    left: Operand<'_>,
    right: Operand<'_>,
    scale: f64,
) {
    let (left_shape, right_shape) = (left.shape, right.shape);
    let (left, right) = (left.matrix, right.matrix);
    let (k, i1) = (left.ncols(), i0 + out.nrows());
    let columns = if part == Part::Lower { i1.min(out.ncols()) } else { out.ncols() };
    let range = |j0: usize| {
        let j1 = (j0 + side).min(columns);
        (j1, inner_range(left_shape, i0..i1, right_shape, j0..j1, k))
    };
    let mut j0 = 0;
    while j0 < columns {
        let (mut j1, (lo, hi)) = range(j0);
        // Tiles that need the same inner indices are computed by one GEMM, which packs its left
        // operand once.
        while j1 < columns && range(j1).1 == (lo, hi) {
            j1 = range(j1).0;
        }
        matmul(
            out.as_mut().subcols_mut(j0, j1 - j0),
            accum,
            left.subcols(lo, hi - lo),
            right.submatrix(lo, j0, hi - lo, j1 - j0),
            scale,
            Par::Seq,
        );
        j0 = j1;
    }
}

/// Computes `out = scale · left · right` (or `out += …`), and skips the blocks of `left` that are
/// zero by its shape.
///
/// It is meant for the columns of one block of data, when the caller runs the blocks in parallel;
/// threads without a block can compute some of the strips.
pub fn block_product(
    out: MatMut<'_, f64>,
    accum: Accum,
    left: Operand<'_>,
    right: MatRef<'_, f64>,
    scale: f64,
) {
    let side = tile(out.nrows());
    // A multiple of the tile height of the GEMM that is fastest for many rows.
    let most = out.nrows().div_ceil(4).next_multiple_of(96);
    let height = if left.shape == Shape::Full { most } else { side };
    strips(out, Tiles { part: Part::All, side }, height, accum, left, Operand::full(right), scale);
}

/// Computes `out = scale · left · right` (or `out += …`), in parallel over rows; it skips zero
/// blocks and tiles that are not requested.
///
/// Every large product of this crate is computed here, as GEMM calls on contiguous tiles, which are
/// faster than the triangular and symmetric products of linear algebra libraries.
pub fn product(
    out: MatMut<'_, f64>,
    part: Part,
    accum: Accum,
    left: Operand<'_>,
    right: Operand<'_>,
    scale: f64,
) {
    let side = tile(out.nrows());
    strips(out, Tiles { part, side }, side, accum, left, right, scale);
}

/// Computes a product in strips of `height` rows, in parallel unless there is too little work.
fn strips(
    mut out: MatMut<'_, f64>,
    tiles: Tiles,
    height: usize,
    accum: Accum,
    left: Operand<'_>,
    right: Operand<'_>,
    scale: f64,
) {
    let rows = out.nrows();
    let strip = |i0: usize, out: MatMut<'_, f64>| {
        let left = Operand { matrix: left.matrix.subrows(i0, out.nrows()), ..left };
        product_strip(out, i0, tiles, accum, left, right, scale);
    };
    if rows * out.ncols() * left.matrix.ncols() < ALONE {
        let height = if tiles.part == Part::All && left.shape == Shape::Full { rows.max(1) } else { height };
        for i0 in (0..rows).step_by(height) {
            strip(i0, out.as_mut().subrows_mut(i0, height.min(rows - i0)));
        }
        return;
    }
    // Threads take one strip at a time: the strips of a triangle differ in length, so larger shares
    // would be uneven.
    let strips = columns::row_chunks(out, height).into_par_iter().enumerate().with_max_len(1);
    strips.for_each(|(i, out)| strip(i * height, out));
}

/// `Σ_i x_i y_i`.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// The sum of the diagonal.
pub(crate) fn trace(a: MatRef<'_, f64>) -> f64 {
    (0..a.nrows()).map(|i| a[(i, i)]).sum()
}

/// `a · x` into `out` (or `aᵀ · x` by passing a transposed view).
pub fn matvec(a: MatRef<'_, f64>, x: &[f64], out: &mut [f64]) {
    matmul(
        faer::ColMut::from_slice_mut(out).as_mat_mut(),
        Accum::Replace,
        a,
        faer::ColRef::from_slice(x).as_mat(),
        1.0,
        Par::Seq,
    );
}

/// The factorisation met a pivot that is not positive, or not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPositiveDefinite {
    /// The index of the offending pivot.
    pub pivot: usize,
}

/// Factorisations above this size are split in two, and the products of the halves run in parallel.
/// The split depends on the size alone, so results do not depend on the number of threads.
const LEAF: usize = 128;

/// Returns the row at which `n` rows are split: a multiple of the tile near the middle.
fn half(n: usize) -> usize {
    (n / 2).next_multiple_of(64)
}

/// Scratch memory for factorisations, so that repeated factorisations allocate nothing.
pub struct Factorizer {
    memory: MemBuffer,
}

impl Factorizer {
    /// Memory for `n × n` factorisations.
    pub fn new(n: usize) -> Self {
        let req = cholesky_in_place_scratch::<f64>(n.min(LEAF), Par::Seq, Default::default());
        Factorizer { memory: MemBuffer::new(req) }
    }

    /// Overwrites the symmetric `a` (lower triangle read) with its lower Cholesky factor, zeros above the diagonal.
    pub fn cholesky(&mut self, a: MatMut<'_, f64>) -> Result<(), NotPositiveDefinite> {
        self.factor(a, None)
    }

    /// Like [`Factorizer::cholesky`], and writes the inverse of the factor into `inverse`, with
    /// zeros above the diagonal. Some of its products are computed while the rest of the matrix is
    /// factorised.
    pub fn cholesky_with_inverse(
        &mut self,
        a: MatMut<'_, f64>,
        inverse: MatMut<'_, f64>,
    ) -> Result<(), NotPositiveDefinite> {
        self.factor(a, Some(inverse))
    }

    fn factor(
        &mut self,
        mut a: MatMut<'_, f64>,
        inverse: Option<MatMut<'_, f64>>,
    ) -> Result<(), NotPositiveDefinite> {
        let outcome = self.lower_factor(a.as_mut(), inverse, 0);
        clear_upper(a.as_mut());
        outcome?;
        // A NaN pivot can pass a comparison, so the diagonal is checked as well.
        match (0..a.nrows()).find(|&i| !(a[(i, i)] > 0.0 && a[(i, i)].is_finite())) {
            None => Ok(()),
            Some(pivot) => Err(NotPositiveDefinite { pivot }),
        }
    }

    /// Computes `L₁₁` of the leading half, `L₂₁ = A₂₁ L₁₁⁻ᵀ`, then the factor of `A₂₂ − L₂₁L₂₁ᵀ`.
    /// The inverse X has `X₂₁ = −X₂₂ L₂₁ X₁₁`.
    fn lower_factor(
        &mut self,
        mut a: MatMut<'_, f64>,
        mut inverse: Option<MatMut<'_, f64>>,
        first: usize,
    ) -> Result<(), NotPositiveDefinite> {
        let n = a.nrows();
        if n <= LEAF {
            let stack = MemStack::new(&mut self.memory);
            cholesky_in_place(a.as_mut(), Default::default(), Par::Seq, stack, Default::default()).map_err(
                |LltError::NonPositivePivot { index }| NotPositiveDefinite { pivot: first + index },
            )?;
            if let Some(inverse) = inverse {
                invert_lower(a.as_ref(), inverse);
            }
            return Ok(());
        }
        let middle = half(n);
        let (mut a11, _, mut a21, mut a22) = a.split_at_mut(middle, middle);
        let leading = inverse.as_mut().map(|x| x.as_mut().submatrix_mut(0, 0, middle, middle));
        self.lower_factor(a11.as_mut(), leading, first)?;
        let l11 = a11.as_ref();
        columns::row_chunks(a21.as_mut(), 64).into_par_iter().for_each(|rows| {
            solve_lower_triangular_in_place(l11, rows.transpose_mut(), Par::Seq);
        });
        let l21 = a21.as_ref();
        let right = Operand::full(l21.transpose());
        product(a22.as_mut(), Part::Lower, Accum::Add, Operand::full(l21), right, -1.0);
        let Some(inverse) = inverse else { return self.lower_factor(a22, None, first + middle) };
        let (x11, mut x12, x21, mut x22) = inverse.split_at_mut(middle, middle);
        let inner = || inner_of_inverse(l21, x11.as_ref(), x12.as_mut());
        join(|| self.lower_factor(a22, Some(x22.as_mut()), first + middle), inner).0?;
        corner_of_inverse(x22.as_ref(), x12, x21);
        Ok(())
    }
}

/// Computes `(L₂₁ X₁₁)ᵀ`, a factor of `X₂₁ = −X₂₂ L₂₁ X₁₁`, in `room`, the block of X above the
/// diagonal.
fn inner_of_inverse(l21: MatRef<'_, f64>, x11: MatRef<'_, f64>, room: MatMut<'_, f64>) {
    let (left, right) = (Operand::upper(x11.transpose()), Operand::full(l21.transpose()));
    product(room, Part::All, Accum::Replace, left, right, 1.0);
}

/// Computes `X₂₁` from the result of [`inner_of_inverse`] in `room`, and sets `room` to zero.
fn corner_of_inverse(x22: MatRef<'_, f64>, mut room: MatMut<'_, f64>, x21: MatMut<'_, f64>) {
    let (left, right) = (Operand::lower(x22), Operand::full(room.as_ref().transpose()));
    product(x21, Part::All, Accum::Replace, left, right, -1.0);
    room.fill(0.0);
}

/// Writes the inverse of the lower-triangular `l` into `out`, zeros above the diagonal.
pub fn invert_lower(l: MatRef<'_, f64>, mut out: MatMut<'_, f64>) {
    let n = l.nrows();
    if n <= LEAF {
        out.fill(0.0);
        invert_lower_triangular(out, l, Par::Seq);
        return;
    }
    let middle = half(n);
    let (l11, _, l21, l22) = l.split_at(middle, middle);
    let (mut x11, mut x12, x21, mut x22) = out.split_at_mut(middle, middle);
    join(|| invert_lower(l11, x11.as_mut()), || invert_lower(l22, x22.as_mut()));
    inner_of_inverse(l21, x11.as_ref(), x12.as_mut());
    corner_of_inverse(x22.as_ref(), x12, x21);
}

/// `out = linvᵀ · linv`, both triangles: the inverse of `L Lᵀ` from `linv = L⁻¹`.
pub fn gram_of_inverse(linv: MatRef<'_, f64>, mut out: MatMut<'_, f64>) {
    product(
        out.as_mut(),
        Part::Lower,
        Accum::Replace,
        Operand::upper(linv.transpose()),
        Operand::lower(linv),
        1.0,
    );
    reflect_lower(out);
}

/// `s ← w · s · wᵀ` for a symmetric `s`, whose lower triangle is read; `room` is a buffer for one
/// product.
///
/// With `s = N + Nᵀ` it is `R + Rᵀ`, `R = w N wᵀ`. For a triangular `w` this takes M³ flops, while `w s` and half of `(w s) wᵀ` take
/// 4/3·M³.
pub fn congruence(w: Operand<'_>, mut s: MatMut<'_, f64>, room: MatMut<'_, f64>) {
    half_congruence(w, s.as_mut(), room, 1.0);
    add_transpose(s);
}

/// Computes `s ← scale · w · N · wᵀ`, where `s = N + Nᵀ` with a lower-triangular N. This is half of
/// [`congruence`]; its symmetric part is that of the whole result.
pub fn half_congruence(w: Operand<'_>, mut s: MatMut<'_, f64>, mut room: MatMut<'_, f64>, scale: f64) {
    clear_upper(s.as_mut());
    for i in 0..s.nrows() {
        s[(i, i)] *= 0.5;
    }
    let (n, shape) = (Operand::lower(s.as_ref()), w.shape);
    let (left, right) = (w, w.transposed());
    // With a triangular w one of the two products is lower-triangular. Entries above its diagonal's
    // tiles are neither written nor read, and within these tiles they are zero.
    if shape == Shape::Upper {
        product(room.as_mut(), Part::Lower, Accum::Replace, n, right, 1.0);
        product(s, Part::All, Accum::Replace, left, Operand::lower(room.as_ref()), scale);
    } else {
        let part = if shape == Shape::Lower { Part::Lower } else { Part::All };
        product(room.as_mut(), part, Accum::Replace, left, n, 1.0);
        product(s, Part::All, Accum::Replace, Operand { matrix: room.as_ref(), shape }, right, scale);
    }
}

/// `x ← (L Lᵀ)⁻¹ x` for a lower-triangular factor; its upper triangle is not read.
pub fn solve_factored(l: MatRef<'_, f64>, x: &mut [f64]) {
    solve_lower(l, x);
    solve_lower_transposed(l, x);
}

/// `x ← L⁻¹ x` for a lower-triangular factor; its upper triangle is not read.
pub fn solve_lower(l: MatRef<'_, f64>, x: &mut [f64]) {
    solve_lower_triangular_in_place(l, faer::ColMut::from_slice_mut(x).as_mat_mut(), Par::Seq);
}

/// `x ← L⁻ᵀ x` for a lower-triangular factor; its upper triangle is not read.
pub(crate) fn solve_lower_transposed(l: MatRef<'_, f64>, x: &mut [f64]) {
    solve_upper_triangular_in_place(l.transpose(), faer::ColMut::from_slice_mut(x).as_mat_mut(), Par::Seq);
}

/// The log-determinant of `L Lᵀ`.
pub fn log_det(l: MatRef<'_, f64>) -> f64 {
    2.0 * (0..l.nrows()).map(|i| l[(i, i)].ln()).sum::<f64>()
}

pub(crate) fn outer_of_lower(l: MatRef<'_, f64>, mut out: MatMut<'_, f64>) {
    product(out.as_mut(), Part::Lower, Accum::Replace, Operand::lower(l), Operand::upper(l.transpose()), 1.0);
    reflect_lower(out);
}

/// Returns the triangular factor `R` (upper, `n × n`) of a QR decomposition of the `m × n` matrix
/// `a`, zeros below.
///
/// Rows beyond `min(m, n)` are zero, so `RᵀR = aᵀa` for every shape. It runs on one thread, because
/// faer's parallel QR rounds differently for different numbers of threads.
pub fn qr_factor(mut a: Mat<f64>) -> Mat<f64> {
    let (m, n) = a.shape();
    let block = recommended_block_size::<f64>(m, n);
    let mut householder = Mat::zeros(block, m.min(n));
    let mut memory = MemBuffer::new(qr_in_place_scratch::<f64>(m, n, block, Par::Seq, Default::default()));
    let stack = MemStack::new(&mut memory);
    qr_in_place(a.as_mut(), householder.as_mut(), Par::Seq, stack, Default::default());
    Mat::from_fn(n, n, |i, j| if i < m && i <= j { a[(i, j)] } else { 0.0 })
}

/// An orthonormal basis (`p × n`) of a space that contains the columns of `a` (`p × n`, n ≤ p).
pub(crate) fn thin_orthonormal(a: Mat<f64>) -> Mat<f64> {
    a.qr().compute_thin_Q()
}

/// Returns the ascending eigenvalues and the eigenvectors (columns) of the symmetric `a`; `None` if
/// the iteration fails, which happens only with numbers that are not finite.
pub fn symmetric_eigen(a: MatRef<'_, f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let mut solver = EigenSolver::new(a.nrows());
    solver.decompose(a).then_some((solver.values, solver.vectors))
}

/// Memory for eigendecompositions of symmetric matrices of one size, so that repeated
/// decompositions allocate nothing.
///
/// It runs on one thread for the same reason as [`qr_factor`].
pub(crate) struct EigenSolver {
    values: Vec<f64>,
    pub(crate) vectors: Mat<f64>,
    diagonal: faer::diag::Diag<f64>,
    scaled: Mat<f64>,
    memory: MemBuffer,
}

impl EigenSolver {
    /// Allocates memory for `n × n` matrices.
    pub fn new(n: usize) -> Self {
        let req = self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, Par::Seq, Default::default());
        EigenSolver {
            values: vec![0.0; n],
            vectors: Mat::zeros(n, n),
            diagonal: faer::diag::Diag::zeros(n),
            scaled: Mat::zeros(n, n),
            memory: MemBuffer::new(req),
        }
    }

    /// Computes `a = V diag(d) Vᵀ` (lower triangle read), with ascending values. Returns false if
    /// the iteration fails, which happens only with numbers that are not finite.
    pub(crate) fn decompose(&mut self, a: MatRef<'_, f64>) -> bool {
        let stack = MemStack::new(&mut self.memory);
        let (values, vectors) = (self.diagonal.as_mut(), Some(self.vectors.as_mut()));
        if self_adjoint_evd(a, values, vectors, Par::Seq, stack, Default::default()).is_err() {
            return false;
        }
        (0..self.values.len()).for_each(|i| self.values[i] = self.diagonal[i]);
        self.values.iter().all(|d| d.is_finite())
    }

    /// The eigenvalues d.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Replaces each value d by `f(d)`.
    pub(crate) fn map_values(&mut self, f: impl Fn(f64) -> f64) {
        self.values.iter_mut().for_each(|d| *d = f(*d));
    }

    /// Writes `V diag(f(d)) Vᵀ` into `out`, both triangles.
    pub(crate) fn rebuild(&mut self, f: impl Fn(f64) -> f64, mut out: MatMut<'_, f64>) {
        self.scaled.copy_from(&self.vectors);
        for (column, d) in self.scaled.as_mut().col_iter_mut().zip(&self.values) {
            let scale = f(*d);
            column.iter_mut().for_each(|v| *v *= scale);
        }
        let (left, right) = (Operand::full(self.scaled.as_ref()), Operand::full(self.vectors.transpose()));
        product(out.as_mut(), Part::Lower, Accum::Replace, left, right, 1.0);
        reflect_lower(out);
    }
}

/// An estimate from below of `‖aᵀa‖₂` for a square `a`, by a few power iterations from a fixed start.
pub fn gram_norm(a: MatRef<'_, f64>) -> f64 {
    let n = a.nrows();
    // The start has no regular structure, so that it is not orthogonal to the leading eigenvector
    // of a structured matrix.
    let mut x: Vec<f64> = (0..n).map(|i| 1.0 + (i as f64 * 0.754_877_666).fract()).collect();
    let mut y = vec![0.0; n];
    let mut norm = 0.0;
    for _ in 0..8 {
        let length = dot(&x, &x).sqrt();
        x.iter_mut().for_each(|x| *x /= length);
        matvec(a, &x, &mut y);
        matvec(a.transpose(), &y, &mut x);
        norm = dot(&x, &x).sqrt();
    }
    norm
}

pub(crate) fn all_finite(a: MatRef<'_, f64>) -> bool {
    (0..a.ncols()).all(|j| a.col(j).iter().all(|x| x.is_finite()))
}
