//! The command `compare`: its files, continuation after an interruption, errors.

use sparsegp_testkit::program::{Csv, Run, Work, assert_contains, csv_text};
use std::path::PathBuf;
use std::time::SystemTime;

/// A folder with a table, and one in which small subsets do not vary.
struct Tables(Work);

impl Tables {
    fn new() -> Tables {
        let work = Work::empty();
        work.write("real.csv", &table(90, |t, a| format!("{}", 20.0 + 8.0 * a.sin() + 0.5 * wobble(t))));
        // Nearly all rows are equal, so small subsets do not vary.
        let rare = |t: f64, a: f64| format!("{}", if t % 13.0 == 5.0 { 2.0 + a } else { 0.5 });
        work.write("rare.csv", &table(90, rare));
        Tables(work)
    }

    /// Runs `compare` with very short fits; arguments are separated by blanks.
    fn compare(&self, arguments: &str) -> Run {
        self.0.run(&format!("compare {arguments} --inducing 8 --epochs 3 --tolerance 0"))
    }

    fn units(&self, out: &str) -> Vec<(PathBuf, SystemTime)> {
        let entries = std::fs::read_dir(self.0.path(out).join("units")).expect("a folder");
        let unit = |path: PathBuf| {
            let time = path.metadata().and_then(|metadata| metadata.modified()).expect("a time");
            (path, time)
        };
        let mut units: Vec<_> = entries.map(|entry| unit(entry.expect("an entry").path())).collect();
        units.sort();
        units
    }
}

/// Returns deterministic noise in [−1, 1] for a row.
fn wobble(t: f64) -> f64 {
    (t * 12.9898).sin()
}

fn table(rows: usize, target: impl Fn(f64, f64) -> String) -> String {
    csv_text("a,colour,y", 0..rows, |row| {
        let t = row as f64;
        let a = (t * 0.618).fract() * 6.0;
        // One colour occurs in a single row, so most subsets lack it.
        let colour = if row == 7 { "rare" } else { ["red", "green"][row % 2] };
        format!("{a},{colour},{}", target(t, a))
    })
}

/// Checks that a run failed with this status and words, perhaps after lines of progress.
fn refused(run: &Run, code: i32, words: &[&str]) {
    let stderr = run.stderr();
    assert!(run.code() == code && stderr.contains("error: "), "{stderr}");
    assert!(words.iter().all(|word| stderr.contains(word)), "{words:?} in {stderr}");
}

/// Returns the values of a column of results, in the rows with this role.
fn of_role<'a>(results: &'a Csv, name: &str, role: &str) -> Vec<&'a str> {
    let pairs = results.column(name).into_iter().zip(results.column("role"));
    pairs.filter(|(_, known)| *known == role).map(|(value, _)| value).collect()
}

fn assert_filled(results: &Csv, names: &[&str], filled: bool) {
    for name in names {
        let cells = results.column(name);
        assert!(cells.iter().all(|cell| cell.is_empty() != filled), "{name}: {cells:?}");
    }
}

/// Returns all cells except the times.
fn without_seconds(mut results: Csv) -> Vec<Vec<String>> {
    let seconds = results.names.iter().position(|name| name == "seconds").expect("seconds");
    results.rows.iter_mut().for_each(|row| drop(row.remove(seconds)));
    results.rows
}

#[test]
fn a_regression_has_all_its_rows_and_files() {
    let work = Tables::new();
    let run = work
        .compare(
            "real.csv --target y --objectives elbo,beta-elbo,dlm-log,dlm-log:fixed,dlm-square,dlm-square:fixed,vfe,fitc \
             --betas 2,0.5 --repeats 2 --train-sizes 30,60,5000 --out out",
        )
        .ok();
    let results = work.0.csv("out/results.csv");
    // Three sizes and two repeats, each with three single fits and five fits that try two values of β and refit with the better one.
    assert_eq!(results.rows.len(), 3 * 2 * (3 + 5 * 3));
    assert_eq!(of_role(&results, "beta", "grid").len(), 3 * 2 * 5 * 2);
    assert!(of_role(&results, "beta", "single").iter().all(|beta| *beta == "1"));
    assert!(of_role(&results, "beta", "selected").iter().all(|beta| ["2", "0.5"].contains(beta)));
    assert!(of_role(&results, "validation_score", "single").iter().all(|score| score.is_empty()));
    for role in ["grid", "selected"] {
        assert!(of_role(&results, "validation_score", role).iter().all(|score| !score.is_empty()));
    }
    assert_filled(
        &results,
        &["seconds", "epochs", "stop_reason", "rollbacks", "objective_value", "mse", "smse"],
        true,
    );
    assert_filled(&results, &["error_rate", "auc", "mre", "deviance", "error"], false);
    let modes: Vec<(&str, &str)> =
        results.column("objective").into_iter().zip(results.column("hyper")).collect();
    for mode in
        [("elbo", "dual"), ("dlm-log:fixed", "fixed"), ("dlm-square", "collapsed"), ("fitc", "collapsed")]
    {
        assert!(modes.contains(&mode), "{mode:?} in {modes:?}");
    }
    // Without the 18 test rows, 72 rows are left; the note about this is printed once.
    assert_eq!(results.column("train_size").iter().filter(|size| **size == "72").count(), 36);
    assert_eq!(run.stderr().matches("5000 training rows were requested").count(), 1);
    assert!(run.stderr().contains("\n48/48  "), "{}", run.stderr());

    let summary = work.0.csv("out/summary.csv");
    assert_eq!(summary.rows.len(), 3 * (3 + 5 * 3));
    assert!(summary.column("runs").iter().all(|runs| *runs == "2"));
    assert_filled(&summary, &["mse_mean", "mse_se"], true);
    let report = work.0.read("out/report.html");
    assert_contains(
        &report,
        &["Test NLL against the number", "Test RMSE against β", "perfect calibration", "dlm-square:fixed"],
    );
    let lines: Vec<String> = run.stdout().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 1 + 8 * 3 + 1);
    // Two repeats are too few for a star.
    assert_eq!(lines[25], "mean ± standard error over repeats");
    assert!(lines[1..25].iter().all(|line| !line.contains('*')), "{lines:?}");
}

