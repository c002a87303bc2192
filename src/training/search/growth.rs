//! `--inducing auto`: inducing inputs are added until the gap of the bounds and the gain of more inputs are small; then the fit starts
//! from there.

use super::within;
use crate::collapsed::{Dataset, dense_upper_bound};
use crate::data::{Purpose, generator};
use crate::error::Result;
use crate::hyper::{Limits, Session, Stage};
use crate::latent::{Layer, more_inducing};
use crate::likelihood::ObservationModel;
use crate::model::{
    Certificate, Criterion, GrowthEnd, InducingCurve, InducingPoint, LatentModel, Posterior, Score, Search,
    Warning,
};
use crate::objective::Objective;
use crate::options::{FitOptions, Growth, Hyper, ObjectiveKind, Plan, StepOptions};
use crate::training::collapsed::CollapsedObjective;
use crate::training::failure::{failed_start, unless_failed};
use crate::training::rows::{RowBuffer, TrainingData};
use crate::training::run::{Fitted, Job, fit_from, ready};
use crate::training::start::{Prototype, Start, initial_model};
use crate::training::warm_start::{WARM_ROWS, gaussian_start};
use crate::variational::{Family, Normal};
use faer::Mat;
use rand::seq::SliceRandom;
use std::time::Instant;

/// The first size, and the factor between sizes. Doubling would overshoot more than it saves: the cost is about that of the last sizes.
const FIRST: usize = 32;
const FACTOR: f64 = 1.5;

/// The maximum number of rows for which the whole kernel matrix is evaluated.
const DENSE_ROWS: usize = 16_384;

/// The share of the rows held out to judge, and their maximum number.
const HELD_OUT: f64 = 0.1;
const MOST_HELD_OUT: usize = 5000;

/// Each size after the first takes a fifth of the iterations of a warm start.
const WARM_SHARE: usize = 5;

/// The minimum number of Adam's steps at each size, for likelihoods that are not Gaussian.
const STEPS: usize = 60;

/// The allowed looseness of the upper bound, as a share of the tolerance.
const SLACK: f64 = 0.05;

/// The share of a time limit that growth may take.
const TIME_SHARE: f64 = 0.5;

/// A model of some size with its measurements.
struct Grown {
    model: LatentModel,
    q: Vec<Normal>,
    point: InducingPoint,
}

impl Grown {
    /// Adds inducing inputs to the process. In whitened form, the weights of later inputs have the prior N(0, I) given the others, and
    /// this prior is their q until they are trained.
    fn extended(&self, z: &Mat<f64>) -> Option<(LatentModel, Vec<Normal>)> {
        let extended = |layer: &Layer| Some(layer.inducing()?.extended(z.as_ref()).into());
        let layers = self.model.layers.iter().map(extended).collect::<Option<_>>()?;
        let model = self.model.with_layers(layers).factorised().ok()?;
        Some((model, self.q.iter().map(|q| q.extended(z.nrows())).collect()))
    }
}

/// A running growth.
struct Grower<'a, 's, 'l> {
    train: Dataset<'a>,
    validation: Option<Dataset<'a>>,
    prototype: &'a Prototype,
    /// The options of the fit, for the ELBO: how well inducing inputs summarise the data does not depend on the objective that is
    /// minimised afterwards.
    options: FitOptions,
    started: Instant,
    seconds: Option<f64>,
    session: &'s mut Session<'l>,
    curve: InducingCurve,
}

/// Fits from a model that was grown until it has enough inducing inputs, and returns the certificate of its q.
pub(in crate::training) fn fit_grown(
    data: TrainingData<'_>,
    options: &FitOptions,
    prototype: &Prototype,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let started = Instant::now();
    let (start, mut curve) = grow(data, options, prototype, session)?;
    let options = within(options, started);
    let plan = Plan::new(&options, &start.model.likelihood, data.train.len())?;
    let mut fitted = fit_from(start, &Job { rows: &data, plan: &plan, fresh: false }, session)?;
    curve.certificate = certificate(&fitted, data.train, curve.tolerance);
    if let Some(certificate) = curve.certificate {
        fitted.summary.evidence_upper_bound = Some(certificate.upper);
    }
    fitted.summary.warnings.extend(curve.warning().map(|text| Warning::Inducing { text }));
    fitted.search = Search { inducing: Some(curve), ..Search::default() };
    Ok(fitted)
}

