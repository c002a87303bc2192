//! Draws of a posterior as functions: draws of q, and random features of the residual given it,
//! evaluated anywhere with gradients.

use super::fitted::{Model, check_columns};
use super::local::{Bars, Local, column, whitened};
use super::nearby::{Beside, Nearby};
use super::posterior::Posterior;
use super::residual_features::{FEATURES, FeatureSet, Key, SETS, Use, square};
use super::slopes::add_diagonal_slopes;
use crate::data::{Purpose, Scaling, offset_at, part_generator};
use crate::error::{Error, Result};
use crate::latent::{InducingLayer, Layer, RawFeatures};
use crate::linalg::{dot, symmetric_eigen};
use crate::parallel::*;
use crate::rows::Rows as Inputs;
use crate::variational::{MatrixRef, Normal};
use faer::{Mat, MatRef};
use sparsegp_kernels::Scratch;

/// The number of rows that a thread evaluates together.
const ROWS: usize = 128;

/// The number of rows, with their neighbours, whose features are in memory at the same time.
const MOST_ROWS: usize = 8192;

/// The number of values (rows times draws) that are evaluated together.
const MOST_VALUES: usize = 1 << 24;

/// The number of rows up to which targets are drawn by their exact covariance, which is then
/// quicker than features.
const EXACT_ROWS: usize = 500;

/// Tests whether the caller wants an evaluation to end without a result.
#[doc(hidden)]
pub type Stopped<'a> = dyn Fn() -> bool + Sync + 'a;

/// Functions drawn from the posterior of a model: `f(x) = o + a(x)ᵀw + s(x) p(x)ᵀε` with `a = L⁻¹k(Z, x)`. Here w is an exact draw of q, and
/// ε is standard normal. The second part is a draw of the prior given u, by pathwise conditioning of random features φ (Wilson et al. 2021):
/// `p_j = (φ_j(x) − φ_j(Z)ᵀc) / √F` with `c = (K_uu + jI)⁻¹k(Z, x)`, followed by `−√j c`. In models with neighbours, their values correct
/// every row in the same way: `f(x) + rᵀC⁻¹(y_N − f(N) − ε_N)`, with the residual covariance given the inducing inputs.
///
/// The factor `s` is the root of the exact variance of the second part divided by its variance with these features. Each value of a
/// function is therefore exactly normal, with the mean and the variance of the posterior; correlations of the second part at different
/// rows are approximate.
pub struct FunctionDraws {
    processes: Vec<Process>,
    offset: f64,
    scaling: Scaling,
    count: usize,
    /// For models with neighbours: the posterior that searches them, and the key of the noise of the training rows.
    local: Option<(Posterior, Key)>,
}

impl Model {
    /// Draws functions of the target without its noise, in units of the target, that can be
    /// evaluated anywhere. Outputs that mix processes share draws with the same seed; for other
    /// models the draws also depend on `output`, the index among several outputs.
    ///
    /// # Errors
    ///
    /// Usage errors for linear models, kernels without random features and models that define only
    /// a mean, and fit errors if there is not enough memory.
    pub fn function_draws(&self, count: usize, seed: u64, output: u64) -> Result<FunctionDraws> {
        self.check_no_groups("draws of the function")?;
        let mixed = self.mixed();
        let (weights, offset) = mixed.clone().unwrap_or_else(|| (vec![1.0], 0.0));
        let weights: Vec<(usize, f64)> = weights.into_iter().enumerate().collect();
        let output = if mixed.is_some() { 0 } else { output };
        Ok(FunctionDraws { offset, ..self.draws_of(&weights, count, seed, output)? })
    }

    /// Returns draws of a weighted sum of processes on the scale the model sees.
    fn draws_of(
        &self,
        weights: &[(usize, f64)],
        count: usize,
        seed: u64,
        output: u64,
    ) -> Result<FunctionDraws> {
        if self.mean_only() {
            return Err(Error::usage(
                "functions cannot be drawn from a model fitted with ⟨objective dlm-square⟩, which defines only a mean",
            ));
        }
        let process = |&(process, weight): &(usize, f64)| {
            Process::draw(self, process, weight, count, Key { seed, output: output + process as u64 })
        };
        let processes = weights.iter().map(process).collect::<Result<_>>()?;
        let local = self.neighbours().map(|_| (self.posterior().clone(), Key { seed, output }));
        Ok(FunctionDraws { processes, offset: 0.0, scaling: self.scaling().clone(), count, local })
    }

