//! A model for JavaScript: it is made of the bytes of a model file, and predicts rows of numbers.

use sparsegp::faer::MatRef;
use sparsegp::model::Model;
use wasm_bindgen::prelude::*;

/// A fitted model, from any fit of sparsegp.
#[wasm_bindgen]
pub struct Predictor(Model);

#[wasm_bindgen]
impl Predictor {
    /// Reads the bytes of a model file.
    #[wasm_bindgen(constructor)]
    pub fn new(file: &[u8]) -> Result<Predictor, JsError> {
        Ok(Predictor(Model::from_bytes("the model file", file)?))
    }

    /// The number of inputs of a row.
    #[wasm_bindgen(getter)]
    pub fn inputs(&self) -> usize {
        self.0.inputs()
    }

    /// Returns the mean and the variance of each row, one row after another. `rows` holds the inputs, also one row after another.
    pub fn predict(&self, rows: &[f64]) -> Result<Vec<f64>, JsError> {
        let predictions = self.0.predict(self.matrix(rows), &[])?;
        Ok(predictions.iter().flat_map(|at| [at.mean, at.variance]).collect())
    }

    /// Returns the quantile at the probability `p` of each row.
    pub fn quantiles(&self, rows: &[f64], p: f64) -> Result<Vec<f64>, JsError> {
        Ok(self.0.predict(self.matrix(rows), &[])?.quantiles(p))
    }
}

impl Predictor {
    fn matrix<'a>(&self, rows: &'a [f64]) -> MatRef<'a, f64> {
        let inputs = self.0.inputs();
        MatRef::from_row_major_slice(&rows[..rows.len() / inputs * inputs], rows.len() / inputs, inputs)
    }
}
