//! The commands and their options as clap sees them, with defaults and examples; no work.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use sparsegp::compare::{Contender, Settings};
use sparsegp::data::{SchemaOptions, Task, UnseenLevels};
use sparsegp::latent::{InducingInit, Jitter};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::{Betas, FitOptions, Hyper, HyperOptimizer, MeanKind, ObjectiveKind};
use sparsegp::objective::Estimator;
use sparsegp::variational::{Guard, QUpdate, Schedule};
use std::path::PathBuf;
use std::str::FromStr;

/// Sparse Gaussian processes from a data file: regression, classification, counts; fit, predict, evaluate, compare.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 110, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fit a model to a data file, report on it and save it
    Fit(Box<FitArgs>),
    /// Predict the rows of a data file with a saved model
    Predict(PredictArgs),
    /// Compare a saved model's predictions with the target in a data file
    Evaluate(EvaluateArgs),
    /// Compare objectives by their test figures over repeats and training-set sizes
    Compare(Box<CompareArgs>),
    /// Show what is in a model file
    Inspect(InspectArgs),
    /// Fit and forecast embedded real data; needs no files
    Demo(DemoArgs),
}

const FIT_EXAMPLES: &str = "Examples:
  sparsegp fit houses.csv --target price --test-fraction 0.1 --model-out houses.model
  sparsegp fit co2.csv --target co2 --objective vfe --kernel 'rbf + periodic * rbf' --report co2.html
  sparsegp fit more.csv --target price --from houses.model --hyper fixed --model-out updated.model";

