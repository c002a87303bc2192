//! The model file: a safetensors container with one JSON description and a checksum. Reading checks every part.

use super::agreement::check_predictions;
use super::arrays::{Array, Arrays, Checked, Checksum, Unusable, VERSION, name, restore};
use super::conformal::Conformal;
use super::fitted::Model;
use super::hyper_posterior::{HyperPlace, HyperPoint};
use super::latent::LatentPrior;
use super::posterior::{Factors, Posterior, Roots};
use super::summary::{BetaCurve, FitSummary, Search};
use super::{grouped, nearby};
use crate::data::Scaling;
use crate::effects::Effects;
use crate::error::{Error, Result};
use crate::files::{AtomicFile, open_input};
use crate::hyper::ValueSettings;
use crate::latent::{FeatureLayer, InducingPrior, Jitter, Layer, LinearLayer, RawFeatures};
use crate::likelihood::{LikelihoodKind, Mixed, ObservationModel, Task};
use crate::options::FitOptions;
use crate::registry::Registry;
use crate::variational::{Matrix, MatrixRef, Normal};
use safetensors::tensor::{SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sparsegp_kernels::{Dimension, Parameter};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The name of the format in the metadata of a file.
const FORMAT: &str = "sparsegp-model";

/// The first eight bytes of a file of several models. A file of one model begins with the length of its header, which is never that large.
#[doc(hidden)]
pub const SEVERAL: &[u8; 8] = b"sgp-many";

/// The longest header that is read: far more than any model needs, far less than the memory of a machine.
const LONGEST_HEADER: u64 = 64 << 20;

/// The maximum number of levels of a categorical column. Some kernels allocate memory for each level, so a damaged file could exhaust it.
const MOST_LEVELS: usize = 1 << 20;

/// Keys of the container's metadata.
mod key {
    pub(crate) const FORMAT: &str = "format";
    pub(crate) const VERSION: &str = "version";
    pub(crate) const MODEL: &str = "model";
    pub(crate) const CHECKSUM: &str = "sha256";
}

/// The contents of a model file except the arrays.
#[derive(Serialize, Deserialize)]
struct Description {
    program: String,
    task: Task,
    #[serde(flatten)]
    layer: LayerDescription,
    likelihood: String,
    levels: usize,
    likelihood_parameters: Vec<Parameter>,
    /// True if the likelihood observes a mixture of the processes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    mixes: bool,
    #[serde(default, rename = "overlay")]
    settings: ValueSettings,
    /// The terms of grouped effects and their factors.
    #[serde(default, skip_serializing_if = "Effects::is_empty")]
    effects: Effects,
    /// The layers after the first, if every latent process has its own layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more_layers: Vec<LayerDescription>,
    log_det_q: f64,
    /// The values of `log_det_q` for the processes after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more_log_det_q: Vec<f64>,
    training_rows: usize,
    /// The variance of the trained constant mean, a lower bound on the variance of f.
    #[serde(default)]
    mean_variance: f64,
    /// The number of neighbours per prediction, if the model keeps training rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    neighbours: Option<usize>,
    /// The columns of the table that the model was fitted to, if any; the crate for tables interprets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
    scaling: Scaling,
    #[serde(deserialize_with = "crate::options::of_model")]
    options: FitOptions,
    summary: FitSummary,
    #[serde(default)]
    beta_curve: Option<BetaCurve>,
    #[serde(default)]
    search: Search,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hyper_points: Vec<HyperPlace>,
    /// The scores of held-out rows, if predictions are calibrated by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conformal: Option<Conformal>,
}

/// The layer without its arrays.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LayerDescription {
    /// A sparse GP.
    Inducing {
        kernel: String,
        kernel_parameters: Vec<Parameter>,
        mean: Parameter,
        fix_inducing: bool,
        jitter: Jitter,
    },
    /// Features of another approximation, with their parameters and then the means, and the number of their constants.
    Features { features: String, feature_parameters: Vec<Parameter>, constants: usize },
    /// A linear model with independent coefficients.
    Linear { intercept: bool },
}

