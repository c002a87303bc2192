//! A covariance between the levels of a category or the outputs of a table in long form.

use crate::dimension::{Dimension, DimensionError, any_category};
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch, expression_with};
use crate::parameter::{Parameter, Transform};
use crate::random_feature::{Chance, Line, RandomFeature};
use faer::{MatMut, MatRef};

/// `k(i, j) = (W Wᵀ + diag κ)_ij` between the levels of a category: a column of its codes, or one column for each level (Bonilla, Chai & Williams 2008; GPyTorch's
/// `IndexKernel`, GPflow's `Coregion`).
///
/// The level of a point is the column with its largest positive value. For one-hot codes,
/// standardised or not, that is the column of the level. A point without a positive value counts as
/// a new level: it has the mean variance of all levels and no covariance with any other point.
/// Values depend on the points in no other way, so gradients in the points are 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Coregion {
    rank: usize,
    /// The matrix W, level after level.
    weights: Parameter,
    /// The vector κ, one variance for each level.
    variances: Parameter,
    dimensions: Vec<Dimension>,
}

impl Coregion {
    /// Creates a kernel for `levels` levels, with W of `rank` columns.
    pub fn new(levels: usize, rank: usize) -> Self {
        let mut kernel = Coregion {
            rank,
            weights: Parameter::new("weights", vec![0.0; levels * rank], Transform::Identity),
            variances: Parameter::positive("variances", vec![1.0; levels]),
            dimensions: Vec::new(),
        };
        kernel.start(1.0);
        kernel
    }

    fn levels(&self) -> usize {
        self.variances.values.len()
    }

    fn row(&self, level: usize) -> &[f64] {
        &self.weights.values[level * self.rank..(level + 1) * self.rank]
    }

    /// Starts with half of the variance shared by all levels, and half independent. Further columns
    /// of W start as small waves, so that no two columns are equal.
    fn start(&mut self, variance: f64) {
        let (levels, rank) = (self.levels(), self.rank);
        let half = if rank == 0 { variance } else { 0.5 * variance };
        self.weights.start(|at| {
            let (level, column) = (at / rank, at % rank);
            let wave = std::f64::consts::PI * column as f64 * (level as f64 + 0.5) / levels as f64;
            half.sqrt() * if column == 0 { 1.0 } else { 0.3 * wave.cos() }
        });
        self.variances.start(|_| half);
    }

    /// Writes `W Wᵀ + diag κ`, column after column.
    fn covariance(&self, out: &mut [f64]) {
        let levels = self.levels();
        for (b, column) in out.chunks_exact_mut(levels.max(1)).enumerate() {
            for (a, out) in column.iter_mut().enumerate() {
                *out = self.row(a).iter().zip(self.row(b)).map(|(a, b)| a * b).sum();
            }
            column[b] += self.variances.at(b);
        }
    }

    /// Returns the level of every point; a new level is represented by the number of levels.
    fn levels_of(&self, x: MatRef<'_, f64>, scratch: &mut Scratch) -> Vec<f64> {
        let mut found = scratch.take(x.nrows());
        if any_category(&self.dimensions) {
            let known = |code: f64| (0.0..self.levels() as f64).contains(&code);
            let codes = x.col(0).iter().map(|&code| if known(code) { code } else { self.levels() as f64 });
            found.iter_mut().zip(codes).for_each(|(found, code)| *found = code);
            return found;
        }
        self.variances.check_dims(x.ncols());
        for (i, found) in found.iter_mut().enumerate() {
            let mut largest = 0.0;
            *found = self.levels() as f64;
            for a in 0..x.ncols() {
                if x[(i, a)] > largest {
                    (*found, largest) = (a as f64, x[(i, a)]);
                }
            }
        }
        found
    }

    /// Returns the variance of a level; a new level has the mean of all.
    fn variance(&self, level: usize) -> f64 {
        let own = |a: usize| self.row(a).iter().map(|w| w * w).sum::<f64>() + self.variances.at(a);
        if level < self.levels() {
            return own(level);
        }
        (0..self.levels()).map(own).sum::<f64>() / self.levels().max(1) as f64
    }

