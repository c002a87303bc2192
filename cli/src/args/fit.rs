//! The options of `fit`: what is minimised, which rows are held out, what is written; no work.

use super::parsers::{Beside, betas, unseen, words};
use super::shared::{ColumnArgs, ModelArgs, TrainingArgs, options};
use clap::Args;
use sparsegp::Error;
use sparsegp::options::{Betas, FitOptions, Given, Hyper, HyperOptimizer, ModelKind, ObjectiveKind, Open};
use sparsegp_tables::schema::{GroupFormula, SchemaOptions, UnseenLevels};
use sparsegp_tables::tabular::Sharing;
use std::path::PathBuf;
use std::str::FromStr;

const FIT_EXAMPLES: &str = "Examples:
  sparsegp fit houses.csv --target price --test-fraction 0.1 --model-out houses.model
  sparsegp fit co2.csv --target co2 --objective vfe --kernel 'rbf + periodic * rbf' --report co2.html
  sparsegp fit patients.csv --target ill --model glm --likelihood bernoulli-logit --model-out patients.model
  sparsegp fit more.csv --target price --from houses.model --hyper fixed --model-out updated.model";

/// Options of `fit`.
#[derive(Debug, Args)]
#[command(after_help = FIT_EXAMPLES)]
pub struct FitArgs {
    /// The data: CSV with a header row, plain or gzipped, Parquet or Arrow; '-' reads CSV or Arrow from standard input
    pub data: PathBuf,
    #[command(flatten)]
    pub columns: ColumnArgs,
    /// Grouped (random) effects beside f: a column, 'slope | column', 'slope || column' for independent ones, or 'outer/inner'; may be repeated
    ///
    /// Every level of the column has an intercept of its own, and with a slope a slope in that column of numbers. 'outer/inner' stands for outer
    /// and outer:inner. Columns of groups are inputs only if --features names them. Gaussian noise, in closed form on all rows (vfe, fitc).
    #[arg(long, value_name = "FORMULA", help_heading = "Columns")]
    pub group: Vec<GroupFormula>,
    /// Estimate variance components by restricted maximum likelihood (glm with --group)
    #[arg(long, help_heading = "Model")]
    pub reml: bool,
    #[command(flatten)]
    pub objective: ObjectiveArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub training: TrainingArgs,
    /// What short fits and held-out training rows decide where no option does: all, none, or parts separated by commas
    ///
    /// Parts are likelihood, warp-inputs, warp-target, kernel, neighbours, objective and inducing. The fit prints its decisions as options
    /// that make the same fit.
    #[arg(long, value_name = "PARTS", default_value_t = Open::EVERYTHING, conflicts_with = "from", help_heading = "Model")]
    pub auto: Open,
    /// Let several targets share so many latent Gaussian processes, of which each is a linear combination with Gaussian noise (the linear model of
    /// coregionalisation)
    #[arg(long, value_name = "L", conflicts_with = "outputs", help_heading = "Model")]
    pub mixing: Option<usize>,
    /// What several targets have in common: nothing (own), kernel and inducing inputs of separate processes with Gaussian noise, which are
    /// then fitted in closed form together (shared), or L processes (mixed:L, as --mixing L) [default: what held-out rows say, with --auto none own]
    #[arg(long, value_name = "WHAT", help_heading = "Model")]
    pub outputs: Option<Sharing>,
    /// The number of starts with other inducing inputs and hyper-parameters, of which short fits keep the better half again
    /// and again until one is left
    #[arg(long, value_name = "K", default_value_t = FitOptions::default().restarts, conflicts_with = "from", help_heading = "Training")]
    pub restarts: usize,
    /// The number of threads [default: all cores]
    #[arg(long, help_heading = "Training")]
    pub threads: Option<usize>,
    /// Train from disk: leave the rows in the file, read them again in every epoch, and shuffle so many at a time in memory
    /// (elbo, dlm-log; not for standard input) [default: 256 MiB of rows if the file holds more than 1 GiB of numbers, else
    /// all rows are held]
    #[arg(long, value_name = "ROWS", help_heading = "Training")]
    pub shuffle_buffer: Option<usize>,
    #[command(flatten)]
    pub held_out: HeldOutArgs,
    #[command(flatten)]
    pub interruption: InterruptionArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// The options that the user gave, with any value.
    #[arg(skip)]
    pub given: Given,
}

