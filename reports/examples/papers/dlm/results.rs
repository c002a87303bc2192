//! Comparisons of the fits to a data set, with β chosen by the validation rows.

use crate::raw::Row;
use crate::sets::Set;
use sparsegp::data::Moments;
use sparsegp_tables::compare::Contender;

pub const SIZES: [usize; 4] = [250, 500, 1000, 2000];

pub const NLL: Figure = |row| row.nll;
pub const ERROR: Figure = |row| row.error;

/// The fewest repeats whose standard error decides about a claim, and the fewest rows of a regression: the paper's smallest
/// size is 691.
pub const FEWEST: usize = 3;
const FEWEST_ROWS: usize = 500;

/// A figure of a fit: the test NLL, or the error.
pub type Figure = fn(&Row) -> f64;

/// A mean over repeats with its standard error, which is NaN for one repeat.
#[derive(Clone, Copy)]
pub struct Mean {
    pub mean: f64,
    pub error: f64,
    pub repeats: usize,
}

impl FromIterator<f64> for Mean {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Mean {
        let values: Vec<f64> = values.into_iter().collect();
        let moments = Moments::of(values.iter().copied());
        let [mean, error] = [moments.mean(), moments.standard_error()].map(|found| found.unwrap_or(f64::NAN));
        Mean { mean, error, repeats: values.len() }
    }
}

impl Mean {
    /// Returns true if the mean is above 0 by more than two standard errors.
    pub fn is_clear(&self) -> bool {
        self.mean > 2.0 * self.error
    }

    pub fn negated(self) -> Mean {
        Mean { mean: -self.mean, ..self }
    }
}

impl std::fmt::Display for Mean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mean { mean, error, .. } = self;
        if self.repeats == 0 {
            return f.write_str("–");
        }
        // Means of counts can be astronomical.
        let text = if mean.abs() < 1e4 { format!("{mean:.4}") } else { format!("{mean:.1e}") };
        if error.is_nan() { f.write_str(&text) } else { write!(f, "{text} ± {error:.4}") }
    }
}

/// Returns how much the figures of `others` exceed the figures of `rows` in the same repeats.
pub fn paired(rows: &[&Row], others: &[&Row], figure: Figure) -> Mean {
    let of = |row: &&Row| {
        others.iter().find(|other| other.repeat == row.repeat).map(|other| figure(other) - figure(row))
    };
    rows.iter().filter_map(of).collect()
}

pub struct Results<'a> {
    pub set: &'static Set,
    pub n: usize,
    rows: Vec<&'a Row>,
    all: &'a [Row],
}