/// Options of `fit`.
#[derive(Debug, Args)]
#[command(after_help = FIT_EXAMPLES)]
pub struct FitArgs {
    /// The data: .csv, .csv.gz or .parquet with a header row; '-' reads CSV from standard input
    pub data: PathBuf,
    #[command(flatten)]
    pub columns: ColumnArgs,
    #[command(flatten)]
    pub objective: ObjectiveArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub training: TrainingArgs,
    /// The number of threads [default: all cores]
    #[arg(long, help_heading = "Training")]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub held_out: HeldOutArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which columns to use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Columns")]
pub struct ColumnArgs {
    /// The column to predict
    #[arg(long, value_name = "COL")]
    pub target: String,
    /// The columns to predict from, separated by commas [default: all others]
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub features: Option<Vec<String>>,
    /// Columns to leave out, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// Columns of categories although they look like numbers, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub categorical: Vec<String>,
    /// Take inputs and target as they are instead of standardising them
    #[arg(long)]
    pub no_standardize: bool,
    /// Of two classes, the one whose probability is predicted [default: the larger number, the later word, yes, true]
    #[arg(long, value_name = "VALUE")]
    pub positive_label: Option<String>,
    /// A column of what a count's rate is multiplied by (time at risk, area, …); needed in prediction too
    #[arg(long, value_name = "COL")]
    pub exposure: Option<String>,
    /// A column of sample weights, which multiply the losses in training
    #[arg(long, value_name = "COL")]
    pub weights: Option<String>,
}

/// What is minimised, and from where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Objective")]
pub struct ObjectiveArgs {
    /// What is minimised: the (β-)ELBO or the predictive log loss (dlm-log) by mini-batches, the squared error
    /// (dlm-square), the collapsed ELBO (vfe) or FITC's evidence on all data at once (Gaussian noise)
    #[arg(long, value_parser = words(ObjectiveKind::WORDS, ObjectiveKind::from_str), default_value_t = FitOptions::default().objective)]
    pub objective: ObjectiveKind,
    /// The weight of the KL term (all but fitc)
    #[arg(long, default_value_t = FitOptions::default().beta, conflicts_with = "betas", allow_negative_numbers = true)]
    pub beta: f64,
    /// Choose β by the log loss (dlm-square: the squared error) of held-out rows among these, separated by commas, or
    /// auto: n, n/2, n/4, … down to 0.01; then fit again with the best
    #[arg(long, value_name = "LIST", value_parser = betas)]
    pub betas: Option<Betas>,
    /// How hyper-parameters and inducing inputs are tuned [default: joint for elbo and dlm-log, else collapsed]
    #[arg(long, value_parser = words(Hyper::WORDS, Hyper::from_str))]
    pub hyper: Option<Hyper>,
    /// The solver for them [default: adam for elbo and dlm-log, else lbfgs]
    #[arg(long, value_parser = words(HyperOptimizer::WORDS, HyperOptimizer::from_str))]
    pub hyper_optimizer: Option<HyperOptimizer>,
    /// Start from the columns, scaling, kernel, hyper-parameters and inducing inputs of a saved model; with
    /// --hyper fixed only the posterior is trained
    #[arg(long, value_name = "MODEL", conflicts_with_all = DECIDED_BY_FROM)]
    pub from: Option<PathBuf>,
}

/// What a saved model that a fit starts from decides.
const DECIDED_BY_FROM: [&str; 14] = [
    "features",
    "exclude",
    "categorical",
    "no_standardize",
    "positive_label",
    "exposure",
    "weights",
    "task",
    "kernel",
    "mean",
    "inducing",
    "inducing_init",
    "jitter",
    "warm_start",
];

/// What the model is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// The kind of target [default: by its values: two of them classification, small whole numbers count]
    #[arg(long, value_parser = words(Task::WORDS, Task::from_str))]
    pub task: Option<Task>,
    /// The distribution of the target around the latent function [default: gaussian, bernoulli-probit, poisson or
    /// ordinal, by the task]
    #[arg(long, value_parser = words(LikelihoodKind::WORDS, LikelihoodKind::from_str))]
    pub likelihood: Option<LikelihoodKind>,
    /// Quadrature nodes per datum, for likelihoods without closed forms [default: as many as each datum needs]
    #[arg(long, value_name = "NODES")]
    pub quadrature_nodes: Option<usize>,
    /// How gradients of the predictive log loss are computed (dlm-log): exact, or from L samples: bmc:L,
    /// smooth-bmc:L:NU, ups:L
    #[arg(long, default_value_t = FitOptions::default().estimator)]
    pub estimator: Estimator,
    /// The kernel, for example 'matern52(ard)' or 'rbf[0] + periodic[0] * rbf[0]' [default: rbf(ard)]
    #[arg(long, value_name = "EXPRESSION")]
    pub kernel: Option<String>,
    /// The prior mean of the (standardised) target
    #[arg(long, value_parser = words(MeanKind::WORDS, MeanKind::from_str), default_value_t = FitOptions::default().mean)]
    pub mean: MeanKind,
    /// The number of inducing inputs [default: a tenth of the training rows, within 50 and 500]
    #[arg(long, value_name = "M")]
    pub inducing: Option<usize>,
    /// How the inducing inputs are chosen
    #[arg(long, value_parser = words(&["kmeans", "greedy", "random"], InducingInit::from_str), default_value_t = FitOptions::default().inducing_init)]
    pub inducing_init: InducingInit,
    /// Leave the inducing inputs where they start
    #[arg(long)]
    pub fix_inducing: bool,
    /// Fix a hyper-parameter at a value on the scale the model sees, for example likelihood.noise_variance=0.01;
    /// may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = named_value)]
    pub fix: Vec<(String, f64)>,
    /// What is added to the diagonal of the inducing covariance, relative to its mean; abs:VALUE is absolute
    /// [default: 1e-6]
    #[arg(long, value_name = "VALUE", value_parser = jitter)]
    pub jitter: Option<Jitter>,
}

/// How the model is trained.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub struct TrainingArgs {
    /// How q is updated by mini-batches (elbo, dlm-log) [default: ngd]
    #[arg(long, value_parser = words(QUpdate::WORDS, QUpdate::from_str))]
    pub q_update: Option<QUpdate>,
    /// What keeps ngd steps positive definite where the loss has negative curvature [default: trust]
    #[arg(long, value_parser = words(Guard::WORDS, Guard::from_str))]
    pub q_guard: Option<Guard>,
    /// The step of that update: const:STEP, warm-up:START:END:STEPS or two-over-t [default: by the update]
    #[arg(long, value_name = "SCHEDULE")]
    pub q_step: Option<Schedule>,
    /// Iterations of L-BFGS on the collapsed bound of at most 10240 rows from which training starts (elbo, dlm-log,
    /// dlm-square); 0 for none [default: 100]
    #[arg(long, value_name = "ITERATIONS")]
    pub warm_start: Option<usize>,
    /// Adam's learning rate (elbo, dlm-log) [default: 0.01]
    #[arg(long, value_name = "RATE")]
    pub learning_rate: Option<f64>,
    /// Rows per mini-batch (elbo, dlm-log) [default: 1024]
    #[arg(long, value_name = "ROWS")]
    pub batch_size: Option<usize>,
    /// The most passes over the data, or iterations of L-BFGS [default: 100 for elbo and dlm-log, 500
    /// for dlm-square, else 200]
    #[arg(long)]
    pub epochs: Option<usize>,
    /// Stop training after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub max_seconds: Option<f64>,
    /// Stop when the smoothed objective falls by less, in nats per row and epoch; 0 never stops [default: 1e-5]
    #[arg(long, value_name = "NATS")]
    pub tolerance: Option<f64>,
    /// Stop after this many epochs without a better validation score [default: 20]
    #[arg(long, value_name = "EPOCHS", requires = "validation_fraction")]
    pub patience: Option<usize>,
    /// Seed of splits, batches and starting points
    #[arg(long, default_value_t = FitOptions::default().seed)]
    pub seed: u64,
}

