//! The command line as a user sees it: commands, files, exit statuses and messages.

use serde_json::Value;
use sparsegp_testkit::program::{QUICK, Work, number, table};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

/// Returns the header and the rows of a CSV text without quotes.
fn cells(text: &str) -> (Vec<String>, Vec<Vec<f64>>) {
    let mut lines = text.lines();
    let names = lines.next().expect("a header").split(',').map(str::to_owned).collect();
    let number = |cell: &str| if cell.is_empty() { f64::NAN } else { cell.parse().expect("a number") };
    (names, lines.map(|line| line.split(',').map(number).collect()).collect())
}

#[test]
fn errors_about_bad_tables_name_the_location_and_leave_no_files() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("text among numbers", "x,y\n1,2\n2,3\nabc,5\n", &["row 3", "'x'", "\"abc\"", "expected a number"]),
        ("three classes", "x,y\n1,red\n2,blue\n4,green\n", &["'y'", "\"red\"", "two"]),
        ("ragged rows", "x,y\n1,2\n2,3,4\n5,6\n", &["bad.csv", "row 2"]),
        ("empty file", "", &["bad.csv", "empty"]),
    ];
    for (what, text, words) in cases {
        let work = Work::new();
        work.write("bad.csv", text);
        let run = work.run("fit bad.csv --target y --model-out m --metrics j --report r.html --quiet");
        println!("{what}");
        run.fails(3, words);
        assert_eq!(work.names(), ["bad.csv", "data.csv"], "{what}");
    }
    Work::new().run("fit absent.csv --target y").fails(3, &["absent.csv", "cannot be read"]);
}

#[test]
fn odd_but_usable_tables_are_fitted_with_a_warning() {
    let twice = "x,same,flat,y\n".to_owned()
        + &(0..40)
            .map(|i| format!("{0},{0},7,{1}\n", i % 20, f64::from(i % 20).sin() + 0.01 * f64::from(i)))
            .collect::<String>();
    let work = Work::new();
    work.write("data.csv", &twice);
    let document = work.fit("");
    let warnings = document["fit"]["warnings"].to_string();
    for word in ["'same' equals input 'x'", "'flat' (the same value in every row)", "20 of 40 rows"] {
        assert!(warnings.contains(word), "{word} in {warnings}");
    }
    assert_eq!(number(&document, "/config/inducing"), 10.0);

    let huge: String = (0..30).map(|i| format!("{}e300,{}\n", f64::from(i) / 10.0, i % 7)).collect();
    work.write("data.csv", &format!("x,y\n{huge}"));
    assert!(number(&work.fit("--test-fraction 0.2"), "/test/nll").is_finite());

    let two: String = (0..30).map(|i| format!("{i},{}\n", i % 2)).collect();
    work.write("data.csv", &format!("x,y\n{two}"));
    let number = work.fit("--task regression");
    assert!(number["fit"]["warnings"].to_string().contains("treated as a number"));
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    let work = Work::new();
    work.write("other.csv", &table(20));
    let cases: &[(&str, &[&str])] = &[
        ("fit data.csv", &["--target"]),
        ("fit data.csv --target y --objective best", &["best", "elbo, dlm-log, dlm-square, vfe, fitc"]),
        ("fit data.csv --target y --objectve vfe", &["--objectve", "--objective"]),
        ("fit data.csv --target y --beta x", &["--beta", "'x'"]),
        ("fit data.csv --target y --q-step const:7", &["const:7"]),
        ("fit data.csv --target y --jitter x", &["--jitter"]),
        ("fit data.csv --target y --kernel rbff", &["--kernel", "rbff"]),
        ("fit data.csv --target y --objective vfe --batch-size 5", &["--batch-size", "no effect"]),
        ("fit data.csv --target y --patience 3", &["--validation-fraction"]),
        ("fit data.csv --target y --test other.csv --test-fraction 0.1", &["--test"]),
        ("fit data.csv --target y --predictions p.csv", &["--test"]),
        ("fit data.csv --target y --test-fraction 0.1 --predictions p.txt", &["p.txt", ".csv or .parquet"]),
        ("fit data.csv --target y --model-out m --metrics m", &[]),
        ("fit data.csv --target y --metrics data.csv", &["data.csv", "input"]),
        ("fit data.csv --target y --from m --kernel rbf", &["--kernel", "--from"]),
        ("fit data.csv --target y --features y", &["target"]),
        ("predict m data.csv --out p.csv --quantiles 1.5", &["1.5"]),
        ("predict m data.csv --out p.csv --quantiles 0.5,0.5", &["twice"]),
        ("predict m data.csv --out p.json", &["p.json"]),
        ("nonsense", &["nonsense"]),
    ];
    for (arguments, words) in cases {
        println!("{arguments}");
        work.run(arguments).fails(2, words);
    }
    assert_eq!(work.names(), ["data.csv", "other.csv"]);
}

