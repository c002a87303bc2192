//! The uncertainty about hyper-parameters: Laplace's approximation of their posterior, and weighted points for predictions.
//!
//! With u the unconstrained hyper-parameters and û their fitted values, the density is `exp(−J(u)) Π_i N(u_i; û_i, 1)`: J is the objective
//! with its priors, and the weak prior, which has the standard deviation of a factor e for a scale, bounds directions that the data do
//! not determine. Its Hessian at û, by differences of the gradient of J, gives a Gaussian. The directions that change predictions most
//! get the points of a central composite design, with weights by the density (integrated nested Laplace approximations, Rue, Martino &
//! Chopin 2009, sec. 6.5; Martins, Simpson, Lindgren & Rue 2013); the others keep their values.

use super::collapsed::CollapsedObjective;
use super::run::{Fitted, Job};
use super::steps::{Alternating, SolveLimits, batch_model};
use crate::collapsed::Dataset;
use crate::data::{Purpose, generator};
use crate::error::Result;
use crate::hyper::{FreeVector, HyperObjective, Session, Stage};
use crate::latent::{Layer, whiten};
use crate::likelihood::functions::normal::HALF_95;
use crate::linalg::symmetric_eigen;
use crate::model::{HyperPlace, HyperPoint, HyperSummary, LatentModel, LatentPrior, Warning};
use crate::objective::Objective;
use crate::options::{HyperPosteriorKind, LossKind, ModelKind, Plan, Way};
use crate::variational::{Family, Normal};
use faer::{ColRef, Mat};
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::Scratch;
use std::sync::Arc;
use std::time::Instant;

/// The default is for at most this many rows, …
const MOST_ROWS: usize = 2000;

/// … and this many free hyper-parameters, because each takes two evaluations of the objective.
const MOST_FREE: usize = 50;

/// Without a closed form of q, the default is for fits with at most this n·M² (n rows and M inducing inputs). They take seconds.
const MOST_WORK: usize = 40_000_000;

/// By default, predictions are averaged if that changes the widths of predictive intervals by more than this share.
const MATTERS: f64 = 0.02;

/// The standard deviation of the weak prior, in units of u.
const WEAK: f64 = 1.5;

/// The step of differences, in units of u.
const STEP: f64 = 0.1;

/// The maximum number of training rows at which predictions are compared.
const MOST_COMPARED: usize = 200;

/// The maximum number of directions with points.
const MOST_DIRECTIONS: usize = 5;

/// The points may have at most this many numbers together (27 points with 400 inducing inputs), which a model file stores.
const MOST_NUMBERS: usize = 2_200_000;

/// Directions are added until the others have less than this share of the effect on predictions.
const REST: f64 = 0.02;

/// The radius of the design in units of the root of the number of directions.
const RADIUS: f64 = 1.1;

/// The range of the factors by which the density may be wider or narrower than the Gaussian on one side of a direction.
const SKEW: (f64, f64) = (0.4, 2.0);

/// Points with less weight are left out.
const NO_WEIGHT: f64 = 1e-3;

/// Newton steps on q, which converge quadratically, end after three gains of less than this many nats per row.
const TOLERANCE: f64 = 1e-7;
const MOST_STEPS: usize = 60;

/// Adds the uncertainty about hyper-parameters to a fit, if the options ask for it and the fit has a posterior of them.
///
/// # Errors
///
/// Errors about rows, and interruptions. Hyper-parameters whose neighbourhood cannot be evaluated keep single values.
pub(super) fn add_hyper_posterior(
    fitted: &mut Fitted,
    job: &Job<'_>,
    session: &mut Session<'_>,
) -> Result<()> {
    let kind = job.plan.options.hyper_posterior;
    if kind == HyperPosteriorKind::None {
        return Ok(());
    }
    let found = posterior_of(fitted, job, kind == HyperPosteriorKind::Auto, session);
    session.check()?;
    match found {
        Ok((points, summary)) => {
            fitted.hyper_points = Arc::new(points);
            fitted.summary.hyper = Some(summary);
        }
        Err(why) if kind == HyperPosteriorKind::Laplace => {
            fitted.summary.warnings.push(Warning::SingleHyperparameters { why: why.to_owned() });
        }
        Err(_) => {}
    }
    Ok(())
}

