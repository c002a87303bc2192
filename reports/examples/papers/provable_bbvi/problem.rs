//! A linear or logistic model whose optimal q is known, and the distances of runs of a rule from
//! this q.

use crate::SMOOTHNESS;
use crate::data::Data;
use faer::Mat;
use sparsegp::likelihood::{Likelihood, LikelihoodKind, Observation};
use sparsegp::linalg::{Factorizer, clear_upper, solve_factored, symmetric_eigen};
use sparsegp::model::LatentModel;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::training::{Inference, InferenceOptions, VariationalModel};
use sparsegp::variational::{Family, Normal, QUpdate, RuleOptions, Schedule};
use sparsegp::{Error, Result};
use sparsegp_research::{Curvature, NoiseConstants, Theorem, with_proven_steps};

/// The prior is N(0, I), the noise of the linear model has variance 1.
pub struct Problem {
    pub data: Data,
    pub curvature: Curvature,
    pub optimum: Normal,
    /// The mode of the joint.
    pub mode: Vec<f64>,
    likelihood: Box<dyn Likelihood>,
}

impl Problem {
    /// Creates a problem whose inputs are scaled so that 𝓜 is `smoothness`.
    pub fn new(mut data: Data, kind: LikelihoodKind, smoothness: f64) -> Result<Problem> {
        let d = data.x.nrows();
        let prior = Mat::<f64>::identity(d, d);
        let curvature = |x: &Mat<f64>| match kind {
            LikelihoodKind::Gaussian => Curvature::linear(x.transpose(), prior.as_ref(), 1.0),
            _ => Curvature::logistic(x.transpose(), prior.as_ref()),
        };
        let scale = ((smoothness - 1.0) / (curvature(&data.x)?.smoothness - 1.0)).sqrt();
        data.x *= faer::Scale(scale);
        let (curvature, optimum) = (curvature(&data.x)?, Normal::standard(Family::Full, d));
        let mut problem = Problem { data, curvature, optimum, mode: vec![0.0; d], likelihood: kind.build(2) };
        problem.find_mode()?;
        // For the linear model the first exact step is the closed form.
        problem.optimum = problem.data.optimum(problem.model()?, 1.0)?.0;
        Ok(problem)
    }

    fn model(&self) -> Result<LatentModel> {
        self.data.model(self.likelihood.clone(), 1.0)
    }

    fn prior(&self) -> Normal {
        Normal::standard(Family::Full, self.data.x.nrows())
    }

    /// Takes steps with a proof from q = prior; returns q and the bound on its squared distance from the optimum.
    pub fn proven(&self, method: &Method, steps: usize) -> Result<(Normal, f64)> {
        let objective = Objective { loss: Loss::ExpectedLog(method.estimator), ..Objective::elbo(1.0) };
        let svgp = VariationalModel::new(self.model()?, self.prior(), objective, self.data.y.len());
        let options = InferenceOptions::full_batch(method.update, Schedule::Constant(1.0));
        let (options, proven) = with_proven_steps(options, &svgp, self.data.set(), method.theorem)?;
        let mut inference = self.data.infer(self.model()?, method.estimator, options);
        (0..steps).for_each(|_| _ = inference.step());
        Ok((inference.q().clone(), proven.bound.at(steps)))
    }

    /// Finds the mode by Newton's method on the negative log joint.
    fn find_mode(&mut self) -> Result<()> {
        let (x, d) = (&self.data.x, self.mode.len());
        for _ in 0..50 {
            let mut gradient = self.mode.clone();
            let mut hessian = Mat::<f64>::identity(d, d);
            for (x, y) in x.col_iter().zip(&self.data.y) {
                let (at, f) = (Observation::of(*y), x.iter().zip(&self.mode).map(|(x, w)| x * w).sum());
                let (mut value, mut slope, mut curvature) = ([0.0], [0.0], [0.0]);
                self.likelihood.log_density(at, &[f], &mut value, &mut slope);
                gradient.iter_mut().zip(x.iter()).for_each(|(g, x)| *g -= x * slope[0]);
                self.likelihood.curvature(at, &[f], &mut curvature);
                hessian -= faer::Scale(curvature[0]) * x * x.transpose();
            }
            Factorizer::new(d).cholesky(hessian.as_mut()).map_err(|_| Error::fit("no mode"))?;
            solve_factored(hessian.as_ref(), &mut gradient);
            self.mode.iter_mut().zip(&gradient).for_each(|(w, step)| *w -= step);
        }
        Ok(())
    }

