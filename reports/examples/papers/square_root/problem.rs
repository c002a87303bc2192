//! Bayesian logistic regression with a prior of independent coefficients, and a traced run of one
//! rule on it.

use crate::paper::prelude::*;
use crate::roots::{Way, trace};
use sparsegp::quadrature::Resolution;
use std::time::Instant;

pub struct Trace {
    pub step: f64,
    /// Iteration, seconds of the steps alone, −ELBO per datum and test NLL (NaN between records).
    pub rows: Vec<Vec<f64>>,
    pub accuracy: f64,
    /// The sum of −log p over the test rows at the mean of q.
    pub plug_in: f64,
}

impl Trace {
    /// Returns the last −ELBO per datum, or infinity if the run failed.
    pub fn end(&self) -> f64 {
        self.rows.last().map(|row| row[2]).filter(|value| value.is_finite()).unwrap_or(f64::INFINITY)
    }

    /// Returns true if the last step changed −ELBO by less than 1e-7 per datum.
    pub fn settled(&self) -> bool {
        self.rows.len() > 1 && (self.end() - self.rows[self.rows.len() - 2][2]).abs() < 1e-7
    }

    /// Returns the first record from which −ELBO stays at or below `goal` until the end.
    pub fn reached(&self, goal: f64) -> Option<&Vec<f64>> {
        let above = self.rows.iter().rposition(|row| row[2].is_nan() || row[2] > goal);
        self.rows.get(above.map_or(0, |last| last + 1))
    }

