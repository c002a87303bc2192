//! Several outputs that mix processes, given neighbours: their sites are those of all outputs together.

use faer::{Mat, MatRef};
use sparsegp::data::Scaling;
use sparsegp::hyper::{Event, Session};
use sparsegp::likelihood::{Gaussian, Likelihood, Marginal, Mixed, Observation, Outputs, Row, Slopes};
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, Hyper};
use sparsegp::quadrature::Integrator;
use sparsegp::training::{Fit, Fitted, OutputRows, fit_outputs, fit_shared_outputs, update_outputs};
use sparsegp_testkit::dense::{conditional, covariances, gram};

/// Returns inputs, and standardised targets of three outputs of two curves, of which some are missing.
fn rows(n: usize) -> (Mat<f64>, Vec<f64>) {
    let x = Mat::from_fn(n, 1, |i, _| (i as f64 * 0.618_034).fract() * 6.0 - 3.0);
    let target = |i: usize| {
        let (f, g) = ((2.0 * x[(i, 0)]).sin(), (3.0 * x[(i, 0)]).cos());
        let noise = |k: f64| 0.2 * (i as f64 * (1.7 + k)).sin();
        let third = if i.is_multiple_of(5) { f64::NAN } else { -1.1 * f + noise(2.0) };
        [1.2 * f + 0.3 * g + noise(0.0), 0.9 * f - 0.4 * g + noise(1.0), third]
    };
    let targets = (0..n).flat_map(target).collect();
    (x, targets)
}

fn names() -> Vec<String> {
    ["a", "b", "c"].map(str::to_owned).to_vec()
}

fn options(neighbours: usize) -> FitOptions {
    FitOptions { inducing: Some(6), neighbours: Some(neighbours), epochs: Some(8), ..FitOptions::default() }
}

#[test]
fn one_process_given_all_rows_is_the_dense_model_of_all_outputs() {
    let (x, targets) = rows(40);
    let rows = OutputRows { x: x.as_ref(), targets: &targets, weights: &[] };
    let fitted = fit_outputs(rows, &names(), 1, (&options(40), None), &[], &mut Session::new(&mut |_| {}))
        .expect("a fit");
    let outputs: Vec<Mixed> =
        fitted.iter().map(|fit| fit.model.likelihood.output(0).expect("an output")).collect();
    let kernel = fitted[0].model.layer().inducing().expect("a kernel").kernel();

    let cells: Vec<usize> = (0..targets.len()).filter(|&cell| !targets[cell].is_nan()).collect();
    let (row, output) = (|cell: usize| cell / 3, |cell: usize| &outputs[cell % 3]);
    let k = gram(kernel, x.as_ref());
    let covariance = Mat::from_fn(cells.len(), cells.len(), |i, j| {
        let (a, b) = (cells[i], cells[j]);
        let noise = if i == j { output(a).likelihood().gaussian_noise().expect("noise") } else { 0.0 };
        output(a).weights()[0] * output(b).weights()[0] * k[(row(a), row(b))] + noise
    });
    let errors: Vec<f64> = cells.iter().map(|&cell| targets[cell] - output(cell).offset()).collect();
    let new = Mat::from_fn(7, 1, |i, _| i as f64 - 3.1);
    let to_new = covariances(kernel, x.as_ref(), new.as_ref());
    let cross =
        Mat::from_fn(cells.len(), 7, |i, j| output(cells[i]).weights()[0] * to_new[(row(cells[i]), j)]);
    let dense = conditional(&covariance, &errors, &cross, &gram(kernel, new.as_ref()));

    let found = fitted[1].posterior.marginals(new.as_ref());
    for i in 0..7 {
        assert!((found.mean[i] - dense.mean[i]).abs() < 1e-6, "{} {}", found.mean[i], dense.mean[i]);
        let variance = dense.covariance[(i, i)];
        assert!((found.variance[i] - variance).abs() < 1e-6, "{} {variance}", found.variance[i]);
    }
}

