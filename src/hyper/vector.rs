//! The map between named natural parameters and the free, unconstrained vector an optimiser sees.

use sparsegp_kernels::{Parameter, Prior, Role, Transform};

/// One natural value, with what an optimiser needs to know about it.
#[derive(Clone, Debug, PartialEq)]
#[doc(hidden)]
pub struct Descriptor {
    /// The full name, such as `kernel.lengthscales.0`.
    pub name: String,
    /// The role of the parameter, and the index of the value in it.
    pub role: (Role, usize),
    /// The transform to the unconstrained space.
    pub transform: Transform,
    /// The prior on the natural value.
    pub prior: Option<Prior>,
    /// True if training keeps the value fixed.
    pub fixed: bool,
    /// The group of a tied value: all values of a group are one free number and have the same transform.
    pub tie: Option<usize>,
    /// The distance in the transformed space that one unit of the free number covers. Solvers start with the identity as the curvature, so
    /// all free numbers should matter about equally.
    pub unit: f64,
}

impl Descriptor {
    /// Descriptors of all values of a parameter under `prefix`; several values are numbered `.0`,
    /// `.1`, ….
    pub(crate) fn of(prefix: &str, name: &str, parameter: &Parameter) -> Vec<Descriptor> {
        let count = parameter.values.len();
        (0..count)
            .map(|i| Descriptor {
                name: if count == 1 { format!("{prefix}.{name}") } else { format!("{prefix}.{name}.{i}") },
                role: (parameter.role(), i),
                transform: parameter.transform,
                prior: parameter.prior,
                fixed: parameter.fixed,
                tie: None,
                unit: 1.0,
            })
            .collect()
    }

    /// Returns true if users can name the value: all except the inducing inputs.
    pub(crate) fn is_named(&self) -> bool {
        !self.name.split_inclusive('.').any(|part| part == INDUCING)
    }
}

/// The prefix of the names of inducing inputs, after the name of a function if each function has a layer.
pub(crate) const INDUCING: &str = "inducing.";

/// Returns the name of the parameter of a numbered value: `kernel.lengthscales` for
/// `kernel.lengthscales.3`. `None` for a parameter with one value.
#[doc(hidden)]
pub fn stem(name: &str) -> Option<&str> {
    let (stem, index) = name.rsplit_once('.')?;
    index.bytes().all(|digit| digit.is_ascii_digit()).then_some(stem)
}

/// A free number: its index in the natural vector, and its transform.
#[derive(Clone, Copy, Debug)]
struct Free {
    index: usize,
    transform: Transform,
    prior: Option<Prior>,
    unit: f64,
}

/// The free numbers that determine the natural values, with their transforms and ties.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct FreeVector {
    free: Vec<Free>,
    /// Further natural values that follow a free number: the index of the value, and the index of the free number.
    followers: Vec<(usize, usize)>,
}

impl FreeVector {
    /// Rounding may put a value on the edge of its range, where its free number is infinite. Such a value is moved inside by this distance,
    /// relative to the edge.
    const EDGE: f64 = 1e-9;

    /// Creates the free vector of `descriptors`, which are in the order of the natural vector. Tied
    /// values are one free number with the prior of the first value; if one of them is fixed, none
    /// is free.
    pub fn new(descriptors: &[Descriptor]) -> Self {
        let held: Vec<usize> = descriptors.iter().filter(|d| d.fixed).filter_map(|d| d.tie).collect();
        let mut leaders: Vec<(usize, usize)> = Vec::new();
        let (mut free, mut followers) = (Vec::new(), Vec::new());
        for (index, d) in descriptors.iter().enumerate() {
            if d.fixed || d.tie.is_some_and(|group| held.contains(&group)) {
                continue;
            }
            let leader = d.tie.and_then(|group| leaders.iter().find(|leader| leader.0 == group));
            match leader {
                Some(&(_, slot)) => followers.push((index, slot)),
                None => {
                    leaders.extend(d.tie.map(|group| (group, free.len())));
                    free.push(Free { index, transform: d.transform, prior: d.prior, unit: d.unit });
                }
            }
        }
        FreeVector { free, followers }
    }

    /// The number of free entries.
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// Returns true if everything is fixed.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the index of every free number in the natural vector.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.free.iter().map(|free| free.index)
    }

    /// The free vector of `natural`.
    pub fn pack(&self, natural: &[f64]) -> Vec<f64> {
        let free = |f: &Free| f.transform.inverse(f.transform.inside(natural[f.index], Self::EDGE)) / f.unit;
        self.free.iter().map(free).collect()
    }

    /// Writes the free entries of `natural`, leaving the fixed ones.
    pub fn unpack(&self, theta: &[f64], natural: &mut [f64]) {
        for (f, &u) in self.free.iter().zip(theta) {
            natural[f.index] = f.transform.value(u * f.unit);
        }
        self.follow(natural);
    }

    /// Writes the tied entries of `natural` that follow another.
    pub(crate) fn follow(&self, natural: &mut [f64]) {
        for &(index, slot) in &self.followers {
            natural[index] = natural[self.free[slot].index];
        }
    }

    /// `−Σ log p` over the free numbers with a prior (natural density, up to constants).
    pub fn penalty(&self, natural: &[f64]) -> f64 {
        let term = |f: &Free| Some(f.prior?.log_density(natural[f.index]).0);
        -self.free.iter().filter_map(term).sum::<f64>()
    }

    /// Returns [`FreeVector::penalty`] at a free vector; fixed values come from `natural`.
    pub(crate) fn penalty_at(&self, theta: &[f64], natural: &[f64]) -> f64 {
        let mut natural = natural.to_vec();
        self.unpack(theta, &mut natural);
        self.penalty(&natural)
    }

    /// Turns a gradient in natural units into one in the free vector, adds the priors' `−log p` to it, and returns
    /// `−Σ log p` (natural density, up to constants).
    pub fn pull_back(&self, natural: &[f64], natural_gradient: &[f64], out: &mut [f64]) -> f64 {
        for (f, out) in self.free.iter().zip(&mut *out) {
            *out = natural_gradient[f.index];
        }
        for &(index, slot) in &self.followers {
            out[slot] += natural_gradient[index];
        }
        for (f, out) in self.free.iter().zip(out) {
            let x = natural[f.index];
            let slope = f.prior.map_or(0.0, |prior| prior.log_density(x).1);
            *out = (*out - slope) * f.transform.derivative(x) * f.unit;
        }
        self.penalty(natural)
    }
}
