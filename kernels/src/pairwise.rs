//! Walks over pairs of points for kernels that combine functions of the difference in each column.

use crate::compose::value_count;
use crate::dimension::{Dimension, any_category, is_category};
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch};
use crate::matrix::{add_transpose, column, column_mut, mirror_upper};
use crate::vector_math::{Pass, dispatch};
use faer::{MatMut, MatRef};
use pulp::Simd;

/// The number of pairs that are computed together.
pub(crate) const LANES: usize = 16;
/// One number for each of [`LANES`] pairs with the same right point.
pub(crate) type Run = [f64; LANES];
/// The number of columns of a Gram matrix for which `kbar + kbarᵀ` is computed at a time.
const PANEL: usize = 8;

/// A covariance as a function of the differences `τ_d = x_d − x'_d`. Methods must be `#[inline(always)]`.
///
/// The difference of two codes of a category is 0 if they are equal, otherwise 1.
pub(crate) trait OfDifferences: Kernel {
    /// Returns the number of runs of working memory that each method needs.
    fn workspace(&self) -> usize;
    fn at_zero(&self) -> f64;
    /// Adds the gradient of `total` times [`OfDifferences::at_zero`] in the parameters; does nothing if `parameters` is empty.
    fn add_diagonal(&self, total: f64, parameters: &mut [f64]);
    /// The covariances at `tau`, a run per column of the points.
    fn value<S: Simd>(&self, tau: &[Run], work: &mut [Run]) -> Run;
    /// Writes `∂F/∂τ` and adds `∂F/∂parameters`, a run per value, given `kbar = ∂F/∂k`.
    fn pull_back<S: Simd>(
        &self,
        tau: &[Run],
        kbar: &Run,
        tau_bar: &mut [Run],
        parameters: &mut [Run],
        work: &mut [Run],
    );
}

fn runs(buffer: &mut [f64]) -> &mut [Run] {
    buffer.as_chunks_mut().0
}

fn zeroed(len: usize, scratch: &mut Scratch) -> Vec<f64> {
    scratch.zeros(len * LANES)
}

/// Returns the points in blocks of [`LANES`], with one run per column in each block; the last block
/// is padded with zeros.
fn blocks(x: MatRef<'_, f64>, scratch: &mut Scratch) -> Vec<f64> {
    let dims = x.ncols();
    let mut buffer = zeroed(x.nrows().div_ceil(LANES) * dims, scratch);
    let blocks = runs(&mut buffer);
    for d in 0..dims {
        for (i, &value) in x.col(d).iter().enumerate() {
            blocks[i / LANES * dims + d][i % LANES] = value;
        }
    }
    buffer
}

#[inline(always)]
fn differences(block: &[Run], right: MatRef<'_, f64>, j: usize, dimensions: &[Dimension], tau: &mut [Run]) {
    for (d, (tau, x)) in tau.iter_mut().zip(block).enumerate() {
        let z = right[(j, d)];
        if is_category(dimensions, d) {
            tau.iter_mut().zip(x).for_each(|(tau, x)| *tau = if *x == z { 0.0 } else { 1.0 });
            continue;
        }
        for (tau, x) in tau.iter_mut().zip(x) {
            *tau = x - z;
        }
    }
}

/// One column of the covariance matrix.
struct Column<'a, F> {
    form: &'a F,
    left: &'a [Run],
    right: MatRef<'a, f64>,
    j: usize,
    tau: &'a mut [Run],
    work: &'a mut [Run],
    out: &'a mut [f64],
}

impl<F: OfDifferences> Pass for Column<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        for (block, out) in self.left.chunks_exact(self.tau.len()).zip(self.out.chunks_mut(LANES)) {
            differences(block, self.right, self.j, self.form.dimensions(), self.tau);
            let values = self.form.value::<S>(self.tau, self.work);
            out.copy_from_slice(&values[..out.len()]);
        }
    }
}

/// Writes the covariance matrix.
///
/// # Panics
/// If the points have no columns.
pub(crate) fn evaluate<F: OfDifferences>(
    form: &F,
    inputs: Inputs<'_>,
    mut out: MatMut<'_, f64>,
    scratch: &mut Scratch,
) {
    let (x, z) = inputs.sides();
    assert_eq!(x.ncols(), form.min_dims(), "number of columns of points for a kernel of differences");
    let gram = matches!(inputs, Inputs::Gram(_));
    let mut left = blocks(x, scratch);
    let mut tau = zeroed(x.ncols(), scratch);
    let mut work = zeroed(form.workspace(), scratch);
    for j in 0..z.nrows() {
        let height = if gram { j } else { x.nrows() };
        let (left, tau, work) = (runs(&mut left), runs(&mut tau), runs(&mut work));
        let out = &mut column_mut(&mut out, j)[..height];
        dispatch(Column { form, left, right: z, j, tau, work, out });
    }
    if gram {
        let at_zero = form.at_zero();
        mirror_upper(out, |_| at_zero);
    }
    scratch.give_all([left, tau, work]);
}