#[test]
fn neighbours_help_outputs_that_mix_two_processes() {
    let (x, targets) = rows(300);
    let (new, known) = rows(500);
    let error = |neighbours: usize| {
        let rows = OutputRows { x: x.as_ref(), targets: &targets, weights: &[] };
        let (mut silent, options) = (|_: &Event| {}, options(neighbours));
        let session = &mut Session::new(&mut silent);
        let fitted = fit_outputs(rows, &names(), 2, (&options, None), &[], session).expect("a fit");
        let later: MatRef<'_, f64> = new.subrows(300, 200);
        let errors = fitted.iter().enumerate().map(|(p, fit)| {
            let (output, marginals) =
                (fit.model.likelihood.output(0).expect("an output"), fit.posterior.marginals(later));
            let error = |i: usize| {
                let f = output.offset()
                    + (0..2).map(|l| output.weights()[l] * marginals.row(i).mean[l]).sum::<f64>();
                known[3 * (300 + i) + p] - f
            };
            (0..200).map(error).filter(|error| !error.is_nan()).map(|error| error * error).sum::<f64>()
        });
        errors.sum::<f64>()
    };
    let (with, without) = (error(15), error(0));
    assert!(with < without, "{with} {without}");
}

#[test]
fn the_evidence_of_a_row_is_that_of_its_targets_one_after_the_other() {
    let output = |noise: f64, weights: [f64; 2], offset: f64| {
        Mixed::new(Box::new(Gaussian::new(noise)), weights.to_vec(), offset)
    };
    let with = |values: &[f64; 12]| {
        let outputs = values.chunks(4).map(|own| output(own[3], [own[0], own[1]], own[2]));
        Outputs::new(names().into_iter().zip(outputs).collect())
    };
    let values = [0.8, -0.3, 0.1, 0.2, 0.5, 1.1, -0.2, 0.4, -0.7, 0.6, 0.3, 0.1];
    let (mean, variance) = ([0.4, -0.6], [0.7, 1.3]);
    for targets in [[0.9, -1.2, 0.4], [0.9, f64::NAN, 0.4], [f64::NAN, f64::NAN, -2.0]] {
        let at = Observation { outputs: &targets, ..Observation::of(0.0) };
        let evidence = |values: &[f64; 12], mean: &[f64], variance: &[f64]| {
            let row = Row::new(at, Marginal { mean, variance });
            with(values).log_evidence(row, Slopes::none(), &mut Integrator::default())
        };
        // The distribution of both processes after each target in turn.
        let (mut m, mut s) = (mean, [[variance[0], 0.0], [0.0, variance[1]]]);
        let mut sum = 0.0;
        for (own, y) in values.chunks(4).zip(targets).filter(|(_, y)| !y.is_nan()) {
            let w = [own[0], own[1]];
            let load = [0, 1].map(|i| s[i][0] * w[0] + s[i][1] * w[1]);
            let spread = w[0] * load[0] + w[1] * load[1] + own[3];
            let error = y - own[2] - w[0] * m[0] - w[1] * m[1];
            sum -= 0.5 * ((std::f64::consts::TAU * spread).ln() + error * error / spread);
            for i in 0..2 {
                m[i] += load[i] * error / spread;
                (0..2).for_each(|j| s[i][j] -= load[i] * load[j] / spread);
            }
        }
        assert!((evidence(&values, &mean, &variance) - sum).abs() < 1e-12);

        let (mut by_mean, mut by_variance, mut own) = ([0.0; 2], [0.0; 2], [0.0; 12]);
        let slopes = Slopes { mean: &mut by_mean, variance: &mut by_variance, own: &mut own };
        let row = Row::new(at, Marginal { mean: &mean, variance: &variance });
        with(&values).log_evidence(row, slopes, &mut Integrator::default());
        let difference = |f: &dyn Fn(f64) -> f64| (f(1e-5) - f(-1e-5)) / 2e-5;
        for l in 0..2 {
            let moved = |of: [f64; 2], h: f64| [0, 1].map(|k| if k == l { of[k] + h } else { of[k] });
            let slope = difference(&|h| evidence(&values, &moved(mean, h), &variance));
            assert!((by_mean[l] - slope).abs() < 1e-8, "{} {slope}", by_mean[l]);
            let slope = difference(&|h| evidence(&values, &mean, &moved(variance, h)));
            assert!((by_variance[l] - slope).abs() < 1e-8, "{} {slope}", by_variance[l]);
        }
        for place in 0..12 {
            let slope = difference(&|h| {
                let mut values = values;
                values[place] += h;
                evidence(&values, &mean, &variance)
            });
            assert!((own[place] - slope).abs() < 1e-8, "{place}: {} {slope}", own[place]);
        }
    }
}

