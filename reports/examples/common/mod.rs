//! The common code of the experiments: data sets, splits, linear models, folders of results, slopes, timing,
//! and records of runs.

#![allow(dead_code)] // each experiment uses a part

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp::collapsed::Dataset;
use sparsegp::data::Scaling;
use sparsegp::files::AtomicFile;
use sparsegp::latent::LinearLayer;
use sparsegp::likelihood::Likelihood;
use sparsegp::likelihood::TargetKind;
use sparsegp::model::LatentModel;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::training::{CollapsedObjective, Inference, InferenceOptions};
use sparsegp::variational::{Family, Normal};
use sparsegp::{Error, Result};
use sparsegp_reports::{CurveSeries, Curves, curves};
use sparsegp_tables::schema::{Schema, SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::read_table;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The folders that an experiment reads from and writes to.
pub struct Experiment {
    /// The folder of the data sets.
    pub data: Option<PathBuf>,
    /// The folder of the results.
    pub out: PathBuf,
}

impl Experiment {
    /// Removes `[DATA_FOLDER] [--out DIR]` from the arguments (without the program's name). By default the
    /// data are in the folder that SPARSEGP_DATA names, and results go to `target/experiments/NAME`.
    pub fn new(name: &str, arguments: &mut Vec<String>) -> Result<Experiment> {
        let mut out = Path::new("target/experiments").join(name);
        if let Some(at) = arguments.iter().position(|argument| argument == "--out") {
            out = arguments.get(at + 1).ok_or_else(|| Error::usage("--out needs a folder"))?.into();
            arguments.drain(at..at + 2);
        }
        let given = arguments.first().is_some_and(|first| !first.starts_with('-'));
        let data = if given { Some(arguments.remove(0).into()) } else { std::env::var_os("SPARSEGP_DATA") };
        std::fs::create_dir_all(&out)
            .map_err(|error| Error::data(format!("{}: cannot be created: {error}", out.display())))?;
        Ok(Experiment { data: data.map(PathBuf::from), out })
    }

    /// Reads the data set `NAME.csv.gz`, with all columns except the target as inputs. If it is absent,
    /// prints a line to stderr and returns `None`.
    pub fn read(&self, name: &str, target: &str, kind: Option<TargetKind>) -> Result<Option<Data>> {
        let file = format!("{name}.csv.gz");
        let Some(path) = self.data.as_ref().map(|folder| folder.join(&file)).filter(|path| path.is_file())
        else {
            let folder = self.data.as_deref().unwrap_or(Path::new("SPARSEGP_DATA, which is not set"));
            eprintln!("skipped: {file} is not in {}", folder.display());
            return Ok(None);
        };
        let table = read_table(&path)?;
        let options = SchemaOptions { target: target.into(), target_kind: kind, ..SchemaOptions::default() };
        let (schema, _) = Schema::infer(&table, &options)?;
        let x = schema.design(&table, UnseenLevels::Error)?.transpose().to_owned();
        let y = schema.target(&table)?.unwrap_or_default();
        Ok(Some(Data { x, y }))
    }

    /// Writes a table of numbers with all their digits.
    pub fn csv(&self, file: &str, header: &[&str], rows: &[Vec<f64>]) -> Result<()> {
        let mut text = header.join(",") + "\n";
        for row in rows {
            text += &(row.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(",") + "\n");
        }
        AtomicFile::write_all_to(&self.out.join(file), text.as_bytes())
    }

    /// Draws a figure, or nothing if there are no points.
    pub fn figure(&self, file: &str, figure: &Curves) -> Result<()> {
        let Some(drawing) = curves(figure) else { return Ok(()) };
        AtomicFile::write_all_to(&self.out.join(file), drawing.svg().as_bytes())
    }

    /// Draws series in logarithmic axes of these names.
    pub fn logarithmic(&self, file: &str, (x, y): (&str, &str), series: Vec<CurveSeries>) -> Result<()> {
        let axes = (x.to_owned(), y.to_owned());
        self.figure(file, &Curves { axes, log_x: true, log_y: true, series, ..Curves::default() })
    }
}

/// Removes `NAME VALUE` from the arguments and returns the value, or the default if it is absent.
pub fn option<T: std::str::FromStr>(arguments: &mut Vec<String>, name: &str, default: T) -> Result<T> {
    let Some(at) = arguments.iter().position(|argument| argument == name) else { return Ok(default) };
    let value = arguments.get(at + 1).and_then(|text| text.parse().ok());
    arguments.drain(at..(at + 2).min(arguments.len()));
    value.ok_or_else(|| Error::usage(format!("{name} needs a value")))
}

/// Inputs x, D × N with a column per datum, and the N targets, coded by their kind.
#[derive(Clone, Debug)]
pub struct Data {
    pub x: Mat<f64>,
    pub y: Vec<f64>,
}

impl Data {
    /// Returns the data in the library's type.
    pub fn set(&self) -> Dataset<'_> {
        Dataset::of(self.x.transpose(), &self.y)
    }

    /// Creates a linear model of these inputs. The coefficients have independent normal priors with mean 0
    /// and this variance.
    pub fn model(&self, likelihood: impl Likelihood + 'static, variance: f64) -> Result<LatentModel> {
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
        let objective = Objective { loss: Loss::ExpectedLog(estimator), ..Objective::elbo(1.0) };
        Inference::new(model, q, objective, self.set(), options)
    }

    /// The exact posterior of a model with Gaussian noise.
    pub fn posterior(&self, model: LatentModel) -> Result<Normal> {
        let mut closed = CollapsedObjective::new(model, self.set(), Objective::elbo(1.0));
        let theta = closed.start();
        closed.solve(&theta).ok_or_else(|| Error::fit("the posterior cannot be computed"))?;
        Ok(closed.q().clone())
    }

    /// Returns the rows with these indices.
    pub fn take(&self, rows: &[usize]) -> Data {
        let x = Mat::from_fn(self.x.nrows(), rows.len(), |d, i| self.x[(d, rows[i])]);
        Data { x, y: rows.iter().map(|&row| self.y[row]).collect() }
    }

    /// Random training and test rows by seed.
    pub fn split(&self, test_fraction: f64, seed: u64) -> Result<(Data, Data)> {
        let rows = sparsegp::data::split(self.y.len(), test_fraction, 0.0, seed)?;
        Ok((self.take(&rows.train), self.take(&rows.test)))
    }

    /// Scales the inputs, and the targets if `target` is true, to mean 0 and variance 1 over these rows.
    /// Returns the scaling, for other rows.
    pub fn standardise(&mut self, target: bool) -> Scaling {
        let scaling = Scaling::standardise(self.x.transpose(), &self.y);
        let scaling = if target { scaling } else { scaling.with_original_target() };
        scaling.scale_inputs(self.x.as_mut().transpose_mut());
        scaling.scale_target(&mut self.y);
        scaling
    }
}

