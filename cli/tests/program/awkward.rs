//! Awkward tables: each file with the expected notes of a fit, in memory and from disk, and new rows that are read like the training rows.

use std::collections::BTreeSet;

use super::told::{assert_told, columns, csv, fitted, fitted_with, noise, refused};
use sparsegp_tables::schema::{SchemaOptions, SplitBy, UnseenLevels};
use sparsegp_tables::tabular::TableModel;
use sparsegp_testkit::program::{Work, csv_text};

fn inputs(model: &TableModel, text: &str) -> sparsegp::Result<Vec<Vec<f64>>> {
    let x = model.schema().design(&csv(text), UnseenLevels::Error)?;
    Ok((0..x.nrows()).map(|row| x.row(row).iter().copied().collect()).collect())
}

#[test]
fn the_mean_replaces_missing_inputs_and_an_input_marks_them() {
    let text = csv_text("a,b,c,y", 0..120, |row| {
        let a = if row % 10 == 3 { "NA".to_owned() } else { format!("{}", row % 7) };
        let c = ["red", "", "blue"][row % 3];
        format!("{a},{},{c},{}", noise(row), 2.0 + noise(row + 500))
    });
    let words = "in 'a' (12) the mean replaces them, and an input 'a is missing' marks them; in 'c' (40) they are a separate category";
    let model = fitted(&text, &[words]);
    // A linear model leaves the first category out.
    assert_eq!(model.schema().input_names(), ["a", "a is missing", "b", "c=red", "c is missing"]);
    let present: Vec<f64> = (0..120).filter(|row| row % 10 != 3).map(|row| (row % 7) as f64).collect();
    let mean = present.iter().sum::<f64>() / present.len() as f64;
    let b = (0..120).map(noise).sum::<f64>() / 120.0;
    let new = "a,b,c\n,0.5,red\n2,,NA\n";
    let x = inputs(&model, new).expect("inputs");
    for (found, expected) in x.concat().iter().zip([mean, 1.0, 0.5, 1.0, 0.0, 2.0, 0.0, b, 0.0, 1.0]) {
        assert!((found - expected).abs() < 1e-12, "{x:?}");
    }
    assert_eq!(model.schema().silent_gaps(&csv(new)), [("b", 1)]);
    let predictions = model.predict(&csv(new), UnseenLevels::Error).expect("predictions");
    assert!(predictions.row(1).mean.is_finite());
}

#[test]
fn cells_that_are_missing_only_in_test_rows_add_no_input() {
    let work = Work::empty();
    let mut test = Vec::new();
    for _ in 0..2 {
        let text = csv_text("a,b,y", 0..60, |row| {
            let a = if test.first() == Some(&row) { String::new() } else { noise(row).to_string() };
            format!("{a},{},{}", noise(row + 99), noise(row + 7))
        });
        work.write("f.csv", text);
        let (model, _, rows) = fitted_with(&work, &columns(), 0.2);
        assert!(test.is_empty() || test == rows);
        assert_eq!(model.schema().input_names(), ["a", "b"]);
        test = rows;
    }
}

#[test]
fn rows_without_a_target_are_left_out_and_rows_keep_their_numbers() {
    let text = csv_text("a,y", 0..100, |row| {
        let y = if row % 5 == 0 { String::new() } else { noise(row + 7).to_string() };
        // The other cells of such rows are irrelevant.
        let a = if row == 50 { "oops".to_owned() } else { noise(row).to_string() };
        format!("{a},{y}")
    });
    let (model, told, test) = fitted_with(&Work::with("f.csv", &text), &columns(), 0.25);
    assert_told(&told, &["f.csv: 20 of 100 rows have no target 'y' and are left out"]);
    assert_eq!((model.training_rows(), test.len()), (60, 20));
    assert!(test.iter().all(|row| row % 5 != 0));
    let bad = text.replace(&format!("{},{}\n", noise(78), noise(85)), &format!("inf,{}\n", noise(85)));
    refused(&bad, &columns(), "f.csv: row 79 (line 80), column 'a': found inf");
    let none = csv_text("a,y", 0..20, |row| format!("{},NA", noise(row)));
    refused(&none, &columns(), "f.csv: the target 'y' is missing in every row");
}