/// Fits three outputs to rows, with a kernel or two processes shared.
fn fitted(rows: OutputRows<'_>, mixed: bool, options: &FitOptions, start: &[&Model]) -> Vec<Model> {
    let (mut silent, n) = (|_: &Event| {}, rows.x.nrows());
    let session = &mut Session::new(&mut silent);
    let fitted = match mixed {
        true => fit_outputs(rows, &names(), 2, (options, None), start, session),
        false => fit_shared_outputs(rows, &names(), (options, None), start, session),
    };
    let model = |fit: Fitted| fit.into_model(Scaling::none(1), options, n);
    fitted.expect("a fit").into_iter().map(model).collect()
}

#[test]
fn outputs_start_from_models_and_updates_equal_fits_to_all_rows() {
    let (x, targets) = rows(120);
    let all = OutputRows { x: x.as_ref(), targets: &targets, weights: &[] };
    let first = OutputRows { x: x.subrows(0, 80), targets: &targets[..240], weights: &[] };
    let rest = OutputRows { x: x.subrows(80, 40), targets: &targets[240..], weights: &[] };
    let trained = FitOptions { inducing: Some(8), epochs: Some(6), ..FitOptions::default() };
    let fixed =
        FitOptions { hyper: Some(Hyper::Fixed), epochs: Some(60), tolerance: Some(0.0), ..trained.clone() };
    let joint = FitOptions { hyper: Some(Hyper::Joint), ..trained.clone() };
    let new = Mat::from_fn(9, 1, |i, _| 0.7 * i as f64 - 3.0);
    for (mixed, options) in [(true, &trained), (false, &trained), (false, &joint)] {
        let trained = fitted(first, mixed, options, &[]);
        let before = fitted(first, mixed, &fixed, &trained.iter().collect::<Vec<_>>());
        let start: Vec<&Model> = before.iter().collect();
        let again = fitted(all, mixed, &fixed, &start);
        let update = |rows| update_outputs(&start, rows, 0.0, &mut Session::new(&mut |_| {}));
        let (wide, unknown) = (Mat::zeros(40, 2), Mat::from_fn(40, 1, |_, _| f64::NAN));
        for (x, wanted) in [(&wide, "have 2 columns"), (&unknown, "NaN")] {
            let error = update(OutputRows { x: x.as_ref(), ..rest }).expect_err("a refusal").to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let updated = update(rest).expect("an update");
        for ((again, updated), before) in again.iter().zip(&updated).zip(&before) {
            assert_eq!(again.hyperparameters(), before.hyperparameters());
            let [again, updated, before] =
                [again, updated, before].map(|model| model.predict(new.as_ref(), &[]).expect("predictions"));
            let gap = |a: f64, b: f64| (a - b).abs();
            let [again, updated, before] = [again.row(4), updated.row(4), before.row(4)];
            // Processes that outputs mix are independent in q, so their correlations after the first rows are lost.
            let moved = gap(again.mean, before.mean);
            let most = if mixed { 0.1 * moved } else { 1e-5 };
            assert!(gap(again.mean, updated.mean) < most, "{mixed} {} {}", again.mean, updated.mean);
            assert!(gap(again.variance, updated.variance) < 1e-4);
            assert!(moved > 1e-4);
        }
    }
}

/// Fits to arrays in the user's units do not depend on the units of each output.
#[test]
fn outputs_in_their_own_units_are_fitted_alike() {
    let (x, targets) = rows(60);
    let y = |scale: f64| Mat::from_fn(60, 3, |i, p| 100.0 * p as f64 + scale * targets[3 * i + p]);
    let means = |scale: f64, processes: Option<usize>| -> Vec<Vec<f64>> {
        let options = FitOptions { inducing: Some(12), epochs: Some(60), ..FitOptions::default() };
        let models = Fit::of(options).fit_outputs(&x, y(scale), processes).expect("a fit");
        models.iter().map(|model| model.predict(&x, &[]).expect("predictions").means()).collect()
    };
    for processes in [None, Some(2)] {
        let (small, large) = (means(1.0, processes), means(50.0, processes));
        for (p, (small, large)) in small.iter().zip(&large).enumerate() {
            let centre = 100.0 * p as f64;
            let off = |i: usize| ((large[i] - centre) / 50.0 - (small[i] - centre)).abs();
            assert!((0..60).all(|i| off(i) < 1e-3), "output {p} with {processes:?}");
            let error = |i: usize| targets[3 * i + p] - (small[i] - centre);
            let known = (0..60).filter(|i| !targets[3 * i + p].is_nan());
            let mse = known.map(|i| error(i).powi(2)).sum::<f64>() / 60.0;
            assert!(mse < 0.15, "output {p} with {processes:?}: {mse}");
        }
    }
    let refused = Fit::of(FitOptions::default()).exposure(&[1.0; 60]).fit_outputs(&x, y(1.0), None);
    assert!(refused.expect_err("exposures").to_string().contains("cannot be combined with exposures"));
}

/// A fit that starts from a model with fixed hyper-parameters and the same rows is the model.
#[test]
fn a_fit_from_a_model_continues_from_its_hyper_parameters() {
    let (x, targets) = rows(60);
    let y: Vec<f64> = targets.iter().step_by(3).map(|y| 7.0 + 3.0 * y).collect();
    let options = FitOptions { inducing: Some(12), epochs: Some(3), ..FitOptions::default() };
    let first = Fit::of(options).fit(&x, &y).expect("a fit");
    let fixed = |options: &mut FitOptions| options.hyper = Some(Hyper::Fixed);
    let again = Fit::from_model(&first).with(fixed).fit(&x, &y).expect("a fit");
    let [a, b] = [&first, &again].map(|model| model.predict(&x, &[]).expect("predictions").means());
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6 * a.abs()));
    let longer =
        Fit::from_model(&first).with(|options| options.epochs = Some(100)).fit(&x, &y).expect("a fit");
    assert!(longer.summary().objective < first.summary().objective - 1e-3, "{}", longer.summary().objective);
    let stepped = Fit::from_model(&first).with(|options| options.hyper = Some(Hyper::Joint));
    let stepped = stepped.trainer(&x, &y).expect("a trainer").finish().expect("a model");
    assert!(stepped.summary().objective < first.summary().objective + 0.1);
    let refused = |change: fn(&mut FitOptions)| {
        let error = Fit::from_model(&first).with(change).trainer(&x, &y).err().expect("invalid options");
        error.to_string()
    };
    let other = refused(|options| options.likelihood = Some(sparsegp::likelihood::LikelihoodKind::StudentT));
    assert!(other.contains("the start model has the gaussian likelihood"), "{other}");
    let none = refused(|options| options.steps.batch_size = 0);
    assert!(none.contains("batch_size is 0"), "{none}");
    let narrow = Fit::from_model(&first).fit(Mat::<f64>::zeros(60, 2), &y).expect_err("columns").to_string();
    assert!(narrow.contains("2 columns"), "{narrow}");
}
