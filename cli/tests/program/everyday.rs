//! Files as spreadsheets, pandas and R write them, each with the expected inputs and notes of a fit, in memory and from disk.

use super::told::{assert_told, columns, fitted, fitted_with, noise};
use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
use sparsegp_testkit::program::{Work, csv_text};

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
