//! The code that the programs of the papers share: arguments, data sets with replacements, the table of
//! claims, and the checks of quick runs.

#![allow(dead_code)] // each program uses a part

#[path = "../common/mod.rs"]
pub mod common;

use common::{Data, Experiment, normals};
use faer::Mat;
use rayon::prelude::*;
use sparsegp::files::AtomicFile;
use sparsegp::likelihood::TargetKind;
use sparsegp::{Error, Result};
use sparsegp_reports::Curves;
use sparsegp_tables::schema::{Schema, SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::read_csv;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Instant;

/// The verdict on a claim: agreement, or a reason for the difference.
pub enum Verdict {
    /// Our numbers agree with the claim.
    Agrees,
    /// Our numbers differ, for this reason.
    Differs(String),
    /// Our numbers cannot be compared with the claim, for this reason.
    Open(String),
}

impl Verdict {
    /// Returns agreement if `holds`, otherwise the reason for the difference.
    pub fn of(holds: bool, otherwise: &str) -> Verdict {
        if holds { Verdict::Agrees } else { Verdict::Differs(otherwise.to_owned()) }
    }
}

/// A claim of a paper beside our numbers.
pub struct Claim {
    pub claim: String,
    pub paper: String,
    pub ours: String,
    pub verdict: Verdict,
}

/// A run of the program of one paper.
pub struct Paper {
    name: &'static str,
    pub experiment: Experiment,
    /// True for small problems that need no data.
    pub quick: bool,
    book: Option<PathBuf>,
    settings: Vec<String>,
    claims: Vec<Claim>,
    failures: Vec<String>,
    clock: Instant,
}

impl Paper {
    /// Removes `[DATA_FOLDER] [--out DIR] [--quick] [--book DIR]` from the arguments, and returns the other
    /// arguments as the second value. `--book docs` also writes the table and the figures of the book.
    ///
    /// # Errors
    ///
    /// Usage errors, and folders that cannot be created.
    pub fn new(name: &'static str) -> Result<(Paper, Vec<String>)> {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        let book = common::option(&mut arguments, "--book", String::new())?;
        let quick = arguments.iter().position(|argument| argument == "--quick");
        if let Some(at) = quick {
            arguments.remove(at);
        }
        let paper = Paper {
            name,
            experiment: Experiment::new(name, &mut arguments)?,
            quick: quick.is_some(),
            book: (!book.is_empty()).then(|| book.into()),
            settings: Vec::new(),
            claims: Vec::new(),
            failures: Vec::new(),
            clock: Instant::now(),
        };
        Ok((paper, arguments))
    }

    /// Refuses arguments that are left over.
    ///
    /// # Errors
    ///
    /// A usage error that names the first one.
    pub fn refuse_rest(arguments: &[String]) -> Result<()> {
        match arguments.first() {
            Some(first) => Err(Error::usage(format!("unexpected argument '{first}'"))),
            None => Ok(()),
        }
    }

    /// Returns the setting of the paper, or in a quick run the setting `quick`.
    pub fn setting<T>(&self, paper: T, quick: T) -> T {
        if self.quick { quick } else { paper }
    }

    /// Reads the data set with this name. A quick run uses an embedded data set with targets of the same
    /// kind.
    ///
    /// # Errors
    ///
    /// Data that cannot be read.
    pub fn read(&self, name: &str, target: &str, kind: TargetKind) -> Result<Option<Data>> {
        if self.quick { stand_in(kind).map(Some) } else { self.experiment.read(name, target, Some(kind)) }
    }

    /// Prints a line of progress with the seconds so far.
    pub fn say(&self, text: &str) {
        println!("[{:.0} s] {text}", self.clock.elapsed().as_secs_f64());
    }

    /// Adds a statement of settings above the table.
    pub fn settings(&mut self, text: String) {
        self.settings.push(text);
    }

    /// Adds a row to the table.
    pub fn claim(&mut self, claim: &str, paper: &str, ours: String, verdict: Verdict) {
        self.say(&format!("{claim}: {ours}"));
        self.claims.push(Claim { claim: claim.to_owned(), paper: paper.to_owned(), ours, verdict });
    }

    /// Checks a main number of a quick run, which is the same in every run.
    pub fn expect(&mut self, what: &str, value: f64, range: RangeInclusive<f64>) {
        self.say(&format!("check: {what} is {value:.4e}"));
        if self.quick && !range.contains(&value) {
            let (low, high) = range.into_inner();
            self.failures.push(format!("{what} is {value}, expected {low} to {high}"));
        }
    }

    /// Draws a figure, also for the book if `--book` is given.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn book_figure(&self, file: &str, curves: &Curves) -> Result<()> {
        self.experiment.figure(file, curves)?;
        let Some(book) = &self.book else { return Ok(()) };
        let out = book.join("figures");
        Experiment { data: None, out }.figure(&format!("{}_{file}", self.name), curves)
    }

    /// Writes the table of claims.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or if a number of a quick run is out of its range.
    pub fn finish(self) -> Result<()> {
        let text = self.table();
        AtomicFile::write_all_to(&self.experiment.out.join("claims.md"), text.as_bytes())?;
        if let Some(book) = &self.book {
            AtomicFile::write_all_to(
                &book.join("papers").join(format!("{}.md", self.name)),
                text.as_bytes(),
            )?;
        }
        print!("{text}");
        if self.failures.is_empty() {
            return Ok(());
        }
        Err(Error::fit(format!("{}: {}", self.name, self.failures.join("; "))))
    }

    fn table(&self) -> String {
        let mut text = String::new();
        for line in &self.settings {
            text += &format!("- {line}\n");
        }
        text += &format!(
            "- The whole program took {:.0} seconds.\n\n| claim | paper | ours | agrees? |\n| --- | --- | --- | --- |\n",
            self.clock.elapsed().as_secs_f64()
        );
        for Claim { claim, paper, ours, verdict } in &self.claims {
            let verdict = match verdict {
                Verdict::Agrees => "yes".to_owned(),
                Verdict::Differs(why) => format!("no: {why}"),
                Verdict::Open(why) => format!("open: {why}"),
            };
            text += &format!("| {claim} | {paper} | {ours} | {verdict} |\n");
        }
        text
    }
}

