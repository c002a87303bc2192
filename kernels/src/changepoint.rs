//! A kernel that changes from one covariance to the next along a column.

use crate::compose::{check_children, reborrow, split, told, with_slots};
use crate::dimension::{Dimension, DimensionError, is_category};
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Part, Scratch, misfit};
use crate::matrix::{column, column_mut};
use crate::parameter::{Parameter, Transform};
use crate::units::Unit;
use faer::{MatMut, MatRef};

/// `Σ_i w_i(x) k_i(x, x') w_i(x')`, `i = 0, …`, with `w_i = S_i (1 − S_{i+1})` and `S_i = σ(s_i (x_0 − l_i))`. Here σ is the logistic
/// function, `x_0` the first column, and `S_0 = 1`. Kernel `i` is the covariance between the locations `l_i` and `l_{i+1}`; its draws
/// change into those of the next kernel within about `4/s_i` (Saatçi, Turner & Rasmussen 2010; Lloyd et al. 2014; GPflow's `ChangePoints`).
#[derive(Clone, Debug)]
pub struct Changepoint {
    /// Locations, in units of the first column, and steepnesses, in inverse units of it.
    own: [Parameter; 2],
    children: Vec<Box<dyn Kernel>>,
    dimensions: Vec<Dimension>,
}

/// The steepness, in spreads of the column, that training starts with.
const START: f64 = 5.0;

impl Changepoint {
    /// Creates a kernel from two or more kernels, from left to right along the first column, with a
    /// change between neighbours.
    /// [`Kernel::check`] refuses fewer than two.
    pub fn new(children: Vec<Box<dyn Kernel>>) -> Self {
        let changes = children.len().max(2) - 1;
        let locations = Parameter::new("locations", vec![0.0; changes], Transform::Identity);
        let mut kernel = Changepoint {
            own: [locations, Parameter::positive("steepness", vec![START; changes])],
            children,
            dimensions: Vec::new(),
        };
        kernel.start(1.0);
        kernel
    }

    fn changes(&self) -> usize {
        self.own[0].values.len()
    }

    /// Spaces the locations evenly from two spreads below 0 to two spreads above.
    fn start(&mut self, spread: f64) {
        let changes = self.changes() as f64;
        let [locations, steepness] = &mut self.own;
        locations.start(|j| spread * (4.0 * (j as f64 + 1.0) / (changes + 1.0) - 2.0));
        steepness.start(|_| START / spread);
    }

    /// Returns `S_j` at a point, where `j = 1, …` counts the changes; 1 for `j = 0`, 0 beyond the
    /// last change.
    fn switch(&self, j: usize, x: f64) -> f64 {
        let [locations, steepness] = &self.own;
        match j {
            0 => 1.0,
            j if j > self.changes() => 0.0,
            j => 1.0 / (1.0 + (-steepness.values[j - 1] * (x - locations.values[j - 1])).exp()),
        }
    }

    /// `w_i` of every point.
    fn weights(&self, i: usize, x: MatRef<'_, f64>, scratch: &mut Scratch) -> Vec<f64> {
        let mut weights = scratch.take(x.nrows());
        for (weight, &x) in weights.iter_mut().zip(x.col(0).iter()) {
            *weight = self.switch(i, x) * (1.0 - self.switch(i + 1, x));
        }
        weights
    }

    /// Adds the gradients that follow from `bar = ∂F/∂w_i` of every point.
    fn pull_back(
        &self,
        i: usize,
        x: MatRef<'_, f64>,
        bar: &[f64],
        mut target: Option<MatMut<'_, f64>>,
        parameters: &mut [f64],
    ) {
        let [locations, steepness] = &self.own;
        let (locations_bar, steepness_bar) = parameters.split_at_mut(parameters.len() / 2);
        for (row, (&bar, &x)) in bar.iter().zip(x.col(0).iter()).enumerate() {
            let (rise, fall) = (self.switch(i, x), self.switch(i + 1, x));
            for (j, in_switch) in [(i, 1.0 - fall), (i + 1, -rise)] {
                if !(1..=self.changes()).contains(&j) {
                    continue;
                }
                let (location, slope) = (locations.values[j - 1], steepness.values[j - 1]);
                let own = self.switch(j, x);
                let inside = bar * in_switch * own * (1.0 - own);
                if let Some(target) = &mut target {
                    target[(row, 0)] += inside * slope;
                }
                if let (Some(to), Some(steep)) = (locations_bar.get_mut(j - 1), steepness_bar.get_mut(j - 1))
                {
                    *to -= inside * slope;
                    *steep += inside * (x - location);
                }
            }
        }
    }
}

