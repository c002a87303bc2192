//! The options that `fit` and `compare` share: columns, model, training; no work.

use super::parsers::{Beside, Inducing, beside, bounds, delimiter, inducing, jitter, on, ordered, words};
use clap::Args;
use sparsegp::Result;
use sparsegp::data::{InputWarp, SizeSchedule, TargetWarp};
use sparsegp::gradient::Precision;
use sparsegp::hyper::{BoundsFor, Constraints, FixFor, PriorFor, StopRange, Tie};
use sparsegp::latent::{InducingInit, Jitter};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::likelihood::Task;
use sparsegp::objective::Estimator;
use sparsegp::options::{FitOptions, Given, Growth, MeanKind, ModelKind, Open, Part, StepOptions};
use sparsegp::variational::{Average, Family, Guard, QUpdate, Schedule};
use sparsegp_tables::schema::{SchemaOptions, SplitBy};
use sparsegp_tables::tables::{ReadOptions, column_names};
use std::path::Path;
use std::str::FromStr;

/// Which columns to use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Columns")]
pub struct ColumnArgs {
    /// The column to predict, or several, separated by commas (fit)
    ///
    /// None of several is an input. A column whose own name has commas comes first.
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
    /// A column of ordered levels, the lowest first, as 'COL=LOW<MIDDLE<HIGH': one input that counts them from 0; may be repeated
    #[arg(long, value_name = "COL=LEVELS", value_parser = ordered)]
    pub ordered: Vec<(String, Vec<String>)>,
    /// Columns to keep although they look like identifiers, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub keep: Vec<String>,
    /// Hold whole groups of rows out, those with the same value of this column, which is an input only if --features names it
    #[arg(long, value_name = "COL", conflicts_with = "split_time")]
    pub split_by: Option<String>,
    /// Hold the latest rows out, by this column of dates or numbers
    #[arg(long, value_name = "COL")]
    pub split_time: Option<String>,
    /// The character between the columns of a CSV file, tab for a tabulator [default: the one of , ; tab | that the first lines show]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Values that stand for missing cells, separated by commas, besides an empty cell, NA, N/A, NaN, null, #DIV/0! and the like
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub missing: Vec<String>,
    /// Take inputs and target as they are instead of standardising them
    #[arg(long)]
    pub no_standardize: bool,
    /// Of two classes, the one whose probability is predicted [default: yes, true, positive, the larger number, the rarer word]
    #[arg(long, value_name = "VALUE")]
    pub positive_label: Option<String>,
    /// A column of what a count's rate is multiplied by (time at risk, area, …); needed in prediction too
    #[arg(long, value_name = "COL")]
    pub exposure: Option<String>,
    /// A column of sample weights, which multiply the losses in training
    #[arg(long, value_name = "COL")]
    pub weights: Option<String>,
}

