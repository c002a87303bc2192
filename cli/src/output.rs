//! Functions that print errors, notes and tables, and that check output paths before any work.

use sparsegp::files::AtomicFile;
use sparsegp::model::Warning;
use sparsegp::{Error, Result};
pub use sparsegp_reports::words::{duration, few, number, report_rows, table};
use sparsegp_tables::tabular::TableOutputs;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Prints on standard output. A closed pipe, as in `| head`, is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::data(format!("standard output: writing failed: {error}")))
        }
        _ => Ok(()),
    }
}

/// Standard output as a stream of rows. If the reader closes the pipe, the program ends without an error.
pub struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::stdout().write(bytes).inspect_err(end_with_reader)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stdout().flush().inspect_err(end_with_reader)
    }
}

fn end_with_reader(error: &std::io::Error) {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
}

/// Prints a line on standard error. Failures are ignored, because they cannot be reported anywhere.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints warnings on standard error, with the name of the target if there are several.
pub fn warn(warnings: &[Warning], target: &str, several: bool) {
    let of = if several { format!("{target}: ") } else { String::new() };
    for warning in warnings {
        note(&format!("warning: {of}{}", warning.words_with(&dashes)));
    }
}

/// Refuses standard input as the data of several models, because each model reads the data.
pub fn check_readable(data: &Path, models: &TableOutputs) -> Result<()> {
    if models.models().len() > 1 && data == Path::new("-") {
        return Err(Error::usage(
            "a model of several targets reads the data once for each: give a file, not standard input",
        ));
    }
    Ok(())
}

pub fn dashes(name: &str, value: Option<&str>) -> String {
    let words = name.replace('_', "-");
    match value {
        // These options are on by default, so the command line has only their negation.
        Some("false") => format!("--no-{words}"),
        Some(value) => format!("--{words} {value}"),
        None => format!("--{words}"),
    }
}

/// Prints an error in one line and its hint in another.
pub fn complain(error: &Error) {
    note(&format!("error: {}", error.message_with(&dashes)));
    if let Some(hint) = error.advice_with(&dashes) {
        note(&format!("hint: {hint}"));
    }
}

/// Refuses, before any work, output files that cannot be written, are given twice, or would replace an input.
pub fn check_paths<P: AsRef<Path>>(outputs: &[P], inputs: &[&Path]) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for (index, output) in outputs.iter().enumerate() {
        let output = output.as_ref();
        drop(AtomicFile::create(output)?);
        let same = |other: &Path| real(other) == real(output) && !is_device(output);
        if outputs[..index].iter().any(|other| same(other.as_ref())) {
            return Err(Error::usage(format!("{}: two output files have this name", output.display())));
        }
        if inputs.iter().any(|other| same(other)) {
            return Err(Error::usage(format!(
                "{}: is an input file; give the output file another name",
                output.display()
            )));
        }
    }
    Ok(())
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

/// Refuses a file name for predictions that does not end in a known format of tables; `known` lists the endings.
pub fn check_predictions_name(path: &Path, known: &str) -> Result<()> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("csv" | "parquet") => Ok(()),
        _ => Err(Error::usage(format!(
            "{}: expected a file name that ends in {known} for predictions",
            path.display()
        ))),
    }
}

/// Wraps the text in the second column of rows, so that no line of the table is longer than `width` characters.
pub fn wrapped(rows: &[Vec<String>], width: usize) -> Vec<Vec<String>> {
    let names = rows.iter().filter_map(|row| row.first()).map(|name| name.chars().count()).max();
    let room = width.saturating_sub(names.unwrap_or(0) + 2);
    let mut lines = Vec::new();
    for row in rows {
        let [name, words] = row.as_slice() else { continue };
        let (mut name, mut line) = (name.clone(), String::new());
        for word in words.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                lines.push(vec![std::mem::take(&mut name), std::mem::take(&mut line)]);
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(vec![name, line]);
    }
    lines
}