/// Returns a generator of standard normal random numbers with this seed.
pub fn normals(seed: u64) -> impl FnMut() -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    move || StandardNormal.sample(&mut random)
}

/// Returns the milliseconds that a function takes.
pub fn milliseconds(what: impl FnOnce()) -> f64 {
    let from = Instant::now();
    what();
    from.elapsed().as_secs_f64() * 1e3
}

/// Returns a function that times one product of `M × M` by `M × b` on all threads, in milliseconds.
pub fn gemm_timer(m: usize, b: usize) -> impl FnMut() -> f64 {
    let left = Mat::from_fn(m, m, |i, j| ((i * 7 + j * 3) % 11) as f64 * 0.1);
    let right = Mat::from_fn(m, b, |i, j| ((i * 5 + j * 3) % 13) as f64 * 0.1);
    let mut out = Mat::zeros(m, b);
    move || {
        milliseconds(|| {
            matmul(out.as_mut(), Accum::Replace, left.as_ref(), right.as_ref(), 1.0, Par::rayon(0));
        })
    }
}

/// Prints a report as one line of JSON, or as readable text.
pub fn print_report(report: &serde_json::Value, json: bool) {
    if json {
        println!("{report}");
    } else {
        println!("{report:#}");
    }
}

/// Returns the middle value, or the upper of the two middle values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted = Vec::from_iter(values);
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Creates a series without error bars.
pub fn series(name: &str, points: impl Iterator<Item = (f64, f64)>) -> CurveSeries {
    CurveSeries { name: name.to_owned(), points: points.map(|(x, y)| (x, y, f64::NAN)).collect() }
}

/// Returns the least-squares slope of log y against log x over the points with x and y above 0: a rate of
/// convergence.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<_> =
        points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (xy, xx) =
        logs.iter().fold((0.0, 0.0), |(a, b), p| (a + (p.0 - x) * (p.1 - y), b + (p.0 - x).powi(2)));
    xy / xx
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

/// Runs to each of these iterations, and returns what `see` records there. `see` receives the seconds of all
/// steps so far.
pub fn trace<T>(run: &mut Inference, at: &[usize], mut see: impl FnMut(&mut Inference, f64) -> T) -> Vec<T> {
    let (mut seen, mut seconds) = (Vec::new(), 0.0);
    for &t in at {
        let clock = Instant::now();
        (run.iterations()..t).for_each(|_| _ = run.step());
        seconds += clock.elapsed().as_secs_f64();
        seen.push(see(run, seconds));
    }
    seen
}
