//! Fits from disk: as good as in memory, the same for any number of threads, with accurate notes.

use super::awkward::{from_disk, in_memory};
use sparsegp::options::{FitOptions, Hyper, StepOptions};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tabular::FileFitRequest;
use sparsegp_testkit::program::{Work, csv_text, number};

/// Returns a table of two numbers, a colour, weights, and a target that depends smoothly on them, with noise.
fn table(rows: usize) -> String {
    csv_text("a,b,colour,w,y", 0..rows, |row| {
        let t = row as f64;
        let uniform = |k: f64| (k * t + 0.5 * k).fract();
        let (a, b) = (4.0 * uniform(0.618_034), uniform(0.414_214));
        let f = a.sin() + b + (row % 3) as f64 - 1.0;
        let noise = uniform(0.732_051) + uniform(0.236_068) + uniform(0.645_751) - 1.5;
        let (colour, w) = (["red", "green", "blue"][row % 3], 0.5 + uniform(0.316_625));
        format!("{a},{b},{colour},{w},{}", 50.0 + 8.0 * f + 4.0 * noise)
    })
}

fn columns() -> SchemaOptions {
    SchemaOptions { target: "y".to_owned(), weights: Some("w".to_owned()), ..SchemaOptions::default() }
}

#[test]
fn the_last_step_over_the_file_is_exact_and_estimates_are_called_estimates() {
    let work = Work::with("t.csv", table(30_000));
    let path = &work.path("t.csv");
    let steps = StepOptions { batch_size: 2000, ..StepOptions::default() };
    let options = FitOptions { inducing: Some(10), warm_start: 3, steps, ..FitOptions::default() };
    let short = FitOptions { max_steps: Some(3), ..options.clone() };
    let (columns, shuffle_buffer) = (&columns(), Some(3000));
    let request =
        FileFitRequest { path, columns, options: &short, test_fraction: 0.2, start: None, shuffle_buffer };
    let first = from_disk(&request).expect("a fit").model;
    let summary = first.summary();
    assert_eq!((summary.estimated_on, summary.elbo_sum, summary.iterations), (Some(20_480), None, 3));
    // With fixed hyper-parameters there is one optimal q, which two passes over the file reach.
    let fixed = FitOptions { hyper: Some(Hyper::Fixed), epochs: Some(2), ..options };
    let (options, start) = (&fixed, Some(&first));
    let further = FileFitRequest { options, start, test_fraction: 0.0, shuffle_buffer: None, ..request };
    let disk = from_disk(&further).expect("a fit").model;
    let memory = in_memory(&further).expect("a fit").model;
    let (a, b) = (disk.summary(), memory.summary());
    assert_eq!((a.estimated_on, a.elbo_sum), (None, Some(-a.objective_sum)));
    assert!((a.objective - b.objective).abs() < 1e-9 * b.objective.abs(), "{} {}", a.objective, b.objective);
    for (a, b) in disk.q().mean().iter().zip(memory.q().mean()) {
        assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{a} {b}");
    }
    for (a, b) in disk.latent().natural().iter().zip(first.latent().natural()) {
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} {b}");
    }
    // The estimate on a sample is within some standard errors (0.007) of the sum over all rows.
    let steps = StepOptions { polish: false, ..fixed.steps.clone() };
    let options = &FitOptions { max_steps: Some(30), steps, ..fixed.clone() };
    let estimated = from_disk(&FileFitRequest { options, ..further }).expect("a fit").model;
    let gap = estimated.summary().objective - a.objective;
    assert!(estimated.summary().estimated_on.is_some() && gap.abs() < 0.04, "{gap}");
}

#[test]
fn the_memory_is_stated_and_does_not_grow_with_the_file() {
    let work = Work::empty();
    let plan = |rows: usize, shuffle_buffer: Option<usize>| {
        work.write("t.csv", table(rows));
        let options =
            FitOptions { inducing: Some(5), warm_start: 0, max_steps: Some(1), ..FitOptions::default() };
        let (path, columns, options) = (&work.path("t.csv"), &columns(), &options);
        let request =
            FileFitRequest { path, columns, options, test_fraction: 0.0, start: None, shuffle_buffer };
        from_disk(&request).expect("a fit").plan
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
    let work = Work::with("data.csv", table(10_000));
    let base = "fit data.csv --target y --shuffle-buffer 1500 --max-steps 4 --warm-start 2 --inducing 8";
    let held = "--test-fraction 0.2 --validation-fraction 0.1 --predictions p.csv --json --quiet";
    let document = work.run(&format!("{base} {held}")).json();
    let [train, test] = ["/data/train", "/data/test"].map(|place| number(&document, place));
    assert!((test - 2000.0).abs() < 200.0 && (train - 7000.0).abs() < 250.0, "{train} {test}");
    for (place, value) in
        [("/data/rows", 10_000.0), ("/config/shuffle_buffer", 1500.0), ("/config/max_steps", 4.0)]
    {
        assert_eq!(number(&document, place), value, "{place}");
    }
    assert_eq!(
        (number(&document, "/fit/iterations"), &document["fit"]["stop_reason"]),
        (4.0, &"max_steps".into())
    );
    // The incomplete, only epoch is in the trace, with its validation score.
    for place in ["/validation/nll", "/test/nll", "/trace/0/validation_nll"] {
        assert!(number(&document, place).is_finite());
    }
    let rows = work.csv("p.csv").numbers("row");
    assert_eq!(rows.len() as f64, test);
    assert!(rows.is_sorted_by(|a, b| a < b) && rows[rows.len() - 1] <= 10_000.0);
    let words = ["training on 10000 rows from disk through a shuffle buffer of 1500; at most"];
    work.tells(&format!("{base} --model-out m"), &words);
    // A fit that starts from a saved model, and the same scores from its file.
    let from = "fit data.csv --target y --from m --hyper fixed --shuffle-buffer 1500 --max-steps 2 --json --quiet --test data.csv";
    let again = work.run(&format!("{from} --model-out n")).json();
    assert_eq!(again["test"], work.run("evaluate n data.csv --json").json()["test"]);
    // A model with neighbours keeps its rows, and is the same as without the buffer.
    let beside = "fit data.csv --target y --neighbours 5 --inducing 8 --epochs 2 --test-fraction 0.2 --json";
    let whole = work.run(beside).json();
    let read = work.tells(&format!("{beside} --shuffle-buffer 1500"), &["all rows are read into memory"]);
    assert_eq!(read.json()["test"], whole["test"]);
}