/// Returns the points and the record of an average over hyper-parameters, or the reason why the fit keeps single values. An automatic
/// average has no points if they do not matter.
fn posterior_of(
    fitted: &Fitted,
    job: &Job<'_>,
    automatic: bool,
    session: &mut Session<'_>,
) -> std::result::Result<(Vec<HyperPoint>, HyperSummary), &'static str> {
    if let Some(why) = obstacle(job.plan) {
        return Err(why);
    }
    let rows = job.rows.in_memory().ok_or("the rows are not in memory")?;
    if automatic && (is_slow(rows.len(), fitted) || job.rows.validation().is_some()) {
        return Err("the default is for smaller fits");
    }
    session.enter(Stage::HyperPosterior);
    let session = &*session;
    let stopped = || session.is_interrupted() || session.is_late();
    let surface = Surface::of(fitted, rows, job, session.end(), &stopped);
    let mut surface = surface.ok_or("no hyper-parameter is trained")?;
    if automatic && surface.free.len() > MOST_FREE {
        return Err("there are too many for the default");
    }
    let explored = surface.explore(rows, job.plan.options.seed);
    let Explored { points, summary } =
        explored.ok_or("the objective cannot be evaluated around them in time")?;
    let solved = |Point { weight, solution: Solution { model, q, .. } }: Point| {
        let mut values = Vec::new();
        model.for_each_parameter(&mut |p| values.extend_from_slice(&p.values));
        let place = HyperPlace { weight, values };
        HyperPoint { place, posterior: fitted.posterior.at_other_values(&model, &q) }
    };
    let matters = !automatic || (summary.widening - 1.0).abs() > MATTERS;
    Ok((points.into_iter().filter(|_| matters).map(solved).collect(), summary))
}

/// Returns true if a fit to this many rows is too slow for the default.
fn is_slow(rows: usize, fitted: &Fitted) -> bool {
    let width: usize = fitted.q.iter().map(|q| q.dim().pow(2)).sum();
    rows > MOST_ROWS || (fitted.model.likelihood.gaussian_noise().is_none() && rows * width > MOST_WORK)
}

/// Returns the reason why a plan has no evidence, or bound on it, as a function of hyper-parameters.
fn obstacle(plan: &Plan) -> Option<&'static str> {
    let Plan { options, loss, way, .. } = plan;
    let reasons = [
        (!plan.trains, "they are fixed"),
        (options.model == ModelKind::Glm, "the model is linear"),
        (
            !options.effects.is_empty(),
            "the model has grouped effects, whose variances have their own intervals",
        ),
        (matches!(way, Way::Neighbours(_)), "the model has neighbours"),
        (!matches!(loss, LossKind::Elbo | LossKind::Fitc), "the objective is no evidence"),
        (options.beta != 1.0, "the weight of the KL term is not 1"),
        (options.estimator.is_sampled(), "the estimator draws samples"),
        (options.steps.family != Family::Full, "the covariance matrix of q is diagonal"),
    ];
    reasons.into_iter().find_map(|(applies, why)| applies.then_some(why))
}

/// The objective as a function of hyper-parameters, with q solved for.
enum Evidence<'a> {
    Closed(CollapsedObjective<'a>),
    Steps(Alternating<'a>),
}

/// The negative log density of hyper-parameters near the fitted ones, in units of u.
struct Surface<'a> {
    evidence: Evidence<'a>,
    free: FreeVector,
    /// The flat vector of the fit, its free vector, and the distance in u of one unit of each free number.
    natural: Vec<f64>,
    start: Vec<f64>,
    units: Vec<f64>,
    /// The names of the free hyper-parameters.
    names: Vec<String>,
    evaluations: usize,
    /// Returns true once no further evaluation may begin.
    stopped: &'a dyn Fn() -> bool,
}

/// A point with its q.
struct Solution {
    /// The negative log density.
    value: f64,
    model: LatentModel,
    q: Vec<Normal>,
}

/// A point of the design.
struct Point {
    weight: f64,
    solution: Solution,
}

/// The result of an exploration.
struct Explored {
    points: Vec<Point>,
    summary: HyperSummary,
}

