//! Runs the program in a temporary folder, and reads its output and files.

pub use crate::outputs::csv_text;
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Returns the path of the program that Cargo built together with the current test.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    let folder = test.parent().and_then(Path::parent).expect("the folder of the build");
    folder.join("sparsegp").with_extension(std::env::consts::EXE_EXTENSION)
}

/// A temporary folder for runs of the program.
pub struct Work {
    pub folder: TempDir,
}

impl Work {
    /// Creates a folder with a small table, `data.csv`.
    pub fn new() -> Work {
        let work = Work::empty();
        work.write("data.csv", table(120));
        work
    }

    /// Creates a folder with a small table, `data.csv`, and a model of it, `model`.
    pub fn modelled() -> Work {
        let work = Work::new();
        work.quick_fit("data.csv --target y --model-out model");
        work
    }

    /// Creates an empty folder.
    pub fn empty() -> Work {
        Work { folder: tempfile::tempdir().expect("a folder") }
    }

    /// Creates a folder with one file.
    pub fn with(name: &str, contents: impl AsRef<[u8]>) -> Work {
        let work = Work::empty();
        work.write(name, contents);
        work
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).expect("written");
    }

    /// Reads the bytes of a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect(name)
    }

    /// Reads a CSV file.
    pub fn csv(&self, name: &str) -> Csv {
        Csv::of(&self.read(name))
    }

    /// Reads a JSON file.
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).expect(name)
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
        names.sort();
        names
    }

    /// Runs the program in the folder; arguments are separated by blanks. A fit makes no automatic
    /// choices unless the arguments have `--auto`.
    pub fn run(&self, arguments: &str) -> Run {
        Run(self.command(arguments).output().expect("the program runs"))
    }

    /// Checks that a command with each of these options fails with this status and words, as
    /// [`Run::fails`] does, and writes nothing.
    pub fn refuses(&self, code: i32, command: &str, cases: &[(&str, &[&str])]) {
        let names = self.names();
        for (options, words) in cases {
            println!("{command} {options}");
            self.run(&format!("{command} {options}")).fails(code, words);
        }
        assert_eq!(self.names(), names, "{command}");
    }

    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(program());
        command.current_dir(self.folder.path()).args(arguments.split_whitespace());
        let chooses = arguments.contains("--auto") || arguments.contains("--from");
        if arguments.starts_with("fit ") && !chooses {
            command.args(["--auto", "none"]);
        }
        command
    }

    pub fn run_with_input(&self, arguments: &str, input: &[u8]) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        child.stdin.take().expect("input").write_all(input).expect("written");
        Run(child.wait_with_output().expect("the program ends"))
    }

    /// Returns the standard output of a command that succeeds.
    pub fn text(&self, arguments: &str) -> String {
        self.run(arguments).ok().stdout()
    }

    /// Checks that a command succeeds and prints all these words, however the lines break.
    pub fn prints(&self, arguments: &str, words: &[&str]) {
        let text = self.text(arguments).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_contains(&text, words);
    }

    /// Checks that a command succeeds with all these words on standard error.
    pub fn tells(&self, arguments: &str, words: &[&str]) -> Run {
        let run = self.run(arguments).ok();
        assert_contains(&run.stderr(), words);
        run
    }

    /// Runs a quiet fit that succeeds and takes almost no time, unless its options say otherwise.
    pub fn quick_fit(&self, options: &str) -> Run {
        self.run(&format!("fit {options} --quiet {}", quick(options))).ok()
    }

    /// Returns the metrics document of a quick fit to the table with these additional options.
    pub fn fit(&self, options: &str) -> Value {
        self.quick_fit(&format!("data.csv --target y --json {options}")).json()
    }
}

