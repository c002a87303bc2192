//! The commands and their options, with defaults and examples, as types that clap parses.

mod columns;
mod compare;
mod fit;
mod forecast;
mod options;
pub mod parsers;

pub use compare::CompareArgs;
pub use fit::{Contender, FitArgs};
pub use forecast::ForecastArgs;
pub use parsers::RowNumbers;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use parsers::{
    MOST_DRAWS, MOST_MIB, MOST_ORDERS, address, delimiter, numbers, positive, seconds, unseen, whole, words,
};
use serde_json::Value;
use sparsegp_tables::explain::Settings;
use sparsegp_tables::options::{Given, find};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::Grid;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Fit sparse Gaussian processes to a data file: regression, classification and counts
#[derive(Debug, Parser)]
#[command(name = "sparsegp", version, about, max_term_width = 110, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The options that `-h` of `fit` and `compare` shows, in addition to the options that the library's list marks as everyday. `--help` shows
/// all options.
const EVERYDAY: [&str; 10] = [
    "target",
    "features",
    "exclude",
    "categorical",
    "test",
    "test_fraction",
    "model_out",
    "predictions",
    "report",
    "quiet",
];

/// The options that `compare -h` shows in addition to [`EVERYDAY`].
const EVERYDAY_COMPARED: [&str; 5] = ["objectives", "betas", "repeats", "train_sizes", "out"];

impl Cli {
    /// Parses the arguments; the first argument is the program's name.
    pub fn read(arguments: &[OsString]) -> Result<Cli, clap::Error> {
        let mut cli = Cli::read_by(Cli::everyday(), arguments)?;
        if let Command::Fit(args) = &mut cli.command {
            args.contenders = contenders(arguments, &args.against)?;
        }
        Ok(cli)
    }

    fn read_by(mut command: clap::Command, arguments: &[OsString]) -> Result<Cli, clap::Error> {
        let matches = command.try_get_matches_from_mut(arguments)?;
        check_needs(&mut command, &matches)?;
        let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        let of_command = matches.subcommand().map(|(_, matches)| given(matches)).unwrap_or_default();
        match &mut cli.command {
            Command::Fit(args) => args.given = of_command,
            Command::Compare(args) => args.given = of_command,
            _ => {}
        }
        Ok(cli)
    }

    /// Returns all commands, with rarely used options hidden from `-h`.
    pub fn everyday() -> clap::Command {
        let brief = |command: clap::Command, more: &[&str]| {
            command.mut_args(|arg| {
                let id = arg.get_id().as_str();
                let listed = find(id).is_some_and(|option| option.everyday);
                let shown = arg.is_positional() || listed || EVERYDAY.contains(&id) || more.contains(&id);
                arg.hide_short_help(!shown)
            })
        };
        let program = Cli::command().mut_subcommand("fit", |fit| brief(fit, &[]));
        program.mut_subcommand("compare", |compare| brief(compare, &EVERYDAY_COMPARED))
    }
}

/// Returns one contender for each text in `against`: the fit that `arguments` describe, in which the options of the
/// text take precedence.
fn contenders(arguments: &[OsString], against: &[String]) -> Result<Vec<Contender>, clap::Error> {
    let mut contenders = Vec::new();
    for words in against {
        let command = Cli::everyday().mut_subcommand("fit", |fit| fit.args_override_self(true));
        let changed = Contender::split(words)
            .map_err(|why| Cli::everyday().error(clap::error::ErrorKind::ValueValidation, why))?;
        let base = without_lists(arguments, &changed, &command);
        let all: Vec<OsString> = base.into_iter().chain(changed.into_iter().map(Into::into)).collect();
        if let Command::Fit(args) = Cli::read_by(command, &all)?.command {
            contenders.push(Contender { words: words.trim().to_owned(), args: *args });
        }
    }
    Ok(contenders)
}

