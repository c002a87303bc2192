//! Likelihoods whose density a Python object computes. Expectations use the quadrature of the engine, with
//! arrays of nodes.

use super::{Keywords, Own, Value, add, keywords, parameters, set};
use crate::convert::Vector;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
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
    fn keywords(&self, exposure: Value) -> Keywords<'_> {
        let mut values = keywords(&self.parameters);
        if self.kind == TargetKind::Count {
            values.0.push(("exposure", exposure));
        }
        values
    }

    /// Returns the targets of many nodes as an array, and the parameters as keyword arguments with an
    /// exposure for each node.
    fn arguments(&self, rows: &[Observation<'_>], ends: &[usize]) -> (Vector, Keywords<'_>) {
        let each = |value: fn(&Observation<'_>) -> f64| {
            let mut values = Vec::with_capacity(ends.last().copied().unwrap_or(0));
            rows.iter().zip(ends).for_each(|(row, &end)| values.resize(end, value(row)));
            Vector(values)
        };
        (each(|row| row.y), self.keywords(Value::Array(each(|row| row.exposure))))
    }

    /// Returns the number that a method of the object returns.
    fn number(&self, method: &str, at: Observation, f: f64) -> f64 {
        let arguments = (at.y, f, self.keywords(Value::Number(at.exposure)));
        self.own.call(|object| object.call_method1(method, arguments)?.extract()).unwrap_or(f64::NAN)
    }

    /// Returns the means and variances of y at every f.
    fn moments(&self, at: Observation, f: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        let arguments = (Vector(f.to_vec()), self.keywords(Value::Number(at.exposure)));
        let found = self.own.call(|object| object.call_method1("_moments", arguments)?.extract());
        found.map(|(means, variances): (Vector, Vector)| (means.0, variances.0))
    }

    /// Returns `P(Y ≤ at.y | f)` at every f.
    fn distribution(&self, at: Observation, f: &[f64]) -> Option<Vec<f64>> {
        let arguments = (at.y, Vector(f.to_vec()), self.keywords(Value::Number(at.exposure)));
        let found = self.own.call(|object| object.call_method1("_cdf", arguments)?.extract::<Vector>());
        found.map(|found| found.0)
    }
}

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
            let (y, values) = self.arguments(nodes.rows, nodes.ends);
            let arguments = (y, Vector(nodes.f.to_vec()), values);
            let (value, slope) = object.call_method1("_value_and_slope", arguments)?.extract()?;
            Ok([value, slope])
        });
    }

    fn own_gradients(&self, nodes: RowNodes<'_>, weights: &[f64], own: &mut [f64]) {
        if own.is_empty() {
            return;
        }
        self.own.fill([own], add, |object| {
            let (y, values) = self.arguments(nodes.rows, nodes.ends);
            let (f, weights) = (Vector(nodes.f.to_vec()), Vector(weights.to_vec()));
            Ok([object.call_method1("_own_gradient", (y, f, weights, values))?.extract()?])
        });
    }

    fn peaks(&self, rows: &[Observation<'_>], out: &mut [f64]) {
        self.own.fill([out], set, |object| {
            let ends: Vec<usize> = (1..=rows.len()).collect();
            Ok([object.call_method1("_peaks", self.arguments(rows, &ends))?.extract()?])
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
            let arguments = (f, random.next_u64(), self.keywords(Value::Number(at.exposure)));
            let found = self.own.call(|object| object.call_method1("_sample", arguments)?.extract());
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
        type Started = (f64, Vec<(String, Vec<f64>)>);
        let arguments = (Vector(y.to_vec()), Vector(exposure.to_vec()), keywords(&self.parameters));
        let found = self.own.call(|object| object.call_method1("_start", arguments)?.extract::<Started>());
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