/// Grows a model of the training data from few inducing inputs until there are enough.
fn grow(
    data: TrainingData<'_>,
    options: &FitOptions,
    prototype: &Prototype,
    session: &mut Session<'_>,
) -> Result<(Start, InducingCurve)> {
    let growth = options.growth.unwrap_or_default();
    let (criterion, family) = (criterion(data.train, &prototype.likelihood), options.steps.family);
    let parts = match (criterion, data.validation) {
        (Criterion::Validation, None) => hold_out(data.train, options.seed),
        _ => None,
    };
    let (train, validation) = match &parts {
        Some((train, validation)) => (train.data(), Some(validation.data())),
        None => (data.train, data.validation.filter(|_| criterion == Criterion::Validation)),
    };
    let curve = InducingCurve {
        criterion,
        tolerance: growth.inducing_tolerance.unwrap_or(Growth::TOLERANCE),
        most: growth.most_for(train.len()),
        validation_rows: validation.map_or(0, |part| part.len()),
        points: Vec::new(),
        chosen: 0,
        end: GrowthEnd::Most,
        certificate: None,
        rollbacks: 0,
    };
    let mut grower = Grower {
        train,
        validation,
        prototype,
        options: options_while_growing(options),
        started: Instant::now(),
        seconds: options.max_seconds.map(|seconds| TIME_SHARE * seconds),
        session,
        curve,
    };
    let Grown { model, q, point } = grower.run()?;
    let curve = InducingCurve { chosen: point.m, ..grower.curve };
    let q = if family == Family::Full { q } else { q.iter().map(Normal::mean_field).collect() };
    Ok((Start { model: model.to_prior(), q: Some(q) }, curve))
}

/// Returns the options of the fits while a model grows: the ELBO, on batches of the size of the fit.
fn options_while_growing(options: &FitOptions) -> FitOptions {
    FitOptions {
        objective: ObjectiveKind::Elbo,
        beta: 1.0,
        steps: StepOptions { batch_size: options.steps.batch_size, ..StepOptions::default() },
        learning_rate: options.learning_rate,
        epochs: None,
        tolerance: None,
        validation_fraction: 0.0,
        growth: None,
        hyper: options.hyper.filter(|hyper| *hyper == Hyper::Fixed),
        hyper_optimizer: None,
        ..options.without_steps()
    }
}

/// Returns the criterion. The certificate needs Gaussian noise, weights of 1, and few enough rows to evaluate all pairs.
fn criterion(train: Dataset<'_>, likelihood: &ObservationModel) -> Criterion {
    let gaussian = likelihood.gaussian_noise().is_some();
    let certified = gaussian && train.targets.weights.is_empty() && train.len() <= DENSE_ROWS;
    if certified { Criterion::Gap } else { Criterion::Validation }
}

/// Holds out random rows; `None` if there are too few.
fn hold_out(train: Dataset<'_>, seed: u64) -> Option<(RowBuffer, RowBuffer)> {
    let n = train.len();
    let count = ((HELD_OUT * n as f64).ceil() as usize).min(MOST_HELD_OUT);
    if count == 0 || count >= n {
        return None;
    }
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut generator(seed, Purpose::Growth, 0));
    let (held_out, kept) = rows.split_at_mut(count);
    let part = |rows: &mut [usize]| {
        rows.sort_unstable();
        RowBuffer::taken(train, rows)
    };
    Some((part(kept), part(held_out)))
}

