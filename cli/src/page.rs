//! The files of reports and figures, and the command that reproduces them.

use super::output;
use sparsegp::files::AtomicFile;
use sparsegp::{Error, Result};
use sparsegp_reports::Page;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

static COMMAND: Mutex<String> = Mutex::new(String::new());

pub fn keep_command(arguments: &[OsString]) {
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    let words: Vec<_> = std::iter::once("sparsegp".into()).chain(words).collect();
    // Only a zero byte cannot be quoted, which no argument has.
    let command = shlex::try_join(words.iter().map(|word| &**word)).unwrap_or_default();
    *COMMAND.lock().unwrap_or_else(PoisonError::into_inner) = command;
}

/// Returns the command line of this process, quoted for a shell.
pub fn command() -> String {
    COMMAND.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Refuses, before any work, a folder for figures that cannot be made or written to.
pub fn check_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::data(format!("{}: cannot be created: {error}", folder.display())))?;
    output::check_paths(&[&folder.join("figure.svg")], &[])
}

/// Writes the page to a file and its figures to a folder, as SVG; `None` skips either.
pub fn write(page: &Page, report: Option<&Path>, plots: Option<&Path>) -> Result<()> {
    if let Some(path) = report {
        AtomicFile::write_all_to(path, page.html().as_bytes())?;
    }
    let Some(folder) = plots else { return Ok(()) };
    // With several parts, the number of the part comes first; equal names get a number at the end.
    let (several, mut taken) = (page.parts.len() > 1, HashSet::new());
    for (place, part) in page.parts.iter().enumerate() {
        for figure in part.figures() {
            let name = if several { format!("{}-{}", place + 1, figure.name) } else { figure.name.clone() };
            let numbered =
                |number: usize| if number == 1 { name.clone() } else { format!("{name}-{number}") };
            let free = (1..).map(numbered).find(|name| taken.insert(name.clone())).unwrap_or_default();
            AtomicFile::write_all_to(&folder.join(format!("{free}.svg")), figure.drawing.svg().as_bytes())?;
        }
    }
    Ok(())
}
