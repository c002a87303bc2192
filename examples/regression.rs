//! Fits a sparse GP to arrays from Rust, with the collapsed bound and with mini-batches, and predicts.
//!
//! `cargo run --release --example regression`

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use sparsegp::collapsed::Dataset;
use sparsegp::options::{FitOptions, ObjectiveKind, StepOptions};
use sparsegp::training::{TrainingData, fit_arrays};

fn main() -> sparsegp::Result<()> {
    // Inputs are D × n, one column per datum; here D = 2.
    let (n, noise) = (2000, 0.1);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut normal = || rng.sample::<f64, _>(StandardNormal);
    let x = Mat::from_fn(2, n, |_, _| normal());
    let truth = |x: faer::ColRef<'_, f64>| (2.0 * x[0]).sin() * (-0.5 * x[1] * x[1]).exp();
    let y: Vec<f64> = (0..n).map(|j| truth(x.col(j)) + noise * normal()).collect();
    let data = TrainingData::of(Dataset::of(x.as_ref(), &y));

    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Elbo] {
        let options = FitOptions {
            objective,
            kernel: "matern52(ard)".into(),
            inducing: Some(60),
            epochs: Some(40),
            steps: StepOptions { batch_size: 256, ..StepOptions::default() },
            ..FitOptions::default()
        };
        let fitted = fit_arrays(data, &options, None, &mut |_| {})?;
        let points = Mat::from_fn(2, 5, |i, j| if i == 0 { j as f64 - 2.0 } else { 0.0 });
        let latent = fitted.posterior.marginals(points.as_ref());
        println!(
            "{objective}: objective {:.4} a datum after {} epochs ({})",
            fitted.summary.objective,
            fitted.summary.epochs,
            fitted.summary.stop_reason.word()
        );
        for (name, value) in fitted.model.named_values() {
            println!("  {name} = {value:.4}");
        }
        for j in 0..points.ncols() {
            let (mean, sd) = (latent.mean[j], latent.variance[j].sqrt());
            let f = truth(points.col(j));
            println!("  f({:+.0}, 0) = {f:+.4}   predicted {mean:+.4} ± {:.4}", points[(0, j)], 2.0 * sd);
        }
    }
    Ok(())
}