/// What is kept for the case that the fit is interrupted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Interruption")]
pub struct InterruptionArgs {
    /// Keep what the fit needs to go on in this file, which is removed when the fit is done. Without it Ctrl-C still leaves a
    /// checkpoint, in MODEL.checkpoint for --model-out MODEL, else in DATA.checkpoint in the present folder
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// How often it is written
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30.0,
        requires = "checkpoint",
        allow_negative_numbers = true
    )]
    pub checkpoint_every: f64,
    /// Go on from a checkpoint, to the same numbers as if nothing had happened; data and options have to be the same. The
    /// file may be absent where --checkpoint names it too: then the fit starts
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
}

/// What is minimised, and from where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Objective")]
pub struct ObjectiveArgs {
    /// What is minimised [default: elbo, or dlm-log where it is chosen beside neighbours]
    ///
    /// The (β-)ELBO (collapsed where --hyper is) or the predictive log loss (dlm-log) by mini-batches, the squared error (dlm-square), the
    /// collapsed ELBO (vfe) or FITC's evidence on all data at once (Gaussian noise).
    #[arg(long, value_parser = words(ObjectiveKind::WORDS, ObjectiveKind::from_str))]
    pub objective: Option<ObjectiveKind>,
    /// The weight of the KL term (all but fitc)
    #[arg(long, default_value_t = FitOptions::default().beta, conflicts_with = "betas", allow_negative_numbers = true)]
    pub beta: f64,
    /// Choose β by the log loss (dlm-square: the squared error) of held-out rows among these, separated by commas, or
    /// auto: n, n/2, n/4, … down to 0.01; then fit again with the best
    #[arg(long, value_name = "LIST", value_parser = betas)]
    pub betas: Option<Betas>,
    /// How hyper-parameters and inducing inputs are tuned: with q from one gradient of mini-batches (joint), the same with q
    /// kept as sites that move with the prior (dual, elbo), on all data with q solved for by natural gradients at every step
    /// (alternating) or in closed form (collapsed, Gaussian noise), or not at all (fixed) [default: collapsed for vfe, fitc
    /// and dlm-square, and for elbo with Gaussian noise, at most 100000 rows and no option about mini-batches; else dual for
    /// elbo (gp, --q-update ngd, full covariances, exact gradients), else joint]
    #[arg(long, value_parser = words(Hyper::WORDS, Hyper::from_str))]
    pub hyper: Option<Hyper>,
    /// The solver for them: adam, or lbfgs where q is solved for [default: lbfgs for alternating and collapsed, else adam]
    #[arg(long, value_parser = words(HyperOptimizer::WORDS, HyperOptimizer::from_str))]
    pub hyper_optimizer: Option<HyperOptimizer>,
    /// Start from the columns, scaling, hyper-parameters, and kernel and inducing inputs (gp) or prior (glm) of a saved
    /// model; with --hyper fixed only the posterior is trained
    #[arg(long, value_name = "MODEL", conflicts_with_all = DECIDED_BY_FROM)]
    pub from: Option<PathBuf>,
}

/// What a saved model that a fit starts from decides.
const DECIDED_BY_FROM: [&str; 18] = [
    "features",
    "keep",
    "exclude",
    "categorical",
    "ordered",
    "no_standardize",
    "positive_label",
    "exposure",
    "weights",
    "task",
    "kernel",
    "mean",
    "prior_mean",
    "prior_variance",
    "inducing",
    "inducing_init",
    "jitter",
    "warm_start",
];

/// Which rows are not trained on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Held-out rows")]
pub struct HeldOutArgs {
    /// The share of the rows held out to choose when to stop and which parameters to keep, or which β (--betas; default
    /// there: 0.2)
    #[arg(long, value_name = "SHARE")]
    pub validation_fraction: Option<f64>,
    /// A file of rows to report on
    #[arg(long, value_name = "FILE", conflicts_with = "test_fraction")]
    pub test: Option<PathBuf>,
    /// The share of the rows held out to report on [default: 0, with --split-by or --split-time 0.2 unless other rows are held out]
    #[arg(long, value_name = "SHARE")]
    pub test_fraction: Option<f64>,
    /// How levels of --test that training did not see are treated: as new levels, unlike all others, or as an error
    #[arg(long, value_parser = words(&["new", "error"], unseen), default_value = "new", requires = "test")]
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
    /// In --predictions: put an apostrophe before text that a spreadsheet would run as a formula (it begins with = + - @ or a tab and is no
    /// number)
    #[arg(long, requires = "predictions")]
    pub csv_safe: bool,
    /// Save a report with figures (one HTML file)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Save every figure of the report as SVG and PNG in this folder (made if absent)
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
    /// Print the metrics document on standard output and nothing else
    #[arg(long)]
    pub json: bool,
}

