//! Draws of a posterior as functions: pathwise updates of random features of the prior, evaluated
//! anywhere with gradients.

use super::fitted::{Model, check_columns};
use super::local::Local;
use super::nearby::{Beside, Nearby};
use super::posterior::Posterior;
use crate::data::{Purpose, Scaling, part_generator};
use crate::error::{Error, Result};
use crate::latent::{InducingLayer, InducingPrior, Layer};
use crate::linalg::{dot, matvec, symmetric_eigen};
use crate::variational::{MatrixRef, Normal};
use faer::{Mat, MatRef};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use sparsegp_kernels::{Chance, Gradient, Inputs, RandomFeature, Scratch};

/// The number of features of a draw of a prior. The covariance of one draw has an error of about 3
/// % of the variance, without bias.
const FEATURES: usize = 1024;

/// The number of rows that are evaluated together.
const ROWS: usize = 128;

/// The number of rows up to which targets are drawn by their exact covariance, which is then
/// quicker than features.
const EXACT_ROWS: usize = 500;

/// Functions drawn from the posterior of a model, by pathwise conditioning (Wilson et al. 2020, eq.
/// 10–13): `f(x) = g(x) + k(x, Z) (K_uu + jI)⁻¹ (u − g(Z) − √j ε)`, where g is a draw of the prior
/// made of random features, and u a draw of the inducing variables. In models with neighbours,
/// their values correct every row in the same way: `f(x) + rᵀC⁻¹(y_N − f(N) − ε_N)`, with the
/// residual covariance given the inducing inputs. Over draws, mean and covariance equal the
/// posterior's; each draw alone has the prior's covariance approximately.
pub struct FunctionDraws {
    processes: Vec<Process>,
    offset: f64,
    scaling: Scaling,
    count: usize,
    /// For models with neighbours: the posterior that searches them, and the noise of every training row in every draw.
    local: Option<(Posterior, Vec<Vec<f64>>)>,
}

/// The draws of a latent process, and its weight in the function of the target.
struct Process {
    weight: f64,
    prior: InducingPrior,
    /// Random features of every draw.
    features: Vec<Vec<Box<dyn RandomFeature>>>,
    /// The factor of every feature of a draw.
    loads: Vec<Vec<f64>>,
    /// `(K_uu + jI)⁻¹ (u − g(Z) − √j ε)`, `M × count`.
    updates: Mat<f64>,
    constant: f64,
}

