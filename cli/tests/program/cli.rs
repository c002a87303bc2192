//! The command line as a user sees it: commands, files, exit statuses and messages.

use serde_json::Value;
use sparsegp_testkit::program::{Csv, QUICK, Work, assert_contains, csv_text, number};
use std::io::Write as _;

#[test]
fn every_option_of_the_fit_has_an_effect() {
    let work = Work::new();
    // Without a warm start the fit ends far from its optimum. At the optimum, different paths would meet. With all rows in a batch q starts
    // at its optimum and the step hardly matters, so some batches are small.
    let fit = |options: &str| {
        let starts = ["--model", "--objective", "--warm-start"].iter().any(|word| options.contains(word));
        work.fit(&format!("{} {options}", if starts { "" } else { "--warm-start 0" }))
    };
    let objective = |options: &str| number(&fit(options), "/fit/objective");
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
        let without = objective(base);
        for options in changes.split(';') {
            let changed = objective(&format!("{base} {options}"));
            assert!((changed - without).abs() > 1e-9, "{options}: {changed} as without it");
        }
    }
    let one = fit("--threads 1");
    assert_eq!([number(&one, "/config/threads"), number(&one, "/fit/objective")], [1.0, objective("")]);
    let early = "--epochs 5000 --learning-rate 0.5 --validation-fraction 0.3 --patience 2";
    for (options, stop) in [
        ("--epochs 100000 --max-seconds 0.05", "max_seconds"),
        ("--epochs 400 --tolerance 100", "converged"),
        (early, "early_stop"),
    ] {
        let document = work.fit(options);
        assert_eq!(document["fit"]["stop_reason"], stop, "{options}");
        assert_eq!(document["validation"]["nll"].is_number(), options == early, "{options}");
    }
}

#[test]
fn the_metrics_document_has_its_shape_and_the_same_seed_gives_the_same_fit() {
    let work = Work::new();
    let files = "--metrics m.json --predictions";
    let [first, second] = ["p.csv", "p.parquet"]
        .map(|name| work.fit(&format!("--test-fraction 0.25 --batch-size 16 {files} {name}")));
    for pointer in ["/fit/objective", "/test/nll", "/hyperparameters/kernel.variance"] {
        assert_eq!(number(&first, pointer), number(&second, pointer), "{pointer}");
    }
    for (pointer, value) in
        [("/schema", 1.0), ("/data/rows", 120.0), ("/data/train", 90.0), ("/data/test", 30.0)]
    {
        assert_eq!(number(&first, pointer), value, "{pointer}");
    }
    assert_eq!((&first["command"], &first["data"]["target"]), (&"fit".into(), &"y".into()));
    assert_eq!((&first["config"]["likelihood"], &first["validation"]), (&"gaussian".into(), &Value::Null));
    for (part, keys) in [
        (
            "fit",
            "objective objective_sum elbo_sum epochs iterations evaluations seconds seconds_per_step stop_reason rollbacks jitter warnings",
        ),
        (
            "test",
            "nll mse rmse mae error_rate accuracy confusion auc brier mre smse r2 deviance ece pit interval_width_95 interval_score_95 crps \
             concordance integrated_brier survival_gap coverage",
        ),
    ] {
        assert!(keys.split(' ').all(|key| first[part].get(key).is_some()), "{first}");
    }
    assert_eq!(first["trace"].as_array().map(Vec::len), Some(3));
    assert!(number(&first, "/trace/2/objective").is_finite());
    assert_eq!(work.json("m.json")["test"], second["test"]);
    let predicted = work.csv("p.csv");
    assert_eq!(predicted.names.join(","), "row,mean,variance,latent_mean,latent_variance,log_density");
    let rows = predicted.numbers("row");
    assert!(rows.len() == 30 && rows.is_sorted_by(|a, b| a < b) && rows[29] <= 120.0, "{rows:?}");
    assert!(work.bytes("p.parquet").starts_with(b"PAR1"));
    // The RMSE is in original units, so it is at most about the spread of the target.
    assert!(number(&first, "/test/rmse") < 20.0 && number(&first, "/test/interval_width_95") > 0.1);
}

