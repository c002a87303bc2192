//! Data sets, linear models of them, and traced runs of inference.

use super::prelude::*;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use sparsegp::collapsed::Dataset;
use sparsegp::data::Scaling;
use sparsegp::likelihood::ObservationModel;
use sparsegp::training::{CollapsedObjective, TrainingData, fit_arrays};
use sparsegp_tables::schema::{Schema, SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::Table;

/// Inputs x, D × N with a column per datum, and the N targets, coded by their kind.
#[derive(Clone, Debug)]
pub struct Data {
    pub x: Mat<f64>,
    pub y: Vec<f64>,
}

impl Data {
    /// Takes all columns of a table except the target as inputs.
    pub fn of_table(table: &Table, target: &str, kind: TargetKind) -> Result<Data> {
        let options =
            SchemaOptions { target: target.into(), target_kind: Some(kind), ..SchemaOptions::default() };
        let (schema, _) = Schema::infer(table, &options)?;
        let x = schema.design(table, UnseenLevels::Error)?.transpose().to_owned();
        Ok(Data { x, y: schema.target(table)?.unwrap_or_default() })
    }

    pub fn set(&self) -> Dataset<'_> {
        Dataset::of(self.x.transpose(), &self.y)
    }

    /// Creates a linear model of these inputs. The coefficients have independent normal priors with mean 0
    /// and this variance.
    pub fn model(&self, likelihood: impl Into<ObservationModel>, variance: f64) -> Result<LatentModel> {
        let layer = LinearLayer::isotropic(self.x.nrows(), 0.0, variance)?.into();
        Ok(LatentModel::new(layer, likelihood, true))
    }

    /// Creates the inference of a normal posterior with a full covariance by the ELBO, starting at the prior
    /// of the model.
    pub fn infer(
        &self,
        model: LatentModel,
        estimator: Estimator,
        options: InferenceOptions,
    ) -> Inference<'_> {
        let q = Normal::standard(Family::Full, model.layer().dim());
        self.infer_from(q, model, estimator, options)
    }

    pub fn infer_from(
        &self,
        q: Normal,
        model: LatentModel,
        estimator: Estimator,
        options: InferenceOptions,
    ) -> Inference<'_> {
        let objective = Objective { loss: Loss::ExpectedLog(estimator), ..Objective::elbo(1.0) };
        Inference::new(model, q, objective, self.set(), options)
    }

    pub fn objective(&self, q: Normal, model: LatentModel) -> f64 {
        let options = InferenceOptions::full_batch(QUpdate::Ngd, Schedule::Constant(1.0));
        self.infer_from(q, model, Estimator::Exact, options).objective()
    }

    /// The exact posterior of a model with Gaussian noise.
    pub fn posterior(&self, model: LatentModel) -> Result<Normal> {
        let mut closed = CollapsedObjective::new(model, self.set(), Objective::elbo(1.0));
        let theta = closed.start();
        closed.solve(&theta).ok_or_else(|| Error::fit("the posterior cannot be computed"))?;
        Ok(closed.q().clone())
    }

    /// The optimal q and its objective, by exact natural gradients with this step, until q no longer moves.
    pub fn optimum(&self, model: LatentModel, step: f64) -> Result<(Normal, f64)> {
        let options = InferenceOptions::full_batch(QUpdate::Ngd, Schedule::Constant(step));
        let mut run = self.infer(model, Estimator::Exact, options);
        let mut change = f64::INFINITY;
        while change > 1e-12 && run.iterations() < 200 {
            let before = run.q().clone();
            run.step();
            change = before.kl_to(run.q());
        }
        if change > 1e-10 {
            return Err(Error::fit("natural gradients did not converge to the optimum"));
        }
        // The divergence is quadratic in the distance, which a few more steps reduce to rounding errors.
        (0..10).for_each(|_| _ = run.step());
        Ok((run.q().clone(), run.objective()))
    }

    /// Fits a model to these rows, which are not scaled again.
    pub fn fit(&self, options: &FitOptions, start: Option<&Start>) -> Result<Fitted> {
        fit_arrays(TrainingData::of(self.set()), options, start, &mut |_| ())
    }

    pub fn take(&self, rows: &[usize]) -> Data {
        let x = Mat::from_fn(self.x.nrows(), rows.len(), |d, i| self.x[(d, rows[i])]);
        Data { x, y: rows.iter().map(|&row| self.y[row]).collect() }
    }

    pub fn split(&self, test_fraction: f64, seed: u64) -> Result<(Data, Data)> {
        let rows = sparsegp::data::split(self.y.len(), test_fraction, 0.0, seed)?;
        Ok((self.take(&rows.train), self.take(&rows.test)))
    }

    /// Scales the inputs, and the targets if `target` is true, to mean 0 and variance 1 over these rows.
    /// Returns the scaling, for other rows.
    pub fn standardise(&mut self, target: bool) -> Scaling {
        let scaling = Scaling::standardise(self.x.transpose(), &self.y);
        let scaling = if target { scaling } else { scaling.with_original_target() };
        self.scale(&scaling);
        scaling
    }

    pub fn scale(&mut self, by: &Scaling) {
        by.scale_inputs(self.x.as_mut().transpose_mut());
        by.scale_target(&mut self.y);
    }
}

