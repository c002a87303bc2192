//! Files as spreadsheets, pandas and R write them, and awkward tables: each with the expected inputs and notes of a fit, in memory and from
//! disk, and new rows that are read like the training rows.

use sparsegp::Result;
use sparsegp::hyper::Session;
use sparsegp::model::Warning;
use sparsegp::options::{FitOptions, ModelKind, StepOptions};
use sparsegp_tables::schema::{SchemaOptions, SplitBy, UnseenLevels};
use sparsegp_tables::tables::{Table, read_csv, read_table_with};
use sparsegp_tables::tabular::{
    FileFit, FileFitRequest, FitRequest, TableFit, TableModel, fit_file, fit_table,
};
use sparsegp_testkit::program::{Work, csv_text};
use std::collections::BTreeSet;
use std::io::Cursor;

/// Reads a table with the name `new`.
pub fn csv(text: &str) -> Table {
    read_csv("new", Cursor::new(text.to_owned().into_bytes())).expect("a table")
}

pub fn columns() -> SchemaOptions {
    SchemaOptions { target: "y".into(), ..SchemaOptions::default() }
}

fn options() -> FitOptions {
    let steps = StepOptions { batch_size: 50, ..StepOptions::default() };
    FitOptions { model: ModelKind::Glm, epochs: Some(3), steps, ..FitOptions::default() }
}

/// Fits the rows of a file from disk, and asserts that the fit states the memory that it needs.
pub fn from_disk(request: &FileFitRequest<'_>) -> Result<FileFit> {
    let mut heard = None;
    let fit = fit_file(request, &mut |plan| heard = Some(*plan), &mut Session::new(&mut |_| {}))?;
    assert_eq!(heard, Some(fit.plan));
    Ok(fit)
}

pub fn in_memory(request: &FileFitRequest<'_>) -> Result<TableFit> {
    let FileFitRequest { path, columns, options, test_fraction, start, .. } = *request;
    let table = read_table_with(path, columns.delimiter, &columns.missing)?;
    let request = FitRequest { test_fraction, start, ..FitRequest::new(&table, columns, options) };
    fit_table(&request, &mut |_| {})
}

/// Returns the models and test rows of fits to the file `f.csv` in memory and from disk.
fn fits(work: &Work, columns: &SchemaOptions, test_fraction: f64) -> [Result<(TableModel, Vec<usize>)>; 2] {
    let (path, memory, batches) = (&work.path("f.csv"), &options(), &options().by_batches());
    let (start, shuffle_buffer) = (None, Some(100));
    let request = FileFitRequest { path, columns, options: batches, test_fraction, start, shuffle_buffer };
    let of_disk = |fit: FileFit| {
        let rows = fit.test_parts()?.map(|part| part.map(|part| part.rows)).collect::<Result<Vec<_>>>()?;
        Ok((fit.model, rows.concat()))
    };
    let of_memory = |fit: TableFit| (fit.model, fit.test.map(|part| part.rows).unwrap_or_default());
    let memory = in_memory(&FileFitRequest { options: memory, ..request }).map(of_memory);
    [memory, from_disk(&request).and_then(of_disk)]
}

