//! The page of the book on what can be combined: every family of likelihoods with every way to fit and every operation, on a small table.
//!
//! A fit that works predicts the held-out rows better than their mean does. The page has the message of
//! every refused combination, which is a usage error. `SPARSEGP_WRITE_PAIRS=1 cargo test --test program pairs` writes the page.

use rayon::prelude::*;
use serde_json::Value;
use sparsegp_testkit::problems::Normals;
use sparsegp_testkit::program::{Run, Work};
use std::fmt::Write as _;
use std::path::Path;

/// The families, with the column of a target that suits them; the column with a 2 is a second one.
const FAMILIES: [(&str, &str); 16] = [
    ("gaussian", "number"),
    ("student-t", "number"),
    ("gaussian-heteroskedastic", "number"),
    ("gamma", "positive"),
    ("exponential", "positive"),
    ("gamma-shaped", "positive"),
    ("beta-logit", "share"),
    ("bernoulli-logit", "class"),
    ("bernoulli-probit", "class"),
    ("ordinal", "rank"),
    ("softmax", "color"),
    ("poisson", "events"),
    ("negative-binomial", "events"),
    ("negative-binomial-dispersed", "count"),
    ("zero-inflated-poisson", "count"),
    ("hurdle-poisson", "count"),
];

/// The ways to fit, by their options. `T2` stands for two targets.
const FITS: [(&str, &str); 24] = [
    ("ELBO", ""),
    ("β-ELBO", "--beta 0.5"),
    ("DLM", "--objective dlm-log"),
    ("joint", "--hyper joint"),
    ("alternating", "--hyper alternating"),
    ("mean-field q, Adam", "--hyper joint --family diagonal --q-update adam"),
    ("grid of β", "--objective dlm-log --betas 0.5,1"),
    ("restarts", "--restarts 2"),
    ("growth", "GROW"),
    ("linear model", "--model glm"),
    ("rows on disk", "--shuffle-buffer 40"),
    ("neighbours", "--neighbours 4"),
    ("neighbours, DLM", "--neighbours 4 --objective dlm-log"),
    ("groups", "--group g"),
    ("crossed groups", "--group g --group h"),
    ("groups, DLM", "--group g --objective dlm-log"),
    ("groups, joint", "--group g --hyper joint"),
    ("groups, linear model", "--group g --model glm"),
    ("groups, rows on disk", "--group g --shuffle-buffer 40"),
    ("groups and neighbours", "--group g --neighbours 4"),
    ("groups and neighbours, DLM", "--group g --neighbours 4 --objective dlm-log"),
    ("two targets", "T2 --outputs own"),
    ("two targets, groups", "T2 --outputs own --group g"),
    ("two targets, neighbours", "T2 --outputs own --neighbours 4"),
];

/// Operations on saved models: the options of the fit, and the command with the model `m`.
const OPERATIONS: [(&str, &str, &str); 9] = [
    ("update", "", "update m data.csv --model-out n"),
    ("update with groups", "--group g", "update m data.csv --model-out n"),
    ("update with neighbours", "--neighbours 4", "update m data.csv --model-out n"),
    ("start from a model", "", "fit data.csv --quiet --target TARGET --epochs 3 --from m --model-out n"),
    (
        "start with groups",
        "--group g",
        "fit data.csv --quiet --target TARGET --epochs 3 --from m --model-out n",
    ),
    (
        "start with neighbours",
        "--neighbours 4",
        "fit data.csv --quiet --target TARGET --epochs 3 --from m --model-out n",
    ),
    ("evaluate, groups", "--group g", "evaluate m data.csv"),
    ("explain, groups", "--group g", "explain m data.csv"),
    ("draws, groups", "--group g", "predict m data.csv --draws 3 --out n.csv"),
];

/// Refusals beside the table, with their reasons.
const OTHERS: &str = "\
Refused beside this table:

- `--neighbours` with `--hyper joint` or `alternating`, because its q has a closed form; with sample weights, because a row that is repeated
  at the same place is its own neighbour. With `--shuffle-buffer` all rows are read into memory, because a model with neighbours keeps its
  training rows; so are rows of targets that share a kernel or processes.
- `vfe` and `fitc` without Gaussian noise: the bounds have no closed form.
- Several targets with checkpoints, and with `--betas` unless they share nothing (`--outputs own`).
";