/// Returns a date in a format. The first 28 days of each month are numbered, from the start of 2020.
fn day(number: usize, form: &str) -> String {
    let (y, m, d) = (2020 + number / 336, 1 + number / 28 % 12, 1 + number % 28);
    form.replace('Y', &y.to_string()).replace('M', &format!("{m:02}")).replace('D', &format!("{d:02}"))
}

#[test]
fn dates_give_a_trend_and_the_periods_that_they_cover() {
    for (form, first) in [
        ("Y-M-DT06:30:00Z", "2020-01-01 06:30"),
        ("D.M.Y", "2020-01-01"),
        ("M/D/Y", "2020-01-01"),
        ("D/M/Y 10:00", "2020-01-01 10:00"),
    ] {
        let row = |row| format!("{},{},{}", day(row, form), noise(row), noise(row + 5));
        let note = format!("'when' ({:?} is {first})", day(0, form));
        let model = fitted(&csv_text("when,x,y", 0..500, row), &[&note]);
        let of_when = ["years", "sin of week", "cos of week", "sin of year", "cos of year"];
        let names = of_when.map(|part| format!("when ({part})"));
        let found = model.schema().input_names();
        assert_eq!((&found[..5], found[5].as_str()), (&names[..], "x"), "{form}");
        let x = inputs(&model, &format!("when,x\n{},0\n", day(336, form))).expect("inputs");
        // The first of January 2021 was a Friday.
        let (angle, years) = (std::f64::consts::TAU * 4.0 / 7.0, 366.0 / 365.2425);
        for (found, wanted) in x[0].iter().zip([years, angle.sin(), angle.cos()]) {
            assert!((found - wanted).abs() < 1e-9, "{x:?}");
        }
        assert!(x[0][4] > 0.99);
        let error = inputs(&model, "when,x\nyesterday,0\n").expect_err("no date").to_string();
        let words = "new: row 1 (line 2), column 'when': found \"yesterday\", expected a date";
        assert!(error.starts_with(words), "{error}");
    }
}

#[test]
fn identifiers_are_left_out_unless_they_are_kept() {
    let text = csv_text("id,name,order_id,t,n,empty,x,y", 0..100, |row| {
        let (n, t) = ((row * 37) % 100 + 1, 100 + 3 * row);
        format!("{},p{row},{},{t},{n},,{},{}", row + 1, 7000 + (row * 31) % 997, noise(row), noise(row + 5))
    });
    let note = "columns left out: 'id' (distinct whole numbers, named as identifiers are), 'name' (a different value in nearly every row), \
                'order_id' (distinct whole numbers, named as identifiers are), 't' (whole numbers in the order of the rows, which the target \
                does not follow), 'n' (whole numbers that count the rows) and 'empty' (no value in any row); \
                ⟨keep id,name,order_id,t,n,empty⟩ keeps them";
    assert_eq!(fitted(&text, &[note]).schema().input_names(), ["x"]);
    let keep = SchemaOptions { keep: vec!["id".into(), "n".into()], ..columns() };
    let (model, ..) = fitted_with(&Work::with("f.csv", &text), &keep, 0.2);
    assert_eq!(model.schema().input_names(), ["id", "n", "x"]);
    // A time that the target depends on is an input, and so are unordered distinct whole numbers and numbers with fractions.
    let text = csv_text("t,z,w,y", 0..100, |row| {
        let (z, t) = (5000 + (row * row * 7919) % 100_003, row as f64);
        format!("{row},{z},{},{}", t + 0.5, (t * 0.1).sin())
    });
    assert_eq!(fitted(&text, &[]).schema().input_names(), ["t", "z", "w"]);
}

