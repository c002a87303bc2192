//! The options of `fit` that are not in the library's list: groups, objective, held-out rows, output.

use super::columns::ColumnArgs;
use super::options::OptionArgs;
use super::parsers::{Outputs, sharing, unseen, words};
use crate::output;
use clap::Args;
use sparsegp::Error;
use sparsegp::options::{Betas, FitOptions, ModelKind};
use sparsegp_tables::options::{Given, unchecked};
use sparsegp_tables::schema::{GroupFormula, SchemaOptions, UnseenLevels};
use sparsegp_tables::tabular::Sharing;
use std::path::PathBuf;

const FIT_EXAMPLES: &str = "Examples:
  sparsegp fit houses.csv --target price --test-fraction 0.1 --model-out houses.model
  sparsegp fit co2.csv --target co2 --objective vfe --kernel 'rbf + periodic * rbf' --report co2.html
  sparsegp fit patients.csv --target ill --model glm --likelihood bernoulli-logit --model-out patients.model
  sparsegp fit more.csv --target price --from houses.model --hyper fixed --model-out updated.model";

/// Options of `fit`.
#[derive(Clone, Debug, Args)]
#[command(after_help = FIT_EXAMPLES)]
pub struct FitArgs {
    /// Data file: CSV with a header row, plain or gzipped, or Parquet; '-' reads standard input
    pub data: PathBuf,
    #[command(flatten)]
    pub columns: ColumnArgs,
    /// Grouped (random) effects of the levels of a column: 'COLUMN' (intercepts), 'SLOPE | COLUMN', 'SLOPE || COLUMN' (slopes independent
    /// of intercepts) or 'OUTER/INNER' (nested); may be repeated
    ///
    /// Every level of COLUMN has its own intercept and, with SLOPE (a column of numbers), its own slope. 'OUTER/INNER' gives effects to
    /// each level of OUTER, and to each level of INNER within a level of OUTER. Group columns are inputs only if --features names them.
    /// For likelihoods of one latent function with elbo, vfe or fitc, the effects of the largest grouping have a closed form. In all other fits
    /// q is the joint distribution of the function and up to 3,000 effects. With --neighbours the objective is elbo or dlm-log.
    #[arg(long, value_name = "FORMULA", help_heading = "Columns")]
    pub group: Vec<GroupFormula>,
    #[command(flatten)]
    pub options: OptionArgs<false>,
    /// Choose β from this list by the log loss (dlm-square: the squared error) of held-out rows, then fit again with the best; auto is the
    /// list n, n/2, n/4, … down to 0.01, for n training rows
    #[arg(long, value_name = "LIST", help_heading = "Objective")]
    pub betas: Option<Betas>,
    /// Start from a saved model. The fit takes over the kind of model, columns, scaling and hyper-parameters of the saved model, and its
    /// kernel and inducing inputs (gp) or its prior (glm). --hyper fixed then trains only the posterior
    #[arg(long, value_name = "MODEL", conflicts_with_all = DECIDED_BY_FROM, help_heading = "Objective")]
    pub from: Option<PathBuf>,
    /// Model several targets as linear combinations of L shared latent Gaussian processes, with Gaussian noise (the linear model of
    /// coregionalisation)
    #[arg(long, value_name = "L", conflicts_with = "outputs", help_heading = "Model")]
    pub mixing: Option<usize>,
    /// Sharing between several targets: own (nothing is shared), shared (one kernel and one set of inducing inputs; Gaussian noise, closed
    /// form), mixed:L (L processes, like --mixing L), or auto (chosen on held-out rows; own with --auto none) [default: auto]
    #[arg(long, value_name = "WHAT", value_parser = sharing, help_heading = "Model")]
    pub outputs: Option<Outputs>,
    /// Number of threads [default: all cores]
    #[arg(long, help_heading = "Training")]
    pub threads: Option<usize>,
    /// Train from disk (elbo, dlm-log; not from standard input): read the file again in every epoch, and shuffle ROWS rows at a time in
    /// memory. With --group (one grouping, Gaussian noise), every evaluation reads all rows from disk and sums over them [default: 256 MiB
    /// of rows if the file holds more than 1 GiB of numbers, otherwise off]
    #[arg(long, value_name = "ROWS", help_heading = "Training")]
    pub shuffle_buffer: Option<usize>,
    /// File of test rows
    #[arg(long, value_name = "FILE", conflicts_with = "test_fraction", help_heading = "Held-out rows")]
    pub test: Option<PathBuf>,
    /// Share of the rows to hold out as test rows [default: 0; 0.2 with --split-by or --split-time, unless --test, --cv,
    /// --validation-fraction, --betas or --conformal is given]
    #[arg(long, value_name = "SHARE", help_heading = "Held-out rows")]
    pub test_fraction: Option<f64>,
    /// Also cross-validate: before the fit to all rows, split the rows into K parts, and predict each part by a fit to the other parts
    ///
    /// The parts of one target have equal shares of the classes. With --split-by, all rows of a group are in the same part. With
    /// --split-time, each part is predicted from the rows before it. Every fit makes its own choices, and --max-seconds limits all fits together.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(2..=1000), conflicts_with_all = ["test_fraction", "betas", "from", "shuffle_buffer", "checkpoint", "resume"], help_heading = "Held-out rows")]
    pub cv: Option<u16>,
    /// Calibrate quantiles and intervals by the conformity scores of held-out rows (conformalised quantiles), for each level of the first
    /// --group
    ///
    /// With at most 1000 rows, five further fits with the same choices hold out a part each, and the model is fitted to all rows. With more
    /// rows, a fifth of them, and at most 10,000, are only scored. With --cv K there are K parts in place of five, for any number of rows.
    /// With --split-by, groups stay together. With --split-time, later rows are scored by a fit to earlier ones. Means, variances and
    /// densities stay as they are.
    #[arg(long, conflicts_with_all = ["betas", "from", "shuffle_buffer"], help_heading = "Held-out rows")]
    pub conformal: bool,
    /// With --cv, also cross-validate a fit with these options changed, on the same parts; may be repeated
    ///
    /// For example --against '--model glm' --against "--kernel 'rbf(ard)' --likelihood student-t". The summary shows the score of each
    /// changed fit minus the score of the unchanged fit. The saved model is the unchanged fit.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, help_heading = "Held-out rows")]
    pub against: Vec<String>,
    /// Treatment of category levels in --test that training did not see: new (a level unlike all others) or error
    #[arg(long, value_parser = words(&["new", "error"], unseen), default_value = "new", help_heading = "Held-out rows")]
    pub unseen: UnseenLevels,
    /// Save the state of the fit to this file, so that --resume can continue it; a finished fit removes the file. Without this option
    /// Ctrl-C still saves a checkpoint: MODEL.checkpoint for --model-out MODEL, otherwise DATA.checkpoint in the current folder
    #[arg(long, value_name = "FILE", help_heading = "Interruption")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds between two checkpoints
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30.0,
        allow_negative_numbers = true,
        help_heading = "Interruption"
    )]
    pub checkpoint_every: f64,
    /// Continue from a checkpoint; the result equals that of an uninterrupted fit. Data and options must be the same. If --checkpoint names
    /// the same file and the file does not exist, the fit starts from the beginning
    #[arg(long, value_name = "FILE", help_heading = "Interruption")]
    pub resume: Option<PathBuf>,
    /// Save the model
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub model_out: Option<PathBuf>,
    /// Save the metrics document (JSON)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub metrics: Option<PathBuf>,
    /// Save predictions of the test rows (.csv or .parquet)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub predictions: Option<PathBuf>,
    /// In --predictions, put an apostrophe before each text that a spreadsheet would run as a formula because it begins with = + - @ or a
    /// tab; numbers are unchanged
    #[arg(long, requires = "predictions", help_heading = "Output")]
    pub csv_safe: bool,
    /// Save a report with figures (one HTML file)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Save every figure of the report as SVG in this folder (made if absent)
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub plots: Option<PathBuf>,
    /// Show no progress
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,
    /// Print only the metrics document (JSON) on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// The fits of `--against`, with which this fit is compared.
    #[arg(skip)]
    pub contenders: Vec<Contender>,
    /// The names of the options that the user gave.
    #[arg(skip)]
    pub given: Given,
}

