//! Fits from disk: as good as in memory, the same for any number of threads, with accurate notes.

use sparsegp::hyper::Session;
use sparsegp::options::{FitOptions, Hyper, StepOptions};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::read_table;
use sparsegp_tables::tabular::{
    FileFit, FileFitRequest, FitRequest, TableFit, TableModel, fit_file, fit_table,
};
use sparsegp_testkit::program::{Work, csv_text};
use std::path::Path;

const OPTIONS: FileOptions<'_> = FileOptions { test_fraction: 0.2, shuffle_buffer: Some(3000), start: None };

struct FileOptions<'a> {
    test_fraction: f64,
    shuffle_buffer: Option<usize>,
    start: Option<&'a TableModel>,
}

/// Returns a table of two numbers, a colour, and targets that depend smoothly on them: a number with noise, a class and a count.
fn table(rows: usize) -> String {
    csv_text("a,b,colour,at_risk,w,y,class,count", 0..rows, |row| {
        let t = row as f64;
        let uniform = |k: f64| (k * t + 0.5 * k).fract();
        let (a, b) = (4.0 * uniform(0.618_034), uniform(0.414_214));
        let f = a.sin() + b + (row % 3) as f64 - 1.0;
        let noise = uniform(0.732_051) + uniform(0.236_068) + uniform(0.645_751) - 1.5;
        let (at_risk, w) = (1.0 + 2.0 * uniform(0.162_278), 0.5 + uniform(0.316_625));
        let class = if f + 2.0 * noise > 0.0 { "yes" } else { "no" };
        let count = (at_risk * (0.5 * f).exp() * (1.0 + noise)).round().max(0.0);
        let colour = ["red", "green", "blue"][row % 3];
        format!("{a},{b},{colour},{at_risk},{w},{},{class},{count}", 50.0 + 8.0 * f + 4.0 * noise)
    })
}

fn columns(target: &str) -> SchemaOptions {
    let others = ["y", "class", "count"].iter().filter(|name| **name != target);
    let counts = target == "count";
    let mut exclude: Vec<String> = others.map(|name| (*name).to_owned()).collect();
    exclude.extend((!counts).then(|| "at_risk".to_owned()));
    SchemaOptions {
        target: target.to_owned(),
        exclude,
        exposure: counts.then(|| "at_risk".to_owned()),
        weights: Some("w".to_owned()),
        ..SchemaOptions::default()
    }
}

fn from_disk(path: &Path, columns: &SchemaOptions, options: &FitOptions, how: &FileOptions<'_>) -> FileFit {
    let FileOptions { test_fraction, shuffle_buffer, start } = *how;
    let request = FileFitRequest { path, columns, options, test_fraction, start, shuffle_buffer };
    let mut heard = None;
    let fit = fit_file(&request, &mut |plan| heard = Some(*plan), &mut Session::new(&mut |_| {}));
    let fit = fit.expect("a fit");
    assert_eq!(heard, Some(fit.plan));
    fit
}

fn in_memory(path: &Path, columns: &SchemaOptions, options: &FitOptions, how: &FileOptions<'_>) -> TableFit {
    let table = read_table(path).expect("a table");
    let FileOptions { test_fraction, start, .. } = *how;
    let request = FitRequest { test_fraction, start, ..FitRequest::new(&table, columns, options) };
    fit_table(&request, &mut |_| {}).expect("a fit")
}

#[test]
fn the_last_step_over_the_file_is_exact_and_estimates_are_called_estimates() {
    let work = Work::with("t.csv", &table(30_000));
    let path = work.path("t.csv");
    let columns = columns("y");
    let options = FitOptions {
        inducing: Some(10),
        warm_start: 3,
        steps: StepOptions { batch_size: 2000, ..StepOptions::default() },
        ..FitOptions::default()
    };
    let short = FitOptions { max_steps: Some(3), ..options.clone() };
    let start = from_disk(&path, &columns, &short, &OPTIONS).model;
    let summary = start.summary();
    assert_eq!((summary.estimated_on, summary.elbo_sum, summary.iterations), (Some(20_480), None, 3));
    // With fixed hyper-parameters there is one optimal q, which two passes over the file reach.
    let fixed = FitOptions { hyper: Some(Hyper::Fixed), epochs: Some(2), ..options };
    let further = FileOptions { test_fraction: 0.0, shuffle_buffer: None, start: Some(&start) };
    let disk = from_disk(&path, &columns, &fixed, &further).model;
    let memory = in_memory(&path, &columns, &fixed, &further).model;
    let (a, b) = (disk.summary(), memory.summary());
    assert_eq!(a.estimated_on, None);
    assert!((a.objective - b.objective).abs() < 1e-9 * b.objective.abs(), "{} {}", a.objective, b.objective);
    assert_eq!(a.elbo_sum, Some(-a.objective_sum));
    for (a, b) in disk.q().mean().iter().zip(memory.q().mean()) {
        assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{a} {b}");
    }
    for (a, b) in disk.latent().natural().iter().zip(start.latent().natural()) {
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} {b}");
    }
    // The estimate on a sample is within some standard errors (0.007) of the sum over all rows.
    let unpolished = FitOptions {
        max_steps: Some(30),
        steps: StepOptions { polish: false, ..fixed.steps.clone() },
        ..fixed
    };
    let estimated = from_disk(&path, &columns, &unpolished, &further).model;
    let gap = estimated.summary().objective - a.objective;
    assert!(estimated.summary().estimated_on.is_some() && gap.abs() < 0.04, "{gap}");
}

