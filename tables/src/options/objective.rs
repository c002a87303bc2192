//! The options about the objective and the tuning of hyper-parameters.

use super::{Entry, Kind};
use sparsegp::options::{Hyper, HyperOptimizer, ObjectiveKind};

pub(super) const OPTIONS: &[Entry] = &[
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
