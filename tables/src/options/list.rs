//! The list of the options of a fit, under the headings of the help.

use super::kind::{any, parses};
use super::{Effect, Entry, Kind, Section};
use sparsegp::data::{InputWarp, SizeSchedule, TargetWarp};
use sparsegp::hyper::{BoundsFor, FixFor, PriorFor, StartFor, StopRange, Tie};
use sparsegp::latent::{InducingInit, Jitter};
use sparsegp::likelihood::{LikelihoodKind, Task};
use sparsegp::objective::Estimator;
use sparsegp::options::{
    Hyper, HyperOptimizer, HyperPosteriorKind, MeanKind, ModelKind, ObjectiveKind, Open,
};
use sparsegp::variational::{Average, Family, Guard, QUpdate, Schedule};

/// All options, in the order of the help.
pub static SECTIONS: [Section; 6] = [
    Section { heading: "Columns", options: SCALING },
    Section { heading: "Model", options: MODEL },
    Section { heading: "Objective", options: OBJECTIVE },
    Section {
        heading: "Hyper-parameters by NAME (* is a wildcard; values are standardised, or in units of COLUMN for NAME[COLUMN])",
        options: HYPER_PARAMETERS,
    },
    Section { heading: "Training", options: TRAINING },
    Section { heading: "Held-out rows", options: HELD_OUT },
];

const SCALING: &[Entry] = &[Entry::new("standardize", Kind::Switch)
    .help("Do not standardise inputs and target")
    .excludes(&["from"])];