/// The options about columns that `--from` excludes, because the saved model sets them.
const DECIDED_BY_FROM: [&str; 18] = [
    "features",
    "keep",
    "exclude",
    "categorical",
    "ordered",
    "places",
    "plane",
    "positive_label",
    "exposure",
    "trials",
    "noise_std",
    "noise_std_only",
    "censored",
    "lower",
    "upper",
    "cap",
    "offset",
    "weights",
];

/// A fit of `--against`, with which a fit is compared by cross-validation.
#[derive(Clone, Debug)]
pub struct Contender {
    /// The options that the contender changes, as the user wrote them.
    pub words: String,
    pub args: FitArgs,
}

/// The options that contenders share with the fit and cannot change: target, rows, outputs and limits.
const IN_COMMON: [&str; 23] = [
    "target",
    "delimiter",
    "missing",
    "weights",
    "split-by",
    "split-time",
    "cv",
    "conformal",
    "against",
    "seed",
    "threads",
    "test",
    "test-fraction",
    "unseen",
    "model-out",
    "metrics",
    "predictions",
    "csv-safe",
    "report",
    "plots",
    "quiet",
    "json",
    "max-seconds",
];

impl Contender {
    /// Splits the options of a contender as a shell does.
    pub fn split(words: &str) -> Result<Vec<String>, String> {
        let split = shlex::split(words).ok_or_else(|| format!("--against: {words} has an open quote"))?;
        let names = split.iter().filter_map(|word| word.strip_prefix("--"));
        let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
        match (names.map(name).find(|name| IN_COMMON.contains(&name.as_str())), split.first()) {
            (Some(name), _) => {
                Err(format!("--against: --{name} is the same for all fits; leave it out of '{words}'"))
            }
            (None, Some(first)) if first.starts_with("--") => Ok(split),
            _ => Err(format!("--against expects options such as '--model glm', not '{words}'")),
        }
    }
}

