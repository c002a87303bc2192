//! Terms of grouped effects and the factors F of their covariances, as parameters of a model.

use crate::data::{Affine, Scaling};
use crate::hyper::Descriptor;
use faer::{Mat, MatRef, RowRef};
use serde::{Deserialize, Serialize};
use sparsegp_kernels::{Parameter, Transform, Unit};

/// The code of rows that are predicted without the effects of a grouping: these effects have the
/// mean 0 and no variance.
#[doc(hidden)]
pub const POPULATION: f64 = -1.0;

/// One grouping with the effects that each of its levels has.
///
/// ```
/// use sparsegp::effects::EffectTerm;
/// use sparsegp::kernels::Stationary;
/// use sparsegp::likelihood::Gaussian;
/// use sparsegp::prelude::*;
///
/// // An input, and behind it the code of one of six schools, whose effects are -3, -2, …, 2.
/// let x: Vec<[f64; 2]> = (0..120).map(|i| [i as f64 / 12.0, (i % 6) as f64]).collect();
/// let noise = |i: usize| 0.1 * (7.0 * i as f64).sin();
/// let y: Vec<f64> = x.iter().enumerate().map(|(i, row)| row[0].sin() + row[1] - 3.0 + noise(i)).collect();
/// let gp = Inducing::new(Stationary::rbf(1.0, &[1.0])).points(Points::KMeans(15));
/// let model = Fit::new(gp, Gaussian::default()).group(EffectTerm::intercepts("school", 6, 0)).fit(&x, &y)?;
/// let effects = model.level_effects();
/// assert!((effects[5].estimate - effects[0].estimate - 5.0).abs() < 0.2);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectTerm {
    /// The name of the grouping, such as `school` or `batch:cask`.
    pub name: String,
    /// The number L of levels that training knows.
    pub levels: usize,
    /// The column of the codes among the columns behind the inputs of f.
    pub code: usize,
    /// True if each level has an intercept.
    pub intercept: bool,
    /// The names of the columns in which each level has a slope.
    pub slopes: Vec<String>,
    /// The columns of the slopes' values among the columns behind the inputs of f.
    pub values: Vec<usize>,
    /// The value, on the scale the model sees, that is 0 in the user's units, for every slope; empty if all are 0.
    #[doc(hidden)]
    pub origins: Vec<f64>,
    /// True if the effects of one level are correlated.
    pub correlated: bool,
}

impl EffectTerm {
    /// Creates a term with intercepts only; the codes of its levels are in column `code`.
    pub fn intercepts(name: &str, levels: usize, code: usize) -> EffectTerm {
        EffectTerm {
            name: name.to_owned(),
            levels,
            code,
            intercept: true,
            slopes: Vec::new(),
            values: Vec::new(),
            origins: Vec::new(),
            correlated: false,
        }
    }

    /// Returns true if the prior of the effects is the same family for every origin of the slopes' columns. These effects are those at the
    /// value 0 on the scale the model sees; all other effects are those at the user's 0.
    fn is_free_of_origin(&self) -> bool {
        self.intercept && self.correlated
    }

    fn origin(&self, slope: usize) -> f64 {
        self.origins.get(slope).copied().unwrap_or(0.0)
    }

    /// Returns z of a row, whose columns behind the inputs of f are given: one number for each effect of a level.
    pub(super) fn z<'a>(&'a self, columns: RowRef<'a, f64>) -> impl Iterator<Item = f64> + 'a {
        let from = move |slope: usize| if self.is_free_of_origin() { 0.0 } else { self.origin(slope) };
        let slopes = self.values.iter().enumerate();
        let slopes = slopes.map(move |(slope, &value)| columns[value] - from(slope));
        self.intercept.then_some(1.0).into_iter().chain(slopes)
    }

    /// Returns the mean of `z²` over rows, whose columns behind the inputs of f are given, for every effect of a level.
    pub(crate) fn mean_squares(&self, columns: MatRef<'_, f64>) -> Vec<f64> {
        let mut means = vec![0.0; self.width()];
        for row in columns.row_iter() {
            means.iter_mut().zip(self.z(row)).for_each(|(mean, z)| *mean += z * z / columns.nrows() as f64);
        }
        means
    }

    /// Returns the origins that the effects of a level have to be moved by to be those at the user's 0; `None` if there are none.
    pub(crate) fn moved_origins(&self) -> Option<&[f64]> {
        let moved = self.is_free_of_origin() && self.origins.iter().any(|origin| *origin != 0.0);
        moved.then_some(&self.origins)
    }