#[test]
fn unwritable_outputs_are_found_before_the_fit() {
    let work = Work::new();
    for option in ["--model-out", "--metrics", "--report"] {
        let run =
            work.run(&format!("fit data.csv --target y --epochs 100000 --tolerance 0 {option} no/such/file"));
        run.fails(3, &["no/such/file", "cannot be written"]);
    }
    work.run("fit data.csv --target y --test-fraction 0.1 --predictions no/p.csv").fails(3, &["no/p.csv"]);
    work.run("fit data.csv --target y --epochs 100000 --tolerance 0 --test absent.csv")
        .fails(3, &["absent.csv"]);
    assert_eq!(work.names(), ["data.csv"]);
}

#[test]
fn every_option_of_the_fit_has_an_effect() {
    let work = Work::new();
    // Without a warm start the fit ends far from its optimum. At the optimum, different paths would meet.
    let fit = |options: &str| match options.contains("--objective") || options.contains("--warm-start") {
        true => work.fit(options),
        false => work.fit(&format!("--warm-start 0 {options}")),
    };
    let objective = number(&fit(""), "/fit/objective");
    for options in [
        "--warm-start 3",
        "--objective vfe",
        "--objective fitc",
        "--beta 0.5",
        "--kernel matern12(ard)",
        "--mean zero",
        "--inducing 7",
        "--inducing-init random",
        "--inducing-init greedy",
        "--fix-inducing",
        "--hyper fixed",
        "--learning-rate 0.2",
        "--batch-size 20",
        "--epochs 5",
        "--seed 3 --batch-size 20",
        "--validation-fraction 0.2",
        "--test-fraction 0.2",
        "--fix likelihood.noise_variance=0.5",
        "--jitter 0.01",
        "--jitter abs:0.01",
        "--features a,b",
        "--exclude b",
        "--no-standardize",
    ] {
        let changed = number(&fit(options), "/fit/objective");
        assert!((changed - objective).abs() > 1e-9, "{options}: {changed} as without it");
    }
    // With all rows in a batch q starts at its optimum and the step hardly matters, so the batches are small here.
    let small = number(&fit("--batch-size 20"), "/fit/objective");
    for options in ["--q-update adam", "--q-step const:0.9", "--q-step two-over-t"] {
        let changed = number(&fit(&format!("--batch-size 20 {options}")), "/fit/objective");
        assert!((changed - small).abs() > 1e-9, "{options}: {changed} as without it");
    }
    let changed = number(&fit("--categorical b"), "/fit/objective");
    assert!((changed - objective).abs() > 1e-9, "--categorical: {changed} as without it");
    assert_eq!(number(&work.fit("--threads 1"), "/config/threads"), 1.0);
    assert_eq!(number(&fit("--threads 1"), "/fit/objective"), objective);
    assert_eq!(work.fit("--epochs 100000 --max-seconds 0.05")["fit"]["stop_reason"], "max_seconds");
    assert_eq!(work.fit("--epochs 400 --tolerance 100")["fit"]["stop_reason"], "converged");
    let early = work.fit("--epochs 5000 --learning-rate 0.5 --validation-fraction 0.3 --patience 2");
    assert_eq!(early["fit"]["stop_reason"], "early_stop");
    assert!(number(&early, "/validation/nll").is_finite());
    for (options, pointer, value) in [
        ("--hyper joint", "/config/hyper", "joint"),
        ("--objective vfe --hyper collapsed", "/config/hyper", "collapsed"),
        ("--hyper-optimizer adam", "/config/hyper_optimizer", "adam"),
        ("--objective vfe --hyper-optimizer lbfgs", "/config/hyper_optimizer", "lbfgs"),
        ("--task regression", "/config/task", "regression"),
        ("--likelihood gaussian", "/config/likelihood", "gaussian"),
    ] {
        assert_eq!(work.fit(options).pointer(pointer).and_then(Value::as_str), Some(value), "{options}");
    }
}