impl FitArgs {
    /// Returns true if the user asked for a report or its figures.
    pub fn wants_page(&self) -> bool {
        self.report.is_some() || self.plots.is_some()
    }

    /// Prints a line on standard error, unless `--quiet` is set.
    pub fn note(&self, line: &str) {
        if !self.quiet {
            output::note(line);
        }
    }

    /// Returns the options about columns, including groups.
    pub fn schema_options(&self) -> SchemaOptions {
        SchemaOptions { groups: self.group.clone(), ..self.columns.schema_options() }
    }

    /// Returns the sharing between several targets, if `--outputs` or `--mixing` sets it.
    pub fn sharing(&self) -> Option<Sharing> {
        self.outputs.flatten().or(self.mixing.map(Sharing::Processes))
    }

    /// Returns the share of the rows to hold out as test rows.
    pub fn test_fraction(&self) -> f64 {
        let others = self.test.is_some() || self.cv.is_some() || self.betas.is_some();
        let others = others || self.conformal || self.given.has("validation_fraction");
        self.test_fraction.unwrap_or(if self.columns.split().is_some() && !others { 0.2 } else { 0.0 })
    }

    /// Refuses options that have no effect on this kind of model or with this update rule. The library checks the values of options.
    pub fn check(&self, options: &FitOptions) -> sparsegp::Result<()> {
        let auto = self.options.word("neighbours") == Some("auto");
        if auto && self.from.is_some() {
            return Err(Error::usage(
                "--neighbours auto cannot be combined with --from: it compares fits that start from the data",
            )
            .hint("give a number of --neighbours, or leave --from out"));
        }
        if auto && (options.restarts > 1 || self.betas.is_some()) {
            return Err(Error::usage(
                "--neighbours auto cannot be combined with another search (--restarts, --betas)",
            )
            .hint("find the number of neighbours first, then give it"));
        }
        if auto {
            options.with_neighbours(1).validate()?;
        }
        let chooses = self.given.has("auto") && !options.open.is_empty();
        let others = [("--neighbours auto", auto), ("--auto", chooses)];
        match others.into_iter().find(|(_, given)| *given && !self.group.is_empty()) {
            Some((name, _)) => Err(Error::usage(format!("{name} cannot be combined with --group"))),
            None => self.given.check(options),
        }
    }

    /// Returns the options of the fit; `start` is the kind of the saved model that the fit starts from.
    pub fn options(&self, start: Option<ModelKind>) -> sparsegp::Result<FitOptions> {
        let mut values = self.options.0.clone();
        if let Some(kind) = start {
            values.entry("model").or_insert_with(|| kind.word().into());
        }
        self.columns.with_noise(self.given.by_batches(unchecked(&values, &self.given)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;

    #[test]
    fn options_in_common_are_options_of_fit() {
        let program = Cli::everyday();
        let fit = program.find_subcommand("fit").expect("the command");
        let known: Vec<&str> = fit.get_arguments().filter_map(clap::Arg::get_long).collect();
        for name in IN_COMMON {
            assert!(known.contains(&name), "--{name}");
        }
    }
}
