//! The parts of a model file: arrays, parameters and the checksum, each checked when it is read, and the reasons why a file cannot be used.

use super::posterior::Root;
use crate::error::Error;
use crate::files::hexadecimal;
use faer::{Mat, MatRef};
use safetensors::tensor::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};
use sparsegp_kernels::{Parameter, Transform};

/// Names of arrays.
pub(super) mod name {
    pub(crate) const INDUCING: &str = "inducing_inputs";
    pub(crate) const BASIS: &str = "basis";
    pub(crate) const DEVIATIONS: &str = "prior_deviations";
    pub(crate) const PRIOR_MEAN: &str = "prior_mean";
    pub(crate) const COVARIANCE: &str = "q_covariance";
    pub(crate) const EFFECT_BLOCKS: &str = "effect_blocks";
    pub(crate) const EFFECT_CROSS: &str = "effect_cross";
    pub(crate) const EFFECT_LOADS: &str = "effect_loads";
    pub(crate) const EFFECT_MEANS: &str = "effect_means";
    pub(crate) const EFFECT_MET: &str = "effect_met";
    pub(crate) const EFFECT_MET_LOADS: &str = "effect_met_loads";
    pub(crate) const EFFECT_OTHERS: &str = "effect_others";
    pub(crate) const EFFECT_STARTS: &str = "effect_starts";
    pub(crate) const MEAN: &str = "q_mean";
    pub(crate) const NEIGHBOUR_INPUTS: &str = "neighbour_inputs";
    pub(crate) const NEIGHBOUR_NOISE: &str = "neighbour_noise";
    pub(crate) const NEIGHBOUR_TARGETS: &str = "neighbour_targets";
    pub(crate) const INCREASE: &str = "variance_increase";
    pub(crate) const REDUCTION: &str = "variance_reduction";
    pub(crate) const WEIGHTS: &str = "weights";

    pub(crate) fn constant(index: usize) -> String {
        format!("feature_constant.{index}")
    }

    /// Returns the name of an array that exists once for each of several layers or processes: `weights.0`, `weights.1`, ….
    pub(crate) fn of(name: &str, index: usize, several: bool) -> String {
        if several { format!("{name}.{index}") } else { name.to_owned() }
    }
}

/// A named array, row-major.
pub(super) struct Array {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Array {
    pub fn vector(name: impl Into<String>, values: &[f64]) -> Array {
        Array {
            name: name.into(),
            dtype: Dtype::F64,
            shape: vec![values.len()],
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    pub fn matrix(name: impl Into<String>, values: MatRef<'_, f64>) -> Array {
        let (rows, columns) = values.shape();
        let cells = (0..rows).flat_map(|i| (0..columns).map(move |j| values[(i, j)]));
        let (dtype, shape) = (Dtype::F64, vec![rows, columns]);
        Array { name: name.into(), dtype, shape, bytes: cells.flat_map(f64::to_le_bytes).collect() }
    }

    /// Stores the array in single precision if `single` is true; its values must be single-precision numbers.
    pub(crate) fn rounded(self, single: bool) -> Array {
        if !single {
            return self;
        }
        let (cells, _) = self.bytes.as_chunks::<8>();
        let bytes = cells.iter().flat_map(|&cell| (f64::from_le_bytes(cell) as f32).to_le_bytes()).collect();
        Array { dtype: Dtype::F32, bytes, ..self }
    }

    pub fn root(name: impl Into<String>, root: &Root) -> Array {
        match root {
            Root::Upper(all) => Array::matrix(name, all.as_ref()),
            Root::Diagonal(diagonal) => Array::vector(name, diagonal),
        }
    }

    /// Stores the upper triangle of a root, column by column.
    pub fn packed(name: impl Into<String>, root: &Root) -> Array {
        match root {
            Root::Upper(all) => {
                let cells = (0..all.ncols()).flat_map(|j| (0..=j).map(move |i| all[(i, j)]));
                Array::vector(name, &cells.collect::<Vec<f64>>())
            }
            Root::Diagonal(_) => Array::root(name, root),
        }
    }
}

/// The arrays of a file; each is checked when it is read.
pub(super) struct Arrays<'a> {
    pub tensors: SafeTensors<'a>,
}

impl Arrays<'_> {
    pub fn values(&self, name: &str, shape: &[usize]) -> Checked<Vec<f64>> {
        let tensor = self.tensors.tensor(name).map_err(Unusable::damaged)?;
        let values: Vec<f64> = match tensor.dtype() {
            Dtype::F64 if tensor.shape() == shape => {
                tensor.data().as_chunks::<8>().0.iter().map(|&cell| f64::from_le_bytes(cell)).collect()
            }
            Dtype::F32 if tensor.shape() == shape => {
                let cells = tensor.data().as_chunks::<4>().0.iter();
                cells.map(|&cell| f64::from(f32::from_le_bytes(cell))).collect()
            }
            _ => {
                let what = format!("array {name} has another type or shape than expected");
                return Err(Unusable::damaged(what));
            }
        };
        let finite = values.iter().all(|value| value.is_finite());
        Unusable::unless(finite, &format!("array {name} holds a value that is not finite"))?;
        Ok(values)
    }

