//! Sparse Gaussian processes: regression, classification and counts with calibrated predictions, from arrays.
//!
//! This crate works with arrays, models and model files. Tables with named columns and reports are
//! in `sparsegp-tables`, the command line is in `sparsegp-cli`.
//!
//! A sparse GP summarises the data with M inducing inputs, so that training costs O(nM²). This
//! crate has SVGP on mini-batches with natural gradients and other update rules, on the ELBO or on
//! the predictive loss itself; the collapsed bounds VFE and FITC; and the Bayesian linear models
//! they reduce to.
//!
//! ```
//! use faer::Mat;
//! use sparsegp::kernels::{Profile, Stationary};
//! use sparsegp::likelihood::Gaussian;
//! use sparsegp::prelude::*;
//!
//! // Inputs have a row per datum, here of one input; targets are in the user's own units.
//! let x = Mat::from_fn(300, 1, |i, _| i as f64 / 30.0);
//! let y: Vec<f64> = (0..300).map(|i| 20.0 + 5.0 * (i as f64 / 30.0).sin() + 0.2 * (i as f64 * 7.3).sin()).collect();
//!
//! let gp = Inducing::new(Stationary::ard(Profile::Matern52, 1)).points(Points::KMeans(25));
//! let model = Fit::new(gp, Gaussian::default()).fit(&x, &y)?;
//!
//! let new = Mat::from_fn(2, 1, |i, _| 4.0 + i as f64);
//! let predictions = model.predict(&new, &[])?;
//! let at = predictions.row(0);
//! assert!((at.mean - (20.0 + 5.0 * 4f64.sin())).abs() < 0.3);
//! assert!(predictions.quantile(0, 0.025) < at.mean && at.mean < predictions.quantile(0, 0.975));
//!
//! // A model file, from which another process predicts the same to the last bit.
//! let bytes = model.to_bytes()?;
//! let again = Model::from_bytes("model", &bytes)?;
//! assert_eq!(again.predict(&new, &[])?.row(1), predictions.row(1));
//! # Ok::<(), sparsegp::Error>(())
//! ```
//!
//! # Which type do I want?
//!
//! | you have or want | type |
//! | --- | --- |
//! | arrays, and a model that predicts | [`Fit`](training::Fit), which returns a [`Model`](model::Model) |
//! | a kernel and inducing inputs | [`Inducing`](training::Inducing) with [`Points`](training::Points) |
//! | a Bayesian linear model | [`Linear`](training::Linear) in place of `Inducing` |
//! | two classes, counts, levels, outliers | a [likelihood] as the second argument of [`Fit::new`](training::Fit::new) |
//! | inputs that are not a matrix of faer | [`Rows`](rows::Rows) |
//! | means, quantiles, scores | [`Predictions`](model::Predictions) of [`Model::predict`](model::Model::predict) |
//! | groups with effects of their own | [`EffectTerm`](effects::EffectTerm) in [`Fit::group`](training::Fit::group) |
//! | another option | [`FitOptions`](options::FitOptions), by [`Fit::with`](training::Fit::with) or [`Fit::of`](training::Fit::of) |
//! | fixed or bounded hyper-parameters, priors | [`Constraints`](hyper::Constraints) in the options |
//! | progress, interruption, checkpoints | [`Session`](hyper::Session) in [`Fit::fit_in`](training::Fit::fit_in) |
//! | a training loop of your own | [`Trainer`](training::Trainer) of [`Fit::trainer`](training::Fit::trainer) |
//! | more rows for a fitted model | [`update`](training::update()) |
//! | a kernel, likelihood or approximation of your own | [`Kernel`](kernels::Kernel), [`OneFunction`](likelihood::OneFunction), [`FeatureMap`](latent::FeatureMap); [how to](book::extending) |
//! | their names in options and model files | [`Registry`] |
//! | columns with names, CSV, Parquet | the crate `sparsegp-tables` |
//!
//! # Modules
//!
//! Items hidden from these pages serve the other crates of this repository; they may change in any release. Modules that are hidden
//! as a whole are named without a link. A module imports only modules after it in this table, which a test checks.
//!
//! | modules | contents |
//! | --- | --- |
//! | [`training`] | fits: [`Fit`](training::Fit), [`Trainer`](training::Trainer), rows and batches, the loop, diagnosis, searches |
//! | [`model`] | fitted models: [`Model`](model::Model), latent processes, posterior, predictions, summary, warnings, the file |
//! | [`options`] | settings of a fit and their checks: [`FitOptions`](options::FitOptions) |
//! | [`registry`] | names of kernels, likelihoods and features |
//! | `collapsed`, `gradient` | bounds with q in closed form; the pass over rows, and sums over data that merge |
//! | `neighbours` | rows conditioned on their nearest data: search, conditionals, adjoint |
//! | [`latent`] | layers: features of the latent linear model |
//! | [`effects`] | grouped effects in addition to the latent function: terms, sums by level, posterior |
//! | [`variational`], [`objective`] | q and its update rules; losses and estimators |
//! | [`metrics`] | metrics of predictions |
//! | [`hyper`] | hyper-parameters as one vector, constraints, Adam and L-BFGS, limits, sessions |
//! | `data`, [`rows`] | roles of rows, batches, scaling, moments, random draws; inputs from slices and arrays of other crates |
//! | [`checkpoint`], `files` | states as bytes; output files |
//! | `linalg`, `columns`, `words`, [`error`] | structured products; passes over columns; options as words; errors |
//! | [`kernels`], [`likelihood`] | covariance functions; observation models with their integrals and special functions; separate crates |
//!
//! # Features
//!
//! | feature | default | contents |
//! | --- | --- | --- |
//! | `training` | yes | fits; without it the crate loads model files and predicts, and also builds for `wasm32-unknown-unknown` |
//! | `rayon` | yes | work on several threads; without it fits and predictions have the same bits, on one thread |
//! | `ndarray`, `ndarray-0_17`, `nalgebra` | no | [`Rows`](rows::Rows) from arrays of ndarray 0.16, ndarray 0.17 and nalgebra 0.35 |
//! | `linfa` | no | estimators for datasets of linfa 0.8, whose arrays are those of ndarray 0.16 |
//!
//! A model file of a fit to a table can also be loaded as a [`Model`](model::Model), which
//! identifies its inputs by their order instead of the names of columns.