impl OutputArgs {
    /// Whether a report or its figures are asked for.
    pub fn wants_page(&self) -> bool {
        self.report.is_some() || self.plots.is_some()
    }
}

impl ObjectiveArgs {
    /// What is minimised.
    fn kind(&self) -> ObjectiveKind {
        self.objective.unwrap_or(FitOptions::default().objective)
    }
}

impl FitArgs {
    /// The columns that these arguments ask for.
    pub fn schema_options(&self) -> SchemaOptions {
        SchemaOptions { groups: self.group.clone(), ..self.columns.schema_options() }
    }

    /// What several targets have in common, where an option says so.
    pub fn sharing(&self) -> Option<Sharing> {
        self.outputs.or(self.mixing.map(Sharing::Processes))
    }

    /// The share of the rows held out to report on.
    pub fn test_fraction(&self) -> f64 {
        let HeldOutArgs { test, test_fraction, validation_fraction, .. } = &self.held_out;
        let others = test.is_some() || validation_fraction.is_some() || self.objective.betas.is_some();
        let default = if self.columns.split().is_some() && !others { 0.2 } else { 0.0 };
        test_fraction.unwrap_or(default)
    }

    /// What the model is: as asked for, or as the model that is started from.
    fn model_kind(&self, start: Option<ModelKind>) -> ModelKind {
        self.model.model.or(start).unwrap_or(FitOptions::default().model)
    }

    /// Refuses options that the model, or the rule that moves q, has no use for.
    pub fn check(&self, options: &FitOptions) -> sparsegp::Result<()> {
        if self.model.neighbours == Some(Beside::Auto) {
            if self.objective.from.is_some() {
                return Err(Error::usage("--neighbours auto compares fits from the data, not from --from")
                    .hint("give a number of --neighbours, or leave --from out"));
            }
            if self.restarts > 1 || self.objective.betas.is_some() {
                return Err(Error::usage(
                    "--neighbours auto is a search of its own, as --restarts and --betas are",
                )
                .hint("find the number of neighbours first, then give it"));
            }
            options.with_neighbours(1).validate()?;
        }
        self.check_groups()?;
        self.given.check(options)
    }

    /// Refuses options that are for fits without grouped effects, as far as these arguments tell.
    fn check_groups(&self) -> sparsegp::Result<()> {
        if self.group.is_empty() {
            let lonely = self.reml.then(|| Error::usage("--reml is for --model glm with --group"));
            return lonely.map_or(Ok(()), Err);
        }
        let others = [
            ("--report", self.output.wants_page()),
            ("--shuffle-buffer", self.shuffle_buffer.is_some()),
            ("--from", self.objective.from.is_some()),
            ("--betas", self.objective.betas.is_some()),
            ("--neighbours", !matches!(self.model.neighbours, None | Some(Beside::None))),
            ("--mixing", self.sharing().is_some()),
        ];
        match others.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(Error::usage(format!("{name} cannot be combined with --group"))),
            None => Ok(()),
        }
    }

    /// The options of the fit that these arguments ask for, with the kind of the model that is started from.
    pub fn options(&self, start: Option<ModelKind>) -> FitOptions {
        let objective = &self.objective;
        let model = self.model_kind(start);
        let options = FitOptions {
            model,
            objective: objective.kind(),
            beta: objective.beta,
            hyper: objective.hyper,
            hyper_optimizer: objective.hyper_optimizer,
            validation_fraction: self.held_out.validation_fraction.unwrap_or_default(),
            restarts: self.restarts,
            reml: self.reml,
            open: self.model.open(&self.given, self.auto),
            ..options(&self.columns, &self.model, &self.training)
        };
        self.given.by_batches(options)
    }
}