/// What the model is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// A sparse Gaussian process (gp), or a Bayesian linear model on the columns (glm) [default: gp, or that of --from]
    #[arg(long, value_parser = words(ModelKind::WORDS, ModelKind::from_str))]
    pub model: Option<ModelKind>,
    /// The kind of target [default: by its values: two of them classification, small whole numbers count]
    #[arg(long, value_parser = words(Task::WORDS, Task::from_str))]
    pub task: Option<Task>,
    /// The distribution of the target around the latent function [default: chosen among those of the task]
    ///
    /// With --auto none it is gaussian, bernoulli-probit, softmax, poisson or ordinal.
    #[arg(long, value_parser = words(LikelihoodKind::WORDS, LikelihoodKind::from_str))]
    pub likelihood: Option<LikelihoodKind>,
    /// Quadrature nodes per datum, for likelihoods without closed forms [default: as many as each datum needs]
    #[arg(long, value_name = "NODES")]
    pub quadrature_nodes: Option<usize>,
    /// How gradients in q are computed: exact; from L samples of f per row (dlm-log): bmc:L, bmc-price:L (second derivatives),
    /// smooth-bmc:L:NU, smooth-bmc:L:NU/t (ν falls as 1/t), ups:L; from L
    /// samples of w per batch (elbo): price:L (slopes and curvatures), reparam:L (energy, for rules that treat the entropy
    /// without its gradient), reparam-ent:L (with the entropy, for rules that take its gradient), stl:L (sticking the
    /// landing); or of a bound with that many pieces (elbo with bernoulli-logit): piecewise:PIECES
    #[arg(long, default_value_t = FitOptions::default().estimator)]
    pub estimator: Estimator,
    /// The kernel, for example 'matern52(ard)' or 'rbf[0] + periodic[0] * rbf[0]' (gp) [default: chosen; rbf(ard) with --auto none]
    #[arg(long, value_name = "EXPRESSION")]
    pub kernel: Option<String>,
    /// What is done to inputs before they are standardised: nothing, or every column of more than ten values is replaced by its
    /// normal scores, so that it has a normal distribution whatever its own (gp) [default: chosen where the kernel is; none with --auto none]
    #[arg(long, value_parser = words(InputWarp::WORDS, InputWarp::from_str))]
    pub warp_inputs: Option<InputWarp>,
    /// What is done to a positive target before it is standardised: nothing, its logarithm, or y = s log(1 + e^z), s being its
    /// median, which is like the logarithm below s and like y above; predictions are in its own units (gp, gaussian)
    /// [default: chosen; none with --auto none]
    #[arg(long, value_parser = words(TargetWarp::WORDS, TargetWarp::from_str))]
    pub warp_target: Option<TargetWarp>,
    /// The prior mean of the (standardised) latent function: a constant (trained with gp, an intercept with a wide prior with
    /// glm) or zero
    #[arg(long, value_parser = words(MeanKind::WORDS, MeanKind::from_str), default_value_t = FitOptions::default().mean)]
    pub mean: MeanKind,
    /// The prior mean of every coefficient on standardised columns, the intercept apart (glm) [default: 0]
    #[arg(long, value_name = "MEAN", allow_negative_numbers = true)]
    pub prior_mean: Option<f64>,
    /// The prior variance of every coefficient on standardised columns, the intercept apart (glm) [default: 1]
    #[arg(long, value_name = "VARIANCE", allow_negative_numbers = true)]
    pub prior_variance: Option<f64>,
    /// The number of inducing inputs (gp), or auto for as many as it takes [default: by the number of rows]
    ///
    /// auto: until the bounds on the log evidence are close and rise no more (Gaussian noise, up to 16384 rows), or held-out rows gain
    /// nothing. The default is a tenth of the training rows or 5√n, the larger, within 50 and 500 (300 unless noise is Gaussian); a tenth
    /// within 50 and 200 beside neighbours.
    #[arg(long, value_name = "M|auto", value_parser = inducing)]
    pub inducing: Option<Inducing>,
    /// With --inducing auto: how close the bounds have to be, and how small the gain of a doubling, in nats per row
    /// [default: 0.01]
    #[arg(long, value_name = "NATS", requires = "inducing", allow_negative_numbers = true)]
    pub inducing_tolerance: Option<f64>,
    /// With --inducing auto: the most inducing inputs [default: half the training rows, at most 2000]
    #[arg(long, value_name = "M", requires = "inducing")]
    pub max_inducing: Option<usize>,
    /// How the inducing inputs are chosen (gp) [default: kmeans]
    #[arg(long, value_parser = words(&["kmeans", "greedy", "random"], InducingInit::from_str))]
    pub inducing_init: Option<InducingInit>,
    /// Leave the inducing inputs where they start (gp)
    #[arg(long)]
    pub fix_inducing: bool,
    /// How many nearest training rows are beside the inducing inputs (gp) [default: auto; none with --auto none]
    ///
    /// What inducing inputs do not carry is local; there may then be none of them. The model keeps the training rows. auto: as held-out
    /// rows decide, among none, 20, 50 and 100.
    #[arg(long, value_name = "K|none|auto", value_parser = beside)]
    pub neighbours: Option<Beside>,
    /// With --neighbours: the most training rows that the model keeps [default: all]
    #[arg(long, value_name = "ROWS", requires = "neighbours")]
    pub keep_rows: Option<usize>,
    /// With --neighbours: keep them in single precision, in half the space
    #[arg(long, requires = "neighbours")]
    pub keep_single: bool,
    /// What is added to the diagonal of the inducing covariance, relative to its mean; abs:VALUE is absolute
    /// (gp) [default: 1e-6]
    #[arg(long, value_name = "VALUE", value_parser = jitter)]
    pub jitter: Option<Jitter>,
    #[command(flatten)]
    pub constraints: ConstraintArgs,
}