impl Grower<'_, '_, '_> {
    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn left(&self) -> Option<f64> {
        // Every stage gets some time, because the first one has to end with a model.
        self.seconds.map(|limit| (limit - self.elapsed()).max(0.01 * limit))
    }

    /// Creates a model of a size from the data.
    fn fresh(&mut self, m: usize) -> Result<Grown> {
        let options = FitOptions { inducing: Some(m), ..self.options.clone() };
        let plan = Plan::new(&options, &self.prototype.likelihood, self.train.len())?;
        let model = initial_model(self.train, &plan, self.prototype)?;
        self.stage(ready(model, &plan, self.train)?, None)
    }

    /// Adds inducing inputs until there are enough; records the points and the end of the curve.
    fn run(&mut self) -> Result<Grown> {
        let mut now = self.fresh(FIRST.min(self.curve.most))?;
        let mut doubted = self.options.hyper_mode() == Hyper::Fixed;
        loop {
            self.curve.points.push(now.point);
            if now.point.m >= self.curve.most {
                self.curve.end = GrowthEnd::Most;
                return Ok(now);
            }
            if self.seconds.is_some_and(|limit| self.elapsed() >= limit) {
                self.curve.end = GrowthEnd::OutOfTime;
                return Ok(now);
            }
            let next = self.next(&now)?;
            now = match next {
                Some(next) if !self.curve.is_enough(&now.point, &next.point) => next,
                last => match if doubted { None } else { self.second_opinion(&now)? } {
                    Some(other) => {
                        doubted = true;
                        other
                    }
                    None => {
                        if let Some(last) = last {
                            self.curve.points.push(last.point);
                            self.curve.end = GrowthEnd::Tolerance;
                        }
                        return Ok(now);
                    }
                },
            };
        }
    }

    /// Fits a model from scratch with the default number of inducing inputs, if that is larger, and returns it if it is better:
    /// hyper-parameters trained with few inputs may be stuck where noise explains the rest.
    fn second_opinion(&mut self, now: &Grown) -> Result<Option<Grown>> {
        let usual = self.options.inducing_for(self.train.len()).min(self.curve.most);
        if usual <= now.point.m {
            return Ok(None);
        }
        let Some(other) = unless_failed(self.fresh(usual))? else { return Ok(None) };
        let (Some(value), Some(before)) = (self.curve.value(&other.point), self.curve.value(&now.point))
        else {
            return Ok(None);
        };
        let better = other.point.m > now.point.m && value > before + self.curve.tolerance;
        Ok(better.then_some(other))
    }

    /// Returns the next size; `None`, with the end of the curve set, if there is none.
    fn next(&mut self, now: &Grown) -> Result<Option<Grown>> {
        let m = now.point.m;
        let size = ((FACTOR * m as f64).ceil() as usize).min(self.curve.most);
        let Some(layer) = now.model.layer().inducing() else { return Ok(None) };
        let z =
            more_inducing(self.train.x.subcols(0, layer.z().ncols()), layer, size - m, self.options.seed)?;
        if z.nrows() == 0 {
            self.curve.end = GrowthEnd::Exhausted;
            return Ok(None);
        }
        let next = match now.extended(&z) {
            Some((model, q)) => self.stage(model, Some(q)),
            None => Err(failed_start()),
        };
        let next = unless_failed(next)?;
        if next.is_none() {
            self.curve.end = GrowthEnd::Failed;
        }
        Ok(next)
    }

    /// Improves a prepared model of one size, and measures it.
    fn stage(&mut self, model: LatentModel, q: Option<Vec<Normal>>) -> Result<Grown> {
        self.session.enter(Stage::Growth { inducing: model.layer().dim(), most: self.curve.most });
        if model.likelihood.gaussian_noise().is_some() && model.effects.is_empty() {
            self.gaussian_stage(model, q.is_none())
        } else {
            self.variational_stage(model, q)
        }
    }

    /// Runs L-BFGS on the collapsed bound of a subset, and then computes q and the bounds on all rows.
    fn gaussian_stage(&mut self, model: LatentModel, fresh: bool) -> Result<Grown> {
        // The first stage starts from nothing; later stages continue from it.
        let share = if fresh { 1 } else { WARM_SHARE };
        let options = &self.options;
        let trains = options.hyper_mode() != Hyper::Fixed;
        let iterations = if trains { options.warm_start.div_ceil(share) } else { 0 };
        let rows = RowBuffer::subset(self.train, WARM_ROWS, options.seed);
        // A warm start uses half of the time limit of its monitor.
        let seconds = self.left().map(|left| 2.0 * left);
        let limits = Limits {
            seconds,
            tolerance: options.stopping_tolerance(),
            window: 10,
            plateaus: 0,
            patience: options.patience,
            ..Limits::of_epochs(options.warm_start.div_ceil(share))
        };
        let mut session = self.session.silent();
        let mut monitor = session.monitor(limits);
        let (model, _, counts) = gaussian_start(model, rows.data(), iterations, options.beta, &mut monitor)?;
        self.curve.rollbacks += counts.rollbacks;
        let n = self.train.len() as f64;
        let mut objective = CollapsedObjective::new(model, self.train, Objective::elbo(1.0));
        let theta = objective.start();
        let lower = -objective.solve(&theta).ok_or_else(failed_start)? / n;
        let unweighted = self.train.targets.weights.is_empty();
        let cheap = objective.evidence_upper_bound().filter(|_| unweighted);
        let (model, q) = objective.into_parts();
        let slack = SLACK * self.curve.tolerance;
        let dense = if self.validation.is_none() { dense(&model, self.train, slack * n) } else { None };
        let upper = tighter(cheap, dense).map(|upper| upper / n);
        let gap = upper.map(|upper| (upper - lower).max(0.0));
        let posterior = Posterior::new(&model, &q);
        let point = InducingPoint { upper, gap, ..InducingPoint::of(Some(lower)) };
        Ok(self.grown(model, vec![q], &posterior, point))
    }

    /// Runs a short ordinary fit of the ELBO.
    fn variational_stage(&mut self, model: LatentModel, q: Option<Vec<Normal>>) -> Result<Grown> {
        let n = self.train.len();
        let per_epoch = n.div_ceil(self.options.steps.batch_size.min(n));
        let options = FitOptions {
            epochs: Some(STEPS.div_ceil(per_epoch).max(3)),
            max_seconds: self.left(),
            ..self.options.clone()
        };
        let plan = Plan::new(&options, &model.likelihood, n)?;
        let data = TrainingData::of(self.train);
        let fresh = q.is_none();
        let job = Job { rows: &data, plan: &plan, fresh };
        let fitted = fit_from(Start { model: model.to_prior(), q }, &job, &mut self.session.silent())?;
        self.curve.rollbacks += fitted.summary.rollbacks;
        let lower = Some(-fitted.summary.objective);
        let model = fitted.model.factorised().map_err(|_| failed_start())?;
        Ok(self.grown(model, fitted.q, &fitted.posterior, InducingPoint::of(lower)))
    }

    fn grown(
        &self,
        model: LatentModel,
        q: Vec<Normal>,
        posterior: &Posterior,
        point: InducingPoint,
    ) -> Grown {
        let score = |part| posterior.score(part, Score::LogLoss);
        let point = InducingPoint {
            m: model.layer().dim(),
            validation: self.validation.map(score).filter(|score| score.is_finite()),
            seconds: self.elapsed(),
            ..point
        };
        Grown { model, q, point }
    }
}