/// Returns the arguments without the options that take several values and that `changed` sets: clap would add the values of a contender to
/// them.
fn without_lists(arguments: &[OsString], changed: &[String], command: &clap::Command) -> Vec<OsString> {
    let options = command.find_subcommand("fit").into_iter().flat_map(clap::Command::get_arguments);
    let lists = options.filter(|option| matches!(option.get_action(), clap::ArgAction::Append));
    let names: Vec<String> = lists.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
    let name_of = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    let set: Vec<String> =
        changed.iter().map(|word| name_of(word)).filter(|name| names.contains(name)).collect();
    let (mut kept, mut words) = (Vec::new(), arguments.iter());
    while let Some(word) = words.next() {
        match word.to_str() {
            // Its value may look like an option.
            Some("--against") => kept.extend([word.clone()].into_iter().chain(words.next().cloned())),
            Some(text) if set.contains(&name_of(text)) => {
                // The value is the next argument, unless it follows an equals sign.
                if !text.contains('=') {
                    words.next();
                }
            }
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// Pairs of an option and the option that it needs. They are not declared with `requires`, because clap ignores a requirement that
/// conflicts with a given argument: `--average` requires `--grid`, which conflicts with a data file.
const NEEDS: [(&str, &str); 4] =
    [("against", "cv"), ("unseen", "test"), ("checkpoint_every", "checkpoint"), ("average", "grid")];

/// Refuses an option if the option that it [needs](NEEDS) is missing, in commands that have both.
fn check_needs(command: &mut clap::Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let Some(known) = command.find_subcommand(name) else { return Ok(()) };
    let (is_known, given) = (|id: &str| known.get_arguments().any(|arg| arg.get_id() == id), given(matches));
    let missing =
        NEEDS.into_iter().find(|(id, needed)| given.has(id) && is_known(needed) && !given.has(needed));
    missing.map_or(Ok(()), |(id, needed)| {
        let words = format!("--{} has no effect without --{needed}", id.replace('_', "-"));
        Err(command.error(clap::error::ErrorKind::MissingRequiredArgument, words))
    })
}

/// Returns the options that the user gave, by their names in the library.
fn given(matches: &ArgMatches) -> Given {
    let by_user = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let value = |name: &str| matches.try_get_one::<Value>(name).ok().flatten();
    let is_unset =
        |name: &&str| find(name).zip(value(name)).is_some_and(|(option, value)| option.is_unset(value));
    matches.ids().map(|id| id.as_str()).filter(by_user).filter(|name| !is_unset(name)).collect()
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fit a model to a data file, report on it and save it
    ///
    /// Names in parentheses after a description say where an option applies: kinds of models (gp, glm), objectives (elbo, dlm-log,
    /// dlm-square, vfe, fitc) or likelihoods (gaussian). n is the number of training rows, M the number of inducing inputs, and f the
    /// latent function. q is the approximate posterior of the weights w: the whitened values of f at the inducing inputs (gp), or whitened
    /// coefficients (glm).
    Fit(Box<FitArgs>),
    /// Predict the rows of a data file with a saved model
    Predict(PredictArgs),
    /// Answer requests for predictions over HTTP: rows as JSON in, predictions as JSON out
    Serve(ServeArgs),
    /// Score the predictions of a saved model against the target in a data file
    Evaluate(EvaluateArgs),
    /// Write the grouped effects of a saved model: the estimate and standard deviation for each level
    Effects(EffectsArgs),
    /// Show what the predictions of a saved model depend on: relevance of columns, partial dependence, contributions to single rows
    Explain(ExplainArgs),
    /// Update a saved model with new rows, without changing its hyper-parameters
    Update(UpdateArgs),
    /// Compare objectives by their test scores over repeats and training-set sizes
    ///
    /// `compare` chooses nothing on held-out rows: the defaults are those for --auto none of fit.
    ///
    /// Names in parentheses after a description say where an option applies: kinds of models (gp, glm), objectives (elbo, dlm-log,
    /// dlm-square, vfe, fitc) or likelihoods (gaussian). n is the number of training rows, M the number of inducing inputs, and f the
    /// latent function. q is the approximate posterior of the weights w: the whitened values of f at the inducing inputs (gp), or whitened
    /// coefficients (glm).
    Compare(Box<CompareArgs>),
    /// Forecast the series of a data file, and score forecasts from earlier times
    Forecast(Box<ForecastArgs>),
    /// Show the contents of a model file
    Inspect(InspectArgs),
    /// Fit models to data sets that are part of the program; --list shows them
    Demo(DemoArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: sparsegp completions bash > ~/.local/share/bash-completion/completions/sparsegp"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page
    #[command(after_help = "Example: sparsegp man fit > sparsegp-fit.1 && man ./sparsegp-fit.1")]
    Man {
        /// The command to describe [default: the program]
        command: Option<String>,
    },
}

/// The option about category levels that training did not see.
#[derive(Debug, Default, Args)]
pub struct UnseenArgs {
    /// Treatment of category levels that training did not see: new (a level unlike all others) or error
    #[arg(long, value_parser = words(&["new", "error"], unseen), default_value = "new")]
    pub unseen: UnseenLevels,
}

/// Options of `predict`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: sparsegp predict houses.model new.csv --out predicted.csv --quantiles 0.05,0.95"
)]
pub struct PredictArgs {
    /// Model file
    pub model: PathBuf,
    /// Data file; columns are matched by name; '-' reads standard input
    #[arg(required_unless_present = "grid")]
    pub data: Option<PathBuf>,
    /// Predict on a grid instead of a data file. For every column of the model, give a range NAME=START:STOP:STEP or a value NAME=VALUE,
    /// separated by commas
    ///
    /// Ranges include both ends, and the last column changes fastest. The predictions begin with the columns of the grid. Example:
    /// 'lon=-96:-91:0.01,lat=34:37:0.01,month=7'. With --out FILE.nc or FILE.tif, every range is an axis; GeoTIFF needs two ranges. The
    /// coordinate system is EPSG:4326 for models with --places; other files have none.
    #[arg(long, value_name = "GRID", allow_hyphen_values = true, conflicts_with_all = ["data", "keep", "delimiter"])]
    pub grid: Option<Grid>,
    /// Average the function over each cell of the grid (block kriging), using Q points per direction
    ///
    /// A cell extends half a step to either side of its grid point in every range. The output has the columns of the grid, then the mean
    /// and variance of the average, without observation noise. On the sphere, points are weighted by area.
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["quantiles", "survival", "hazard", "latent", "covariance", "samples", "draws", "row_numbers"])]
    pub average: Option<u16>,
    /// File for the predictions, one row per row of the data (.csv or .parquet; '-' for CSV on standard output). Grids may also go to NetCDF
    /// (.nc) or GeoTIFF (.tif)
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Columns of the data to copy unchanged to the front of the output, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub keep: Vec<String>,
    /// Add the number of each row, from 1, as the first column
    #[arg(long)]
    pub row_numbers: bool,
    #[command(flatten)]
    pub contents: Contents,
    /// Character between the columns of a CSV file, or tab [default: detected from the first lines]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Put an apostrophe before each text that a spreadsheet would run as a formula because it begins with = + - @ or a tab; numbers are
    /// unchanged
    #[arg(long)]
    pub csv_safe: bool,
}

