//! Automatic choices on held-out training rows are reported and reproducible, and correct on data whose truth is known.

use faer::Mat;
use sparsegp::data::{InputWarp, TargetWarp};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, Open, Part};
use sparsegp::training::Fit;
use sparsegp_testkit::program::{Work, csv_text};

/// Returns points that fill the unit square evenly (a Kronecker sequence).
fn unit(n: usize, first: usize) -> Mat<f64> {
    Mat::from_fn(n, 2, |i, d| ((first + i + 1) as f64 * [2f64, 3.0][d].sqrt()).fract())
}

/// Returns pseudo-random noise between −1 and 1.
fn noise(i: usize) -> f64 {
    2.0 * ((i * i + 7 * i) as f64 * 0.618_034).fract() - 1.0
}

fn open(parts: &[Part]) -> FitOptions {
    let open = parts.iter().fold(Open::NOTHING, |open, &part| open.with(part));
    FitOptions {
        open,
        kernel: "matern52(ard)".into(),
        epochs: Some(30),
        inducing: Some(40),
        ..FitOptions::default()
    }
}

fn fitted(options: FitOptions, x: &Mat<f64>, y: &[f64]) -> Model {
    Fit::of(options).fit(x.as_ref(), y).expect("a fit")
}

#[test]
fn skewed_inputs_and_targets_are_warped_and_others_are_not() {
    let u = unit(400, 0);
    let smooth = |i: usize| (6.0 * u[(i, 0)]).sin() + u[(i, 1)];
    let skewed = Mat::from_fn(400, 2, |i, d| (9.0 * u[(i, d)]).exp());
    let positive: Vec<f64> = (0..400).map(|i| (2.0 * smooth(i) + 0.1 * noise(i)).exp()).collect();
    let plain: Vec<f64> = (0..400).map(|i| 5.0 + smooth(i) + 0.1 * noise(i)).collect();
    let parts = [Part::WarpInputs, Part::WarpTarget];
    let model = fitted(open(&parts), &skewed, &positive);
    assert_eq!(
        (model.options().warp_inputs, model.options().warp_target),
        (InputWarp::NormalScores, TargetWarp::Softplus)
    );
    let model = fitted(open(&parts), &u, &plain);
    assert_eq!(
        (model.options().warp_inputs, model.options().warp_target),
        (InputWarp::None, TargetWarp::None)
    );
    assert_eq!(model.options().open, Open::NOTHING);
}

#[test]
fn warped_predictions_are_in_the_units_of_the_target_also_after_loading() {
    let u = unit(300, 0);
    let x = Mat::from_fn(300, 2, |i, d| (5.0 * u[(i, d)]).exp());
    let log = |i: usize, u: &Mat<f64>| (6.0 * u[(i, 0)]).sin() + u[(i, 1)];
    let y: Vec<f64> = (0..300).map(|i| (log(i, &u) + 0.05 * noise(i)).exp()).collect();
    for warp_target in [TargetWarp::Log, TargetWarp::Softplus] {
        let options = FitOptions { warp_inputs: InputWarp::NormalScores, warp_target, ..open(&[]) };
        let model = fitted(options, &x, &y);
        let new = unit(100, 3000);
        let at = Mat::from_fn(100, 2, |i, d| (5.0 * new[(i, d)]).exp());
        let predictions = model.predict(at.as_ref(), &[]).expect("predictions");
        let again = Model::from_bytes("again", &model.to_bytes().expect("bytes")).expect("a model");
        let others = again.predict(at.as_ref(), &[]).expect("predictions");
        for row in 0..100 {
            let truth = log(row, &new).exp();
            let (mean, low, high) = (
                predictions.row(row).mean,
                predictions.quantile(row, 0.001),
                predictions.quantile(row, 0.999),
            );
            assert!((mean / truth - 1.0).abs() < 0.25, "{warp_target} {row}: {mean} and {truth}");
            assert!(low > 0.0 && low < mean && mean < high, "{low} {mean} {high}");
            assert_eq!(predictions.row(row), others.row(row));
            // The density integrates to the distribution function.
            let (mut integral, steps) = (0.0, 400);
            for step in 0..steps {
                let y = low + (high - low) * (f64::from(step) + 0.5) / f64::from(steps);
                integral += predictions.log_density(row, y).exp() * (high - low) / f64::from(steps);
            }
            assert!((integral - 0.998).abs() < 1e-3, "{warp_target} {row}: {integral}");
            // The score is twice the mean pinball loss of quantiles (Gneiting & Raftery 2007).
            let levels = (0..1000).map(|i| (f64::from(i) + 0.5) / 1000.0);
            let pinball = levels.map(|p| {
                let q = predictions.quantile(row, p);
                (truth - q) * (p - f64::from(u8::from(truth < q)))
            });
            let slow = 2.0 * pinball.sum::<f64>() / 1000.0;
            let found = predictions.crps(row, truth);
            assert!((found / slow - 1.0).abs() < 0.01, "{warp_target} {row}: {found} and {slow}");
        }
    }
}

#[test]
fn overdispersed_counts_get_another_likelihood_and_poisson_counts_a_close_one() {
    let u = unit(500, 0);
    let rate = |i: usize| (1.0 + (5.0 * u[(i, 0)]).sin()).exp();
    // A tenth of the rows has ten times the count.
    let y: Vec<f64> = (0..500).map(|i| (rate(i) * if i % 10 == 0 { 10.0 } else { 0.6 }).round()).collect();
    let options = FitOptions { likelihood: Some(LikelihoodKind::Poisson), ..open(&[Part::Likelihood]) };
    let model = fitted(options, &u, &y);
    assert_eq!(model.options().likelihood, Some(LikelihoodKind::NegativeBinomial));
    let tried = &model.search().choices.as_ref().expect("choices").parts[0].tried;
    assert_eq!(tried.iter().map(|tried| &*tried.value).collect::<Vec<_>>(), ["negative-binomial", "poisson"]);
}

