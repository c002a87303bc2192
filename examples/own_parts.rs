//! A custom training loop, kernel and likelihood; a second run loads the model and predicts.
//!
//! Run `cargo run --release --example own_parts -- model.safetensors` twice.

use faer::{Mat, mat};
use sparsegp::kernels::real::Derivatives;
use sparsegp::kernels::{FormulaKernel, KernelFormula, Parameter, Real};
use sparsegp::likelihood::{DensityFormula, FormulaLikelihood, Observation, TargetKind};
use sparsegp::prelude::*;
use std::path::Path;

/// A sum of bumps, each in one input.
#[derive(Clone, Debug, Default)]
struct Bumps;

impl KernelFormula for Bumps {
    const NAME: &'static str = "bumps";

    fn parameters(&self) -> Vec<Parameter> {
        ["variance", "lengthscale"].map(|name| Parameter::positive(name, vec![1.0])).to_vec()
    }

    fn value<D: Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
        let bump = |d: usize| 1.0 / (1.0 + ((x[d] - z[d]) / p[1]).powi(2));
        p[0] * (0..x.len()).map(bump).sum::<Real<D>>() / x.len() as f64
    }
}

/// Noise with a logistic distribution.
#[derive(Clone, Debug)]
struct Logistic;

impl DensityFormula for Logistic {
    const NAME: &'static str = "logistic";
    const TARGET: TargetKind = TargetKind::Real;

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive("scale", vec![0.3])]
    }

    fn log_density<D: Derivatives>(&self, p: &[Real<D>], at: Observation, f: Real<D>) -> Real<D> {
        let r = (at.y - f) / p[0];
        -r - 2.0 * (-r).softplus() - p[0].ln()
    }
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "model.safetensors".into());
    let registry = Registry::default().with_kernel(FormulaKernel::<Bumps>::ENTRY)?;
    let registry = registry.with_likelihood(|_| Box::new(FormulaLikelihood::new(Logistic)))?;
    if !Path::new(&path).exists() {
        let x = Mat::from_fn(600, 2, |i, d| 3.0 * ((17 * i + 5 * d) as f64 * 0.377).sin());
        let outlier = |i: usize| if i.is_multiple_of(10) { 2.0 } else { 0.05 * (i as f64).cos() };
        let y: Vec<f64> = (0..600).map(|i| x[(i, 0)].sin() - 0.5 * x[(i, 1)].cos() + outlier(i)).collect();
        let options = FitOptions {
            kernel: "bumps + linear".into(),
            likelihood: registry.likelihood_kind("logistic"),
            registry: registry.clone(),
            inducing: Some(30),
            ..FitOptions::default()
        };
        let mut trainer = Fit::of(options).trainer(x.as_ref(), &y)?;
        for pass in 0..20 {
            for batch in (0..600).step_by(100) {
                trainer.step(x.subrows(batch, 100), &y[batch..batch + 100])?;
            }
            println!("pass {pass}: objective {:.4} a datum", trainer.epoch()?.objective);
        }
        return trainer.finish()?.save(Path::new(&path));
    }
    let model = Model::load_with(Path::new(&path), &registry)?;
    let at = model.predict(mat![[0.5, -1.0], [2.0, 1.0]].as_ref(), &[])?;
    println!("means {:.3} and {:.3}", at.row(0).mean, at.row(1).mean);
    Ok(())
}
