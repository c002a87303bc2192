//! The contract of predictions: distribution functions, moments, quantiles, scores, probabilities and samples against each other.

use super::{
    STEPS, Verdict, agree, close, ensure, is_discrete, log_density, marginals, simpson_weight, slope,
    slow_nodes,
};
use crate::crps::BELOW_1;
use crate::quadrature::Integrator;
use crate::{Expectation, Likelihood, Marginal, Observation, OneFunction, Row, Slopes, TargetKind};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::cell::RefCell;

/// The number of draws with which moments and the distribution function are compared. By chance
/// they differ more than allowed once in a million times (moments, 5 standard errors) or once in
/// 1500 times (Kolmogorov's distance, 2/√n); the seed is fixed.
const DRAWS: usize = 20_000;

/// The probabilities at which distributions of likelihoods with one and with several functions are checked.
const LEVELS_OF_ONE: [f64; 7] = [0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.9999];
const LEVELS: [f64; 5] = [0.01, 0.3, 0.5, 0.8, 0.99];

/// The predictive distribution of a row.
#[derive(Clone, Copy)]
struct Case<'a> {
    likelihood: &'a dyn Likelihood,
    integrator: &'a RefCell<Integrator>,
    at: Observation<'a>,
    marginal: Marginal<'a>,
}

impl<'a> Case<'a> {
    /// The row with this target.
    fn row(self, y: f64) -> Row<'a> {
        Row::new(self.at.with(y), self.marginal)
    }

    fn cdf(self, y: f64) -> f64 {
        self.likelihood.predictive_cdf(self.row(y), &mut self.integrator.borrow_mut())
    }

    fn quantile(self, p: f64) -> f64 {
        self.likelihood.predictive_quantile(p, self.row(self.at.y), &mut self.integrator.borrow_mut())
    }

    fn moments(self) -> (f64, f64) {
        self.likelihood.predictive_moments(self.row(self.at.y), &mut self.integrator.borrow_mut())
    }

    fn score(self, y: f64) -> f64 {
        self.likelihood.crps(self.row(y), &mut self.integrator.borrow_mut())
    }

    fn density(self, y: f64) -> f64 {
        let (of, integrator) = (Expectation::LogPredictive, &mut self.integrator.borrow_mut());
        self.likelihood.expectation(of, self.row(y), Slopes::none(), integrator).exp()
    }

    /// Returns draws of y.
    fn draws(self) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(20);
        let draw = |_| {
            let latent = self.marginal.mean.iter().zip(self.marginal.variance);
            let f: Vec<f64> = latent
                .map(|(mu, v)| {
                    let z: f64 = StandardNormal.sample(&mut random);
                    mu + v.sqrt() * z
                })
                .collect();
            self.likelihood.sample(self.at, &f, &mut random)
        };
        (0..DRAWS).map(draw).collect()
    }

    /// The distance of y from the ends of the domain.
    fn room(self, y: f64) -> f64 {
        match self.likelihood.target_kind() {
            TargetKind::Positive | TargetKind::Lifetime | TargetKind::Amount => y,
            TargetKind::UnitInterval | TargetKind::Share => y.min(1.0 - y),
            _ => f64::INFINITY,
        }
    }

    /// Returns the largest number below y, if y is an end of the range that has a probability.
    fn before_end(self, y: f64) -> Option<f64> {
        Some(self.likelihood.target_kind().before(y)).filter(|before| *before < y)
    }

    /// Returns the derivative of a distribution function at y, or its jump.
    fn rise(self, y: f64, h: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
        let before = is_discrete(self.likelihood).then_some(y - 1.0).or(self.before_end(y));
        match before {
            Some(before) => cdf(y) - cdf(before),
            None => slope(cdf, y, h),
        }
    }

    /// Returns true if y is so close to 1 that floats are too coarse for a density that rises there.
    fn is_coarse(self, y: f64) -> bool {
        let to_1 = matches!(self.likelihood.target_kind(), TargetKind::UnitInterval | TargetKind::Share);
        to_1 && y > 1.0 - 1e-9 && self.before_end(y).is_none()
    }
}