    /// Returns a series of two columns of the records; `least` is subtracted from the second one.
    pub fn curve(&self, name: &str, (x, y): (usize, usize), least: f64) -> CurveSeries {
        let rows = self.rows.iter().filter(|r| r[3].is_finite() && r[y] - least > 1e-12);
        series(&format!("{name}, step {}", self.step), rows.map(|row| (row[x], row[y] - least)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Method {
    pub update: QUpdate,
    pub plain: bool,
    /// True if S starts at I/𝓜 in place of the prior's covariance.
    pub narrow: bool,
}

#[derive(Clone, Copy)]
pub struct Setting {
    pub lambda: f64,
    pub family: Family,
    /// The weight of the non-convex regulariser per row.
    pub weight: f64,
    pub intercept: bool,
}

/// Coefficients with prior N(0, I/λ).
pub struct Problem {
    train: Data,
    /// The number of data rows in `train`.
    n: usize,
    test: Data,
    model: LatentModel,
    /// The prior, and N(0, I/𝓜).
    starts: [Normal; 2],
    /// 𝓜 in units of the prior precision.
    smoothness: f64,
}

impl Problem {
    /// Creates a problem, with the regulariser `weight · n · Σ w_j²/(1 + w_j²)` if the weight is above 0. The
    /// full family uses the dual form if there are fewer rows than coefficients.
    pub fn new((train, test): (&Data, &Data), setting: Setting) -> Result<Problem> {
        let Setting { lambda, family, weight, intercept } = setting;
        let inputs = |data: &Data| if intercept { with_ones(data) } else { data.clone() };
        let (train, test) = (inputs(train), inputs(test));
        let (d, n) = train.x.shape();
        let mut layer = LinearLayer::isotropic(d, 0.0, 1.0 / lambda)?;
        if family == Family::Full {
            layer = layer.reduced_to(train.x.transpose());
        }
        // X Xᵀ and XᵀX have the same largest eigenvalue. The second derivative of the regulariser is at most
        // 2.
        let inputs = if d <= n { train.x.clone() } else { train.x.transpose().to_owned() };
        let prior = Mat::<f64>::identity(inputs.nrows(), inputs.nrows()) * faer::Scale(1.0 / lambda);
        let total = weight * n as f64;
        let curvature = Curvature::logistic(inputs.transpose(), prior.as_ref())?;
        let smoothness = (curvature.smoothness + 2.0 * total) / lambda;
        // Every coefficient except the intercept is the latent value of an extra row for the regulariser.
        let rows = if weight > 0.0 { n + d - usize::from(intercept) } else { n };
        let x = Mat::from_fn(d, rows, |i, j| if j < n { train.x[(i, j)] } else { f64::from(i == j - n) });
        let y = (0..rows).map(|j| if j < n { train.y[j] } else { COEFFICIENT }).collect();
        let likelihood = Regularised(total);
        let model = LatentModel::new(layer.into(), likelihood, true);
        let dim = model.layer().dim();
        let variance = 1.0 / smoothness;
        let narrow = match family {
            Family::Diagonal => Normal::diagonal(vec![0.0; dim], vec![variance; dim])?,
            Family::Full => {
                Normal::new(vec![0.0; dim], Mat::<f64>::identity(dim, dim) * faer::Scale(variance))?
            }
        };
        let starts = [Normal::standard(family, dim), narrow];
        Ok(Problem { train: Data { x, y }, n, test, model, starts, smoothness })
    }

    pub fn rows(&self) -> usize {
        self.n
    }

    /// Returns 1/(2𝓜) in units of the prior precision: half of the largest step for which Theorem 2 is proven.
    pub fn proven_step(&self) -> f64 {
        0.5 / self.smoothness
    }

    /// Runs steps of constant size. The size is a mixing weight, or a multiple of 1/𝓜 for
    /// Bures–Wasserstein descent. A run ends early if a step is refused or the objective has left all bounds.
    pub fn trace(&self, method: Method, estimator: Estimator, (step, steps): (f64, usize)) -> Trace {
        let (smoothness, of) = (Some(self.smoothness), RuleOptions::of(method.update));
        let guard = if method.plain { Guard::None } else { of.guard };
        let rule = RuleOptions { smoothness, relative: true, guard, ..of };
        let options = InferenceOptions::full_batch(rule, Schedule::Constant(step));
        let q = self.starts[usize::from(method.narrow)].clone();
        let n = self.n as f64;
        let mut inference = self.train.infer_from(q, self.model.clone(), estimator, options);
        let (at, mut seconds) = (record_at(steps, 8), 0.0);
        let mut trace = Trace { step, rows: Vec::new(), accuracy: 0.0, plug_in: 0.0 };
        for t in 0..steps {
            let nll = if at.contains(&t) { self.nll(inference.q()) } else { f64::NAN };
            let clock = Instant::now();
            let (value, info) = inference.step();
            trace.rows.push(vec![t as f64, seconds, value / n, nll]);
            seconds += clock.elapsed().as_secs_f64();
            if info.step == 0.0 || value.is_nan() || value > 1e9 * n {
                trace.rows.push(vec![t as f64 + 1.0, seconds, f64::NAN, f64::NAN]);
                return trace;
            }
        }
        let nll = self.nll(inference.q());
        trace.rows.push(vec![steps as f64, seconds, inference.objective() / n, nll]);
        let means = Posterior::new(&self.model, inference.q()).means(self.test.x.transpose());
        let rows = || means.iter().zip(&self.test.y).map(|(f, y)| (*f, *y > 0.5));
        let hits = rows().filter(|(f, positive)| (*f > 0.0) == *positive).count();
        // −log p = log(1 + e^{∓f}).
        let loss = |(f, positive): (f64, bool)| if positive { (-f).exp().ln_1p() } else { f.exp().ln_1p() };
        Trace { accuracy: hits as f64 / means.len() as f64, plug_in: rows().map(loss).sum(), ..trace }
    }

    /// Runs exact steps that the library does not have, and returns −ELBO per datum at every iteration.
    pub fn other(&self, way: Way, narrow: bool, steps: (f64, usize)) -> Vec<f64> {
        let (start, n) = (&self.starts[usize::from(narrow)], self.n as f64);
        trace((&self.train, self.model.clone()), start, way, steps, |value, _| value / n)
    }

    fn nll(&self, q: &Normal) -> f64 {
        Posterior::new(&self.model, q).score(self.test.set(), Score::LogLoss)
    }
}

fn with_ones(data: &Data) -> Data {
    let d = data.x.nrows();
    let x = Mat::from_fn(d + 1, data.x.ncols(), |i, j| if i < d { data.x[(i, j)] } else { 1.0 });
    Data { x, y: data.y.clone() }
}

/// The target of a pseudo-observation of a coefficient.
const COEFFICIENT: f64 = 2.0;

/// [`Bernoulli::Logit`] for y = 0 and 1, and a non-convex term that pulls coefficients to 0, `−log p = w f²/(1 + f²)` with this weight w, for y = [`COEFFICIENT`].
#[derive(Clone, Copy, Debug)]
struct Regularised(f64);

impl OneFunction for Regularised {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::new("regularised-logit", TargetKind::Binary)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        if at.y != COEFFICIENT {
            return Bernoulli::Logit.log_density(at, f, value, first);
        }
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            let share = 1.0 / (1.0 + f * f);
            *value = -self.0 * f * f * share;
            *first = -2.0 * self.0 * f * share * share;
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        if at.y != COEFFICIENT {
            return Bernoulli::Logit.curvature(at, f);
        }
        2.0 * self.0 * (3.0 * f * f - 1.0) / (1.0 + f * f).powi(3)
    }

    /// The poles of the regulariser are at ±i.
    fn resolution(&self, at: Observation) -> Resolution {
        if at.y != COEFFICIENT {
            return Bernoulli::Logit.resolution(at);
        }
        Resolution { strip: 1.0, step: 0.5 / (1.0 + self.0.sqrt()), concave: false, pole: Some(0.0) }
    }

    fn peak(&self, at: Observation) -> f64 {
        if at.y == COEFFICIENT { 0.0 } else { Bernoulli::Logit.peak(at) }
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        Bernoulli::Logit.conditional_moments(at, f)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        Bernoulli::Logit.conditional_cdf(at, f)
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        Bernoulli::Logit.sample(at, f, random)
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        Bernoulli::Logit.initialise(y, exposure)
    }
}
