//! Intervals of variance components against closed forms for balanced layouts and against profiles
//! of the dense marginal likelihood.

use super::common::*;
use argmin::core::{CostFunction, Executor};
use argmin::solver::neldermead::NelderMead;
use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use sparsegp::effects::EffectTerm;
use sparsegp::options::FitOptions;
use sparsegp_testkit::problems::Normals;

/// The deviate at both ends of a 95 % interval.
const DEVIATE: f64 = 1.959_963_984_540_054;

/// The tolerance of deviates. Searches end within 0.005 of the deviate, and fits at a slope of
/// about 1e-6.
const TOLERANCE: f64 = 0.01;

/// Returns the minimum of a unimodal function between two points, by golden-section search.
fn least(f: &dyn Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let share = 0.5 * (5f64.sqrt() - 1.0);
    while high - low > 1e-9 {
        let (a, b) = (high - share * (high - low), low + share * (high - low));
        if f(a) < f(b) { high = b } else { low = a }
    }
    f(0.5 * (low + high))
}

/// A balanced one-way layout with an input that has the same values in every group, so that the slope does not depend on the variances.
struct OneWay {
    x: Mat<f64>,
    y: Vec<f64>,
    /// Degrees of freedom and sums of squares within groups and between them.
    within: (f64, f64),
    between: (f64, f64),
    each: f64,
}

impl OneWay {
    fn new(groups: usize, each: usize, deviation: f64, reml: bool) -> OneWay {
        let mut normals = Normals::new(3);
        let n = groups * each;
        let x = Mat::from_fn(n, 2, |i, j| if j == 0 { (i % each) as f64 } else { (i / each) as f64 });
        let mut noise = normals.vec(n);
        // The noise has no group means, so the variation between groups comes only from the
        // effects.
        for group in noise.chunks_mut(each) {
            let mean = group.iter().sum::<f64>() / each as f64;
            group.iter_mut().for_each(|e| *e -= mean);
        }
        let effects = normals.vec(groups);
        let y: Vec<f64> =
            (0..n).map(|i| 5.0 + 0.3 * x[(i, 0)] + deviation * effects[i / each] + noise[i]).collect();
        let centre = effects.iter().sum::<f64>() / groups as f64;
        let squares: f64 = effects.iter().map(|e| (deviation * (e - centre)).powi(2)).sum();
        let middle = 0.5 * (each - 1) as f64;
        let [mut xx, mut xy, mut yy] = [0.0; 3];
        for i in 0..n {
            let (u, v) = (x[(i, 0)] - middle, 0.3 * (x[(i, 0)] - middle) + noise[i]);
            (xx, xy, yy) = (xx + u * u, xy + u * v, yy + v * v);
        }
        // REML subtracts the slope from the degrees of freedom within groups, and the intercept
        // from those between groups.
        let fixed = if reml { 1.0 } else { 0.0 };
        OneWay {
            within: (n as f64 - groups as f64 - fixed, yy - xy * xy / xx),
            between: (groups as f64 - fixed, each as f64 * squares),
            each: each as f64,
            x,
            y,
        }
    }

    /// Returns minus the log likelihood without constants (Searle, Casella & McCulloch 1992,
    /// section 3.7).
    fn value(&self, noise: f64, effect: f64) -> f64 {
        let total = noise + self.each * effect;
        let ((within, ssw), (between, ssb)) = (self.within, self.between);
        0.5 * (within * noise.ln() + between * total.ln() + ssw / noise + ssb / total)
    }

    /// Returns the deviate of the constraint that the variance of effects is this function of the
    /// noise variance.
    fn deviate(&self, effect: &dyn Fn(f64) -> f64) -> f64 {
        let best = |log: f64| least(&|effect| self.value(log.exp(), effect.exp()), -30.0, 5.0);
        let all = least(&best, -3.0, 3.0);
        let profile = least(&|log| self.value(log.exp(), effect(log.exp())), -3.0, 3.0);
        (2.0 * (profile - all).max(0.0)).sqrt()
    }
}