/// Returns options that make a fit quick, except those that `options` sets.
pub fn quick(options: &str) -> String {
    let given = |name: &str| options.split_whitespace().any(|word| word == name);
    // A linear model has no inducing inputs, and a fit from a model takes those of that model.
    let none = given("--from") || given("glm");
    let taken = |name: &str| given(name) || (name == "--inducing" && none);
    let words: Vec<&str> = QUICK.split_whitespace().collect();
    let kept: Vec<&str> = words.chunks(2).filter(|pair| !taken(pair[0])).flatten().copied().collect();
    kept.join(" ")
}

/// Options for a fit that takes almost no time.
pub const QUICK: &str = "--inducing 10 --epochs 3 --tolerance 0";

pub struct Run(pub Output);

impl Run {
    pub fn ok(self) -> Run {
        assert_eq!(self.code(), 0, "{}", self.stderr());
        self
    }

    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("text")
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("text")
    }

    /// Returns the complete standard output as one JSON document.
    pub fn json(self) -> Value {
        let run = self.ok();
        serde_json::from_str(&run.stdout()).expect("a JSON document and nothing else")
    }

    /// Returns the complete standard output as a CSV text.
    pub fn csv(self) -> Csv {
        Csv::of(&self.ok().stdout())
    }

    /// Checks that the run failed with this status, that its error is one line with these words,
    /// and that standard output is empty.
    pub fn fails(&self, code: i32, words: &[&str]) {
        let stderr = self.stderr();
        assert_eq!(self.code(), code, "{stderr}");
        assert_eq!(self.stdout(), "");
        let lines: Vec<&str> = stderr.lines().collect();
        assert!(lines[0].starts_with("error: "), "{stderr}");
        assert!(lines.len() <= 2 && lines[1..].iter().all(|line| line.starts_with("hint: ")), "{stderr}");
        assert_contains(&stderr, words);
    }
}

/// The cells of a CSV text, none of which has a line break.
#[derive(Debug)]
pub struct Csv {
    pub names: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Csv {
    /// Parses a text with a header.
    pub fn of(text: &str) -> Csv {
        let mut rows: Vec<Vec<String>> = text.lines().map(Csv::cells).collect();
        Csv { names: rows.remove(0), rows }
    }

    /// Splits a line at the commas outside quotation marks.
    fn cells(line: &str) -> Vec<String> {
        let mut quoted = false;
        let cells = line.split(|c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        cells.map(|cell| cell.trim_matches('"').to_owned()).collect()
    }

    /// Returns the cells of a column.
    pub fn column(&self, name: &str) -> Vec<&str> {
        let index = self.names.iter().position(|known| known == name).expect(name);
        self.rows.iter().map(|row| row[index].as_str()).collect()
    }

    /// Returns the numbers of a column, NaN for empty cells.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        let number = |cell: &str| if cell.is_empty() { f64::NAN } else { cell.parse().expect(name) };
        self.column(name).into_iter().map(number).collect()
    }
}

/// Checks that a text contains all these words.
pub fn assert_contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

/// Returns a metrics document without its times.
pub fn without_seconds(mut document: Value) -> Value {
    for seconds in ["seconds", "seconds_per_step"] {
        document["fit"][seconds] = 0.into();
    }
    let trace = document["trace"].as_array_mut().expect("a trace");
    trace.iter_mut().for_each(|record| record["seconds"] = 0.into());
    document
}

/// Returns the number at a place of a document, given as a JSON pointer.
pub fn number(document: &Value, place: &str) -> f64 {
    document
        .pointer(place)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("no number at {place} in {document}"))
}

/// Returns a table of a smooth function of two numbers and a colour, with deterministic noise.
pub fn table(rows: usize) -> String {
    csv_text("a,b,colour,y", 0..rows, |row| {
        let t = row as f64;
        let (a, b) = ((t * 0.618).fract() * 4.0, (t * 0.414).fract());
        let colour = ["red", "green", "blue"][row % 3];
        let y = 50.0 + 8.0 * a.sin() + 3.0 * b + (row % 3) as f64 + 0.4 * (t * 12.9898).sin();
        format!("{a},{b},{colour},{y}")
    })
}