    /// Returns the matrix (`r × r`) that takes the effects of a level to those at the user's 0: its intercept is `b_0 + Σ o_k b_k`.
    pub(crate) fn at_origin(&self) -> Mat<f64> {
        let mut matrix = Mat::identity(self.width(), self.width());
        for (slope, origin) in self.moved_origins().unwrap_or_default().iter().enumerate() {
            matrix[(0, 1 + slope)] = *origin;
        }
        matrix
    }

    /// Returns the number r of effects of a level.
    #[doc(hidden)]
    pub fn width(&self) -> usize {
        usize::from(self.intercept) + self.values.len()
    }

    /// Returns the number of coefficients, L·r.
    pub(crate) fn coefficients(&self) -> usize {
        self.levels * self.width()
    }

    /// Returns the name of every effect of a level: `intercept`, and the columns with slopes.
    #[doc(hidden)]
    pub fn effect_names(&self) -> Vec<&str> {
        let intercept = self.intercept.then_some("intercept");
        intercept.into_iter().chain(self.slopes.iter().map(String::as_str)).collect()
    }
}

/// The terms of a model with the factors of their covariances.
///
/// A factor is lower triangular with a positive diagonal, `Σ = F Fᵀ`. Its values are parameters of the model: `effects.NAME.sd` is the
/// diagonal (for independent effects their standard deviations), `effects.NAME.below` holds the entries below it row by row. If every function
/// has its own layer, it also has its own factors, and the names begin with the name of the function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Effects {
    /// The number D of inputs of f, behind which the columns of the terms begin.
    inputs: usize,
    terms: Vec<EffectTerm>,
    /// The factors of all terms, for one layer after the other.
    parameters: Vec<FactorParameters>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct FactorParameters {
    sd: Parameter,
    below: Parameter,
}

impl Scaling {
    /// Leaves the codes of groupings unscaled.
    pub fn with_effects(mut self, effects: &[EffectTerm]) -> Scaling {
        let inputs = self.dims_without_offsets() - columns_of(effects);
        for term in effects {
            self.inputs[inputs + term.code] = Affine::IDENTITY;
        }
        self
    }
}

impl Effects {
    /// No terms.
    pub const NONE: &'static Effects = &Effects { inputs: 0, terms: Vec::new(), parameters: Vec::new() };

    /// Creates terms behind `inputs` inputs of f, with independent effects of standard deviation 1.
    pub fn new(inputs: usize, terms: Vec<EffectTerm>) -> Self {
        let parameters = |term: &EffectTerm| {
            let r = term.width();
            let below = if term.correlated { r * (r - 1) / 2 } else { 0 };
            FactorParameters {
                sd: Parameter::positive("sd", vec![1.0; r]),
                below: Parameter::new("below", vec![0.0; below], Transform::Identity),
            }
        };
        Effects { inputs, parameters: terms.iter().map(parameters).collect(), terms }
    }

    /// Returns the number D of inputs of f, behind which the columns of the terms begin.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns true if there are no terms.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the terms.
    pub fn terms(&self) -> &[EffectTerm] {
        &self.terms
    }

    /// Returns the number of columns that the terms have behind the inputs of f.
    pub fn columns(&self) -> usize {
        columns_of(&self.terms)
    }

    /// Returns the number of coefficients of all terms together.
    pub fn coefficients(&self) -> usize {
        self.terms.iter().map(EffectTerm::coefficients).sum()
    }

    /// Returns the term that is eliminated: the first one with the most coefficients.
    pub(crate) fn eliminated(&self) -> usize {
        (0..self.terms.len()).rev().max_by_key(|&term| self.terms[term].coefficients()).unwrap_or(0)
    }

    /// Returns the number of layers that have factors.
    pub(crate) fn layers(&self) -> usize {
        self.parameters.len() / self.terms.len().max(1)
    }

    /// Returns the terms with the factors of one layer.
    pub(crate) fn of_layer(&self, layer: usize) -> Effects {
        let own = layer * self.terms.len()..(layer + 1) * self.terms.len();
        Effects { inputs: self.inputs, terms: self.terms.clone(), parameters: self.parameters[own].to_vec() }
    }

    /// Copies the values of the factors of a layer of effects with the same terms to layer `to`.
    pub(crate) fn copy_layer(&mut self, to: usize, (from, layer): (&Effects, usize)) {
        let terms = self.terms.len();
        let own = &from.parameters[layer * terms..(layer + 1) * terms];
        for (to, from) in self.parameters[to * terms..].iter_mut().zip(own) {
            to.sd.values.copy_from_slice(&from.sd.values);
            to.below.values.copy_from_slice(&from.below.values);
        }
    }

