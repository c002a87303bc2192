//! Automatic choices on held-out training rows, `--inducing auto` and `--neighbours`: reported, reproducible, and correct on data whose truth
//! is known.

use faer::Mat;
use serde_json::Value;
use sparsegp::data::{InputWarp, TargetWarp};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, Open, Part};
use sparsegp::training::Fit;
use sparsegp_testkit::program::{Run, Work, assert_contains, csv_text};

/// Returns a coordinate of points that fill the unit square evenly (a Kronecker sequence).
fn unit(i: usize, d: usize) -> f64 {
    ((i + 1) as f64 * [2f64, 3.0][d].sqrt()).fract()
}

fn noise(i: usize) -> f64 {
    2.0 * ((i * i + 7 * i) as f64 * 0.618_034).fract() - 1.0
}

fn open(parts: &[Part]) -> FitOptions {
    let open = parts.iter().fold(Open::NOTHING, |open, &part| open.with(part));
    let kernel = "matern52(ard)".into();
    FitOptions { open, kernel, epochs: Some(30), inducing: Some(40), ..FitOptions::default() }
}

/// Fits a model to rows whose inputs and targets depend on the number of the row.
fn fitted(options: FitOptions, n: usize, x: impl Fn(usize, usize) -> f64, y: impl Fn(usize) -> f64) -> Model {
    let y: Vec<f64> = (0..n).map(y).collect();
    Fit::of(options).fit(Mat::from_fn(n, 2, x).as_ref(), &y).expect("a fit")
}

#[test]
fn skewed_inputs_and_targets_are_warped_and_others_are_not() {
    let smooth = |i: usize| (6.0 * unit(i, 0)).sin() + unit(i, 1);
    let warps = |model: &Model| (model.options().warp_inputs, model.options().warp_target);
    let parts = open(&[Part::WarpInputs, Part::WarpTarget]);
    let skewed = |i: usize, d: usize| (9.0 * unit(i, d)).exp();
    let model = fitted(parts.clone(), 400, skewed, |i| (2.0 * smooth(i) + 0.1 * noise(i)).exp());
    assert_eq!(warps(&model), (InputWarp::NormalScores, TargetWarp::Softplus));
    let model = fitted(parts, 400, unit, |i| 5.0 + smooth(i) + 0.1 * noise(i));
    assert_eq!(warps(&model), (InputWarp::None, TargetWarp::None));
    assert_eq!(model.options().open, Open::NOTHING);
}