#[test]
fn intervals_of_a_balanced_layout_are_those_of_its_closed_form() {
    for (reml, deviation) in [(false, 0.7), (true, 0.7), (false, 0.3), (true, 3.0)] {
        let layout = OneWay::new(12, 6, deviation, reml);
        let options = FitOptions { reml, ..linear(vec![EffectTerm::intercepts("g", 12, 0)]) };
        let model = fit(&options, layout.x.as_ref(), &layout.y);
        let component = model.variance_components().remove(0);
        let what = format!("reml {reml}, sd {deviation}: {component:?}");
        let check = |deviate: f64| assert!((deviate - DEVIATE).abs() < TOLERANCE, "{what}: {deviate}");
        let [lower, upper] = component.interval.expect("an interval");
        assert!(lower < component.sd && component.sd < upper, "{what}");
        for sd in [lower, upper].into_iter().filter(|sd| *sd > 0.0) {
            check(layout.deviate(&|_| sd * sd));
        }
        if lower == 0.0 {
            assert!(layout.deviate(&|_| 0.0) < DEVIATE + TOLERANCE, "{what}");
        }
        let share = model.intraclass_correlations().remove(0);
        let ends = share.interval.expect("an interval");
        assert!(ends[0] < share.share && share.share < ends[1], "{share:?}");
        assert_eq!(ends[0] == 0.0, lower == 0.0, "{what} {share:?}");
        for share in ends.into_iter().filter(|share| *share > 0.0) {
            check(layout.deviate(&|noise| noise * share / (1.0 - share)));
        }
        // The profile of the noise variance, with the best variance of effects for each value.
        let all = least(&|log| least(&|e| layout.value(log.exp(), e.exp()), -30.0, 5.0), -3.0, 3.0);
        for sd in model.residual_interval().expect("an interval") {
            let profile = least(&|effect| layout.value(sd * sd, effect.exp()), -30.0, 5.0);
            check((2.0 * (profile - all)).sqrt());
        }
    }
}

#[test]
fn an_effect_without_evidence_has_an_interval_from_zero() {
    let layout = OneWay::new(12, 6, 0.0, false);
    let model = fit(&linear(vec![EffectTerm::intercepts("g", 12, 0)]), layout.x.as_ref(), &layout.y);
    let component = model.variance_components().remove(0);
    let [lower, upper] = component.interval.expect("an interval");
    assert!(lower == 0.0 && component.sd < 0.05, "{component:?}");
    let deviate = layout.deviate(&|_| upper * upper);
    assert!((deviate - DEVIATE).abs() < TOLERANCE, "{component:?}: {deviate}");
    let share = model.intraclass_correlations().remove(0).interval.expect("an interval");
    let deviate = layout.deviate(&|noise| noise * share[1] / (1.0 - share[1]));
    assert!(share[0] == 0.0 && (deviate - DEVIATE).abs() < TOLERANCE, "{share:?}: {deviate}");
}

/// Returns the minimum of a function near a point and its place, by simplices (Nelder & Mead 1965)
/// that are restarted until they gain nothing.
fn least_near(f: &dyn Fn(&[f64]) -> f64, start: &[f64]) -> (f64, Vec<f64>) {
    let n = start.len();
    let mut best = (f(start), start.to_vec());
    loop {
        let corner = |k: usize| (0..n).map(|i| best.1[i] + if i == k { 0.2 } else { 0.0 }).collect();
        let solver = NelderMead::new((0..=n).map(corner).collect::<Vec<Vec<f64>>>());
        let solver = solver.with_sd_tolerance(1e-11).expect("a tolerance");
        let most = 400 * n as u64;
        let run = Executor::new(Cost(f), solver).configure(|state| state.max_iters(most)).run();
        let state = run.expect("a minimum").state;
        let found = (state.best_cost, state.best_param.expect("a place"));
        let done = best.0 - found.0 < 1e-8;
        best = if found.0 < best.0 { found } else { best };
        if done {
            return best;
        }
    }
}

/// A function as argmin minimises it.
struct Cost<'a>(&'a dyn Fn(&[f64]) -> f64);

impl CostFunction for Cost<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, at: &Vec<f64>) -> Result<f64, argmin::core::Error> {
        Ok((self.0)(at))
    }
}