impl<'a> Results<'a> {
    /// Returns the results of a set by size, the smallest first.
    pub fn of(all: &'a [Row], set: &'static Set) -> Vec<Results<'a>> {
        let is_of = |row: &&Row| row.set == set.name && row.method.parse::<Contender>().is_ok();
        let of =
            |n| Results { set, n, rows: all.iter().filter(is_of).filter(|row| row.n == n).collect(), all };
        SIZES.map(of).into_iter().filter(|results| !results.rows.is_empty()).collect()
    }

    pub fn with_beta(all: &'a [Row], set: &'static Set, beta: f64) -> Results<'a> {
        let rows: Vec<_> = all.iter().filter(|row| row.set == set.name && row.beta == beta).collect();
        Results { set, n: rows.first().map_or(0, |row| row.n), rows, all }
    }

    /// Returns the results of the set with as many rows or fewer and with enough repeats, the fewest rows first.
    pub fn sizes(&self) -> Vec<Results<'a>> {
        let is_smaller = |results: &Results| results.n <= self.n && results.repeats() >= FEWEST;
        Results::of(self.all, self.set).into_iter().filter(is_smaller).collect()
    }

    pub fn label(&self) -> String {
        let replaced = self.set.stands_for.map_or(String::new(), |of| format!(" (for {of})"));
        format!("{}{replaced}, {} rows", self.set.name, self.n)
    }

    /// Returns the results of the largest size with enough repeats, or else of the largest.
    pub fn largest(rows: &'a [Row], set: &'static Set) -> Option<Results<'a>> {
        let mut sizes = Results::of(rows, set);
        let at = sizes.iter().rposition(Results::decides);
        let at = at.or(sizes.len().checked_sub(1))?;
        Some(sizes.swap_remove(at))
    }

    /// Returns true if there are enough repeats and rows to decide about claims.
    pub fn decides(&self) -> bool {
        let is_small = self.set.is_regression() && self.n < FEWEST_ROWS;
        self.repeats() >= FEWEST && !is_small
    }

    pub fn repeats(&self) -> usize {
        self.selected(Contender::Elbo).len()
    }

    pub fn grid(&self, objective: Contender) -> impl Iterator<Item = &'a Row> {
        let word = objective.to_string();
        self.rows.iter().copied().filter(move |row| row.method == word)
    }

    /// Returns the fit with the best validation score in every repeat.
    pub fn selected(&self, objective: Contender) -> Vec<&'a Row> {
        let best = |repeat| {
            let fits = self.grid(objective).filter(|row| row.repeat == repeat);
            fits.min_by(|a, b| a.validation.total_cmp(&b.validation))
        };
        (0..10).filter_map(best).collect()
    }

    pub fn mean(&self, objective: Contender, figure: Figure) -> Mean {
        self.selected(objective).into_iter().map(figure).collect()
    }

    /// Returns the figure of `other` less that of `objective` in the same repeats.
    pub fn gain(&self, objective: Contender, other: Contender, figure: Figure) -> Mean {
        paired(&self.selected(objective), &self.selected(other), figure)
    }

    pub fn gain_at(&self, objective: Contender, beta: f64, other: Contender, figure: Figure) -> Mean {
        paired(&self.with(objective, beta), &self.selected(other), figure)
    }

    pub fn with(&self, objective: Contender, beta: f64) -> Vec<&'a Row> {
        self.grid(objective).filter(|row| row.beta == beta).collect()
    }

    /// Returns the repeat with the largest difference of the log losses, and the β of `objective` there.
    pub fn largest_gap(&self, objective: Contender, other: Contender) -> (u64, f64) {
        let pairs = self.selected(objective).into_iter().zip(self.selected(other));
        let gaps = pairs.map(|(row, other)| ((row.nll - other.nll).abs(), row));
        gaps.max_by(|a, b| a.0.total_cmp(&b.0)).map_or((0, f64::NAN), |(_, row)| (row.repeat, row.beta))
    }

    pub fn best(&self, objectives: &[Contender], figure: Figure) -> Contender {
        let mean = |objective: &Contender| self.mean(*objective, figure).mean;
        *objectives.iter().min_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap_or(&objectives[0])
    }

    /// Returns the better form of DLM and the better form of the ELBO, with the gain of DLM in log loss.
    pub fn dlm_over_elbo(&self) -> (Contender, Contender, Mean) {
        let dlm = self.best(&[Contender::DlmLog, Contender::DlmLogFixed], NLL);
        let elbo = self.best(&[Contender::Elbo, Contender::BetaElbo], NLL);
        (dlm, elbo, self.gain(dlm, elbo, NLL))
    }

    /// Returns the mean over the repeats of the binary logarithm of the selected β.
    pub fn log_beta(&self, objective: Contender) -> f64 {
        self.selected(objective).iter().map(|row| row.beta.log2()).collect::<Mean>().mean
    }

    /// Returns the β with the lowest mean on the test rows, and that mean.
    pub fn hindsight(&self, objective: Contender, figure: Figure) -> (f64, f64) {
        let curve = self.curve(objective, figure).into_iter().map(|(beta, mean)| (beta, mean.mean));
        curve.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((f64::NAN, f64::NAN))
    }

    pub fn curve(&self, objective: Contender, figure: Figure) -> Vec<(f64, Mean)> {
        let mut betas: Vec<f64> = self.grid(objective).map(|row| row.beta).collect();
        betas.sort_by(f64::total_cmp);
        betas.dedup();
        let of_beta = |beta: f64| self.grid(objective).filter(move |row| row.beta == beta).map(figure);
        betas.into_iter().map(|beta| (beta, of_beta(beta).collect())).collect()
    }

    /// Returns the means of some objectives as text, with the selected β.
    pub fn text(&self, objectives: &[Contender], figure: Figure) -> String {
        let text = objectives.iter().map(|&objective| {
            let beta = match objective {
                Contender::Elbo | Contender::Fitc => String::new(),
                _ => format!(" (β {:.2})", self.log_beta(objective).exp2()),
            };
            format!("{objective} {}{beta}", self.mean(objective, figure))
        });
        text.collect::<Vec<_>>().join(", ")
    }
}
