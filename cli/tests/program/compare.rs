//! The command `compare`: its files, continuation after an interruption, errors.

use sparsegp_testkit::program::{Csv, Run, Work, assert_contains, csv_text};
use std::path::PathBuf;
use std::time::SystemTime;

/// A table of 90 rows. One colour occurs in a single row, so most subsets lack it.
fn table(target: impl Fn(f64, f64) -> f64) -> Work {
    let text = csv_text("a,colour,y", 0..90, |row| {
        let t = row as f64;
        let a = (t * 0.618).fract() * 6.0;
        let colour = if row == 7 { "rare" } else { ["red", "green"][row % 2] };
        format!("{a},{colour},{}", target(t, a))
    });
    Work::with("t.csv", text)
}

fn smooth() -> Work {
    table(|t, a| 20.0 + 8.0 * a.sin() + 0.5 * (t * 12.9898).sin())
}

fn compare(arguments: &str) -> String {
    format!("compare t.csv --target y {arguments} --inducing 8 --epochs 3 --tolerance 0")
}

/// Returns the files of units in the folder `out`, with their times.
fn units(work: &Work) -> Vec<(PathBuf, SystemTime)> {
    let entries = std::fs::read_dir(work.path("out/units")).expect("a folder");
    let unit = |path: PathBuf| {
        let time = path.metadata().and_then(|metadata| metadata.modified()).expect("a time");
        (path, time)
    };
    let mut units: Vec<_> = entries.map(|entry| unit(entry.expect("an entry").path())).collect();
    units.sort();
    units
}

/// Checks that a run failed with this status and words, perhaps after lines of progress.
fn refused(run: &Run, code: i32, words: &[&str]) {
    assert_eq!(run.code(), code, "{}", run.stderr());
    assert_contains(&run.stderr(), words);
}

fn assert_filled(results: &Csv, names: &[&str], filled: bool) {
    for name in names {
        let cells = results.column(name);
        assert!(cells.iter().all(|cell| cell.is_empty() != filled), "{name}: {cells:?}");
    }
}

fn without_seconds(mut results: Csv) -> Vec<Vec<String>> {
    let seconds = results.names.iter().position(|name| name == "seconds").expect("seconds");
    results.rows.iter_mut().for_each(|row| drop(row.remove(seconds)));
    results.rows
}

#[test]
fn a_regression_has_all_its_rows_and_files() {
    let work = smooth();
    let objectives = "elbo,beta-elbo,dlm-log,dlm-log:fixed,dlm-square,dlm-square:fixed,vfe,fitc";
    let plan = "--betas 2,0.5 --repeats 2 --train-sizes 30,60,5000 --out out";
    let run = work.tells(&compare(&format!("--objectives {objectives} {plan}")), &["\n48/48  "]);
    let results = work.csv("out/results.csv");
    // Three sizes and two repeats, each with three single fits and five fits that try two values of β and refit with the better one.
    assert_eq!(results.rows.len(), 3 * 2 * (3 + 5 * 3));
    let of_role = |name: &str, role: &str| -> Vec<&str> {
        let pairs = results.column(name).into_iter().zip(results.column("role"));
        pairs.filter(|(_, known)| *known == role).map(|(value, _)| value).collect()
    };
    assert_eq!(of_role("beta", "grid").len(), 3 * 2 * 5 * 2);
    for (role, betas) in [("single", &["1"][..]), ("grid", &["2", "0.5"]), ("selected", &["2", "0.5"])] {
        assert!(of_role("beta", role).iter().all(|beta| betas.contains(beta)), "{role}");
        let scores = of_role("validation_score", role);
        assert!(scores.iter().all(|score| score.is_empty() == (role == "single")), "{role}");
    }
    let filled = ["seconds", "epochs", "stop_reason", "rollbacks", "objective_value", "mse", "smse"];
    assert_filled(&results, &filled, true);
    assert_filled(&results, &["error_rate", "auc", "mre", "deviance", "error"], false);
    let modes: Vec<_> = results.column("objective").into_iter().zip(results.column("hyper")).collect();
    for mode in
        [("elbo", "dual"), ("dlm-log:fixed", "fixed"), ("dlm-square", "collapsed"), ("fitc", "collapsed")]
    {
        assert!(modes.contains(&mode), "{mode:?} in {modes:?}");
    }
    // Without the 18 test rows, 72 rows are left; the note about this is printed once.
    assert_eq!(results.column("train_size").iter().filter(|size| **size == "72").count(), 36);
    assert_eq!(run.stderr().matches("5000 training rows were requested").count(), 1);

    let summary = work.csv("out/summary.csv");
    assert_eq!(summary.rows.len(), 3 * (3 + 5 * 3));
    assert!(summary.column("runs").iter().all(|runs| *runs == "2"));
    assert_filled(&summary, &["mse_mean", "mse_se"], true);
    let words =
        ["Test NLL against the number", "Test RMSE against β", "perfect calibration", "dlm-square:fixed"];
    assert_contains(&work.read("out/report.html"), &words);
    // A header, a line for each objective and size, and a last line. Two repeats are too few for a star.
    let printed = run.stdout();
    assert!(printed.lines().count() == 1 + 8 * 3 + 1 && !printed.contains('*'), "{printed}");
}