/// Returns a table with a skewed target and local variation.
fn table() -> String {
    let u = unit(300, 0);
    csv_text("a,b,y", 0..300, |i| {
        let (a, b) = (u[(i, 0)], u[(i, 1)]);
        let y = ((9.0 * a).sin() + 2.0 * (4.0 * b).cos() + 0.1 * noise(i)).exp();
        format!("{},{b},{y}", (6.0 * a).exp())
    })
}

/// Returns a table with a positive target and a few outliers, for which the best warp and the best likelihood cannot be combined.
fn far_rows() -> String {
    let u = unit(300, 0);
    csv_text("a,b,y", 0..300, |i| {
        let (a, b) = (u[(i, 0)], u[(i, 1)]);
        let far = if i.is_multiple_of(11) { [-0.8, 0.8][i % 2] } else { 0.0 };
        format!("{a},{b},{}", (1.5 * (6.0 * a).sin() + b + 0.05 * noise(i) + far).exp())
    })
}

/// Returns the metrics documents of a fit with automatic choices, and of a fit with the options that the first one prints.
fn with_printed_options(work: &Work, rest: &str) -> [serde_json::Value; 2] {
    let run = work.run(&format!("fit data.csv --target y --auto all --metrics first.json --quiet {rest}"));
    let text = run.ok().stdout();
    let from = text.find("--auto none").expect("the options");
    let joined = text[from..].lines().take_while(|line| line.starts_with(' ') || line.starts_with("--auto"));
    let options = joined.map(str::trim).collect::<Vec<_>>().join(" ");
    // The quotes are for a shell, so they are removed here.
    let mut command = work.command("fit data.csv --target y --auto none --metrics second.json --quiet");
    command.args(rest.split_whitespace());
    let mut words = options.trim_start_matches("--auto none ").to_owned();
    while let Some(rest) = words.strip_prefix("--") {
        let (name, value) = rest.split_once(' ').expect("a value");
        let (value, left) = match value.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').expect("the other quote"),
            None => value.split_once(' ').unwrap_or((value, "")),
        };
        command.arg(format!("--{name}")).arg(value);
        words = left.trim().to_owned();
    }
    let second = command.output().expect("the program runs");
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    ["first.json", "second.json"].map(|name| work.json(name))
}

#[test]
fn the_options_that_are_printed_give_the_same_fit() {
    for (data, parts) in [(table(), 3), (far_rows(), 3)] {
        let work = Work::with("data.csv", &data);
        let [first, second] = with_printed_options(&work, "--epochs 20 --test-fraction 0.2");
        assert_eq!(first["hyperparameters"], second["hyperparameters"]);
        assert_eq!(first["test"], second["test"]);
        let found = first["fit"]["choices"]["parts"].as_array().expect("parts");
        assert!(
            found.len() >= parts
                && found.iter().all(|part| part["tried"].as_array().is_some_and(|tried| !tried.is_empty()))
        );
        assert!(second["fit"]["choices"].is_null());
        // With a warp that keeps predictions positive, no likelihood that allows negative targets is chosen.
        let options = &first["config"];
        assert!(options["warp_target"] == "none" || options["likelihood"] == "gaussian", "{options}");
    }
}

#[test]
fn options_are_printed_also_after_a_time_limit() {
    let work = Work::with("data.csv", &table());
    let [first, second] = with_printed_options(&work, "--max-seconds 0.05 --test-fraction 0.2");
    for option in ["kernel", "likelihood", "warp_inputs", "warp_target", "neighbours", "objective"] {
        assert_eq!(first["config"][option], second["config"][option], "{option}");
    }
    assert_eq!(first["config"]["kernel"], "matern32(ard)", "the first value of a part that was not compared");
}

/// Rows with a weight of 1/variance: held-out rows count by their weights, so noisy ones do not decide for a rough kernel.
#[test]
fn held_out_rows_count_by_their_weights() {
    let text = csv_text("x,w,y", 0..120, |i| {
        let x = 10.0 * (0.618_034 * i as f64).fract();
        let sd = (4.5 * (0.754_878 * i as f64).fract() - 4.0).exp();
        format!("{x:.4},{:.4},{:.5}", 0.001 / (sd * sd), x.sin() + 1.7 * sd * noise(i))
    });
    let work = Work::with("t.csv", &text);
    let text = work.run("fit t.csv --target y --weights w --quiet --auto all").ok().stdout();
    assert!(text.contains(" rbf, "), "{text}");
}

/// 30 held-out rows preferred 20 neighbours to an exact GP, which already uses all rows.
#[test]
fn neighbours_do_not_replace_an_exact_fit() {
    let text = csv_text("t,v", 0..100, |i| {
        let t = (0.754_877_7 * (i * i) as f64 + 0.3 * i as f64).fract();
        format!("{t:.5},{:.4}", (10.0 * std::f64::consts::PI * t + 1.0).sin() + 0.34 * noise(i))
    });
    let work = Work::with("t.csv", &text);
    let text = work.run("fit t.csv --target v --quiet --auto all").ok().stdout();
    assert!(text.contains(" rbf, 100 inducing inputs\n"), "{text}");
}