/// The contents of predictions: the columns in addition to the mean and the variance, and the treatment of unseen levels.
#[derive(Debug, Default, Args)]
pub struct Contents {
    /// Quantiles of the target to add as columns q0.05, …, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub quantiles: Vec<f64>,
    /// Times at which to add the probability that the target is larger, as columns survival_30, …, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub survival: Vec<f64>,
    /// Times at which to add the hazard, the density of the target divided by the probability that it is larger, as columns hazard_30, …,
    /// separated by commas; for continuous targets
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub hazard: Vec<f64>,
    /// Add the mean and variance of the latent function (the target without its noise)
    #[arg(long)]
    pub latent: bool,
    /// Add the covariance of the latent functions of each pair of outputs fitted with --mixing
    #[arg(long)]
    pub covariance: bool,
    /// Add K draws of the latent function as columns sample0, …. Each draw is joint over all rows (at most 2000). Outputs fitted with
    /// --mixing are drawn jointly, other outputs independently
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = |text: &str| whole(text, 0..=MOST_DRAWS))]
    pub samples: usize,
    /// Add K draws of the target as columns draw0, …, drawn independently for each row. Outputs fitted with --mixing are drawn jointly
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = |text: &str| whole(text, 0..=MOST_DRAWS))]
    pub draws: usize,
    /// Random seed of --samples and --draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Predict for the whole population, without grouped effects and their variance. The data need no group columns
    #[arg(long, conflicts_with = "unseen")]
    pub population: bool,
    #[command(flatten)]
    pub unseen: UnseenArgs,
}

/// Options of `effects`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp effects schools.model --out effects.csv")]
pub struct EffectsArgs {
    /// Model file
    pub model: PathBuf,
    /// File for the effects, one row per level and effect (.csv or .parquet; '-' for CSV on standard output)
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
}

