//! Latent functions that are sums of functions of one or a few columns, and their terms.

use super::output::{at, is_linear, mean};
use super::{Contributions, Explainer, InputColumn, Part, Rows, Scale, offsets_of};
use faer::{Mat, MatRef};
use sparsegp::effects::{EffectTerm, POPULATION};
use sparsegp::kernels::{Inputs, Kernel, Scratch};
use sparsegp::latent::InducingPrior;

/// A term of a latent function: its name, its columns, and its value at every row.
struct Term {
    name: String,
    columns: Vec<usize>,
    values: Vec<f64>,
}

type Kernels = Vec<Box<dyn Kernel>>;

impl Explainer<'_> {
    /// Returns the contributions of the terms of the latent function; `None` if it is not a sum of
    /// functions of different columns.
    pub(super) fn by_terms(&self, x: MatRef<'_, f64>, background: Rows<'_>) -> Option<Vec<Contributions>> {
        let posterior = self.model.posterior();
        let only = self.model.latent().processes() == 1 && self.model.neighbours().is_none();
        let layer = posterior.layer();
        if !only || background.is_empty() || self.trees.is_some() {
            return None;
        }
        let of = |x: MatRef<'_, f64>| {
            let x = self.model.on_scale(x);
            let own = x.as_ref().subrows(0, layer.input_dims());
            let mut terms = match layer.inducing() {
                Some(layer) => self.terms_of_kernel(layer, own.transpose())?,
                None => self.terms_of_columns(own),
            };
            terms.extend(self.terms_of_effects(x.transpose()));
            Some(terms)
        };
        let (terms, around) = (of(x)?, of(background.x)?);
        let linear = is_linear(self.model);
        let scale = if linear { Scale::Mean } else { Scale::Latent };
        let unit = if linear { self.model.scaling().unscale_variance(1.0).sqrt() } else { 1.0 };
        let totals = at(self.model, x, 1.0, scale);
        let base = mean(&at(self.model, background.x, 1.0, scale));
        // Background rows count with the offset of the explained row.
        let offset_of = |x: MatRef<'_, f64>, row: usize| -> f64 {
            let of = |input: usize| self.model.scaling().inputs[input].apply(x[(row, input)]);
            unit * offsets_of(self.model).map(of).sum::<f64>()
        };
        let usual: Vec<f64> = (0..background.len()).map(|row| offset_of(background.x, row)).collect();
        let of_row = |row: usize| {
            let part = |(term, around): (&Term, &Term)| Part {
                name: term.name.clone(),
                columns: term.columns.clone(),
                value: unit * (term.values[row] - mean(&around.values)),
                error: None,
            };
            let parts = terms.iter().zip(&around).map(part).collect();
            let base = base + offset_of(x, row) - mean(&usual);
            Contributions { scale, base, prediction: totals[row], parts }
        };
        Some((0..x.nrows()).map(of_row).collect())
    }

    /// Returns the terms of a kernel that is a sum. Terms of the same columns are joined.
    fn terms_of_kernel(&self, layer: &InducingPrior, x: MatRef<'_, f64>) -> Option<Vec<Term>> {
        let weights = self.model.posterior().weights(0);
        let beside_effects = !self.model.latent().effects.is_empty();
        let mut terms = layer.kernel().terms();
        if terms.is_empty() && beside_effects {
            terms.push(layer.kernel().boxed_clone());
        }
        let all: Vec<usize> = (0..layer.z().ncols()).collect();
        let mut found: Vec<(Vec<usize>, Kernels)> = Vec::new();
        for kernel in terms {
            let single = || Some(all.clone()).filter(|all| self.touched(all).len() == 1);
            let columns = self.touched(&kernel.columns().or_else(single)?);
            match found.iter_mut().find(|(known, _)| *known == columns) {
                Some((_, kernels)) => kernels.push(kernel),
                None => found.push((columns, vec![kernel])),
            }
        }
        // A term that uses no column is constant.
        found.retain(|(columns, _)| !columns.is_empty());
        if found.len() < 2 && !(beside_effects && found.iter().all(|(columns, _)| columns.len() == 1)) {
            return None;
        }
        let mut scratch = Scratch::new();
        let mut term = |(columns, kernels): (Vec<usize>, Kernels)| {
            let mut values = vec![0.0; x.nrows()];
            for kernel in kernels {
                let mut k = Mat::zeros(layer.z().nrows(), x.nrows());
                kernel.eval(Inputs::Cross { left: layer.z(), right: x }, k.as_mut(), &mut scratch);
                for (value, k) in values.iter_mut().zip(k.col_iter()) {
                    *value += k.iter().zip(weights).map(|(k, w)| k * w).sum::<f64>();
                }
            }
            Term { name: self.joined(&columns), columns, values }
        };
        Some(found.into_iter().map(&mut term).collect())
    }

    /// Returns the names of columns with × between them.
    fn joined(&self, columns: &[usize]) -> String {
        let names: Vec<&str> = columns.iter().map(|&column| self.columns[column].name.as_str()).collect();
        names.join(" × ")
    }

    /// Returns the columns that these inputs belong to.
    fn touched(&self, inputs: &[usize]) -> Vec<usize> {
        let touches = |column: &usize| self.columns[*column].all_inputs().any(|own| inputs.contains(&own));
        (0..self.columns.len()).filter(touches).collect()
    }

    /// Returns the effect of every column in a linear function of the inputs `x` (`D × n`): the value of the function without effects of
    /// groups if all other columns are 0, minus its value if all columns are 0.
    fn terms_of_columns(&self, x: MatRef<'_, f64>) -> Vec<Term> {
        let (posterior, all) = (self.model.posterior(), offsets_of(self.model).start);
        let at_0 = |columns: usize| {
            Mat::from_fn(all, columns, |input, _| if input < x.nrows() { 0.0 } else { POPULATION })
        };
        let at_zero = posterior.means(at_0(1).transpose())[0];
        let of_f = self.columns.iter().enumerate().filter(|(_, column)| column.inputs.end <= x.nrows());
        let term = |(index, column): (usize, &InputColumn)| {
            let mut alone = at_0(x.ncols());
            for input in column.inputs.clone() {
                alone.row_mut(input).copy_from(x.row(input));
            }
            let values = posterior.means(alone.transpose()).into_iter().map(|mean| mean - at_zero).collect();
            Term { name: column.name.clone(), columns: vec![index], values }
        };
        of_f.map(term).collect()
    }

    /// Returns a term for every grouping: its effects in the rows `x` (`n × D`), with its column and the columns of its slopes.
    fn terms_of_effects(&self, x: MatRef<'_, f64>) -> Vec<Term> {
        let Some(posterior) = self.model.posterior().effects(0) else { return Vec::new() };
        let first = offsets_of(self.model).start - posterior.effects().columns();
        let term = |(index, about): (usize, &EffectTerm)| {
            let inputs: Vec<usize> =
                about.values.iter().chain([&about.code]).map(|column| first + column).collect();
            let columns = self.touched(&inputs);
            let values = x.row_iter().map(|row| posterior.term_mean(row, index)).collect();
            Term { name: self.joined(&columns), columns, values }
        };
        posterior.effects().terms().iter().enumerate().map(term).collect()
    }
}
