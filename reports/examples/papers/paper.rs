//! The code that the programs of the papers share: arguments, data sets with replacements, figures, the table of
//! claims, and the checks of quick runs.

#![allow(dead_code, unused_imports)] // each program uses a part

#[path = "data.rs"]
pub mod data;

use prelude::*;
use sparsegp::files::AtomicFile;
use sparsegp_reports::{Curves, curves};
use sparsegp_tables::tables::{Table, read_csv, read_table};
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The items that most modules of the programs use.
pub mod prelude {
    pub use super::data::*;
    pub use super::{Axes, Compared, Paper, short};
    pub use faer::{Mat, Scale};
    pub use rand::{RngExt, SeedableRng};
    pub use rand_chacha::ChaCha8Rng;
    pub use sparsegp::data::SizeSchedule;
    pub use sparsegp::gradient::Batch;
    pub use sparsegp::latent::LinearLayer;
    pub use sparsegp::likelihood::{
        Bernoulli, Gaussian, LikelihoodKind, Observation, OneFunction, TargetKind,
    };
    pub use sparsegp::linalg::{Factorizer, clear_upper, matvec, symmetric_eigen};
    pub use sparsegp::model::{LatentModel, LatentPrior, Posterior, Score};
    pub use sparsegp::objective::{Estimator, Loss, Objective};
    pub use sparsegp::options::{FitOptions, Hyper, ObjectiveKind, StepOptions};
    pub use sparsegp::training::{Fitted, Inference, InferenceOptions, Start, VariationalModel};
    pub use sparsegp::variational::{Family, Guard, Normal, QUpdate, RuleOptions, Schedule};
    pub use sparsegp::{Error, Result};
    pub use sparsegp_reports::CurveSeries;
    pub use sparsegp_research::{Curvature, Theorem};
}

#[derive(clap::Args)]
pub struct PaperArgs {
    /// Folder of the data sets [default: the environment variable SPARSEGP_DATA].
    pub data: Option<PathBuf>,
    /// Folder of the results [default: target/experiments/PROGRAM].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run small problems that need no data, and check their main numbers.
    #[arg(long)]
    pub quick: bool,
    /// Also write the table and the figures of the book to this folder: `--book docs`.
    #[arg(long, value_name = "DIR")]
    pub book: Option<PathBuf>,
}

/// The arguments of programs whose runs have a length and are repeated.
#[derive(clap::Parser)]
#[command(about = "The figures and claims of a paper")]
pub struct RunArgs {
    #[command(flatten)]
    pub paper: PaperArgs,
    /// Number of steps of the longest runs, for programs with one such number.
    #[arg(long)]
    pub steps: Option<usize>,
    /// Number of runs of each method, for programs that repeat runs.
    #[arg(long)]
    pub runs: Option<u64>,
}

/// Two numbers and a margin, which decide whether a claim holds; never for a number that is not finite.
#[derive(Clone, Copy)]
pub struct Compared {
    ours: f64,
    theirs: f64,
    margin: f64,
    holds: bool,
    /// The relation of the numbers, if the claim holds and if not, and the sign of the margin.
    signs: [&'static str; 3],
}

impl Compared {
    pub fn at_most(ours: f64, theirs: f64, margin: f64) -> Compared {
        Compared { ours, theirs, margin, holds: ours <= theirs + margin, signs: ["≤", ">", "+"] }
    }

    pub fn at_least(ours: f64, theirs: f64, margin: f64) -> Compared {
        Compared { ours, theirs, margin, holds: ours >= theirs - margin, signs: ["≥", "<", "−"] }
    }

    pub fn near(ours: f64, theirs: f64, margin: f64) -> Compared {
        Compared { ours, theirs, margin, holds: (ours - theirs).abs() <= margin, signs: ["=", "≠", "±"] }
    }
}

impl Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ours, theirs, margin] = [self.ours, self.theirs, self.margin].map(short);
        let [holding, failing, room] = self.signs;
        write!(f, "{ours} {} {theirs}", if self.holds { holding } else { failing })?;
        if self.margin == 0.0 { Ok(()) } else { write!(f, " {room} {margin}") }
    }
}

/// Returns a number with three significant digits.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    if !(1e-3..1e5).contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = (2 - size.log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.replace('-', "−")
}

struct Claim {
    claim: String,
    paper: String,
    ours: String,
    /// One of [`AGREES`], [`DIFFERS`] and [`NOT_COMPARABLE`].
    verdict: &'static str,
    /// The reason for another verdict than agreement.
    why: String,
}

const AGREES: &str = "agrees";
const DIFFERS: &str = "differs";
const NOT_COMPARABLE: &str = "not comparable";

