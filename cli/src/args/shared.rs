//! The options that `fit` and `compare` share: columns, model, training; no work.

use super::parsers::{
    Beside, Inducing, beside, bounds, delimiter, inducing, jitter, on, ordered, places, words,
};
use clap::Args;
use sparsegp::Result;
use sparsegp::data::{InputWarp, SizeSchedule, TargetWarp};
use sparsegp::gradient::Precision;
use sparsegp::hyper::{BoundsFor, Constraints, FixFor, PriorFor, StartFor, StopRange, Tie};
use sparsegp::latent::{InducingInit, Jitter};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::likelihood::Task;
use sparsegp::objective::Estimator;
use sparsegp::options::{FitOptions, Given, Growth, MeanKind, ModelKind, Open, Part, StepOptions};
use sparsegp::variational::{Average, Family, Guard, QUpdate, Schedule};
use sparsegp_tables::schema::{Places, SchemaOptions, SplitBy, Surface};
use sparsegp_tables::tables::{ReadOptions, column_names};
use std::path::Path;
use std::str::FromStr;

/// The options about columns.
#[derive(Debug, Args)]
#[command(next_help_heading = "Columns")]
pub struct ColumnArgs {
    /// Column to predict; fit takes several, separated by commas
    ///
    /// Targets are never inputs. If a column has exactly this name, commas included, it is the only target.
    #[arg(long, value_name = "COL")]
    pub target: String,
    /// Columns to predict from, separated by commas [default: all others]
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub features: Option<Vec<String>>,
    /// Columns to leave out, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// Columns of numbers to treat as categories, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub categorical: Vec<String>,
    /// Column of ordered levels, lowest first, as 'COL=LOW<MIDDLE<HIGH'; it becomes one input that counts the levels from 0; may be repeated
    #[arg(long, value_name = "COL=LEVELS", value_parser = ordered)]
    pub ordered: Vec<(String, Vec<String>)>,
    /// Columns of longitude and latitude in degrees, in this order, as LON,LAT: one input, with one lengthscale in km
    ///
    /// Every row becomes a point on the sphere, and kernels see the straight distance between points. Other columns, such as a date, have
    /// their own lengthscales.
    #[arg(long, value_name = "LON,LAT", value_parser = places, conflicts_with = "plane")]
    pub places: Option<[String; 2]>,
    /// Columns of coordinates in a plane, as X,Y: one input, with one lengthscale in their unit
    #[arg(long, value_name = "X,Y", value_parser = places)]
    pub plane: Option<[String; 2]>,
    /// Columns to keep as inputs even if they look like identifiers, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub keep: Vec<String>,
    /// Hold out whole groups of rows: rows with the same value of this column, which is an input only if --features names it
    #[arg(long, value_name = "COL", conflicts_with = "split_time")]
    pub split_by: Option<String>,
    /// Hold out the latest rows, by this column of dates or numbers
    #[arg(long, value_name = "COL")]
    pub split_time: Option<String>,
    /// Character between the columns of a CSV file, or tab [default: , ; tab or |, found in the first lines]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Values that mark a missing cell, separated by commas, in addition to an empty cell, NA, N/A, NaN, null, #DIV/0! and similar ones
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub missing: Vec<String>,
    /// Do not standardise inputs and target
    #[arg(long)]
    pub no_standardize: bool,
    /// Class whose probability is predicted, for two classes [default: yes, true or positive; otherwise the larger number or the rarer
    /// word]
    #[arg(long, value_name = "VALUE")]
    pub positive_label: Option<String>,
    /// Column of exposures (time at risk, area, …), which multiply the rates of counts; predictions need it too
    #[arg(long, value_name = "COL")]
    pub exposure: Option<String>,
    /// Column of sample weights, which multiply the losses of rows in training
    #[arg(long, value_name = "COL")]
    pub weights: Option<String>,
}

