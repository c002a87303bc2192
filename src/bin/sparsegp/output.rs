//! What is printed and written: errors, tables, documents, and the check of output paths before work; no figures.

use sparsegp::files::AtomicFile;
use sparsegp::metrics::Report;
use sparsegp::{Error, Result};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Prints on standard output. A reader that has seen enough and closed the pipe is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::data(format!("standard output: writing failed: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a line on standard error. Nobody can be told when that fails.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// An option as it is typed.
pub fn dashes(name: &str, value: Option<&str>) -> String {
    let words = name.replace('_', "-");
    match value {
        // Options of the library that are on unless they are denied.
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
pub fn check_paths(outputs: &[&Path], inputs: &[&Path]) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for (index, output) in outputs.iter().enumerate() {
        drop(AtomicFile::create(output)?);
        let same = |other: &&Path| real(other) == real(output) && !is_device(output);
        if outputs[..index].iter().any(same) {
            return Err(Error::usage(format!("{}: is the name of two output files", output.display())));
        }
        if inputs.iter().any(same) {
            return Err(Error::usage(format!(
                "{}: is an input file, expected another name for output",
                output.display()
            )));
        }
    }
    Ok(())
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

/// Refuses a name for predictions whose ending is no known format.
pub fn check_predictions_name(path: &Path) -> Result<()> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("csv" | "parquet") => Ok(()),
        _ => Err(Error::usage(format!(
            "{}: predictions go to a file ending in .csv or .parquet",
            path.display()
        ))),
    }
}

/// Rows of cells as text with aligned columns.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Rows of a name and words, the words broken into several rows where a line would be longer than `width`.
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

/// A number with some six digits.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e6).contains(&size) {
        let digits = 5 - (size.max(1e-3).log10().floor() as i32).min(5);
        let text = format!("{value:.*}", digits.clamp(0, 8) as usize);
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    } else {
        format!("{value:.4e}")
    }
}

/// The figures of a report that apply, with their names.
pub fn report_rows(report: &Report) -> Vec<(String, String)> {
    let figures = [
        ("NLL", report.nll),
        // Of two classes it is the Brier score.
        ("CRPS", report.crps.filter(|_| report.brier.is_none())),
        ("error rate", report.error_rate),
        ("accuracy", report.accuracy),
        ("AUC", report.auc),
        ("Brier score", report.brier),
        ("calibration error", report.ece),
        ("RMSE", report.rmse),
        ("MAE", report.mae),
        ("SMSE", report.smse),
        ("mean relative error", report.mre),
        ("deviance", report.deviance),
        ("95 % coverage", report.coverage.as_ref().and_then(|coverage| coverage.central_95)),
        ("95 % width", report.interval_width_95),
        ("95 % interval score", report.interval_score_95),
    ];
    figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), number(value?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_size() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-0.5, "-0.5"),
            (1234.5678, "1234.57"),
            (1e-9, "1.0000e-9"),
            (2e7, "2.0000e7"),
            (100000.0, "100000"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(f64::NAN), "NaN");
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".into(), "b".into()], vec!["long".into(), "c".into()]];
        assert_eq!(table(&rows), "a     b\nlong  c\n");
    }

    #[test]
    fn long_words_go_on_in_the_next_row() {
        let rows = [vec!["ab".into(), "one two three four".into()], vec!["c".into(), "five".into()]];
        assert_eq!(table(&wrapped(&rows, 13)), "ab  one two\n    three\n    four\nc   five\n");
    }
}
