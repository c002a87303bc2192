//! Predictions for other programs: keys, row numbers, labels, standard output, inputs without rows.

use sparsegp_testkit::program::{Csv, Work, csv_text};
use std::io::Read as _;
use std::process::Stdio;

/// Returns a table whose target depends on two inputs, with a key that would change if it were read as a number: row i has the key `00i`,
/// every tenth row `NA`.
fn rows(count: usize, target: impl Fn(f64, usize) -> String) -> String {
    csv_text("id,a,b,y", 0..count, |i| {
        let (a, b) = ((i as f64 * 0.618).fract(), (i as f64 * 0.414).fract());
        let id = if i % 10 == 9 { "NA".to_owned() } else { format!("00{i}") };
        format!("{id},{a:.3},{b:.1}0,{}", target(6.0 * a + 2.0 * b, i))
    })
}

fn number(f: f64, i: usize) -> String {
    format!("{:.4}", f.sin() + 0.1 * (i as f64 * 1.7).sin())
}

fn fitted(data: &str, options: &str) -> Work {
    let work = Work::with("train.csv", data);
    let fit = "fit train.csv --target y --exclude id --quiet --model-out m --inducing 8 --epochs 6";
    work.run(&format!("{fit} {options}")).ok();
    work
}

#[test]
fn keys_are_copied_unchanged_and_rows_are_numbered() {
    let work = fitted(&rows(60, number), "");
    // More rows than a block, and a column that is both copied and an input.
    let many = rows(9000, number);
    work.write("new.csv", &many);
    work.run("predict m new.csv --out p.csv --keep id,b --row-numbers").ok();
    let (found, given) = (work.csv("p.csv"), Csv::of(&many));
    assert_eq!(found.names, ["row", "id", "b", "mean", "variance", "log_density"]);
    let numbers: Vec<String> = (1..=9000).map(|row| row.to_string()).collect();
    assert_eq!(found.column("row"), numbers);
    // Copied columns do not change the other columns, for any source and destination.
    let plain = work.run("predict m new.csv --out -").csv();
    for (from, names) in [(&given, &["id", "b"][..]), (&plain, &["mean", "variance", "log_density"])] {
        names.iter().for_each(|name| assert_eq!(found.column(name), from.column(name), "{name}"));
    }
    let piped = work.run_with_input("predict m - --out - --keep id,b --row-numbers", many.as_bytes()).ok();
    assert_eq!(piped.stdout(), work.read("p.csv"));
    let again = work.run("predict m new.csv --out - --keep b,id").csv();
    assert_eq!((&again.names[0], &again.rows[1][0]), (&"b".to_owned(), &given.rows[1][2]));
    // Parquet files keep the columns too, so an input that is not among them is missing.
    work.run("predict m new.csv --out p.parquet --keep id,b --row-numbers").ok();
    work.write("clash.csv", "mean,a,b\n1,0.1,0.2\n");
    for (code, command, words) in [
        (3, "predict m p.parquet --out q.csv", ["p.parquet", "a"]),
        (3, "predict m new.csv --out x.csv --keep idd", ["new.csv", "idd"]),
        (2, "predict m new.csv --out x.csv --keep id,id", ["--keep", "id"]),
        (2, "predict m clash.csv --out x.csv --keep mean", ["--keep", "mean"]),
    ] {
        work.refuses(code, command, &[("", &words)]);
    }
}

#[test]
fn classes_and_levels_have_labels_and_probabilities() {
    let two = |f: f64, _| if f.sin() > 0.0 { "red".to_owned() } else { "blue".to_owned() };
    let found = fitted(&rows(90, two), "").run("predict m train.csv --out -").csv();
    assert_eq!(found.names, ["label", "probability_red", "log_density"]);
    for (label, p) in found.column("label").into_iter().zip(found.numbers("probability_red")) {
        assert_eq!(label, if p > 0.5 { "red" } else { "blue" });
    }
    let levels = rows(90, |f, _| ((f.sin() + 1.0) * 1.49).floor().to_string());
    for (options, likelihood) in [("--task classification", "softmax"), ("--likelihood ordinal", "ordinal")] {
        let work = fitted(&levels, options);
        assert_eq!(work.text("inspect m").contains(" mean.2 "), likelihood == "softmax");
        let found = work.run("predict m train.csv --out -").csv();
        assert_eq!(found.names.iter().any(|name| name == "mean"), likelihood == "ordinal");
        let p = ["probability_0", "probability_1", "probability_2"].map(|name| found.numbers(name));
        for (row, label) in found.column("label").into_iter().enumerate() {
            assert!((p.iter().map(|p| p[row]).sum::<f64>() - 1.0).abs() < 1e-9, "{row}");
            let best = (0..3).max_by(|&i, &j| p[i][row].total_cmp(&p[j][row])).expect("three");
            assert_eq!(label, best.to_string(), "{row}");
        }
    }
}

#[test]
fn inputs_without_rows_make_outputs_without_rows_and_the_program_ends_when_the_pipe_closes() {
    let work = fitted(&rows(60, number), "");
    work.write("none.csv", "id,a,b\n");
    work.write("empty.csv", "");
    assert_eq!(work.text("predict m none.csv --out - --keep id"), "id,mean,variance\n");
    assert_eq!(work.run_with_input("predict m - --out -", b"a,b\n").ok().stdout(), "mean,variance\n");
    work.run("predict m none.csv --out p.parquet").ok();
    work.run("evaluate m none.csv").fails(3, &["none.csv"]);
    work.run("predict m empty.csv --out q.csv").fails(3, &["empty.csv"]);

    work.write("new.csv", rows(30_000, number));
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
    let work = fitted(&rows(60, number), "");
    let is_gap = |i: usize| i % 7 == 2;
    work.write("gaps.csv", rows(60, |f, i| if is_gap(i) { String::new() } else { number(f, i) }));
    let known: Vec<String> = rows(60, number).lines().skip(1).map(str::to_owned).collect();
    let kept = known.iter().enumerate().filter(|(i, _)| !is_gap(*i)).map(|(_, line)| format!("{line}\n"));
    work.write("without.csv", "id,a,b,y\n".to_owned() + &kept.collect::<String>());
    let run = work.tells("evaluate m gaps.csv --json", &["gaps.csv: 9 of 60 rows have no target 'y'"]);
    assert_eq!(run.json()["test"], work.run("evaluate m without.csv --json").json()["test"]);
    work.write("none.csv", "id,a,b,y\n1,0.1,0.2,\n");
    work.run("evaluate m none.csv").fails(3, &["none.csv", "no row", "'y'"]);
}