/// Checks the predictive distribution at exposures of the observations: quantiles and the density against the distribution function,
/// moments, scores and probabilities against samples and slow integration, and for one function averages over f.
pub(super) fn check_predictions(likelihood: &dyn Likelihood, observations: &[Observation]) -> Verdict {
    let integrator = &RefCell::default();
    let Some(one) = likelihood.one() else {
        let exposure = observations.first().map_or(1.0, |at| at.exposure);
        let at = Observation::exposed(1.0, exposure);
        return marginals(likelihood.functions()).iter().take(2).try_for_each(|(mean, variance)| {
            let row = Case { likelihood, integrator, at, marginal: Marginal { mean, variance } };
            if likelihood.target_kind() == TargetKind::Class {
                return check_classes(row);
            }
            check_quantiles(row, &LEVELS)?;
            check_rises(row)?;
            check_samples(row)
        });
    };
    let exposures: &[f64] = match likelihood.target_kind() {
        TargetKind::Count | TargetKind::CensoredCount => &[1.0, 2.5],
        TargetKind::Trials => &[1.0, 7.0, 200.0],
        _ => &[1.0],
    };
    for exposure in exposures {
        for (mean, variance) in [(0.6, 0.3), (-0.8, 0.05)] {
            let at = Observation::exposed(1.0, *exposure);
            let row = Case {
                likelihood,
                integrator,
                at,
                marginal: Marginal { mean: &[mean], variance: &[variance] },
            };
            let certain = Case { marginal: Marginal { variance: &[0.0], ..row.marginal }, ..row };
            check_conditional(one, certain)?;
            check_moments(one, certain)?;
            check_averages(one, row)?;
            check_quantiles(row, &LEVELS_OF_ONE)?;
            check_row_scores(row)?;
            check_samples(row)?;
        }
    }
    Ok(())
}

/// Checks for a row of certain f that the derivative of the distribution function given f is the density (or its jumps are
/// the probabilities), and that the predictive distribution equals it.
fn check_conditional(one: &dyn OneFunction, certain: Case<'_>) -> Verdict {
    let (f, at) = (certain.marginal.mean[0], certain.at);
    let middle = certain.quantile(0.75) - certain.quantile(0.25);
    // Not the median, where a symmetric density may have a kink.
    let points = [0.1, 0.3, 0.46, 0.7, 0.9].map(|p| certain.quantile(p));
    for y in points {
        let density = log_density(certain.likelihood, at.with(y), &[f]).0.exp();
        let h = 1e-3 * if middle > 0.0 { middle.min(certain.room(y)) } else { certain.room(y) };
        let scale = if is_discrete(certain.likelihood) { 1.0 } else { 1e-6 / h };
        let got = certain.rise(y, h, &mut |y| one.conditional_cdf(at.with(y), f));
        agree(got, density, 1e-6, scale, || {
            format!("given f = {f}, the rise of the distribution function at y = {y}")
        })?;
        agree(certain.cdf(y), one.conditional_cdf(at.with(y), f), 1e-12, 1.0, || {
            format!("P(Y ≤ {y}), predicted at v = 0 and not given f = {f},")
        })?;
    }
    let (known, given) = (certain.moments(), one.conditional_moments(at, f));
    let same = |a: f64, b: f64| a == b || close(a, b, 1e-12, 0.0) || (a.is_nan() && b.is_nan());
    ensure(same(known.0, given.0) && same(known.1, given.1), || {
        format!("mean and variance are {given:?} given f = {f}, but {known:?} predicted at v = 0")
    })
}