/// The last row of the table, with our number that it compares.
pub struct Judged<'a> {
    paper: &'a mut Paper,
    ours: f64,
}

impl Judged<'_> {
    /// Says why the numbers differ, if they do and a run has shown the cause; an empty cause is not known.
    pub fn because(self, cause: &str) -> Self {
        let differs = self.paper.claims.last_mut().filter(|claim| claim.verdict == DIFFERS);
        if let (Some(claim), false) = (differs, cause.is_empty()) {
            cause.clone_into(&mut claim.why);
        }
        self
    }

    /// Checks our number in a quick run. It is the same in every quick run.
    pub fn expect(self, range: RangeInclusive<f64>) {
        let claim = self.paper.claims.last().map(|claim| claim.claim.clone());
        self.paper.expect(&claim.unwrap_or_default(), self.ours, range);
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Axes {
    LogX,
    LogLog,
}

pub struct Paper {
    name: &'static str,
    args: RunArgs,
    pub out: PathBuf,
    /// True for small problems that need no data.
    pub quick: bool,
    /// The beginnings of the names of the figures in the book.
    book_figures: &'static [&'static str],
    settings: Vec<String>,
    claims: Vec<Claim>,
    failures: Vec<String>,
    clock: Instant,
}

impl Paper {
    /// Begins a run. `book_figures` are the beginnings of the names of the figures that the book shows.
    pub fn new(
        name: &'static str,
        book_figures: &'static [&'static str],
        mut args: RunArgs,
    ) -> Result<Paper> {
        let out = args.paper.out.take().unwrap_or_else(|| Path::new("target/experiments").join(name));
        std::fs::create_dir_all(&out)
            .map_err(|error| Error::data(format!("{}: cannot be created: {error}", out.display())))?;
        args.paper.data = args.paper.data.or_else(|| std::env::var_os("SPARSEGP_DATA").map(PathBuf::from));
        let quick = args.paper.quick;
        let (settings, claims, failures) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Paper { name, args, out, quick, book_figures, settings, claims, failures, clock: Instant::now() })
    }

    /// Returns the setting of the paper, or in a quick run the setting `quick`.
    pub fn setting<T>(&self, paper: T, quick: T) -> T {
        if self.quick { quick } else { paper }
    }

    /// Returns the number of steps that an argument sets, or that of the paper or of quick runs.
    pub fn steps(&self, paper: usize, quick: usize) -> usize {
        self.args.steps.unwrap_or(self.setting(paper, quick))
    }

    /// Returns the number of runs that an argument sets, or that of the paper or of quick runs.
    pub fn runs(&self, paper: u64, quick: u64) -> u64 {
        self.args.runs.unwrap_or(self.setting(paper, quick))
    }

    /// Reads the data set `NAME.csv.gz`. If it is absent, prints a line to stderr and returns `None`.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        let file = format!("{name}.csv.gz");
        let folder = self.args.paper.data.as_deref().unwrap_or(Path::new("SPARSEGP_DATA, which is not set"));
        if !folder.join(&file).is_file() {
            eprintln!("skipped: {file} is not in {}", folder.display());
            return Ok(None);
        }
        read_table(&folder.join(file)).map(Some)
    }

    /// Like [`Paper::table`], with all columns except the target as inputs. A quick run uses an embedded data
    /// set with targets of the same kind.
    pub fn read(&self, name: &str, target: &str, kind: TargetKind) -> Result<Option<Data>> {
        if self.quick {
            let (table, target) = stand_in(kind)?;
            return Data::of_table(&table, target, kind).map(Some);
        }
        self.table(name)?.map(|table| Data::of_table(&table, target, kind)).transpose()
    }

    /// Prints a line of progress with the seconds so far.
    pub fn say(&self, text: &str) {
        println!("[{:.0} s] {text}", self.clock.elapsed().as_secs_f64());
    }

    /// Adds a statement of settings above the table.
    pub fn settings(&mut self, text: String) {
        self.settings.push(text);
    }

    fn claim(&mut self, claim: &str, paper: &str, ours: String, verdict: &'static str, why: &str) {
        self.say(&format!("{claim}: {ours}"));
        let [claim, paper, why] = [claim, paper, why].map(str::to_owned);
        self.claims.push(Claim { claim, paper, ours, verdict, why });
    }

    /// Adds a row whose verdict compares two numbers.
    pub fn judge(&mut self, claim: &str, paper: &str, ours: impl Display, compared: Compared) -> Judged<'_> {
        let (verdict, why) = if compared.holds { (AGREES, "") } else { (DIFFERS, "cause not known") };
        self.claim(claim, paper, format!("{ours} ({compared})"), verdict, why);
        Judged { paper: self, ours: compared.ours }
    }

    /// Adds a row whose numbers cannot be compared with the claim.
    pub fn apart(&mut self, claim: &str, paper: &str, ours: String, why: &str) {
        self.claim(claim, paper, ours, NOT_COMPARABLE, why);
    }

    /// Checks a main number of a quick run, which is the same in every run.
    pub fn expect(&mut self, what: &str, value: f64, range: RangeInclusive<f64>) {
        self.say(&format!("check: {what} is {value:.4e}"));
        if self.quick && !range.contains(&value) {
            let (low, high) = range.into_inner();
            self.failures.push(format!("{what} is {value}, expected {low} to {high}"));
        }
    }

    /// Writes a table of numbers with all their digits.
    pub fn csv(&self, file: &str, header: &[&str], rows: &[impl AsRef<[f64]>]) -> Result<()> {
        let mut text = header.join(",") + "\n";
        for row in rows {
            let cells: Vec<String> = row.as_ref().iter().map(|value| format!("{value:?}")).collect();
            text += &(cells.join(",") + "\n");
        }
        AtomicFile::write_all_to(&self.out.join(file), text.as_bytes())
    }

    /// Draws a figure with axes of these names, also for the book if `--book` is given; nothing if there are no
    /// points.
    pub fn figure(
        &self,
        file: &str,
        names: (&str, &str),
        axes: Axes,
        series: Vec<CurveSeries>,
    ) -> Result<()> {
        let (log_y, axes) = (axes == Axes::LogLog, (names.0.to_owned(), names.1.to_owned()));
        let Some(drawing) = curves(&Curves { axes, log_x: true, log_y, series, ..Curves::default() }) else {
            return Ok(());
        };
        if self.book_figures.iter().any(|start| file.starts_with(start)) {
            return self.write("figures", file, &drawing.svg());
        }
        AtomicFile::write_all_to(&self.out.join(file), drawing.svg().as_bytes())
    }

    /// Writes a text or a figure, with `--book` also to a folder of the book.
    pub fn write(&self, folder: &str, file: &str, text: &str) -> Result<()> {
        AtomicFile::write_all_to(&self.out.join(file), text.as_bytes())?;
        let Some(book) = &self.args.paper.book else { return Ok(()) };
        AtomicFile::write_all_to(&book.join(folder).join(format!("{}_{file}", self.name)), text.as_bytes())
    }

    /// Writes the table of claims.
    pub fn finish(self) -> Result<()> {
        let text = self.claims_table();
        let of_book = |book: &PathBuf| book.join("papers").join(format!("{}.md", self.name));
        for file in
            [Some(self.out.join("claims.md")), self.args.paper.book.as_ref().map(of_book)].iter().flatten()
        {
            AtomicFile::write_all_to(file, text.as_bytes())?;
        }
        print!("{text}");
        if self.failures.is_empty() {
            return Ok(());
        }
        Err(Error::fit(format!("{}: {}", self.name, self.failures.join("; "))))
    }

    fn claims_table(&self) -> String {
        let mut text = String::new();
        for line in &self.settings {
            text += &format!("- {line}\n");
        }
        let count = |verdict| self.claims.iter().filter(|claim| claim.verdict == verdict).count();
        text += &format!(
            "- The whole program took {:.0} seconds.\n\n{} rows agree, {} differ and {} are not comparable. A verdict compares the two \
             numbers in parentheses, with the margin after the plus or minus sign.\n\n\
             | claim | paper | ours | verdict |\n| --- | --- | --- | --- |\n",
            self.clock.elapsed().as_secs_f64(),
            count(AGREES),
            count(DIFFERS),
            count(NOT_COMPARABLE),
        );
        for Claim { claim, paper, ours, verdict, why } in &self.claims {
            let colon = if why.is_empty() { "" } else { ": " };
            text += &format!("| {claim} | {paper} | {ours} | *{verdict}*{colon}{why} |\n");
        }
        text
    }
}

/// Returns an embedded table with targets of a kind and the name of its target: visits to a doctor for numbers
/// and counts, or two classes of tumours.
pub fn stand_in(kind: TargetKind) -> Result<(Table, &'static str)> {
    let (file, text, target) = match kind {
        TargetKind::Binary => ("breast_cancer.csv", sparsegp_data::BREAST_CANCER, "diagnosis"),
        _ => ("doctor_visits.csv", sparsegp_data::DOCTOR_VISITS, "visits"),
    };
    Ok((read_csv(file, text.as_bytes())?, target))
}