/// The options about the model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Kind of model: a sparse Gaussian process (gp) or a Bayesian linear model on the columns (glm) [default: gp, or the kind of --from]
    #[arg(long, value_parser = words(ModelKind::WORDS, ModelKind::from_str))]
    pub model: Option<ModelKind>,
    /// Kind of target [default: by its values: two values are classes, small whole numbers are counts]
    #[arg(long, value_parser = words(Task::WORDS, Task::from_str))]
    pub task: Option<Task>,
    /// Distribution of the target around the latent function [default: chosen on held-out rows]
    ///
    /// With --auto none it is the first likelihood of the task: gaussian, bernoulli-probit, softmax, poisson or ordinal.
    #[arg(long, value_parser = words(LikelihoodKind::WORDS, LikelihoodKind::from_str))]
    pub likelihood: Option<LikelihoodKind>,
    /// Number of quadrature nodes per row, for likelihoods without closed forms [default: as many as each row needs]
    #[arg(long, value_name = "NODES")]
    pub quadrature_nodes: Option<usize>,
    /// Estimator of the gradients in q
    ///
    /// exact: by closed forms or quadrature. For dlm-log, from L samples of f per row: bmc:L, bmc-price:L (with second derivatives),
    /// smooth-bmc:L:NU, smooth-bmc:L:NU/t (ν falls as 1/t), ups:L. For elbo, from L samples of the weights per batch: price:L (slopes and
    /// curvatures), reparam:L (without the entropy; for ngd, sr-vn, projected-ngvi and prox-sgd), reparam-ent:L (with the entropy; for
    /// proj-sgd, bw-gd and adam), stl:L (sticking the landing). For elbo with bernoulli-logit, piecewise:PIECES: gradients of a bound of
    /// PIECES pieces.
    #[arg(long, default_value_t = FitOptions::default().estimator)]
    pub estimator: Estimator,
    /// Kernel, for example 'matern52(ard)' or 'rbf[0] + periodic[0] * rbf[0]' (gp) [default: chosen; rbf(ard) with --auto none]
    #[arg(long, value_name = "EXPRESSION")]
    pub kernel: Option<String>,
    /// Map of the inputs before they are standardised: none, or normal-scores, which gives every column of more than ten values a normal
    /// distribution (gp) [default: chosen, unless --kernel is given; none with --auto none]
    #[arg(long, value_parser = words(InputWarp::WORDS, InputWarp::from_str))]
    pub warp_inputs: Option<InputWarp>,
    /// Map of a positive target before it is standardised (gp, gaussian) [default: chosen; none with --auto none]
    ///
    /// log models log y. softplus models the z of y = s log(1 + e^z), where s is the median of y; z resembles log y below s and is nearly
    /// linear in y above. Predictions are in the units of y.
    #[arg(long, value_parser = words(TargetWarp::WORDS, TargetWarp::from_str))]
    pub warp_target: Option<TargetWarp>,
    /// Prior mean of the latent function on the standardised scale: zero, or a constant (gp trains it; glm gives it a wide prior)
    #[arg(long, value_parser = words(MeanKind::WORDS, MeanKind::from_str), default_value_t = FitOptions::default().mean)]
    pub mean: MeanKind,
    /// Prior mean of every coefficient on standardised columns, except the intercept (glm) [default: 0]
    #[arg(long, value_name = "MEAN", allow_negative_numbers = true)]
    pub prior_mean: Option<f64>,
    /// Prior variance of every coefficient on standardised columns, except the intercept (glm) [default: 1]
    #[arg(long, value_name = "VARIANCE", allow_negative_numbers = true)]
    pub prior_variance: Option<f64>,
    /// Number of inducing inputs (gp), or auto [default: by the number of rows]
    ///
    /// auto increases the number by half until the bounds on the log evidence are close and the lower one stops rising (Gaussian noise, up
    /// to 16384 rows), or until predictions of held-out rows stop improving. The default for n training rows is the larger of n/10 and 5√n,
    /// but at least 50 and at most 500 (300 unless the noise is Gaussian). With neighbours it is n/10, between 50 and 200.
    #[arg(long, value_name = "M|auto", value_parser = inducing)]
    pub inducing: Option<Inducing>,
    /// With --inducing auto, stop when the gap between the bounds and the gain from a doubling fall below NATS, in nats per row [default:
    /// 0.01]
    #[arg(long, value_name = "NATS", requires = "inducing", allow_negative_numbers = true)]
    pub inducing_tolerance: Option<f64>,
    /// With --inducing auto, the maximum number of inducing inputs [default: half the training rows, at most 2000]
    #[arg(long, value_name = "M", requires = "inducing")]
    pub max_inducing: Option<usize>,
    /// Method that chooses the inducing inputs (gp) [default: kmeans]
    #[arg(long, value_parser = words(&["kmeans", "greedy", "random"], InducingInit::from_str))]
    pub inducing_init: Option<InducingInit>,
    /// Do not move the inducing inputs during training (gp)
    #[arg(long)]
    pub fix_inducing: bool,
    /// Number of nearest training rows that each prediction uses in addition to the inducing inputs (gp) [default: auto; none with --auto none]
    ///
    /// Neighbours model local variation, so --inducing 0 is allowed. The model keeps the training rows. auto chooses none, 20, 50 or 100
    /// on held-out rows.
    #[arg(long, value_name = "K|none|auto", value_parser = beside)]
    pub neighbours: Option<Beside>,
    /// With --neighbours, the maximum number of training rows that the model keeps [default: all]
    #[arg(long, value_name = "ROWS", requires = "neighbours")]
    pub keep_rows: Option<usize>,
    /// With --neighbours, keep the training rows in single precision, which halves the size of the model
    #[arg(long, requires = "neighbours")]
    pub keep_single: bool,
    /// Jitter: the number added to the diagonal of the inducing covariance, relative to its mean; abs:VALUE is absolute
    /// (gp) [default: 1e-6]
    #[arg(long, value_name = "VALUE", value_parser = jitter)]
    pub jitter: Option<Jitter>,
    #[command(flatten)]
    pub constraints: ConstraintArgs,
}