impl<'a> Surface<'a> {
    fn of(
        fitted: &Fitted,
        rows: Dataset<'a>,
        job: &Job<'a>,
        end: Option<Instant>,
        stopped: &'a dyn Fn() -> bool,
    ) -> Option<Surface<'a>> {
        // Inducing inputs are no hyper-parameters of the model.
        let prior = LatentPrior { fix_inducing: true, ..fitted.model.clone() };
        let model = prior.factorised().ok()?;
        let descriptors = model.descriptors();
        let (free, natural) = (FreeVector::new(&descriptors), model.natural());
        let start = free.pack(&natural);
        let names = free.indices().map(|index| descriptors[index].name.clone()).collect();
        let units: Vec<f64> = free.indices().map(|index| descriptors[index].unit).collect();
        let evidence = if model.likelihood.gaussian_noise().is_some() {
            let bound =
                if job.plan.loss == LossKind::Fitc { Objective::fitc() } else { Objective::elbo(1.0) };
            Evidence::Closed(CollapsedObjective::new(model, rows, bound))
        } else {
            let svgp = batch_model(model, fitted.q.clone(), job.plan);
            let limits = SolveLimits { steps: MOST_STEPS, tolerance: TOLERANCE, end };
            let guard = job.plan.options.steps.q_guard;
            Evidence::Steps(Alternating::new(svgp, free.clone(), job.rows, guard, limits).exactly())
        };
        let usable = !start.is_empty() && start.iter().all(|u| u.is_finite());
        usable.then_some(Surface { evidence, free, natural, start, units, names, evaluations: 0, stopped })
    }

    /// Returns the free vector at a distance `c` from the fit.
    fn theta(&self, c: &[f64]) -> Vec<f64> {
        self.start.iter().zip(c.iter().zip(&self.units)).map(|(start, (c, unit))| start + c / unit).collect()
    }

    /// Returns the gradient of the objective, without the weak prior.
    fn gradient(&mut self, c: &[f64]) -> Option<Vec<f64>> {
        if (self.stopped)() {
            return None;
        }
        let (theta, mut gradient) = (self.theta(c), vec![0.0; c.len()]);
        self.evaluations += 1;
        let value = match &mut self.evidence {
            Evidence::Closed(objective) => objective.value_and_gradient(&theta, &mut gradient),
            Evidence::Steps(objective) => objective.value_and_gradient(&theta, &mut gradient),
        };
        gradient.iter_mut().zip(&self.units).for_each(|(slope, unit)| *slope /= unit);
        (value.is_finite() && gradient.iter().all(|slope| slope.is_finite())).then_some(gradient)
    }

    /// Solves for q at a distance `c` from the fit.
    fn solve(&mut self, c: &[f64]) -> Option<Solution> {
        if (self.stopped)() {
            return None;
        }
        let theta = self.theta(c);
        self.evaluations += 1;
        let (value, model, q) = match &mut self.evidence {
            Evidence::Closed(objective) => {
                let value = objective.solve(&theta)? + objective.prior_terms(&theta);
                (value, objective.model().clone(), vec![objective.q().clone()])
            }
            Evidence::Steps(objective) => {
                let value = objective.value_and_gradient(&theta, &mut vec![0.0; c.len()]);
                let (model, q) = objective.current();
                (value, model.clone(), q.to_vec())
            }
        };
        let value = value + 0.5 * WEAK.powi(-2) * c.iter().map(|c| c * c).sum::<f64>();
        value.is_finite().then_some(Solution { value, model, q })
    }

    /// Returns the Hessian of the negative log density at the fit.
    fn hessian(&mut self) -> Option<Mat<f64>> {
        let d = self.start.len();
        let mut hessian = Mat::from_fn(d, d, |i, j| if i == j { WEAK.powi(-2) } else { 0.0 });
        for j in 0..d {
            let mut side = |sign: f64| {
                let mut c = vec![0.0; d];
                c[j] = sign * STEP;
                self.gradient(&c)
            };
            let (above, below) = (side(1.0)?, side(-1.0)?);
            for i in 0..d {
                let slope = (above[i] - below[i]) / (2.0 * STEP);
                hessian[(i, j)] += 0.5 * slope;
                hessian[(j, i)] += 0.5 * slope;
            }
        }
        Some(hessian)
    }

    /// Returns a root R of the covariance matrix of the Gaussian. Directions along which the density is not concave have the weak prior.
    fn root(&mut self) -> Option<Mat<f64>> {
        let hessian = self.hessian()?;
        let (values, vectors) = symmetric_eigen(hessian.as_ref())?;
        let d = values.len();
        Some(Mat::from_fn(d, d, |i, j| vectors[(i, j)] / values[j].max(WEAK.powi(-2)).sqrt()))
    }

    fn explore(&mut self, rows: Dataset<'_>, seed: u64) -> Option<Explored> {
        let d = self.start.len();
        let root = self.root()?;
        let places = places_between(rows);
        let centre = self.solve(&vec![0.0; d])?;
        let at_centre = Predicted::of(&centre, &places);
        let most = most_directions(&centre);
        let directions = self.directions(&root, (&at_centre, most), &places)?;
        let points = self.design(&directions, centre.value, seed);
        // The points of half a design have other moments.
        if (self.stopped)() {
            return None;
        }
        let widening = at_centre.widening(&points, &places);
        let summary =
            HyperSummary { intervals: self.intervals(&root), widening, evaluations: self.evaluations };
        Some(Explored { points, summary })
    }

    /// Returns directions of one standard deviation each, those that change predictions most first, as columns, and the number of those
    /// with points.
    fn directions(
        &mut self,
        root: &Mat<f64>,
        (centre, most): (&Predicted, usize),
        places: &Mat<f64>,
    ) -> Option<(Mat<f64>, usize)> {
        let d = root.nrows();
        let changes: Option<Vec<Vec<f64>>> = (0..d)
            .map(|j| {
                let c: Vec<f64> = root.col(j).iter().copied().collect();
                Some(centre.change(&Predicted::of(&self.solve(&c)?, places)))
            })
            .collect();
        let changes = changes?;
        let effects = Mat::from_fn(changes[0].len(), d, |row, j| changes[j][row]);
        let (values, vectors) = symmetric_eigen((effects.transpose() * &effects).as_ref())?;
        let mut order: Vec<usize> = (0..d).collect();
        order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
        let total: f64 = values.iter().sum();
        let mut left = total;
        let mut count = 0;
        while count < d.min(most) && left > REST * total {
            left -= values[order[count]];
            count += 1;
        }
        let ordered = Mat::from_fn(d, d, |i, j| vectors[(i, order[j])]);
        Some((root * ordered, count))
    }

    /// Returns the points of the design along the first `k` directions, with their weights; the point of the fit itself is left out. The
    /// coordinates along the other directions are random, with opposite signs at opposite points.
    fn design(&mut self, (directions, k): &(Mat<f64>, usize), centre: f64, seed: u64) -> Vec<Point> {
        let (k, d) = (*k, directions.nrows());
        let (shapes, radius) = central_composite(k);
        let along = |z: &[f64]| -> Vec<f64> {
            let c = |i: usize| z.iter().enumerate().map(|(j, z)| directions[(i, j)] * z).sum();
            (0..d).map(c).collect()
        };
        let mut random = generator(seed, Purpose::Prediction, 0);
        let mut others: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
        let mut with_others = |z: &[f64]| -> Vec<f64> {
            let opposite: Vec<f64> = z.iter().map(|z| -z).collect();
            let known =
                others.iter().find(|(of, _)| *of == opposite).map(|(_, rest)| rest.iter().map(|z| -z));
            let rest: Vec<f64> = match known {
                Some(mirrored) => mirrored.collect(),
                None => (k..d).map(|_| StandardNormal.sample(&mut random)).collect(),
            };
            others.push((z.to_vec(), rest.clone()));
            z.iter().copied().chain(rest).collect()
        };
        let mut skew = vec![[1.0; 2]; k];
        for (j, own) in skew.iter_mut().enumerate() {
            for (side, sign) in own.iter_mut().zip([-1.0, 1.0]) {
                let mut z = vec![0.0; k];
                z[j] = sign * radius;
                let fall = self.solve(&along(&z)).map_or(f64::INFINITY, |at| at.value - centre);
                let factor = if fall > 0.0 { (0.5 * radius * radius / fall).sqrt() } else { SKEW.1 };
                *side = factor.clamp(SKEW.0, SKEW.1);
            }
        }
        let scale = |j: usize, z: f64| match z {
            0.0 => 0.5 * (skew[j][0] + skew[j][1]),
            _ => skew[j][usize::from(z > 0.0)],
        };
        let log_volume = |z: &[f64]| z.iter().enumerate().map(|(j, z)| scale(j, *z).ln()).sum::<f64>();
        let share = k as f64 / (radius * radius);
        let mut sum = (1.0 - share) * log_volume(&vec![0.0; k]).exp();
        let mut points = Vec::new();
        for z in &shapes {
            let whole = with_others(z);
            let squares: f64 = whole.iter().map(|z| z * z).sum();
            let stretched: Vec<f64> =
                whole.iter().enumerate().map(|(j, z)| if j < k { scale(j, *z) * z } else { *z }).collect();
            let Some(solution) = self.solve(&along(&stretched)) else { continue };
            let log_ratio = centre - solution.value + 0.5 * squares;
            let weight = share / shapes.len() as f64 * (log_ratio.min(MOST_RATIO) + log_volume(z)).exp();
            sum += weight;
            points.push(Point { weight, solution });
        }
        points.iter_mut().for_each(|point| point.weight /= sum);
        points.retain(|point| point.weight >= NO_WEIGHT);
        points
    }

    /// Returns the 95 % intervals of the hyper-parameters.
    fn intervals(&self, root: &Mat<f64>) -> Vec<(String, [f64; 2])> {
        let of = |j: usize| {
            let sd = root.row(j).iter().map(|x| x * x).sum::<f64>().sqrt();
            let index = self.free.indices().nth(j).unwrap_or_default();
            let mut ends = [-1.0, 1.0].map(|sign| {
                let (mut c, mut natural) = (vec![0.0; root.nrows()], self.natural.clone());
                c[j] = sign * HALF_95 * sd;
                self.free.unpack(&self.theta(&c), &mut natural);
                natural[index]
            });
            ends.sort_by(f64::total_cmp);
            (self.names[j].clone(), ends)
        };
        (0..root.nrows()).map(of).collect()
    }
}

