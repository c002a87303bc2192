//! A linear or logistic model whose optimal q is known, and how far runs of a rule are from it; no bounds.

use crate::common::Data;
use faer::Mat;
use sparsegp::latent::LinearLayer;
use sparsegp::likelihood::{Likelihood, LikelihoodKind, Observation};
use sparsegp::linalg::{Factorizer, clear_upper, solve_factored, symmetric_eigen};
use sparsegp::model::LatentModel;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::{Family, Normal, QUpdate, RuleOptions, Schedule, guarantees::Curvature};
use sparsegp::{Error, Result};

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
    /// With inputs scaled such that 𝓜 is `smoothness`.
    pub fn new(mut data: Data, kind: LikelihoodKind, smoothness: f64) -> Result<Problem> {
        let d = data.x.nrows();
        let prior = Mat::<f64>::identity(d, d);
        let curvature = |x: &Mat<f64>| match kind {
            LikelihoodKind::Gaussian => Curvature::linear(x.transpose(), prior.as_ref(), 1.0),
            _ => Curvature::logistic(x.transpose(), prior.as_ref()),
        };
        let scale = ((smoothness - 1.0) / (curvature(&data.x)?.smoothness - 1.0)).sqrt();
        data.x *= faer::Scale(scale);
        println!("inputs of variance {:.3e}", scale * scale);
        let (curvature, optimum) = (curvature(&data.x)?, Normal::standard(Family::Full, d));
        let mut problem = Problem { data, curvature, optimum, mode: vec![0.0; d], likelihood: kind.build(2) };
        problem.find_mode()?;
        // Exact natural gradients; their first step is the closed form for the linear model.
        let options = InferenceOptions::full_batch(QUpdate::Ngd, Schedule::Constant(1.0));
        let mut inference = problem.inference(Objective::elbo(1.0), options)?;
        while inference.iterations() < 100 {
            inference.step();
        }
        let before = inference.q().clone();
        inference.step();
        println!("the last step to the optimum moved q by a KL of {:.1e}", before.kl_to(inference.q()));
        let optimum = inference.q().clone();
        drop(inference);
        problem.optimum = optimum;
        Ok(problem)
    }

    fn inference(&self, objective: Objective, options: InferenceOptions) -> Result<Inference<'_>> {
        let d = self.data.x.nrows();
        let layer = LinearLayer::isotropic(d, 0.0, 1.0)?.into();
        let model = LatentModel::new(layer, self.likelihood.clone(), true);
        Ok(Inference::new(model, Normal::standard(Family::Full, d), objective, self.data.set(), options))
    }

    /// Newton's method on the negative log joint.
    fn find_mode(&mut self) -> Result<()> {
        let (x, d) = (&self.data.x, self.mode.len());
        for _ in 0..50 {
            let mut gradient = self.mode.clone();
            let mut hessian = Mat::<f64>::identity(d, d);
            for (x, y) in x.col_iter().zip(&self.data.y) {
                let (at, f) = (Observation::of(*y), x.iter().zip(&self.mode).map(|(x, w)| x * w).sum());
                let (mut value, mut slope) = ([0.0], [0.0]);
                self.likelihood.log_density(at, &[f], &mut value, &mut slope);
                gradient.iter_mut().zip(x.iter()).for_each(|(g, x)| *g -= x * slope[0]);
                hessian -= faer::Scale(self.likelihood.curvature(at, f)) * x * x.transpose();
            }
            Factorizer::new(d).cholesky(hessian.as_mut()).map_err(|_| Error::fit("no mode"))?;
            solve_factored(hessian.as_ref(), &mut gradient);
            self.mode.iter_mut().zip(&gradient).for_each(|(w, step)| *w -= step);
        }
        Ok(())
    }

    /// Squared distances of (m, C) from `best` at the given iterations, of a run from the prior.
    pub fn distances(
        &self,
        estimator: Estimator,
        (rule, step, seed): (&RuleOptions, Schedule, u64),
        best: &(Vec<f64>, Mat<f64>),
        at: &[usize],
    ) -> Result<Vec<f64>> {
        let lower = rule.rule == QUpdate::ProxSgd.rule();
        let options = InferenceOptions { seed, ..InferenceOptions::full_batch(rule.clone(), step) };
        // The quadrature is only for values, which are not used.
        let objective = Objective { loss: Loss::ExpectedLog(estimator), beta: 1.0, nodes: Some(2) };
        let mut inference = self.inference(objective, options)?;
        let mut out = Vec::new();
        for &t in at {
            while inference.iterations() < t {
                inference.step();
            }
            // S has no factor where steps were too long.
            out.push(parameters(inference.q(), lower).map_or(f64::INFINITY, |now| squared(&now, best)));
        }
        Ok(out)
    }
}

/// m and the factor C of S, lower triangular or symmetric.
pub fn parameters(q: &Normal, lower: bool) -> Result<(Vec<f64>, Mat<f64>)> {
    let mut c = q.cov().to_dense();
    if lower {
        Factorizer::new(q.dim()).cholesky(c.as_mut()).map_err(|_| Error::fit("S has no factor"))?;
        clear_upper(c.as_mut());
    } else {
        let (values, v) = symmetric_eigen(c.as_ref()).ok_or_else(|| Error::fit("S has no root"))?;
        c = Mat::from_fn(q.dim(), q.dim(), |i, j| v[(i, j)] * values[j].sqrt()) * v.transpose();
    }
    Ok((q.mean().to_vec(), c))
}

/// `‖m − m′‖² + ‖C − C′‖²`.
pub fn squared(a: &(Vec<f64>, Mat<f64>), b: &(Vec<f64>, Mat<f64>)) -> f64 {
    (&a.1 - &b.1).squared_norm_l2() + a.0.iter().zip(&b.0).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
}
