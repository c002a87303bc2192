//! The command line as a user sees it: commands, files, exit statuses and messages.

use serde_json::Value;
use sparsegp_testkit::program::{QUICK, Work, assert_contains, csv_text, number, table};
use std::io::Write as _;

#[test]
fn every_option_of_the_fit_has_an_effect() {
    let work = Work::new();
    // Without a warm start the fit ends far from its optimum. At the optimum, different paths would meet. With all rows in a batch q starts
    // at its optimum and the step hardly matters, so some batches are small.
    let fit = |options: &str| match options {
        _ if options.contains("--model glm") => work
            .run(&format!("fit data.csv --target y --json --quiet --epochs 3 --tolerance 0 {options}"))
            .json(),
        _ if options.contains("--objective") || options.contains("--warm-start") => work.fit(options),
        _ => work.fit(&format!("--warm-start 0 {options}")),
    };
    for (base, changes) in [
        (
            "",
            "--warm-start 3;--objective vfe;--objective fitc;--beta 0.5;--kernel matern12(ard);--mean zero;--inducing 7;\
             --inducing-init random;--inducing-init greedy;--fix-inducing;--hyper fixed;--learning-rate 0.2;--batch-size 20;--epochs 5;\
             --seed 3 --batch-size 20;--validation-fraction 0.2;--test-fraction 0.2;--fix likelihood.noise_variance=0.5;--jitter 0.01;\
             --jitter abs:0.01;--features a,b;--exclude b;--no-standardize;--categorical b;--fix kernel.lengthscales.1=0.75;\
             --start kernel.lengthscales.1=3;--bounds *.lengthscales=7,8;--prior kernel.lengthscales.0=lognormal(3,0.02);\
             --tie kernel.lengthscales.0,kernel.lengthscales.2;--default-priors off",
        ),
        ("--batch-size 20", "--q-update adam;--q-step const:0.9;--q-step two-over-t"),
        (
            "--likelihood student-t --objective dlm-log",
            "--estimator bmc:2;--estimator smooth-bmc:2:0.1;--estimator ups:2;--quadrature-nodes 5;--beta 5",
        ),
        (
            "--model glm --likelihood student-t",
            "--prior-mean 0.5;--prior-variance 0.01;--mean zero;--family diagonal",
        ),
        (
            "--model glm --likelihood student-t --batch-size 30 --q-step const:0.1",
            "--estimator price:3;--q-update sr-vn",
        ),
    ] {
        let objective = number(&fit(base), "/fit/objective");
        for options in changes.split(';') {
            let changed = number(&fit(&format!("{base} {options}")), "/fit/objective");
            assert!((changed - objective).abs() > 1e-9, "{options}: {changed} as without it");
        }
    }
    let one = fit("--threads 1");
    assert_eq!(number(&one, "/config/threads"), 1.0);
    assert_eq!(number(&one, "/fit/objective"), number(&fit(""), "/fit/objective"));
    let early = "--epochs 5000 --learning-rate 0.5 --validation-fraction 0.3 --patience 2";
    for (options, pointer, value) in [
        ("--epochs 100000 --max-seconds 0.05", "/fit/stop_reason", "max_seconds"),
        ("--epochs 400 --tolerance 100", "/fit/stop_reason", "converged"),
        (early, "/fit/stop_reason", "early_stop"),
        ("--likelihood gaussian", "/config/likelihood", "gaussian"),
    ] {
        let document = work.fit(options);
        assert_eq!(document.pointer(pointer).and_then(Value::as_str), Some(value), "{options}");
        assert_eq!(document["validation"]["nll"].is_number(), options == early, "{options}");
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
    for (pointer, value) in [("/schema", 1), ("/data/rows", 120), ("/data/train", 90), ("/data/test", 30)] {
        assert_eq!(number(&first, pointer), f64::from(value), "{pointer}");
    }
    assert_eq!((&first["command"], &first["data"]["target"]), (&"fit".into(), &"y".into()));
    assert_eq!(first["validation"], Value::Null);
    for (part, keys) in [
        (
            "fit",
            "objective objective_sum elbo_sum epochs iterations evaluations seconds seconds_per_step stop_reason rollbacks jitter warnings",
        ),
        (
            "test",
            "nll mse rmse mae error_rate accuracy confusion auc brier mre smse r2 deviance ece pit interval_width_95 interval_score_95 crps \
             coverage",
        ),
    ] {
        for key in keys.split(' ') {
            assert!(first[part].get(key).is_some(), "{key}");
        }
    }
    assert_eq!(first["trace"].as_array().map(Vec::len), Some(3));
    assert!(number(&first, "/trace/2/objective").is_finite());
    assert_eq!(work.json("m.json")["test"], second["test"]);
    // The RMSE is in original units, so it is at most about the spread of the target.
    assert!(number(&first, "/test/rmse") < 20.0 && number(&first, "/test/interval_width_95") > 0.1);
}

#[test]
fn columns_of_predictions_do_not_depend_on_column_order_or_format_of_the_data() {
    let work = Work::new();
    work.model();
    work.run("predict model data.csv --out p.csv --latent --quantiles 0.05,0.5,0.95 --samples 2").ok();
    let predicted = work.csv("p.csv");
    let expected = "mean,variance,latent_mean,latent_variance,q0.05,q0.5,q0.95,log_density,sample0,sample1";
    assert_eq!((predicted.names.join(",").as_str(), predicted.rows.len()), (expected, 120));
    let columns = ["mean", "variance", "latent_variance", "q0.05", "q0.5", "q0.95"];
    let [mean, variance, latent, low, median, high] = columns.map(|name| predicted.numbers(name));
    for row in 0..120 {
        assert!(
            variance[row] > latent[row]
                && latent[row] > 0.0
                && low[row] < median[row]
                && median[row] < high[row]
        );
        assert!((median[row] - mean[row]).abs() < 1e-9 && (mean[row] - 50.0).abs() < 20.0);
    }
    // The data have their columns in another order, an additional column, and no target.
    let reorder = |(index, line): (usize, &str)| {
        let cells: Vec<&str> = line.split(',').collect();
        let extra = if index == 0 { "extra" } else { "text" };
        format!("{},{extra},{},{}\n", cells[2], cells[1], cells[0])
    };
    let reordered: String = work.read("data.csv").lines().enumerate().map(reorder).collect();
    work.write("reordered.csv", &reordered);
    work.run("predict model reordered.csv --out r.csv").ok();
    let other = work.csv("r.csv");
    assert_eq!(other.names, ["mean", "variance"]);
    assert_eq!(["mean", "variance"].map(|name| other.numbers(name)), [mean, variance]);
    // From standard input, compressed or not.
    work.run_with_input("predict model - --out s.csv", reordered.as_bytes()).ok();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(reordered.as_bytes()).expect("compressed");
    std::fs::write(work.path("z.csv.gz"), gzip.finish().expect("compressed")).expect("written");
    work.run("predict model z.csv.gz --out z.csv").ok();
    for name in ["s.csv", "z.csv"] {
        assert_eq!(work.read(name), work.read("r.csv"), "{name}");
    }
    // Draws depend on their seed alone.
    work.run("predict model data.csv --out t.csv --samples 2 --seed 1").ok();
    assert_ne!(work.csv("t.csv").numbers("sample0")[0], predicted.numbers("sample0")[0]);
}

#[test]
fn errors_about_bad_data_in_predictions_name_the_location_and_write_nothing() {
    let work = Work::new();
    work.model();
    let predict = "predict model new.csv --out p.csv";
    for (text, words) in [
        ("a,colour\n1,red\n", &["new.csv", "'b'"][..]),
        ("a,b,colour\n1,2,red\nx,2,red\n", &["row 2", "'a'", "\"x\""]),
        // In the second block of rows.
        (
            &format!("a,b,colour\n{}1,inf,red\n", "1,2,red\n".repeat(9000)),
            &["row 9001", "line 9002", "'b'", "finite"],
        ),
    ] {
        work.write("new.csv", text);
        work.refuses(3, predict, &[("", words)]);
    }
    work.write("new.csv", "a,b,colour\n1,2,pink\n");
    work.run(predict).ok();
    work.refuses(3, predict, &[("--unseen error", &["row 1", "'colour'", "pink", "--unseen new"])]);
    work.refuses(3, "evaluate model new.csv", &[("", &["'y'", "predict"])]);
    work.write("test.csv", "a,b,colour,y\n1,2,pink,50\n1,3,red,51\n");
    let test = format!("fit data.csv --target y --test test.csv --quiet {QUICK}");
    work.refuses(3, &test, &[("--unseen error", &["row 1", "pink"])]);
    assert_eq!(number(&work.fit("--test test.csv"), "/data/test"), 2.0);
    work.write("many.csv", &format!("a,b,colour\n{}", "1,2,red\n".repeat(2001)));
    work.refuses(2, "predict model many.csv --out m.csv", &[("--samples 1", &["2000 rows"])]);
}

#[test]
fn a_saved_model_is_inspected_evaluated_and_started_from() {
    let work = Work::new();
    work.run(&format!("fit data.csv --target y --quiet --objective vfe --model-out model {QUICK}")).ok();
    let text = work.run("inspect model").ok().stdout();
    assert_contains(
        &text,
        &[
            "regression of 'y'",
            "rbf(ard)",
            "vfe",
            "3 categories: blue, green, red",
            "likelihood.noise_variance",
        ],
    );
    let inspected = work.run("inspect model --json").json();
    assert_eq!(
        (inspected["command"].as_str(), inspected["config"]["objective"].as_str()),
        (Some("inspect"), Some("vfe"))
    );
    let evaluated = work.run("evaluate model data.csv --json --metrics e.json").json();
    assert_eq!(number(&evaluated, "/data/test"), 120.0);
    assert!(number(&evaluated, "/test/nll").is_finite());
    assert_eq!(work.json("e.json"), evaluated);
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
fn test_predictions_have_the_columns_and_numbers_of_their_rows() {
    let work = Work::new();
    let fit = "fit data.csv --target y --quiet";
    work.run(&format!("{fit} --test-fraction 0.3 --predictions p.csv {QUICK}")).ok();
    let predicted = work.csv("p.csv");
    assert_eq!(predicted.names.join(","), "row,mean,variance,latent_mean,latent_variance,log_density");
    let rows = predicted.numbers("row");
    assert!(rows.len() == 36 && rows.is_sorted_by(|a, b| a < b) && rows[35] <= 120.0, "{rows:?}");
    work.write("test.csv", &table(25));
    work.run(&format!("{fit} --test test.csv --predictions q.parquet {QUICK}")).ok();
    assert!(std::fs::read(work.path("q.parquet")).expect("a file").starts_with(b"PAR1"));
}

#[test]
fn progress_goes_to_standard_error() {
    let work = Work::new();
    let run = work.run(&format!("fit data.csv --target y --json {QUICK}")).ok();
    assert!(serde_json::from_str::<Value>(&run.stdout()).is_ok());
    assert!(run.stderr().contains("epoch ") && !run.stderr().contains('\u{1b}'), "{}", run.stderr());
    let quiet = work.run(&format!("fit data.csv --target y --quiet {QUICK}")).ok();
    assert_eq!(quiet.stderr(), "");
    assert!(quiet.stdout().contains("inducing inputs"));
}

#[cfg(target_os = "linux")]
#[test]
fn matrices_that_exceed_the_memory_are_refused_before_any_work() {
    let rows = csv_text("x,y", 0..3000, |i| format!("{i},{}", (i as f64).sin()));
    let work = Work::with("data.csv", &rows);
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
    for (name, header) in [("one.csv", "x,\"a,b\",c"), ("two.csv", "x,a,b")] {
        let row = |i: usize| format!("{i},{},{}", (i as f64).sin(), (i as f64).cos());
        work.write(name, &csv_text(header, 0..40, row));
    }
    let fit = |file: &str| work.run(&format!("fit {file} --target a,b --json --quiet {QUICK}")).json();
    let (one, two) = (fit("one.csv"), fit("two.csv"));
    assert_eq!((&one["data"]["target"], &one["data"]["features"]), (&"a,b".into(), &2.into()));
    assert_eq!(two["outputs"].as_object().map(|outputs| outputs.len()), Some(2));
}

#[test]
fn inspect_and_the_document_show_the_constraints_and_a_later_fit_keeps_them() {
    let work = Work::new();
    let options = "--fix kernel.lengthscales.0=2 --bounds kernel.lengthscales.1=0.5,9 --bounds kernel.lengthscales.2=0.5,9 \
                   --prior kernel.variance=gamma(2,1.5) --tie kernel.lengthscales.1,kernel.lengthscales.2";
    work.run(&format!("fit data.csv --target y --quiet {QUICK} --model-out model {options}")).ok();
    let text = work.run("inspect model").ok().stdout();
    assert_contains(
        &text,
        &["fixed", "between 0.5 and 9", "prior gamma(2,1.5)", "tied to kernel.lengthscales.1", "(weak)"],
    );
    let notes = work.run("inspect model --json").json()["hyperparameter_notes"].clone();
    assert_eq!(notes["kernel.lengthscales.0"], "fixed");
    let again = work.fit("--from model --bounds kernel.variance=4,5 --default-priors off");
    let parameter = |name: &str| number(&again, &format!("/hyperparameters/{name}"));
    assert_eq!(parameter("kernel.lengthscales.0"), 2.0);
    assert_eq!(parameter("kernel.lengthscales.1"), parameter("kernel.lengthscales.2"));
    assert!((4.0..=5.0).contains(&parameter("kernel.variance")));
    let later = &again["hyperparameter_notes"];
    assert_eq!(later["kernel.lengthscales.1"], "between 0.5 and 9");
    assert_eq!(later["kernel.variance"], "between 4 and 5, prior gamma(2,1.5)");
    assert!(!later.to_string().contains("(weak)"), "weak priors went");
}