/// Constraints on hyper-parameters. NAME is a name that a fit prints (kernel.lengthscales.0), a parameter for all of its
/// values (kernel.lengthscales), or either with * for any characters (*.lengthscales); values are on the scale of standardised
/// columns, or in units of a column in brackets (kernel.lengthscales[hour]). All options except --default-priors may be given several times.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Hyper-parameters by NAME (also with *; standardised scale; NAME[COLUMN] in units of the column)"
)]
pub struct ConstraintArgs {
    /// Start training from a value, for example 'kernel.lengthscales[hour]=2'
    #[arg(long, value_name = "NAME=VALUE")]
    pub start: Vec<StartFor>,
    /// Fix hyper-parameters at a value, for example likelihood.noise_variance=0.01; without =VALUE at their starting values
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub fix: Vec<FixFor>,
    /// Keep hyper-parameters between two values; one of them may be left out, as in '*.lengthscales=0.1,'
    #[arg(long, value_name = "NAME=LO,HI")]
    pub bounds: Vec<BoundsFor>,
    /// Give hyper-parameters a prior: lognormal(mu,sigma), gamma(shape,rate), normal(mean,sd), halfcauchy(scale), or none; training then
    /// also minimises the negative log density of the prior
    #[arg(long, value_name = "NAME=DIST")]
    pub prior: Vec<PriorFor>,
    /// Keep hyper-parameters equal, for example kernel.rbf.lengthscales,kernel.matern52.lengthscales
    #[arg(long, value_name = "NAME,NAME")]
    pub tie: Vec<Tie>,
    /// Weak prior on lengthscales without another constraint (gp on standardised columns) [default: on]
    #[arg(long, value_name = "ON|OFF", value_parser = words(&["on", "off"], on))]
    pub default_priors: Option<bool>,
}

impl ConstraintArgs {
    fn constraints(&self) -> Constraints {
        Constraints {
            bounds: self.bounds.clone(),
            starts: self.start.clone(),
            fix: self.fix.clone(),
            ties: self.tie.clone(),
            priors: self.prior.clone(),
            ..Constraints::default()
        }
    }
}

