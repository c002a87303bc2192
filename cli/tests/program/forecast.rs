//! Forecasts from the command line: files, scores, known inputs, refusals, and the coverage of ten years of CO2.

use sparsegp_testkit::program::{Csv, Work, csv_text, number};

/// Returns two monthly series of five years; one has an empty cell.
fn shops() -> Work {
    let text = csv_text("shop,month,sales", 0..120, |row| {
        let (shop, month) = (["north", "south"][row / 60], row % 60);
        let value = 100.0 + month as f64 + 10.0 * (month as f64 / 12.0 * std::f64::consts::TAU).sin();
        let noise = (row as f64 * 1.7).sin();
        let cell = if row == 30 { String::new() } else { format!("{:.3}", value + noise) };
        format!("{shop},{}-{:02}-01,{cell}", 2010 + month / 12, month % 12 + 1)
    });
    Work::with("shops.csv", text)
}

#[test]
fn forecasts_of_several_series_have_times_intervals_and_draws() {
    let work = shops();
    let options = "--time month --target sales --by shop --horizon 6";
    let run = work.run(&format!(
        "forecast shops.csv {options} --out f.csv --quantiles 0.1,0.9 --draws 5 --report r.html --plots figures"
    ));
    let text = run.ok().stdout();
    for words in
        ["6 steps of 'sales', 2 series, 119 values", "seasons   12 steps", "MASE seasonal naive", "coverage"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let forecasts = work.csv("f.csv");
    assert_eq!(forecasts.column("shop").len(), 12);
    assert_eq!(forecasts.column("month")[..2], ["2015-01-01", "2015-02-01"]);
    let [lower, median, upper, low] =
        ["lower", "median", "upper", "q0.1"].map(|name| forecasts.numbers(name));
    for row in 0..12 {
        assert!(lower[row] < low[row] && low[row] < median[row] && median[row] < upper[row]);
        let month = (60 + row % 6) as f64;
        let exact = 100.0 + month + 10.0 * (month / 12.0 * std::f64::consts::TAU).sin();
        assert!((median[row] - exact).abs() < 4.0, "{row}: {} instead of {exact}", median[row]);
    }
    assert_eq!(forecasts.numbers("draw4").len(), 12);
    let page = work.read("r.html");
    assert!(page.contains("Coverage by horizon") && page.contains("north"));
    assert_eq!(work.run(&format!("forecast shops.csv {options} --out -")).ok().stdout().lines().count(), 13);
    let document = work.run(&format!("forecast shops.csv {options} --json")).json();
    assert!(number(&document, "/scores/sparsegp/0/mase") < number(&document, "/scores/drift/0/mase"));
}

#[test]
fn ten_years_of_co2_are_within_their_intervals() {
    let work = Work::empty();
    let all = sparsegp_data::CO2_MONTHLY;
    let mut lines = all.lines();
    let header = lines.next().expect("a header");
    let rows: Vec<&str> = lines.collect();
    let (past, future) = rows.split_at(rows.len() - 120);
    work.write("past.csv", format!("{header}\n{}\n", past.join("\n")));
    work.prints(
        "forecast past.csv --time year --target co2 --horizon 120 --origins 1 --out f.csv",
        &["12 steps"],
    );
    let (future, forecasts) = (Csv::of(&format!("{header}\n{}\n", future.join("\n"))), work.csv("f.csv"));
    let (lower, upper) = (forecasts.numbers("lower"), forecasts.numbers("upper"));
    let inside = |(row, value): &(usize, f64)| lower[*row] <= *value && *value <= upper[*row];
    let covered = future.numbers("co2").into_iter().enumerate().filter(inside).count();
    assert!(covered as f64 >= 0.93 * 120.0, "{covered} of 120");
}

#[test]
fn counts_and_known_inputs_have_forecasts() {
    let counts = csv_text("day,visits", 0..80, |row| {
        format!(
            "2024-{:02}-{:02},{}",
            1 + row / 28,
            1 + row % 28,
            (row * 7 % 5) + 2 * usize::from(row % 7 < 2)
        )
    });
    let work = Work::with("counts.csv", counts);
    work.run("forecast counts.csv --time day --target visits --horizon 4 --counts --origins 1 --draws 3 --out f.csv").ok();
    let drawn = work.csv("f.csv").numbers("draw2");
    assert!(drawn.iter().all(|value| value.fract() == 0.0 && *value >= 0.0), "{drawn:?}");
    let known = csv_text("step,price,day,y", 0..70, |row| {
        let (price, feast) = ((row as f64 * 0.9).sin(), row % 13 == 4);
        let value = 20.0 + 4.0 * price + if feast { 12.0 } else { 0.0 } + 0.3 * (row as f64 * 2.3).cos();
        let target = if row < 60 { format!("{value:.3}") } else { String::new() };
        format!("{row},{price:.4},{},{target}", if feast { "feast" } else { "" })
    });
    work.write("known.csv", known);
    work.run("forecast known.csv --time step --target y --horizon 20 --known price --holidays day --seasons none --origins 0 --out k.csv")
        .ok();
    let medians = work.csv("k.csv").numbers("median");
    assert_eq!(medians.len(), 10);
    // Row 69 is a feast: 13 · 5 + 4.
    let exact = 32.0 + 4.0 * (69.0f64 * 0.9).sin();
    assert!((medians[9] - exact).abs() < 3.0, "{} instead of {exact}", medians[9]);
}

#[test]
fn constant_series_continue_without_stopping_the_others() {
    let text = csv_text("k,time,known0", 0..80, |row| {
        let (series, step) = (["flat", "late"][row / 40], row % 40);
        // The second series is constant at first, so that some earlier times have nothing to learn.
        let value = if row < 40 || step < 26 { 7.0 } else { 7.0 + (step as f64).sin() };
        format!("{series},{step},{value:.4}")
    });
    let work = Work::with("data.csv", text);
    work.run("forecast data.csv --time time --target known0 --by k --horizon 4 --out f.csv --draws 2").ok();
    let forecasts = work.csv("f.csv");
    let [lower, upper, draw] = ["lower", "upper", "draw1"].map(|name| forecasts.numbers(name));
    assert_eq!((&lower[..4], &upper[..4], &draw[..4]), (&[7.0; 4][..], &[7.0; 4][..], &[7.0; 4][..]));
    assert!(lower[4] < upper[4]);
}

#[test]
fn forecasts_refuse_what_they_cannot_use() {
    let work = shops();
    work.write("short.csv", "t,y\n1,2\n2,3\n");
    work.write("halves.csv", csv_text("t,y", 0..20, |row| format!("{row},{}", row as f64 / 2.0)));
    let cases: &[(&str, &[&str])] = &[
        (
            "shops.csv --time month --target sales --horizon 3",
            &["found two values at the time 2010-01-01", "--by"],
        ),
        (
            "shops.csv --time month --target sales --by shop --horizon 3 --quantiles 0.5",
            &["--quantiles has no effect"],
        ),
        ("shops.csv --time month --target month --horizon 3", &["'month' has two roles"]),
        ("shops.csv --time when --target sales --horizon 3", &["'when'"]),
        ("shops.csv --time month --target sales --by shop --horizon 3 --known sales2", &["'sales2'"]),
        ("shops.csv --time month --target sales --by shop --horizon 3 --holidays shop", &["two roles"]),
        (
            "halves.csv --time t --target y --horizon 3 --counts",
            &["row 2", "column 'y': found 0.5, expected a count"],
        ),
        ("short.csv --time t --target y --horizon 3", &["found 2 values of 'y', expected at least 8"]),
    ];
    for (arguments, words) in cases {
        let run = work.run(&format!("forecast {arguments}"));
        assert!(run.code() != 0, "{arguments}");
        let told = run.stderr();
        for word in *words {
            assert!(told.contains(word), "{arguments}: {told}");
        }
        assert_eq!(told.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{told}");
    }
}

/// A series that is too short has no forecast, and the others have theirs.
#[test]
fn short_series_do_not_end_the_forecasts_of_others() {
    let rows = |name: &str, count: usize| -> String {
        (0..count).map(|t| format!("{name},{t},{}\n", 3 + t % 4)).collect()
    };
    let work = Work::with("shops.csv", format!("shop,t,sales\n{}{}", rows("new", 3), rows("old", 30)));
    let run = work.run("forecast shops.csv --time t --target sales --by shop --horizon 2 --out out.csv");
    let told = "1 series with fewer than 8 values of 'sales' have no forecast: new";
    assert!(run.stderr().contains(told), "{}", run.stderr());
    assert_eq!(work.read("out.csv").lines().skip(1).filter(|line| line.starts_with("old,")).count(), 2);
    assert!(!work.read("out.csv").contains("new,"));
}

/// A series with values beyond what a fit can represent has no forecast, and the others have theirs.
#[test]
fn series_that_cannot_be_fitted_do_not_end_the_forecasts_of_others() {
    let rows = |name: &str, unit: f64| -> String {
        (0..30).map(|t| format!("{name},{t},{:e}\n", unit * f64::from(3 + t % 4 + t * t % 7))).collect()
    };
    let work = Work::with("shops.csv", format!("shop,t,sales\n{}{}", rows("vast", -1e307), rows("old", 1.0)));
    let command =
        "forecast shops.csv --time t --target sales --by shop --horizon 2 --origins 0 --out out.csv";
    let run = work.run(command);
    let told = "1 series cannot be fitted and have no forecast: vast; the first: ";
    assert!(run.stderr().contains(told), "{}", run.stderr());
    assert_eq!(work.read("out.csv").lines().skip(1).filter(|line| line.starts_with("old,")).count(), 2);
    assert!(!work.read("out.csv").contains("vast,"));
}

/// Options about reading, writing and the size of a fit do what they say.
#[test]
fn options_of_files_windows_and_seeds_are_heeded() {
    let line = |t: usize| match t {
        5 => "=a;5;lost\n".to_owned(),
        _ => format!("=a;{t};{}\n", 30 + t % 4 + t * t % 7),
    };
    let rows: String = (0..60).map(line).collect();
    let work = Work::with("shops.txt", format!("shop;t;sales\n{rows}"));
    let run = |options: &str| {
        let fixed = "forecast shops.txt --time t --target sales --by shop --horizon 2 --missing lost --origins 0 --seasons none";
        work.run(&format!("{fixed} --out - {options}")).stdout()
    };
    let plain = run("--delimiter ; --draws 2");
    assert_eq!(plain, run("--draws 2"));
    assert_ne!(plain, run("--draws 2 --seed 7"));
    assert!(plain.lines().nth(1).is_some_and(|line| line.starts_with("=a,60,")), "{plain}");
    assert!(run("--csv-safe").lines().nth(1).is_some_and(|line| line.starts_with("'=a,60,")));
    assert_ne!(run(""), run("--window 20"));
    let told = work.run("forecast shops.txt --time t --target sales --horizon 2").stderr();
    assert!(told.contains("\"lost\""), "{told}");
    let fixed = "forecast shops.txt --time t --target sales --missing lost --horizon 2 --out -";
    work.run(&format!("{fixed} --quantiles 0.1,0.1")).fails(2, &["--quantiles", "given twice"]);
    work.run(&format!("{fixed} --quantiles 2")).fails(2, &["--quantiles", "2 is not between 0 and 1"]);
    work.run(&format!("{fixed} --delimiter ,")).fails(3, &["'t'"]);
}