    /// Draws targets at all rows of `x` (`n × D`, original units) together, with these exposures
    /// (none when all are 1): first the latent functions at all rows from the posterior, then a
    /// target at every row. Returns `count` vectors of n.
    ///
    /// # Errors
    ///
    /// As for [`Model::predict`], and if there are too many rows and functions of the model cannot
    /// be drawn.
    #[doc(hidden)]
    pub fn target_draws<'x>(
        &self,
        x: impl Into<Inputs<'x>>,
        exposure: &[f64],
        count: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>> {
        self.target_draws_at(x.into().as_ref(), exposure, count, seed)
    }

    fn target_draws_at(
        &self,
        x: MatRef<'_, f64>,
        exposure: &[f64],
        count: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>> {
        let predictions = self.predict(x, exposure)?;
        let exact = |process: usize| self.latent_samples(x, count, seed, process);
        let of_process = |process: usize| match self.draws_of(&[(process, 1.0)], count, seed, 0) {
            Ok(draws) => draws.latent(x, &|| false),
            Err(_) => exact(process),
        };
        // Draws that can be evaluated anywhere have no effects.
        let has_groups = !self.latent().effects.is_empty();
        let of_process: &dyn Fn(usize) -> Result<Vec<Vec<f64>>> =
            if x.nrows() <= EXACT_ROWS || has_groups { &exact } else { &of_process };
        let functions = (0..self.latent().processes()).map(of_process).collect::<Result<Vec<_>>>()?;
        let one = |draw: usize| {
            let of_row = |row: usize| {
                let values: Vec<f64> = functions.iter().map(|function| function[draw][row]).collect();
                let mut random = part_generator(seed, Purpose::Prediction, row as u64, draw as u64);
                predictions.draw_given(row, &values, &mut random)
            };
            (0..x.nrows()).map(of_row).collect()
        };
        Ok((0..count).into_par_iter().map(one).collect())
    }
}

/// The draws of a latent process, and its weight in the function of the target.
struct Process {
    index: usize,
    weight: f64,
    constant: f64,
    layer: InducingLayer,
    sets: Vec<FeatureSet>,
}

/// Some rows of a process, before random numbers.
struct Rows {
    /// `a`, a column for each row.
    features: Mat<f64>,
    /// The factors of w: `a − A_N b`.
    smooth: Mat<f64>,
    /// `bᵀ(y_N − o)`.
    shift: Vec<f64>,
    /// The variance given u and the neighbours.
    variance: Vec<f64>,
    /// `bᵀΣb`.
    noise: Vec<f64>,
    /// The neighbours, as places in [`Near::rows`], with their weights b.
    weights: Vec<Vec<(usize, f64)>>,
}

impl Process {
    fn draw(model: &Model, process: usize, weight: f64, count: usize, key: Key) -> Result<Process> {
        let layers = model.latent().layers();
        let own = layers.of(process);
        let Layer::Inducing(prior) = layers.get(own) else {
            return Err(Error::usage(
                "draws of functions need the random features of a kernel, and this model has no kernel",
            ));
        };
        let layer = prior
            .factorised()
            .map_err(|_| Error::fit("the covariance of the inducing inputs has no Cholesky factor"))?;
        let q = &model.posteriors()[process];
        let root = root_of(q)?;
        // The numbers of a draw are held twice while they are made.
        check_room(count, 2 * (FEATURES + 2 * q.dim()))?;
        let set = |index| FeatureSet::new(&layer, (q, &root), index, count, key);
        let sets = (0..SETS.min(count)).into_par_iter().map(set).collect::<Result<_>>()?;
        let constant = prior.constant(process - layers.members(own).start).unwrap_or(0.0);
        Ok(Process { index: process, weight, constant, layer, sets })
    }