#[test]
fn whole_groups_and_the_latest_rows_are_held_out() {
    let (who, time) = (|row: &usize| (row * 7) % 23, |row: &usize| (row * 37) % 200);
    let text = csv_text("who,when,x,y", 0..200, |row| {
        let y = if row % 11 == 3 { String::new() } else { noise(row + 5).to_string() };
        format!("p{},{},{},{y}", who(&row), day(time(&row), "D.M.Y"), noise(row))
    });
    let work = Work::with("f.csv", &text);
    let fit = |columns: &SchemaOptions, test: f64| {
        let (model, _, test) = fitted_with(&work, columns, test);
        (model.schema().input_names(), test)
    };
    let labelled: Vec<usize> = (0..200).filter(|row| row % 11 != 3).collect();
    let by = |split: SplitBy| SchemaOptions { split: Some(split), ..columns() };
    let groups = by(SplitBy::Group("who".into()));
    let (names, test) = fit(&groups, 0.2);
    assert!(!names.iter().any(|name| name.starts_with("who")));
    let held: BTreeSet<usize> = test.iter().map(who).collect();
    let whole: Vec<usize> = labelled.iter().copied().filter(|row| held.contains(&who(row))).collect();
    assert_eq!(test, whole);
    assert!((30..43).contains(&test.len()) && held.len() > 1, "{test:?}");
    let asked = SchemaOptions { features: Some(vec!["who".into(), "x".into()]), ..groups.clone() };
    assert!(fit(&asked, 0.2).0[0].starts_with("who="));
    let latest = by(SplitBy::Time("when".into()));
    let (names, test) = fit(&latest, 0.25);
    assert!(names.contains(&"when (years)".to_owned()));
    let trained = labelled.iter().filter(|row| !test.contains(row));
    assert!(trained.map(time).max() < test.iter().map(time).min());
    assert_eq!(test.len(), (labelled.len() as f64 * 0.25).round() as usize);
    // The column to split by need not be an input.
    let excluded = SchemaOptions { exclude: vec!["when".into()], ..latest };
    let (names, again) = fit(&excluded, 0.25);
    assert!(again == test && !names.iter().any(|name| name.starts_with("when")));
    let gaps = text.replace("p7,", ",").replace("\n,", "\nNA,");
    refused(&gaps, &groups, "f.csv: row 2 (line 3), column 'who': the value is missing");
    let one = csv_text("g,x,y", 0..30, |row| format!("a,{},{}", noise(row), noise(row + 5)));
    refused(&one, &by(SplitBy::Group("g".into())), "1 groups with 30 rows; the groups held out leave 0 rows");
    refused(&one, &by(SplitBy::Time("g".into())), "column 'g': found \"a\", expected a date or a number");
}

#[test]
fn ordered_levels_are_counted_in_their_order() {
    let work = Work::empty();
    // In one file a size is a word, in the other its place among S, M, L and XL.
    for (name, sizes) in [("words", ["M", "XL", "S", "L"]), ("places", ["1", "3", "0", "2"])] {
        let size = |i: usize| if i == 9 { "" } else { sizes[i % 4] };
        let row = |i: usize| format!("{},{},{}", i as f64 / 40.0, size(i), (i % 7) as f64 * 0.1);
        work.write(&format!("{name}.csv"), csv_text("a,size,y", 0..60, row));
    }
    let fit = "--target y --inducing 10 --epochs 3 --quiet --model-out";
    work.run(&format!("fit words.csv {fit} disk --shuffle-buffer 1000 --ordered size=S<M<L<XL")).ok();
    work.run(&format!("fit words.csv {fit} words --ordered size=S<M<L<XL")).ok();
    work.run(&format!("fit places.csv {fit} places")).ok();
    let [words, places] =
        ["words", "places"].map(|name| work.text(&format!("predict {name} {name}.csv --out -")));
    assert_eq!(words, places);
    work.write("new.csv", "a,size,y\n0.1,XXL,0\n");
    let unseen: [&str; 4] = ["row 1 (line 2)", "'size'", "XXL", "S < M < L < XL"];
    work.refuses(3, "predict words new.csv --out n.csv", &[("", &unseen)]);
}
