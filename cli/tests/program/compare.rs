//! The command `compare`: its files, continuation after an interruption, errors, and independence of threads.

use sparsegp_testkit::program::{Run, Work};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A folder with a table for each task.
struct Tables(Work);

impl Tables {
    fn new() -> Tables {
        let work = Work::empty();
        work.write("real.csv", &table(90, |t, a| format!("{}", 20.0 + 8.0 * a.sin() + 0.5 * wobble(t))));
        let class = |t: f64, a: f64| if a.sin() + 0.5 * wobble(t) > 0.0 { "yes" } else { "no" }.to_owned();
        work.write("class.csv", &table(90, class));
        let count = |t: f64, a: f64| format!("{}", (2.0 + 2.0 * a.sin() + 1.5 * wobble(t)).max(0.0).round());
        work.write("count.csv", &table(90, count));
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
        let mut units: Vec<_> = entries
            .map(|entry| {
                let path = entry.expect("an entry").path();
                let time = modified(&path);
                (path, time)
            })
            .collect();
        units.sort();
        units
    }
}

fn modified(path: &Path) -> SystemTime {
    path.metadata().and_then(|metadata| metadata.modified()).expect("a time")
}

/// Returns deterministic noise in [−1, 1] for a row.
fn wobble(t: f64) -> f64 {
    (t * 12.9898).sin()
}

fn table(rows: usize, target: impl Fn(f64, f64) -> String) -> String {
    let mut text = String::from("a,colour,y\n");
    for row in 0..rows {
        let t = row as f64;
        let a = (t * 0.618).fract() * 6.0;
        // One colour occurs in a single row, so most subsets lack it.
        let colour = if row == 7 { "rare" } else { ["red", "green"][row % 2] };
        let _ = writeln!(text, "{a},{colour},{}", target(t, a));
    }
    text
}

/// Checks that a run failed with this status and words, perhaps after lines of progress.
fn refused(run: &Run, code: i32, words: &[&str]) {
    let stderr = run.stderr();
    assert!(run.code() == code && stderr.contains("error: "), "{stderr}");
    assert!(words.iter().all(|word| stderr.contains(word)), "{words:?} in {stderr}");
}

/// A parsed CSV file whose cells have no line breaks.
struct Cells {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Cells {
    fn of(text: &str) -> Cells {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let cells = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
        let names = cells(reader.headers().expect("a header"));
        let rows = reader.records().map(|record| cells(&record.expect("a row"))).collect();
        Cells { names, rows }
    }

    fn column(&self, name: &str) -> Vec<&str> {
        let index = self.names.iter().position(|known| known == name).expect(name);
        self.rows.iter().map(|row| row[index].as_str()).collect()
    }

    /// Returns the values of a column, in the rows with this role.
    fn of_role(&self, name: &str, role: &str) -> Vec<&str> {
        let pairs = self.column(name).into_iter().zip(self.column("role"));
        pairs.filter(|(_, known)| *known == role).map(|(value, _)| value).collect()
    }

    fn all_filled(&self, name: &str, filled: bool) {
        let cells = self.column(name);
        assert!(cells.iter().all(|cell| cell.is_empty() != filled), "{name}: {cells:?}");
    }

    /// Returns all cells except the times.
    fn without_seconds(&self) -> Vec<Vec<&str>> {
        let seconds = self.names.iter().position(|name| name == "seconds").expect("seconds");
        let other =
            |row: &'_ Vec<String>| -> Vec<usize> { (0..row.len()).filter(|&i| i != seconds).collect() };
        self.rows.iter().map(|row| other(row).into_iter().map(|i| row[i].as_str()).collect()).collect()
    }
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
    let results = Cells::of(&work.0.read("out/results.csv"));
    // Three sizes and two repeats, each with three single fits and five fits that try two values of β and refit with the better one.
    assert_eq!(results.rows.len(), 3 * 2 * (3 + 5 * 3));
    assert_eq!(results.of_role("beta", "grid").len(), 3 * 2 * 5 * 2);
    assert!(results.of_role("beta", "single").iter().all(|beta| *beta == "1"));
    assert!(results.of_role("beta", "selected").iter().all(|beta| ["2", "0.5"].contains(beta)));
    assert!(results.of_role("validation_score", "single").iter().all(|score| score.is_empty()));
    for role in ["grid", "selected"] {
        assert!(results.of_role("validation_score", role).iter().all(|score| !score.is_empty()));
    }
    for name in ["seconds", "epochs", "stop_reason", "rollbacks", "objective_value", "mse", "smse"] {
        results.all_filled(name, true);
    }
    for name in ["error_rate", "auc", "mre", "deviance", "error"] {
        results.all_filled(name, false);
    }
    let hyper = |objective: &str| {
        let pairs = results.column("objective").into_iter().zip(results.column("hyper"));
        pairs.into_iter().find(|(known, _)| *known == objective).map(|(_, hyper)| hyper.to_owned())
    };
    for (objective, mode) in
        [("elbo", "dual"), ("dlm-log:fixed", "fixed"), ("dlm-square", "collapsed"), ("fitc", "collapsed")]
    {
        assert_eq!(hyper(objective).as_deref(), Some(mode));
    }
    // Without the 18 test rows, 72 rows are left; the note about this is printed once.
    assert_eq!(results.column("train_size").iter().filter(|size| **size == "72").count(), 36);
    assert_eq!(run.stderr().matches("5000 training rows were requested").count(), 1);
    assert!(run.stderr().contains("\n48/48  "), "{}", run.stderr());