#[test]
fn the_metrics_document_has_its_shape_and_the_same_seed_gives_the_same_fit() {
    let work = Work::new();
    let run = || work.fit("--test-fraction 0.25 --batch-size 16 --metrics m.json");
    let (first, second) = (run(), run());
    for pointer in ["/fit/objective", "/test/nll", "/hyperparameters/kernel.variance"] {
        assert_eq!(number(&first, pointer), number(&second, pointer), "{pointer}");
    }
    assert_eq!(first["schema"], 1);
    assert_eq!(first["command"], "fit");
    assert_eq!(first["data"]["rows"], 120);
    assert_eq!((first["data"]["train"].clone(), first["data"]["test"].clone()), (90.into(), 30.into()));
    assert_eq!(first["data"]["target"], "y");
    assert_eq!(first["validation"], Value::Null);
    for key in
        "objective objective_sum elbo_sum epochs iterations evaluations seconds seconds_per_step stop_reason \
                rollbacks jitter warnings"
            .split_whitespace()
    {
        assert!(first["fit"].get(key).is_some(), "{key}");
    }
    for key in "nll mse rmse mae error_rate accuracy confusion auc brier mre smse r2 deviance ece pit interval_width_95 interval_score_95 crps coverage"
        .split(' ')
    {
        assert!(first["test"].get(key).is_some(), "{key}");
    }
    assert_eq!(first["trace"].as_array().map(Vec::len), Some(3));
    assert!(number(&first, "/trace/2/objective").is_finite());
    let saved: Value = serde_json::from_str(&work.read("m.json")).expect("JSON");
    assert_eq!(saved["test"], second["test"]);
    // The RMSE is in original units, so it is at most about the spread of the target.
    assert!(number(&first, "/test/rmse") < 20.0 && number(&first, "/test/interval_width_95") > 0.1);
}