const MODEL: &[Entry] = &[
    Entry::new("reml", Kind::Flag)
        .help("Estimate variance components by restricted maximum likelihood (glm with ⟨group⟩)")
        .effect(Effect::Linear)
        .not_compared(),
    Entry::new("model", Kind::Words(ModelKind::WORDS))
        .help(
            "Kind of model: a sparse Gaussian process (gp) or a Bayesian linear model on the columns (glm) \
             [default: gp]",
        )
        .everyday(),
    Entry::new("task", Kind::Words(Task::WORDS))
        .help(
            "Kind of target [default: inferred from its values: two values are classes, small whole \
             numbers are counts]",
        )
        .everyday()
        .excludes(&["from"]),
    Entry::new("likelihood", Kind::Words(LikelihoodKind::WORDS))
        .help("Distribution of the target around the latent function [default: chosen on held-out rows]")
        .more(
            "With ⟨auto none⟩ the default is gaussian for regression, bernoulli-probit for two classes, \
             softmax for more classes, poisson for counts, binomial for successes in trials and ordinal for ordered levels.",
        )
        .everyday(),
    Entry::new("quadrature_nodes", Kind::Whole).value("NODES").help(
        "Number of quadrature nodes per row, for likelihoods without closed forms [default: as many as \
         each row needs]",
    ),
    Entry::new("estimator", Kind::Text(parses::<Estimator>))
        .default("exact")
        .help("Estimator of the gradient with respect to q")
        .more(
            "exact uses closed forms or quadrature. These estimators for dlm-log draw L samples of f per \
             row: bmc:L (biased); bmc-price:L (biased, with second derivatives); smooth-bmc:L:NU (bmc with \
             ν added to the average density); smooth-bmc:L:NU/t (with ν/(t+1) at iteration t); ups:L \
             (unbiased, by rejection sampling). These estimators for elbo draw L samples of the weights w \
             from q per batch: price:L (first and second derivatives of the log density); reparam:L \
             (reparameterised samples without the gradient of the entropy of q, for ngd, sr-vn, \
             projected-ngvi and prox-sgd); reparam-ent:L (the same samples with that gradient, for \
             proj-sgd, bw-gd, adam and sgd); stl:L (sticking the landing, for all rules except prox-sgd). \
             For elbo with bernoulli-logit there is piecewise:PIECES (a piecewise quadratic bound with \
             PIECES pieces).",
        ),
    Entry::new("kernel", Kind::Text(any))
        .value("EXPRESSION")
        .help(
            "Kernel, for example 'matern52(ard)' or 'rbf[0] + periodic[0] * rbf[0]' (gp) [default: chosen \
             on held-out rows; rbf(ard) with ⟨auto none⟩]",
        )
        .effect(Effect::Sparse)
        .everyday()
        .excludes(&["from"]),
    Entry::new("warp_inputs", Kind::Words(InputWarp::WORDS))
        .help(
            "Transformation of the inputs before standardisation: none, or normal-scores, which gives \
             every column with more than ten distinct values a normal distribution (gp) [default: chosen \
             on held-out rows; none with ⟨kernel⟩ or ⟨auto none⟩]",
        )
        .effect(Effect::Sparse),
    Entry::new("warp_target", Kind::Words(TargetWarp::WORDS))
        .help(
            "Transformation of a positive target before standardisation (gp, gaussian) [default: chosen on \
             held-out rows; none with ⟨auto none⟩]",
        )
        .more(
            "With log, the model is of log y. With softplus, the model is of z, where y = s log(1 + e^z) \
             and s is the median of y. For y well below s, z is close to log(y/s); for y well above s, z \
             is nearly linear in y. Predictions are in the units of y.",
        )
        .effect(Effect::Sparse),
    Entry::new("mean", Kind::Words(MeanKind::WORDS))
        .help(
            "Prior mean of the latent function: zero, a constant (gp trains it; glm gives it a wide prior), or \
             boosted trees [default: chosen on held-out rows; constant with ⟨auto none⟩]",
        )
        .more(
            "With trees, every training row has a prediction from trees that did not see it, as a further \
             input. Trees find jumps and values that are looked up, which a Gaussian process smooths.",
        )
        .excludes(&["from"]),
    Entry::new("prior_mean", Kind::Number)
        .value("MEAN")
        .help(
            "Prior mean of every coefficient on standardised columns, except the intercept (glm) [default: \
             0]",
        )
        .effect(Effect::Linear)
        .excludes(&["from"]),
    Entry::new("prior_variance", Kind::Number)
        .value("VARIANCE")
        .help(
            "Prior variance of every coefficient on standardised columns, except the intercept (glm) \
             [default: 1, or trained if there are more columns than rows]",
        )
        .effect(Effect::Linear)
        .excludes(&["from"]),
    Entry::new("inducing", Kind::WholeOr(&["auto"]))
        .value("M|auto")
        .help("Number of inducing inputs (gp), or auto [default: by the number of rows]")
        .more(
            "auto repeatedly increases the number by half. With Gaussian noise and at most 16384 rows it \
             stops when the bounds on the log evidence are close and the lower bound stops rising. \
             Otherwise it stops when predictions of held-out rows stop improving. The default for n \
             training rows is the larger of n/10 and 5√n, but at least 50 and at most 500 (300 if the \
             noise is not Gaussian). Up to 1000 rows with Gaussian noise are all inducing inputs, which \
             makes an exact GP. With neighbours the default is n/10, but at least 50 and at most 100.",
        )
        .effect(Effect::Sparse)
        .everyday()
        .excludes(&["from"]),
    Entry::new("inducing_tolerance", Kind::Number)
        .value("NATS")
        .help(
            "With ⟨inducing auto⟩, stop when twice as many inducing inputs gain at most NATS nats per row \
             and the bounds on the log evidence, if they are used, differ by at most NATS nats per row \
             [default: 0.01]",
        )
        .place("growth")
        .needs("inducing"),
    Entry::new("max_inducing", Kind::Whole)
        .value("M")
        .help(
            "With ⟨inducing auto⟩, the maximum number of inducing inputs [default: half the training rows, \
             at most 2000]",
        )
        .place("growth")
        .needs("inducing"),
    Entry::new("inducing_init", Kind::Words(InducingInit::WORDS))
        .help("Method that chooses the inducing inputs (gp) [default: kmeans]")
        .effect(Effect::Sparse)
        .excludes(&["from"]),
    Entry::new("fix_inducing", Kind::Flag)
        .help("Do not move the inducing inputs during training (gp)")
        .effect(Effect::Sparse),
    Entry::new("neighbours", Kind::WholeOr(&["auto", "none"]))
        .value("K|none|auto")
        .help(
            "Number of nearest training rows that each prediction uses in addition to the inducing inputs \
             (gp) [default: auto; none with ⟨auto none⟩]",
        )
        .more(
            "Local variation is left to the neighbours, so a model without inducing inputs (⟨inducing 0⟩) \
             is possible. The model keeps the training rows. auto chooses none, 20, 50 or 100 on held-out \
             rows.",
        )
        .effect(Effect::Sparse)
        .everyday(),
    Entry::new("keep_rows", Kind::Whole)
        .value("ROWS")
        .help("With ⟨neighbours⟩, the maximum number of training rows that the model keeps [default: all]")
        .needs("neighbours"),
    Entry::new("keep_single", Kind::Flag)
        .help(
            "With ⟨neighbours⟩, keep the training rows in single precision, which halves the size of the \
             model",
        )
        .needs("neighbours"),
    Entry::new("jitter", Kind::NumberOr(parses::<Jitter>))
        .value("VALUE")
        .help(
            "Number added to the diagonal of the kernel matrix of the inducing inputs, relative to the \
             mean diagonal; abs:VALUE is absolute (gp) [default: 1e-6; 1e-14 for an exact GP]",
        )
        .effect(Effect::Sparse)
        .excludes(&["from"]),
    Entry::new("auto", Kind::List(parses::<Open>))
        .value("PARTS")
        .default("all")
        .help(
            "Settings to choose automatically by comparing short fits on held-out training rows: all, \
             none, or names separated by commas",
        )
        .more(
            "The names are mean, likelihood, warp-inputs, warp-target, kernel, neighbours, objective, \
             inducing and hyper-posterior. A setting given by its own option is never changed. The fit prints its choices as \
             options that repeat the fit.",
        )
        .everyday()
        .not_compared()
        .excludes(&["from"]),
];

