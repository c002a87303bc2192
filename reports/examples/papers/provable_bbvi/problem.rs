//! A linear or logistic model whose optimal q is known, and runs of a method on it.

use crate::hierarchical::descend;
use crate::paper::prelude::*;
use sparsegp::likelihood::Likelihood;
use sparsegp::linalg::{solve_factored, solve_lower};
use sparsegp_research::{NoiseConstants, with_proven_steps};

/// A model of coefficients w with prior N(0, P); the noise of a linear model has variance 1. q(w) has the parameters (m, C).
pub struct Problem {
    pub data: Data,
    pub curvature: Curvature,
    pub optimum: Normal,
    pub mode: Vec<f64>,
    prior: Mat<f64>,
    /// The Cholesky factor of P, and P⁻¹.
    root: Mat<f64>,
    precision: Mat<f64>,
    /// True if P = I. The library moves whitened coefficients, which are then w.
    pub standard: bool,
    likelihood: Box<dyn Likelihood>,
}

impl Problem {
    /// Creates a problem with prior N(0, I), whose inputs are scaled so that 𝓜 is `smoothness`.
    pub fn scaled(mut data: Data, kind: LikelihoodKind, smoothness: f64) -> Result<Problem> {
        let prior = Mat::<f64>::identity(data.x.nrows(), data.x.nrows());
        let scale = ((smoothness - 1.0) / (curvature(&data.x, &prior, kind)?.smoothness - 1.0)).sqrt();
        data.x *= Scale(scale);
        Problem::new(data, prior, kind)
    }

    /// Creates a problem from inputs, targets and the prior covariance P.
    pub fn new(data: Data, prior: Mat<f64>, kind: LikelihoodKind) -> Result<Problem> {
        let (d, curvature) = (data.x.nrows(), curvature(&data.x, &prior, kind)?);
        let (mut root, mut inverse) = (prior.clone(), Mat::zeros(d, d));
        let factored = Factorizer::new(d).cholesky_with_inverse(root.as_mut(), inverse.as_mut());
        factored.map_err(|_| Error::fit("the prior covariance is not positive definite"))?;
        let (standard, precision) = (prior == Mat::<f64>::identity(d, d), inverse.transpose() * &inverse);
        let (likelihood, optimum) = (kind.build(2), Normal::standard(Family::Full, d));
        let mode = vec![0.0; d];
        let mut problem =
            Problem { data, curvature, optimum, mode, prior, root, precision, standard, likelihood };
        problem.find_mode()?;
        // For the linear model the first exact step is the closed form.
        let q = problem.data.optimum(problem.model()?, 1.0)?.0;
        let mut mean = vec![0.0; d];
        matvec(problem.root.as_ref(), q.mean(), &mut mean);
        problem.optimum = Normal::new(mean, &problem.root * q.cov().to_dense() * problem.root.transpose())?;
        Ok(problem)
    }

    fn model(&self) -> Result<LatentModel> {
        let layer = LinearLayer::new(self.prior.as_ref())?;
        Ok(LatentModel::new(layer.into(), self.likelihood.clone(), true))
    }

    pub fn prior(&self) -> Result<Normal> {
        Normal::new(vec![0.0; self.mode.len()], self.prior.clone())
    }

    /// Returns the gradient and the Hessian of the negative log joint.
    pub fn derivatives(&self, w: &[f64]) -> (Vec<f64>, Mat<f64>) {
        let (mut gradient, mut hessian) = (vec![0.0; w.len()], self.precision.clone());
        matvec(self.precision.as_ref(), w, &mut gradient);
        for (x, y) in self.data.x.col_iter().zip(&self.data.y) {
            let (at, f) = (Observation::of(*y), x.iter().zip(w).map(|(x, w)| x * w).sum());
            let (mut value, mut slope, mut curvature) = ([0.0], [0.0], [0.0]);
            self.likelihood.log_density(at, &[f], &mut value, &mut slope);
            gradient.iter_mut().zip(x.iter()).for_each(|(g, x)| *g -= x * slope[0]);
            self.likelihood.curvature(at, &[f], &mut curvature);
            hessian -= Scale(curvature[0]) * x * x.transpose();
        }
        (gradient, hessian)
    }

    /// Takes steps with a proof from q = prior; returns q and the bound on its squared distance from the optimum.
    pub fn proven(&self, method: &Method, steps: usize) -> Result<(Normal, f64)> {
        let objective = Objective { loss: Loss::ExpectedLog(method.estimator), ..Objective::elbo(1.0) };
        let svgp = VariationalModel::new(self.model()?, self.prior()?, objective, self.data.y.len());
        let options = InferenceOptions::full_batch(method.update, Schedule::Constant(1.0));
        let (options, proven) = with_proven_steps(options, &svgp, self.data.set(), method.theorem)?;
        let mut inference = self.data.infer(self.model()?, method.estimator, options);
        (0..steps).for_each(|_| _ = inference.step());
        Ok((inference.q().clone(), proven.bound.at(steps)))
    }