impl Model {
    /// Writes the model; the file appears complete or not at all.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        AtomicFile::write_all_to(path, &self.to_bytes()?)
    }

    /// Reads a model file. It predicts the same as the saved model, bit for bit. If the model was fitted to a table, its inputs are
    /// the numbers that the columns were coded as.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a model file, has another version of the format, or is damaged.
    pub fn load(path: &Path) -> Result<Model> {
        Model::load_with(path, &Registry::default())
    }

    /// Like [`Model::load`], for a model with a custom kernel or likelihood, which `registry` contains by name.
    ///
    /// # Errors
    ///
    /// As for [`Model::load`].
    pub fn load_with(path: &Path, registry: &Registry) -> Result<Model> {
        let (name, bytes) = read_model_file(path)?;
        Model::from_bytes_with(&name, &bytes, registry).map(|(model, _)| model)
    }

    /// Returns the bytes of a model file.
    ///
    /// # Errors
    ///
    /// If the model contains numbers that are not finite.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.to_bytes_with(None)
    }

    /// Returns the bytes of a model file that also describes the columns from which the inputs were coded.
    ///
    /// # Errors
    ///
    /// As for [`Model::to_bytes`].
    #[doc(hidden)]
    pub fn to_bytes_with(&self, schema: Option<Value>) -> Result<Vec<u8>> {
        let failed =
            |error: &dyn std::fmt::Display| Error::fit(format!("the model cannot be saved: {error}"));
        let model = serde_json::to_string(&self.description(schema)).map_err(|error| failed(&error))?;
        let arrays = self.arrays();
        let mut digest = Checksum::new(&model);
        let mut views = Vec::with_capacity(arrays.len());
        for array in &arrays {
            digest.add(&array.name, &array.shape, &array.bytes);
            let view = TensorView::new(array.dtype, array.shape.clone(), &array.bytes);
            views.push((array.name.as_str(), view.map_err(|error| failed(&error))?));
        }
        let metadata = HashMap::from([
            (key::FORMAT.to_owned(), FORMAT.to_owned()),
            (key::VERSION.to_owned(), VERSION.to_string()),
            (key::MODEL.to_owned(), model),
            (key::CHECKSUM.to_owned(), digest.finish()),
        ]);
        safetensors::serialize(views, Some(metadata)).map_err(|error| failed(&error))
    }

    /// Reads the bytes of a model file; messages call it `name`. Damaged bytes cause an error, never a panic.
    ///
    /// # Errors
    ///
    /// As for [`Model::load`].
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Model> {
        Model::from_bytes_with(name, bytes, &Registry::default()).map(|(model, _)| model)
    }

    /// Like [`Model::from_bytes`], for a model with kernels and likelihoods that `registry` contains by name. Returns the model and the
    /// description of its columns, if the file contains one.
    ///
    /// # Errors
    ///
    /// As for [`Model::load`].
    pub fn from_bytes_with(name: &str, bytes: &[u8], registry: &Registry) -> Result<(Model, Option<Value>)> {
        read(bytes, registry).map_err(|why| why.about(name))
    }

    fn description(&self, schema: Option<Value>) -> Description {
        let described = |layer: &Layer<InducingPrior>| match (layer.inducing(), layer.feature_layer()) {
            (Some(layer), _) => {
                let mut kernel_parameters = Vec::new();
                layer.kernel().for_each_parameter(&mut |p| kernel_parameters.push(p.clone()));
                LayerDescription::Inducing {
                    kernel: layer.kernel().expression(),
                    kernel_parameters,
                    mean: layer.mean().clone(),
                    fix_inducing: self.latent.fix_inducing,
                    jitter: layer.jitter(),
                }
            }
            (None, Some(layer)) => {
                let mut feature_parameters = Vec::new();
                layer.for_each_parameter(&mut |p| feature_parameters.push(p.clone()));
                let (features, constants) = (layer.map.name().to_owned(), layer.map.constants().len());
                LayerDescription::Features { features, feature_parameters, constants }
            }
            (None, None) => {
                LayerDescription::Linear { intercept: layer.linear().is_some_and(LinearLayer::has_intercept) }
            }
        };
        let mut likelihood_parameters = Vec::new();
        self.latent.likelihood.for_each_parameter(&mut |p| likelihood_parameters.push(p.clone()));
        let mut summary = self.summary.clone();
        // JSON cannot store numbers that are not finite.
        summary.trace.retain(|record| record.objective.is_finite());
        Description {
            program: self.program.clone(),
            task: self.latent.likelihood.target_kind().task(),
            layer: described(self.latent.layer()),
            effects: self.latent.effects.clone(),
            more_layers: self.latent.layers[1..].iter().map(described).collect(),
            likelihood: self.latent.likelihood.name().to_owned(),
            levels: self.latent.likelihood.levels(),
            likelihood_parameters,
            mixes: self.latent.likelihood.output(0).is_some(),
            settings: self.latent.settings.clone(),
            log_det_q: self.q[0].log_det(),
            more_log_det_q: self.q[1..].iter().map(Normal::log_det).collect(),
            training_rows: self.rows,
            mean_variance: self.posterior.mean_variance,
            neighbours: self.posterior.neighbours().map(|nearby| nearby.count()),
            schema,
            scaling: self.scaling.clone(),
            options: self.options.clone(),
            summary,
            beta_curve: self.beta_curve.clone(),
            search: self.search.clone(),
            hyper_points: self.hyper_points.iter().map(|point| point.place.clone()).collect(),
            conformal: self.conformal.as_deref().cloned(),
        }
    }

    /// The arrays, in the order of their names.
    fn arrays(&self) -> Vec<Array> {
        let mut arrays = Vec::new();
        let several = self.latent.layers.len() > 1;
        for (index, layer) in self.latent.layers.iter().enumerate() {
            let named = |name: &str| name::of(name, index, several);
            arrays.extend(layer.inducing().map(|layer| Array::matrix(named(name::INDUCING), layer.z())));
            let constants = layer.feature_layer().map_or(Vec::new(), |layer| layer.map.constants());
            let stored = constants.iter().enumerate();
            arrays.extend(
                stored.map(|(at, constant)| Array::matrix(named(&name::constant(at)), constant.as_ref())),
            );
            let Some(layer) = layer.linear() else { continue };
            arrays.extend(layer.basis().map(|basis| Array::matrix(named(name::BASIS), basis)));
            let deviations = layer.prior_deviations().unwrap_or_default();
            arrays.push(Array::vector(named(name::DEVIATIONS), deviations));
            arrays.push(Array::vector(named(name::PRIOR_MEAN), &layer.prior_mean));
        }
        for (index, (q, factors)) in self.q.iter().zip(&self.posterior.factors).enumerate() {
            let named = |name: &str| name::of(name, index, self.q.len() > 1);
            let Factors { weights, roots } = factors;
            arrays.push(match q.cov() {
                MatrixRef::Full(cov) => Array::matrix(named(name::COVARIANCE), cov),
                MatrixRef::Diagonal(variances) => Array::vector(named(name::COVARIANCE), variances),
            });
            arrays.push(Array::vector(named(name::MEAN), q.mean()));
            arrays.extend(roots.increase.as_ref().map(|root| Array::root(named(name::INCREASE), root)));
            arrays.extend(roots.reduction.as_ref().map(|root| Array::root(named(name::REDUCTION), root)));
            arrays.push(Array::vector(named(name::WEIGHTS), weights));
        }
        if let Some(nearby) = self.posterior.neighbours() {
            let (x, y) = nearby.data();
            arrays.push(Array::matrix(name::NEIGHBOUR_INPUTS, x).rounded(nearby.is_single()));
            arrays.push(Array::vector(name::NEIGHBOUR_TARGETS, y).rounded(nearby.is_single()));
            let noise = nearby.noise().map(|noise| Array::vector(name::NEIGHBOUR_NOISE, noise));
            arrays.extend(noise.map(|noise| noise.rounded(nearby.is_single())));
        }
        arrays.extend((0..self.q.len()).flat_map(|process| grouped::arrays(&self.posterior, process)));
        arrays.extend(self.hyper_points.iter().enumerate().flat_map(|(at, point)| point.arrays(at)));
        arrays.sort_by(|a, b| a.name.cmp(&b.name));
        arrays
    }
}