/// Which rows are not trained on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Held-out rows")]
pub struct HeldOutArgs {
    /// The share of the rows held out to choose when to stop (elbo, dlm-log) or which β (--betas; default there: 0.2)
    #[arg(long, value_name = "SHARE")]
    pub validation_fraction: Option<f64>,
    /// A file of rows to report on
    #[arg(long, value_name = "FILE", conflicts_with = "test_fraction")]
    pub test: Option<PathBuf>,
    /// The share of the rows held out to report on
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub test_fraction: f64,
    /// In --test: a category not seen in training is an error, or makes all inputs of its column zero
    #[arg(long, value_parser = words(&["error", "zeros"], unseen), default_value = "error", requires = "test")]
    pub unseen: UnseenLevels,
}

/// What to do with categories that training did not see.
#[derive(Debug, Args)]
pub struct UnseenArgs {
    /// A category not seen in training is an error, or makes all inputs of its column zero
    #[arg(long, value_parser = words(&["error", "zeros"], unseen), default_value = "error")]
    pub unseen: UnseenLevels,
}

/// What is written, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Save the model
    #[arg(long, value_name = "FILE")]
    pub model_out: Option<PathBuf>,
    /// Save the metrics document (JSON)
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Save predictions of the test rows (.csv or .parquet)
    #[arg(long, value_name = "FILE")]
    pub predictions: Option<PathBuf>,
    /// Save a report with figures (one HTML file)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
    /// Print the metrics document on standard output and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Options of `predict`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: sparsegp predict houses.model new.csv --out predicted.csv --quantiles 0.05,0.95"
)]
pub struct PredictArgs {
    /// The model file
    pub model: PathBuf,
    /// The data; columns are matched by name; '-' reads CSV from standard input
    pub data: PathBuf,
    /// Where predictions go, one row per row of the data (.csv or .parquet)
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Quantiles of the target to add as columns q0.05, …, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub quantiles: Vec<f64>,
    /// Add the mean and variance of the latent function (the target without its noise)
    #[arg(long)]
    pub latent: bool,
    /// Add K draws of the latent function as columns sample0, …, each drawn at all rows together (at most 2000 rows)
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub samples: usize,
    /// Add K draws of the target itself as columns draw0, …, each row by itself
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub draws: usize,
    /// Seed of both kinds of draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub unseen: UnseenArgs,
}

/// Options of `evaluate`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp evaluate houses.model held-out.csv --json")]
pub struct EvaluateArgs {
    /// The model file
    pub model: PathBuf,
    /// The data, with the target; '-' reads CSV from standard input
    pub data: PathBuf,
    /// Save the metrics document (JSON)
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Print the metrics document on standard output and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub unseen: UnseenArgs,
}

const COMPARE_EXAMPLES: &str = "Examples:
  sparsegp compare houses.csv --target price --objectives elbo,vfe,fitc --repeats 5 --out houses
  sparsegp compare counts.csv --target deaths --exposure person_years --objectives elbo,beta-elbo,dlm-log \\
      --betas auto --repeats 10 --train-sizes 100,200,500,1000 --out counts
The same command goes on with what an earlier one left undone.";

/// Options of `compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    /// The data: a .csv, .csv.gz or .parquet file with a header row
    pub data: PathBuf,
    /// What to compare, separated by commas. dlm-log, dlm-square and beta-elbo go on from the elbo fit of the same rows;
    /// with :fixed only the posterior is trained, at the hyper-parameters of that fit
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true, value_parser = words(Contender::WORDS, Contender::from_str), help_heading = "Comparison")]
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
    /// Show no progress
    #[arg(long, help_heading = "Comparison")]
    pub quiet: bool,
    #[command(flatten)]
    pub columns: ColumnArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub training: TrainingArgs,
}