/// The largest logarithm of the density in units of that of the Gaussian that counts.
const MOST_RATIO: f64 = 2.0;

/// Returns the number of directions whose points are not too large for a model file; at least one.
fn most_directions(at: &Solution) -> usize {
    let numbers: usize = at.q.iter().map(|q| q.dim() * (q.dim() + 1) / 2).sum();
    let fits = |k: &usize| central_composite(*k).0.len() * numbers <= MOST_NUMBERS;
    (1..=MOST_DIRECTIONS).rev().find(fits).unwrap_or(1)
}

/// Returns the points of a central composite design other than its centre, and their distance from the centre. Each coordinate has the
/// mean square 1 if the centre has the weight `1 − k/r²` and the others share the rest.
fn central_composite(k: usize) -> (Vec<Vec<f64>>, f64) {
    let radius = if k == 1 { 3f64.sqrt() } else { RADIUS * (k as f64).sqrt() };
    let axial = (0..2 * k).map(|i| {
        let mut z = vec![0.0; k];
        z[i / 2] = if i % 2 == 0 { radius } else { -radius };
        z
    });
    let mut all: Vec<Vec<f64>> = axial.collect();
    if k < 2 {
        return (all, radius);
    }
    let corner = radius / (k as f64).sqrt();
    for code in 0..1usize << k {
        // With five directions half of the corners, those with an even number of negative signs, have the same moments.
        if k < MOST_DIRECTIONS || code.count_ones() % 2 == 0 {
            all.push((0..k).map(|j| if code >> j & 1 == 1 { -corner } else { corner }).collect());
        }
    }
    (all, radius)
}

