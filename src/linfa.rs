//! Estimators for datasets of linfa, around the fits and models of this crate. (Import either prelude by name: both have a `Fit`.)
//!
//! ```
//! use linfa::prelude::*;
//! use ndarray::{Array1, Array2};
//! use sparsegp::linfa::SparseGp;
//! use sparsegp::options::FitOptions;
//!
//! let x = Array2::from_shape_fn((200, 2), |(i, d)| (i as f64 * [0.377, 0.731][d]).sin());
//! let y: Array1<f64> = x.rows().into_iter().map(|row| row[0].sin() + 0.3 * row[1]).collect();
//! let (train, test) = Dataset::new(x, y).split_with_ratio(0.8);
//!
//! let options = FitOptions { kernel: "matern52(ard)".into(), ..FitOptions::default() };
//! let model = SparseGp(sparsegp::training::Fit::of(options)).fit(&train)?;
//! assert!(model.predict(&test).r2(&test).unwrap() > 0.99);
//!
//! // The fitted model has everything else.
//! assert!(model.0.hyperparameters().iter().any(|of| of.name == "likelihood.noise_variance"));
//! # Ok::<(), sparsegp::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::model::Model;
use crate::training::Fit as OwnFit;
use ::linfa::dataset::{AsSingleTargets, DatasetBase};
use ::linfa::traits::{Fit, PredictInplace};
use ndarray::{Array1, ArrayBase, Data, Ix2};

/// An estimator for datasets whose records are `n × D` and whose targets are numbers: 0 and 1 for
/// two classes; 0, 1, … for counts and ordered levels.
#[derive(Clone, Default)]
pub struct SparseGp(pub OwnFit);

/// A fitted model, which predicts the mean of the target; for two classes, the probability of class 1.
pub struct FittedGp(pub Model);

impl From<::linfa::Error> for Error {
    fn from(error: ::linfa::Error) -> Self {
        Error::data(error.to_string())
    }
}

impl<D: Data<Elem = f64>, T: AsSingleTargets<Elem = f64>> Fit<ArrayBase<D, Ix2>, T, Error> for SparseGp {
    type Object = FittedGp;

    fn fit(&self, dataset: &DatasetBase<ArrayBase<D, Ix2>, T>) -> Result<FittedGp> {
        let y = dataset.targets().as_single_targets().to_vec();
        self.0.fit(dataset.records(), &y).map(FittedGp)
    }
}

impl<D: Data<Elem = f64>> PredictInplace<ArrayBase<D, Ix2>, Array1<f64>> for FittedGp {
    /// # Panics
    ///
    /// If the number of columns of the records differs from that of the fit, like linfa's own
    /// models; [`Model::predict`] returns an error instead.
    fn predict_inplace<'a>(&'a self, x: &'a ArrayBase<D, Ix2>, y: &mut Array1<f64>) {
        let predictions = self.0.predict(x, &[]).unwrap_or_else(|error| panic!("{error}"));
        *y = (0..predictions.rows()).map(|row| predictions.row(row).mean).collect();
    }

    fn default_target(&self, x: &ArrayBase<D, Ix2>) -> Array1<f64> {
        Array1::zeros(x.nrows())
    }
}