const OBJECTIVE: &[Entry] = &[
    Entry::new("objective", Kind::Words(ObjectiveKind::WORDS))
        .help("Objective to minimise [default: elbo; with neighbours dlm-log if held-out rows prefer it]")
        .more(
            "elbo: the negative ELBO, whose KL term has the weight ⟨beta⟩. dlm-log: the log loss of \
             predictions. These two can train on mini-batches. dlm-square: the squared error of \
             predictions. vfe: the negative collapsed ELBO. fitc: FITC's negative log evidence. These \
             three use all rows at once and need Gaussian noise.",
        )
        .everyday()
        .not_compared(),
    Entry::new("hyper", Kind::Words(Hyper::WORDS))
        .help("Method that tunes hyper-parameters and inducing inputs")
        .more(
            "joint: together with q, by steps on mini-batches. dual: like joint, but q is stored relative \
             to the prior, so q changes with the prior (elbo). alternating: on all rows, with q optimised \
             by natural gradients at every step. collapsed: on all rows, with the optimal q in closed form \
             (Gaussian noise, ⟨neighbours⟩ or ⟨group⟩). fixed: not tuned. The default is collapsed with \
             ⟨neighbours⟩, with ⟨group⟩, and for vfe, fitc and dlm-square. It is also collapsed for elbo \
             with Gaussian noise, unless a gp has more than 100000 rows or an option about mini-batches is \
             given. Any other elbo fit of a gp with ⟨q_update ngd⟩, ⟨family full⟩, ⟨q_average none⟩ and an \
             estimator without samples has the default alternating if n·M² is small and no option about \
             mini-batches is given, and otherwise dual. In all other cases the default is joint.",
        )
        .not_compared(),
    Entry::new("hyper_optimizer", Kind::Words(HyperOptimizer::WORDS))
        .help(
            "Optimiser of hyper-parameters and inducing inputs; lbfgs with joint also moves q, on all rows [default: lbfgs for \
             alternating and collapsed, and for dlm-log if n·M² is small; otherwise adam]",
        )
        .not_compared(),
    Entry::new("beta", Kind::Number)
        .default("1")
        .help("Weight of the KL term (not for fitc)")
        .not_compared()
        .excludes(&["betas"]),
];

const HYPER_PARAMETERS: &[Entry] = &[
    Entry::new("hyper_posterior", Kind::Words(HyperPosteriorKind::WORDS))
        .help(
            "Posterior of the hyper-parameters: none keeps single values, laplace averages predictions over it, auto does so \
             for few rows if intervals change [default: auto; none with ⟨auto none⟩]",
        )
        .more(
            "laplace: a Gaussian at the hyper-parameters of the fit, with up to 27 points along the directions that change \
             predictions most. It needs an ELBO or FITC's evidence of a gp with all rows in memory, without neighbours and \
             grouped effects; other fits keep single values. auto: for at most 2000 rows without validation rows and 50 \
             hyper-parameters, and n·M² up to 4e7 without a closed form, if the widths of predictive intervals change by more than 2 %.",
        )
        .effect(Effect::Sparse),
    Entry::new("start", Kind::Texts(parses::<StartFor>))
        .value("NAME=VALUE")
        .help("Starting value of hyper-parameters, for example 'kernel.lengthscales[hour]=2'")
        .place("constraints")
        .excludes(&["from"]),
    Entry::new("fix", Kind::Texts(parses::<FixFor>))
        .value("NAME[=VALUE]")
        .help(
            "Fix hyper-parameters at a value, for example likelihood.noise_variance=0.01; without =VALUE, \
             at their starting values",
        )
        .place("constraints"),
    Entry::new("bounds", Kind::Texts(parses::<BoundsFor>))
        .value("NAME=LO,HI")
        .help(
            "Keep hyper-parameters between two values; either bound may be left out, as in \
             '*.lengthscales=0.1,'",
        )
        .place("constraints"),
    Entry::new("prior", Kind::Texts(parses::<PriorFor>))
        .value("NAME=DIST")
        .help(
            "Prior of hyper-parameters: lognormal(mu,sigma), gamma(shape,rate), normal(mean,sd), \
             halfcauchy(scale), or none. Training adds the negative log density of the prior to the \
             objective",
        )
        .place("constraints"),
    Entry::new("tie", Kind::Texts(parses::<Tie>))
        .value("NAME,NAME")
        .help("Keep hyper-parameters equal, for example kernel.rbf.lengthscales,kernel.matern52.lengthscales")
        .place("constraints"),
    Entry::new("default_priors", Kind::OnOff)
        .value("ON|OFF")
        .help(
            "Weak prior on each lengthscale that has no other constraint (gp on standardised columns) \
             [default: on]",
        )
        .effect(Effect::Sparse),
];

