//! The words that options are chosen by; no settings.

use crate::words::word_option;

word_option! {
    /// What is asked for by one word: a loss, and for some whether q is solved for in closed form.
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
    /// The loss it stands for.
    pub fn loss(self) -> LossKind {
        match self {
            ObjectiveKind::Elbo | ObjectiveKind::Vfe => LossKind::Elbo,
            ObjectiveKind::DlmLog => LossKind::Log,
            ObjectiveKind::DlmSquare => LossKind::Square,
            ObjectiveKind::Fitc => LossKind::Fitc,
        }
    }

    /// Whether it says that q is solved for in closed form on all rows.
    pub fn is_closed(self) -> bool {
        !matches!(self, ObjectiveKind::Elbo | ObjectiveKind::DlmLog)
    }
}

word_option! {
    /// What f is.
    ModelKind, "model" {
        /// A sparse Gaussian process.
        Gp = "gp",
        /// A Bayesian linear model on the features.
        Glm = "glm",
    }
}

word_option! {
    /// How hyper-parameters and inducing inputs are tuned.
    #[non_exhaustive]
    Hyper, "hyper-parameter mode" {
        /// Together with q, from one gradient.
        Joint = "joint",
        /// On all data, with q solved for by natural gradients at every step.
        Alternating = "alternating",
        /// Together with q, which is kept as sites, so that it moves with the prior (Adam, Chang, Khan & Solin 2021).
        Dual = "dual",
        /// With q solved exactly inside (Gaussian noise).
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
        /// L-BFGS, where q is solved for.
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