    fn find_mode(&mut self) -> Result<()> {
        for _ in 0..50 {
            let (mut step, mut hessian) = self.derivatives(&self.mode);
            Factorizer::new(step.len()).cholesky(hessian.as_mut()).map_err(|_| Error::fit("no mode"))?;
            solve_factored(hessian.as_ref(), &mut step);
            self.mode.iter_mut().zip(&step).for_each(|(w, step)| *w -= step);
        }
        Ok(())
    }

    /// Runs a method from the prior, and returns what `see` makes of the number and the parameters of some iterations. The
    /// parameters are `None` if steps were so long that S has no factor.
    ///
    /// The library takes the steps if its whitened coefficients are w, and [`descend`] does otherwise.
    pub fn walk<T>(
        &self,
        method: &Method,
        (step, seed): (Schedule, u64),
        at: &[usize],
        mut see: impl FnMut(usize, Option<&Parameters>) -> T,
    ) -> Result<Vec<T>> {
        if !self.standard {
            return descend(self, method, (step, seed), at, see);
        }
        let rule =
            RuleOptions { smoothness: Some(self.curvature.smoothness), ..RuleOptions::of(method.update) };
        let options = InferenceOptions { seed, ..InferenceOptions::full_batch(rule, step) };
        // The quadrature is only for values, which are not read here.
        let loss = Loss::ExpectedLog(method.estimator);
        let objective = Objective { loss, nodes: Some(2), ..Objective::elbo(1.0) };
        let mut run = Inference::new(self.model()?, self.prior()?, objective, self.data.set(), options);
        Ok(trace(&mut run, at, |run| see(run.iterations(), method.parameters(run.q()).ok().as_ref())))
    }

    pub fn objective(&self, (mean, c): &Parameters) -> Result<f64> {
        let (mut mean, mut c) = (mean.clone(), c.clone());
        solve_lower(self.root.as_ref(), &mut mean);
        let columns = c.col_iter_mut().filter_map(|column| column.try_as_col_major_mut());
        columns.for_each(|column| solve_lower(self.root.as_ref(), column.as_slice_mut()));
        let q = Normal::new(mean, &c * c.transpose())?;
        Ok(self.data.objective(q, self.model()?))
    }

    /// Returns the constants (a, b) of the gradient noise of a method, and the squared gradient at the
    /// optimum that its bounds contain.
    pub fn constants(&self, method: &Method) -> Result<Constants> {
        let (d, curvature) = (self.optimum.dim(), self.curvature);
        let best = method.parameters(&self.optimum)?;
        let from_mode = squared(&best, &(self.mode.clone(), Mat::zeros(d, d)));
        let start = squared(&method.parameters(&self.prior()?)?, &best);
        let (noise, gradient) = if method.lower() {
            let entropy = (0..d).map(|i| best.1[(i, i)].powi(-2)).sum();
            (curvature.noise_of_energy(d, from_mode), Some(entropy))
        } else {
            (curvature.noise_of_energy_entropy(d, from_mode, 1.0), None)
        };
        Ok(Constants { best, start, noise, gradient, from_mode })
    }
}

fn curvature(x: &Mat<f64>, prior: &Mat<f64>, kind: LikelihoodKind) -> Result<Curvature> {
    match kind {
        LikelihoodKind::Gaussian => Curvature::linear(x.transpose(), prior.as_ref(), 1.0),
        _ => Curvature::logistic(x.transpose(), prior.as_ref()),
    }
}

pub struct Method {
    pub name: &'static str,
    pub steps: &'static str,
    pub theorem: Theorem,
    pub update: QUpdate,
    pub estimator: Estimator,
}

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
}

pub struct Constants {
    pub best: Parameters,
    pub start: f64,
    /// The squared distance of the optimum from (w̄, 0), w̄ the mode.
    pub from_mode: f64,
    pub noise: NoiseConstants,
    /// The squared gradient, at the optimum, of the part of the objective that is differentiated.
    pub gradient: Option<f64>,
}

pub type Parameters = (Vec<f64>, Mat<f64>);

/// Returns `‖m − m′‖² + ‖C − C′‖²`.
pub fn squared(a: &Parameters, b: &Parameters) -> f64 {
    (&a.1 - &b.1).squared_norm_l2() + a.0.iter().zip(&b.0).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
}
