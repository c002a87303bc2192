//! A tour in one program: regression, classification and counts on small data sets, ELBO beside DLM on held-out rows, an own kernel, an own
//! likelihood, and Bayesian optimisation.
//!
//! `cargo run --release --example tour` prints, in a few seconds:
//!
//! ```text
//! co2                elbo     NLL 0.967  RMSE 0.636
//! co2                dlm-log  NLL 0.970  RMSE 0.635
//! tumours            elbo     NLL 0.128  AUC 0.988
//! tumours            dlm-log  NLL 0.148  AUC 0.972
//! visits, Poisson    elbo     NLL 2.878  RMSE 4.282
//! visits, Poisson    dlm-log  NLL 2.115  RMSE 4.335
//! visits, geometric  elbo     NLL 2.132  RMSE 4.229
//! visits, geometric  dlm-log  NLL 2.117  RMSE 4.288
//! minimum after 15 evaluations: -6.0199 at 0.756
//! ```
//!
//! Counts of visits vary more than Poisson counts. The ELBO then overstates the certainty of the mean, and the DLM objective
//! does not. With the geometric likelihood, which suits these counts, both objectives score alike.

mod data;
mod geometric;
mod minimise;
mod wave;

use data::{Part, number, split};
use geometric::Geometric;
use minimise::minimise;
use sparsegp::faer::mat;
use sparsegp::kernels::testkit::check_kernel;
use sparsegp::kernels::{Profile, Stationary};
use sparsegp::likelihood::testkit::check_likelihood;
use sparsegp::likelihood::{Bernoulli, Gaussian, Observation, ObservationModel, Poisson};
use sparsegp::prelude::*;
use sparsegp_data::{BREAST_CANCER, CO2_MONTHLY, DOCTOR_VISITS};
use wave::Wave;

fn main() -> Result<()> {
    regression()?;
    classification()?;
    counts()?;
    let (x, y) = minimise(|x| (6.0 * x - 2.0).powi(2) * (12.0 * x - 4.0).sin(), 15)?;
    println!("minimum after 15 evaluations: {y:.4} at {x:.3}");
    Ok(())
}

/// CO2 by date: a trend and a yearly wave whose shape drifts.
fn regression() -> Result<()> {
    let (train, test) = split(CO2_MONTHLY, number)?;
    // Variances, lengthscales and periods are in ppm² and years.
    let smooth = Stationary::matern32(500.0, &[50.0]);
    let yearly = Stationary::matern32(1.0, &[30.0]) * Wave::new(4.0, 1.0);
    let gp = Inducing::new(smooth + yearly).points(Points::KMeans(40));
    // The adjoint agrees with finite differences.
    let (left, right) = (mat![[0.1], [-0.4], [1.2]], mat![[0.3], [2.0]]);
    check_kernel(&Wave::new(0.7, 1.3), left.as_ref(), right.as_ref()).map_err(Error::fit)?;
    compare("co2", gp, Gaussian::default(), &train, &test)
}

/// The diagnosis of a tumour by two measurements.
fn classification() -> Result<()> {
    let (train, test) = split(BREAST_CANCER, |diagnosis| f64::from(diagnosis == "malignant"))?;
    let gp = Inducing::new(Stationary::ard(Profile::Matern52, 2)).points(Points::KMeans(40));
    compare("tumours", gp, Bernoulli::Probit, &train, &test)
}

/// Visits to a doctor by the insurance, income and health of a person.
fn counts() -> Result<()> {
    let (train, test) = split(DOCTOR_VISITS, number)?;
    check_likelihood(&Geometric, &[0.0, 1.0, 7.0].map(Observation::of)).map_err(Error::fit)?;
    let gp = Inducing::new(Stationary::ard(Profile::Matern32, train.x.ncols())).points(Points::KMeans(20));
    compare("visits, Poisson", gp.clone(), Poisson::Exp, &train, &test)?;
    compare("visits, geometric", gp, Geometric, &train, &test)
}

/// Fits by the ELBO and by the DLM objective, and prints scores of the test rows.
fn compare(
    name: &str,
    gp: Inducing,
    likelihood: impl Into<ObservationModel>,
    train: &Part,
    test: &Part,
) -> Result<()> {
    let fit = Fit::new(gp, likelihood).with(|options| options.epochs = Some(60));
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
        let model = fit.clone().objective(objective).fit(&train.x, &train.y)?;
        let report = model.predict(&test.x, &[])?.report(&test.y);
        let nll = report.nll.unwrap_or(f64::NAN);
        let rest = match (report.auc, report.rmse) {
            (Some(auc), _) => format!("AUC {auc:.3}"),
            (_, rmse) => format!("RMSE {:.3}", rmse.unwrap_or(f64::NAN)),
        };
        println!("{name:<18} {:<8} NLL {nll:.3}  {rest}", objective.to_string());
    }
    Ok(())
}