    let summary = Cells::of(&work.0.read("out/summary.csv"));
    assert_eq!(summary.rows.len(), 3 * (3 + 5 * 3));
    assert!(summary.column("runs").iter().all(|runs| *runs == "2"));
    summary.all_filled("mse_mean", true);
    summary.all_filled("mse_se", true);
    let report = work.0.read("out/report.html");
    for text in
        ["Test NLL against the number", "Test RMSE against β", "perfect calibration", "dlm-square:fixed"]
    {
        assert!(report.contains(text), "{text}");
    }
    let lines: Vec<String> = run.stdout().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 1 + 8 * 3 + 1);
    // Two repeats are too few for a star.
    assert_eq!(lines[25], "mean ± standard error over repeats");
    assert!(lines[1..25].iter().all(|line| !line.contains('*')), "{lines:?}");
}

#[test]
fn classes_and_counts_have_their_own_figures() {
    let work = Tables::new();
    let run = work.compare("class.csv --target y --objectives elbo,dlm-log --repeats 2 --out class").ok();
    assert!(run.stdout().contains("error rate") && run.stdout().contains("calibration error"));
    let results = Cells::of(&work.0.read("class/results.csv"));
    assert_eq!(results.rows.len(), 4);
    for name in ["nll", "error_rate", "auc", "brier", "ece"] {
        results.all_filled(name, true);
    }
    results.all_filled("coverage_95", false);
    let report = work.0.read("class/report.html");
    assert!(report.contains("observed share") && !report.contains("The weight β"));
    // One training-set size draws no curve.
    assert!(!report.contains("Training-set size"));

    let run = work
        .compare("count.csv --target y --task count --objectives beta-elbo,dlm-log --betas 1,0.1 --out count")
        .ok();
    assert!(run.stdout().contains("mean relative error") && run.stdout().contains("95 % coverage"));
    let results = Cells::of(&work.0.read("count/results.csv"));
    // The ELBO fit from which both start was not requested.
    assert_eq!(results.rows.len(), 2 * 3);
    assert!(!results.column("objective").contains(&"elbo"));
    for name in ["nll", "mre", "deviance", "coverage_95", "pit_9"] {
        results.all_filled(name, true);
    }
    // A single repeat has no standard errors.
    Cells::of(&work.0.read("count/summary.csv")).all_filled("nll_se", false);
}

