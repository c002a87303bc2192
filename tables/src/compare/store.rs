//! The folder of a comparison: its settings, the finished units, and the models that other fits
//! start from.

use super::plan::{Contender, Seen, Settings, Unit};
use super::results::{Role, Row};
use crate::tabular::TableModel;
use serde::Serialize;
use serde_json::{Value, json};
use sparsegp::error::{Error, Result};
use sparsegp::files::{AtomicFile, file_digest};
use std::path::{Path, PathBuf};

/// The version of the files in the folder.
const FORMAT: u32 = 1;

/// Returns everything that determines the results: the settings, the contents of the data file and the version of the program.
///
/// # Errors
///
/// If the file cannot be read.
pub fn fingerprint(settings: &Settings, data: &Path) -> Result<Value> {
    let sha256 = file_digest(data)?;
    let bytes = data.metadata().map(|metadata| metadata.len()).ok();
    let words: Vec<String> = settings.objectives.iter().map(ToString::to_string).collect();
    Ok(json!({
        "format": FORMAT,
        "program": env!("CARGO_PKG_VERSION"),
        "data": { "bytes": bytes, "sha256": sha256 },
        "objectives": words,
        "betas": settings.betas.as_ref().map(ToString::to_string),
        "repeats": settings.repeats,
        "train_sizes": settings.train_sizes,
        "test_fraction": settings.test_fraction,
        "columns": settings.columns,
        "options": settings.options,
    }))
}

/// The folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the folder, and creates it if it is absent. A folder with units of another plan is refused; a plan without finished units is
    /// replaced.
    ///
    /// # Errors
    ///
    /// Usage errors for another plan; data errors if the folder cannot be created, read or written.
    pub fn open(folder: &Path, fingerprint: &Value) -> Result<Store> {
        let store = Store { folder: folder.to_owned() };
        for part in ["units", "models"] {
            let path = folder.join(part);
            std::fs::create_dir_all(&path)
                .map_err(|error| Error::data(format!("{}: cannot be created: {error}", path.display())))?;
        }
        let path = folder.join("plan.json");
        let known = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        if known.as_ref() == Some(fingerprint) {
            return Ok(store);
        }
        if store.holds_units()? {
            let why = match known.and_then(|known| difference("", &known, fingerprint)) {
                Some(difference) => {
                    format!("the folder contains results of other data or options: {difference}")
                }
                None => "cannot be read, although the folder contains results".to_owned(),
            };
            return Err(Error::usage(format!("{}: {why}", path.display()))
                .hint("choose another ⟨out⟩, or repeat the earlier data and options to continue"));
        }
        write_json(&path, fingerprint)?;
        Ok(store)
    }

    fn holds_units(&self) -> Result<bool> {
        let path = self.folder.join("units");
        let mut entries = std::fs::read_dir(&path)
            .map_err(|error| Error::data(format!("{}: cannot be read: {error}", path.display())))?;
        Ok(entries.any(|entry| entry.is_ok_and(|entry| entry.path().extension() == Some("json".as_ref()))))
    }

    /// Loads the fits of a finished unit. Returns `None` if the unit has to run again: it failed, its files are unusable, or it is an ELBO
    /// fit that lacks a model that other fits start from.
    pub fn load(&self, unit: Unit, kept: &[Seen]) -> Option<Vec<Row>> {
        let rows: Vec<Row> = serde_json::from_slice(&std::fs::read(self.unit_path(unit)).ok()?).ok()?;
        let done = rows.iter().any(|row| row.role != Role::Grid && row.error.is_none());
        let usable = unit.contender != Contender::Elbo
            || kept.iter().all(|&seen| TableModel::load(&self.model_path(unit, seen)).is_ok());
        (done && usable).then_some(rows)
    }

    /// Records a unit; its file appears completely or not at all.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, unit: Unit, rows: &[Row]) -> Result<()> {
        write_json(&self.unit_path(unit), rows)
    }

    fn unit_path(&self, unit: Unit) -> PathBuf {
        self.folder.join("units").join(format!("{}.json", name(unit)))
    }

    pub(super) fn model_path(&self, unit: Unit, seen: Seen) -> PathBuf {
        let inner = if seen == Seen::AllButValidation { "-without-validation" } else { "" };
        self.folder.join("models").join(format!("{}{inner}.model", name(unit)))
    }
}

fn write_json<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::data(format!("{}: {error}", path.display())))?;
    AtomicFile::write_all_to(path, (text + "\n").as_bytes())
}

fn name(unit: Unit) -> String {
    // Colons have a meaning in some file systems.
    let contender = unit.contender.to_string().replace(':', "-");
    format!("{contender}-n{}-r{}", unit.size, unit.repeat)
}

/// Returns the first difference between two documents, in words.
fn difference(place: &str, known: &Value, asked: &Value) -> Option<String> {
    if known == asked {
        return None;
    }
    if let (Value::Object(fields), Value::Object(others)) = (known, asked) {
        let inner = |key: &String| {
            let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            difference(&place, &known[key], &asked[key])
        };
        return fields.keys().chain(others.keys()).find_map(inner);
    }
    Some(format!("{place} is {known} there and {asked} here"))
}
