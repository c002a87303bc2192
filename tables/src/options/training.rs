//! The options about training: the steps on q, limits and random starts.

use super::{Effect, Entry, Kind, parses};
use sparsegp::data::SizeSchedule;
use sparsegp::hyper::StopRange;
use sparsegp::variational::{Average, Family, Guard, QUpdate, Schedule};

pub(super) const OPTIONS: &[Entry] = &[
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
            "The default is 1e-5 for most fits, 1e-7 for dlm-square, 1e-3 for classes with ⟨hyper \
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