    /// Starts a run of a method from the prior.
    pub fn start(&self, method: &Method, step: Schedule, seed: u64) -> Result<Inference<'_>> {
        let options = InferenceOptions { seed, ..InferenceOptions::full_batch(method.rule(), step) };
        // The quadrature is only for values, which are not read here.
        let loss = Loss::ExpectedLog(method.estimator);
        let objective = Objective { loss, nodes: Some(2), ..Objective::elbo(1.0) };
        Ok(Inference::new(self.model()?, self.prior(), objective, self.data.set(), options))
    }

    /// Returns the exact objective at some (m, C).
    pub fn objective(&self, (mean, c): &Parameters) -> Result<f64> {
        let options = InferenceOptions::full_batch(QUpdate::Ngd, Schedule::Constant(1.0));
        let q = Normal::new(mean.clone(), c * c.transpose())?;
        Ok(self.data.infer_from(q, self.model()?, Estimator::Exact, options).objective())
    }

    /// Returns the constants (a, b) of the gradient noise of a method, and the squared gradient at the
    /// optimum that its bounds contain.
    pub fn constants(&self, method: &Method) -> Result<Constants> {
        let (d, curvature) = (self.optimum.dim(), self.curvature);
        let best = method.parameters(&self.optimum)?;
        let from_mode = squared(&best, &(self.mode.clone(), Mat::zeros(d, d)));
        let start = squared(&method.parameters(&self.prior())?, &best);
        let (noise, gradient) = if method.lower() {
            let entropy = (0..d).map(|i| best.1[(i, i)].powi(-2)).sum();
            (curvature.noise_of_energy(d, from_mode), Some(entropy))
        } else {
            (curvature.noise_of_energy_entropy(d, from_mode, 1.0), None)
        };
        Ok(Constants { best, start, noise, gradient })
    }
}

/// A method with its gradient.
pub struct Method {
    pub name: &'static str,
    /// The decreasing steps of its theorem.
    pub steps: &'static str,
    pub theorem: Theorem,
    pub update: QUpdate,
    pub estimator: Estimator,
}

/// The two methods of the theorems.
pub const METHODS: [Method; 2] = [
    Method {
        name: "prox",
        steps: "Theorem 6 with min{ϖ/(2a), (2t + 1)/(ϖ(t + 1)²)}",
        theorem: Theorem::Proximal,
        update: QUpdate::ProxSgd,
        estimator: Estimator::Energy { samples: 1 },
    },
    Method {
        name: "proj",
        steps: "Theorem 9 with min{ϖ/(2a), 2(2t + 1)/(ϖ(t + 1)²)}",
        theorem: Theorem::Projected,
        update: QUpdate::ProjSgd,
        estimator: Estimator::EnergyEntropy { samples: 1 },
    },
];

impl Method {
    /// Returns true if C is lower triangular, and false if it is symmetric.
    pub fn lower(&self) -> bool {
        self.theorem == Theorem::Proximal
    }

    /// Returns m and the factor C of S, lower triangular or symmetric.
    pub fn parameters(&self, q: &Normal) -> Result<Parameters> {
        let mut c = q.cov().to_dense();
        if self.lower() {
            Factorizer::new(q.dim()).cholesky(c.as_mut()).map_err(|_| Error::fit("S has no factor"))?;
            clear_upper(c.as_mut());
        } else {
            let (values, v) = symmetric_eigen(c.as_ref()).ok_or_else(|| Error::fit("S has no root"))?;
            c = Mat::from_fn(q.dim(), q.dim(), |i, j| v[(i, j)] * values[j].sqrt()) * v.transpose();
        }
        Ok((q.mean().to_vec(), c))
    }

    /// Returns the options of the rule, with 𝓜 given and absolute steps.
    fn rule(&self) -> RuleOptions {
        RuleOptions { smoothness: Some(SMOOTHNESS), ..RuleOptions::of(self.update) }
    }
}

/// The constants in the bounds on a method.
pub struct Constants {
    pub best: Parameters,
    /// The squared distance of the start.
    pub start: f64,
    /// The constants a and b of the noise.
    pub noise: NoiseConstants,
    /// The squared gradient, at the optimum, of the part of the objective that is differentiated.
    pub gradient: Option<f64>,
}

/// m and C.
pub type Parameters = (Vec<f64>, Mat<f64>);

/// Returns `‖m − m′‖² + ‖C − C′‖²`.
pub fn squared(a: &Parameters, b: &Parameters) -> f64 {
    (&a.1 - &b.1).squared_norm_l2() + a.0.iter().zip(&b.0).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
}