#[test]
fn the_same_command_continues_and_another_plan_is_refused() {
    let work = Tables::new();
    let command = "real.csv --target y --objectives elbo,dlm-log,fitc --repeats 2 --out out";
    work.compare(command).ok();
    let (units, results) = (work.units("out"), work.0.read("out/results.csv"));
    let first = without_seconds(work.0.csv("out/results.csv"));
    assert_eq!(units.len(), 6);
    let run = work.compare(command).ok();
    assert!(run.stderr().contains("6/6  done before"), "{}", run.stderr());
    assert_eq!((work.units("out"), work.0.read("out/results.csv")), (units.clone(), results.clone()));

    // Lost units, and units whose starting model is lost, are fitted again with the same results.
    std::fs::remove_file(work.0.path("out/units/dlm-log-n72-r1.json")).expect("removed");
    std::fs::remove_file(work.0.path("out/models/elbo-n72-r0.model")).expect("removed");
    let run = work.compare(command).ok();
    assert!(run.stderr().contains("4/6  done before"), "{}", run.stderr());
    assert_eq!(without_seconds(work.0.csv("out/results.csv")), first);
    let kept = work.units("out").iter().filter(|unit| units.contains(unit)).count();
    assert_eq!(kept, 4);

    let results = work.0.read("out/results.csv");
    for (change, words) in [
        ("--repeats 3", "repeats is 2 there and 3 here"),
        ("--seed 1", "options.seed is 0 there and 1 here"),
        ("--exclude colour", "columns.exclude is [] there and [\"colour\"] here"),
    ] {
        let changed =
            command.replace("--repeats 2", if change.contains("repeats") { "" } else { "--repeats 2" });
        refused(
            &work.compare(&format!("{changed} {change}")),
            2,
            &["out/plan.json", words, "hint: ", "--out"],
        );
    }
    let more = work.0.read("real.csv") + "1,red,20\n";
    work.0.write("real.csv", &more);
    refused(&work.compare(command), 2, &["out/plan.json", "data.bytes"]);
    assert_eq!(work.0.read("out/results.csv"), results);
}

#[test]
fn a_failed_unit_is_recorded_and_retried_and_does_not_stop_others() {
    let work = Tables::new();
    let command = "rare.csv --target y --objectives elbo,dlm-log --train-sizes 3,60 --out out";
    let run = work.compare(command).ok();
    assert!(run.stderr().contains("warning: 2 of 4 fits failed"), "{}", run.stderr());
    let results = work.0.csv("out/results.csv");
    let errors = results.column("error");
    assert!(
        errors[0].contains("the same in all 3 training rows") || errors[0].contains("in every row"),
        "{errors:?}"
    );
    assert!(errors[1].contains("the ELBO fit that this fit starts from"), "{errors:?}");
    assert_eq!(errors[2..], ["", ""]);
    assert_eq!(results.column("nll").iter().filter(|nll| nll.is_empty()).count(), 2);
    assert!(work.0.read("out/report.html").contains("Failed: elbo on 3 rows in repeat 0: "));
    assert!(work.compare(command).ok().stderr().contains("2/4  done before"));

    let run = work.compare("rare.csv --target y --objectives elbo,fitc --train-sizes 3 --out all");
    refused(&run, 4, &["all 2 fits failed", "hint: "]);
    assert_eq!(work.0.csv("all/results.csv").rows.len(), 2);
}