/// Means and variances of predictions at some places, one after the other for every function.
struct Predicted(Vec<(f64, f64)>);

impl Predicted {
    fn of(Solution { model, q, .. }: &Solution, places: &Mat<f64>) -> Predicted {
        let noise = model.likelihood.gaussian_noise().unwrap_or(0.0);
        let layers = model.layers();
        let mut all = Vec::new();
        for (process, q) in q.iter().enumerate() {
            let own = layers.of(process);
            let constant = layers.get(own).constant(process - layers.members(own).start);
            let found = latent_moments(layers.get(own), q, constant, places);
            all.extend(found.map(|(mean, variance)| (mean, variance.max(f64::MIN_POSITIVE) + noise)));
        }
        Predicted(all)
    }

    /// Returns the differences of other predictions from these: twice their sum of squares is the divergence of the Gaussians, for small
    /// differences.
    fn change(&self, other: &Predicted) -> Vec<f64> {
        let means = self.0.iter().zip(&other.0).map(|(own, other)| (other.0 - own.0) / own.1.sqrt());
        let widths =
            self.0.iter().zip(&other.0).map(|(own, other)| (0.5 * (other.1 / own.1).ln()) * 2f64.sqrt());
        means.chain(widths).collect()
    }

    /// Returns the mean factor by which the standard deviation of the average over points exceeds that of the fit.
    fn widening(&self, points: &[Point], places: &Mat<f64>) -> f64 {
        let others: Vec<(f64, Predicted)> =
            points.iter().map(|point| (point.weight, Predicted::of(&point.solution, places))).collect();
        let rest = 1.0 - others.iter().map(|(weight, _)| weight).sum::<f64>();
        let of = |(at, own): (usize, &(f64, f64))| {
            let all =
                || std::iter::once((rest, *own)).chain(others.iter().map(|(weight, of)| (*weight, of.0[at])));
            let mean: f64 = all().map(|(weight, (mean, _))| weight * mean).sum();
            let spread = all().map(|(weight, (own, variance))| weight * (variance + (own - mean).powi(2)));
            (spread.sum::<f64>() / own.1).sqrt()
        };
        self.0.iter().enumerate().map(of).sum::<f64>() / self.0.len() as f64
    }
}