    /// Adds the gradient, given the gradients of the covariance and of the diagonal for every level; new levels come last.
    fn finish(&self, covariance: &[f64], diagonal: &[f64], parameters: &mut [f64]) {
        if parameters.is_empty() {
            return;
        }
        let levels = self.levels();
        let (weights, variances) = parameters.split_at_mut(levels * self.rank);
        let shared = diagonal.last().copied().unwrap_or(0.0) / levels.max(1) as f64;
        for a in 0..levels {
            let own = diagonal[a] + shared;
            variances[a] += covariance[a * levels + a] + own;
            for k in 0..self.rank {
                let both = |b: usize| covariance[b * levels + a] + covariance[a * levels + b];
                let products = (0..levels).map(|b| both(b) * self.row(b)[k]);
                weights[a * self.rank + k] += products.sum::<f64>() + 2.0 * own * self.row(a)[k];
            }
        }
    }

    fn sides(&self, inputs: Inputs<'_>, scratch: &mut Scratch) -> [Vec<f64>; 2] {
        let (left, right) = inputs.sides();
        [self.levels_of(left, scratch), self.levels_of(right, scratch)]
    }
}

impl Kernel for Coregion {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let [left, right] = self.sides(inputs, scratch);
        let levels = self.levels();
        let mut covariance = scratch.take(levels * levels);
        self.covariance(&mut covariance);
        for (j, &b) in right.iter().enumerate() {
            for (i, &a) in left.iter().enumerate() {
                let (a, b) = (a as usize, b as usize);
                out[(i, j)] = if a.max(b) < levels { covariance[b * levels + a] } else { 0.0 };
            }
        }
        if let Inputs::Gram(_) = inputs {
            left.iter().enumerate().for_each(|(i, &a)| out[(i, i)] = self.variance(a as usize));
        }
        scratch.give_all([left, right, covariance]);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        let gram = matches!(inputs, Inputs::Gram(_));
        let [left, right] = self.sides(inputs, scratch);
        let levels = self.levels();
        let [mut covariance, mut diagonal] = [levels * levels, levels + 1].map(|len| scratch.zeros(len));
        for (j, &b) in right.iter().enumerate() {
            for (i, &a) in left.iter().enumerate() {
                let (a, b) = (a as usize, b as usize);
                match () {
                    () if gram && i == j => diagonal[a] += kbar[(i, i)],
                    () if a.max(b) < levels => covariance[b * levels + a] += kbar[(i, j)],
                    () => {}
                }
            }
        }
        self.finish(&covariance, &diagonal, grad.parameters);
        scratch.give_all([left, right, covariance, diagonal]);
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], scratch: &mut Scratch) {
        let levels = self.levels_of(x, scratch);
        out.iter_mut().zip(&levels).for_each(|(out, &level)| *out = self.variance(level as usize));
        scratch.give(levels);
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, scratch: &mut Scratch) {
        let levels = self.levels();
        let [covariance, mut diagonal] = [levels * levels, levels + 1].map(|len| scratch.zeros(len));
        let found = self.levels_of(x, scratch);
        found.iter().zip(kbar).for_each(|(&level, kbar)| diagonal[level as usize] += kbar);
        self.finish(&covariance, &diagonal, grad.parameters);
        scratch.give_all([found, covariance, diagonal]);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.weights);
        visit(&self.variances);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.weights);
        visit(&mut self.variances);
    }

    /// Accepts a single column of codes, which are the known levels; any other code is a new level.
    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        if !any_category(dimensions) {
            return Ok(());
        }
        let &[Dimension::Category { levels }] = dimensions else {
            return Err(DimensionError::NoCategories {
                kernel: format!("{} of several columns", self.expression()),
            });
        };
        if self.levels() != levels {
            *self = Coregion::new(levels, self.rank);
        }
        self.dimensions = dimensions.to_vec();
        Ok(())
    }

    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    fn initialise(&mut self, _: &[f64], target_variance: f64) {
        self.start(target_variance);
    }

    /// Returns a random effect for every level of a single column of codes. Kernels of several
    /// columns of levels return `None`.
    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        if dims != 1 || !any_category(&self.dimensions) {
            return None;
        }
        let shared: Vec<f64> = (0..self.rank).map(|_| chance.normal()).collect();
        let mut level = 0;
        Some(Box::new(Line::new(0.0, 1, &self.dimensions, chance, |_, _, chance| {
            let own = level;
            level += 1;
            if own >= self.levels() {
                return self.variance(own).sqrt() * chance.normal();
            }
            let common: f64 = self.row(own).iter().zip(&shared).map(|(w, z)| w * z).sum();
            common + self.variances.at(own).sqrt() * chance.normal()
        })))
    }

    fn expression(&self) -> String {
        expression_with("coregion", &[(self.rank != 1).then(|| format!("rank={}", self.rank))])
    }

    fn min_dims(&self) -> usize {
        if any_category(&self.dimensions) { 1 } else { self.levels() }
    }
}
