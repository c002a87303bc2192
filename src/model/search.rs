//! How the start of a fit is found, and the fit from it; the two searches themselves are next door.

use super::fit::{Fitted, TrainingData, fit_prepared};
use super::growth::{certificate, grow};
use super::inducing_curve::InducingCurve;
use super::options::FitOptions;
use super::restarts::{Restart, choose_start};
use super::warning::Warning;
use crate::error::{ErrorKind, Result};
use crate::hyper::Session;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// How the start of a fit was found; empty for the start that the data give.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    /// The search for the number of inducing inputs.
    pub inducing: Option<InducingCurve>,
    /// The starts that were compared.
    pub restarts: Vec<Restart>,
}

/// The fit from a model that was grown until its inducing inputs are enough, with the certificate of its q.
pub(super) fn fit_grown(
    data: TrainingData<'_>,
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let started = Instant::now();
    let growth = options.growth.unwrap_or_default();
    let (start, mut curve) = grow(data, options, growth, session.silent())?;
    let options = within(options, started);
    let mut fitted = fit_prepared(data, &options, start, false, session)?;
    curve.certificate = certificate(&fitted.model, data.train, fitted.summary.elbo_sum, curve.tolerance);
    if let Some(certificate) = curve.certificate {
        fitted.summary.evidence_upper_bound = Some(certificate.upper);
    }
    fitted.summary.warnings.extend(curve.warning().map(|text| Warning::Inducing { text }));
    fitted.search = Search { inducing: Some(curve), restarts: Vec::new() };
    Ok(fitted)
}

/// The fit from the best of several starts. A start whose fit fails in the end gives way to the next best.
pub(super) fn fit_restarted(
    data: TrainingData<'_>,
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let started = Instant::now();
    let mut starts = choose_start(data, options, &mut session.silent())?;
    loop {
        let start = starts.best()?;
        match fit_prepared(data, &within(options, started), start, true, session) {
            Ok(mut fitted) => {
                fitted.search = Search { inducing: None, restarts: starts.into_report() };
                return Ok(fitted);
            }
            Err(error) if error.kind() == ErrorKind::Fit => starts.reject(error),
            Err(error) => return Err(error),
        }
    }
}

/// The options with what is left of the time limit.
fn within(options: &FitOptions, started: Instant) -> FitOptions {
    // A limit that has passed ends a fit after its first epoch, which leaves a usable model.
    let left = |seconds: f64| (seconds - started.elapsed().as_secs_f64()).max(1e-3);
    FitOptions { max_seconds: options.max_seconds.map(left), ..options.clone() }
}