/// The outcome of a cell.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Works,
    Refused(String),
    Fails(String),
}

/// Returns a table with a target for every family, which depends on two inputs and two groups.
fn table(rows: usize) -> String {
    let mut normals = Normals::new(7);
    let mut text = "x,z,g,h,number,positive,share,class,rank,color,events,count".to_owned();
    text.push_str(",number2,positive2,share2,class2,rank2,color2,events2,count2\n");
    for row in 0..rows {
        let (x, z, g, h) = (1.5 * normals.next(), normals.next(), row * 5 % 7, row * 3 % 4);
        let smooth = (1.4 * x).sin() + 0.6 * x + 0.4 * z;
        let effects = 0.6 * (g as f64 - 3.0) / 2.0 + 0.3 * (h as f64 - 1.5);
        let f = smooth + effects;
        let _ = write!(text, "{x:.4},{z:.4},g{g},h{h}");
        for _ in 0..2 {
            let y = f + 0.2 * normals.next();
            // Zeros are frequent where z is large.
            let is_zero = if z > 0.8 { row % 3 > 0 } else { row % 12 == 0 };
            let rate = (1.2 + 0.5 * smooth + 0.3 * effects).exp();
            let events = (rate + rate.sqrt() * normals.next()).round().max(0.0);
            let count = if is_zero { 0.0 } else { events + 1.0 };
            let class = if y > 0.0 { "yes" } else { "no" };
            let rank = (2.5 + 1.2 * y).round().clamp(1.0, 4.0);
            let color = ["blue", "green", "red"][(1.5 + y).floor().clamp(0.0, 2.0) as usize];
            let share = 1.0 / (1.0 + (-y).exp());
            let _ = write!(text, ",{y:.4},{:.4},{share:.4},{class},{rank},{color},{events},{count}", y.exp());
        }
        text.push('\n');
    }
    text
}

/// Returns true if the held-out rows are predicted better than by their mean, for every target. `mean` is the loss of the mean for fits from
/// disk, which are not compared with it.
fn gains(document: &Value, mean: f64) -> bool {
    if let Some(outputs) = document["outputs"].as_object() {
        return outputs.values().all(|output| gains(output, mean));
    }
    let nll = |of: &Value| of["nll"].as_f64();
    nll(&document["test"]).is_some_and(|loss| loss < loss_of_mean(document).unwrap_or(mean))
}

/// Returns the loss of the mean on the held-out rows, if a document has it.
fn loss_of_mean(document: &Value) -> Option<f64> {
    document["baselines"]["constant"]["nll"].as_f64()
}

fn cell(
    work: &Work,
    (likelihood, target): (&str, &str),
    mean: f64,
    options: &str,
    then: Option<&str>,
) -> Cell {
    let targets = if options.contains("T2") { format!("{target},{target}2") } else { target.to_owned() };
    let size = if options.contains("GROW") { "--inducing auto --max-inducing 12" } else { "--inducing 8" };
    let size = if options.contains("glm") { "" } else { size };
    let own = options.replace("T2", "").replace("GROW", "");
    let model = format!("m-{likelihood}-{}", own.replace(' ', ""));
    let shared = format!(
        "data.csv --quiet --auto none --threads 1 --features x,z --target {targets} --likelihood {likelihood} --epochs 12 {size} {own}"
    );
    let commands = match then {
        None => vec![format!("fit {shared} --test-fraction 0.25 --json")],
        Some(then) => vec![
            format!("fit {shared} --model-out {model}"),
            then.replace(" m ", &format!(" {model} "))
                .replace("TARGET", target)
                .replace("out n", &format!("out {model}-next")),
        ],
    };
    let mut last = None;
    for command in commands {
        let run = work.run(&command);
        let error = run.stderr().lines().find(|line| line.starts_with("error")).unwrap_or("").to_owned();
        match run.0.status.code() {
            Some(0) => last = Some(run),
            Some(2) => return Cell::Refused(error.trim_start_matches("error: ").to_owned()),
            _ => return Cell::Fails(format!("{command}: {error}")),
        }
    }
    let document = last.filter(|_| then.is_none()).map(Run::json);
    match document {
        Some(document) if !gains(&document, mean) => {
            Cell::Fails(format!("{likelihood} {options}: no better than the mean"))
        }
        _ => Cell::Works,
    }
}