/// Reads the bytes of a model file. Returns the name of the file for messages, and the bytes.
///
/// # Errors
///
/// If the file cannot be read, or if its first bytes show that it is not a file of one model.
#[doc(hidden)]
pub fn read_model_file(path: &Path) -> Result<(String, Vec<u8>)> {
    let name = path.display().to_string();
    let unreadable = |error: std::io::Error| Error::data(format!("{name}: cannot be read: {error}"));
    let mut file = open_input(path, &name)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let mut start = Vec::with_capacity(8);
    (&mut file).take(8).read_to_end(&mut start).map_err(unreadable)?;
    // The first bytes reveal a file of another kind, which may be too large for the memory.
    check_start(&start, length).map_err(|why| why.about(&name))?;
    let mut bytes = start;
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok((name, bytes))
}

/// Checks the first eight bytes, which hold the length of the header.
fn check_start(bytes: &[u8], length: u64) -> Checked<()> {
    let header = <[u8; 8]>::try_from(bytes).map(u64::from_le_bytes).map_err(|_| Unusable::Foreign)?;
    if bytes == SEVERAL {
        return Err(Unusable::Several);
    }
    if header > LONGEST_HEADER {
        return Err(Unusable::Foreign);
    }
    Unusable::unless(header.saturating_add(8) <= length, "it ends within its header")
}