/// Checks for a row of certain f that mean and variance given f, if they are finite, agree with the distribution function:
/// with a centre c, S = 1 − F above it and S = F below it, `E(Y − c) = ±∫ S dy` and
/// `E(Y − c)² = 2 ∫ |y − c| S dy`.
fn check_moments(one: &dyn OneFunction, certain: Case<'_>) -> Verdict {
    let f = certain.marginal.mean[0];
    let (mean, variance) = one.conditional_moments(certain.at, f);
    if !(mean.is_finite() && variance.is_finite()) {
        return Ok(());
    }
    let [low, centre, high] = [1e-13, 0.5, 1.0 - 1e-13].map(|p| certain.quantile(p));
    // The integral up to an end where the function jumps needs its limit there.
    let inside = |y: f64| if certain.before_end(y) == Some(BELOW_1) { BELOW_1 } else { y };
    let cdf = |y| one.conditional_cdf(certain.at.with(inside(y)), f);
    let (mut first, mut second) = (0.0, 0.0);
    if is_discrete(certain.likelihood) {
        let mut y = 0.0;
        while y <= high {
            let p = cdf(y) - cdf(y - 1.0);
            (first, second) = (first + p * (y - centre), second + p * (y - centre).powi(2));
            y += 1.0;
        }
    } else {
        let sides = [(1.0, high - centre), (-1.0, centre - low)];
        for (sign, reach) in sides.into_iter().filter(|(_, reach)| *reach > 0.0) {
            // Steps that grow with the distance from the centre, as tails are long.
            let width = variance.sqrt().min(reach);
            let step = (reach / width).asinh() / STEPS as f64;
            for k in 0..=STEPS {
                let t = k as f64 * step;
                let distance = width * t.sinh();
                let below = cdf(centre + sign * distance);
                let rest = if sign > 0.0 { 1.0 - below } else { below };
                let mass = simpson_weight(k) * step * width * t.cosh() * rest;
                (first, second) = (first + sign * mass, second + 2.0 * distance * mass);
            }
        }
    }
    let (got, want) = ((mean, variance), (centre + first, second - first * first));
    let sd = variance.sqrt();
    ensure((got.0 - want.0).abs() <= 1e-4 * sd && close(got.1, want.1, 1e-3, 0.0), || {
        format!("given f = {f}, mean and variance are {got:?}, but the distribution function has {want:?}")
    })
}

/// Checks that predictive moments and the distribution function are averages over f of those given
/// f.
fn check_averages(one: &dyn OneFunction, row: Case<'_>) -> Verdict {
    let (mean, variance) = row.moments();
    let average = |kink: f64, g: &dyn Fn(f64) -> f64| {
        let mut total = 0.0;
        slow_nodes(row.marginal, kink, &mut |f, weights| {
            total += f.iter().zip(weights).map(|(f, weight)| weight * g(*f)).sum::<f64>();
        });
        total
    };
    if !mean.is_nan() {
        let want = average(row.marginal.mean[0], &|f| one.conditional_moments(row.at, f).0);
        agree(mean, want, 1e-7, 1e-3, || "the predictive mean".to_owned())?;
    }
    if variance.is_finite() {
        let want = average(row.marginal.mean[0], &|f| {
            let (m, v) = one.conditional_moments(row.at, f);
            v + (m - mean) * (m - mean)
        });
        agree(variance, want, 1e-6, 1e-3, || "the predictive variance".to_owned())?;
    }
    for p in LEVELS_OF_ONE {
        let y = row.quantile(p);
        // If the density has a kink, the distribution function as a function of f has a kink at y.
        let want = average(y, &|f| one.conditional_cdf(row.at.with(y), f));
        agree(row.cdf(y), want, 1e-6, 1.0, || format!("P(Y ≤ {y})"))?;
    }
    Ok(())
}

/// Checks that quantiles invert the distribution function.
fn check_quantiles(row: Case<'_>, levels: &[f64]) -> Verdict {
    let tolerance = if row.likelihood.one().is_some() { 1e-9 } else { 1e-8 };
    for &p in levels {
        let y = row.quantile(p);
        let below = row.cdf(y);
        let before = is_discrete(row.likelihood).then_some(y - 1.0).or(row.before_end(y));
        let inverts = if let Some(before) = before {
            below >= p && (y == 0.0 || row.cdf(before) < p)
        } else {
            (below - p).abs() < tolerance || row.is_coarse(y)
        };
        ensure(inverts, || format!("{below} is below the quantile {y} of {p}, {:?}", row.marginal))?;
    }
    Ok(())
}