/// Returns a generator of standard normal random numbers with this seed.
pub fn normals(seed: u64) -> impl FnMut() -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    move || StandardNormal.sample(&mut random)
}

/// Returns at most `most` of `n` rows, evenly spaced, because files may be sorted.
pub fn evenly(n: usize, most: usize) -> Vec<usize> {
    let most = most.min(n);
    (0..most).map(|i| i * n / most).collect()
}

/// Returns a matrix of orthonormal columns in random directions.
pub fn rotation(d: usize, seed: u64) -> Mat<f64> {
    let mut draw = normals(seed);
    Mat::from_fn(d, d, |_, _| draw()).qr().compute_thin_Q()
}

/// Creates a series without error bars.
pub fn series(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> CurveSeries {
    CurveSeries { name: name.to_owned(), points: points.into_iter().map(|(x, y)| (x, y, f64::NAN)).collect() }
}

/// Returns the least-squares slope of log y against log x over the points with x and y above 0: a rate of
/// convergence.
pub fn slope(points: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let positive = points.into_iter().filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let logs: Vec<_> = positive.map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (xy, xx) =
        logs.iter().fold((0.0, 0.0), |(a, b), p| (a + (p.0 - x) * (p.1 - y), b + (p.0 - x).powi(2)));
    xy / xx
}

/// Returns texts of numbers as a list: `a, b and c`.
pub fn listed(numbers: impl IntoIterator<Item = f64>, text: impl Fn(f64) -> String) -> String {
    let mut texts: Vec<String> = numbers.into_iter().map(text).collect();
    let last = texts.pop().unwrap_or_default();
    if texts.is_empty() { last } else { format!("{} and {last}", texts.join(", ")) }
}

/// Returns a quantile of some numbers, by linear interpolation.
pub fn quantile(values: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut sorted = Vec::from_iter(values);
    sorted.sort_by(f64::total_cmp);
    let at = share * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    sorted[low] + part * (sorted[(low + 1).min(sorted.len() - 1)] - sorted[low])
}

/// Returns the iterations from 0 to `last` to record, at most `per_decade` per decade, evenly spaced in the
/// logarithm.
pub fn record_at(last: usize, per_decade: usize) -> Vec<usize> {
    let step = |k: usize| 10f64.powf(k as f64 / per_decade as f64).round() as usize;
    let mut at: Vec<usize> = (0..).map(step).take_while(|&step| step < last).collect();
    at.extend([0, last]);
    at.sort_unstable();
    at.dedup();
    at
}

/// Runs to each of these iterations, and returns what `see` records there.
pub fn trace<T>(run: &mut Inference, at: &[usize], mut see: impl FnMut(&mut Inference) -> T) -> Vec<T> {
    let mut seen = Vec::new();
    for &t in at {
        (run.iterations()..t).for_each(|_| _ = run.step());
        seen.push(see(run));
    }
    seen
}

/// Calls `run` for the seeds 0 to `count − 1` in parallel, and returns the results in the order of the seeds.
pub fn runs<T: Send>(count: u64, run: impl Fn(u64) -> Result<T> + Send + Sync) -> Result<Vec<T>> {
    (0..count).into_par_iter().map(run).collect()
}

/// Like [`runs`], with the means over the runs of the numbers in each record.
pub fn means<const N: usize>(
    count: u64,
    run: impl Fn(u64) -> Result<Vec<[f64; N]>> + Send + Sync,
) -> Result<Vec<[f64; N]>> {
    let all = runs(count, run)?;
    let mean = |k: usize, j: usize| all.iter().map(|run| run[k][j]).sum::<f64>() / count as f64;
    let records = all.first().map_or(0, Vec::len);
    Ok((0..records).map(|k| std::array::from_fn(|j| mean(k, j))).collect())
}