    /// Returns what the values at some rows (`n × D`) need.
    fn rows(&self, x: MatRef<'_, f64>, near: Option<&Near<'_>>) -> Rows {
        let features = whitened(&self.layer, x);
        let Some(near) = near else {
            let mut variance = vec![0.0; x.nrows()];
            self.layer.kernel().diag(x, &mut variance, &mut Scratch::new());
            for (variance, a) in variance.iter_mut().zip(0..) {
                *variance = (*variance - square(features.col_as_slice(a))).max(0.0);
            }
            let (smooth, none) = (features.clone(), vec![0.0; x.nrows()]);
            return Rows {
                features,
                smooth,
                shift: none.clone(),
                variance,
                noise: none,
                weights: Vec::new(),
            };
        };
        let of_row = |row: usize| {
            let local = Local::new(near.nearby, near.given, &near.lists[row]);
            let (a, b, variance) = local.conditional(x.subrows(row, 1));
            let smooth = a - &local.features * &b;
            (smooth, dot(b.col_as_slice(0), &local.targets), variance, b)
        };
        let found: Vec<_> = (0..x.nrows()).into_par_iter().map(of_row).collect();
        let weights: Vec<Vec<(usize, f64)>> = found
            .iter()
            .zip(&near.lists)
            .map(|((_, _, _, b), list)| {
                list.iter().map(|row| near.place(*row)).zip(b.col(0).iter().copied()).collect()
            })
            .collect();
        let noise = |list: &Vec<(usize, f64)>| list.iter().map(|&(at, b)| b * b * near.noise[at]).sum();
        Rows {
            smooth: Mat::from_fn(features.nrows(), x.nrows(), |i, row| found[row].0[(i, 0)]),
            features,
            shift: found.iter().map(|row| row.1).collect(),
            variance: found.iter().map(|row| row.2).collect(),
            noise: weights.iter().map(noise).collect(),
            weights,
        }
    }

    /// Adds the values at some rows (`n × D`) in the draws of a set to `out` (`n × count`).
    fn add_values(
        &self,
        set: &FeatureSet,
        x: MatRef<'_, f64>,
        rows: &Rows,
        near: Option<&Near<'_>>,
        out: &mut Mat<f64>,
    ) {
        let blocks =
            |n: usize| (0..n).step_by(ROWS).map(move |from| (from, ROWS.min(n - from))).collect::<Vec<_>>();
        let residuals = |x: MatRef<'_, f64>, a: MatRef<'_, f64>| -> Vec<Mat<f64>> {
            let of_block = |&(from, n): &(usize, usize)| {
                set.residuals(&self.layer, x.subrows(from, n), a.subcols(from, n))
            };
            blocks(x.nrows()).par_iter().map(of_block).collect()
        };
        let near = near.map(|near| {
            let features = whitened(&self.layer, near.points.as_ref());
            (residuals(near.points.as_ref(), features.as_ref()), near.noises(set.index, set.loads.ncols()))
        });
        let of_block = |&(from, n): &(usize, usize)| {
            let mut p =
                set.residuals(&self.layer, x.subrows(from, n), rows.features.as_ref().subcols(from, n));
            let mut noise: Mat<f64> = Mat::zeros(n, set.loads.ncols());
            if let Some((residuals, noises)) = &near {
                for i in 0..n {
                    for &(at, b) in &rows.weights[from + i] {
                        let other = residuals[at / ROWS].col_as_slice(at % ROWS);
                        p.col_as_slice_mut(i).iter_mut().zip(other).for_each(|(p, other)| *p -= b * other);
                        (0..noise.ncols()).for_each(|draw| noise[(i, draw)] += b * noises[(at, draw)]);
                    }
                }
            }
            let rough = p.transpose() * &set.loads - noise;
            let smooth = rows.smooth.as_ref().subcols(from, n).transpose() * &set.whitened;
            let scale =
                |i: usize| scale(rows.variance[from + i], square(p.col_as_slice(i)) + rows.noise[from + i]);
            let scales: Vec<f64> = (0..n).map(scale).collect();
            Mat::from_fn(n, rough.ncols(), |i, draw| {
                self.weight
                    * (self.constant
                        + rows.shift[from + i]
                        + smooth[(i, draw)]
                        + scales[i] * rough[(i, draw)])
            })
        };
        let all = blocks(x.nrows());
        let found: Vec<Mat<f64>> = all.par_iter().map(of_block).collect();
        for ((from, _), found) in all.iter().zip(&found) {
            for (i, draw) in (0..found.ncols()).flat_map(|draw| (0..found.nrows()).map(move |i| (i, draw))) {
                out[(from + i, set.index + draw * SETS)] += found[(i, draw)];
            }
        }
    }