#[test]
fn warped_predictions_are_in_the_units_of_the_target_also_after_loading() {
    let x = |i: usize, d: usize| (5.0 * unit(i, d)).exp();
    let log = |i: usize| (6.0 * unit(i, 0)).sin() + unit(i, 1);
    let at = Mat::from_fn(100, 2, |i, d| x(3000 + i, d));
    for warp_target in [TargetWarp::Log, TargetWarp::Softplus] {
        let options = FitOptions { warp_inputs: InputWarp::NormalScores, warp_target, ..open(&[]) };
        let model = fitted(options, 300, x, |i| (log(i) + 0.05 * noise(i)).exp());
        let loaded = Model::from_bytes("m", &model.to_bytes().expect("bytes")).expect("a model");
        let predictions = loaded.predict(at.as_ref(), &[]).expect("predictions");
        for row in 0..100 {
            let (truth, mean) = (log(3000 + row).exp(), predictions.row(row).mean);
            let [low, high] = [0.001, 0.999].map(|p| predictions.quantile(row, p));
            assert!((mean / truth - 1.0).abs() < 0.25, "{warp_target} {row}: {mean} and {truth}");
            assert!(low > 0.0 && low < mean && mean < high, "{low} {mean} {high}");
            // The density integrates to the distribution function.
            let width = (high - low) / 400.0;
            let density = |step| predictions.log_density(row, low + width * (f64::from(step) + 0.5)).exp();
            let integral: f64 = (0..400).map(|step| density(step) * width).sum();
            assert!((integral - 0.998).abs() < 1e-3, "{warp_target} {row}: {integral}");
            // The score is twice the mean pinball loss of quantiles (Gneiting & Raftery 2007).
            let pinball = (0..1000).map(|i| (f64::from(i) + 0.5) / 1000.0).map(|p| {
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
    let rate = |i: usize| (1.0 + (5.0 * unit(i, 0)).sin()).exp();
    // A tenth of the rows has ten times the count.
    let y = |i: usize| (rate(i) * if i.is_multiple_of(10) { 10.0 } else { 0.6 }).round();
    let options = FitOptions { likelihood: Some(LikelihoodKind::Poisson), ..open(&[Part::Likelihood]) };
    let model = fitted(options, 500, unit, y);
    assert_eq!(model.options().likelihood, Some(LikelihoodKind::NegativeBinomial));
    let tried = &model.search().choices.as_ref().expect("choices").parts[0].tried;
    assert_eq!(tried.iter().map(|tried| &*tried.value).collect::<Vec<_>>(), ["negative-binomial", "poisson"]);
}

/// Returns a table of two inputs and a positive target; `warp` changes the first input.
fn positive(warp: impl Fn(f64) -> f64, log: impl Fn(usize, f64, f64) -> f64) -> Work {
    let row = |i: usize, a: f64, b: f64| format!("{},{b},{}", warp(a), log(i, a, b).exp());
    Work::with("data.csv", csv_text("a,b,y", 0..300, |i| row(i, unit(i, 0), unit(i, 1))))
}

fn skewed() -> Work {
    positive(|a| (6.0 * a).exp(), |i, a, b| (9.0 * a).sin() + 2.0 * (4.0 * b).cos() + 0.1 * noise(i))
}

/// Returns a table with a few outliers, for which the best warp and the best likelihood cannot be combined.
fn far_rows() -> Work {
    let far = |i: usize| if i.is_multiple_of(11) { [-0.8, 0.8][i % 2] } else { 0.0 };
    positive(|a| a, |i, a, b| 1.5 * (6.0 * a).sin() + b + 0.05 * noise(i) + far(i))
}

/// Returns the metrics documents of a fit with automatic choices, and of a fit with the options that the first one prints.
fn with_printed_options(work: &Work, rest: &str) -> [Value; 2] {
    let text = work.text(&format!("fit data.csv --target y --auto all --metrics first.json --quiet {rest}"));
    let from = text.find("--auto none").expect("the options");
    let joined = text[from..].lines().take_while(|line| line.starts_with(' ') || line.starts_with("--auto"));
    let options = joined.map(str::trim).collect::<Vec<_>>().join(" ");
    // The quotes are for a shell.
    let words = shlex::split(&options).expect("words");
    let mut command = work.command("fit data.csv --target y --auto none --metrics second.json --quiet");
    command.args(rest.split_whitespace()).args(&words[2..]);
    Run(command.output().expect("the program runs")).ok();
    ["first.json", "second.json"].map(|name| work.json(name))
}

#[test]
fn the_options_that_are_printed_give_the_same_fit() {
    for work in [skewed(), far_rows()] {
        let [first, second] = with_printed_options(&work, "--epochs 20 --test-fraction 0.2");
        assert_eq!(first["hyperparameters"], second["hyperparameters"]);
        assert_eq!(first["test"], second["test"]);
        let parts = first["fit"]["choices"]["parts"].as_array().expect("parts");
        let is_tried = |part: &Value| part["tried"].as_array().is_some_and(|tried| !tried.is_empty());
        assert!(parts.len() >= 3 && parts.iter().all(is_tried), "{parts:?}");
        assert!(second["fit"]["choices"].is_null());
        // With a warp that keeps predictions positive, no likelihood that allows negative targets is chosen.
        let options = &first["config"];
        assert!(options["warp_target"] == "none" || options["likelihood"] == "gaussian", "{options}");
    }
}

#[test]
fn options_are_printed_also_after_a_time_limit() {
    let [first, second] = with_printed_options(&skewed(), "--max-seconds 0.05 --test-fraction 0.2");
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
    let work = Work::with("t.csv", text);
    work.prints("fit t.csv --target y --weights w --quiet --auto all", &[" rbf, "]);
}

/// 30 held-out rows preferred 20 neighbours to an exact GP, which already uses all rows.
#[test]
fn neighbours_do_not_replace_an_exact_fit() {
    let text = csv_text("t,v", 0..100, |i| {
        let t = (0.754_877_7 * (i * i) as f64 + 0.3 * i as f64).fract();
        format!("{t:.5},{:.4}", (10.0 * std::f64::consts::PI * t + 1.0).sin() + 0.34 * noise(i))
    });
    let text = Work::with("t.csv", text).text("fit t.csv --target v --quiet --auto all");
    assert!(text.contains(" rbf, 100 inducing inputs\n"), "{text}");
}

const FIT: &str =
    "fit data.csv --target y --kernel matern32 --epochs 5 --tolerance 0 --quiet --test-fraction 0.2";

#[test]
fn found_inducing_inputs_are_in_messages_documents_figures_and_models() {
    let work = Work::new();
    let search = "--objective vfe --inducing auto --inducing-tolerance 8 --max-inducing 90";
    let words =
        ["inducing inputs found", "tried 32", "within 8 nats", "distance to the exact GP", "KL at most"];
    work.prints(&format!("{FIT} {search} --metrics j --report r.html --model-out m"), &words);
    let document = work.json("j");
    let curve = &document["fit"]["inducing_curve"];
    for point in curve.as_array().expect("a curve") {
        assert!(["m", "lower", "upper", "gap", "seconds"].iter().all(|key| point[key].is_number()));
        assert!(point["validation"].is_null());
    }
    let certificate = &document["fit"]["inducing_certificate"];
    let (lower, upper) = (certificate["lower"].as_f64(), certificate["upper"].as_f64());
    assert_eq!(certificate["kl"].as_f64(), upper.zip(lower).map(|(upper, lower)| upper - lower));
    assert_eq!(certificate["chosen"], document["config"]["inducing"]);
    assert_eq!(document["config"]["inducing_auto"], true);
    assert_contains(&certificate["words"].to_string(), &["Kullback-Leibler", "8 nats"]);
    assert_contains(&work.read("r.html"), &["upper bound", "KL at most"]);

    work.prints("inspect m", &["tried 32", "KL at most"]);
    assert_eq!(work.run("inspect m --json").json()["fit"]["inducing_curve"], *curve);
    // A fit that starts from the model takes its inducing inputs, but trains a new posterior.
    let next = work.run("fit data.csv --target y --from m --hyper fixed --json --quiet").json();
    assert_eq!(next["config"]["inducing"], document["config"]["inducing"]);
    assert!(next["fit"]["inducing_curve"].is_null());
}

#[test]
fn neighbours_are_in_messages_documents_and_models() {
    let work = Work::new();
    // 96 of 120 rows are training rows, and 28 of these judge the choices.
    let judged = ["by the log loss of 28 held-out rows"];
    work.prints(&format!("{FIT} --neighbours auto --inducing 20 --metrics j --model-out m"), &judged);
    work.prints("inspect m", &judged);
    let document = work.json("j");
    let parts = document["fit"]["choices"]["parts"].as_array().expect("parts");
    assert_eq!((parts.len(), parts[0]["part"].as_str()), (1, Some("neighbours")));
    let tried = parts[0]["tried"].as_array().expect("numbers of neighbours");
    // None, and then larger numbers until one does not help.
    let values: Vec<&str> = tried.iter().filter_map(|one| one["value"].as_str()).collect();
    assert!(["none", "20", "50", "100"].starts_with(&values) && values.len() > 2, "{values:?}");
    let chosen = tried.iter().find(|one| one["chosen"] == true).expect("one of them");
    let number = document["config"]["neighbours"].as_u64();
    assert_eq!(chosen["value"], number.map_or("none".to_owned(), |number| number.to_string()));

    let few = format!("{FIT} --neighbours 8 --keep-rows 60 --keep-single --model-out k");
    work.prints(&few, &["inducing inputs, 8 neighbours"]);
    work.prints("inspect k", &["8 nearest of 60 training rows, kept in single precision"]);
    assert_eq!(work.text("predict k data.csv --out -").lines().count(), 121);
    // The hyper-parameters of a model with neighbours can start a fit with another number of neighbours.
    let next = "fit data.csv --target y --from k --hyper fixed --json --quiet --neighbours";
    assert_eq!(work.run(&format!("{next} 20")).json()["config"]["neighbours"], 20);
    work.refuses(2, next, &[("auto", &["--neighbours auto", "--from"])]);
}

#[test]
fn averages_over_hyper_parameters_are_told_and_kept() {
    let work = Work::new();
    let fit = "fit data.csv --target y --auto none --inducing 20 --model-out";
    work.prints(&format!("{fit} one --metrics one.json"), &["kernel.variance"]);
    work.prints(&format!("{fit} all --hyper-posterior laplace --metrics all.json"), &[" to "]);
    work.prints("inspect all", &["hyper-posterior", "sets averaged, intervals"]);
    let (one, all) = (work.json("one.json"), work.json("all.json"));
    assert_eq!(one["hyperparameters"], all["hyperparameters"]);
    assert!(one["hyperparameter_intervals"].is_null());
    let intervals = all["hyperparameter_intervals"].as_object().expect("intervals");
    for (name, value) in all["hyperparameters"].as_object().expect("values") {
        let (value, ends) = (value.as_f64(), &intervals[name]);
        assert!(ends[0].as_f64() < value && value < ends[1].as_f64(), "{name}: {value:?} in {ends}");
    }
    let cells = |model: &str| work.text(&format!("predict {model} data.csv --out -"));
    assert_ne!(cells("one"), cells("all"));
    // An update keeps the hyper-parameters of the fit alone.
    work.run("update all data.csv --model-out more").ok();
    assert!(!work.text("inspect more").contains("sets averaged"));
    let told = work.run(&format!("{fit} near --neighbours 5 --hyper-posterior laplace"));
    assert_contains(
        &told.stderr(),
        &["--hyper-posterior laplace has no effect", "because the model has neighbours"],
    );
}
