//! Files as spreadsheets, pandas and R write them, each with the expected inputs and notes of a fit, in memory and from disk.

use super::told::{columns, file, fitted_with, noise};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_testkit::program::{Work, csv_text};

/// A file with its expected inputs and notes.
struct Everyday {
    name: &'static str,
    bytes: Vec<u8>,
    inputs: &'static str,
    said: &'static [&'static str],
}

/// Returns a table of two columns of numbers, a column of names of regions, and a target.
fn plain(header: &str, cells: impl Fn(usize, String) -> String) -> String {
    let region = |row: usize| ["north", "south"][row % 2];
    let line =
        |row: usize| format!("{:.4},{},{:.3}", noise(row), region(row), noise(row + 7) + (row % 2) as f64);
    csv_text(header, 0..60, |row| cells(row, line(row)))
}

/// Returns this table with another column in front.
fn with(name: &str, cell: impl Fn(usize) -> String) -> Vec<u8> {
    plain(&format!("{name},x,c,y"), |row, line| format!("{},{line}", cell(row))).into_bytes()
}

fn of<const N: usize>(values: [&'static str; N]) -> impl Fn(usize) -> String {
    move |row| values[row % N].to_owned()
}

/// Returns a function that writes a number or, in every ninth row, one of the markers.
fn gaps<const N: usize>(markers: [&'static str; N]) -> impl Fn(usize) -> String {
    move |row| if row % 9 == 0 { markers[row / 9 % N].to_owned() } else { format!("{:.2}", noise(row + 3)) }
}

fn named_day(row: usize) -> String {
    let month = ["Jan", "Feb", "Mar", "Apr"][row / 20];
    format!("\"{month} {:02}, 2020\"", 1 + row % 20)
}

fn spreadsheets() -> Vec<Everyday> {
    let text = |header: &str| plain(header, |_, line| line);
    let semicolons = text("x,c,y").replace(',', ";").replace('.', ",");
    vec![
        Everyday {
            name: "a semicolon that the first line names, after a byte order mark",
            bytes: format!("\u{feff}sep=;\r\n{}", semicolons.replace('\n', "\r\n")).into_bytes(),
            inputs: "x c=south",
            said: &["f: numbers and dates as written: all with a decimal comma (\"0,1828\" is 0.1828)"],
        },
        Everyday {
            name: "delimiters after the last column",
            bytes: text("x,c,y,").replace('\n', ",,\n").into_bytes(),
            inputs: "x c=south",
            said: &[],
        },
        Everyday {
            name: "blank lines and rows, and a last row of sums",
            bytes: format!("\n\n{},,\n\nTotal,,\n", text("x,c,y")).into_bytes(),
            inputs: "x c=south",
            said: &["f: 2 of 62 rows have no target 'y' and are left out"],
        },
        Everyday {
            name: "remarks among numbers",
            bytes: with("age", |row| {
                if row % 20 == 3 { "see note".to_owned() } else { (row * 7 % 50).to_string() }
            }),
            inputs: "age age is missing x c=south",
            said: &[
                "f: numbers and dates as written: 'age' (3 cells of text such as \"see note\" taken as missing)",
                "f: cells are missing: in 'age' (3) the mean replaces them, and an input 'age is missing' marks them",
            ],
        },
        Everyday {
            name: "codes of digits and letters",
            bytes: with("icd", of(["250", "428", "V27", "414"])),
            inputs: "icd=414 icd=428 icd=V27 x c=south",
            said: &[
                "f: columns of numbers and text are categories: 'icd' (15 cells of text such as \"V27\")",
            ],
        },
    ]
}

fn frames() -> Vec<Everyday> {
    vec![
        Everyday {
            name: "the index of pandas",
            bytes: with("", |row| ((row * 7) % 60).to_string()),
            inputs: "x c=south",
            said: &[
                "f: column left out: 'Unnamed: 0' (whole numbers without a name); ⟨keep 'Unnamed: 0'⟩ keeps it",
            ],
        },
        Everyday {
            name: "markers of missing cells in a column of numbers",
            bytes: with("a", gaps(["N/A", "#N/A", "None", "<NA>", "-", ".", "#DIV/0!"])),
            inputs: "a a is missing x c=south",
            said: &[
                "f: numbers and dates as written: 'a' (\"N/A\" is missing)",
                "f: cells are missing: in 'a' (7) the mean replaces them, and an input 'a is missing' marks them",
            ],
        },
        Everyday {
            name: "sentinels",
            bytes: with(
                "a",
                |row| if row % 9 == 0 { "-999".into() } else { format!("{:.2}", noise(row + 3)) },
            ),
            inputs: "a x c=south",
            said: &[
                "f: numbers far from all others in several rows: -999 in 'a'; if they mark missing cells, add ⟨missing -999⟩",
            ],
        },
        Everyday {
            name: "dates with the names of months, and a gap",
            bytes: with("when", |row| if row == 9 { "n/a".into() } else { named_day(row) }),
            inputs: "when (years) when (sin of week) when (cos of week) when is missing x c=south",
            said: &[
                "f: numbers and dates as written: 'when' (\"Jan 01, 2020\" is 2020-01-01, \"n/a\" is missing)",
                "f: cells are missing: in 'when' (1) the mean replaces them, and an input 'when is missing' marks them",
            ],
        },
        Everyday {
            name: "ratings",
            bytes: with("a", of(["Good", "Poor", "Excellent", "Fair", "n/a"])),
            inputs: "a a is missing x c=south",
            said: &[
                "f: levels in the order of their meaning: 'a' (Poor < Fair < Good < Excellent)",
                "f: cells are missing: in 'a' (12) the mean replaces them, and an input 'a is missing' marks them",
            ],
        },
    ]
}

#[test]
fn everyday_files_give_the_expected_inputs_and_notes() {
    let mut wrong = Vec::new();
    for Everyday { name, bytes, inputs, said } in spreadsheets().into_iter().chain(frames()) {
        let (_folder, path) = file("f.csv", bytes);
        let (model, (told, _)) = fitted_with(&path, &columns(), 0.0);
        let found = model.schema().input_names().join(" ");
        if told != said || found != inputs {
            wrong.push(format!("{name}: {found}\n{}\n", told.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn markers_of_missing_cells_are_saved_with_the_model() {
    let text = with("a", gaps(["-999", "refused"]));
    let (_folder, path) = file("f.csv", text);
    let options = SchemaOptions { missing: vec!["-999".into(), "refused".into()], ..columns() };
    let (model, (told, _)) = fitted_with(&path, &options, 0.0);
    assert_eq!(
        told,
        ["f: cells are missing: in 'a' (7) the mean replaces them, and an input 'a is missing' marks them"]
    );
    let (_folder, new) = file("new.csv", "a,x,c\n-999.0,0.5,north\nrefused,0.5,south\n0.5,0.5,south\n");
    let table = model
        .schema()
        .open_with(&new, 10, None, &[])
        .expect("a file")
        .next()
        .expect("a block")
        .expect("a table");
    let x = model.schema().design(&table, sparsegp_tables::schema::UnseenLevels::Error).expect("inputs");
    assert_eq!((x[(0, 1)], x[(1, 1)], x[(2, 1)]), (1.0, 1.0, 0.0));
}

#[test]
fn test_files_are_checked_before_training_and_models_are_saved_before_test_rows_are_read() {
    let work = Work::with("train.csv", &plain("x,c,y", |_, line| line));
    work.write("other.csv", &plain("x,c,z", |_, line| line));
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