impl Kernel for Changepoint {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let (rows, cols) = inputs.shape();
        let (x, z) = inputs.sides();
        let mut value = scratch.take(rows * cols);
        for (i, child) in self.children.iter().enumerate() {
            let [left, right] = [x, z].map(|points| self.weights(i, points, scratch));
            child.eval(inputs, MatMut::from_column_major_slice_mut(&mut value, rows, cols), scratch);
            for (j, value) in value.chunks_exact(rows.max(1)).enumerate() {
                for ((to, value), weight) in column_mut(&mut out, j).iter_mut().zip(value).zip(&left) {
                    let term = weight * right[j] * value;
                    *to = if i == 0 { term } else { *to + term };
                }
            }
            scratch.give_all([left, right]);
        }
        scratch.give(value);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        let Gradient { parameters, left: mut left_target, right: mut right_target } = grad;
        let (rows, cols) = inputs.shape();
        let (x, z) = inputs.sides();
        let (own, parameters) = split(parameters, 2 * self.changes());
        let [mut value, mut inner_kbar] = [(); 2].map(|()| scratch.take(rows * cols));
        let mut buffer = scratch.take(rows);
        for (i, (child, parameters)) in with_slots(&self.children, parameters).enumerate() {
            let [left, right] = [x, z].map(|points| self.weights(i, points, scratch));
            let [mut left_bar, mut right_bar] = [rows, cols].map(|len| scratch.take(len));
            left_bar.fill(0.0);
            child.eval(inputs, MatMut::from_column_major_slice_mut(&mut value, rows, cols), scratch);
            let columns = value.chunks_exact(rows.max(1)).zip(inner_kbar.chunks_exact_mut(rows.max(1)));
            for (j, (value, to)) in columns.enumerate() {
                let mut sum = 0.0;
                let kbar = column(kbar, j, &mut buffer);
                for a in 0..rows {
                    let both = kbar[a] * value[a];
                    left_bar[a] += both * right[j];
                    sum += both * left[a];
                    to[a] = kbar[a] * left[a] * right[j];
                }
                right_bar[j] = sum;
            }
            let k = MatRef::from_column_major_slice(&value, rows, cols);
            let inner_kbar = MatRef::from_column_major_slice(&inner_kbar, rows, cols);
            let inner =
                Gradient { parameters, left: reborrow(&mut left_target), right: reborrow(&mut right_target) };
            child.adjoint(inputs.evaluated(k, inner_kbar), inner, scratch);
            self.pull_back(i, x, &left_bar, reborrow(&mut left_target), own);
            let gram = matches!(inputs, Inputs::Gram(_));
            let other = reborrow(if gram { &mut left_target } else { &mut right_target });
            self.pull_back(i, z, &right_bar, other, own);
            scratch.give_all([left, right, left_bar, right_bar]);
        }
        scratch.give_all([value, inner_kbar, buffer]);
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], scratch: &mut Scratch) {
        let mut value = scratch.take(out.len());
        out.fill(0.0);
        for (i, child) in self.children.iter().enumerate() {
            let weights = self.weights(i, x, scratch);
            child.diag(x, &mut value, scratch);
            for ((to, value), weight) in out.iter_mut().zip(&value).zip(&weights) {
                *to += weight * weight * value;
            }
            scratch.give(weights);
        }
        scratch.give(value);
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, scratch: &mut Scratch) {
        let Gradient { parameters, mut left, .. } = grad;
        let (own, parameters) = split(parameters, 2 * self.changes());
        let [mut value, mut bar] = [(); 2].map(|()| scratch.take(kbar.len()));
        for (i, (child, parameters)) in with_slots(&self.children, parameters).enumerate() {
            let weights = self.weights(i, x, scratch);
            child.diag(x, &mut value, scratch);
            for (a, bar) in bar.iter_mut().enumerate() {
                *bar = 2.0 * kbar[a] * weights[a] * value[a];
                value[a] = kbar[a] * weights[a] * weights[a];
            }
            let inner = Gradient { parameters, left: reborrow(&mut left), right: None };
            child.diag_adjoint(x, &value, inner, scratch);
            self.pull_back(i, x, &bar, reborrow(&mut left), own);
            scratch.give(weights);
        }
        scratch.give_all([value, bar]);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.own.iter().for_each(&mut *visit);
        self.children.iter().for_each(|child| child.for_each_parameter(visit));
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.own.iter_mut().for_each(&mut *visit);
        self.children.iter_mut().for_each(|child| child.for_each_parameter_mut(visit));
    }

    fn parts(&self) -> Vec<Part> {
        let parameters = self.own.iter().map(|parameter| parameter.name.clone()).collect();
        let own = Part { label: "changepoint".to_owned(), parameters };
        std::iter::once(own).chain(self.children.iter().flat_map(|child| child.parts())).collect()
    }

    /// Refuses categories in the first column, because codes have no order.
    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        if is_category(dimensions, 0) {
            return Err(DimensionError::NoCategories { kernel: self.expression() });
        }
        self.children = told(&self.children, dimensions)?;
        self.dimensions = dimensions.to_vec();
        Ok(())
    }

    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Every kernel starts with the whole variance. Locations start evenly spaced between two
    /// spreads below and above 0, which suits columns with mean 0. Training moves them, but only
    /// slowly if no data are near.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        let first = spread.first().copied().filter(|s| s.is_finite() && *s > 0.0).unwrap_or(1.0);
        self.start(first);
        self.children.iter_mut().for_each(|child| child.initialise(spread, target_variance));
    }

    /// Fixes the scale of the first kernel, as for a sum.
    fn fix_scale(&mut self) {
        self.children.iter_mut().take(1).for_each(|child| child.fix_scale());
    }

    fn units(&self, dims: usize) -> Vec<Unit> {
        let first = Unit::of_columns(1.0, vec![0]);
        let (location, steepness) = (Unit { position: true, ..first.clone() }, Unit { input: -1.0, ..first });
        let own = [location, steepness].into_iter().flat_map(|unit| vec![unit; self.changes()]);
        own.chain(self.children.iter().flat_map(|child| child.units(dims))).collect()
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        if dims == 0 {
            return Err(misfit("changepoint", 1, 0));
        }
        check_children(&self.children, dims)
    }

    fn expression(&self) -> String {
        let children: Vec<String> = self.children.iter().map(|child| child.expression()).collect();
        format!("changepoint({})", children.join(", "))
    }

    fn min_dims(&self) -> usize {
        self.children.iter().map(|child| child.min_dims()).max().unwrap_or(0).max(1)
    }
}