    /// Returns the gradients in a row (`1 × D`) of the draws of a set, a row for each; `noises` has the noise of its neighbours (`u × draws`)
    /// with these variances.
    fn slopes(
        &self,
        set: &FeatureSet,
        point: MatRef<'_, f64>,
        local: &Local<'_>,
        noises: &Mat<f64>,
        variances: &[f64],
    ) -> Mat<f64> {
        let (a, b, variance) = local.conditional(point);
        let near = set.residuals(&self.layer, local.near.as_ref(), local.features.as_ref());
        let p = set.residuals(&self.layer, point, a.as_ref()) - &near * &b;
        let of_noise = Mat::from_fn(variances.len(), 1, |i, _| variances[i] * b[(i, 0)]);
        let total = square(p.col_as_slice(0)) + dot(b.col_as_slice(0), of_noise.col_as_slice(0));
        let s = scale(variance, total);
        // With t = pᵀε − bᵀε_N, the gradient of s t is s dt + κ dv − (s t / |p|²) d|p|² / 2, where κ = s t / 2v.
        let t = p.transpose() * &set.loads - b.transpose() * noises;
        let share = |of: f64| if of > 0.0 { &t * faer::Scale(s / of) } else { Mat::zeros(1, t.ncols()) };
        let (by_total, kappa) = (share(total), share(2.0 * variance));
        let direction = &set.loads * faer::Scale(s) - &p * &by_total;
        let others = near.transpose() * &direction + noises * faer::Scale(s) + &of_noise * &by_total;
        let rest = column(&local.targets) * Mat::full(1, t.ncols(), 1.0)
            - local.features.transpose() * &set.whitened
            - others;
        let near_bars = local.solved(rest);
        let (of_features, of_jitter) = direction.as_ref().split_at_row(FEATURES);
        let at_inducing = set.at_inducing.transpose() * of_features + of_jitter * faer::Scale(set.jitter);
        let of_variance = (&local.features * &b - &a) * faer::Scale(2.0);
        let feature_bars =
            &set.whitened - self.layer.inverse_factor() * &at_inducing - &local.features * &near_bars
                + &of_variance * &kappa;
        let near_bars = near_bars - (&b * &kappa) * faer::Scale(2.0);
        let position: Vec<f64> = point.row(0).iter().copied().collect();
        let mut out = Mat::zeros(t.ncols(), point.ncols());
        for draw in 0..t.ncols() {
            let of = |bars: &Mat<f64>| column(bars.col_as_slice(draw));
            let mut own = local.pull_back(point, Bars { features: of(&feature_bars), near: of(&near_bars) });
            add_diagonal_slopes(&self.layer, point, kappa[(0, draw)], &mut own);
            let mut slopes: Vec<f64> = own.row(0).iter().copied().collect();
            for (feature, load) in set.features.iter().zip(of_features.col(draw).iter()) {
                feature.add_gradient(&position, load / (FEATURES as f64).sqrt(), &mut slopes);
            }
            slopes.iter().enumerate().for_each(|(d, slope)| out[(draw, d)] = self.weight * slope);
        }
        out
    }
}

/// Returns the factor that gives a sum of features of variance `found` the variance `wanted`.
fn scale(wanted: f64, found: f64) -> f64 {
    if wanted > 0.0 && found > 0.0 { (wanted / found).sqrt() } else { 0.0 }
}

/// Refuses `rows × columns` numbers that memory cannot hold, before they are computed.
fn check_room(rows: usize, columns: usize) -> Result<()> {
    let bytes = rows.saturating_mul(columns).saturating_mul(size_of::<f64>()).min(isize::MAX as usize);
    let mut room: Vec<u8> = Vec::new();
    let had = room.try_reserve_exact(bytes);
    // Keeps the compiler from optimising the allocation away.
    std::hint::black_box(&room);
    had.map_err(|_| {
        let gib = bytes as f64 / (1u64 << 30) as f64;
        Error::fit(format!("{rows} draws of functions need {gib:.1} GiB of memory, which is not available"))
            .hint("draw fewer functions, or evaluate them at fewer rows at a time")
    })
}

/// `R` with `R Rᵀ = S`.
fn root_of(q: &Normal) -> Result<Mat<f64>> {
    let m = q.dim();
    match q.cov() {
        _ if m == 0 => Ok(Mat::zeros(0, 0)),
        MatrixRef::Diagonal(s) => Ok(Mat::from_fn(m, m, |i, j| if i == j { s[i].sqrt() } else { 0.0 })),
        MatrixRef::Full(_) => {
            let (values, vectors) = symmetric_eigen(q.cov().to_dense().as_ref())
                .ok_or_else(|| Error::fit("the posterior covariance holds values that are not finite"))?;
            Ok(Mat::from_fn(m, m, |i, j| vectors[(i, j)] * values[j].max(0.0).sqrt()))
        }
    }
}

impl FunctionDraws {
    /// Returns the values of every function at inputs in original units (`n × D`): `count` vectors
    /// of n.
    ///
    /// # Errors
    ///
    /// Data errors for a wrong number of columns, and fit errors if memory cannot hold the values.
    pub fn values<'x>(&self, x: impl Into<Inputs<'x>>) -> Result<Vec<Vec<f64>>> {
        self.values_unless(x.into().as_ref(), &|| false)
    }

