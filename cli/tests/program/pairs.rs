//! The page of the book on what can be combined: every family of likelihoods with every way to fit and every operation, on a small table.
//!
//! A fit that works predicts the held-out rows better than their mean does. The page has the message of
//! every refused combination, which is a usage error. `SPARSEGP_WRITE_PAIRS=1 cargo test --test program pairs` writes the page.

use rayon::prelude::*;
use serde_json::Value;
use sparsegp_testkit::problems::Normals;
use sparsegp_testkit::program::Work;
use std::fmt::Write as _;
use std::path::Path;

/// The families, with the column of a target that suits them; the column with a 2 is a second one.
const FAMILIES: [(&str, &str); 32] = [
    ("gaussian", "number"),
    ("student-t", "number"),
    ("gaussian-known-noise", "number"),
    ("student-t-known-noise", "number"),
    ("gaussian-censored", "number"),
    ("student-t-censored", "number"),
    ("gaussian-heteroskedastic", "number"),
    ("weibull", "positive"),
    ("log-normal", "positive"),
    ("log-logistic", "positive"),
    ("gamma", "positive"),
    ("exponential", "positive"),
    ("gamma-censored", "positive"),
    ("gamma-shaped", "positive"),
    ("beta-logit", "share"),
    ("ordered-beta", "part"),
    ("hurdle-gamma", "amount"),
    ("hurdle-log-normal", "amount"),
    ("tweedie", "amount"),
    ("binomial", "wins"),
    ("beta-binomial", "wins"),
    ("bernoulli-logit", "class"),
    ("bernoulli-probit", "class"),
    ("ordinal", "rank"),
    ("softmax", "color"),
    ("poisson", "events"),
    ("negative-binomial", "events"),
    ("poisson-censored", "events"),
    ("negative-binomial-censored", "events"),
    ("negative-binomial-dispersed", "count"),
    ("zero-inflated-poisson", "count"),
    ("hurdle-poisson", "count"),
];

const UPDATE: &str = "update m data.csv --model-out n";
const START: &str = "fit data.csv --quiet --target TARGET --epochs 3 --from m --model-out n";

/// The ways to fit, and operations on saved models: a name, the options of the fit, and a command with the model `m`, which is empty for a
/// fit alone. `T2` stands for two targets.
const WAYS: [(&str, &str, &str); 34] = [
    ("ELBO", "", ""),
    ("β-ELBO", "--beta 0.5", ""),
    ("DLM", "--objective dlm-log", ""),
    ("joint", "--hyper joint", ""),
    ("alternating", "--hyper alternating", ""),
    ("mean-field q, Adam", "--hyper joint --family diagonal --q-update adam", ""),
    ("grid of β", "--objective dlm-log --betas 0.5,1", ""),
    ("restarts", "--restarts 2", ""),
    ("growth", "--inducing auto --max-inducing 12", ""),
    ("linear model", "--model glm", ""),
    ("rows on disk", "--shuffle-buffer 40", ""),
    ("neighbours", "--neighbours 4", ""),
    ("neighbours, DLM", "--neighbours 4 --objective dlm-log", ""),
    ("groups", "--group g", ""),
    ("crossed groups", "--group g --group h", ""),
    ("groups, DLM", "--group g --objective dlm-log", ""),
    ("groups, joint", "--group g --hyper joint", ""),
    ("groups, linear model", "--group g --model glm", ""),
    ("groups, rows on disk", "--group g --shuffle-buffer 40", ""),
    ("groups and neighbours", "--group g --neighbours 4", ""),
    ("groups and neighbours, DLM", "--group g --neighbours 4 --objective dlm-log", ""),
    ("two targets", "T2 --outputs own", ""),
    ("two targets, groups", "T2 --outputs own --group g", ""),
    ("two targets, neighbours", "T2 --outputs own --neighbours 4", ""),
    ("conformal", "--conformal", ""),
    ("update", "", UPDATE),
    ("update with groups", "--group g", UPDATE),
    ("update with neighbours", "--neighbours 4", UPDATE),
    ("start from a model", "", START),
    ("start with groups", "--group g", START),
    ("start with neighbours", "--neighbours 4", START),
    ("evaluate, groups", "--group g", "evaluate m data.csv"),
    ("explain, groups", "--group g", "explain m data.csv"),
    ("draws, groups", "--group g", "predict m data.csv --draws 3 --out n.csv"),
];

const OTHERS: &str = "
Refused beside this table:

- `--neighbours` with `--hyper joint` or `alternating`, because its q has a closed form; with sample weights, because a row that is repeated
  at the same place is its own neighbour. With `--shuffle-buffer` all rows are read into memory, because a model with neighbours keeps its
  training rows; so are rows of targets that share a kernel or processes.
- `vfe` and `fitc` without Gaussian noise: the bounds have no closed form.
- Several targets with checkpoints, and with `--betas` unless they share nothing (`--outputs own`).
";

#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Works,
    Refused(String),
    Fails(String),
}

