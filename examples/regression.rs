//! Fits a sparse GP to arrays from Rust, with the collapsed bound and with mini-batches, and predicts.
//!
//! `cargo run --release --example regression`

use faer::{Mat, mat};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use sparsegp::kernels::{Profile, Stationary};
use sparsegp::likelihood::Gaussian;
use sparsegp::prelude::*;

fn main() -> Result<()> {
    // Inputs are n × D, one row per datum; here D = 2.
    let (n, noise) = (2000, 0.1);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut normal = || rng.sample::<f64, _>(StandardNormal);
    let x = Mat::from_fn(n, 2, |_, _| normal());
    let truth = |a: f64, b: f64| (2.0 * a).sin() * (-0.5 * b * b).exp();
    let y: Vec<f64> = (0..n).map(|i| truth(x[(i, 0)], x[(i, 1)]) + noise * normal()).collect();

    for objective in [ObjectiveKind::Vfe, ObjectiveKind::DlmLog] {
        let gp = Inducing::new(Stationary::ard(Profile::Matern52, 2)).points(Points::KMeans(60));
        let fit = Fit::new(gp, Gaussian::default()).objective(objective);
        let model = fit.with(|options| options.epochs = Some(40)).fit(x.as_ref(), &y)?;
        let summary = model.summary();
        println!(
            "{objective}: objective {:.4} a datum after {} epochs ({})",
            summary.objective,
            summary.epochs,
            summary.stop_reason.word()
        );
        for of in model.hyperparameters() {
            println!("  {} = {:.4}", of.name, of.value.unwrap_or(f64::NAN));
        }
        let points = mat![[-2.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [2.0, 0.0]];
        let predictions = model.predict(points.as_ref(), &[])?;
        for i in 0..points.nrows() {
            let (at, f) = (predictions.row(i), truth(points[(i, 0)], points[(i, 1)]));
            let width = 2.0 * at.latent_variance.sqrt();
            println!(
                "  f({:+.0}, 0) = {f:+.4}   predicted {:+.4} ± {width:.4}",
                points[(i, 0)],
                at.latent_mean
            );
        }
    }
    Ok(())
}