/// The adjoint of one column.
struct ColumnAdjoint<'a, F> {
    form: &'a F,
    left: &'a [Run],
    right: MatRef<'a, f64>,
    j: usize,
    kbar: &'a [f64],
    tau: &'a mut [Run],
    tau_bar: &'a mut [Run],
    left_bar: &'a mut [Run],
    right_bar: &'a mut [Run],
    parameters: &'a mut [Run],
    work: &'a mut [Run],
}

#[inline(always)]
fn add(to: &mut [Run], from: &[Run]) {
    for (to, from) in to.iter_mut().zip(from) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    }
}

impl<F: OfDifferences> Pass for ColumnAdjoint<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let dims = self.tau.len();
        let sides = self.left.chunks_exact(dims).zip(self.left_bar.chunks_exact_mut(dims));
        for ((block, left_bar), kbar) in sides.zip(self.kbar.chunks(LANES)) {
            let mut padded = [0.0; LANES];
            padded[..kbar.len()].copy_from_slice(kbar);
            differences(block, self.right, self.j, self.form.dimensions(), self.tau);
            self.form.pull_back::<S>(self.tau, &padded, self.tau_bar, self.parameters, self.work);
            if any_category(self.form.dimensions()) {
                let of_codes = self.tau_bar.iter_mut().enumerate();
                let of_codes = of_codes.filter(|(d, _)| is_category(self.form.dimensions(), *d));
                of_codes.for_each(|(_, bar)| *bar = [0.0; LANES]);
            }
            add(left_bar, self.tau_bar);
            add(self.right_bar, self.tau_bar);
        }
    }
}

/// Adds the gradient of `Σ kbar∘k`.
pub(crate) fn adjoint<F: OfDifferences>(
    form: &F,
    at: Evaluated<'_>,
    mut grad: Gradient<'_>,
    scratch: &mut Scratch,
) {
    let Evaluated { inputs, kbar, .. } = at;
    let (x, z) = inputs.sides();
    let (rows, dims) = (x.nrows(), x.ncols());
    let gram = matches!(inputs, Inputs::Gram(_));
    let mut left = blocks(x, scratch);
    let mut left_bar = zeroed(left.len() / LANES, scratch);
    let [mut tau, mut tau_bar, mut right_bar] = [(); 3].map(|()| zeroed(dims, scratch));
    // The gradient in the parameters is always computed, at hardly any cost.
    let mut parameters = zeroed(value_count(form), scratch);
    let mut work = zeroed(form.workspace(), scratch);
    let mut both = scratch.take(if gram { rows * PANEL } else { 0 });
    let mut buffer = scratch.take(rows);
    for j in 0..z.nrows() {
        if gram && j % PANEL == 0 {
            add_transpose(kbar, j, PANEL.min(rows - j), &mut both);
        }
        let kbar = if gram { &both[j % PANEL * rows..][..j] } else { column(kbar, j, &mut buffer) };
        right_bar.fill(0.0);
        dispatch(ColumnAdjoint {
            form,
            left: runs(&mut left),
            right: z,
            j,
            kbar,
            tau: runs(&mut tau),
            tau_bar: runs(&mut tau_bar),
            left_bar: runs(&mut left_bar),
            right_bar: runs(&mut right_bar),
            parameters: runs(&mut parameters),
            work: runs(&mut work),
        });
        if let Some(target) = if gram { &mut grad.left } else { &mut grad.right } {
            for (d, bar) in runs(&mut right_bar).iter().enumerate() {
                target[(j, d)] -= bar.iter().sum::<f64>();
            }
        }
    }
    if let Some(target) = &mut grad.left {
        let bars = runs(&mut left_bar);
        for d in 0..dims {
            (0..rows).for_each(|i| target[(i, d)] += bars[i / LANES * dims + d][i % LANES]);
        }
    }
    for (to, run) in grad.parameters.iter_mut().zip(runs(&mut parameters)) {
        *to += run.iter().sum::<f64>();
    }
    if gram {
        form.add_diagonal((0..rows).map(|i| kbar[(i, i)]).sum(), grad.parameters);
    }
    scratch.give_all([left, left_bar, tau, tau_bar, right_bar, parameters, work, both, buffer]);
}