/// Options of `evaluate`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp evaluate houses.model held-out.csv --json")]
pub struct EvaluateArgs {
    /// Model file
    pub model: PathBuf,
    /// Data file with the target; '-' reads standard input
    pub data: PathBuf,
    /// Character between the columns of a CSV file, or tab [default: detected from the first lines]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Save the metrics document (JSON)
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Print only the metrics document (JSON) on standard output
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub unseen: UnseenArgs,
}

/// The last row of the default range of `explain --rows`, which starts at row 1.
pub const DEFAULT_ROWS: u64 = 5;

/// Options of `explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: sparsegp explain houses.model houses.csv --rows 1,7-9 --out explained --report explained.html"
)]
pub struct ExplainArgs {
    /// Model file
    pub model: PathBuf,
    /// Data file; '-' reads standard input. Relevance by permutation needs the target
    pub data: PathBuf,
    /// Folder for relevance.csv, dependence.csv and contributions.csv (made if absent)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Save a report with figures (one HTML file)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Save every figure of the report as SVG in this folder (made if absent)
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Rows whose predictions to explain: numbers from 1 and ranges, separated by commas, or none
    #[arg(long, value_name = "LIST", value_parser = numbers, default_value = "1-5")]
    pub rows: RowNumbers,
    /// Maximum number of columns to permute, and to list in the explanation of each row
    #[arg(long, value_name = "K", default_value_t = Settings::default().columns, value_parser = positive)]
    pub columns: usize,
    /// Number of random orders of the columns over which contributions are averaged, each used forwards and backwards. Models that
    /// are sums of functions of single columns need none
    #[arg(long, value_name = "K", default_value_t = Settings::default().orders, value_parser = |text: &str| whole(text, 1..=MOST_ORDERS))]
    pub orders: usize,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// In the files of --out, put an apostrophe before each text that a spreadsheet would run as a formula because it begins with = + - @
    /// or a tab; numbers are unchanged
    #[arg(long, requires = "out")]
    pub csv_safe: bool,
    /// Character between the columns of a CSV file, or tab [default: detected from the first lines]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    #[command(flatten)]
    pub unseen: UnseenArgs,
}

/// Options of `update`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp update houses.model this-week.csv --model-out houses.model")]
pub struct UpdateArgs {
    /// Model file
    pub model: PathBuf,
    /// The new rows, with the target; columns are matched by name; '-' reads standard input
    pub data: PathBuf,
    /// File for the updated model. If it is the model file itself, that file is replaced only if the update succeeds
    #[arg(long, value_name = "FILE")]
    pub model_out: PathBuf,
    /// Share of the earlier information to forget: 0 keeps everything, 1 keeps only hyper-parameters and inducing inputs
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub forget: f64,
    /// Character between the columns of a CSV file, or tab [default: detected from the first lines]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Print only JSON on standard output: the scores of the new rows before and after the update
    #[arg(long)]
    pub json: bool,
}

/// Options of `inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp inspect houses.model")]
pub struct InspectArgs {
    /// Model file
    pub model: PathBuf,
    /// Show every hyper-parameter and coefficient, not only the ten most relevant ones
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Print only JSON on standard output, with every hyper-parameter
    #[arg(long)]
    pub json: bool,
}

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp serve houses.model --listen 127.0.0.1:8000")]
pub struct ServeArgs {
    /// Model file
    pub model: PathBuf,
    /// Address and port to listen on. With port 0 the program chooses a free port and prints it. For access from other machines, name an
    /// address outside the loopback interface, such as 0.0.0.0
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000", value_parser = address)]
    pub listen: SocketAddr,
    /// Names of hosts that requests may state in Host and Origin besides loopback addresses and the address that clients connect to,
    /// separated by commas. Other requests are refused, because a page of another site in a browser may send them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub allow_host: Vec<String>,
    /// Maximum size of the body of a request in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = |text: &str| whole(text, 1..=MOST_MIB))]
    pub max_body: usize,
    /// Maximum number of rows of a request
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub max_rows: usize,
    /// Time limit in seconds for receiving a request, for sending the answer, and for an idle connection
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub timeout: f64,
    /// Number of threads that predict; other threads receive requests and send answers [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Options of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp demo --out demo")]
pub struct DemoArgs {
    /// Data set to fit, by its name in --list [default: all data sets]
    pub name: Option<String>,
    /// List the data sets with their tasks, sources and licences
    #[arg(long, conflicts_with_all = ["name", "out", "quiet"])]
    pub list: bool,
    /// Folder for report.html and the figures (made if absent)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}