fn notes(model: &TableModel) -> Vec<String> {
    let texts = model.summary().warnings.iter().filter_map(|warning| match warning {
        Warning::Data { text } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// Fits the file `f.csv` in memory and from disk, asserts that both fits agree, and returns the model, the notes and the test rows.
pub fn fitted_with(
    work: &Work,
    columns: &SchemaOptions,
    test_fraction: f64,
) -> (TableModel, Vec<String>, Vec<usize>) {
    let [(memory, rows), (disk, same_rows)] =
        fits(work, columns, test_fraction).map(|fit| fit.expect("a fit"));
    assert_eq!(memory.schema().input_names(), disk.schema().input_names());
    assert_eq!(memory.schema().features(), disk.schema().features());
    let told = notes(&memory);
    assert_eq!((&rows, &told), (&same_rows, &notes(&disk)));
    let read = TableModel::from_bytes("model", &memory.to_bytes().expect("a model file")).expect("a model");
    assert_eq!(read.schema(), memory.schema());
    (read, told, rows)
}

pub fn assert_told(told: &[String], words: &[&str]) {
    let agree = told.iter().zip(words).all(|(note, words)| note.contains(words));
    assert!(agree && told.len() == words.len(), "{words:#?} in {told:#?}");
}

/// Returns the model of a text, and asserts that each note of its fit has its words.
pub fn fitted(text: &str, words: &[&str]) -> TableModel {
    let (model, told, _) = fitted_with(&Work::with("f.csv", text), &columns(), 0.0);
    assert_told(&told, words);
    model
}

/// Asserts that the fits in memory and from disk fail with one error, which has these words.
pub fn refused(text: &str, columns: &SchemaOptions, words: &str) {
    let [memory, disk] = fits(&Work::with("f.csv", text), columns, 0.2)
        .map(|fit| fit.map(|_| ()).expect_err("refused").to_string());
    assert_eq!(memory, disk);
    assert!(memory.contains(words) && !memory.contains('\n'), "{memory}");
}

pub fn noise(row: usize) -> f64 {
    (((row as f64 + 1.0) * 78.233).sin() * 43_758.545).rem_euclid(1.0)
}

/// Returns a table of a column of numbers, a column of names of regions, and a target.
fn plain(header: &str, cells: impl Fn(usize, String) -> String) -> String {
    csv_text(header, 0..60, |row| {
        let (region, y) = (["north", "south"][row % 2], noise(row + 7) + (row % 2) as f64);
        cells(row, format!("{:.4},{region},{y:.3}", noise(row)))
    })
}

fn with(name: &str, cell: impl Fn(usize) -> String) -> String {
    plain(&format!("{name},x,c,y"), |row, line| format!("{},{line}", cell(row)))
}

fn of<const N: usize>(values: [&'static str; N]) -> impl Fn(usize) -> String {
    move |row| values[row % N].to_owned()
}

/// Returns a function that writes a number or, in every ninth row, one of the markers.
fn gaps<const N: usize>(markers: [&'static str; N]) -> impl Fn(usize) -> String {
    move |row| if row % 9 == 0 { markers[row / 9 % N].to_owned() } else { format!("{:.2}", noise(row + 3)) }
}

const GAPS: &str = "in 'a' (7) the mean replaces them, and an input 'a is missing' marks them";

/// Returns files with their expected inputs, and words of each of their expected notes.
fn files() -> Vec<(String, &'static str, Vec<&'static str>)> {
    let text = |header: &str| plain(header, |_, line| line);
    let semicolons = text("x,c,y").replace(',', ";").replace('.', ",").replace('\n', "\r\n");
    let remarks = |row: usize| if row % 20 == 3 { "see note".to_owned() } else { (row * 7 % 50).to_string() };
    let day = |row: usize| match row {
        9 => "n/a".to_owned(),
        _ => format!("\"{} {:02}, 2020\"", ["Jan", "Feb", "Mar", "Apr"][row / 20], 1 + row % 20),
    };
    vec![
        // A delimiter that the first line names, after a byte order mark.
        (format!("\u{feff}sep=;\r\n{semicolons}"), "x c=south", vec!["decimal comma (\"0,1828\" is 0.1828)"]),
        // Delimiters after the last column.
        (text("x,c,y,").replace('\n', ",,\n"), "x c=south", vec![]),
        // Blank lines and rows, and a last row of sums.
        (
            format!("\n\n{},,\n\nTotal,,\n", text("x,c,y")),
            "x c=south",
            vec!["2 of 62 rows have no target 'y'"],
        ),
        (
            with("age", remarks),
            "age age is missing x c=south",
            vec!["'age' (3 cells of text such as \"see note\" taken as missing)", "in 'age' (3) the mean"],
        ),
        // Codes of digits and letters.
        (
            with("icd", of(["250", "428", "V27", "414"])),
            "icd=414 icd=428 icd=V27 x c=south",
            vec!["categories: 'icd' (15 cells of text such as \"V27\")"],
        ),
        // The index of pandas.
        (
            with("", |row| ((row * 7) % 60).to_string()),
            "x c=south",
            vec!["'Unnamed: 0' (whole numbers without a name); ⟨keep 'Unnamed: 0'⟩ keeps it"],
        ),
        (
            with("a", gaps(["N/A", "#N/A", "None", "<NA>", "-", ".", "#DIV/0!"])),
            "a a is missing x c=south",
            vec!["'a' (\"N/A\" is missing)", GAPS],
        ),
        // Numbers that may mark missing cells.
        (
            with("a", gaps(["-999"])),
            "a x c=south",
            vec!["-999 in 'a'; if they mark missing cells, add ⟨missing -999⟩"],
        ),
        // Dates with the names of months, and a gap.
        (
            with("when", day),
            "when (years) when (sin of week) when (cos of week) when is missing x c=south",
            vec!["\"Jan 01, 2020\" is 2020-01-01, \"n/a\" is missing", "in 'when' (1) the mean"],
        ),
        // Ratings.
        (
            with("a", of(["Good", "Poor", "Excellent", "Fair", "n/a"])),
            "a a is missing x c=south",
            vec!["order of their meaning: 'a' (Poor < Fair < Good < Excellent)", "in 'a' (12) the mean"],
        ),
    ]
}

#[test]
fn everyday_files_give_the_expected_inputs_and_notes() {
    for (text, inputs, words) in files() {
        assert_eq!(fitted(&text, &words).schema().input_names().join(" "), inputs);
    }
}

#[test]
fn markers_of_missing_cells_are_saved_with_the_model() {
    let work = Work::with("f.csv", with("a", gaps(["-999", "refused"])));
    let options = SchemaOptions { missing: vec!["-999".into(), "refused".into()], ..columns() };
    let (model, told, _) = fitted_with(&work, &options, 0.0);
    assert_told(&told, &[GAPS]);
    work.write("new.csv", "a,x,c\n-999.0,0.5,north\nrefused,0.5,south\n0.5,0.5,south\n");
    let mut blocks = model.schema().open_with(&work.path("new.csv"), 10, None, &[]).expect("a file");
    let table = blocks.next().expect("a block").expect("a table");
    let x = model.schema().design(&table, UnseenLevels::Error).expect("inputs");
    assert_eq!((x[(0, 1)], x[(1, 1)], x[(2, 1)]), (1.0, 1.0, 0.0));
}

#[test]
fn test_files_are_checked_before_training_and_models_are_saved_before_test_rows_are_read() {
    let work = Work::with("train.csv", plain("x,c,y", |_, line| line));
    work.write("other.csv", plain("x,c,z", |_, line| line));
    work.write("short.csv", "x,y\n1,2\n");
    work.write("bad.csv", "x,c,y\noops,north,1\n");
    let fit = "fit train.csv --target y --auto none --epochs 1 --model-out m --quiet --test";
    let cases: [(&str, &[&str]); 3] = [
        ("absent.csv", &["absent.csv: cannot be read"]),
        ("other.csv", &["other.csv: there is no column named 'y'"]),
        ("short.csv", &["short.csv: there is no column named 'c'"]),
    ];
    work.refuses(3, fit, &cases);
    work.run(&format!("{fit} bad.csv")).fails(3, &["bad.csv: row 1 (line 2), column 'x': found \"oops\""]);
    assert!(work.path("m").exists());
}

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