/// Returns the latent means and variances of a process at some places: `o + aᵀm` and `base + aᵀ(S − κI)a` for whitened features a.
fn latent_moments(
    layer: &Layer,
    q: &Normal,
    constant: Option<f64>,
    places: &Mat<f64>,
) -> impl Iterator<Item = (f64, f64)> {
    let (m, n, kappa) = (layer.dim(), places.nrows(), layer.kappa());
    let (mut raw, mut a) = (Mat::zeros(m, n), Mat::zeros(m, n));
    let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
    layer.features(places.as_ref(), raw.as_mut(), &mut base, &mut offset, &mut Scratch::new());
    whiten(layer, raw.as_ref(), a.as_mut());
    let means = a.transpose() * ColRef::from_slice(q.mean());
    let spread = q.cov().to_dense() * &a;
    (0..n).map(move |i| {
        let terms = a.col(i).iter().zip(spread.col(i).iter());
        let added: f64 = terms.map(|(a, s)| a * (s - kappa * a)).sum();
        (constant.unwrap_or(offset[i]) + means[i], base[i] + added)
    })
}

/// Returns places half-way between training rows and others that are close to them, a row for each.
fn places_between(rows: Dataset<'_>) -> Mat<f64> {
    let n = rows.len();
    let count = n.min(MOST_COMPARED);
    let own = |place: usize| place * n / count;
    let distance = |a: usize, b: usize| (rows.x.row(a) - rows.x.row(b)).squared_norm_l2();
    let partner = |place: usize| {
        let candidates = (1..=CANDIDATES).map(|step| (own(place) + step * (n / CANDIDATES).max(1)) % n);
        let far =
            |other: usize| if other == own(place) { f64::INFINITY } else { distance(own(place), other) };
        candidates.min_by(|&a, &b| far(a).total_cmp(&far(b))).unwrap_or(own(place))
    };
    let partners: Vec<usize> = (0..count).map(partner).collect();
    Mat::from_fn(count, rows.x.ncols(), |place, j| {
        let (a, b) = (rows.x[(own(place), j)], rows.x[(partners[place], j)]);
        // Codes of categories are whole numbers, and so may other numbers be.
        if a.fract() == 0.0 && b.fract() == 0.0 { a } else { 0.5 * (a + b) }
    })
}

/// The number of rows among which the closest is chosen.
const CANDIDATES: usize = 7;