fn read(bytes: &[u8], registry: &Registry) -> Checked<(Model, Option<Value>)> {
    check_start(bytes.get(..8).unwrap_or(bytes), bytes.len() as u64)?;
    let header = SafeTensors::read_metadata(bytes);
    // The header is read before the arrays because it determines the error message: a file whose
    // header is unreadable may not be a model file at all.
    let (_, header) = header.map_err(|error| match error {
        safetensors::SafeTensorError::MetadataIncompleteBuffer => {
            Unusable::damaged("its length differs from the length in its header")
        }
        _ => Unusable::Foreign,
    })?;
    let metadata = header.metadata().as_ref().ok_or(Unusable::Foreign)?;
    let entry =
        |name: &str| metadata.get(name).ok_or_else(|| Unusable::damaged(format!("its header has no {name}")));
    if metadata.get(key::FORMAT).map(String::as_str) != Some(FORMAT) {
        return Err(Unusable::Foreign);
    }
    let version = entry(key::VERSION)?;
    if *version != VERSION.to_string() {
        return Err(Unusable::OtherVersion(version.clone()));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(Unusable::damaged)?;
    let description = entry(key::MODEL)?;
    let mut names = tensors.names();
    names.sort_unstable();
    let mut digest = Checksum::new(description);
    for name in names {
        let tensor = tensors.tensor(name).map_err(Unusable::damaged)?;
        digest.add(name, tensor.shape(), tensor.data());
    }
    let intact = digest.finish() == *entry(key::CHECKSUM)?;
    Unusable::unless(intact, "its checksum does not match its contents")?;
    let mut description = described(description, registry)?;
    let schema = description.schema.take();
    let model = assemble(description, &Arrays { tensors }, registry)?;
    check_predictions(&model)?;
    Ok((model, schema))
}

/// The description of a model, with a likelihood that the registry knows.
fn described(text: &str, registry: &Registry) -> Checked<Description> {
    let mut value: Value = serde_json::from_str(text).map_err(Unusable::damaged)?;
    // The options may name a custom likelihood, which only the registry can resolve, so its name is taken out before they are read.
    let named = value.pointer_mut("/options/likelihood").map(Value::take);
    let mut description: Description = serde_json::from_value(value).map_err(Unusable::damaged)?;
    let kind = kind_of(&description, registry)?;
    description.options.likelihood = named.filter(|named| !named.is_null()).map(|_| kind);
    description.options.registry = registry.clone();
    Ok(description)
}

/// Builds a model from its parts, after checking that they match.
fn assemble(description: Description, arrays: &Arrays<'_>, registry: &Registry) -> Checked<Model> {
    let dims = checked_inputs(&description)?;
    let several = !description.more_layers.is_empty();
    let described = std::iter::once(&description.layer).chain(&description.more_layers).enumerate();
    let layers = described.map(|(index, described)| {
        let about = Inputs { dims, dimensions: &description.options.dimensions, registry };
        layer(described, &|name| name::of(name, index, several), arrays, about)
    });
    let (layers, fixed): (Vec<Layer<_>>, Vec<bool>) =
        layers.collect::<Checked<Vec<_>>>()?.into_iter().unzip();
    let likelihood = likelihood(&description, registry)?;
    let functions = likelihood.functions();
    let suits = |layer: &Layer<InducingPrior>, functions: usize| {
        layer.mean().is_none_or(|mean| mean.values.len() == functions)
    };
    let shared = layers.len() == 1 && suits(&layers[0], functions);
    let separate = layers.len() == functions && layers.iter().all(|layer| suits(layer, 1));
    Unusable::unless(shared || separate, "its layers do not match the latent functions of its likelihood")?;
    let mut latent = LatentPrior::of_layers(layers, likelihood, fixed[0]);
    latent.effects = description.effects.clone();
    let suits = description.settings.suits(&latent.descriptors());
    Unusable::unless(suits, "its settings of hyper-parameters do not match its hyper-parameters")?;
    latent.settings = description.settings.clone();
    let levels = latent.effects.terms().first().map_or(0, |term| term.levels);
    let suits = description.conformal.as_ref().is_none_or(|scores| scores.is_valid(levels));
    Unusable::unless(suits, "its conformal scores are not ascending numbers of 0 or more")?;
    let (q, factors) = posteriors(&description, &latent, arrays)?;
    // NaN and negative numbers of a damaged file are no bound.
    let bound = description.mean_variance.max(0.0);
    let mut posterior = Posterior::from_factors(&latent, factors).with_mean_variance(bound);
    if !latent.effects.is_empty() {
        posterior = grouped::beside(posterior, &latent, &q, arrays)?;
    }
    if let Some(count) = description.neighbours {
        posterior = nearby::beside(posterior, &latent, &q, count, arrays)?;
    }
    let hyper_points = HyperPoint::read(description.hyper_points, (&latent, bound), arrays)?;
    Ok(Model {
        hyper_points: Arc::new(hyper_points),
        scaling: description.scaling,
        options: description.options,
        summary: description.summary,
        rows: description.training_rows,
        program: description.program,
        beta_curve: description.beta_curve,
        search: description.search,
        conformal: description.conformal.map(Arc::new),
        latent,
        q,
        posterior,
    })
}

/// Returns the number of inputs of the model without the columns of grouped effects, after checks of all that describes inputs.
fn checked_inputs(description: &Description) -> Checked<usize> {
    let effects = &description.effects;
    let columns = effects.columns();
    let intervals = description.summary.effects.as_ref().is_none_or(|known| known.fits(effects));
    let agree = *effects.terms() == description.options.effects
        && effects.is_consistent(columns, 1 + description.more_layers.len());
    Unusable::unless(agree && intervals, "its grouped effects contradict each other")?;
    let scaling = &description.scaling;
    let fewer = || Unusable::damaged("it has fewer inputs than its grouped effects have columns");
    let dims = scaling.dims().checked_sub(columns + scaling.offsets().columns()).ok_or_else(fewer)?;
    let positive = scaling.inputs.iter().chain([&scaling.target]).all(|affine| affine.scale > 0.0);
    Unusable::unless(positive, "the scale of a column is not above 0")?;
    Unusable::unless(scaling.is_consistent(), "its warps do not match its number of inputs")?;
    let known = &description.options.dimensions;
    let described = known.is_empty() || known.len() == dims;
    Unusable::unless(described, "its list of kinds of inputs does not match its number of inputs")?;
    let few = known.iter().all(|of| of.levels() <= MOST_LEVELS);
    Unusable::unless(few, &format!("a column has more than {MOST_LEVELS} levels"))?;
    Ok(dims)
}

/// Returns the posterior q of every process, and the factors from which its predictions are
/// computed.
fn posteriors(
    description: &Description,
    latent: &LatentPrior,
    arrays: &Arrays<'_>,
) -> Checked<(Vec<Normal>, Vec<Factors>)> {
    let layers = latent.layers();
    let matched = description.more_log_det_q.len() + 1 == layers.processes();
    Unusable::unless(matched, "its posteriors do not match the latent functions of its likelihood")?;
    let log_dets = std::iter::once(&description.log_det_q).chain(&description.more_log_det_q);
    let one = |(process, &log_det): (usize, &f64)| {
        let named = |name: &str| name::of(name, process, layers.processes() > 1);
        let m = layers.get(layers.of(process)).dim();
        let covariance = named(name::COVARIANCE);
        let cov = match arrays.shape(&covariance)?.len() {
            1 => Matrix::Diagonal(arrays.values(&covariance, &[m])?),
            _ => Matrix::Full(arrays.matrix(&covariance, m, m)?),
        };
        let q = Normal { mean: arrays.values(&named(name::MEAN), &[m])?, cov, log_det };
        let (reduction, increase) =
            (arrays.root(&named(name::REDUCTION), m)?, arrays.root(&named(name::INCREASE), m)?);
        let weights = arrays.values(&named(name::WEIGHTS), &[m])?;
        Ok((q, Factors { weights, roots: Roots { reduction, increase } }))
    };
    Ok(log_dets.enumerate().map(one).collect::<Checked<Vec<_>>>()?.into_iter().unzip())
}

/// The inputs of a layer.
struct Inputs<'a> {
    dims: usize,
    dimensions: &'a [Dimension],
    registry: &'a Registry,
}

