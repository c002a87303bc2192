//! Runs the program in a folder of its own and looks at what it says and writes; no checks of content.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program that Cargo built beside the test that runs.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    let folder = test.parent().and_then(Path::parent).expect("the folder of the build");
    folder.join("sparsegp").with_extension(std::env::consts::EXE_EXTENSION)
}

/// A folder of its own with a small table in it.
pub struct Work {
    pub folder: TempDir,
}

impl Work {
    /// With a small table, `data.csv`.
    pub fn new() -> Work {
        let work = Work::empty();
        work.write("data.csv", &table(120));
        work
    }

    /// With nothing in it.
    pub fn empty() -> Work {
        Work { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect(name)
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Runs the program in the folder; arguments are separated by blanks. A fit chooses nothing by itself unless it is told to.
    pub fn run(&self, arguments: &str) -> Run {
        Run(self.command(arguments).output().expect("the program runs"))
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
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        child.stdin.take().expect("input").write_all(input).expect("written");
        Run(child.wait_with_output().expect("the program ends"))
    }

    /// The metrics document of a quick fit with these options besides.
    pub fn fit(&self, options: &str) -> Value {
        let quick = quick(options);
        self.run(&format!("fit data.csv --target y --json --quiet {quick} {options}")).json()
    }

    /// A saved model of the table.
    pub fn model(&self) {
        self.run(&format!("fit data.csv --target y --quiet --model-out model {QUICK}")).ok();
    }
}

/// Returns options that make a fit quick, except those that `options` sets.
pub fn quick(options: &str) -> String {
    let given = |name: &str| options.split_whitespace().any(|word| word == name);
    // A model to start from brings its inducing inputs.
    let taken = |name: &str| given(name) || (name == "--inducing" && given("--from"));
    let words: Vec<&str> = QUICK.split_whitespace().collect();
    let kept: Vec<String> =
        words.chunks(2).filter(|pair| !taken(pair[0])).map(|pair| pair.join(" ")).collect();
    kept.join(" ")
}

/// Options for a fit that takes no time.
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

    /// The whole of standard output as one JSON document.
    pub fn json(self) -> Value {
        let run = self.ok();
        serde_json::from_str(&run.stdout()).expect("a JSON document and nothing else")
    }

    /// Checks that it failed with this status, one line of error that holds these words, and nothing printed.
    pub fn fails(&self, code: i32, words: &[&str]) {
        let stderr = self.stderr();
        assert_eq!(self.code(), code, "{stderr}");
        assert_eq!(self.stdout(), "");
        let lines: Vec<&str> = stderr.lines().collect();
        assert!(lines[0].starts_with("error: "), "{stderr}");
        assert!(lines.len() <= 2 && lines[1..].iter().all(|line| line.starts_with("hint: ")), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "{word:?} in {stderr}");
        }
    }
}

/// Rows of a smooth function of two numbers and a colour, with some noise that needs no generator.
pub fn table(rows: usize) -> String {
    let mut text = String::from("a,b,colour,y\n");
    for row in 0..rows {
        let t = row as f64;
        let (a, b) = ((t * 0.618).fract() * 4.0, (t * 0.414).fract());
        let colour = ["red", "green", "blue"][row % 3];
        let y = 50.0 + 8.0 * a.sin() + 3.0 * b + (row % 3) as f64 + 0.4 * (t * 12.9898).sin();
        let _ = writeln!(text, "{a},{b},{colour},{y}");
    }
    text
}