/// Returns a table with a target for every family, which depends on two inputs and two groups.
fn table(rows: usize) -> String {
    let mut normals = Normals::new(7);
    let names = "number,positive,share,class,rank,color,events,count,part,amount,wins";
    let second = names.split(',').map(|name| format!("{name}2")).collect::<Vec<_>>().join(",");
    let mut text = format!("x,z,g,h,tries,error,cut,{names},{second}\n");
    for row in 0..rows {
        let (x, z, g, h) = (1.5 * normals.next(), normals.next(), row * 5 % 7, row * 3 % 4);
        let smooth = (1.4 * x).sin() + 0.6 * x + 0.4 * z;
        let effects = 0.6 * (g as f64 - 3.0) / 2.0 + 0.3 * (h as f64 - 1.5);
        let f = smooth + effects;
        let tries = (4 + row % 5) as f64;
        let (error, cut) = (0.1 + 0.05 * (row % 3) as f64, if row % 11 == 0 { "right" } else { "none" });
        let _ = write!(text, "{x:.4},{z:.4},g{g},h{h},{tries},{error},{cut}");
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
            let part = (1.3 * share - 0.15).clamp(0.0, 1.0);
            let amount = if is_zero { 0.0 } else { y.exp() };
            let wins = (tries * share).round();
            let _ = write!(text, ",{y:.4},{:.4},{share:.4},{class},{rank},{color},{events},{count}", y.exp());
            let _ = write!(text, ",{part:.4},{amount:.4},{wins}");
        }
        text.push('\n');
    }
    text
}

/// Returns true if the held-out rows are predicted better than by their mean, for every target. `mean` is the loss of the mean for fits from
/// disk, which are not compared with it.
fn gains(document: &Value, mean: f64) -> bool {
    match document["outputs"].as_object() {
        Some(outputs) => outputs.values().all(|output| gains(output, mean)),
        None => {
            document["test"]["nll"].as_f64().is_some_and(|loss| loss < loss_of_mean(document).unwrap_or(mean))
        }
    }
}

fn loss_of_mean(document: &Value) -> Option<f64> {
    document["baselines"]["constant"]["nll"].as_f64()
}

/// Returns the option with what is known of rows besides their targets.
fn known_of(likelihood: &str) -> &'static str {
    match likelihood {
        "binomial" | "beta-binomial" => "--trials tries",
        "weibull" | "log-normal" | "log-logistic" => "--censored cut",
        name if name.contains("known-noise") => "--noise-std error",
        name if name.ends_with("-censored") => "--censored cut",
        _ => "",
    }
}

/// Returns the outcome of a way for a family and its target.
fn cell(work: &Work, (likelihood, target): (&str, &str), mean: f64, (options, then): (&str, &str)) -> Cell {
    let targets = if options.contains("T2") { format!("{target},{target}2") } else { target.to_owned() };
    let is_sized = options.contains("--inducing") || options.contains("glm");
    let size = if is_sized { "" } else { "--inducing 8" };
    let own = options.replace("T2", "");
    let model = format!("m-{likelihood}-{}", own.replace(' ', ""));
    // Epochs of linear models are short steps.
    let epochs = if own.contains("glm") { 300 } else { 12 };
    let fit = format!(
        "fit data.csv --quiet --auto none --threads 1 --features x,z --target {targets} --likelihood {likelihood} --epochs {epochs} {size} {own} {}",
        known_of(likelihood)
    );
    let next = then.replace(" m ", &format!(" {model} ")).replace("TARGET", target);
    let commands = match then {
        "" => vec![format!("{fit} --test-fraction 0.25 --json")],
        _ => vec![format!("{fit} --model-out {model}"), next.replace("out n", &format!("out {model}-next"))],
    };
    for command in commands {
        let run = work.run(&command);
        let error = run.stderr().lines().find(|line| line.starts_with("error")).unwrap_or("").to_owned();
        match run.0.status.code() {
            Some(0) if then.is_empty() && !gains(&run.json(), mean) => {
                return Cell::Fails(format!("{likelihood} {options}: no better than the mean"));
            }
            Some(0) => {}
            Some(2) => return Cell::Refused(error.trim_start_matches("error: ").to_owned()),
            _ => return Cell::Fails(format!("{command}: {error}")),
        }
    }
    Cell::Works
}

/// Returns the mark of a cell: a tick, or the number of its reason.
fn mark<'a>(cell: &'a Cell, reasons: &mut Vec<&'a String>) -> String {
    let (Cell::Refused(reason) | Cell::Fails(reason)) = cell else { return " ✓ |".to_owned() };
    if !reasons.contains(&reason) {
        reasons.push(reason);
    }
    let place = reasons.iter().position(|known| *known == reason).expect("a reason");
    format!(" {} |", place + 1)
}

fn page(rows: &[(String, Vec<Cell>)]) -> String {
    let cells = || rows.iter().flat_map(|(_, cells)| cells);
    let works = cells().filter(|cell| **cell == Cell::Works).count();
    let mut reasons: Vec<&String> = Vec::new();
    let mut body = String::new();
    for (name, cells) in rows {
        let marks: String = cells.iter().map(|cell| mark(cell, &mut reasons)).collect();
        let _ = writeln!(body, "| {name} |{marks}");
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

fn outcomes(families: &[(&str, &str)]) -> Vec<(String, Vec<Cell>)> {
    let work = Work::with("data.csv", table(160));
    let mean_of = |(likelihood, target): &(&str, &str)| {
        let known = known_of(likelihood);
        let plain = format!("--features x,z --target {target} --likelihood {likelihood} --epochs 1 {known}");
        let fit = format!("data.csv {plain} --test-fraction 0.25 --json");
        loss_of_mean(&work.quick_fit(&fit).json()).expect("the loss of the mean")
    };
    let means: Vec<f64> = families.iter().map(mean_of).collect();
    let row = |(name, options, then): &(&str, &str, &str)| {
        let cells = families.par_iter().zip(&means);
        let cells = cells.map(|(family, mean)| cell(&work, *family, *mean, (options, then))).collect();
        ((*name).to_owned(), cells)
    };
    WAYS.par_iter().map(row).collect()
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
    let cells = rows.iter().flat_map(|(_, cells)| cells);
    let failed: Vec<&Cell> = cells.filter(|cell| matches!(cell, Cell::Fails(_))).collect();
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