#[test]
fn columns_of_predictions_do_not_depend_on_column_order_or_format_of_the_data() {
    let work = Work::modelled();
    let predict = "predict model data.csv --out - --latent --quantiles 0.05,0.5,0.95 --samples 2";
    let predicted = work.run(predict).csv();
    let expected = "mean,variance,latent_mean,latent_variance,q0.05,q0.5,q0.95,log_density,sample0,sample1";
    assert_eq!((predicted.names.join(",").as_str(), predicted.rows.len()), (expected, 120));
    let columns = ["mean", "variance", "latent_variance", "q0.05", "q0.5", "q0.95"];
    let [mean, variance, latent, low, median, high] = columns.map(|name| predicted.numbers(name));
    for row in 0..120 {
        assert!(variance[row] > latent[row] && latent[row] > 0.0);
        assert!(low[row] < median[row] && median[row] < high[row]);
        assert!((median[row] - mean[row]).abs() < 1e-9 && (mean[row] - 50.0).abs() < 20.0);
    }
    // The data have their columns in another order, an additional column, and no target.
    let data = work.csv("data.csv");
    let cell = |name: &str, row: usize| data.column(name)[row].to_owned();
    let reordered = csv_text("colour,extra,b,a", 0..120, |row| {
        ["colour", "colour", "b", "a"].map(|name| cell(name, row)).join(",")
    });
    work.write("reordered.csv", &reordered);
    let text = work.text("predict model reordered.csv --out -");
    let other = Csv::of(&text);
    assert_eq!(other.names, ["mean", "variance"]);
    assert_eq!(["mean", "variance"].map(|name| other.numbers(name)), [mean, variance]);
    // From standard input, compressed or not.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(reordered.as_bytes()).expect("compressed");
    work.write("z.csv.gz", gzip.finish().expect("compressed"));
    assert_eq!(work.text("predict model z.csv.gz --out -"), text);
    assert_eq!(work.run_with_input("predict model - --out -", reordered.as_bytes()).ok().stdout(), text);
    // Draws depend on their seed alone.
    let seeded = work.run(&format!("{predict} --seed 1")).csv();
    assert_ne!(seeded.numbers("sample0")[0], predicted.numbers("sample0")[0]);
}

#[test]
fn errors_about_bad_data_in_predictions_name_the_location_and_write_nothing() {
    let work = Work::modelled();
    let many = |bad: &str, rows: usize| format!("a,b,colour\n{}{bad}", "1,2,red\n".repeat(rows));
    let unseen = "a,b,colour,y\n1,2,pink,50\n1,3,red,51\n".to_owned();
    let fit = &format!("fit data.csv --target y --quiet {QUICK} --unseen error --test new.csv");
    let predict = "predict model new.csv --out p.csv";
    for (text, code, command, words) in [
        ("a,colour\n1,red\n".to_owned(), 3, predict, &["new.csv", "'b'"][..]),
        (many("x,2,red\n", 1), 3, predict, &["row 2", "'a'", "\"x\""]),
        // In the second block of rows.
        (many("1,inf,red\n", 9000), 3, predict, &["row 9001", "line 9002", "'b'", "finite"]),
        (many("", 2001), 2, "predict model new.csv --out p.csv --samples 1", &["2000 rows"]),
        (many("", 1), 3, "evaluate model new.csv", &["'y'", "predict"]),
        (
            unseen.clone(),
            3,
            "predict model new.csv --out p.csv --unseen error",
            &["row 1", "'colour'", "pink", "--unseen new"],
        ),
        (unseen.clone(), 3, fit, &["row 1", "pink"]),
    ] {
        work.write("new.csv", &text);
        work.refuses(code, command, &[("", words)]);
    }
    work.write("new.csv", &unseen);
    work.run(predict).ok();
    assert_eq!(number(&work.fit("--test new.csv"), "/data/test"), 2.0);
}

