//! Hostile text and files: quotation marks that are never closed, formulas, labels of any length, files without end.

use sparsegp_testkit::program::{Run, Work, assert_contains, csv_text};

#[test]
fn the_error_about_an_open_quotation_mark_names_its_line() {
    let work = Work::empty();
    for (text, line, before) in [
        ("a,b,y\n1,2,3\n4,\"5 or so,6\n7,8,9\n", 3, "5 or so,6"),
        ("a,b,y\n1,2,3\n4,5,\"six\n", 3, "six"),
        ("a,b,y\n1,2,3\n4,\"5,6", 3, "5,6"),
        ("a,\"b,y\n1,2,3\n", 1, "b,y"),
        ("a,b,y\n\"1\n2\",3,\"x\n4\"\n5,\"6\n7\",\"8\n9\n", 6, "8"),
        ("a,b,y\n1,2,\"3\"\"\n4,5,6\n", 2, "3\""),
    ] {
        work.write("open.csv", text);
        let (before, line) = (format!("{before:?}"), format!("(line {line})"));
        work.run("fit open.csv --target y").fails(3, &[&before, &line, "never closed"]);
    }
    // Closed fields may span several lines, wherever the text ends.
    let closed = "a,note,y\n1,\"x\ny\",2\n3,\"z\n\",4\n5,\"\"\"q\"\"\n\",6\n7,\"r\ns\"\"\",";
    for end in ["8", "8\n", "\"8\n\"", "\"8\n\"\n", "\"\n8\"\r\n\r\n"] {
        work.write("closed.csv", format!("{closed}{end}"));
        work.quick_fit("closed.csv --target y");
    }
}

#[test]
fn csv_safe_writes_formulas_as_text() {
    // One of two labels is a formula.
    let formulas = csv_text("x,who,y", 0..60, |row| match row {
        0..30 => format!("{row},@x,=cmd|calc!A0"),
        _ => format!("{row},-1,plain"),
    });
    let work = Work::with("t.csv", formulas);
    let fit = "t.csv --target y --exclude who --model-out m --test-fraction 0.3";
    work.quick_fit(&format!("{fit} --predictions held.csv --csv-safe"));
    let held = work.read("held.csv");
    assert!(held.contains(",'=cmd|calc!A0,") && !held.contains(",=cmd"), "{held}");
    for (option, label, who) in [("", "=cmd|calc!A0,", "\n@x,"), ("--csv-safe", ",'=cmd|calc!A0,", "\n'@x,")]
    {
        let text = work.text(&format!("predict m t.csv --keep who --out - {option}"));
        // Numbers are unchanged.
        assert_contains(&text, &[label, who, "\n-1,"]);
    }
    work.run("explain m t.csv --rows 1 --out e --csv-safe").ok();
    for name in ["relevance.csv", "dependence.csv", "contributions.csv"] {
        let text = work.read(&format!("e/{name}"));
        assert!(!text.lines().flat_map(|line| line.split(',')).any(|cell| cell.starts_with('=')), "{text}");
    }
    work.run("explain m t.csv --csv-safe").fails(2, &["--out"]);
}

#[test]
fn labels_of_any_length_are_reported() {
    let work = Work::empty();
    let long = "long ".repeat(15_000);
    let row = |row: usize| format!("{},{}", row % 7, if row.is_multiple_of(2) { &long } else { "short" });
    work.write("t.csv", csv_text("x,y", 0..60, row));
    let shown = work.quick_fit("t.csv --target y --test-fraction 0.3 --report r.html");
    assert!(!shown.stderr().contains("defect"));
    assert!(work.read("r.html").ends_with("</html>\n"));
}

#[cfg(unix)]
#[test]
fn devices_and_endless_lines_are_refused() {
    let work = Work::modelled();
    for arguments in [
        "fit /dev/zero --target y",
        "fit data.csv --target y --test /dev/zero --inducing 5 --epochs 1 --quiet",
        "fit data.csv --target y --from /dev/zero --quiet",
        "fit data.csv --target y --resume /dev/zero --quiet",
        "predict model /dev/zero --out p.csv",
        "predict /dev/zero data.csv --out p.csv",
        "evaluate model /dev/zero",
        "explain model /dev/zero",
        "update model /dev/zero --model-out u",
        "compare /dev/zero --target y --out c",
        "inspect /dev/zero",
    ] {
        work.refuses(3, arguments, &[("", &["/dev/zero: is a device", "expected a file"])]);
    }
    let zeros = std::fs::File::open("/dev/zero").expect("a device");
    let output = work.command("fit - --target y").stdin(zeros).output().expect("the program runs");
    Run(output).fails(3, &["standard input", "a line is longer than 256 MiB"]);
}