/// What is known about hyper-parameters. NAME is one that a fit prints (kernel.lengthscales.0), a parameter for all of its
/// values (kernel.lengthscales), or either with * for any characters (*.lengthscales); values are on the scale the model
/// sees, that of standardised columns. All but --default-priors may be given several times.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Hyper-parameters by NAME (full, without its number, or with *; standardised scale)"
)]
pub struct ConstraintArgs {
    /// Fix hyper-parameters at a value, or where they start, for example likelihood.noise_variance=0.01
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub fix: Vec<FixFor>,
    /// Keep hyper-parameters between two values; one of them may be left out, as in '*.lengthscales=0.1,'
    #[arg(long, value_name = "NAME=LO,HI")]
    pub bounds: Vec<BoundsFor>,
    /// Give hyper-parameters a prior: lognormal(mu,sigma), gamma(shape,rate), normal(mean,sd), halfcauchy(scale), or none;
    /// training then finds the mode of the objective with it
    #[arg(long, value_name = "NAME=DIST")]
    pub prior: Vec<PriorFor>,
    /// Make hyper-parameters one number, for example kernel.rbf.lengthscales,kernel.matern52.lengthscales
    #[arg(long, value_name = "NAME,NAME")]
    pub tie: Vec<Tie>,
    /// Whether lengthscales have a weak prior where nothing is said about them (gp on standardised columns) [default: on]
    #[arg(long, value_name = "ON|OFF", value_parser = words(&["on", "off"], on))]
    pub default_priors: Option<bool>,
}

impl ConstraintArgs {
    fn constraints(&self) -> Constraints {
        Constraints {
            bounds: self.bounds.clone(),
            fix: self.fix.clone(),
            ties: self.tie.clone(),
            priors: self.prior.clone(),
        }
    }
}