impl Model {
    /// Draws functions of the target without its noise, in units of the target, that can be
    /// evaluated anywhere. Outputs that mix processes share draws with the same seed; for other
    /// models the draws also depend on `output`, the index among several outputs.
    ///
    /// # Errors
    ///
    /// Usage errors for linear models, kernels without random features and models that define only
    /// a mean.
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
        let random = |stream: u64, draw: usize| part_generator(seed, Purpose::Functions, stream, draw as u64);
        let process = |&(process, weight): &(usize, f64)| {
            Process::draw(self, process, weight, count, &|draw| random(output + process as u64, draw))
        };
        let processes = weights.iter().map(process).collect::<Result<_>>()?;
        let local = self.neighbours().map(|nearby| {
            let noise = |draw: usize| {
                let mut random = random(output + (1 << 32), draw);
                let normals = (0..nearby.len()).map(|_| StandardNormal.sample(&mut random));
                normals.collect::<Vec<f64>>()
            };
            (self.posterior().clone(), (0..count).map(noise).collect())
        });
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
    pub fn target_draws(
        &self,
        x: MatRef<'_, f64>,
        exposure: &[f64],
        count: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>> {
        let predictions = self.predict(x, exposure)?;
        let exact = |process: usize| self.latent_samples(x, count, seed, process);
        let of_process = |process: usize| match self.draws_of(&[(process, 1.0)], count, seed, 0) {
            Ok(draws) => draws.latent(x),
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

impl Process {
    fn draw(
        model: &Model,
        process: usize,
        weight: f64,
        count: usize,
        random: &(dyn Fn(usize) -> ChaCha8Rng + Sync),
    ) -> Result<Process> {
        let layers = model.latent().layers();
        let own = layers.of(process);
        let Layer::Inducing(prior) = layers.get(own) else {
            return Err(Error::usage("a linear model has no random features, which draws of functions need"));
        };
        let layer = prior
            .factorised()
            .map_err(|_| Error::fit("the covariance of the inducing inputs has no Cholesky factor"))?;
        let root = root_of(&model.posteriors()[process])?;
        let one = |draw: usize| OneDraw::new(&layer, &model.posteriors()[process], &root, random(draw));
        let draws = (0..count).into_par_iter().map(one).collect::<Result<Vec<OneDraw>>>()?;
        let updates = Mat::from_fn(layer.z().nrows(), count, |m, draw| draws[draw].update[m]);
        let (features, loads) = draws.into_iter().map(|draw| (draw.features, draw.loads)).unzip();
        let constant = prior.constant(process - layers.members(own).start).unwrap_or(0.0);
        Ok(Process { weight, prior: (**prior).clone(), features, loads, updates, constant })
    }

    /// Adds the values at some rows (`n × D`) to the values of every draw (`n × count`).
    fn add_values(&self, x: MatRef<'_, f64>, out: &mut [Vec<f64>]) {
        let k = self.cross(x);
        let smooth = k.transpose() * &self.updates;
        let rows: Vec<Vec<f64>> = rows_of(x);
        for (draw, out) in out.iter_mut().enumerate() {
            for (i, (out, row)) in out.iter_mut().zip(&rows).enumerate() {
                let prior = sum_of_features(&self.features[draw], &self.loads[draw], row);
                *out += self.weight * (self.constant + prior + smooth[(i, draw)]);
            }
        }
    }

    /// Adds the gradients of a draw at some rows (`n × D`) to the rows of `out`.
    fn add_gradients(&self, draw: usize, x: MatRef<'_, f64>, out: &mut Mat<f64>) {
        let (n, m) = (x.nrows(), self.updates.nrows());
        let (k, mut scratch) = (self.cross(x), Scratch::new());
        let kbar = Mat::from_fn(m, n, |row, _| self.weight * self.updates[(row, draw)]);
        let target = Gradient { parameters: &mut [], left: None, right: Some(out.as_mut()) };
        let inputs = Inputs::Cross { left: self.prior.z(), right: x };
        self.prior.kernel().adjoint(inputs, k.as_ref(), kbar.as_ref(), target, &mut scratch);
        for (i, row) in rows_of(x).iter().enumerate() {
            let mut own = vec![0.0; x.ncols()];
            for (feature, load) in self.features[draw].iter().zip(&self.loads[draw]) {
                feature.add_gradient(row, self.weight * load, &mut own);
            }
            own.iter().enumerate().for_each(|(d, own)| out[(i, d)] += own);
        }
    }

    /// `k(Z, x)`.
    fn cross(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let mut k = Mat::zeros(self.updates.nrows(), x.nrows());
        let inputs = Inputs::Cross { left: self.prior.z(), right: x };
        self.prior.kernel().eval(inputs, k.as_mut(), &mut Scratch::new());
        k
    }
}

/// A draw of a process: features with their loads, and the update.
struct OneDraw {
    features: Vec<Box<dyn RandomFeature>>,
    loads: Vec<f64>,
    update: Vec<f64>,
}

impl OneDraw {
    fn new(layer: &InducingLayer, q: &Normal, root: &Mat<f64>, mut random: ChaCha8Rng) -> Result<OneDraw> {
        let (m, dims) = layer.z().shape();
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let scale = (FEATURES as f64).sqrt().recip();
        let loads: Vec<f64> = (0..FEATURES).map(|_| scale * normal()).collect();
        let w: Vec<f64> = (0..m).map(|_| normal()).collect();
        let jitter = layer.absolute_jitter().sqrt();
        let noise: Vec<f64> = (0..m).map(|_| jitter * normal()).collect();
        let mut chance = Chance::new(&mut normal);
        let features: Option<Vec<_>> =
            (0..FEATURES).map(|_| layer.kernel().random_feature(dims, &mut chance)).collect();
        let features = features.ok_or_else(|| {
            Error::usage(format!(
                "the kernel {} has no random features, which draws of functions need",
                layer.kernel().expression()
            ))
        })?;
        // u = L (m + R w), so that L⁻ᵀ (L⁻¹ u − L⁻¹ (g + √j ε)) is the update.
        let at_z = rows_of(layer.z());
        let at_z =
            at_z.iter().zip(&noise).map(|(row, noise)| sum_of_features(&features, &loads, row) + noise);
        let prior: Vec<f64> = at_z.collect();
        let (mut rest, mut deviation, mut update) = (vec![0.0; m], vec![0.0; m], vec![0.0; m]);
        matvec(layer.inverse_factor(), &prior, &mut rest);
        matvec(root.as_ref(), &w, &mut deviation);
        for (i, rest) in rest.iter_mut().enumerate() {
            *rest = q.mean()[i] + deviation[i] - *rest;
        }
        matvec(layer.inverse_factor().transpose(), &rest, &mut update);
        Ok(OneDraw { features, loads, update })
    }
}

/// `R` with `R Rᵀ = S`.
fn root_of(q: &Normal) -> Result<Mat<f64>> {
    let m = q.dim();
    match q.cov() {
        MatrixRef::Diagonal(s) => Ok(Mat::from_fn(m, m, |i, j| if i == j { s[i].sqrt() } else { 0.0 })),
        MatrixRef::Full(_) => {
            let (values, vectors) = symmetric_eigen(q.cov().to_dense().as_ref())
                .ok_or_else(|| Error::fit("the posterior covariance holds values that are not finite"))?;
            Ok(Mat::from_fn(m, m, |i, j| vectors[(i, j)] * values[j].max(0.0).sqrt()))
        }
    }
}

/// The draw of the prior at a point: the sum of its features, each times its load.
fn sum_of_features(features: &[Box<dyn RandomFeature>], loads: &[f64], point: &[f64]) -> f64 {
    features.iter().zip(loads).map(|(feature, load)| load * feature.value(point)).sum()
}

fn rows_of(x: MatRef<'_, f64>) -> Vec<Vec<f64>> {
    (0..x.nrows()).map(|i| x.row(i).iter().copied().collect()).collect()
}

impl FunctionDraws {
    /// The number of functions.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the values of every function at inputs in original units (`n × D`): `count` vectors
    /// of n.
    ///
    /// # Errors
    ///
    /// Data errors for a wrong number of columns.
    pub fn values(&self, x: MatRef<'_, f64>) -> Result<Vec<Vec<f64>>> {
        let mut all = self.latent(x)?;
        let in_units = |f: &mut f64| *f = self.scaling.unscaled_target(*f + self.offset);
        all.iter_mut().flatten().for_each(in_units);
        Ok(all)
    }

    /// The values on the scale the model sees, without the offset of the output.
    pub(super) fn latent(&self, x: MatRef<'_, f64>) -> Result<Vec<Vec<f64>>> {
        let scaled = self.on_scale(x)?;
        let mut values = self.global(scaled.as_ref());
        if let Some(local) = self.locals(scaled.as_ref()) {
            let of_row = |row: usize| {
                let weights = local.of_row(row, scaled.as_ref()).weights(scaled.as_ref().subrows(row, 1));
                (0..self.count).map(|draw| dot(&weights, &local.rest(row, draw))).collect::<Vec<f64>>()
            };
            let updates: Vec<Vec<f64>> = (0..x.nrows()).into_par_iter().map(of_row).collect();
            for (draw, values) in values.iter_mut().enumerate() {
                values.iter_mut().zip(&updates).for_each(|(value, update)| *value += update[draw]);
            }
        }
        Ok(values)
    }

    /// Returns the values at scaled inputs that follow from inducing variables alone.
    fn global(&self, scaled: MatRef<'_, f64>) -> Vec<Vec<f64>> {
        let n = scaled.nrows();
        let blocks = (0..n).step_by(ROWS).collect::<Vec<_>>();
        let of_block = |&from: &usize| {
            let block = scaled.subrows(from, ROWS.min(n - from));
            let mut out = vec![vec![0.0; block.nrows()]; self.count];
            self.processes.iter().for_each(|process| process.add_values(block, &mut out));
            out
        };
        let found: Vec<Vec<Vec<f64>>> = blocks.par_iter().map(of_block).collect();
        (0..self.count).map(|draw| found.iter().flat_map(|block| &block[draw]).copied().collect()).collect()
    }

    /// Returns the neighbours of scaled inputs, with the difference of each draw from their
    /// targets.
    fn locals(&self, scaled: MatRef<'_, f64>) -> Option<Locals<'_>> {
        let (posterior, noise) = self.local.as_ref()?;
        let (nearby, count, given) = posterior.beside()?;
        let lists = nearby.lists(given.layer, scaled, count);
        let mut near: Vec<u32> = lists.iter().flatten().copied().collect();
        near.sort_unstable();
        near.dedup();
        let (data, targets) = nearby.data();
        let points = Mat::from_fn(near.len(), data.ncols(), |i, j| data[(near[i] as usize, j)]);
        let values = self.global(points.as_ref());
        let of_draw = |(values, noise): (&Vec<f64>, &Vec<f64>)| {
            let rest = |(&row, value): (&u32, &f64)| {
                let (own, row) = (nearby.noise_of(row, given.noise), row as usize);
                targets[row] - value - own.sqrt() * noise[row]
            };
            near.iter().zip(values).map(rest).collect::<Vec<f64>>()
        };
        let rest = values.iter().zip(noise).map(of_draw).collect();
        Some(Locals { nearby, given, lists, near, rest })
    }

    /// The gradients of every function in the inputs at the same rows, in original units: `count` matrices, `n × D`. Gradients in codes of
    /// categories are 0.
    ///
    /// # Errors
    ///
    /// As for [`FunctionDraws::values`], and usage errors for warped inputs.
    pub fn gradients(&self, x: MatRef<'_, f64>) -> Result<Vec<Mat<f64>>> {
        let (scaled, slopes) = (self.on_scale(x)?, self.scaling.input_slopes()?);
        let values = self.latent(x)?;
        let local = self.local_gradients(scaled.as_ref());
        let of_draw = |draw: usize| {
            let mut out = Mat::zeros(x.nrows(), x.ncols());
            self.processes.iter().for_each(|process| process.add_gradients(draw, scaled.as_ref(), &mut out));
            for i in 0..x.nrows() {
                if let Some(own) = local.get(i) {
                    (0..x.ncols()).for_each(|d| out[(i, d)] += own[draw][(0, d)]);
                }
                let unit = self.scaling.target_slope(values[draw][i] + self.offset);
                slopes.iter().enumerate().for_each(|(d, slope)| out[(i, d)] *= unit * slope);
            }
            out
        };
        Ok((0..self.count).into_par_iter().map(of_draw).collect())
    }

    /// Returns, for every row, the gradients of the correction of each draw by the neighbours;
    /// empty for models without neighbours.
    fn local_gradients(&self, scaled: MatRef<'_, f64>) -> Vec<Vec<Mat<f64>>> {
        let Some(local) = self.locals(scaled) else { return Vec::new() };
        let of_row = |row: usize| {
            let (own, point) = (local.of_row(row, scaled), scaled.subrows(row, 1));
            (0..self.count).map(|draw| own.update_slopes(point, local.rest(row, draw))).collect()
        };
        (0..scaled.nrows()).into_par_iter().map(of_row).collect()
    }

    /// Inputs on the scale the model sees.
    fn on_scale(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        check_columns(x, self.scaling.dims())?;
        let mut scaled = x.to_owned();
        self.scaling.scale_inputs(scaled.as_mut());
        Ok(scaled)
    }
}

/// The neighbours of some rows, with `y − f − ε` at all of them for every draw.
struct Locals<'a> {
    nearby: &'a Nearby,
    given: Beside<'a>,
    lists: Vec<Vec<u32>>,
    /// All neighbours in rising order.
    near: Vec<u32>,
    rest: Vec<Vec<f64>>,
}

impl Locals<'_> {
    fn of_row(&self, row: usize, scaled: MatRef<'_, f64>) -> Local<'_> {
        Local::new(self.nearby, self.given, &self.lists[row], scaled.subrows(row, 1))
    }

    /// `y − f − ε` at the neighbours of a row.
    fn rest(&self, row: usize, draw: usize) -> Vec<f64> {
        let of = |near: &u32| self.near.binary_search(near).map_or(f64::NAN, |at| self.rest[draw][at]);
        self.lists[row].iter().map(of).collect()
    }
}
