//! Direct loss minimisation: learning curves, β, estimators and their bias, as in Wei, Sheth & Khardon 2021.
//!
//! `cargo run --release --example dlm -- [DATA_FOLDER] [--fit] [--minutes N] [--raw FILE] [--out DIR] [--quick] [--book DIR]`. The
//! learning curves are tables and figures of raw results, which `--fit` adds to; docs/experiments.md shows them.

#[path = "../paper.rs"]
mod paper;

mod bias;
mod causes;
mod curves;
mod estimators;
mod figures;
mod fits;
mod flights;
mod raw;
mod results;
mod rules;
mod sets;

use crate::paper::prelude::*;
use clap::Parser;
use data::Data;
use paper::{Paper, PaperArgs, RunArgs, data};
use raw::Row;
use sparsegp_tables::compare::Contender;
use std::path::{Path, PathBuf};

/// The figures and claims of Wei, Sheth & Khardon 2021.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    paper: PaperArgs,
    /// File of the raw results of the learning curves.
    #[arg(long, value_name = "FILE", default_value = "docs/papers/dlm-curves.csv.gz")]
    raw: PathBuf,
    /// Add fits to the raw results, then stop.
    #[arg(long)]
    fit: bool,
    /// Minutes after which `--fit` starts no more units of fits.
    #[arg(long, value_name = "N", default_value_t = f64::INFINITY)]
    minutes: f64,
}

fn main() -> sparsegp::Result<()> {
    let args = Args::parse();
    let in_book = &["cadata_beta_", "sarcos_test", "ringnorm", "bike_count"];
    let mut paper = Paper::new("dlm", in_book, RunArgs { paper: args.paper, steps: None, runs: None })?;
    if args.fit {
        let units = rules::units().chain(estimators::units()).chain(flights::units()).chain(fits::units());
        return raw::fit_all(&paper, units.collect(), &args.raw, args.minutes);
    }
    bias::run(&mut paper)?;
    let rows = if paper.quick { quick(&mut paper, &args.raw)? } else { raw::read(&args.raw)? };
    rules::judge(&mut paper, &rows);
    estimators::judge(&mut paper, &rows)?;
    if !paper.quick {
        curves::judge(&mut paper, &rows);
        figures::write(&paper, &rows)?;
    }
    paper.finish()
}

/// Fits small problems, and repeats fits of the raw results that need no data folder.
fn quick(paper: &mut Paper, raw: &Path) -> sparsegp::Result<Vec<Row>> {
    let (set, known) = (&sets::SETS[1], raw::read(raw)?);
    let mut fits =
        fits::Fits::new(paper, set, 250, 0)?.ok_or_else(|| Error::data("the embedded data are missing"))?;
    for (objective, beta) in
        [(Contender::Elbo, 1.0), (Contender::DlmLog, 0.9765625), (Contender::DlmLogFixed, 0.9765625)]
    {
        let row = fits.one(objective, beta)?;
        let same = |known: &&Row| {
            (&*known.set, known.n, known.repeat, &known.method, known.beta)
                == (set.name, row.n, row.repeat, &row.method, beta)
        };
        let before = known.iter().find(same).map_or(f64::NAN, |known| known.nll);
        let what = format!("{}, {objective}: test NLL less that of the raw results", set.name);
        paper.expect(&what, row.nll - before, -0.01..=0.01);
    }
    let mut rows = estimators::fit(paper, estimators::CASES[0], 0)?;
    for case in rules::CASES {
        rows.extend(rules::fit(paper, case)?);
    }
    Ok(rows)
}

/// Returns options of an ELBO fit with M inducing inputs to rows that are standardised already.
fn elbo(likelihood: LikelihoodKind, inducing: usize, epochs: usize) -> FitOptions {
    FitOptions {
        likelihood: Some(likelihood),
        inducing: Some(inducing),
        epochs: Some(epochs),
        standardize: false,
        ..FitOptions::default()
    }
}

/// Returns the options and the start of fits by the log loss that move q alone, from the prior, at the
/// hyper-parameters of a model that was fitted with the options `elbo`.
fn q_alone(elbo: FitOptions, model: LatentPrior) -> (FitOptions, Start) {
    let options = FitOptions {
        objective: ObjectiveKind::DlmLog,
        hyper: Some(Hyper::Fixed),
        tolerance: Some(0.0),
        inducing: None,
        ..elbo
    };
    (options, at_prior(model))
}

fn at_prior(model: LatentPrior) -> Start {
    let q = Normal::standard(Family::Full, model.layer().dim());
    Start { model, q: Some(vec![q]) }
}

fn untrained(rows: &Data, options: &FitOptions) -> sparsegp::Result<LatentPrior> {
    let options = FitOptions { hyper: Some(Hyper::Fixed), epochs: Some(1), ..options.clone() };
    Ok(rows.fit(&options, None)?.model)
}
