//! Hostile text and files: quotation marks that are never closed, formulas, labels of any length, files without end. Every command
//! with absurd values of its numeric options ends quickly, with a one-line error or a result.

use sparsegp_testkit::program::{Run, Work, assert_contains, csv_text, quick, table};

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

/// Absurd whole numbers: too large for their type or for memory, zero, and negative.
const WHOLE: [&str; 4] = ["18446744073709551615", "99999999999", "0", "-1"];

const REAL: [&str; 5] = ["nan", "inf", "-inf", "1e308", "-1"];

/// Options of `fit` and complete commands. `VALUE` stands for an absurd value, and `BRIEF` for options of very short fits.
const WHOLE_COMMANDS: [&str; 39] = [
    "--threads=VALUE",
    "--quadrature-nodes=VALUE --likelihood student-t",
    "--max-steps=VALUE --hyper joint",
    "--batch-size=VALUE --objective dlm-log",
    "--warm-start=VALUE --objective dlm-log --hyper joint --max-seconds 1",
    "--seed=VALUE",
    "--restarts=VALUE",
    "--mixing=VALUE",
    "--shuffle-buffer=VALUE",
    "--patience=VALUE --validation-fraction 0.2",
    "--inducing=VALUE",
    "--inducing=VALUE --objective vfe",
    "--inducing auto --max-inducing=VALUE",
    "--epochs=VALUE --max-seconds 0.2",
    "--neighbours=VALUE",
    "--neighbours 5 --keep-rows=VALUE",
    "--batch-schedule=const:VALUE --objective dlm-log",
    "--batch-schedule=max:VALUE:2 --objective dlm-log",
    "--estimator=bmc:VALUE --objective dlm-log",
    "--estimator=smooth-bmc:VALUE:0.1 --objective dlm-log",
    "--estimator=ups:VALUE --objective dlm-log",
    "--estimator=price:VALUE --max-steps 3",
    "--estimator=reparam:VALUE --max-steps 3",
    "--estimator=stl:VALUE --max-steps 3",
    "--estimator=piecewise:VALUE --likelihood bernoulli-logit",
    "--sample-schedule=const:VALUE --estimator price:2 --max-steps 3",
    "fit targets.csv --target y1,y2 --quiet --inducing 5 --epochs 2 --mixing=VALUE",
    "fit targets.csv --target y1,y2 --quiet --inducing 5 --epochs 2 --outputs=mixed:VALUE",
    "predict model data.csv --out p.csv --samples=VALUE",
    "predict model data.csv --out p.csv --draws=VALUE",
    "predict model data.csv --out p.csv --draws 1 --seed=VALUE",
    "explain model data.csv --orders=VALUE",
    "explain model data.csv --orders 3 --columns=VALUE",
    "explain model data.csv --orders 3 --seed=VALUE",
    "explain model data.csv --orders 3 --rows=VALUE",
    "explain model data.csv --orders 3 --rows=1-VALUE",
    "compare data.csv --target y --out cVALUE --quiet BRIEF --train-sizes 20 --repeats=VALUE",
    "compare data.csv --target y --out tVALUE --quiet BRIEF --train-sizes=VALUE",
    "compare data.csv --target y --out hVALUE --quiet BRIEF --train-sizes 20 --threads=VALUE",
];

const REAL_COMMANDS: [&str; 26] = [
    "--sample-schedule=power:VALUE --estimator price:2 --max-steps 3",
    "--beta=VALUE",
    "--betas=VALUE",
    "--jitter=VALUE",
    "--learning-rate=VALUE --objective dlm-log",
    "--max-seconds=VALUE",
    "--tolerance=VALUE",
    "--stop-at=VALUE",
    "--test-fraction=VALUE",
    "--validation-fraction=VALUE",
    "--checkpoint-every=VALUE --checkpoint c",
    "--inducing auto --inducing-tolerance=VALUE",
    "--q-step=const:VALUE --objective dlm-log",
    "--q-step=half-t:VALUE --objective dlm-log",
    "--q-bounds=VALUE,VALUE --q-update projected-ngvi --objective dlm-log",
    "--fix=likelihood.noise_variance=VALUE",
    "--fix=*.lengthscales=VALUE",
    "--bounds=*.lengthscales=VALUE,VALUE",
    "--prior=*.lengthscales=lognormal(VALUE,VALUE)",
    "--prior=*.lengthscales=gamma(VALUE,1)",
    "--prior=*.lengthscales=halfcauchy(VALUE)",
    "fit data.csv --target y --quiet --model glm --epochs 3 --prior-mean=VALUE",
    "fit data.csv --target y --quiet --model glm --epochs 3 --prior-variance=VALUE",
    "predict model data.csv --out p.csv --quantiles=VALUE",
    "update model data.csv --model-out u --forget=VALUE",
    "compare data.csv --target y --out fVALUE --quiet BRIEF --train-sizes 20 --test-fraction=VALUE",
];

#[test]
fn absurd_values_are_refused_or_work() {
    let work = Work::with("data.csv", table(60));
    work.write("targets.csv", sparsegp_testkit::outputs::table(60));
    work.quick_fit("data.csv --target y --model-out model");
    let complete = |command: &str| match command.starts_with("--") {
        true => format!("fit data.csv --target y --quiet {} {command}", quick(&command.replace('=', " "))),
        false => command.replace("BRIEF", "--inducing 5 --epochs 1 --max-seconds 1"),
    };
    let whole = WHOLE.iter().flat_map(|value| WHOLE_COMMANDS.map(|command| (command, *value)));
    let real = REAL.iter().flat_map(|value| REAL_COMMANDS.map(|command| (command, *value)));
    let mut refused = 0;
    for (command, value) in whole.chain(real) {
        let arguments = complete(command).replace("VALUE", value);
        let run = work.run(&arguments);
        let said = run.stderr();
        let others = ["warning: ", "note: ", "hint: "];
        let errors: Vec<&str> =
            said.lines().filter(|line| !others.iter().any(|start| line.starts_with(start))).collect();
        let ends_well = match run.code() {
            0 => true,
            2..=4 => errors.len() == 1 && errors[0].starts_with("error: "),
            _ => false,
        };
        assert!(ends_well && !said.contains("defect"), "{arguments}: {} {said}", run.code());
        refused += usize::from(run.code() != 0);
    }
    assert!(refused > 150, "{refused}");
}