    /// Like [`values`](Self::values); ends with an error of kind `Interrupted` soon after `stopped` returns true.
    ///
    /// # Errors
    ///
    /// As for [`FunctionDraws::values`].
    #[doc(hidden)]
    pub fn values_unless(&self, x: MatRef<'_, f64>, stopped: &Stopped<'_>) -> Result<Vec<Vec<f64>>> {
        let mut all = self.latent(x, stopped)?;
        let in_units = |f: &mut f64| *f = self.scaling.unscaled_target(*f + self.offset);
        all.iter_mut().flatten().for_each(in_units);
        Ok(all)
    }

    /// The values on the scale the model sees, without the offset of the output.
    pub(super) fn latent(&self, x: MatRef<'_, f64>, stopped: &Stopped<'_>) -> Result<Vec<Vec<f64>>> {
        let (scaled, offsets) = self.on_scale(x)?;
        let n = x.nrows();
        check_room(self.count, n)?;
        let mut all = vec![Vec::with_capacity(n); self.count];
        let most = (MOST_ROWS / self.neighbours().max(1)).min((MOST_VALUES / self.count.max(1)).max(ROWS));
        for from in (0..n).step_by(most.max(1)) {
            let block = scaled.as_ref().subrows(from, most.min(n - from));
            let mut values: Mat<f64> = Mat::zeros(block.nrows(), self.count);
            for process in &self.processes {
                for row in 0..block.nrows() {
                    let offset = process.weight * offset_at(offsets.as_ref(), from + row, process.index);
                    values.row_mut(row).iter_mut().for_each(|value| *value += offset);
                }
                let near = self.near(process.index, block);
                let rows = process.rows(block, near.as_ref());
                for set in &process.sets {
                    check_stopped(stopped)?;
                    process.add_values(set, block, &rows, near.as_ref(), &mut values);
                }
            }
            all.iter_mut().zip(values.col_iter()).for_each(|(all, values)| all.extend(values.iter()));
        }
        Ok(all)
    }

