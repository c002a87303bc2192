//! Ways to train against each other: all of them end near the collapsed bound, and the best validated parameters are kept. Fits from several
//! starts escape a bad local optimum and report all starts.

use super::common::{fit_columns as fit, *};

fn options(objective: ObjectiveKind) -> FitOptions {
    FitOptions { objective, inducing: Some(25), steps: batches_of(100), ..FitOptions::default() }
}

#[test]
fn every_way_to_train_ends_near_the_collapsed_bound() {
    let (x, y) = data(1, 2, 600);
    let vfe = fit(&x, &y, &options(ObjectiveKind::Vfe)).expect("vfe").summary.objective;
    let elbo = || options(ObjectiveKind::Elbo);
    let batches = |q_update, warm_start| FitOptions {
        warm_start,
        learning_rate: 0.02,
        steps: StepOptions { q_update, ..elbo().steps },
        ..elbo()
    };
    let together =
        FitOptions { hyper: Some(Hyper::Joint), hyper_optimizer: Some(HyperOptimizer::Lbfgs), ..elbo() };
    for (what, options, tolerance) in [
        ("ngd", batches(QUpdate::Ngd, 100), 0.005),
        ("ngd without a warm start", batches(QUpdate::Ngd, 0), 0.03),
        ("adam", batches(QUpdate::Adam, 100), 0.005),
        ("alternating", FitOptions { hyper: Some(Hyper::Alternating), ..elbo() }, 0.001),
        ("everything by L-BFGS", FitOptions { tolerance: Some(1e-9), epochs: Some(3000), ..together }, 0.001),
    ] {
        let summary = fit(&x, &y, &options).expect("elbo").summary;
        let gap = summary.objective - vfe;
        assert!(gap < tolerance, "{what}: {gap} nats a datum above");
        assert_eq!(summary.elbo_sum, Some(-summary.objective_sum), "{what}");
    }
}

#[test]
fn the_best_validated_parameters_of_full_batch_searches_are_kept() {
    let (x, y) = data(3, 2, 90);
    let part = |from: usize, rows: usize| Dataset {
        x: x.transpose().subrows(from, rows),
        targets: Targets::of(&y[from..from + rows]),
    };
    let (train, validation) = (part(0, 60), part(60, 30));
    for hyper in [Hyper::Collapsed, Hyper::Alternating] {
        let options = FitOptions { hyper: Some(hyper), tolerance: Some(0.0), patience: 8, ..small(25, 60) };
        let data = TrainingData { train, validation: Some(validation), levels: 0 };
        let fitted = fit_arrays(data, &options, None, &mut |_| {}).expect("a fit");
        let scores = fitted.summary.trace.iter().map(|record| record.validation_nll.expect("a score"));
        let best = scores.fold(f64::INFINITY, f64::min);
        let kept = fitted.posterior.score(validation, Score::LogLoss);
        assert!((kept - best).abs() < 1e-9, "{hyper}: kept {kept}, best {best}");
    }
}

/// Returns a fast oscillation, which looks like noise at the starting lengthscale.
fn oscillation(n: usize) -> (Mat<f64>, Vec<f64>) {
    let mut normals = Normals::new(1);
    let x = Mat::from_fn(1, n, |_, j| 3.4 * (j as f64 / n as f64 - 0.5));
    let y = (0..n).map(|j| (8.0 * x[(0, j)]).sin() + 0.1 * normals.next()).collect();
    (x, y)
}

fn restarted(objective: ObjectiveKind, restarts: usize) -> FitOptions {
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
            ..restarted(objective, restarts)
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
    let fitted = fit(&x, &y, &FitOptions { seed: 5, ..restarted(ObjectiveKind::Vfe, 5) }).expect("a fit");
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
        let quick = |restarts| FitOptions { epochs: Some(4), ..restarted(objective, restarts) };
        let default = FitOptions { restarts: FitOptions::default().restarts, ..quick(7) };
        let natural = |options: &FitOptions| fit(&x, &y, options).expect("a fit").model.natural();
        assert_eq!(natural(&quick(1)), natural(&default));
        let search = fit(&x, &y, &quick(4)).expect("a fit").search;
        let starts: Vec<_> = search.restarts.iter().map(|restart| restart.scores[0]).collect();
        assert!((1..4).all(|i| starts[i] != starts[0]), "{starts:?}");
    }
}
