//! Offsets, known additions to the functions: against exposures, shifted targets and shifted means.

use faer::{Mat, MatRef};
use sparsegp::effects::EffectTerm;
use sparsegp::kernels::Stationary;
use sparsegp::likelihood::{Bernoulli, Gaussian, GaussianHeteroskedastic, Poisson, StudentT};
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, Hyper, ObjectiveKind};
use sparsegp::training::{Fit, Inducing, Latent, Linear, Points};

const ROWS: usize = 150;

/// A number in [0, 1) that looks random.
fn noise(i: usize) -> f64 {
    let x = (i as f64 * 12.9898).sin() * 43_758.547;
    x - x.floor()
}

fn inputs() -> Mat<f64> {
    Mat::from_fn(ROWS, 1, |i, _| i as f64 / 15.0)
}

/// Offsets that vary by row.
fn offset(i: usize) -> f64 {
    0.5 + 1.5 * noise(7 * i + 3)
}

fn beside(x: MatRef<'_, f64>, last: impl Fn(usize) -> f64) -> Mat<f64> {
    Mat::from_fn(x.nrows(), x.ncols() + 1, |i, d| if d < x.ncols() { x[(i, d)] } else { last(i) })
}

fn counts() -> Vec<f64> {
    (0..ROWS).map(|i| (offset(i) + 0.8 * (i as f64 / 15.0).sin() + noise(i)).exp().round()).collect()
}

fn sparse() -> Latent {
    Inducing::new(Stationary::rbf(1.0, &[2.0])).points(Points::KMeans(12)).into()
}

#[track_caller]
fn same(
    what: &str,
    a: &Model,
    x: MatRef<'_, f64>,
    b: &Model,
    with: MatRef<'_, f64>,
    exposure: &[f64],
    tolerance: f64,
) {
    let (a, b) = (a.predict(x, exposure).expect("predictions"), b.predict(with, &[]).expect("predictions"));
    for row in 0..x.nrows() {
        let (a, b) = (a.row(row), b.row(row));
        let close = |a: f64, b: f64| (a - b).abs() <= tolerance * (1.0 + a.abs());
        assert!(close(a.mean, b.mean) && close(a.variance, b.variance), "{what}, row {row}: {a:?}, {b:?}");
    }
}

fn fixed(options: &mut FitOptions) {
    options.hyper = Some(Hyper::Fixed);
}

/// The difference that is due to where training ends.
fn tolerance(way: &str) -> f64 {
    match way {
        "default" | "neighbours" => 1e-5,
        "batches" | "diagonal" | "direct" => 1e-3,
        _ => 1e-2,
    }
}