const TRAINING: &[Entry] = &[
    Entry::new("family", Kind::Words(Family::WORDS))
        .help(
            "Form of the covariance matrix of q (elbo, dlm-log): full, or diagonal (mean field) [default: \
             full]",
        )
        .effect(Effect::Steps),
    Entry::new("q_update", Kind::Words(QUpdate::WORDS))
        .help("Rule that updates q on mini-batches (elbo, dlm-log) [default: ngd]")
        .effect(Effect::Steps),
    Entry::new("q_guard", Kind::Words(Guard::WORDS))
        .help(
            "Guard that keeps the covariance of q positive definite in steps of ngd and sr-vn [default: \
             trust]",
        )
        .more(
            "trust: with dlm-log, and with reparameterised samples, no variance of q grows by more than a \
             factor of 2 or falls by more than a third in a step; in all other fits the same as backtrack. \
             backtrack: the step is halved until the covariance is positive definite. retraction: a \
             second-order term is added to the step. projection: the eigenvalues of the new precision are \
             clipped to [1e-4, 1e8]. none: steps are unchanged (only sr-vn).",
        )
        .effect(Effect::Steps),
    Entry::new("q_step", Kind::Text(parses::<Schedule>))
        .value("SCHEDULE")
        .help("Schedule of the step size of ⟨q_update⟩ at iterations t = 0, 1, … [default: by the rule]")
        .more(
            "const:STEP, warm-up:START:END:STEPS, two-over-t (2/(t+2)), half-t:W (1/(W(t/2+1))), domke:W:A \
             (min{W/(2A), (2t+1)/(W(t+1)²)}), invsqrt:S (S/√(t+1)) or inverse:C (1/(C+t)). Steps of ngd \
             and projected-ngvi are mixing weights, so they are at most 1.",
        )
        .effect(Effect::Steps),
    Entry::new("q_average", Kind::Words(Average::WORDS))
        .help(
            "The q that the fit returns (elbo, dlm-log): none (the last iterate), expectation (an average \
             of expectation parameters with growing weights) or tail (an average over at least the later \
             half of the iterates) [default: none]",
        )
        .effect(Effect::Steps),
    Entry::new("q_bounds", Kind::Range)
        .value("LO,HI")
        .help(
            "Smallest and largest eigenvalue that projected-ngvi allows for the covariance of q; the \
             eigenvalues of the prior's covariance are 1 [default: 1e-4,1e4]",
        )
        .effect(Effect::Steps),
    Entry::new("q_nonnegative", Kind::Flag)
        .help(
            "Keep the means of all coefficients non-negative (glm with ⟨family diagonal⟩ and ⟨q_update \
             projected-ngvi⟩)",
        )
        .effect(Effect::LinearSteps),
    Entry::new("q_smoothness", Kind::Number)
        .value("SMOOTHNESS")
        .help(
            "Largest curvature of the negative log joint density; steps of prox-sgd, proj-sgd, bw-gd and \
             sgd are proportional to its inverse [default: the largest curvature found so far]",
        )
        .effect(Effect::Steps),
    Entry::new("polish", Kind::Switch)
        .help("Skip the final steps on q, which use all rows (elbo, dlm-log)")
        .effect(Effect::Steps),
    Entry::new("warm_start", Kind::Whole)
        .value("ITERATIONS")
        .help(
            "Number of L-BFGS iterations before training, on the collapsed bound of at most 10240 rows \
             (elbo, dlm-log, dlm-square; gp); 0 for none [default: 100]",
        )
        .effect(Effect::Sparse)
        .excludes(&["from"]),
    Entry::new("learning_rate", Kind::Number)
        .value("RATE")
        .help("Learning rate of Adam [default: 0.01]")
        .effect(Effect::Steps),
    Entry::new("batch_size", Kind::Whole)
        .value("ROWS")
        .help("Number of rows per mini-batch (elbo, dlm-log) [default: 1024]")
        .effect(Effect::Steps),
    Entry::new("batch_schedule", Kind::Text(parses::<SizeSchedule>))
        .value("SCHEDULE")
        .help(
            "Schedule of the number of rows per mini-batch at iterations t = 0, 1, …: const:N, power:K \
             ((t+1)^K) or max:N:K (the larger of N and (t+1)^K); never more than all rows",
        )
        .effect(Effect::Steps)
        .excludes(&["batch_size"]),
    Entry::new("sample_schedule", Kind::Text(parses::<SizeSchedule>))
        .value("SCHEDULE")
        .help(
            "Schedule of the number of samples at iterations t = 0, 1, …: const:N, power:K, max:N:K, or \
             bias:M:ROWS:DELTA for bmc (M/2 (t+1)² log(π² ROWS (t+1)²/DELTA), Wei, Sheth & Khardon 2021, \
             eq. 9) [default: the L of ⟨estimator⟩]",
        )
        .effect(Effect::Steps),
    Entry::new("epochs", Kind::Whole)
        .help("Maximum number of passes over the data, or of L-BFGS iterations [default: by the objective]")
        .more(
            "With mini-batches the default is 100 passes (50 for elbo with ⟨hyper dual⟩), or as many \
             passes as 200 steps make up, if that is more. With neighbours the default is 50, or fewer for \
             many rows: as many passes as 1000 steps make up, but at least 4. Without mini-batches and \
             neighbours the default is 200 iterations (500 for dlm-square).",
        ),
    Entry::new("max_steps", Kind::Whole)
        .value("STEPS")
        .help("Maximum number of mini-batch steps (elbo, dlm-log)")
        .effect(Effect::Steps),
    Entry::new("max_seconds", Kind::Number)
        .value("SECONDS")
        .help("Stop training after this many seconds")
        .more(
            "The default number of inducing inputs for n training rows is then at most 45,000 times the \
             root of SECONDS/n, so that the last pass over all rows takes less than half of the time.",
        )
        .everyday(),
    Entry::new("tolerance", Kind::Number)
        .value("NATS")
        .help(
            "Stop when the objective, averaged over several epochs, falls by less than NATS per row and \
             epoch; 0 turns this off [default: by the objective]",
        )
        .more(
            "The default is 2e-5 for bounds with a closed form of q, 1e-5 for most other fits, 1e-7 for dlm-square, 1e-3 for classes with ⟨hyper \
             alternating⟩, 1e-10 for glm with ⟨group⟩, and 0 for estimators that sample f.",
        ),
    Entry::new("stop_at", Kind::Number).value("NATS").help(
        "Stop when the validation NLL is at most NATS; without validation rows, when the objective per \
         row is at most NATS",
    ),
    Entry::new("stop_range", Kind::Text(parses::<StopRange>)).value("EPOCHS:NATS").help(
        "Stop when the objective per row has varied by at most NATS for EPOCHS epochs (Wei, Sheth & \
         Khardon 2021: 50:1e-4 for regression, 20:1e-4 for classes and counts). ⟨tolerance⟩ is then 0, \
         unless it is given [default: off]",
    ),
    Entry::new("patience", Kind::Whole)
        .value("EPOCHS")
        .help("Stop after this many epochs without a better validation score [default: 20]")
        .needs("validation_fraction"),
    Entry::new("seed", Kind::Whole)
        .default("0")
        .help("Random seed of splits, batches and starting points")
        .everyday(),
    Entry::new("restarts", Kind::Whole)
        .value("K")
        .default("1")
        .help(
            "Number of random starts of inducing inputs and hyper-parameters. After each round of short \
             fits the worse half is dropped; the remaining start is fitted to the end",
        )
        .not_compared()
        .excludes(&["from"]),
];

const HELD_OUT: &[Entry] = &[Entry::new("validation_fraction", Kind::Number)
    .value("SHARE")
    .help(
        "Share of the rows to hold out for validation. Validation rows decide when to stop, which \
         parameters to keep and, with ⟨betas⟩, which β to use [default: 0; 0.2 with ⟨betas⟩]",
    )
    .not_compared()];
