//! The options of `compare`.

use super::columns::ColumnArgs;
use super::options::OptionArgs;
use super::parsers::words;
use clap::Args;
use serde_json::Value;
use sparsegp::Result;
use sparsegp::options::Betas;
use sparsegp_tables::compare::{Contender, Settings};
use sparsegp_tables::options::{Given, unchecked};
use std::path::PathBuf;
use std::str::FromStr;

const COMPARE_EXAMPLES: &str = "`compare` chooses nothing automatically: unset options have the defaults of fit --auto none. \
`sparsegp fit` prints its choices as options, in the row 'the same with'; pass these options to use the choices. \
To compare kernels, likelihoods or linear models, use fit --cv with --against.

Examples:
  sparsegp compare houses.csv --target price --objectives elbo,vfe,fitc --repeats 5 --out houses
  sparsegp compare counts.csv --target deaths --exposure person_years \\
      --objectives elbo,beta-elbo,dlm-log \\
      --betas auto --repeats 10 --train-sizes 100,200,500,1000 --out counts
After an interruption, the same command continues where it stopped.";

/// Options of `compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    /// Data file: CSV with a header row, plain or gzipped, or Parquet
    pub data: PathBuf,
    /// Objectives to compare, separated by commas. dlm-log, dlm-square and beta-elbo start from the elbo fit to the same rows.
    /// dlm-log:fixed and dlm-square:fixed keep the hyper-parameters of that fit and train only the posterior. dlm-log:scratch does not
    /// start from that fit
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "elbo,dlm-log", value_parser = words(Contender::WORDS, Contender::from_str), help_heading = "Comparison")]
    pub objectives: Vec<Contender>,
    /// Choose the β of beta-elbo, dlm-log and dlm-square from this list by the log loss (dlm-square: the squared error) of held-out
    /// training rows; auto is the list n, n/2, n/4, … down to 0.01. Other objectives have β = 1
    #[arg(long, value_name = "LIST", help_heading = "Comparison")]
    pub betas: Option<Betas>,
    /// Number of repeats; repeat r (from 0) has the random seed --seed + r and its own test rows
    #[arg(long, value_name = "R", default_value_t = 1, help_heading = "Comparison")]
    pub repeats: u64,
    /// Sizes of training sets, separated by commas; each smaller training set is a subset of the larger ones [default: all rows except
    /// the test rows]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Comparison")]
    pub train_sizes: Vec<usize>,
    /// Share of all rows to hold out as test rows
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, help_heading = "Comparison")]
    pub test_fraction: f64,
    /// Share of the training rows to hold out for the choice of β [default: 0.2]
    #[arg(long, value_name = "SHARE", requires = "betas", help_heading = "Comparison")]
    pub validation_fraction: Option<f64>,
    /// Number of fits that run at a time, each on one thread; it does not change the results [default: all cores]
    #[arg(long, help_heading = "Comparison")]
    pub threads: Option<usize>,
    /// Folder for results.csv, summary.csv, report.html and the state from which an interrupted comparison continues (made if absent)
    #[arg(long, value_name = "DIR", help_heading = "Comparison")]
    pub out: PathBuf,
    /// Save every figure of the report as SVG in this folder (made if absent)
    #[arg(long, value_name = "DIR", help_heading = "Comparison")]
    pub plots: Option<PathBuf>,
    /// Show no progress
    #[arg(long, help_heading = "Comparison")]
    pub quiet: bool,
    #[command(flatten)]
    pub columns: ColumnArgs,
    #[command(flatten)]
    pub options: OptionArgs<true>,
    /// The names of the options that the user gave.
    #[arg(skip)]
    pub given: Given,
}

impl CompareArgs {
    /// Returns the comparison that these arguments describe.
    pub fn settings(&self) -> Result<Settings> {
        let mut values = self.options.0.clone();
        values.insert("auto".to_owned(), Value::from("none"));
        values.insert("validation_fraction".to_owned(), self.validation_fraction.into());
        Ok(Settings {
            objectives: self.objectives.clone(),
            betas: self.betas.clone(),
            repeats: self.repeats,
            train_sizes: self.train_sizes.clone(),
            test_fraction: self.test_fraction,
            columns: self.columns.schema_options(),
            options: self.columns.with_noise(unchecked(&values, &self.given)?)?,
        })
    }
}