/// A change of the options of a fit.
type Change = (&'static str, fn(&mut FitOptions));

/// Ways to train; most have a pass of their own. Hyper-parameters stay at the values of the kernel, so that there is one solution;
/// with "trained" and "sites" they do not.
const WAYS: [Change; 7] = [
    ("default", |_| {}),
    ("direct", |options| options.objective = ObjectiveKind::DlmLog),
    ("batches", |options| {
        options.hyper = Some(Hyper::Fixed);
        options.steps.batch_size = 40;
        options.epochs = Some(20);
    }),
    ("neighbours", |options| options.neighbours = Some(6)),
    ("trained", |options| options.hyper = None),
    ("sites", |options| options.hyper = Some(Hyper::Dual)),
    ("diagonal", |options| options.steps.family = sparsegp::variational::Family::Diagonal),
];

#[test]
fn logarithms_of_exposures_are_offsets_of_counts() {
    let (x, y) = (inputs(), counts());
    let exposure: Vec<f64> = (0..ROWS).map(|i| offset(i).exp()).collect();
    let with = beside(x.as_ref(), offset);
    for (name, change) in WAYS {
        for latent in [sparse(), Linear::default().into()] {
            if matches!(latent, Latent::Linear(_)) && ["neighbours", "sites"].contains(&name) {
                continue;
            }
            let fit = || Fit::new(latent.clone(), Poisson::Exp).with(fixed).with(change);
            let exposed =
                fit().exposure(&exposure).fit(x.as_ref(), &y).unwrap_or_else(|e| panic!("{name}: {e}"));
            let shifted = fit().offset(1).fit(with.as_ref(), &y).unwrap_or_else(|e| panic!("{name}: {e}"));
            same(name, &exposed, x.as_ref(), &shifted, with.as_ref(), &exposure, tolerance(name));
        }
    }
}

#[test]
fn offsets_of_gaussian_targets_are_subtracted_from_them() {
    let x = inputs();
    let rest: Vec<f64> = (0..ROWS).map(|i| 3.0 + (i as f64 / 15.0).sin() + 0.2 * noise(i)).collect();
    let offset = |i: usize| 100.0 * offset(i);
    let y: Vec<f64> = (0..ROWS).map(|i| rest[i] + offset(i)).collect();
    let with = beside(x.as_ref(), offset);
    let zero = beside(x.as_ref(), |_| 0.0);
    for (name, change) in WAYS {
        let fit = || Fit::new(sparse(), Gaussian::default()).with(fixed).with(change);
        if name == "sites" {
            continue;
        }
        let plain = fit().fit(x.as_ref(), &rest).expect("a fit");
        let shifted = fit().offset(1).fit(with.as_ref(), &y).expect("a fit");
        same(name, &plain, x.as_ref(), &shifted, zero.as_ref(), &[], tolerance(name));
        let (at, without) =
            (shifted.predict(with.as_ref(), &[]).unwrap(), shifted.predict(zero.as_ref(), &[]).unwrap());
        for row in 0..ROWS {
            assert!((at.quantile(row, 0.9) - without.quantile(row, 0.9) - offset(row)).abs() < 1e-9);
            assert!((at.log_density(row, y[row]) - without.log_density(row, rest[row])).abs() < 1e-9);
        }
        let draws =
            (shifted.samples(with.as_ref(), 2, 1).unwrap(), shifted.samples(zero.as_ref(), 2, 1).unwrap());
        let (a, b) = (&draws.0[1], &draws.1[1]);
        assert!(a.iter().zip(b).enumerate().all(|(row, (a, b))| (a - b - offset(row)).abs() < 1e-9));
    }
}

#[test]
fn equal_offsets_move_the_constant_mean() {
    let x = inputs();
    let classes: Vec<f64> =
        (0..ROWS).map(|i| f64::from(noise(i) < 0.5 + 0.4 * (i as f64 / 15.0).sin())).collect();
    let heavy: Vec<f64> = (0..ROWS)
        .map(|i| (i as f64 / 15.0).sin() + 0.3 * noise(i) + if i % 29 == 0 { 4.0 } else { 0.0 })
        .collect();
    let two = beside(x.as_ref(), |_| 2.0);
    for (name, change) in WAYS {
        let of_classes =
            |offsets: usize| Fit::new(sparse(), Bernoulli::Logit).with(fixed).with(change).offset(offsets);
        let of_numbers = |offsets: usize| {
            Fit::new(sparse(), StudentT::new(0.3, 4.0)).with(fixed).with(change).offset(offsets)
        };
        for (of, y) in [(&of_classes as &dyn Fn(usize) -> Fit, &classes), (&of_numbers, &heavy)] {
            let plain = of(0).fit(x.as_ref(), y).unwrap_or_else(|e| panic!("{name}: {e}"));
            let shifted = of(1).fit(two.as_ref(), y).unwrap_or_else(|e| panic!("{name}: {e}"));
            same(name, &plain, x.as_ref(), &shifted, two.as_ref(), &[], tolerance(name));
        }
    }
}

#[test]
fn every_function_has_an_offset_of_its_own() {
    let x = inputs();
    let y: Vec<f64> =
        (0..ROWS).map(|i| (i as f64 / 15.0).sin() + (noise(i) - 0.5) * (i as f64 / 40.0).exp()).collect();
    let moved = |x: MatRef<'_, f64>| beside(beside(x, |_| 0.5).as_ref(), |_| -0.7);
    for neighbours in [None, Some(5)] {
        let fit = |offsets: usize| {
            let likelihood = GaussianHeteroskedastic::new();
            Fit::new(sparse(), Box::new(likelihood) as Box<dyn sparsegp::likelihood::Likelihood>)
                .with(fixed)
                .with(|options| options.neighbours = neighbours)
                .offset(offsets)
        };
        let plain = fit(0).fit(x.as_ref(), &y).expect("a fit");
        let with = moved(x.as_ref());
        let shifted = fit(2).fit(with.as_ref(), &y).expect("a fit");
        same("two functions", &plain, x.as_ref(), &shifted, with.as_ref(), &[], 1e-4);
        let without = beside(beside(x.as_ref(), |_| 0.0).as_ref(), |_| 0.0);
        let (a, b) =
            (shifted.predict(with.as_ref(), &[]).unwrap(), shifted.predict(without.as_ref(), &[]).unwrap());
        let noise = (a.details(4)[0], b.details(4)[0]);
        assert!((a.row(4).mean - b.row(4).mean - 0.5).abs() < 1e-9 && noise.0 < 0.9 * noise.1, "{noise:?}");
    }
}

#[test]
fn offsets_stand_behind_the_columns_of_groups() {
    let x = beside(inputs().as_ref(), |i| (i % 7) as f64);
    let y = counts();
    let exposure: Vec<f64> = (0..ROWS).map(|i| offset(i).exp()).collect();
    let with = beside(x.as_ref(), offset);
    let fit = || Fit::new(sparse(), Poisson::Exp).group(EffectTerm::intercepts("g", 7, 0));
    let exposed = fit().exposure(&exposure).fit(x.as_ref(), &y).expect("a fit");
    let shifted = fit().offset(1).fit(with.as_ref(), &y).expect("a fit");
    same("groups", &exposed, x.as_ref(), &shifted, with.as_ref(), &exposure, 1e-3);
    let bytes = shifted.to_bytes().expect("a file");
    let again = Model::from_bytes("model", &bytes).expect("a model");
    assert_eq!(again.options().offsets, 1);
    assert_eq!(
        again.predict(with.as_ref(), &[]).unwrap().row(3),
        shifted.predict(with.as_ref(), &[]).unwrap().row(3)
    );
}

#[test]
fn another_number_of_offsets_than_functions_is_refused() {
    let x = beside(inputs().as_ref(), |_| 0.0);
    let error =
        Fit::new(sparse(), Poisson::Exp).offset(2).fit(x.as_ref(), &counts()).expect_err("two columns");
    assert!(error.to_string().contains("offset"), "{error}");
    let error = Fit::new(sparse(), Poisson::Exp).offset(1).fit(inputs().as_ref(), &counts());
    assert!(error.is_err());
}
