//! Direct loss minimisation: learning curves, β, estimators and their bias, as in Wei, Sheth & Khardon 2021.
//!
//! `cargo run --release --example dlm -- DATA_FOLDER [--out DIR] [--repeats N] [--sizes A,B] [--betas LIST]
//! [--sets A,B] [--quick] [--book DIR]` with the data sets of reports/examples/papers/dlm/curves.rs in the
//! folder; docs/experiments.md shows the results. Fits that are already in the output folder are not
//! repeated.

#[path = "../paper.rs"]
mod paper;

mod bias;
mod curves;
mod estimators;
mod rules;

use clap::Parser;
use paper::{Paper, PaperArgs, data};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::LatentPrior;
use sparsegp::options::{Betas, FitOptions, Hyper, ObjectiveKind};
use sparsegp::training::Start;
use sparsegp::variational::{Family, Normal};

/// The figures and claims of Wei, Sheth & Khardon 2021.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    paper: PaperArgs,
    /// Training sizes of the learning curves [default: 250,500,1000,2000].
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Values of β of the learning curves: auto, or a list [default: auto].
    #[arg(long)]
    betas: Option<Betas>,
    /// Number of repeats of the learning curves [default: 5].
    #[arg(long)]
    repeats: Option<u64>,
    /// Data sets of the learning curves [default: all].
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
}

fn main() -> sparsegp::Result<()> {
    let args = Args::parse();
    let mut paper = Paper::new("dlm", &["cadata_beta_"], args.paper)?;
    let sizes: &[usize] = paper.setting(&[250, 500, 1000, 2000], &[200]);
    let wanted = curves::Wanted {
        sizes: if args.sizes.is_empty() { sizes.to_vec() } else { args.sizes },
        betas: args.betas.unwrap_or(paper.setting(Betas::Auto, Betas::List(vec![10.0, 0.1]))),
        repeats: args.repeats.unwrap_or(paper.setting(5, 1)),
        sets: args.sets,
    };
    bias::run(&mut paper)?;
    rules::run(&mut paper)?;
    estimators::run(&mut paper)?;
    curves::run(&mut paper, &wanted)?;
    paper.finish()
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
    let q = Normal::standard(Family::Full, model.layer().dim());
    let options = FitOptions {
        objective: ObjectiveKind::DlmLog,
        hyper: Some(Hyper::Fixed),
        tolerance: Some(0.0),
        inducing: None,
        ..elbo
    };
    (options, Start { model, q: Some(vec![q]) })
}
