//! Predictions for other programs: keys, row numbers, labels, standard output, inputs without rows.

use sparsegp_testkit::program::Work;
use std::fmt::Write as _;
use std::io::Read as _;
use std::process::Stdio;

/// Returns a table whose target depends on two inputs, with a key that would change if it were read as a number: row i has the key `00i`,
/// every tenth row `NA`.
fn rows(count: usize, target: &dyn Fn(f64, usize) -> String) -> String {
    let mut text = "id,a,b,y\n".to_owned();
    for i in 0..count {
        let (a, b) = ((i as f64 * 0.618).fract(), (i as f64 * 0.414).fract());
        let id = if i % 10 == 9 { "NA".to_owned() } else { format!("00{i}") };
        writeln!(text, "{id},{a:.3},{b:.1}0,{}", target(6.0 * a + 2.0 * b, i)).expect("text");
    }
    text
}

fn number(f: f64, i: usize) -> String {
    format!("{:.4}", f.sin() + 0.1 * (i as f64 * 1.7).sin())
}

/// Fits a model to a data file and saves it.
fn fitted(work: &Work, data: &str, options: &str) {
    work.write("train.csv", data);
    let fit = "fit train.csv --target y --exclude id --quiet --model-out m --inducing 8 --epochs 6";
    work.run(&format!("{fit} {options}")).ok();
}

fn columns(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut lines = text.lines();
    (cells(lines.next().expect("a header")), lines.map(cells).collect())
}

#[test]
fn keys_are_copied_unchanged_and_rows_are_numbered() {
    let work = Work::empty();
    let data = rows(60, &number);
    fitted(&work, &data, "");
    // More rows than a block, and a column that is both copied and an input.
    let many = rows(9000, &number);
    work.write("new.csv", &many);
    work.run("predict m new.csv --out p.csv --keep id,b --row-numbers").ok();
    let (names, found) = columns(&work.read("p.csv"));
    assert_eq!(names, ["row", "id", "b", "mean", "variance", "log_density"]);
    let (_, given) = columns(&many);
    assert_eq!(found.len(), given.len());
    for (i, (found, given)) in found.iter().zip(&given).enumerate() {
        assert_eq!(found[..3], [(i + 1).to_string(), given[0].clone(), given[2].clone()]);
    }
    // Copied columns do not change the other columns, for any source and destination.
    work.run("predict m new.csv --out plain.csv").ok();
    let (_, plain) = columns(&work.read("plain.csv"));
    assert!(found.iter().zip(&plain).all(|(with, without)| with[3..] == without[..]));
    let piped = work.run_with_input("predict m - --out - --keep id,b --row-numbers", many.as_bytes()).ok();
    assert_eq!(piped.stdout(), work.read("p.csv"));
    work.run("predict m new.csv --out p.parquet --keep id,b --row-numbers").ok();
    work.run("predict m new.csv --out again.csv --keep b,id").ok();
    let (names, again) = columns(&work.read("again.csv"));
    assert_eq!(
        (&names[..2], &again[1][..2]),
        (&["b".into(), "id".into()][..], &[given[1][2].clone(), given[1][0].clone()][..])
    );
    // The Parquet file has the same keys, and a fit to it reads them as text.
    let kept = work.run("predict m p.parquet --out q.csv");
    kept.fails(3, &["p.parquet", "a"]);
    work.run("predict m new.csv --out x.csv --keep idd").fails(3, &["new.csv", "idd", "id"]);
    work.run("predict m new.csv --out x.csv --keep id,id").fails(2, &["--keep", "id"]);
    work.write("clash.csv", "mean,a,b\n1,0.1,0.2\n");
    work.run("predict m clash.csv --out x.csv --keep mean").fails(2, &["--keep", "mean"]);
    assert!(!work.path("x.csv").exists());
}

