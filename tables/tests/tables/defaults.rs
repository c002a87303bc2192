//! Fits with default options never fail for numerical reasons: seeded tables of ugly columns, and the real
//! data sets of a folder.

use super::fuzzing::fit;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::options::{FitOptions, Open};
use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::{Table, read_table};
use sparsegp_tables::tabular::{FitRequest, fit_table};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of tables in an ordinary test run.
const FEW: u64 = 12;

/// The most bytes of an input.
const MOST_BYTES: usize = 24;

/// Returns an input of the seeded stream.
fn input(number: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let length = random.random_range(0..MOST_BYTES);
    (0..length).map(|_| random.random()).collect()
}

#[test]
fn ugly_tables_are_fitted_or_refused_for_their_data() {
    let fitted = (0..FEW).filter(|&number| fit::run(&input(number))).count();
    assert!(fitted > FEW as usize / 2, "{fitted} of {FEW} tables were fitted");
}

/// Runs inputs for `SPARSEGP_FUZZ_SECONDS`, starting with number `SPARSEGP_FUZZ_FROM`. Failing inputs are written to the build's folder of
/// temporary files; move them to `tests/corpus/fit/` once they are fixed.
#[test]
#[ignore = "runs for SPARSEGP_FUZZ_SECONDS"]
fn fuzz() {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let limit = Duration::from_secs(variable("SPARSEGP_FUZZ_SECONDS").unwrap_or(60));
    let first = variable("SPARSEGP_FUZZ_FROM").unwrap_or(FEW);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (started, mut counts) = (Instant::now(), [0; 3]);
    let mut slowest = (Duration::ZERO, first);
    for number in first.. {
        if started.elapsed() > limit {
            break;
        }
        let (began, bytes) = (Instant::now(), input(number));
        let outcome = catch_unwind(|| fit::run(&bytes));
        slowest = slowest.max((began.elapsed(), number));
        counts[outcome.as_ref().map_or(2, |fitted| usize::from(!fitted))] += 1;
        if outcome.is_err() {
            println!("input {number} failed");
            std::fs::write(folder.join(format!("fit-{number}")), bytes).expect("a file");
        }
        if counts.iter().sum::<usize>() % 50 == 0 {
            println!("{counts:?} at {:.0} s, slowest {slowest:?}", started.elapsed().as_secs_f64());
        }
    }
    let [fitted, refused, failed] = counts;
    println!(
        "{fitted} tables fitted, {refused} refused for their data, {failed} failed; slowest {slowest:?}"
    );
    assert_eq!(failed, 0);
}

/// The rows of a data set that are fitted to, and the seeds.
const ROWS: usize = 2000;
const SEEDS: u64 = 5;

/// Fits every data set of the folder `SPARSEGP_DATA_DIR` with default options, on evenly spaced rows, with
/// five seeds. `SPARSEGP_MAX_SECONDS` sets a time limit.
#[test]
#[ignore = "needs data sets in SPARSEGP_DATA_DIR"]
fn no_default_fit_of_a_real_data_set_fails() {
    let folder = std::env::var("SPARSEGP_DATA_DIR").expect("SPARSEGP_DATA_DIR names a folder");
    let seconds = std::env::var("SPARSEGP_MAX_SECONDS").ok().and_then(|text| text.parse().ok());
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".csv.gz"));
    paths.sort();
    let mut failures = Vec::new();
    for seed in 0..SEEDS {
        for path in &paths {
            let table = read_table(path).expect("a table");
            let (all, rows) = (table.rows(), table.rows().min(ROWS));
            let table = table.take(&(0..rows).map(|row| row * all / rows).collect::<Vec<_>>());
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let began = Instant::now();
            let outcome = catch_unwind(|| one(&table, seed, seconds));
            let words = match outcome {
                Ok(Ok(words)) => words,
                Ok(Err(error)) => format!("FAILED {error}"),
                Err(_) => "FAILED with a panic".to_owned(),
            };
            println!("seed {seed} {name} {:.1} s {words}", began.elapsed().as_secs_f64());
            if words.starts_with("FAILED") {
                failures.push(format!("{name} with seed {seed}: {words}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The names of targets; a table's target is the first name that it has.
const TARGETS: [&str; 3] = ["y", "temp", "CO"];

fn one(table: &Table, seed: u64, max_seconds: Option<f64>) -> sparsegp::Result<String> {
    let target = TARGETS.into_iter().find(|name| table.column(name).is_some()).unwrap_or("y").to_owned();
    let columns = SchemaOptions { target, ..SchemaOptions::default() };
    let options = FitOptions { open: Open::EVERYTHING, seed, max_seconds, ..FitOptions::default() };
    let request = FitRequest {
        table,
        columns: &columns,
        options: &options,
        test_fraction: 0.1,
        start: None,
        keep_posterior: false,
    };
    let model = fit_table(&request, &mut |_| {})?.model;
    let predictions = model.predict(table, UnseenLevels::New)?;
    assert!((0..table.rows()).all(|row| predictions.row(row).mean.is_finite()));
    let warnings = model.summary().warnings.iter().map(ToString::to_string);
    Ok(warnings.filter(|warning| warning.contains("chosen options failed")).collect())
}