#[test]
fn a_saved_model_is_inspected_evaluated_and_started_from() {
    let work = Work::new();
    work.quick_fit("data.csv --target y --objective vfe --model-out model");
    let words = ["regression of 'y'", "rbf(ard)", "vfe", "blue, green, red", "likelihood.noise_variance"];
    work.prints("inspect model", &words);
    let inspected = work.run("inspect model --json").json();
    assert_eq!(inspected["command"], "inspect");
    assert_eq!(inspected["config"]["objective"], "vfe");
    let evaluated = work.run("evaluate model data.csv --json --metrics e.json").json();
    assert_eq!(number(&evaluated, "/data/test"), 120.0);
    assert!(number(&evaluated, "/test/nll").is_finite());
    assert_eq!(work.json("e.json"), evaluated);
    work.prints("evaluate model data.csv", &["RMSE"]);

    let from = "fit data.csv --target y --json --quiet --from model --objective vfe";
    let fixed = work.run(&format!("{from} --hyper fixed --threads 2")).json();
    assert_eq!(fixed["hyperparameters"], inspected["hyperparameters"]);
    let objective = |document: &Value| number(document, "/fit/objective");
    assert!((objective(&fixed) - objective(&inspected)).abs() < 1e-9);
    assert!(objective(&work.run(&format!("{from} --epochs 5")).json()) < objective(&fixed));
    work.run("fit data.csv --target a --from model").fails(2, &["'y'", "'a'"]);
}

#[test]
fn progress_goes_to_standard_error() {
    let work = Work::new();
    let run = work.tells(&format!("fit data.csv --target y --json {QUICK}"), &["epoch "]);
    assert!(!run.stderr().contains('\u{1b}'), "{}", run.stderr());
    run.json();
    let quiet = work.quick_fit("data.csv --target y");
    assert!(quiet.stderr().is_empty() && quiet.stdout().contains("inducing inputs"));
}

#[cfg(target_os = "linux")]
#[test]
fn matrices_that_exceed_the_memory_are_refused_before_any_work() {
    let rows = csv_text("x,y", 0..3000, |i| format!("{i},{}", (i as f64).sin()));
    let work = Work::with("data.csv", &rows);
    let fit = format!(
        "{} fit data.csv --target y --auto none --quiet --model-out m",
        env!("CARGO_BIN_EXE_sparsegp")
    );
    for (limit, options, words) in [
        // 16 matrices of 3000 rows take 1.1 GB.
        (
            900_000,
            "--threads 1 --inducing 3000",
            &["3000 inducing inputs", "1.1 GiB", "not available", "--inducing"][..],
        ),
        // Every thread packs the operands of products, even small ones, in 64 MiB.
        (250_000, "--threads 4 --inducing 20", &["4 threads need 0.3 GiB", "--threads"]),
    ] {
        let command = format!("ulimit -v {limit}; exec {fit} {options}");
        let mut shell = std::process::Command::new("sh");
        let done = shell.args(["-c", &command]).current_dir(work.path("")).output();
        sparsegp_testkit::program::Run(done.expect("the program runs")).fails(4, words);
    }
    assert_eq!(work.names(), ["data.csv"]);
}

#[test]
fn a_target_name_with_commas_can_be_a_single_column() {
    let work = Work::empty();
    let row = |i: usize| format!("{i},{},{}", (i as f64).sin(), (i as f64).cos());
    let [one, two] = ["x,\"a,b\",c", "x,a,b"].map(|header| {
        work.write("data.csv", csv_text(header, 0..40, row));
        work.quick_fit("data.csv --target a,b --json").json()
    });
    assert_eq!((&one["data"]["target"], &one["data"]["features"]), (&"a,b".into(), &2.into()));
    assert_eq!(two["outputs"].as_object().map(|outputs| outputs.len()), Some(2));
}

#[test]
fn the_document_of_a_model_has_the_constraints_and_a_later_fit_keeps_them() {
    let work = Work::new();
    let options = "--fix kernel.lengthscales.0=2 --bounds kernel.lengthscales.1=0.5,9 --bounds kernel.lengthscales.2=0.5,9 \
                   --prior kernel.variance=gamma(2,1.5) --tie kernel.lengthscales.1,kernel.lengthscales.2";
    work.quick_fit(&format!("data.csv --target y --model-out model {options}"));
    let notes = work.run("inspect model --json").json()["hyperparameter_notes"].clone();
    assert_eq!(notes["kernel.lengthscales.0"], "fixed");
    assert_contains(&notes.to_string(), &["tied to kernel.lengthscales.1", "(weak)"]);
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