/// The options about training.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub struct TrainingArgs {
    /// Covariance matrices of q (elbo, dlm-log): full, or diagonal (mean field) [default: full]
    #[arg(long, value_parser = words(Family::WORDS, Family::from_str))]
    pub family: Option<Family>,
    /// Rule that updates q on mini-batches (elbo, dlm-log) [default: ngd]
    #[arg(long, value_parser = words(QUpdate::WORDS, QUpdate::from_str))]
    pub q_update: Option<QUpdate>,
    /// Guard that keeps the covariance of q positive definite in ngd steps on losses with negative curvature. With none, sr-vn does not
    /// shorten its steps either [default: trust]
    #[arg(long, value_parser = words(Guard::WORDS, Guard::from_str))]
    pub q_guard: Option<Guard>,
    /// Schedule of the step size of --q-update at iterations t = 0, 1, … [default: by the rule]
    ///
    /// const:STEP, warm-up:START:END:STEPS, two-over-t (2/(t+2)), half-t:W (1/(W(t/2+1))), domke:W:A (min{W/(2A), (2t+1)/(W(t+1)²)}),
    /// theorem (domke with W and A computed from the rows; for prox-sgd or proj-sgd with --hyper fixed and all rows in one batch),
    /// invsqrt:S (S/√(t+1)) or inverse:C (1/(C+t)). Steps of ngd and projected-ngvi are mixing weights, so they are at most 1.
    #[arg(long, value_name = "SCHEDULE")]
    pub q_step: Option<Schedule>,
    /// Average of the iterates of q to return (elbo, dlm-log): none (the last iterate), expectation (expectation parameters with growing
    /// weights) or tail (the later half of the iterates) [default: none]
    #[arg(long, value_parser = words(Average::WORDS, Average::from_str))]
    pub q_average: Option<Average>,
    /// Smallest and largest variance of q in any direction that projected-ngvi allows; the prior variance is 1 [default: 1e-4,1e4]
    #[arg(long, value_name = "LO,HI", value_parser = bounds)]
    pub q_bounds: Option<(f64, f64)>,
    /// Keep the means of all coefficients non-negative (glm with --family diagonal and --q-update projected-ngvi)
    #[arg(long)]
    pub q_nonnegative: bool,
    /// Smoothness of the negative log joint, which scales the steps of prox-sgd, proj-sgd, bw-gd and sgd [default: the largest
    /// curvature found so far]
    #[arg(long, value_name = "SMOOTHNESS", allow_negative_numbers = true)]
    pub q_smoothness: Option<f64>,
    /// Skip the steps on q with all rows at the end of training (elbo, dlm-log)
    #[arg(long)]
    pub no_polish: bool,
    /// Number of L-BFGS iterations before training, on the collapsed bound of at most 10240 rows (elbo, dlm-log, dlm-square; gp); 0 for
    /// none [default: 100]
    #[arg(long, value_name = "ITERATIONS")]
    pub warm_start: Option<usize>,
    /// Learning rate of Adam (elbo, dlm-log) [default: 0.01]
    #[arg(long, value_name = "RATE")]
    pub learning_rate: Option<f64>,
    /// Number of rows per mini-batch (elbo, dlm-log) [default: 1024]
    #[arg(long, value_name = "ROWS")]
    pub batch_size: Option<usize>,
    /// Schedule of the number of rows per mini-batch at iterations t = 0, 1, …: const:N, power:K ((t+1)^K) or max:N:K (the larger of N and
    /// (t+1)^K); never more than all rows
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "batch_size")]
    pub batch_schedule: Option<SizeSchedule>,
    /// Precision of the large products of mini-batches: f64, or mixed (single precision, except in sums over rows). A mixed fit returns to
    /// f64 if the two precisions give objectives that differ by more than 0.001 nats per row [default: f64]
    #[arg(long, value_parser = words(Precision::WORDS, Precision::from_str))]
    pub precision: Option<Precision>,
    /// Schedule of the number of samples at iterations t = 0, 1, …: const:N, power:K, max:N:K, or bias:M:ROWS:DELTA for bmc
    /// (M/2 (t+1)² log(π² ROWS (t+1)²/DELTA), Wei, Sheth & Khardon 2021, eq. 9) [default: the L of --estimator]
    #[arg(long, value_name = "SCHEDULE")]
    pub sample_schedule: Option<SizeSchedule>,
    /// Maximum number of passes over the data, or of L-BFGS iterations [default: by the objective]
    ///
    /// With mini-batches the default is 50 passes for elbo with --hyper dual and otherwise 100, but at least 200 steps. Without
    /// mini-batches it is 50 iterations with neighbours (after shorter rounds), 500 for dlm-square without neighbours, and otherwise 200.
    #[arg(long)]
    pub epochs: Option<usize>,
    /// Maximum number of mini-batch steps (elbo, dlm-log)
    #[arg(long, value_name = "STEPS")]
    pub max_steps: Option<usize>,
    /// Stop training after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub max_seconds: Option<f64>,
    /// Stop when the smoothed objective falls by less than NATS per row and epoch; 0 never stops [default: 1e-5]
    #[arg(long, value_name = "NATS")]
    pub tolerance: Option<f64>,
    /// Stop when the validation NLL, or without validation rows the objective per row, is at most NATS
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    pub stop_at: Option<f64>,
    /// Stop once the objective per row stays within NATS for EPOCHS epochs (Wei, Sheth & Khardon 2021: 50:1e-4 for regression, 20:1e-4
    /// for classes and counts); the default of --tolerance is then 0 [default: off]
    #[arg(long, value_name = "EPOCHS:NATS")]
    pub stop_range: Option<StopRange>,
    /// Stop after this many epochs without a better validation score [default: 20]
    #[arg(long, value_name = "EPOCHS", requires = "validation_fraction")]
    pub patience: Option<usize>,
    /// Random seed of splits, batches and starting points
    #[arg(long, default_value_t = FitOptions::default().seed)]
    pub seed: u64,
}