/// Returns the layer, and true if its inducing inputs are fixed.
fn layer(
    description: &LayerDescription,
    named: &dyn Fn(&str) -> String,
    arrays: &Arrays<'_>,
    Inputs { dims, dimensions, registry }: Inputs<'_>,
) -> Checked<(Layer<InducingPrior>, bool)> {
    match description {
        LayerDescription::Inducing { kernel, kernel_parameters, mean, fix_inducing, jitter } => {
            let mut kernel = registry.grammar().parse(kernel, dims).map_err(|error| match error.unknown {
                Some(name) => Unusable::Unknown(format!("the kernel '{name}'")),
                None => Unusable::damaged(error),
            })?;
            kernel.set_dimensions(dimensions).map_err(Unusable::damaged)?;
            restore(kernel_parameters, &mut |visit| kernel.for_each_parameter_mut(visit))?;
            let inducing = named(name::INDUCING);
            let m = arrays.shape(&inducing)?.first().copied().unwrap_or(0);
            let z = arrays.matrix(&inducing, m, dims)?;
            let mut layer = InducingPrior::new(kernel, z, *jitter).map_err(Unusable::damaged)?;
            if mean.values.len() > 1 {
                layer = layer.with_means(vec![0.0; mean.values.len()], mean.fixed);
            }
            restore(std::slice::from_ref(mean), &mut |visit| visit(layer.mean_mut()))?;
            Ok((layer.into(), *fix_inducing))
        }
        LayerDescription::Features { features, feature_parameters, constants } => {
            let constants = (0..*constants).map(|at| {
                let constant = named(&name::constant(at));
                match arrays.shape(&constant)?[..] {
                    [rows, columns] => arrays.matrix(&constant, rows, columns),
                    _ => Err(Unusable::damaged(format!("array {constant} is not a matrix"))),
                }
            });
            let constants = constants.collect::<Checked<Vec<_>>>()?;
            let map = registry.features(features, &constants);
            let unknown = || Unusable::Unknown(format!("the features '{features}'"));
            let map = map.ok_or_else(unknown)?.map_err(Unusable::damaged)?;
            Unusable::unless(map.inputs() == dims, "its features have another number of inputs")?;
            let means = feature_parameters.last().map_or(0, |mean| mean.values.len());
            let mut layer = FeatureLayer::new(map, vec![0.0; means], false);
            restore(feature_parameters, &mut |visit| layer.for_each_parameter_mut(visit))?;
            Ok((layer.into(), true))
        }
        LayerDescription::Linear { intercept } => {
            let p = dims + usize::from(*intercept);
            let deviations = arrays.values(&named(name::DEVIATIONS), &[p])?;
            let variances: Vec<f64> = deviations.iter().map(|d| d * d).collect();
            let means = arrays.values(&named(name::PRIOR_MEAN), &[p])?;
            // This call only checks the values. The layer takes the deviations as stored: √(d²) may differ from d in the last bit.
            LinearLayer::independent(&means, &variances).map_err(Unusable::damaged)?;
            let mut layer = LinearLayer::with_deviations(means, deviations);
            if *intercept {
                layer = layer.with_intercept();
            }
            let basis = named(name::BASIS);
            if arrays.has(&basis) {
                let rank = arrays.shape(&basis)?.get(1).copied().unwrap_or(0);
                let basis = arrays.matrix(&basis, p, rank)?;
                layer = layer.with_basis(basis).map_err(Unusable::damaged)?;
            }
            Ok((layer.into(), true))
        }
    }
}