/// Checks that the distribution function rises by the predictive density.
fn check_rises(row: Case<'_>) -> Verdict {
    for y in LEVELS.map(|p| row.quantile(p)).into_iter().filter(|y| !row.is_coarse(*y)) {
        let rise = row.rise(y, 1e-3 * row.room(y).min(1.0), &mut |y| row.cdf(y));
        agree(rise, row.density(y), 1e-6, 1.0, || {
            format!("the rise of the distribution function at y = {y}, {:?}", row.marginal)
        })?;
    }
    Ok(())
}

/// Checks the continuous ranked probability score, at quantiles of the predictive distribution and
/// at a target far in its tail. It is compared with slow integration of the predictive distribution
/// function, or with the sum if the target is discrete.
///
/// # Errors
///
/// Describes the first target for which the score is wrong.
pub fn check_scores(likelihood: &dyn Likelihood, exposure: f64, marginal: Marginal<'_>) -> Verdict {
    check_row_scores(Case {
        likelihood,
        integrator: &RefCell::default(),
        at: Observation::exposed(1.0, exposure),
        marginal,
    })
}

fn check_row_scores(row: Case<'_>) -> Verdict {
    for p in [1e-4, 0.3, 0.9, 1.0 - 1e-7] {
        let y = row.quantile(p);
        let (got, want) = (row.score(y), slow_score(row, y));
        ensure(close(got, want, 1e-6, 0.0) || (got.is_nan() && want.is_nan()), || {
            format!("the score of y = {y}, {:?}, is {got} instead of {want}", row.marginal)
        })?;
    }
    Ok(())
}

/// `∫ (F(t) − 1{y ≤ t})² dt` by Simpson's rule on either side of y, or the sum.
fn slow_score(row: Case<'_>, y: f64) -> f64 {
    let [centre, low, high] = [0.5, 1e-11, 1.0 - 1e-11].map(|p| row.quantile(p));
    let width = row.quantile(0.75) - row.quantile(0.25);
    if is_discrete(row.likelihood) {
        let last = high.max(y) as u64;
        let error = |k: u64| row.cdf(k as f64) - f64::from(u8::from(y <= k as f64));
        return (0..=last).map(error).map(|error| error * error).sum();
    }
    let kind = row.likelihood.target_kind();
    // An even grid in x gives steps in t that grow with the distance from the centre, or from the
    // ends of the range.
    let x = |t: f64| match kind {
        TargetKind::Positive | TargetKind::Lifetime | TargetKind::Amount => t.ln(),
        TargetKind::UnitInterval | TargetKind::Share => t.ln() - (-t).ln_1p(),
        _ => ((t - centre) / width).asinh(),
    };
    let place = |x: f64| match kind {
        TargetKind::Positive | TargetKind::Lifetime | TargetKind::Amount => (x.exp(), x.exp()),
        TargetKind::UnitInterval | TargetKind::Share => {
            (1.0 / (1.0 + (-x).exp()), 0.25 / (0.5 * x).cosh().powi(2))
        }
        _ => (centre + width * x.sinh(), width * x.cosh()),
    };
    let side = |from: f64, to: f64, above: f64| {
        let step = (x(to) - x(from)).max(0.0) / STEPS as f64;
        let term = |k: usize| {
            let (t, slope) = place(x(from) + k as f64 * step);
            simpson_weight(k) * step * slope * (row.cdf(t) - above).powi(2)
        };
        (0..=STEPS).map(term).sum::<f64>()
    };
    // Next to the ends of a range there is nothing to integrate.
    let (low, y, high) = match kind {
        TargetKind::Positive | TargetKind::Lifetime => (low.max(1e-14 * y), y, high),
        TargetKind::Amount => {
            let least = 1e-13 * if y > 0.0 { y } else { high };
            (least, y.max(least), high)
        }
        TargetKind::UnitInterval => (low.max(1e-14 * y), y, high.min(1.0 - 1e-15)),
        TargetKind::Share => (1e-13, y.clamp(1e-13, 1.0 - 1e-15), 1.0 - 1e-15),
        _ => (low, y, high),
    };
    side(low, y, 0.0) + side(y, high, 1.0)
}