/// Returns the smaller of two upper bounds.
fn tighter(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().filter(|bound| bound.is_finite()).min_by(f64::total_cmp)
}

/// Returns the upper bound on the log evidence from all pairs of rows, up to `slack` nats.
fn dense(model: &LatentModel, train: Dataset<'_>, slack: f64) -> Option<f64> {
    let noise = model.noise_variance()?;
    dense_upper_bound(model.layer().inducing()?, train, noise, slack).ok()
}

/// Returns the certificate of a fitted q from its ELBO, for Gaussian noise and weights of 1.
fn certificate(fitted: &Fitted, train: Dataset<'_>, tolerance: f64) -> Option<Certificate> {
    let lower = fitted.summary.elbo_sum.filter(|_| train.targets.weights.is_empty())?;
    fitted.model.noise_variance()?;
    let model = fitted.model.factorised().ok()?;
    let n = train.len();
    let close = if n <= DENSE_ROWS { dense(&model, train, SLACK * tolerance * n as f64) } else { None };
    let mut objective = CollapsedObjective::new(model, train, Objective::elbo(1.0));
    let cheap = objective.evidence_upper_bound();
    Certificate::new(lower, tighter(cheap, close)?, n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latent::{InducingPrior, Jitter};
    use crate::likelihood::Gaussian;
    use sparsegp_kernels::parse;

    #[test]
    fn more_inducing_inputs_change_no_prediction_until_they_are_trained() {
        let x = Mat::from_fn(60, 1, |i, _| (i as f64 * 0.618).fract() * 6.0);
        let kernel = parse::parse("rbf(lengthscales=0.7)", 1).expect("a kernel");
        let z = Mat::from_fn(5, 1, |i, _| 0.5 + i as f64);
        let layer =
            InducingPrior::new(kernel, z, Jitter::Absolute(1e-8)).expect("a layer").with_mean(0.2, false);
        let layer = layer.factorised().expect("a factor");
        let likelihood = Gaussian::new(0.1);
        let model = LatentModel::new(layer.into(), likelihood, false);
        let cov = Mat::from_fn(5, 5, |i, j| if i == j { 0.4 } else { 0.1 });
        let full = Normal::new(vec![1.0, -2.0, 0.5, 0.3, -0.7], cov).expect("q");
        for q in [full.mean_field(), full] {
            let before = Posterior::new(&model, &q).marginals(x.as_ref());
            let grown = Grown { model: model.clone(), q: q.into(), point: InducingPoint::of(None) };
            let layer = grown.model.layer().inducing().expect("inducing inputs");
            let more = more_inducing(x.as_ref(), layer, 4, 3).expect("more");
            let (wider, carried) = grown.extended(&more).expect("a factor");
            let ([carried], [q]) = (&carried[..], &grown.q[..]) else { panic!("one process") };
            assert_eq!((wider.layer().dim(), carried.dim(), carried.family()), (9, 9, q.family()));
            assert!((carried.kl() - q.kl()).abs() < 1e-12);
            let after = Posterior::new(&wider, carried).marginals(x.as_ref());
            for (before, after) in [(before.mean, after.mean), (before.variance, after.variance)] {
                let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
                assert!(before.iter().zip(&after).all(close), "{before:?} {after:?}");
            }
        }
    }
}