#[test]
fn the_memory_is_stated_and_does_not_grow_with_the_file() {
    let work = Work::empty();
    let plan = |rows: usize, shuffle_buffer: Option<usize>| {
        work.write("t.csv", &table(rows));
        let options =
            FitOptions { inducing: Some(5), warm_start: 0, max_steps: Some(1), ..FitOptions::default() };
        let how = FileOptions { test_fraction: 0.0, shuffle_buffer, start: None };
        from_disk(&work.path("t.csv"), &columns("y"), &options, &how).plan
    };
    let (small, large) = (plan(40_000, Some(2000)), plan(80_000, Some(2000)));
    assert_eq!((small.training_rows, large.training_rows), (40_000, 80_000));
    assert_eq!((small.buffer_rows, small.most_rows), (large.buffer_rows, large.most_rows));
    // 10,240 rows to start on, 20,480 to check on, blocks of 8,192 and batches of 1,024.
    assert_eq!(small.most_rows, 2000 + 10_240 + 20_480 + 3 * 8192 + 4 * 1024);
    // a, b, the colour, the target and the weight.
    assert_eq!(small.most_bytes, small.most_rows * 5 * 8);
    assert_eq!(plan(3000, None).buffer_rows, 3000);
}

#[test]
fn held_out_rows_are_parts_of_the_file_and_predicted_block_by_block() {
    let work = Work::with("data.csv", &table(10_000));
    let base = "fit data.csv --target y --exclude class,count --shuffle-buffer 1500 --max-steps 4 --warm-start 2 --inducing 8";
    let document = work
        .run(&format!(
            "{base} --test-fraction 0.2 --validation-fraction 0.1 --predictions p.csv --json --quiet"
        ))
        .json();
    let data = &document["data"];
    let (train, test) = (data["train"].as_u64().expect("rows"), data["test"].as_u64().expect("rows"));
    assert_eq!(data["rows"], 10_000);
    assert!(test.abs_diff(2000) < 200 && train.abs_diff(7000) < 250, "{data}");
    assert_eq!(document["config"]["shuffle_buffer"], 1500);
    assert_eq!(document["fit"]["stop_reason"], "max_steps");
    assert_eq!((&document["fit"]["iterations"], &document["config"]["max_steps"]), (&4.into(), &4.into()));
    assert!(document["validation"]["nll"].is_f64() && document["test"]["nll"].is_f64());
    // The incomplete, only epoch is in the trace, with its validation score.
    assert!(document["trace"][0]["validation_nll"].is_f64());
    let rows = work.csv("p.csv").numbers("row");
    assert_eq!(rows.len() as u64, test);
    assert!(rows.is_sorted_by(|a, b| a < b) && rows[rows.len() - 1] <= 10_000.0);
    let said = work.run(&format!("{base} --model-out m")).ok();
    assert!(
        said.stderr().contains("training on 10000 rows from disk through a shuffle buffer of 1500; at most")
    );
    // A fit that starts from a saved model, and the same scores from its file.
    let from = "fit data.csv --target y --from m --hyper fixed --shuffle-buffer 1500 --max-steps 2 --json --quiet --test data.csv";
    let again = work.run(&format!("{from} --model-out n")).json();
    let evaluated = work.run("evaluate n data.csv --json").json();
    assert_eq!(again["test"], evaluated["test"]);
    // A model with neighbours keeps its rows, and is the same as without the buffer.
    let beside = "fit data.csv --target y --exclude class,count --neighbours 5 --inducing 8 --epochs 2 --auto none --test-fraction 0.2";
    let whole = work.run(&format!("{beside} --json --quiet")).json();
    let read = work.run(&format!("{beside} --json --shuffle-buffer 1500")).ok();
    assert!(read.stderr().contains("all rows are read into memory"), "{}", read.stderr());
    assert_eq!(read.json()["test"], whole["test"]);
}
