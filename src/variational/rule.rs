//! The update rules by name, and what each can be told; no formulae.

use super::projected_natural::{clip, usable};
use super::{
    AdamRule, DiagonalRule, Family, Guard, NaturalGradient, Normal, Projected, ProjectedNatural, Proximal,
    SquareRoot, UpdateRule, Wasserstein,
};
use super::{Matrix, clip_eigenvalues};
use crate::words::words;

words! {
    /// How q(w) is updated.
    QUpdate, "q update" {
        /// Natural gradients (= variational Newton).
        Ngd = "ngd",
        /// Natural gradients on the Cholesky factor (Kumar, Möllenhoff, Khan & Lucchi 2025).
        SrVn = "sr-vn",
        /// Adam on the mean and the Cholesky factor.
        Adam = "adam",
        /// Proximal gradients in the Cholesky factor (Domke, Gower & Garrigos 2023).
        ProxSgd = "prox-sgd",
        /// Projected gradients in a symmetric factor (Domke, Gower & Garrigos 2023).
        ProjSgd = "proj-sgd",
        /// Natural gradients with projection on bounded covariances (Guilmeau, Hendrikx & Forbes 2026).
        ProjectedNgvi = "projected-ngvi",
        /// Bures–Wasserstein gradients (Lambert et al. 2022).
        BwGd = "bw-gd",
    }
}

/// What a rule takes, which decides about the options that go with it.
impl QUpdate {
    /// Whether its steps are mixing weights, at most 1.
    pub fn mixes(self) -> bool {
        matches!(self, QUpdate::Ngd | QUpdate::ProjectedNgvi)
    }

    /// Whether it takes the entropy's part of a reparameterised gradient, instead of having that part without a gradient.
    pub fn entropy_gradient(self) -> bool {
        matches!(self, QUpdate::Adam | QUpdate::ProjSgd | QUpdate::BwGd)
    }

    /// Whether gradients may stick the landing; a proximal step has the whole entropy itself.
    pub fn sticks_the_landing(self) -> bool {
        self != QUpdate::ProxSgd
    }

    /// Whether a guard can keep its steps positive definite.
    pub fn takes_guard(self) -> bool {
        self == QUpdate::Ngd
    }

    /// Whether it projects q to bounds.
    pub fn projects(self) -> bool {
        self == QUpdate::ProjectedNgvi
    }

    /// Whether it uses the smoothness of the negative log joint.
    pub fn takes_smoothness(self) -> bool {
        matches!(self, QUpdate::ProxSgd | QUpdate::ProjSgd | QUpdate::BwGd)
    }
}

/// Everything that a rule can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleOptions {
    /// Which rule.
    pub update: QUpdate,
    /// What keeps natural-gradient steps positive definite (ngd).
    pub guard: Guard,
    /// The range of the eigenvalues of S (projected-ngvi), the prior's being 1.
    pub bounds: (f64, f64),
    /// The least values of the coordinates of m (projected-ngvi on diagonal covariances); empty for none.
    pub lower: Vec<f64>,
    /// The smoothness 𝓜 of the negative log joint (proj-sgd and relative steps); the largest curvature met so far when absent.
    /// For diagonal covariances that is the largest diagonal entry, too small for steps in m where features are correlated.
    pub smoothness: Option<f64>,
    /// Whether the steps of gradient rules (bw-gd, prox-sgd, proj-sgd) are in units of 1/𝓜.
    pub relative: bool,
}

impl RuleOptions {
    /// The defaults of a rule.
    pub fn of(update: QUpdate) -> Self {
        RuleOptions {
            update,
            guard: Guard::Trust,
            bounds: (1e-4, 1e4),
            lower: Vec::new(),
            smoothness: None,
            relative: false,
        }
    }

    /// The posterior nearest to `q` that satisfies the constraints of the rule (projected-ngvi), or `q` itself.
    pub fn admit(&self, q: Normal) -> Normal {
        if !self.update.projects() {
            return q;
        }
        let (low, high) = usable(self.bounds);
        let admitted = match &q.cov {
            Matrix::Full(cov) => clip_eigenvalues(cov.as_ref(), low, high)
                .and_then(|cov| Normal::new(q.mean.clone(), cov).ok()),
            Matrix::Diagonal(variances) => {
                let bounded = q.mean.iter().enumerate();
                let mean = bounded.map(|(j, m)| self.lower.get(j).map_or(*m, |least| m.max(*least)));
                let variances = variances.iter().map(|s| clip(*s, (low, high)));
                Normal::diagonal(mean.collect(), variances.collect()).ok()
            }
        };
        admitted.unwrap_or(q)
    }

    /// The rule, for posteriors like `q`.
    pub fn build(&self, q: &Normal) -> Box<dyn UpdateRule> {
        if q.family() == Family::Diagonal {
            return Box::new(DiagonalRule::new(q, self));
        }
        match self.update {
            QUpdate::Ngd => Box::new(NaturalGradient::new(q).with_guard(self.guard)),
            QUpdate::SrVn => Box::new(SquareRoot::new(q)),
            QUpdate::Adam => Box::new(AdamRule::new(q)),
            QUpdate::ProxSgd => Box::new(Proximal::new(q, self)),
            QUpdate::ProjSgd => Box::new(Projected::new(q, self)),
            QUpdate::ProjectedNgvi => Box::new(ProjectedNatural::new(q, self)),
            QUpdate::BwGd => Box::new(Wasserstein::new(q, self)),
        }
    }
}