/// Returns an embedded data set with targets of a kind: visits to a doctor for numbers and counts, or two
/// classes of tumours.
fn stand_in(kind: TargetKind) -> Result<Data> {
    let (file, text, target) = match kind {
        TargetKind::Binary => ("breast_cancer.csv", sparsegp_data::BREAST_CANCER, "diagnosis"),
        _ => ("doctor_visits.csv", sparsegp_data::DOCTOR_VISITS, "visits"),
    };
    let table = read_csv(file, text.as_bytes())?;
    let options =
        SchemaOptions { target: target.into(), target_kind: Some(kind), ..SchemaOptions::default() };
    let (schema, _) = Schema::infer(&table, &options)?;
    let x = schema.design(&table, UnseenLevels::Error)?.transpose().to_owned();
    let y = schema.target(&table)?.unwrap_or_default();
    Ok(Data { x, y })
}

/// Calls `run` for the seeds 0 to `count − 1` in parallel, and returns the results in the order of the seeds.
///
/// # Errors
///
/// The error of the first run that fails.
pub fn runs<T: Send>(count: u64, run: impl Fn(u64) -> Result<T> + Send + Sync) -> Result<Vec<T>> {
    (0..count).into_par_iter().map(run).collect()
}

/// Returns a quantile of some numbers, by linear interpolation.
pub fn quantile(values: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut sorted = Vec::from_iter(values);
    sorted.sort_by(f64::total_cmp);
    let at = share * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    sorted[low] + part * (sorted[(low + 1).min(sorted.len() - 1)] - sorted[low])
}

/// Returns a matrix of orthonormal columns in random directions.
pub fn rotation(d: usize, seed: u64) -> Mat<f64> {
    let mut draw = normals(seed);
    Mat::from_fn(d, d, |_, _| draw()).qr().compute_thin_Q()
}
