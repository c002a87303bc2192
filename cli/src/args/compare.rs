//! The options of `compare`; no work.

use super::parsers::{betas, words};
use super::shared::{ColumnArgs, ModelArgs, TrainingArgs, options};
use clap::Args;
use sparsegp::options::{Betas, FitOptions, Given};
use sparsegp_tables::compare::{Contender, Settings};
use std::path::PathBuf;
use std::str::FromStr;

const COMPARE_EXAMPLES: &str = "Held-out rows choose nothing here: what no option names is as with fit --auto none. What a fit has chosen can be named: \
its row 'the same with' has the options.

Examples:
  sparsegp compare houses.csv --target price --objectives elbo,vfe,fitc --repeats 5 --out houses
  sparsegp compare counts.csv --target deaths --exposure person_years --objectives elbo,beta-elbo,dlm-log \\
      --betas auto --repeats 10 --train-sizes 100,200,500,1000 --out counts
The same command goes on with what an earlier one left undone.";

/// Options of `compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    /// The data: CSV with a header row, plain or gzipped, Parquet or Arrow
    pub data: PathBuf,
    /// What to compare, separated by commas. dlm-log, dlm-square and beta-elbo go on from the elbo fit of the same rows;
    /// with :fixed only the posterior is trained, at the hyper-parameters of that fit
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "elbo,dlm-log", value_parser = words(Contender::WORDS, Contender::from_str), help_heading = "Comparison")]
    pub objectives: Vec<Contender>,
    /// Choose the β of beta-elbo, dlm-log and dlm-square by the log loss (dlm-square: the squared error) of held-out
    /// training rows among these, separated by commas, or auto: n, n/2, n/4, … down to 0.01; the others have β = 1
    #[arg(long, value_name = "LIST", value_parser = betas, help_heading = "Comparison")]
    pub betas: Option<Betas>,
    /// How many times to repeat everything, with the seeds that follow --seed; each has test rows of its own
    #[arg(long, value_name = "R", default_value_t = 1, help_heading = "Comparison")]
    pub repeats: u64,
    /// Numbers of training rows, separated by commas; the smaller sets are parts of the larger [default: all rows that
    /// are not held out]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Comparison")]
    pub train_sizes: Vec<usize>,
    /// The share of all rows held out to compare by
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, help_heading = "Comparison")]
    pub test_fraction: f64,
    /// The share of the training rows held out to choose β by [default: 0.2]
    #[arg(long, value_name = "SHARE", requires = "betas", help_heading = "Comparison")]
    pub validation_fraction: Option<f64>,
    /// The number of fits at a time, each on one thread; the results do not depend on it [default: all cores]
    #[arg(long, help_heading = "Comparison")]
    pub threads: Option<usize>,
    /// A folder for results.csv, summary.csv, report.html and what is needed to go on after an interruption (made if
    /// absent)
    #[arg(long, value_name = "DIR", help_heading = "Comparison")]
    pub out: PathBuf,
    /// Save every figure of the report as SVG and PNG in this folder (made if absent)
    #[arg(long, value_name = "DIR", help_heading = "Comparison")]
    pub plots: Option<PathBuf>,
    /// Show no progress
    #[arg(long, help_heading = "Comparison")]
    pub quiet: bool,
    #[command(flatten)]
    pub columns: ColumnArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub training: TrainingArgs,
    /// The options that the user gave, with any value.
    #[arg(skip)]
    pub given: Given,
}

impl CompareArgs {
    /// What these arguments ask to compare.
    pub fn settings(&self) -> Settings {
        Settings {
            contenders: self.objectives.clone(),
            betas: self.betas.clone(),
            repeats: self.repeats,
            train_sizes: self.train_sizes.clone(),
            test_fraction: self.test_fraction,
            columns: self.columns.schema_options(),
            options: FitOptions {
                validation_fraction: self.validation_fraction.unwrap_or_default(),
                ..options(&self.columns, &self.model, &self.training)
            },
        }
    }
}