/// How the model is trained.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub struct TrainingArgs {
    /// The covariances that q may have (elbo, dlm-log): all, or diagonal ones (mean field) [default: full]
    #[arg(long, value_parser = words(Family::WORDS, Family::from_str))]
    pub family: Option<Family>,
    /// How q is updated by mini-batches (elbo, dlm-log) [default: ngd]
    #[arg(long, value_parser = words(QUpdate::WORDS, QUpdate::from_str))]
    pub q_update: Option<QUpdate>,
    /// What keeps ngd steps positive definite where the loss has negative curvature; none: sr-vn takes its steps uncut
    /// [default: trust]
    #[arg(long, value_parser = words(Guard::WORDS, Guard::from_str))]
    pub q_guard: Option<Guard>,
    /// The step of that update at iteration t = 0, 1, …: const:STEP, warm-up:START:END:STEPS, two-over-t (2/(t+2)),
    /// half-t:W (1/(W(t/2+1))), domke:W:A (min{W/(2A), (2t+1)/(W(t+1)²)}), theorem (the same, W
    /// and A from the rows; prox-sgd or proj-sgd with --hyper fixed and all rows in a batch), invsqrt:S (S/√(t+1)) or inverse:C (1/(C+t));
    /// at most 1 where steps are mixing weights (ngd, projected-ngvi) [default: by the update]
    #[arg(long, value_name = "SCHEDULE")]
    pub q_step: Option<Schedule>,
    /// Which average of the iterates of q is returned (elbo, dlm-log): the last one, that of the expectation parameters with
    /// growing weights, or that of the later half [default: none]
    #[arg(long, value_parser = words(Average::WORDS, Average::from_str))]
    pub q_average: Option<Average>,
    /// The least and the largest variance that projected-ngvi allows q in any direction, the prior's being 1
    /// [default: 1e-4,1e4]
    #[arg(long, value_name = "LO,HI", value_parser = bounds)]
    pub q_bounds: Option<(f64, f64)>,
    /// Keep the means of all coefficients at 0 or above (glm with --family diagonal and --q-update projected-ngvi)
    #[arg(long)]
    pub q_nonnegative: bool,
    /// The smoothness of the negative log joint, by which prox-sgd, proj-sgd, bw-gd and sgd scale their steps [default:
    /// the largest curvature met so far]
    #[arg(long, value_name = "SMOOTHNESS", allow_negative_numbers = true)]
    pub q_smoothness: Option<f64>,
    /// End without full-batch steps on q (elbo, dlm-log)
    #[arg(long)]
    pub no_polish: bool,
    /// Iterations of L-BFGS on the collapsed bound of at most 10240 rows from which training starts (elbo, dlm-log,
    /// dlm-square; gp); 0 for none [default: 100]
    #[arg(long, value_name = "ITERATIONS")]
    pub warm_start: Option<usize>,
    /// Adam's learning rate (elbo, dlm-log) [default: 0.01]
    #[arg(long, value_name = "RATE")]
    pub learning_rate: Option<f64>,
    /// Rows per mini-batch (elbo, dlm-log) [default: 1024]
    #[arg(long, value_name = "ROWS")]
    pub batch_size: Option<usize>,
    /// Rows in the mini-batch of iteration t = 0, 1, … instead: const:N, power:K ((t+1)^K) or max:N:K (that, but at least
    /// N); at most all
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "batch_size")]
    pub batch_schedule: Option<SizeSchedule>,
    /// The precision of the large products of mini-batches: f64, or mixed, single precision but for sums over data, as long as
    /// the objective agrees with that in double precision to 0.001 nats per row [default: f64]
    #[arg(long, value_parser = words(Precision::WORDS, Precision::from_str))]
    pub precision: Option<Precision>,
    /// Number of samples at iteration t, instead of the L of --estimator: const:N, power:K, max:N:K, or bias:M:ROWS:DELTA for bmc
    /// (M/2 (t+1)² log(π² ROWS (t+1)²/DELTA), Wei, Sheth & Khardon 2021, eq. 9) [default: L]
    #[arg(long, value_name = "SCHEDULE")]
    pub sample_schedule: Option<SizeSchedule>,
    /// The most passes over the data, or iterations of L-BFGS [default: 20 by mini-batches for elbo with --hyper dual and 100 else,
    /// 200 steps at least; 500 for dlm-square; 50 beside neighbours, after shorter rounds; else 200]
    #[arg(long)]
    pub epochs: Option<usize>,
    /// The most mini-batch steps (elbo, dlm-log)
    #[arg(long, value_name = "STEPS")]
    pub max_steps: Option<usize>,
    /// Stop training after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub max_seconds: Option<f64>,
    /// Stop when the smoothed objective falls by less, in nats per row and epoch; 0 never stops [default: 1e-5]
    #[arg(long, value_name = "NATS")]
    pub tolerance: Option<f64>,
    /// Stop once the validation NLL, or the objective per row where no rows are held out for it, is no larger than this
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    pub stop_at: Option<f64>,
    /// Stop once the objective per row stays within NATS for EPOCHS epochs (Wei, Sheth & Khardon 2021: 50:1e-4 for regression, 20:1e-4
    /// for classes and counts); --tolerance is 0 then unless given [default: off]
    #[arg(long, value_name = "EPOCHS:NATS")]
    pub stop_range: Option<StopRange>,
    /// Stop after this many epochs without a better validation score [default: 20]
    #[arg(long, value_name = "EPOCHS", requires = "validation_fraction")]
    pub patience: Option<usize>,
    /// Seed of splits, batches and starting points
    #[arg(long, default_value_t = FitOptions::default().seed)]
    pub seed: u64,
}

impl TrainingArgs {
    /// How q is moved by mini-batches.
    fn steps(&self) -> StepOptions {
        let default = StepOptions::default();
        StepOptions {
            family: self.family.unwrap_or(default.family),
            update: self.q_update.unwrap_or(default.update),
            guard: self.q_guard.unwrap_or(default.guard),
            step: self.q_step,
            average: self.q_average.unwrap_or(default.average),
            bounds: self.q_bounds,
            nonnegative: self.q_nonnegative,
            smoothness: self.q_smoothness,
            polish: !self.no_polish,
            batch_size: self.batch_size.unwrap_or(default.batch_size),
            batch_schedule: self.batch_schedule,
            sample_schedule: self.sample_schedule,
            precision: self.precision.unwrap_or(default.precision),
        }
    }
}