/// Returns minus the log likelihood of a linear mixed model by dense algebra: an intercept and a
/// slope of the input, correlated intercepts and slopes by the first code, intercepts by the
/// second. Parameters are three log standard deviations, artanh of the correlation, and the log
/// standard deviation of the noise.
fn dense(x: &Mat<f64>, y: &[f64], at: &[f64]) -> f64 {
    let n = y.len();
    let [a, slope, b, noise] = [0, 1, 2, 4].map(|k| at[k].exp());
    let rho = at[3].tanh();
    let v = Mat::from_fn(n, n, |i, j| {
        let (s, t) = (x[(i, 0)], x[(j, 0)]);
        let first = a * a + rho * a * slope * (s + t) + slope * slope * s * t;
        let same = |column: usize| f64::from(x[(i, column)] == x[(j, column)]);
        same(1) * first + same(2) * b * b + if i == j { noise * noise } else { 0.0 }
    });
    let Ok(factor) = v.llt(Side::Lower) else { return f64::INFINITY };
    let fixed = Mat::from_fn(n, 2, |i, j| if j == 0 { 1.0 } else { x[(i, 0)] });
    let target = Mat::from_fn(n, 1, |i, _| y[i]);
    let information = fixed.transpose() * factor.solve(&fixed);
    let beta =
        information.llt(Side::Lower).expect("full rank").solve(fixed.transpose() * factor.solve(&target));
    let rest = &target - &fixed * beta;
    let log_det: f64 = (0..n).map(|i| factor.L()[(i, i)].ln()).sum();
    log_det + 0.5 * (rest.transpose() * factor.solve(&rest))[(0, 0)]
}

#[test]
fn intervals_of_crossed_groupings_with_a_slope_are_profiles_of_the_dense_likelihood() {
    let (n, mut normals) = (96, Normals::new(12));
    let (a, s, b) = (normals.vec(12), normals.vec(12), normals.vec(8));
    let inputs = normals.vec(n);
    let code = |i: usize, j: usize| if j == 1 { (i % 12) as f64 } else { ((i / 12 + i) % 8) as f64 };
    let x = Mat::from_fn(n, 4, |i, j| match j {
        0 | 3 => inputs[i],
        _ => code(i, j),
    });
    let y: Vec<f64> = (0..n)
        .map(|i| {
            let (g, h, t) = (x[(i, 1)] as usize, x[(i, 2)] as usize, x[(i, 0)]);
            2.0 + t + a[g] + (0.5 * a[g] + 0.6 * s[g]) * t + 0.8 * b[h] + 0.5 * normals.next()
        })
        .collect();
    let slopes = slopes("a", 12, 0, &[2]);
    let model = fit(&linear(vec![slopes, EffectTerm::intercepts("b", 8, 1)]), x.as_ref(), &y);
    let components = model.variance_components();
    let value = |at: &[f64]| dense(&x, &y, at);
    let estimate = [
        components[0].sd.ln(),
        components[1].sd.ln(),
        components[2].sd.ln(),
        components[1].correlations[0].atanh(),
        model.residual_deviation().expect("noise").ln(),
    ];
    let (all, best) = least_near(&value, &estimate);
    // The estimates are at the optimum: fits end within about 1e-4 nats of it.
    assert!(value(&estimate) - all < 1e-3, "{estimate:?} {best:?}");
    let of_correlation = components[1].correlation_intervals[0].expect("an interval").map(f64::atanh);
    let deviations = [0, 1, 2].map(|k| components[k].interval.expect("an interval").map(f64::ln));
    let noise = model.residual_interval().expect("an interval").map(f64::ln);
    let ends = deviations.into_iter().chain([of_correlation, noise]);
    for (place, ends) in ends.enumerate() {
        for (side, end) in [(-1.0, ends[0]), (1.0, ends[1])] {
            let others = |at: &[f64]| {
                let mut full = at.to_vec();
                full.insert(place, end);
                value(&full)
            };
            let mut start = best.clone();
            start.remove(place);
            let (profile, _) = least_near(&others, &start);
            let deviate = (2.0 * (profile - all)).sqrt();
            assert!((deviate - DEVIATE).abs() < TOLERANCE, "parameter {place}, side {side}: {deviate}");
        }
    }
}