    pub fn matrix(&self, name: &str, rows: usize, columns: usize) -> Checked<Mat<f64>> {
        let values = self.values(name, &[rows, columns])?;
        Ok(Mat::from_fn(rows, columns, |i, j| values[i * columns + j]))
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// The shape of an array.
    pub fn shape(&self, name: &str) -> Checked<Vec<usize>> {
        Ok(self.tensors.tensor(name).map_err(Unusable::damaged)?.shape().to_vec())
    }

    /// Returns the root of a part of the variance, if the file contains it.
    pub fn root(&self, name: &str, m: usize) -> Checked<Option<Root>> {
        if !self.has(name) {
            return Ok(None);
        }
        Ok(Some(match self.shape(name)?[..] {
            [_, _] => Root::Upper(self.matrix(name, m, m)?),
            [count] if count == m => Root::Diagonal(self.values(name, &[m])?),
            // An upper triangle, column by column.
            _ => {
                let values = self.values(name, &[m * (m + 1) / 2])?;
                let cell = |i: usize, j: usize| if i <= j { values[j * (j + 1) / 2 + i] } else { 0.0 };
                Root::Upper(Mat::from_fn(m, m, cell))
            }
        }))
    }
}

/// The version of the format; files of another version are refused.
pub(super) const VERSION: u32 = 1;

/// The reason why bytes are not a usable model.
pub(super) enum Unusable {
    Foreign,
    /// Models of several targets instead of one model.
    Several,
    OtherVersion(String),
    Damaged(String),
    /// A kernel or likelihood that the registry does not know.
    Unknown(String),
}

impl Unusable {
    pub fn damaged(what: impl std::fmt::Display) -> Unusable {
        Unusable::Damaged(what.to_string())
    }

    /// Fails because a file is damaged, unless a condition holds.
    pub fn unless(holds: bool, what: &str) -> Checked<()> {
        if holds { Ok(()) } else { Err(Unusable::damaged(what)) }
    }

    pub fn about(self, name: &str) -> Error {
        match self {
            Unusable::Foreign => Error::data(format!("{name}: not a sparsegp model file"))
                .hint("expected a file written by fit ⟨model_out⟩"),
            Unusable::Several => {
                Error::data(format!("{name}: the file holds models of several targets, expected one"))
                    .hint("fit the target by itself; predict, evaluate and inspect take all of them")
            }
            Unusable::OtherVersion(version) => Error::data(format!(
                "{name}: model file of format version {version:?}, expected {VERSION}"
            ))
            .hint("use the version of sparsegp that wrote it, or fit the model again"),
            Unusable::Damaged(what) => damaged_model(name, &what),
            Unusable::Unknown(what) => Error::data(format!(
                "{name}: the model uses {what}, which this program does not know"
            ))
            .hint(
                "pass it when you load the model (kernels= or likelihoods= in Python, a registry in Rust), or use a newer sparsegp",
            ),
        }
    }
}

/// The error for a model file whose parts contradict each other.
#[doc(hidden)]
pub fn damaged_model(name: &str, what: &dyn std::fmt::Display) -> Error {
    Error::data(format!("{name}: the model file is damaged: {what}"))
        .hint("copy the file from its source again, or fit the model again")
}

pub(super) type Checked<T> = std::result::Result<T, Unusable>;

/// A function that visits the parameters to be replaced.
type Visit<'a> = dyn FnMut(&mut dyn FnMut(&mut Parameter)) + 'a;

/// Replaces parameters by stored ones of the same names and lengths.
pub(super) fn restore(stored: &[Parameter], for_each: &mut Visit<'_>) -> Checked<()> {
    let mut rest = stored.iter();
    let mut matches = true;
    for_each(&mut |parameter| match rest.next() {
        Some(stored) if fits(stored, parameter) => {
            // Slots follow from the contents of columns, not from the file.
            let slots = std::mem::take(&mut parameter.slots);
            *parameter = Parameter { slots, ..stored.clone() };
        }
        _ => matches = false,
    });
    Unusable::unless(
        matches && rest.next().is_none(),
        "its parameters do not match its kernel and likelihood",
    )
}

/// Returns true if a stored parameter can replace another one. Training may have ended on the edge of a range, but never with a negative
/// scale.
fn fits(stored: &Parameter, parameter: &Parameter) -> bool {
    let signed = parameter.transform == Transform::Identity;
    stored.name == parameter.name
        && stored.values.len() == parameter.values.len()
        && stored.values.iter().all(|value| value.is_finite() && (signed || *value >= 0.0))
}

/// The SHA-256 over the description and every array's name, shape and contents, in the order of the names.
pub(super) struct Checksum(Sha256);

impl Checksum {
    /// Starts with the description. Each text and shape comes after its length, so that neighbouring parts cannot be confused.
    pub fn new(description: &str) -> Checksum {
        let mut hash = Sha256::new();
        hash.update((description.len() as u64).to_le_bytes());
        hash.update(description);
        Checksum(hash)
    }

    pub fn add(&mut self, name: &str, shape: &[usize], bytes: &[u8]) {
        self.0.update((name.len() as u64).to_le_bytes());
        self.0.update(name);
        self.0.update((shape.len() as u64).to_le_bytes());
        shape.iter().for_each(|&side| self.0.update((side as u64).to_le_bytes()));
        self.0.update(bytes);
    }

    pub fn finish(self) -> String {
        hexadecimal(self.0)
    }
}