impl TrainingArgs {
    /// Returns the options of the steps on q.
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
    /// Returns the parts that held-out rows choose: those of `all` that no option sets.
    pub fn open(&self, given: &Given, all: Open) -> Open {
        let open = given.open(all);
        if self.neighbours == Some(Beside::Auto) { open.with(Part::Neighbours) } else { open }
    }

    /// Returns the settings of `--inducing auto`, if it is given.
    fn growth(&self) -> Option<Growth> {
        let growth = Growth { tolerance: self.inducing_tolerance, most: self.max_inducing };
        (self.inducing == Some(Inducing::Auto)).then_some(growth)
    }
}

impl ColumnArgs {
    /// Returns the column by which rows are held out.
    pub fn split(&self) -> Option<SplitBy> {
        let group = self.split_by.clone().map(SplitBy::Group);
        group.or(self.split_time.clone().map(SplitBy::Time))
    }

    /// Returns the columns that say where a row is.
    fn places(&self) -> Option<Places> {
        let on = |columns: &Option<[String; 2]>, surface| {
            columns.clone().map(|columns| Places { columns, surface })
        };
        on(&self.places, Surface::Sphere).or(on(&self.plane, Surface::Plane))
    }

    /// Returns the names of the target columns: the column of exactly this name if there is one, otherwise the names between the commas.
    pub fn targets(&self, data: &Path) -> Result<Vec<String>> {
        let names = || column_names(data, self.delimiter);
        if !self.target.contains(',') || names()?.is_some_and(|names| names.contains(&self.target)) {
            return Ok(vec![self.target.clone()]);
        }
        Ok(self.target.split(',').map(str::to_owned).collect())
    }

    /// Returns the options for reading the data.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions { delimiter: self.delimiter, missing: self.missing.clone() }
    }

    /// Returns the options of the schema.
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
            places: self.places(),
            ..Default::default()
        }
    }
}

/// Returns the options of a fit that do not depend on the objective.
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