/// Checks that samples have the predictive moments and distribution and, for several functions, score.
fn check_samples(row: Case<'_>) -> Verdict {
    let several = row.likelihood.one().is_none();
    let mut sample = row.draws();
    let n = DRAWS as f64;
    let (mean, variance) = row.moments();
    if variance.is_finite() {
        let about = |power: i32| sample.iter().map(|y| (y - mean).powi(power)).sum::<f64>() / n;
        let error = about(1).abs() / (variance / n).sqrt();
        ensure(error < 5.0, || {
            format!("the mean {mean} is {error} standard errors from that of samples, {:?}", row.marginal)
        })?;
        let (spread, fourth) = (about(2), about(4));
        // For long tails the spread of the samples is unreliable.
        let reference = if several { spread } else { variance };
        let error = (spread - variance).abs() / ((fourth - reference * reference).max(0.0) / n).sqrt();
        ensure(error < 5.0 || several && fourth > 300.0 * spread * spread, || {
            format!(
                "the variance {variance} is {error} standard errors from that of samples, {:?}",
                row.marginal
            )
        })?;
    }
    if several {
        let y = sample[0];
        let terms: Vec<f64> = sample
            .chunks_exact(2)
            .map(|pair| 0.5 * ((pair[0] - y).abs() + (pair[1] - y).abs() - (pair[0] - pair[1]).abs()))
            .collect();
        let score = terms.iter().sum::<f64>() / terms.len() as f64;
        let spread = terms.iter().map(|term| (term - score).powi(2)).sum::<f64>() / terms.len() as f64;
        let got = row.score(y);
        ensure((got - score).abs() <= 5.0 * (spread / terms.len() as f64).sqrt() + 1e-12, || {
            format!("the score of y = {y}, {:?} is {got}, that of samples {score}", row.marginal)
        })?;
    }
    sample.sort_by(f64::total_cmp);
    let mut before = 0.0;
    for &y in sample.iter().step_by(DRAWS / if several { 50 } else { 200 }) {
        let below = row.cdf(y);
        ensure(several || below >= before, || format!("the distribution function falls to {below} at {y}"))?;
        before = below;
        let share = sample.partition_point(|x| *x <= y) as f64 / n;
        ensure((below - share).abs() < 2.0 / n.sqrt(), || {
            format!("P(Y ≤ {y}) is {below}, the share of samples is {share}, {:?}", row.marginal)
        })?;
    }
    Ok(())
}

/// Checks that the probabilities of classes sum to 1 and agree with those of single observations
/// and with the shares of samples.
fn check_classes(row: Case<'_>) -> Verdict {
    let mut probabilities = vec![f64::NAN; row.likelihood.levels()];
    row.likelihood.probabilities(row.marginal, &mut row.integrator.borrow_mut(), &mut probabilities);
    let total: f64 = probabilities.iter().sum();
    ensure((total - 1.0).abs() < 1e-12, || format!("probabilities {probabilities:?} sum to {total}"))?;
    let sample = row.draws();
    for (class, &p) in probabilities.iter().enumerate() {
        let one = row.density(class as f64);
        ensure((one / p - 1.0).abs() < 1e-9, || {
            format!("class {class} has probability {p} among all and {one} by itself")
        })?;
        let share = sample.iter().filter(|y| **y == class as f64).count() as f64 / DRAWS as f64;
        let error = (share - p).abs() / (p * (1.0 - p) / DRAWS as f64).sqrt();
        ensure(error < 5.0, || format!("class {class} of probability {p} is {share} of samples"))?;
    }
    Ok(())
}