#[test]
fn classes_and_levels_have_labels_and_probabilities() {
    let work = Work::empty();
    let level = |f: f64| ((f.sin() + 1.0) * 1.49).floor();
    let two = |f: f64, _: usize| if f.sin() > 0.0 { "red".to_owned() } else { "blue".to_owned() };
    fitted(&work, &rows(90, &two), "");
    work.run("predict m train.csv --out -").ok();
    let (names, found) = columns(&work.run("predict m train.csv --out -").ok().stdout());
    assert_eq!(names, ["label", "probability_red", "log_density"]);
    for row in &found {
        let p: f64 = row[1].parse().expect("a probability");
        assert_eq!(row[0], if p > 0.5 { "red" } else { "blue" });
    }
    for (options, likelihood) in [("--task classification", "softmax"), ("--likelihood ordinal", "ordinal")] {
        fitted(&work, &rows(90, &|f, _| level(f).to_string()), options);
        let told = work.run("inspect m").ok().stdout();
        assert_eq!(told.contains(" mean.2 "), likelihood == "softmax", "{told}");
        let (names, found) = columns(&work.run("predict m train.csv --out -").ok().stdout());
        let first = names.iter().position(|name| name == "probability_0").expect("probabilities");
        assert_eq!(
            names[first..first + 3],
            ["probability_0", "probability_1", "probability_2"],
            "{likelihood}"
        );
        assert_eq!(names.iter().any(|name| name == "mean"), likelihood == "ordinal");
        for row in &found {
            let p: Vec<f64> = row[first..first + 3].iter().map(|p| p.parse().expect("a number")).collect();
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{row:?}");
            let best = (0..3).max_by(|&i, &j| p[i].total_cmp(&p[j])).expect("three");
            assert_eq!(row[0], best.to_string(), "{row:?}");
        }
    }
}

#[test]
fn inputs_without_rows_make_outputs_without_rows() {
    let work = Work::empty();
    fitted(&work, &rows(60, &number), "");
    work.write("none.csv", "id,a,b\n");
    work.run("predict m none.csv --out p.csv --keep id").ok();
    assert_eq!(work.read("p.csv"), "id,mean,variance\n");
    assert_eq!(work.run_with_input("predict m - --out -", b"a,b\n").ok().stdout(), "mean,variance\n");
    work.run("predict m none.csv --out p.parquet").ok();
    work.run("evaluate m none.csv").fails(3, &["none.csv"]);
    work.write("empty.csv", "");
    work.run("predict m empty.csv --out q.csv").fails(3, &["empty.csv"]);
}

#[test]
fn the_program_ends_when_the_reader_closes_the_pipe() {
    let work = Work::empty();
    fitted(&work, &rows(60, &number), "");
    work.write("new.csv", &rows(30_000, &number));
    let mut command = work.command("predict m new.csv --out - --draws 2");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut start = [0; 20];
    child.stdout.take().expect("output").read_exact(&mut start).expect("a header");
    let ended = child.wait_with_output().expect("the program ends");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    assert!(start.starts_with(b"mean,variance,log_de"));
}

#[test]
fn rows_without_a_target_are_left_out_of_an_evaluation() {
    let work = Work::empty();
    let data = rows(60, &number);
    fitted(&work, &data, "");
    let gaps: String = data.lines().enumerate().fold(String::new(), |mut text, (i, line)| {
        let cut = line.rfind(',').expect("cells") + 1;
        writeln!(text, "{}", if i % 7 == 3 { &line[..cut] } else { line }).expect("text");
        text
    });
    work.write("gaps.csv", &gaps);
    let run = work.run("evaluate m gaps.csv --json").ok();
    assert!(run.stderr().contains("gaps.csv: 9 of 60 rows have no target 'y'"), "{}", run.stderr());
    let without: String = data
        .lines()
        .enumerate()
        .filter(|(i, _)| i % 7 != 3)
        .fold(String::new(), |text, (_, line)| text + line + "\n");
    work.write("without.csv", &without);
    let other = work.run("evaluate m without.csv --json").json();
    let document: serde_json::Value = serde_json::from_str(&run.stdout()).expect("JSON");
    assert_eq!(document["test"], other["test"]);
    work.write("none.csv", "id,a,b,y\n1,0.1,0.2,\n");
    work.run("evaluate m none.csv").fails(3, &["none.csv", "no row", "'y'"]);
}
