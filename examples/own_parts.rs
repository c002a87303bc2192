//! A custom training loop, kernel and likelihood; a second run loads the model and predicts.
//!
//! Run `cargo run --release --example own_parts -- model.safetensors` twice.

use faer::{Mat, mat};
use sparsegp::prelude::*;
use std::path::Path;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "model.safetensors".into());
    let registry = Registry::default().with_kernel(sparsegp_testkit::additive::Additive::ENTRY)?;
    let registry = registry.with_likelihood(|_| Box::new(sparsegp_testkit::laplace::Laplace::new(1.0)))?;
    if !Path::new(&path).exists() {
        let x = Mat::from_fn(600, 2, |i, d| 3.0 * ((17 * i + 5 * d) as f64 * 0.377).sin());
        let outlier = |i: usize| if i.is_multiple_of(10) { 2.0 } else { 0.05 * (i as f64).cos() };
        let y: Vec<f64> = (0..600).map(|i| x[(i, 0)].sin() - 0.5 * x[(i, 1)].cos() + outlier(i)).collect();
        let options = FitOptions {
            kernel: "additive_imq(power=2) + linear".into(),
            likelihood: registry.likelihood_kind("laplace"),
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