fn kind_of(description: &Description, registry: &Registry) -> Checked<LikelihoodKind> {
    let name = &description.likelihood;
    registry.likelihood_kind(name).ok_or_else(|| Unusable::Unknown(format!("the likelihood '{name}'")))
}

fn likelihood(description: &Description, registry: &Registry) -> Checked<ObservationModel> {
    // The likelihood allocates memory for each level, so the number is checked first: each level
    // beyond two has a parameter or a posterior.
    let values: usize = description.likelihood_parameters.iter().map(|stored| stored.values.len()).sum();
    let values = values.saturating_add(description.more_log_det_q.len());
    let kind = kind_of(description, registry)?;
    let allowed = description.levels <= values.saturating_add(2);
    Unusable::unless(allowed, "it has more levels than its parameters allow")?;
    let mut likelihood = registry.likelihood(kind, description.levels).map_err(Unusable::damaged)?;
    if description.mixes {
        let one = likelihood.one().map(|one| one.boxed_clone()).ok_or_else(|| {
            Unusable::damaged("it mixes processes for a likelihood that takes several functions")
        })?;
        let weights = vec![0.0; description.more_log_det_q.len() + 1];
        likelihood = Mixed::new(one, weights, 0.0).into();
    }
    restore(&description.likelihood_parameters, &mut |visit| likelihood.for_each_parameter_mut(visit))?;
    Ok(likelihood)
}