/// Options of `inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp inspect houses.model")]
pub struct InspectArgs {
    /// The model file
    pub model: PathBuf,
    /// Print JSON on standard output and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Options of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp demo --out demo")]
pub struct DemoArgs {
    /// A folder for report.html and the figures (made if absent)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

/// A parser of a fixed set of words, which help texts list.
fn words<T: Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
    parse: impl Fn(&str) -> sparsegp::Result<T> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words).try_map(move |word| parse(&word))
}

fn betas(text: &str) -> sparsegp::Result<Betas> {
    text.parse()
}

fn unseen(word: &str) -> sparsegp::Result<UnseenLevels> {
    Ok(if word == "zeros" { UnseenLevels::Zeros } else { UnseenLevels::Error })
}

fn named_value(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let value = value.trim().parse().map_err(|_| format!("'{value}' is not a number"))?;
    Ok((name.trim().to_owned(), value))
}

fn jitter(text: &str) -> Result<Jitter, String> {
    let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is not a number"));
    match text.strip_prefix("abs:") {
        Some(value) => number(value).map(Jitter::Absolute),
        None => number(text).map(Jitter::Relative),
    }
}

impl FitArgs {
    /// The first option that was given although it only has an effect on mini-batches.
    pub fn mini_batch_option(&self) -> Option<&'static str> {
        let warm_start =
            self.training.warm_start.filter(|_| self.objective.objective != ObjectiveKind::DlmSquare);
        let held_out = self.held_out.validation_fraction.is_some_and(|share| share > 0.0);
        let stops = held_out && self.objective.betas.is_none();
        let warm_start = warm_start.map(|_| "--warm-start");
        self.training.mini_batch_option().or(warm_start).or(stops.then_some("--validation-fraction"))
    }

    /// The options of the fit that these arguments ask for.
    pub fn options(&self) -> FitOptions {
        let objective = &self.objective;
        FitOptions {
            objective: objective.objective,
            beta: objective.beta,
            hyper: objective.hyper,
            hyper_optimizer: objective.hyper_optimizer,
            validation_fraction: self.held_out.validation_fraction.unwrap_or_default(),
            ..options(&self.columns, &self.model, &self.training)
        }
    }
}

impl CompareArgs {
    /// The first option that was given although it only has an effect on mini-batches and their warm start.
    pub fn mini_batch_option(&self) -> Option<&'static str> {
        self.training.mini_batch_option().or(self.training.warm_start.map(|_| "--warm-start"))
    }

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

impl TrainingArgs {
    /// The first option that was given although it only has an effect on mini-batches, besides the warm start.
    fn mini_batch_option(&self) -> Option<&'static str> {
        [
            ("--q-update", self.q_update.is_some()),
            ("--q-step", self.q_step.is_some()),
            ("--q-guard", self.q_guard.is_some()),
            ("--learning-rate", self.learning_rate.is_some()),
            ("--batch-size", self.batch_size.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}

impl ColumnArgs {
    /// The columns that these arguments ask for.
    pub fn schema_options(&self) -> SchemaOptions {
        SchemaOptions {
            target: self.target.clone(),
            features: self.features.clone(),
            exclude: self.exclude.clone(),
            categorical: self.categorical.clone(),
            positive_label: self.positive_label.clone(),
            exposure: self.exposure.clone(),
            weights: self.weights.clone(),
            ..Default::default()
        }
    }
}

/// The options of a fit that do not depend on what is minimised.
fn options(columns: &ColumnArgs, model: &ModelArgs, training: &TrainingArgs) -> FitOptions {
    let default = FitOptions::default();
    FitOptions {
        task: model.task,
        likelihood: model.likelihood,
        estimator: model.estimator,
        quadrature_nodes: model.quadrature_nodes,
        kernel: model.kernel.clone().unwrap_or(default.kernel),
        mean: model.mean,
        inducing: model.inducing,
        inducing_init: model.inducing_init,
        fix_inducing: model.fix_inducing,
        q_update: training.q_update.unwrap_or(default.q_update),
        q_guard: training.q_guard.unwrap_or(default.q_guard),
        q_step: training.q_step,
        warm_start: training.warm_start.unwrap_or(default.warm_start),
        learning_rate: training.learning_rate.unwrap_or(default.learning_rate),
        batch_size: training.batch_size.unwrap_or(default.batch_size),
        epochs: training.epochs,
        max_seconds: training.max_seconds,
        tolerance: training.tolerance,
        patience: training.patience.unwrap_or(default.patience),
        seed: training.seed,
        jitter: model.jitter.unwrap_or(default.jitter),
        fix: model.fix.clone(),
        standardize: !columns.no_standardize,
        ..default
    }
}