impl ModelArgs {
    /// What held-out rows decide of these parts, which nobody named.
    pub fn open(&self, given: &Given, all: Open) -> Open {
        let open = given.open(all);
        if self.neighbours == Some(Beside::Auto) { open.with(Part::Neighbours) } else { open }
    }

    /// How inducing inputs are found, where they are.
    fn growth(&self) -> Option<Growth> {
        let growth = Growth { tolerance: self.inducing_tolerance, most: self.max_inducing };
        (self.inducing == Some(Inducing::Auto)).then_some(growth)
    }
}

impl ColumnArgs {
    /// The column by which rows are held out.
    pub fn split(&self) -> Option<SplitBy> {
        let group = self.split_by.clone().map(SplitBy::Group);
        group.or(self.split_time.clone().map(SplitBy::Time))
    }

    /// The columns of the data to predict: the one of this name, or those of the names between the commas.
    pub fn targets(&self, data: &Path) -> Result<Vec<String>> {
        let names = || column_names(data, self.delimiter);
        if !self.target.contains(',') || names()?.is_some_and(|names| names.contains(&self.target)) {
            return Ok(vec![self.target.clone()]);
        }
        Ok(self.target.split(',').map(str::to_owned).collect())
    }

    /// How the data are read.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions { delimiter: self.delimiter, missing: self.missing.clone() }
    }

    /// The columns that these arguments ask for.
    pub fn schema_options(&self) -> SchemaOptions {
        SchemaOptions {
            target: self.target.clone(),
            features: self.features.clone(),
            exclude: self.exclude.clone(),
            categorical: self.categorical.clone(),
            ordered: self.ordered.clone(),
            positive_label: self.positive_label.clone(),
            exposure: self.exposure.clone(),
            weights: self.weights.clone(),
            keep: self.keep.clone(),
            delimiter: self.delimiter,
            missing: self.missing.clone(),
            split: self.split(),
            ..Default::default()
        }
    }
}

/// The options of a fit that do not depend on what is minimised.
pub fn options(columns: &ColumnArgs, model: &ModelArgs, training: &TrainingArgs) -> FitOptions {
    let default = FitOptions::default();
    FitOptions {
        task: model.task,
        likelihood: model.likelihood,
        model: model.model.unwrap_or(default.model),
        prior_mean: model.prior_mean.unwrap_or(default.prior_mean),
        prior_variance: model.prior_variance.unwrap_or(default.prior_variance),
        estimator: model.estimator,
        quadrature_nodes: model.quadrature_nodes,
        kernel: model.kernel.clone().unwrap_or(default.kernel),
        mean: model.mean,
        warp_inputs: model.warp_inputs.unwrap_or(default.warp_inputs),
        warp_target: model.warp_target.unwrap_or(default.warp_target),
        inducing: model.inducing.and_then(|inducing| match inducing {
            Inducing::Auto => None,
            Inducing::Number(m) => Some(m),
        }),
        growth: model.growth(),
        inducing_init: model.inducing_init.unwrap_or(default.inducing_init),
        fix_inducing: model.fix_inducing,
        neighbours: match model.neighbours {
            Some(Beside::Number(count)) => Some(count),
            _ => None,
        },
        keep_rows: model.keep_rows,
        keep_single: model.keep_single,
        steps: training.steps(),
        warm_start: training.warm_start.unwrap_or(default.warm_start),
        learning_rate: training.learning_rate.unwrap_or(default.learning_rate),
        epochs: training.epochs,
        max_steps: training.max_steps,
        max_seconds: training.max_seconds,
        tolerance: training.tolerance,
        stop_at: training.stop_at,
        stop_range: training.stop_range,
        patience: training.patience.unwrap_or(default.patience),
        seed: training.seed,
        jitter: model.jitter.unwrap_or(default.jitter),
        constraints: model.constraints.constraints(),
        default_priors: model.constraints.default_priors.unwrap_or(default.default_priors),
        standardize: !columns.no_standardize,
        open: model.open(&Given::default(), Open::NOTHING),
        ..default
    }
}