#[test]
fn columns_of_predictions_do_not_depend_on_column_order_or_format_of_the_data() {
    let work = Work::new();
    work.model();
    work.run("predict model data.csv --out p.csv --latent --quantiles 0.05,0.5,0.95 --samples 2").ok();
    let (names, rows) = cells(&work.read("p.csv"));
    let expected = "mean,variance,latent_mean,latent_variance,q0.05,q0.5,q0.95,log_density,sample0,sample1";
    assert_eq!(names.join(","), expected);
    assert_eq!(rows.len(), 120);
    for row in &rows {
        assert!(row[1] > row[3] && row[3] > 0.0 && row[4] < row[5] && row[5] < row[6]);
        assert!((row[5] - row[0]).abs() < 1e-9 && (row[0] - 50.0).abs() < 20.0);
    }
    // The data have their columns in another order, an additional column, and no target.
    let reordered: String = work
        .read("data.csv")
        .lines()
        .enumerate()
        .map(|(index, line)| {
            let cells: Vec<&str> = line.split(',').collect();
            let extra = if index == 0 { "extra" } else { "text" };
            format!("{},{extra},{},{}\n", cells[2], cells[1], cells[0])
        })
        .collect();
    work.write("reordered.csv", &reordered);
    work.run("predict model reordered.csv --out r.csv").ok();
    let (names, other) = cells(&work.read("r.csv"));
    assert_eq!(names, ["mean", "variance"]);
    assert!(rows.iter().zip(&other).all(|(a, b)| a[..2] == b[..2]));
    // From standard input, compressed or not, and to Parquet and back.
    work.run_with_input("predict model - --out s.csv", reordered.as_bytes()).ok();
    assert_eq!(work.read("s.csv"), work.read("r.csv"));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(reordered.as_bytes()).expect("compressed");
    std::fs::write(work.path("z.csv.gz"), gzip.finish().expect("compressed")).expect("written");
    work.run("predict model z.csv.gz --out z.csv").ok();
    assert_eq!(work.read("z.csv"), work.read("r.csv"));
    // Draws depend on their seed alone.
    work.run("predict model data.csv --out t.csv --samples 2 --seed 1").ok();
    let (_, draws) = cells(&work.read("t.csv"));
    assert!(draws[0][3] != rows[0][8]);
}

#[test]
fn parquet_data_give_the_same_fit_and_predictions_as_csv() {
    let work = Work::new();
    work.model();
    // Predictions in Parquet can be read as a data file.
    work.run("predict model data.csv --out p.parquet --latent").ok();
    work.run("predict model data.csv --out p.csv --latent").ok();
    let fit = |name: &str| work.run(&format!("fit {name} --target mean --json --quiet {QUICK}")).json();
    let (a, b) = (fit("p.parquet"), fit("p.csv"));
    assert_eq!(number(&a, "/fit/objective"), number(&b, "/fit/objective"));
    assert_eq!(a["hyperparameters"], b["hyperparameters"]);
}

#[test]
fn errors_about_bad_data_in_predictions_name_the_location_and_write_nothing() {
    let work = Work::new();
    work.model();
    let before = work.names().len() + 1;
    for (text, words) in [
        ("a,colour\n1,red\n", &["new.csv", "'b'"][..]),
        ("a,b,colour\n1,2,red\nx,2,red\n", &["row 2", "'a'", "\"x\""]),
        ("a,b,colour\n1,2,red\n1,inf,red\n", &["row 2", "'b'", "finite"]),
        ("a,b,colour\n1,2,red\n1,2\n", &["row 2"]),
    ] {
        work.write("new.csv", text);
        work.run("predict model new.csv --out p.csv").fails(3, words);
        assert_eq!(work.names().len(), before);
    }
    work.write("new.csv", "a,b,colour\n1,2,pink\n");
    work.run("predict model new.csv --out p.csv").ok();
    work.run("predict model new.csv --out q.csv --unseen error")
        .fails(3, &["row 1", "'colour'", "pink", "--unseen new"]);
    work.run("evaluate model new.csv").fails(3, &["'y'", "predict"]);
    work.write("test.csv", "a,b,colour,y\n1,2,pink,50\n1,3,red,51\n");
    work.run(&format!("fit data.csv --target y --test test.csv --unseen error --quiet {QUICK}"))
        .fails(3, &["row 1", "pink"]);
    let document = work.fit("--test test.csv");
    assert_eq!(number(&document, "/data/test"), 2.0);
    let many = format!("a,b,colour\n{}", "1,2,red\n".repeat(2001));
    work.write("many.csv", &many);
    work.run("predict model many.csv --out m.csv --samples 1").fails(2, &["2000 rows"]);
}

#[test]
fn errors_beyond_the_first_block_name_the_row_in_the_file() {
    let work = Work::new();
    work.model();
    let mut text = format!("a,b,colour\n{}", "1,2,red\n".repeat(9000));
    text.push_str("1,inf,red\n");
    work.write("long.csv", &text);
    work.run("predict model long.csv --out p.csv").fails(3, &["row 9001", "line 9002", "'b'"]);
    assert!(!work.path("p.csv").exists());
}