    /// Joins the factors of several layers with the same terms; no terms if there are no layers.
    pub fn of_layers(layers: impl IntoIterator<Item = Effects>) -> Effects {
        let join = |mut all: Effects, layer: Effects| {
            all.parameters.extend(layer.parameters);
            all
        };
        layers.into_iter().reduce(join).unwrap_or_default()
    }

    /// Returns other terms, of the same widths, with the same parameters.
    pub(crate) fn with_terms(&self, terms: Vec<EffectTerm>) -> Effects {
        Effects { terms, ..self.clone() }
    }

    /// Returns the factor F of a term (`r × r`, lower triangular).
    pub(crate) fn factor(&self, term: usize) -> Mat<f64> {
        let FactorParameters { sd, below } = &self.parameters[term];
        Mat::from_fn(sd.values.len(), sd.values.len(), |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Equal => sd.values[i],
            std::cmp::Ordering::Greater => below.values.get(i * (i - 1) / 2 + j).copied().unwrap_or(0.0),
            std::cmp::Ordering::Less => 0.0,
        })
    }

    /// Returns the covariance Σ of the effects of a level of a term (`r × r`).
    pub fn covariance(&self, term: usize) -> Mat<f64> {
        let factor = self.factor(term);
        &factor * factor.transpose()
    }

    /// Returns the covariance of the effects of a level of a term at the user's 0 of all slopes (`r × r`).
    pub(crate) fn covariance_at_origin(&self, term: usize) -> Mat<f64> {
        let factor = self.terms[term].at_origin() * self.factor(term);
        &factor * factor.transpose()
    }

    /// Sets the variance of the intercepts at the user's 0 of all slopes to 0, and leaves the covariance of the slopes as it is.
    pub(crate) fn remove_intercept_at_origin(&mut self, term: usize) {
        /// The least pivot of a singular covariance, relative to the variance.
        const LEAST: f64 = 1e-12;
        let (mut factor, origins) = (self.factor(term), self.terms[term].moved_origins().unwrap_or_default());
        for k in 0..factor.ncols() {
            factor[(0, k)] =
                -origins.iter().enumerate().map(|(slope, o)| o * factor[(1 + slope, k)]).sum::<f64>();
        }
        let mut rest = &factor * factor.transpose();
        let r = factor.nrows();
        for j in 0..r {
            let variance = (0..r).map(|k| factor[(j, k)].powi(2)).sum::<f64>();
            let pivot = rest[(j, j)].max(LEAST * variance).sqrt();
            (j..r).for_each(|i| rest[(i, j)] /= pivot);
            rest[(j, j)] = pivot;
            for i in j + 1..r {
                (j + 1..=i).for_each(|k| rest[(i, k)] -= rest[(i, j)] * rest[(k, j)]);
            }
        }
        self.set_factor(term, rest.as_ref());
    }

    /// Sets the factor F of a term (`r × r`; only its lower triangle is read).
    pub(crate) fn set_factor(&mut self, term: usize, factor: MatRef<'_, f64>) {
        let FactorParameters { sd, below } = &mut self.parameters[term];
        sd.values.iter_mut().enumerate().for_each(|(i, sd)| *sd = factor[(i, i)]);
        let pairs = (0..factor.nrows()).flat_map(|i| (0..i).map(move |j| (i, j)));
        below.values.iter_mut().zip(pairs).for_each(|(value, (i, j))| *value = factor[(i, j)]);
    }

    /// Returns the variance of one effect of a term, `Σ_kk`.
    pub fn variance(&self, term: usize, effect: usize) -> f64 {
        let factor = self.factor(term);
        (0..=effect).map(|k| factor[(effect, k)].powi(2)).sum()
    }

    /// Returns the indices, in the flat vector of the factors, of row `effect` of a term's factor:
    /// its diagonal entry first.
    pub(crate) fn row_places(&self, term: usize, effect: usize) -> Vec<usize> {
        let count = |of: &FactorParameters| of.sd.values.len() + of.below.values.len();
        let first: usize = self.parameters[..term].iter().map(count).sum();
        let FactorParameters { sd, below } = &self.parameters[term];
        let row = first + sd.values.len() + effect * effect.saturating_sub(1) / 2;
        let before = if below.values.is_empty() { 0 } else { effect };
        std::iter::once(first + effect).chain(row..row + before).collect()
    }

    /// Starts a term with independent effects of these standard deviations.
    ///
    /// # Panics
    ///
    /// If their number is not the width of the term.
    pub fn start(&mut self, term: usize, deviations: &[f64]) {
        let sd = &mut self.parameters[term].sd;
        assert_eq!(deviations.len(), sd.values.len(), "standard deviations of a term");
        sd.values.copy_from_slice(deviations);
    }

    /// Visits the parameters in the order of the flat vector.
    pub(crate) fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.parameters.iter().flat_map(|of| [&of.sd, &of.below]).for_each(visit);
    }

    /// Visits the parameters in the order of the flat vector, with mutable access.
    pub fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.parameters.iter_mut().flat_map(|of| [&mut of.sd, &mut of.below]).for_each(visit);
    }

    pub(crate) fn parameter_count(&self) -> usize {
        self.parameters.iter().map(|of| of.sd.values.len() + of.below.values.len()).sum()
    }

    /// Returns the descriptors of all values, in the order of the flat vector. There is one prefix of names for each layer.
    pub(crate) fn descriptors(&self, prefixes: &[String]) -> Vec<Descriptor> {
        let of_term = |(index, of): (usize, &FactorParameters)| {
            let (layer, term) = (index / self.terms.len(), &self.terms[index % self.terms.len()]);
            let prefix = format!("{}effects.{}", prefixes[layer], term.name);
            [Descriptor::of(&prefix, "sd", &of.sd), Descriptor::of(&prefix, "below", &of.below)].concat()
        };
        self.parameters.iter().enumerate().flat_map(of_term).collect()
    }

    /// Returns the unit of every parameter value: that of the target, for slopes per unit of their column.
    pub(crate) fn units(&self) -> Vec<Unit> {
        let of_slope =
            |&value: &usize| Unit { target: 1.0, ..Unit::of_columns(-1.0, vec![self.inputs + value]) };
        let of_term = |(index, of): (usize, &FactorParameters)| {
            let term = &self.terms[index % self.terms.len()];
            let intercept = term.intercept.then(|| Unit::of_target(1.0));
            let rows: Vec<Unit> = intercept.into_iter().chain(term.values.iter().map(of_slope)).collect();
            let below = (0..rows.len()).flat_map(|i| std::iter::repeat_n(rows[i].clone(), i));
            let below: Vec<Unit> = below.take(of.below.values.len()).collect();
            [rows, below].concat()
        };
        self.parameters.iter().enumerate().flat_map(of_term).collect()
    }

    /// Appends the derivatives with respect to the values of a term's factor, in the order of the flat vector; `factor_bar` is `∂J/∂F`.
    pub(crate) fn flatten(&self, term: usize, factor_bar: MatRef<'_, f64>, out: &mut Vec<f64>) {
        let r = self.terms[term].width();
        out.extend((0..r).map(|k| factor_bar[(k, k)]));
        if self.terms[term].correlated {
            out.extend((0..r).flat_map(|i| (0..i).map(move |j| factor_bar[(i, j)])));
        }
    }

    /// Returns true if the numbers of a file are consistent, for `columns` columns behind the inputs of f and `layers` layers.
    pub(crate) fn is_consistent(&self, columns: usize, layers: usize) -> bool {
        // Far more coefficients than any fit has; a damaged file must not cause very long loops.
        const MOST: usize = 1 << 31;
        if self.terms.iter().any(|term| term.levels.saturating_mul(term.width()) > MOST)
            || self.parameters.len() != layers * self.terms.len()
        {
            return false;
        }
        let own = Effects::new(self.inputs, self.terms.clone());
        let lengths = |of: &Effects| -> Vec<usize> {
            of.parameters.iter().flat_map(|p| [p.sd.values.len(), p.below.values.len()]).collect()
        };
        let within = |term: &EffectTerm| {
            term.code < columns
                && term.width() > 0
                && term.levels > 0
                && term.slopes.len() == term.values.len()
                && (term.origins.is_empty() || term.origins.len() == term.values.len())
                && term.origins.iter().all(|origin| origin.is_finite())
                && term.values.iter().all(|&value| value < columns)
        };
        lengths(&own).repeat(layers) == lengths(self)
            && self.terms.iter().all(within)
            && self.parameters.iter().all(|of| of.sd.values.iter().all(|sd| *sd >= 0.0 && sd.is_finite()))
    }
}

impl EffectTerm {
    /// Returns the unit of every effect of a level: 1 for the intercept, the unit of its column for
    /// a slope.
    pub(crate) fn units(&self, units: &[f64]) -> Vec<f64> {
        let intercept = self.intercept.then_some(1.0);
        intercept.into_iter().chain(self.values.iter().map(|&value| units[value])).collect()
    }
}

/// Returns the number of columns that terms have behind the inputs of f.
pub(crate) fn columns_of(terms: &[EffectTerm]) -> usize {
    let last = terms.iter().flat_map(|term| term.values.iter().copied().chain([term.code])).max();
    last.map_or(0, |last| last + 1)
}
