//! The map between named natural parameters and the free, unconstrained vector an optimiser sees; no solver.

use sparsegp_kernels::{Parameter, Prior, Transform};

/// One natural value as an optimiser needs to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// The full name, such as `kernel.lengthscales.0`.
    pub name: String,
    /// The transform to the unconstrained space.
    pub transform: Transform,
    /// The prior on the natural value.
    pub prior: Option<Prior>,
    /// Whether training leaves it alone.
    pub fixed: bool,
    /// How far one unit of the free number goes in the transformed space. Solvers start from the identity as their idea
    /// of the curvature, so all free numbers should matter about equally.
    pub unit: f64,
}

impl Descriptor {
    /// Descriptors of all values of a parameter under `prefix`; `.0`, `.1`, … tell several values apart.
    pub fn of(prefix: &str, name: &str, parameter: &Parameter) -> Vec<Descriptor> {
        let count = parameter.values.len();
        (0..count)
            .map(|i| Descriptor {
                name: if count == 1 { format!("{prefix}.{name}") } else { format!("{prefix}.{name}.{i}") },
                transform: parameter.transform,
                prior: parameter.prior,
                fixed: parameter.fixed,
                unit: 1.0,
            })
            .collect()
    }
}

/// A free value: where it is in the natural vector, and how it is seen.
#[derive(Clone, Copy, Debug)]
struct Free {
    index: usize,
    transform: Transform,
    prior: Option<Prior>,
    unit: f64,
}

/// Which of the natural values are free, and how they are transformed.
#[derive(Clone, Debug)]
pub struct FreeVector {
    free: Vec<Free>,
}

impl FreeVector {
    /// The free entries among `descriptors`, which are in the order of the natural vector.
    pub fn new(descriptors: &[Descriptor]) -> Self {
        let free = descriptors.iter().enumerate().filter(|(_, d)| !d.fixed);
        let seen = |(index, d): (usize, &Descriptor)| Free {
            index,
            transform: d.transform,
            prior: d.prior,
            unit: d.unit,
        };
        FreeVector { free: free.map(seen).collect() }
    }

    /// The number of free entries.
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// Whether everything is fixed.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// The free vector of `natural`.
    pub fn pack(&self, natural: &[f64]) -> Vec<f64> {
        self.free.iter().map(|f| f.transform.inverse(natural[f.index]) / f.unit).collect()
    }

    /// Writes the free entries of `natural`, leaving the fixed ones.
    pub fn unpack(&self, theta: &[f64], natural: &mut [f64]) {
        for (f, &u) in self.free.iter().zip(theta) {
            natural[f.index] = f.transform.value(u * f.unit);
        }
    }

    /// Turns a gradient in natural units into one in the free vector, adds the priors' `−log p` to it, and returns
    /// `−Σ log p` (natural density, up to constants).
    pub fn pull_back(&self, natural: &[f64], natural_gradient: &[f64], out: &mut [f64]) -> f64 {
        let mut penalty = 0.0;
        for (f, out) in self.free.iter().zip(out) {
            let x = natural[f.index];
            let mut bar = natural_gradient[f.index];
            if let Some(prior) = f.prior {
                let (log_density, derivative) = prior.log_density(x);
                penalty -= log_density;
                bar -= derivative;
            }
            *out = bar * f.transform.derivative(x) * f.unit;
        }
        penalty
    }
}
