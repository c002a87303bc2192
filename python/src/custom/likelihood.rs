//! Likelihoods whose density a Python object computes. Expectations use the quadrature of the engine, with
//! arrays of nodes.

use super::{Own, add, keywords, parameters, set};
use crate::convert::LentVector;
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use sparsegp::kernels::Parameter;
use sparsegp::likelihood::{
    LatentMarginal, LatentRow, LikelihoodKind, Observation, OneFunction, Row, RowNodes, TargetKind,
};
use sparsegp::quadrature::{Integrator, Resolution};
use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub struct CustomLikelihood {
    own: Arc<Own>,
    kind: TargetKind,
    parameters: Vec<Parameter>,
    width: Width,
    samples: bool,
}

/// The distance in f over which the log density changes its shape.
#[derive(Clone, Copy)]
enum Width {
    Number(f64),
    /// The value of this parameter.
    Parameter(usize),
}

impl CustomLikelihood {
    pub fn new(object: &Bound<'_, PyAny>, own: Arc<Own>) -> PyResult<CustomLikelihood> {
        let target: String = object.getattr("target")?.extract()?;
        let kind = match target.as_str() {
            "real" => TargetKind::Real,
            "positive" => TargetKind::Positive,
            "unit interval" => TargetKind::UnitInterval,
            "count" => TargetKind::Count,
            "binary" => TargetKind::Binary,
            other => return Err(PyValueError::new_err(format!("target is '{other}'"))),
        };
        let parameters = parameters(object, 1)?;
        let width = object.getattr("width")?;
        let width = match width.extract::<String>() {
            Ok(name) => {
                let place = parameters.iter().position(|parameter| parameter.name == name);
                Width::Parameter(place.ok_or_else(|| PyValueError::new_err(format!("width is '{name}'")))?)
            }
            Err(_) => Width::Number(width.extract()?),
        };
        let samples = object.call_method0("_samples")?.extract()?;
        Ok(CustomLikelihood { own, kind, parameters, width, samples })
    }

    /// Returns the parameters as keyword arguments, with the exposure of counts.
    fn keywords<'py>(&self, py: Python<'py>, exposure: f64) -> PyResult<Bound<'py, PyDict>> {
        let values = keywords(py, &self.parameters)?;
        if self.kind == TargetKind::Count {
            values.set_item("exposure", exposure)?;
        }
        Ok(values)
    }

    /// Returns the targets of many nodes as an array, and the parameters as keyword arguments with an
    /// exposure for each node.
    fn arguments<'py>(
        &self,
        py: Python<'py>,
        rows: &[Observation<'_>],
        ends: &[usize],
    ) -> PyResult<Many<'py>> {
        let each = |value: fn(&Observation<'_>) -> f64| {
            let mut values = Vec::with_capacity(ends.last().copied().unwrap_or(0));
            rows.iter().zip(ends).for_each(|(row, &end)| values.resize(end, value(row)));
            PyArray1::from_vec(py, values)
        };
        let values = keywords(py, &self.parameters)?;
        if self.kind == TargetKind::Count {
            values.set_item("exposure", each(|row| row.exposure))?;
        }
        Ok((each(|row| row.y), values))
    }

    /// Returns the number that a method of the object returns.
    fn number(&self, method: &str, at: Observation, f: f64) -> f64 {
        let found = self.own.call(|object| {
            let values = self.keywords(object.py(), at.exposure)?;
            object.call_method1(method, (at.y, f, values))?.extract()
        });
        found.unwrap_or(f64::NAN)
    }

    /// Returns the means and variances of y at every f.
    fn moments(&self, at: Observation, f: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        self.own.call(|object| {
            let py = object.py();
            let arguments = (PyArray1::from_slice(py, f), self.keywords(py, at.exposure)?);
            let found = object.call_method1("_moments", arguments)?;
            let (means, variances): (LentVector<'_>, LentVector<'_>) = found.extract()?;
            Ok((means.as_array().to_vec(), variances.as_array().to_vec()))
        })
    }

    /// Returns `P(Y ≤ at.y | f)` at every f.
    fn distribution(&self, at: Observation, f: &[f64]) -> Option<Vec<f64>> {
        self.own.call(|object| {
            let py = object.py();
            let arguments = (at.y, PyArray1::from_slice(py, f), self.keywords(py, at.exposure)?);
            let found: LentVector<'_> = object.call_method1("_cdf", arguments)?.extract()?;
            Ok(found.as_array().to_vec())
        })
    }
}

/// Targets and keyword arguments of a call for many rows.
type Many<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyDict>);

/// Returns the nodes at which an average over f needs values.
fn nodes(integrator: &mut Integrator, latent: LatentMarginal, strip: f64) -> Vec<f64> {
    let mut nodes = Vec::new();
    integrator.average(latent.mean, latent.variance, strip, &mut |f| {
        nodes.push(f);
        0.0
    });
    nodes
}