#[test]
fn a_saved_model_is_inspected_evaluated_and_started_from() {
    let work = Work::new();
    work.run(&format!("fit data.csv --target y --quiet --objective vfe --model-out model {QUICK}")).ok();
    let text = work.run("inspect model").ok().stdout();
    for word in [
        "regression of 'y'",
        "rbf(ard)",
        "vfe",
        "3 categories: blue, green, red",
        "likelihood.noise_variance",
    ] {
        assert!(text.contains(word), "{word} in {text}");
    }
    let inspected = work.run("inspect model --json").json();
    assert_eq!(
        (inspected["command"].as_str(), inspected["config"]["objective"].as_str()),
        (Some("inspect"), Some("vfe"))
    );
    let evaluated = work.run("evaluate model data.csv --json --metrics e.json").json();
    assert_eq!(number(&evaluated, "/data/test"), 120.0);
    assert!(number(&evaluated, "/test/nll").is_finite());
    assert_eq!(serde_json::from_str::<Value>(&work.read("e.json")).expect("JSON"), evaluated);
    assert!(work.run("evaluate model data.csv").ok().stdout().contains("RMSE"));

    let same = |options: &str| {
        let command = format!("fit data.csv --target y --json --quiet --from model {options}");
        work.run(&command).json()
    };
    let fixed = same("--objective vfe --hyper fixed");
    assert_eq!(fixed["hyperparameters"], inspected["hyperparameters"]);
    assert!((number(&fixed, "/fit/objective") - number(&inspected, "/fit/objective")).abs() < 1e-9);
    let further = same("--objective vfe --epochs 5");
    assert!(number(&further, "/fit/objective") < number(&fixed, "/fit/objective"));
    work.run("fit data.csv --target a --from model").fails(2, &["'y'", "'a'"]);
}

#[test]
fn reports_and_test_predictions_are_complete() {
    let work = Work::new();
    work.write("<b>&.csv", &table(60));
    work.run(&format!(
        "fit <b>&.csv --target y --quiet --test-fraction 0.3 --report r.html --predictions p.csv {QUICK}"
    ))
    .ok();
    let html = work.read("r.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert!(html.matches("<svg").count() >= 6);
    assert!(html.contains("&lt;b&gt;&amp;.csv") && !html.contains("<b>"));
    for word in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!html.contains(word), "{word}");
    }
    let (names, rows) = cells(&work.read("p.csv"));
    assert_eq!(names.join(","), "row,mean,variance,latent_mean,latent_variance,log_density");
    assert_eq!(rows.len(), 18);
    assert!(rows.windows(2).all(|pair| pair[0][0] < pair[1][0]) && rows[17][0] <= 60.0);
    work.write("test.csv", &table(25));
    work.run(&format!("fit data.csv --target y --quiet --test test.csv --predictions q.parquet {QUICK}"))
        .ok();
    assert!(std::fs::read(work.path("q.parquet")).expect("a file").starts_with(b"PAR1"));
}

#[test]
fn progress_goes_to_standard_error_and_a_closed_pipe_is_no_error() {
    let work = Work::new();
    let run = work.run(&format!("fit data.csv --target y --json {QUICK}")).ok();
    assert!(serde_json::from_str::<Value>(&run.stdout()).is_ok());
    assert!(run.stderr().contains("epoch ") && !run.stderr().contains('\u{1b}'), "{}", run.stderr());
    let quiet = work.run(&format!("fit data.csv --target y --quiet {QUICK}")).ok();
    assert_eq!(quiet.stderr(), "");
    assert!(quiet.stdout().contains("inducing inputs"));
    work.model();
    let mut child = work
        .command("inspect model --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn without_a_terminal_every_tenth_of_the_work_gets_a_line() {
    let work = Work::new();
    let fit =
        "fit data.csv --target y --objective elbo --hyper joint --inducing 10 --tolerance 0 --epochs 200";
    let text = work.run(fit).ok().stderr();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("warning: ")).collect();
    // The start, the warm start, nine tenths, the end.
    assert_eq!(lines.len(), 12, "{text}");
    assert_eq!(lines[0], "fit starts: data.csv");
    assert!(lines[1].starts_with("warm start: hyper-parameters from 120 rows"), "{text}");
    assert!(lines[11].starts_with("fit ends: data.csv  200 epochs  objective "), "{text}");
    for (tenth, line) in (1..).zip(&lines[2..11]) {
        assert!(line.starts_with(&format!("epoch {}/200  objective ", 20 * tenth)), "{text}");
    }
}

