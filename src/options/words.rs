//! The words of options; no settings.

use crate::words::word_option;

word_option! {
    /// An objective: a loss, and for some objectives the closed-form solution for q.
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
    pub fn loss(self) -> LossKind {
        match self {
            ObjectiveKind::Elbo | ObjectiveKind::Vfe => LossKind::Elbo,
            ObjectiveKind::DlmLog => LossKind::Log,
            ObjectiveKind::DlmSquare => LossKind::Square,
            ObjectiveKind::Fitc => LossKind::Fitc,
        }
    }

    /// Returns true if q is solved for in closed form on all rows.
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
        /// Together with q, from one gradient.
        Joint = "joint",
        /// On all rows, with q optimised by natural gradients at every step.
        Alternating = "alternating",
        /// Together with q, which is kept as sites, so that it moves with the prior (Adam, Chang, Khan & Solin 2021).
        Dual = "dual",
        /// With the exact optimum of q in closed form (Gaussian noise).
        Collapsed = "collapsed",
        /// Not at all.
        Fixed = "fixed",
    }
}

word_option! {
    /// The solver for hyper-parameters.
    #[non_exhaustive]
    HyperOptimizer, "hyper-parameter optimizer" {
        /// Adam, for mini-batches too.
        Adam = "adam",
        /// L-BFGS, if q is solved for.
        Lbfgs = "lbfgs",
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
    }
}