    /// The gradients of every function in the inputs at the same rows, in original units: `count` matrices, `n × D`. Gradients in codes of
    /// categories are 0.
    ///
    /// # Errors
    ///
    /// As for [`FunctionDraws::values`], and usage errors for warped inputs.
    pub fn gradients<'x>(&self, x: impl Into<Inputs<'x>>) -> Result<Vec<Mat<f64>>> {
        self.gradients_unless(x.into().as_ref(), &|| false)
    }

    /// Like [`gradients`](Self::gradients); ends with an error of kind `Interrupted` soon after `stopped` returns true.
    ///
    /// # Errors
    ///
    /// As for [`FunctionDraws::gradients`].
    #[doc(hidden)]
    pub fn gradients_unless(&self, x: MatRef<'_, f64>, stopped: &Stopped<'_>) -> Result<Vec<Mat<f64>>> {
        let ((scaled, offsets), slopes) = (self.on_scale(x)?, self.scaling.input_slopes()?);
        let ((n, all), d) = (x.shape(), scaled.ncols());
        check_room(self.count, n * all)?;
        let values = self.latent(x, stopped)?;
        let near: Vec<_> = self.processes.iter().map(|of| self.near(of.index, scaled.as_ref())).collect();
        let of_row = |row: usize| -> Result<Mat<f64>> {
            let point = scaled.as_ref().subrows(row, 1);
            let mut out = Mat::zeros(self.count, all);
            for (process, near) in self.processes.iter().zip(&near) {
                if offsets.ncols() > 0 {
                    (0..self.count).for_each(|draw| out[(draw, d + process.index)] = process.weight);
                }
                let (local, list) = match near {
                    Some(near) => {
                        (Local::new(near.nearby, near.given, &near.lists[row]), &near.lists[row][..])
                    }
                    None => (Local::alone(&process.layer, d), &[][..]),
                };
                let places: Vec<usize> =
                    list.iter().filter_map(|&row| near.as_ref().map(|near| near.place(row))).collect();
                for set in &process.sets {
                    check_stopped(stopped)?;
                    let draws = set.loads.ncols();
                    let noises = near.as_ref().map(|near| near.noises_of(&places, set.index, draws));
                    let variances: Vec<f64> =
                        places.iter().filter_map(|&at| near.as_ref().map(|near| near.noise[at])).collect();
                    let noises = noises.unwrap_or_else(|| Mat::zeros(0, draws));
                    let own = process.slopes(set, point, &local, &noises, &variances);
                    for (i, slopes) in own.row_iter().enumerate() {
                        slopes
                            .iter()
                            .enumerate()
                            .for_each(|(d, slope)| out[(set.index + i * SETS, d)] += slope);
                    }
                }
            }
            Ok(out)
        };
        let found = (0..n).into_par_iter().map(of_row).collect::<Result<Vec<_>>>()?;
        let unit = |draw: usize, row: usize| self.scaling.target_slope(values[draw][row] + self.offset);
        let of_draw =
            |draw: usize| Mat::from_fn(n, all, |row, d| found[row][(draw, d)] * unit(draw, row) * slopes[d]);
        Ok((0..self.count).map(of_draw).collect())
    }

    /// The number of neighbours of a row.
    fn neighbours(&self) -> usize {
        self.local.as_ref().and_then(|(posterior, _)| posterior.beside(0)).map_or(0, |(_, count, _)| count)
    }

    /// Returns the neighbours of scaled inputs, for a process.
    fn near(&self, process: usize, scaled: MatRef<'_, f64>) -> Option<Near<'_>> {
        let (posterior, key) = self.local.as_ref()?;
        let (nearby, count, given) = posterior.beside(process)?;
        let lists = nearby.lists(given.layer, scaled, count);
        let mut rows: Vec<u32> = lists.iter().flatten().copied().collect();
        rows.sort_unstable();
        rows.dedup();
        let (data, _) = nearby.data();
        let points = Mat::from_fn(rows.len(), data.ncols(), |i, j| data[(rows[i] as usize, j)]);
        let noise = rows.iter().map(|&row| nearby.noise_of(row, &given)).collect();
        let key = Key { output: key.output + process as u64, ..*key };
        Some(Near { nearby, given, lists, rows, points, noise, key })
    }

    /// Inputs on the scale the model sees.
    /// The inputs (`n × D`) and the offsets of rows in original units.
    fn on_scale(&self, x: MatRef<'_, f64>) -> Result<(Mat<f64>, Mat<f64>)> {
        check_columns(x, self.scaling.dims())?;
        let mut scaled = x.to_owned();
        self.scaling.scale_inputs(scaled.as_mut());
        let (inputs, offsets) = self.scaling.offsets().split_all(scaled.as_ref());
        Ok((inputs.to_owned(), offsets.to_owned()))
    }
}

fn check_stopped(stopped: &Stopped<'_>) -> Result<()> {
    if stopped() { Err(Error::interrupted("the evaluation of functions was interrupted")) } else { Ok(()) }
}

/// The neighbours of some rows.
struct Near<'a> {
    nearby: &'a Nearby,
    given: Beside<'a>,
    lists: Vec<Vec<u32>>,
    /// All neighbours in rising order.
    rows: Vec<u32>,
    /// Their inputs, `rows × D`.
    points: Mat<f64>,
    /// Their noise variances.
    noise: Vec<f64>,
    key: Key,
}

impl Near<'_> {
    /// Returns the place of a training row among the neighbours.
    fn place(&self, row: u32) -> usize {
        self.rows.binary_search(&row).unwrap_or_default()
    }

    /// Returns the noise of all neighbours in the draws of a set, a column for each draw.
    fn noises(&self, set: usize, draws: usize) -> Mat<f64> {
        self.noises_of(&(0..self.rows.len()).collect::<Vec<_>>(), set, draws)
    }

    /// Returns the noise of some neighbours in the draws of a set, a column for each draw.
    fn noises_of(&self, places: &[usize], set: usize, draws: usize) -> Mat<f64> {
        let of = |&at: &usize| {
            let mut normals = self.key.normals(Use::Noise, self.rows[at] as usize * SETS + set);
            (0..draws).map(|_| self.noise[at].sqrt() * normals()).collect::<Vec<f64>>()
        };
        let found: Vec<Vec<f64>> = places.par_iter().map(of).collect();
        Mat::from_fn(places.len(), draws, |i, draw| found[i][draw])
    }
}