/// Returns rows of 57 numbers, a few of which determine `y`.
fn wide(rows: usize) -> String {
    let mut text: String = (0..57).map(|column| format!("x{column},")).collect::<String>() + "y\n";
    for row in 0..rows {
        let x = |column: usize| ((row as f64 + 1.0) * (column as f64 + 2.3).sqrt()).fract();
        (0..57).for_each(|column| write!(text, "{:.5},", x(column)).expect("written"));
        let y = (5.0 * x(3)).sin() + x(10) + 0.5 * x(40);
        writeln!(text, "{:.5}", y + 0.05 * (row as f64 * 12.9898).sin()).expect("written");
    }
    text
}

/// Returns the names of the lengthscales in a text, in order.
fn lengthscales(text: &str) -> Vec<&str> {
    let first = |line: &str| line.trim().split(' ').next().map(str::len);
    let names = text.lines().filter_map(|line| Some(&line.trim()[..first(line)?]));
    names.filter(|name| name.starts_with("kernel.lengthscales.")).collect()
}

#[test]
fn the_summary_of_a_wide_fit_fits_a_screen_and_shows_the_most_relevant_lengthscales() {
    let work = Work::empty();
    work.write("data.csv", &wide(150));
    let fit = "fit data.csv --target y --quiet --inducing 20 --epochs 30 --test-fraction 0.2";
    let text = work.run(&format!("{fit} --model-out m --metrics j --report r.html")).ok().stdout();
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    let document: Value = serde_json::from_str(&work.read("j")).expect("JSON");
    let mut all: Vec<(String, f64)> = (0..57)
        .map(|index| format!("kernel.lengthscales.{index}"))
        .map(|name| (name.clone(), document["hyperparameters"][&name].as_f64().expect("a number")))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let shortest: Vec<&str> = all[..10].iter().map(|(name, _)| name.as_str()).collect();
    let shown = lengthscales(&text).len();
    assert!((3..10).contains(&shown), "figures beside those of the test rows leave room for a few: {text}");
    assert_eq!(lengthscales(&text), shortest[..shown]);
    let pointer = |text: &str| {
        let mut after = text.lines().skip_while(|line| !line.contains("more lengthscales"));
        after.next().expect("a line").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let words = "… 47 more lengthscales longer all: sparsegp inspect m --all";
    assert_eq!(pointer(&text), words.replace("47", &(57 - shown).to_string()));
    for word in
        ["kernel.variance", "likelihood.noise_variance", "mean.constant", "RMSE", "20 inducing inputs"]
    {
        assert!(text.contains(word), "{word} in {text}");
    }
    let page = work.read("r.html");
    assert_eq!(page.matches("kernel.lengthscales.").count(), 57, "all, folded away");

    let inspected = work.run("inspect m").ok().stdout();
    assert_eq!((lengthscales(&inspected), pointer(&inspected).as_str()), (shortest.clone(), words));
    let inspected = work.run("inspect m --all").ok().stdout();
    assert_eq!(lengthscales(&inspected).len(), 57);
    assert!(!inspected.contains("more lengthscales"), "{inspected}");
    work.run("inspect m --all --json").fails(2, &["--all", "--json"]);

    // If nothing is saved, the summary names an option that saves all values.
    let text = work.run(fit).ok().stdout();
    assert!(pointer(&text).ends_with("all: with --metrics FILE"), "{text}");
    let linear = work.run(&format!("{fit} --model glm").replace("--inducing 20", "")).ok();
    let text = linear.stdout();
    assert!(text.lines().count() <= 24 && text.contains(" more coefficients"), "{text}");
}

#[test]
fn help_explains_every_option() {
    let work = Work::new();
    for command in ["", "fit", "predict", "serve", "evaluate", "inspect", "demo"] {
        let text = work.run(&format!("{command} --help")).ok().stdout();
        assert!(text.contains("Usage:"), "{text}");
        // A line that ends after the name of an option has its explanation below, which is indented further than names.
        let names = text.lines().filter(|line| line.starts_with("      --")).map(str::trim);
        for line in names {
            assert!(line.contains("  ") || text.contains(&format!("{line}\n   ")), "{command}: {line}");
        }
    }
    assert!(work.run("--version").ok().stdout().starts_with("sparsegp "));
}

#[test]
fn the_demo_writes_its_report_and_figures() {
    let work = Work::new();
    let text = work.run("demo --quiet --out demo").ok().stdout();
    for word in ["vfe", "elbo", "dlm-log", "% wrong", "95 % coverage"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert_eq!(text.lines().count(), 8, "{text}");
    let names = |folder: &Path| std::fs::read_dir(folder).expect("a folder").count();
    let html = work.read("demo/report.html");
    let figures = html.matches("<svg").count();
    // Each figure is also an SVG file.
    assert_eq!(names(&work.path("demo")), figures + 1);
    for title in ["The series", "Decision regions", "Residuals", "Relevance by permutation"] {
        assert!(html.contains(&format!("<title>{title}</title>")), "{title}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn matrices_that_exceed_the_memory_are_refused_before_any_work() {
    let work = Work::empty();
    let rows: String = (0..3000).map(|i| format!("{i},{}\n", f64::from(i).sin())).collect();
    work.write("data.csv", &format!("x,y\n{rows}"));
    let program = env!("CARGO_BIN_EXE_sparsegp");
    // 16 matrices of 3000 rows take 1.1 GB.
    let refused = |limit: usize, options: &str, words: &[&str]| {
        let command = format!(
            "ulimit -v {limit}; exec {program} fit data.csv --target y --auto none {options} --quiet --model-out m"
        );
        let done = std::process::Command::new("sh")
            .args(["-c", &command])
            .current_dir(work.path(""))
            .output()
            .expect("the program runs");
        sparsegp_testkit::program::Run(done).fails(4, words);
    };
    let words = ["3000 inducing inputs", "1.1 GiB", "not available", "--inducing"];
    refused(900_000, "--threads 1 --inducing 3000", &words);
    // Every thread packs the operands of products, even small ones, in 64 MiB.
    refused(250_000, "--threads 4 --inducing 20", &["4 threads need 0.3 GiB", "--threads"]);
    assert_eq!(work.names(), ["data.csv"]);
}

#[test]
fn a_target_name_with_commas_can_be_a_single_column() {
    let work = Work::empty();
    let rows: String =
        (0..40).map(|i| format!("{i},{},{}\n", f64::from(i).sin(), f64::from(i).cos())).collect();
    work.write("one.csv", &format!("x,\"a,b\",c\n{rows}"));
    work.write("two.csv", &format!("x,a,b\n{rows}"));
    let fit = |file: &str| work.run(&format!("fit {file} --target a,b --json --quiet {QUICK}")).json();
    let (one, two) = (fit("one.csv"), fit("two.csv"));
    assert_eq!((&one["data"]["target"], &one["data"]["features"]), (&"a,b".into(), &2.into()));
    assert_eq!(two["outputs"].as_object().map(|outputs| outputs.len()), Some(2));
}
