//! The options with a fixed set of named values, as enums.

use crate::words::word_option;

word_option! {
    /// The objective of a fit: a loss and, for some objectives, the method that computes q.
    #[non_exhaustive]
    ObjectiveKind, "objective" {
        /// The (β-)ELBO.
        Elbo = "elbo",
        /// Direct loss minimisation for the predictive log loss.
        DlmLog = "dlm-log",
        /// Direct loss minimisation for the squared error, in closed form on the full batch (Gaussian noise only).
        DlmSquare = "dlm-square",
        /// The collapsed (β-)ELBO on the full batch (Titsias 2009).
        Vfe = "vfe",
        /// FITC's evidence on the full batch (Snelson & Ghahramani 2006).
        Fitc = "fitc",
    }
}

/// The loss that a posterior is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[doc(hidden)]
pub enum LossKind {
    /// The negative (β-)ELBO.
    Elbo,
    /// The predictive log loss.
    Log,
    /// The squared error of the predictive mean, which leaves the variance of predictions undefined.
    Square,
    /// The negative log evidence of FITC's model.
    Fitc,
}

impl ObjectiveKind {
    /// Returns the loss.
    #[doc(hidden)]
    pub fn loss(self) -> LossKind {
        match self {
            ObjectiveKind::Elbo | ObjectiveKind::Vfe => LossKind::Elbo,
            ObjectiveKind::DlmLog => LossKind::Log,
            ObjectiveKind::DlmSquare => LossKind::Square,
            ObjectiveKind::Fitc => LossKind::Fitc,
        }
    }

    /// Returns true if q is solved for in closed form on all rows.
    #[doc(hidden)]
    pub fn is_closed(self) -> bool {
        !matches!(self, ObjectiveKind::Elbo | ObjectiveKind::DlmLog)
    }
}

word_option! {
    /// The kind of model.
    ModelKind, "model" {
        /// A sparse Gaussian process.
        Gp = "gp",
        /// A Bayesian linear model on the features.
        Glm = "glm",
    }
}

word_option! {
    /// The mode of tuning hyper-parameters and inducing inputs.
    #[non_exhaustive]
    Hyper, "hyper-parameter mode" {
        /// Together with q, by gradient steps on mini-batches.
        Joint = "joint",
        /// On all rows, with q optimised by natural gradients at every step.
        Alternating = "alternating",
        /// Together with q, which is stored as sites, so that q changes with the prior (Adam, Chang, Khan & Solin 2021).
        Dual = "dual",
        /// On all rows, with the optimal q in closed form.
        Collapsed = "collapsed",
        /// Hyper-parameters and inducing inputs are not tuned.
        Fixed = "fixed",
    }
}

word_option! {
    /// The solver for hyper-parameters.
    #[non_exhaustive]
    HyperOptimizer, "hyper-parameter optimizer" {
        /// Adam, with or without mini-batches.
        Adam = "adam",
        /// L-BFGS, for modes that solve for q at every step.
        Lbfgs = "lbfgs",
    }
}

word_option! {
    /// The posterior of the hyper-parameters.
    HyperPosteriorKind, "posterior of the hyper-parameters" {
        /// Single values.
        None = "none",
        /// Laplace's approximation, for few rows and if it changes the widths of intervals.
        Auto = "auto",
        /// Laplace's approximation.
        Laplace = "laplace",
    }
}

word_option! {
    /// The prior mean of f.
    #[non_exhaustive]
    MeanKind, "mean function" {
        /// A trained constant.
        Constant = "constant",
        /// Zero (on the standardised target).
        Zero = "zero",
        /// A trained constant, with predictions of boosted trees as further inputs: the mean of the trees.
        Trees = "trees",
    }
}