/// Returns the page for the rows of the table.
fn page(rows: &[(String, Vec<Cell>)]) -> String {
    let cells = || rows.iter().flat_map(|(_, cells)| cells);
    let works = cells().filter(|cell| **cell == Cell::Works).count();
    let mut reasons: Vec<&String> = Vec::new();
    let mut body = String::new();
    for (name, cells) in rows {
        let _ = write!(body, "| {name} |");
        for cell in cells {
            let reason = match cell {
                Cell::Works => {
                    body.push_str(" ✓ |");
                    continue;
                }
                Cell::Refused(reason) | Cell::Fails(reason) => reason,
            };
            let place = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            let _ = write!(body, " {} |", place + 1);
        }
        body.push('\n');
    }
    let mut text = format!(
        "# What can be combined\n\nA program runs every family of likelihoods with every way to fit and every operation on a table of 160 rows, and\n\
         writes this page; a test repeats a part of it. A fit that works (✓) predicts held-out rows better than their mean does.\n\
         {works} of {} combinations work. A number refers to the message of a refused combination below the table.\n\n|  |",
        cells().count()
    );
    FAMILIES.iter().for_each(|(family, _)| text.push_str(&format!(" {family} |")));
    text.push_str(&format!("\n| --- |{}\n{body}\n", " --- |".repeat(FAMILIES.len())));
    for (place, reason) in reasons.iter().enumerate() {
        let _ = writeln!(text, "{}. {reason}", place + 1);
    }
    text + OTHERS
}

/// The families that the test looks at; the page has all of them.
const TESTED: [&str; 4] = ["gaussian", "gaussian-heteroskedastic", "softmax", "hurdle-poisson"];

/// Returns the outcomes of every way for these families.
fn outcomes(families: &[(&str, &str)]) -> Vec<(String, Vec<Cell>)> {
    let work = Work::empty();
    work.write("data.csv", &table(160));
    let mean_of = |(likelihood, target): &(&str, &str)| {
        let plain =
            format!("--features x,z --target {target} --likelihood {likelihood} --epochs 1 --inducing 8");
        let fit = format!("fit data.csv --quiet --auto none {plain} --test-fraction 0.25 --json");
        loss_of_mean(&work.run(&fit).json()).expect("the loss of the mean")
    };
    let means: Vec<f64> = families.iter().map(mean_of).collect();
    let fits = FITS.iter().map(|(name, options)| (*name, *options, None));
    let operations = OPERATIONS.iter().map(|(name, options, then)| (*name, *options, Some(*then)));
    let ways: Vec<_> = fits.chain(operations).collect();
    let row = |(name, options, then): &(&str, &str, Option<&str>)| {
        let cells = families.par_iter().zip(&means);
        let cells = cells.map(|(family, mean)| cell(&work, *family, *mean, options, *then)).collect();
        ((*name).to_owned(), cells)
    };
    ways.par_iter().map(row).collect()
}

#[test]
fn the_page_of_the_book_is_what_the_program_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/combinations.md");
    let all = std::env::var_os("SPARSEGP_WRITE_PAIRS").is_some();
    let is_tested = |family: &&(&str, &str)| all || TESTED.contains(&family.0);
    let families: Vec<_> = FAMILIES.iter().filter(is_tested).copied().collect();
    let rows = outcomes(&families);
    if all {
        std::fs::write(&path, page(&rows)).expect("written");
    }
    let failed = |cell: &&Cell| matches!(cell, Cell::Fails(_));
    let failed: Vec<&Cell> = rows.iter().flat_map(|(_, cells)| cells).filter(failed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let text = std::fs::read_to_string(&path).expect("the page");
    for (name, cells) in &rows {
        let line =
            text.lines().find(|line| line.starts_with(&format!("| {name} |"))).expect("a row of the page");
        let marks: Vec<&str> = line.split('|').skip(2).map(str::trim).collect();
        for (family, cell) in families.iter().zip(cells) {
            let place = FAMILIES.iter().position(|known| known == family).expect("a family");
            assert_eq!(marks[place] == "✓", *cell == Cell::Works, "{name}, {}: {cell:?}", family.0);
        }
    }
}
