//! The options about the model: kind, likelihood, kernel, inducing inputs, neighbours.

use super::{Effect, Entry, Kind, any, parses};
use sparsegp::data::{InputWarp, TargetWarp};
use sparsegp::latent::{InducingInit, Jitter};
use sparsegp::likelihood::{LikelihoodKind, Task};
use sparsegp::objective::Estimator;
use sparsegp::options::Open;
use sparsegp::options::{MeanKind, ModelKind};

pub(super) const OPTIONS: &[Entry] = &[
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
             softmax for more classes, poisson for counts and ordinal for ordered levels.",
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
        .default("constant")
        .help(
            "Prior mean of the latent function on the standardised scale: zero, or a constant (gp trains \
             it; glm gives it a wide prior)",
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
            "The names are likelihood, warp-inputs, warp-target, kernel, neighbours, objective and \
             inducing. A setting given by its own option is never changed. The fit prints its choices as \
             options that repeat the fit.",
        )
        .everyday()
        .not_compared()
        .excludes(&["from"]),
];