/// Returns the average over f of a function with these values at the nodes.
fn average(integrator: &mut Integrator, latent: LatentMarginal, strip: f64, values: &[f64]) -> f64 {
    let mut values = values.iter();
    integrator
        .average(latent.mean, latent.variance, strip, &mut |_| values.next().copied().unwrap_or(f64::NAN))
}

impl fmt::Debug for CustomLikelihood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.own.name).field("parameters", &self.parameters).finish()
    }
}

impl OneFunction for CustomLikelihood {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::new(self.own.name, self.kind)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        self.log_densities(RowNodes { rows: &[at], ends: &[f.len()], f }, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        self.number("_curvature", at, f)
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        self.own_gradients(RowNodes { rows: &[at], ends: &[f.len()], f }, weights, own);
    }

    /// A call into Python takes as long as some hundred nodes, so calls with many rows are preferred.
    fn prefers_many_rows(&self) -> bool {
        true
    }

    fn log_densities(&self, nodes: RowNodes<'_>, value: &mut [f64], first: &mut [f64]) {
        self.own.fill([value, first], set, |object| {
            let (y, values) = self.arguments(object.py(), nodes.rows, nodes.ends)?;
            let arguments = (y, PyArray1::from_slice(object.py(), nodes.f), values);
            let (value, slope) = object.call_method1("_value_and_slope", arguments)?.extract()?;
            Ok([value, slope])
        });
    }

    fn own_gradients(&self, nodes: RowNodes<'_>, weights: &[f64], own: &mut [f64]) {
        if own.is_empty() {
            return;
        }
        self.own.fill([own], add, |object| {
            let py = object.py();
            let (y, values) = self.arguments(py, nodes.rows, nodes.ends)?;
            let (f, weights) = (PyArray1::from_slice(py, nodes.f), PyArray1::from_slice(py, weights));
            Ok([object.call_method1("_own_gradient", (y, f, weights, values))?.extract()?])
        });
    }

    fn peaks(&self, rows: &[Observation<'_>], out: &mut [f64]) {
        self.own.fill([out], set, |object| {
            let ends: Vec<usize> = (1..=rows.len()).collect();
            Ok([object.call_method1("_peaks", self.arguments(object.py(), rows, &ends)?)?.extract()?])
        });
    }

    /// The log density is never declared concave, because ranges are then found with arrays of nodes.
    fn resolution(&self, _: Observation) -> Resolution {
        let width = match self.width {
            Width::Number(width) => width,
            Width::Parameter(place) => self.parameters[place].values[0],
        };
        Resolution { strip: width, step: 0.3 * width, concave: false, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        self.number("_peak", at, 0.0)
    }

    /// Returns the peak under a wide normal prior, because the peak of the density alone may be at infinity.
    fn working_response(&self, at: Observation) -> f64 {
        self.number("_peak", at, 0.1)
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        self.moments(at, &[f]).map_or((f64::NAN, f64::NAN), |(mean, variance)| (mean[0], variance[0]))
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        self.distribution(at, &[f]).map_or(f64::NAN, |found| found[0])
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        if self.samples {
            let seed = random.next_u64();
            let found = self.own.call(|object| {
                object.call_method1("_sample", (f, seed, self.keywords(object.py(), at.exposure)?))?.extract()
            });
            return found.unwrap_or(f64::NAN);
        }
        // The middle of one of 2⁵³ equal intervals, which is neither 0 nor 1.
        let p = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        self.predictive_quantile(p, Row::new(at, LatentMarginal::new(f, 0.0)), &mut Integrator::default())
    }

    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        let Row { at, marginal: latent } = row;
        let strip = self.resolution(at).strip;
        let nodes = nodes(integrator, latent, strip);
        let Some((means, variances)) = self.moments(at, &nodes) else { return (f64::NAN, f64::NAN) };
        let mean = average(integrator, latent, strip, &means);
        let second = |(m, v): (&f64, &f64)| v + (m - mean) * (m - mean);
        let second: Vec<f64> = means.iter().zip(&variances).map(second).collect();
        (mean, average(integrator, latent, strip, &second))
    }

    fn predictive_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let Row { at, marginal: latent } = row;
        let strip = self.cdf_strip(at);
        let nodes = nodes(integrator, latent, strip);
        let Some(values) = self.distribution(at, &nodes) else { return f64::NAN };
        average(integrator, latent, strip, &values).clamp(0.0, 1.0)
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        let found = self.own.call(|object| {
            let py = object.py();
            let (y, exposure) = (PyArray1::from_slice(py, y), PyArray1::from_slice(py, exposure));
            let found = object.call_method1("_start", (y, exposure, keywords(py, &self.parameters)?))?;
            found.extract::<(f64, Vec<(String, Vec<f64>)>)>()
        });
        let Some((centre, starts)) = found else { return 0.0 };
        for parameter in &mut self.parameters {
            if let Some((_, values)) = starts.iter().find(|(name, _)| *name == parameter.name) {
                parameter.start(|i| values[i % values.len()]);
            }
        }
        centre
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.parameters.iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.parameters.iter_mut().for_each(visit);
    }
}
