//! Fits from several starts: they escape a bad local optimum and report all starts; a single start
//! is an ordinary fit.

use super::common::fit_columns as fit;
use super::common::*;

/// Returns a fast oscillation, which looks like noise at the starting lengthscale.
fn oscillation(n: usize) -> (Mat<f64>, Vec<f64>) {
    let mut normals = Normals::new(1);
    let x = Mat::from_fn(1, n, |_, j| 3.4 * (j as f64 / n as f64 - 0.5));
    let y = (0..n).map(|j| (8.0 * x[(0, j)]).sin() + 0.1 * normals.next()).collect();
    (x, y)
}

fn options(objective: ObjectiveKind, restarts: usize) -> FitOptions {
    let epochs = Some(if objective == ObjectiveKind::Vfe { 60 } else { 10 });
    FitOptions {
        objective,
        restarts,
        inducing: Some(40),
        epochs,
        steps: batches_of(60),
        ..FitOptions::default()
    }
}

fn noise(fitted: &Fitted) -> f64 {
    fitted.model.noise_variance().expect("Gaussian")
}

#[test]
fn restarts_escape_an_optimum_in_which_noise_explains_everything() {
    let (x, y) = oscillation(120);
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Elbo] {
        // The spread of the inputs: a start from the data would find the oscillation at once.
        let start = vec!["kernel.lengthscales=1".parse().expect("a value")];
        let options = |objective, restarts| FitOptions {
            constraints: Constraints { start: start.clone(), ..Constraints::default() },
            ..options(objective, restarts)
        };
        let stuck = fit(&x, &y, &options(objective, 1)).expect("one start");
        assert!(noise(&stuck) > 0.3, "{objective}: noise {}", noise(&stuck));
        assert!(stuck.search.restarts.is_empty());
        let found = fit(&x, &y, &options(objective, 6)).expect("six starts");
        assert!(noise(&found) < 0.05, "{objective}: noise {}, {:?}", noise(&found), found.search.restarts);
        assert!(found.summary.objective < stuck.summary.objective - 0.5);
    }
}

fn chosen(restarts: &[Restart]) -> &Restart {
    let mut chosen = restarts.iter().filter(|restart| restart.chosen);
    let one = chosen.next().expect("a chosen start");
    assert!(chosen.next().is_none(), "{restarts:?}");
    one
}

#[test]
fn halving_keeps_the_better_half_and_reports_every_score() {
    let (x, y) = oscillation(120);
    let fitted = fit(&x, &y, &FitOptions { seed: 5, ..options(ObjectiveKind::Vfe, 5) }).expect("a fit");
    let restarts = &fitted.search.restarts;
    let seeds: Vec<(usize, u64)> = restarts.iter().map(|restart| (restart.start, restart.seed)).collect();
    assert_eq!(seeds, [(0, 5), (1, 6), (2, 7), (3, 8), (4, 9)]);
    // Five starts, then three, then two.
    let took_part = |rung: usize| restarts.iter().filter(move |restart| restart.scores.len() > rung);
    assert_eq!([0, 1, 2, 3].map(|rung| took_part(rung).count()), [5, 3, 2, 0]);
    for rung in 0..2 {
        let (on, out): (Vec<_>, Vec<_>) =
            took_part(rung).partition(|restart| restart.scores.len() > rung + 1);
        let score = |restart: &&Restart| restart.scores[rung].expect("a score");
        let worst = on.iter().map(score).fold(f64::NEG_INFINITY, f64::max);
        assert!(out.iter().map(score).all(|score| score >= worst), "{restarts:?}");
    }
    let best =
        took_part(2).map(|restart| restart.scores[2]).min_by(|a, b| a.partial_cmp(b).expect("numbers"));
    assert_eq!(best, Some(chosen(restarts).scores[2]));
    assert!(fitted.summary.objective <= chosen(restarts).scores[2].expect("a score") + 1e-9);
}

#[test]
fn one_start_is_an_ordinary_fit() {
    let (x, y) = data(2, 2, 150);
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Elbo] {
        let quick = |restarts| FitOptions { epochs: Some(4), ..options(objective, restarts) };
        let default = FitOptions { restarts: FitOptions::default().restarts, ..quick(7) };
        let natural = |options: &FitOptions| fit(&x, &y, options).expect("a fit").model.natural();
        assert_eq!(natural(&quick(1)), natural(&default));
        let search = fit(&x, &y, &quick(4)).expect("a fit").search;
        let starts: Vec<_> = search.restarts.iter().map(|restart| restart.scores[0]).collect();
        assert!((1..4).all(|i| starts[i] != starts[0]), "{starts:?}");
    }
}