#[test]
fn the_same_command_continues_and_another_plan_is_refused() {
    let work = smooth();
    let command = "--objectives elbo,dlm-log,fitc --out out";
    let two = &compare(&format!("{command} --repeats 2"));
    work.run(two).ok();
    let (before, results) = (units(&work), work.read("out/results.csv"));
    let first = without_seconds(work.csv("out/results.csv"));
    assert_eq!(before.len(), 6);
    work.tells(two, &["6/6  done before"]);
    assert_eq!((&units(&work), work.read("out/results.csv")), (&before, results));

    // Lost units, and units whose starting model is lost, are fitted again with the same results.
    for lost in ["out/units/dlm-log-n72-r1.json", "out/models/elbo-n72-r0.model"] {
        std::fs::remove_file(work.path(lost)).expect("removed");
    }
    work.tells(two, &["4/6  done before"]);
    assert_eq!(without_seconds(work.csv("out/results.csv")), first);
    assert_eq!(units(&work).iter().filter(|unit| before.contains(unit)).count(), 4);

    let results = work.read("out/results.csv");
    for (change, words) in [
        ("--repeats 3", "repeats is 2 there and 3 here"),
        ("--repeats 2 --seed 1", "options.seed is 0 there and 1 here"),
        ("--repeats 2 --exclude colour", "columns.exclude is [] there and [\"colour\"] here"),
    ] {
        let run = work.run(&compare(&format!("{command} {change}")));
        refused(&run, 2, &["error: ", "out/plan.json", words, "hint: ", "--out"]);
    }
    work.write("t.csv", work.read("t.csv") + "1,red,20\n");
    refused(&work.run(two), 2, &["out/plan.json", "data.bytes"]);
    assert_eq!(work.read("out/results.csv"), results);
}

#[test]
fn a_failed_unit_is_recorded_and_retried_and_does_not_stop_others() {
    // Nearly all rows are equal, so small subsets do not vary.
    let work = table(|t, a| if t % 13.0 == 5.0 { 2.0 + a } else { 0.5 });
    let command = &compare("--objectives elbo,dlm-log --train-sizes 3,60 --out out");
    work.tells(command, &["warning: 2 of 4 fits failed"]);
    let results = work.csv("out/results.csv");
    let errors = results.column("error");
    let same = ["the same in all 3 training rows", "in every row"];
    assert!(same.iter().any(|words| errors[0].contains(words)), "{errors:?}");
    assert!(errors[1].contains("the ELBO fit that this fit starts from"), "{errors:?}");
    assert_eq!(errors[2..], ["", ""]);
    assert_eq!(results.column("nll").iter().filter(|nll| nll.is_empty()).count(), 2);
    assert!(work.read("out/report.html").contains("Failed: elbo on 3 rows in repeat 0: "));
    work.tells(command, &["2/4  done before"]);

    let run = work.run(&compare("--objectives elbo,fitc --train-sizes 3 --out all"));
    refused(&run, 4, &["error: ", "all 2 fits failed", "hint: "]);
    assert_eq!(work.csv("all/results.csv").rows.len(), 2);
}