#![cfg_attr(not(feature = "training"), allow(dead_code, unused_imports))]

pub mod checkpoint;
#[doc(hidden)]
pub mod collapsed;
#[doc(hidden)]
pub mod columns;
#[doc(hidden)]
pub mod data;
pub mod effects;
pub mod error;
#[doc(hidden)]
pub mod files;
#[doc(hidden)]
pub mod gradient;
pub mod hyper;
pub mod latent;
#[doc(hidden)]
pub mod linalg;
#[cfg(feature = "linfa")]
pub mod linfa;
pub mod metrics;
pub mod model;
#[doc(hidden)]
pub mod neighbours;
pub mod objective;
pub mod options;
mod parallel;
pub mod prelude;
pub mod registry;
pub mod rows;
mod threads;
#[cfg(feature = "training")]
pub mod training;
pub mod variational;
#[doc(hidden)]
pub mod words;

pub use error::{Error, ErrorKind, Result, Say};
pub use faer;
pub use rand_chacha;
pub use registry::Registry;
pub use sparsegp_kernels as kernels;
pub use sparsegp_likelihoods::{self as likelihood, functions, quadrature};

/// Chapters of the book that comments cite. The folder `docs` of the package has all chapters.
#[cfg(any(doc, doctest))]
pub mod book {
    /// [options]: crate::options::FitOptions
    #[doc = include_str!("../docs/extending.md")]
    pub mod extending {}
    /// [objectives-ngd]: crate::book::objectives#natural-gradients-for-dlm
    #[doc = include_str!("../docs/mathematics.md")]
    pub mod mathematics {}
    /// [choices]: crate::book
    /// [experiments-dlm]: crate::book
    /// [mathematics-q]: crate::book::mathematics#moving-q
    #[doc = include_str!("../docs/objectives.md")]
    pub mod objectives {}
    #[cfg(doctest)]
    #[doc = include_str!("../README.md")]
    mod readme {}
    /// [experiments-bbvi]: crate::book
    /// [objectives-ngd]: crate::book::objectives#natural-gradients-for-dlm
    /// [objectives-mc]: crate::book::objectives#monte-carlo-gradients-of-the-log-loss
    #[doc = include_str!("../docs/update-rules.md")]
    pub mod update_rules {}
}
