//! Intervals of variance components against profiles of the dense marginal likelihood.

use super::common::*;
use argmin::core::{CostFunction, Executor};
use argmin::solver::neldermead::NelderMead;
use faer::Side;
use faer::linalg::solvers::Solve;

/// The deviate at both ends of a 95 % interval.
const DEVIATE: f64 = 1.959_963_984_540_054;

/// The tolerance of deviates. Searches end within 0.005 of the deviate, and fits at a slope of about 1e-6.
const TOLERANCE: f64 = 0.01;

/// The log standard deviation of effects that do not exist.
const NONE: f64 = -30.0;

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

/// Returns minus the (restricted) log likelihood of a linear mixed model by dense algebra: an
/// intercept and a slope of the input, correlated intercepts and slopes by the first code,
/// intercepts by the second. Parameters are three log standard deviations, artanh of the
/// correlation, and the log standard deviation of the noise.
fn dense(x: &Mat<f64>, y: &[f64], reml: bool, at: &[f64]) -> f64 {
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
    let information = information.llt(Side::Lower).expect("full rank");
    let rest = &target - &fixed * information.solve(fixed.transpose() * factor.solve(&target));
    let mut log_det: f64 = (0..n).map(|i| factor.L()[(i, i)].ln()).sum();
    if reml {
        log_det += (0..2).map(|i| information.L()[(i, i)].ln()).sum::<f64>();
    }
    log_det + 0.5 * (rest.transpose() * factor.solve(&rest))[(0, 0)]
}

#[test]
fn intervals_of_one_grouping_are_profiles_of_the_dense_likelihood() {
    for (reml, deviation) in [(false, 0.0), (false, 0.7), (true, 0.7), (true, 3.0)] {
        let (n, mut normals) = (72, Normals::new(3));
        let x = Mat::from_fn(n, 3, |i, j| [(i % 6) as f64, (i / 6) as f64, 0.0][j]);
        let (mut noise, effects) = (normals.vec(n), normals.vec(12));
        // The noise has no group means, so only effects make the means of groups differ.
        for group in noise.chunks_mut(6) {
            let mean = group.iter().sum::<f64>() / 6.0;
            group.iter_mut().for_each(|e| *e -= mean);
        }
        let y: Vec<f64> =
            (0..n).map(|i| 5.0 + 0.3 * x[(i, 0)] + deviation * effects[i / 6] + noise[i]).collect();
        let options = FitOptions { reml, ..linear(vec![EffectTerm::intercepts("g", 12, 0)]) };
        let model = fit(&options, x.subcols(0, 2), &y);
        let component = model.variance_components().remove(0);
        let share = model.intraclass_correlations().remove(0);
        let what = format!("reml {reml}, sd {deviation}: {component:?} {share:?}");
        // Log standard deviations of the effects and of the noise.
        let value = |effect: f64, noise: f64| dense(&x, &y, reml, &[effect, NONE, NONE, 0.0, noise]);
        let (all, _) = least_near(&|at| value(at[0], at[1]), &[-1.0, 0.0]);
        let deviate = |constrained: &dyn Fn(f64) -> f64| {
            let (profile, _) = least_near(&|at| constrained(at[0]), &[0.0]);
            (2.0 * (profile - all).max(0.0)).sqrt()
        };
        let check = |deviate: f64| assert!((deviate - DEVIATE).abs() < TOLERANCE, "{what}: {deviate}");
        let ends = component.interval.expect("an interval");
        let of_share = share.interval.expect("an interval");
        assert!(ends[0] <= component.sd && component.sd < ends[1], "{what}");
        assert!(of_share[0] <= share.share && share.share < of_share[1], "{what}");
        assert_eq!((ends[0] == 0.0, deviation == 0.0), (of_share[0] == 0.0, component.sd < 0.05), "{what}");
        for sd in ends.into_iter().filter(|sd| *sd > 0.0) {
            check(deviate(&|noise| value(sd.ln(), noise)));
        }
        if ends[0] == 0.0 {
            assert!(deviate(&|noise| value(NONE, noise)) < DEVIATE + TOLERANCE, "{what}");
        }
        for share in of_share.into_iter().filter(|share| *share > 0.0) {
            check(deviate(&|noise| value(noise + 0.5 * (share / (1.0 - share)).ln(), noise)));
        }
        for sd in model.residual_interval().expect("an interval") {
            check(deviate(&|effect| value(effect, sd.ln())));
        }
    }
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
    assert_kept(&model, x.as_ref());
    assert_eq!(model.level_effects().len(), 12 * 2 + 8);
    let components = model.variance_components();
    let value = |at: &[f64]| dense(&x, &y, false, at);
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