#[test]
fn the_same_command_continues_and_another_plan_is_refused() {
    let work = Tables::new();
    let command = "real.csv --target y --objectives elbo,dlm-log,fitc --repeats 2 --out out";
    work.compare(command).ok();
    let (units, results) = (work.units("out"), work.0.read("out/results.csv"));
    assert_eq!(units.len(), 6);
    let run = work.compare(command).ok();
    assert!(run.stderr().contains("6/6  done before"), "{}", run.stderr());
    assert_eq!((work.units("out"), work.0.read("out/results.csv")), (units.clone(), results.clone()));

    // Lost units, and units whose starting model is lost, are fitted again with the same results.
    std::fs::remove_file(work.0.path("out/units/dlm-log-n72-r1.json")).expect("removed");
    std::fs::remove_file(work.0.path("out/models/elbo-n72-r0.model")).expect("removed");
    let run = work.compare(command).ok();
    assert!(run.stderr().contains("4/6  done before"), "{}", run.stderr());
    let again = Cells::of(&work.0.read("out/results.csv"));
    assert_eq!(again.without_seconds(), Cells::of(&results).without_seconds());
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
fn results_do_not_depend_on_the_number_of_threads() {
    let work = Tables::new();
    let results = |threads: usize| {
        work.compare(&format!(
            "count.csv --target y --objectives elbo,dlm-log,dlm-log:fixed --betas 1,0.3 --repeats 2 \
             --train-sizes 20,60 --quiet --threads {threads} --out out{threads}"
        ))
        .ok();
        work.0.read(&format!("out{threads}/results.csv"))
    };
    let (one, three) = (Cells::of(&results(1)), Cells::of(&results(3)));
    assert_eq!(one.without_seconds(), three.without_seconds());
}

#[test]
fn a_failed_unit_is_recorded_and_retried_and_does_not_stop_others() {
    let work = Tables::new();
    let command = "rare.csv --target y --objectives elbo,dlm-log --train-sizes 3,60 --out out";
    let run = work.compare(command).ok();
    assert!(run.stderr().contains("warning: 2 of 4 fits failed"), "{}", run.stderr());
    let results = Cells::of(&work.0.read("out/results.csv"));
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
    assert_eq!(Cells::of(&work.0.read("all/results.csv")).rows.len(), 2);
}

#[test]
fn elbo_and_dlm_log_are_compared_by_default() {
    let work = Tables::new();
    work.compare("real.csv --target y --out out").ok();
    assert_eq!(Cells::of(&work.0.read("out/results.csv")).column("objective"), ["elbo", "dlm-log"]);
}

#[test]
fn invalid_arguments_are_refused_before_any_work() {
    let work = Tables::new();
    let cases: &[(&str, i32, &[&str])] = &[
        ("real.csv --target y --objectives elbo", 2, &["--out"]),
        ("real.csv --target y --objectives best --out out", 2, &["best", "dlm-log:fixed"]),
        ("real.csv --target y --objectives elbo,elbo --out out", 2, &["elbo twice"]),
        ("real.csv --target y --objectives beta-elbo --out out", 2, &["beta-elbo", "--betas"]),
        ("real.csv --target y --objectives vfe --betas auto --out out", 2, &["--betas has no effect"]),
        ("real.csv --target y --objectives elbo --repeats 0 --out out", 2, &["--repeats"]),
        ("real.csv --target y --objectives elbo --train-sizes 1 --out out", 2, &["--train-sizes"]),
        ("real.csv --target y --objectives elbo --train-sizes x --out out", 2, &["--train-sizes"]),
        ("real.csv --target y --objectives elbo --test-fraction 0 --out out", 2, &["--test-fraction"]),
        ("real.csv --target y --objectives elbo --threads 0 --out out", 2, &["--threads"]),
        ("real.csv --target y --objectives elbo --estimator bmc:4 --out out", 2, &["--estimator"]),
        ("real.csv --target y --objectives elbo --validation-fraction 0.2 --out out", 2, &["--betas"]),
        (
            "real.csv --target y --objectives fitc --batch-size 8 --out out",
            2,
            &["--batch-size", "vfe and fitc"],
        ),
        ("real.csv --target y --objectives elbo --beta 2 --out out", 2, &["--beta"]),
        ("- --target y --objectives elbo --out out", 2, &["standard input"]),
        ("class.csv --target y --objectives elbo,fitc --out out", 2, &["fitc needs the gaussian likelihood"]),
        (
            "count.csv --target y --task count --objectives dlm-square --out out",
            2,
            &["dlm-square needs the gaussian"],
        ),
        ("real.csv --target z --objectives elbo --out out", 3, &["'z'"]),
        ("real.csv --target y --objectives elbo --test-fraction 0.99 --out out", 3, &["fewer than 2"]),
        ("absent.csv --target y --objectives elbo --out out", 3, &["absent.csv"]),
        ("real.csv --target y --objectives elbo --out real.csv", 3, &["real.csv", "cannot be created"]),
    ];
    for (arguments, code, words) in cases {
        println!("{arguments}");
        refused(&work.compare(arguments), *code, words);
        assert!(!work.0.path("out").exists());
    }
    // An error that only a fit can detect ends the run. The corrected command may use the same folder.
    let command = "real.csv --target y --objectives elbo,dlm-log --out out";
    for (wrong, word) in [("--kernel rbff", "rbff"), ("--fix kernel.nothing=1", "'kernel.nothing'")] {
        refused(&work.compare(&format!("{command} {wrong}")), 2, &[word]);
    }
    work.compare(command).ok();
}
