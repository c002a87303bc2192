//! The plan of a comparison: contenders, training-set sizes, repeats, and the rows of each.

use crate::schema::{SchemaOptions, UnseenLevels};
use crate::tables::Table;
use crate::tabular::{Shares, find_schema, split_table, training_rows};
use rand::seq::SliceRandom;
use sparsegp::data::{Purpose, generator};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::{LikelihoodKind, Task};
use sparsegp::objective::Estimator;
use sparsegp::options::{Betas, FitOptions, Hyper, ObjectiveKind, StepOptions};
use sparsegp::word_option;
use std::borrow::Cow;

word_option! {
    /// A contender: an objective and its use.
    #[non_exhaustive]
    Contender, "objective" {
        /// The ELBO.
        Elbo = "elbo",
        /// The β-ELBO with β chosen by validation rows.
        BetaElbo = "beta-elbo",
        /// Direct loss minimisation of the log loss.
        DlmLog = "dlm-log",
        /// Direct loss minimisation of the log loss over q alone, with the hyper-parameters of the ELBO fit.
        DlmLogFixed = "dlm-log:fixed",
        /// Direct loss minimisation of the log loss, started independently of the ELBO fit.
        DlmLogScratch = "dlm-log:scratch",
        /// Direct loss minimisation of the square loss.
        DlmSquare = "dlm-square",
        /// Direct loss minimisation of the square loss over q alone, with the hyper-parameters of the ELBO fit.
        DlmSquareFixed = "dlm-square:fixed",
        /// The collapsed ELBO.
        Vfe = "vfe",
        /// FITC's evidence.
        Fitc = "fitc",
    }
}

impl Contender {
    /// Returns the objective that it minimises.
    pub fn objective(self) -> ObjectiveKind {
        match self {
            Contender::Elbo | Contender::BetaElbo => ObjectiveKind::Elbo,
            Contender::DlmLog | Contender::DlmLogFixed | Contender::DlmLogScratch => ObjectiveKind::DlmLog,
            Contender::DlmSquare | Contender::DlmSquareFixed => ObjectiveKind::DlmSquare,
            Contender::Vfe => ObjectiveKind::Vfe,
            Contender::Fitc => ObjectiveKind::Fitc,
        }
    }

    /// Returns true if it keeps the hyper-parameters of the ELBO fit.
    pub(crate) fn is_fixed(self) -> bool {
        matches!(self, Contender::DlmLogFixed | Contender::DlmSquareFixed)
    }

    /// Returns true if it starts from the ELBO fit to the same rows.
    pub(crate) fn follows_elbo(self) -> bool {
        self.chooses_beta() && self != Contender::DlmLogScratch
    }

    /// Returns true if it chooses β; the others have β = 1.
    pub(crate) fn chooses_beta(self) -> bool {
        !matches!(self, Contender::Elbo | Contender::Vfe | Contender::Fitc)
    }
}

/// The training rows that a stored model was fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// All training rows.
    All,
    /// All training rows except the validation rows that judge a grid of β.
    AllButValidation,
}

const MOST_REPEATS: u64 = 10_000;

/// The settings of a comparison, as the user gave them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The objectives to compare, in the order of the tables.
    pub objectives: Vec<Contender>,
    /// The grid of β for contenders that choose it; `None` means β = 1.
    pub betas: Option<Betas>,
    /// The number of repeats, each with other test rows.
    pub repeats: u64,
    /// The numbers of training rows; if empty, all rows that are not test rows.
    pub train_sizes: Vec<usize>,
    /// The share of the rows held out for testing.
    pub test_fraction: f64,
    /// The columns to use.
    pub columns: SchemaOptions,
    /// The options of the fits. Each contender sets the objective, β and the mode of the hyper-parameters.
    /// The validation fraction applies to the choice of β. The seed is used for the first repeat, and each
    /// later repeat adds 1.
    pub options: FitOptions,
}

impl Settings {
    /// Validates the settings without the data.
    ///
    /// # Errors
    ///
    /// Usage errors for values out of range, and for settings that contradict each other.
    pub fn validate(&self) -> Result<()> {
        self.validate_contenders()?;
        if !(1..=MOST_REPEATS).contains(&self.repeats) {
            let repeats = self.repeats;
            return Err(Error::usage(format!("⟨repeats⟩ is {repeats}, expected 1 to {MOST_REPEATS}")));
        }
        if let Some(size) = self.train_sizes.iter().find(|&&size| size < 2) {
            return Err(Error::usage(format!("⟨train_sizes⟩ has {size}, expected at least 2 rows")));
        }
        if !(self.test_fraction > 0.0 && self.test_fraction < 1.0) {
            return Err(Error::usage(format!(
                "⟨test_fraction⟩ is {}, expected a number above 0 and below 1",
                self.test_fraction
            ))
            .hint("objectives are compared by the rows held out for testing"));
        }
        self.objectives.iter().try_for_each(|&contender| self.options(contender, 0).validate())
    }

    fn validate_contenders(&self) -> Result<()> {
        for (index, contender) in self.objectives.iter().enumerate() {
            if self.objectives[..index].contains(contender) {
                return Err(Error::usage(format!("⟨objectives⟩ names {contender} twice")));
            }
        }
        if self.objectives.is_empty() {
            return Err(Error::usage("⟨objectives⟩ is empty, expected at least one objective"));
        }
        if self.betas.is_none() && self.objectives.contains(&Contender::BetaElbo) {
            return Err(Error::usage("⟨objectives beta-elbo⟩ chooses β from a grid, but no grid is given")
                .hint("add ⟨betas auto⟩, or a list of values"));
        }
        if self.betas.is_some() && !self.objectives.iter().any(|contender| contender.chooses_beta()) {
            return Err(Error::usage("⟨betas⟩ has no effect on elbo, vfe and fitc, which have β = 1")
                .hint("add beta-elbo, dlm-log or dlm-square to ⟨objectives⟩"));
        }
        let estimator = self.options.estimator;
        if self.options.steps.sample_schedule.is_some() && !estimator.is_sampled() {
            return Err(Error::usage(format!(
                "⟨sample_schedule⟩ is for estimators that draw samples, not ⟨estimator {estimator}⟩"
            )));
        }
        let wanted = estimator_objective(estimator).filter(|&objective| !self.fits(objective));
        if let Some(objective) = wanted {
            return Err(Error::usage(format!(
                "⟨estimator {estimator}⟩ has no effect without {objective} among ⟨objectives⟩"
            )));
        }
        self.validate_likelihood(self.options.likelihood_kind())
    }

    fn validate_likelihood(&self, likelihood: LikelihoodKind) -> Result<()> {
        let misfit = self.objectives.iter().find(|contender| contender.objective().is_closed());
        match misfit.filter(|_| !likelihood.has_gaussian_noise()) {
            Some(contender) => Err(Error::usage(format!(
                "⟨objectives {contender}⟩ needs the gaussian likelihood, not {likelihood}"
            ))
            .hint("elbo, beta-elbo and dlm-log take every likelihood")),
            None => Ok(()),
        }
    }

    /// Returns true if any fit minimises `objective`, as a contender or as a start for other fits.
    fn fits(&self, objective: ObjectiveKind) -> bool {
        match objective {
            ObjectiveKind::Elbo => self.needs_elbo(),
            _ => self.objectives.iter().any(|contender| contender.objective() == objective),
        }
    }

    /// Returns true if the ELBO is fitted, as a contender or as a start for others.
    pub fn needs_elbo(&self) -> bool {
        let needed = |&contender: &Contender| contender == Contender::Elbo || contender.follows_elbo();
        self.objectives.iter().any(needed)
    }

    /// Returns the grid of β of a contender, if it chooses β.
    pub(crate) fn grid_of(&self, contender: Contender) -> Option<&Betas> {
        self.betas.as_ref().filter(|_| contender.chooses_beta())
    }

    /// Returns the models of the ELBO fits that other fits start from.
    pub(crate) fn kept_starts(&self) -> &'static [Seen] {
        if self.betas.is_some() { &[Seen::All, Seen::AllButValidation] } else { &[Seen::All] }
    }

    /// Returns the options of a contender's fits.
    pub fn options(&self, contender: Contender, repeat: u64) -> FitOptions {
        let objective = contender.objective();
        let options = if objective.is_closed() { self.options.without_steps() } else { self.options.clone() };
        let samples = estimator_objective(options.estimator) == Some(objective);
        FitOptions {
            objective,
            beta: 1.0,
            hyper: contender.is_fixed().then_some(Hyper::Fixed),
            hyper_optimizer: None,
            estimator: if samples { options.estimator } else { Estimator::Exact },
            steps: StepOptions {
                sample_schedule: options.steps.sample_schedule.filter(|_| samples),
                ..options.steps.clone()
            },
            validation_fraction: match self.grid_of(contender) {
                Some(_) => options.validation_fraction,
                None => 0.0,
            },
            seed: self.seed(repeat),
            ..options
        }
    }

    /// Returns the seed of a repeat.
    pub fn seed(&self, repeat: u64) -> u64 {
        self.options.seed.wrapping_add(repeat)
    }
}

/// Returns the objective that an estimator is limited to, if any.
fn estimator_objective(estimator: Estimator) -> Option<ObjectiveKind> {
    match (estimator.facts().of_expected_log, estimator.is_predictive()) {
        (true, _) => Some(ObjectiveKind::Elbo),
        (_, true) => Some(ObjectiveKind::DlmLog),
        _ => None,
    }
}

/// A unit of work: one contender on one training set, with all of its β, recorded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The contender.
    pub contender: Contender,
    /// The number of training rows.
    pub size: usize,
    /// The number of the repeat, from 0.
    pub repeat: u64,
}

/// A comparison on a table, checked as far as possible before any fit.
pub struct Plan<'a> {
    /// The rows with a target.
    table: Cow<'a, Table>,
    /// The settings, completed from the data.
    pub settings: Settings,
    /// The kind of target.
    pub task: Task,
    /// The numbers of training rows, ascending.
    pub sizes: Vec<usize>,
    /// Notes for the user, to show before the fits start.
    pub notes: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Finds the columns, the kind of target, the likelihood and the training-set sizes from the data.
    ///
    /// The columns are found in the whole table, so that every part of it has the same categories and the same task.
    ///
    /// # Errors
    ///
    /// As for [`Settings::validate`]; data errors for a table that no model can learn from.
    pub fn new(settings: &Settings, table: &'a Table) -> Result<Plan<'a>> {
        settings.validate()?;
        let shares = Shares { test: settings.test_fraction, validation: 0.0, seed: settings.options.seed };
        let train = training_rows(table, &settings.columns, shares);
        let (schema, mut notes) = find_schema(table, &settings.columns, &settings.options, &train)?;
        let table = table.with_values(schema.target_name());
        // Bad cells are found here, where their positions in the file are known.
        schema.design(&table, UnseenLevels::New)?;
        let task = schema.encoding().task();
        let likelihood =
            settings.options.likelihood.unwrap_or(LikelihoodKind::default_of(schema.encoding().kind));
        settings.validate_likelihood(likelihood)?;
        let columns = SchemaOptions { known: Some(schema), ..settings.columns.clone() };
        let options =
            FitOptions { task: Some(task), likelihood: Some(likelihood), ..settings.options.clone() };
        let available = split_table(&table, columns.split.as_ref(), shares)?.train.len();
        let sizes = sizes(&settings.train_sizes, available, &mut notes);
        Ok(Plan { table, settings: Settings { columns, options, ..settings.clone() }, task, sizes, notes })
    }

    pub(crate) fn reported(&self) -> Vec<Unit> {
        self.units(&self.settings.objectives)
    }

    /// Returns the units in the order of the fits: first the ELBO fits that are reported or that other fits start from, then all others.
    pub fn phases(&self) -> [Vec<Unit>; 2] {
        let elbo = if self.settings.needs_elbo() { self.units(&[Contender::Elbo]) } else { Vec::new() };
        let mut others = self.reported();
        others.retain(|unit| unit.contender != Contender::Elbo);
        [elbo, others]
    }

    fn units(&self, contenders: &[Contender]) -> Vec<Unit> {
        let mut units = Vec::new();
        for &size in &self.sizes {
            for repeat in 0..self.settings.repeats {
                units.extend(contenders.iter().map(|&contender| Unit { contender, size, repeat }));
            }
        }
        units
    }

    /// Returns the training and the test rows of a repeat. The test rows depend only on the repeat, and a smaller training set is part of
    /// a larger one.
    ///
    /// # Errors
    ///
    /// If too few rows are left.
    pub fn rows(&self, size: usize, repeat: u64) -> Result<(Vec<usize>, Vec<usize>)> {
        let seed = self.settings.seed(repeat);
        let shares = Shares { test: self.settings.test_fraction, validation: 0.0, seed };
        let parts = split_table(&self.table, self.settings.columns.split.as_ref(), shares)?;
        let mut train = parts.train;
        train.shuffle(&mut generator(seed, Purpose::Subset, 0));
        train.truncate(size);
        train.sort_unstable();
        Ok((train, parts.test))
    }

    /// Returns the training and the test part of the table in a repeat.
    ///
    /// # Errors
    ///
    /// As for [`Plan::rows`].
    pub fn tables(&self, size: usize, repeat: u64) -> Result<(Table, Table)> {
        let (train, test) = self.rows(size, repeat)?;
        Ok((self.table.take(&train), self.table.take(&test)))
    }
}

/// Returns the requested sizes that are possible, ascending.
fn sizes(asked: &[usize], available: usize, notes: &mut Vec<String>) -> Vec<usize> {
    let mut sizes: Vec<usize> = asked.iter().map(|&size| size.min(available)).collect();
    if let Some(larger) = asked.iter().max().filter(|&&size| size > available) {
        notes.push(format!(
            "{larger} training rows were requested, but only {available} remain besides the test rows: all of them are used"
        ));
    }
    if sizes.is_empty() {
        sizes.push(available);
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Column, NamedColumn};

    #[test]
    fn training_sets_are_nested_and_apart_from_the_test_rows_of_their_repeat() {
        let column = |name: &str, value: fn(f64) -> f64| NamedColumn {
            name: name.into(),
            column: Column::Number((0..50).map(|row| value(f64::from(row))).collect()),
        };
        let columns = vec![column("x", |t| t), column("y", |t| 0.3 + t.sin())];
        let table = Table::new("t", columns).expect("a table");
        let settings = Settings {
            objectives: vec![Contender::Elbo],
            betas: None,
            repeats: 2,
            train_sizes: Vec::new(),
            test_fraction: 0.2,
            columns: SchemaOptions { target: "y".into(), ..SchemaOptions::default() },
            options: FitOptions { seed: 5, ..FitOptions::default() },
        };
        let plan = Plan::new(&settings, &table).expect("a plan");
        let (small, test) = plan.rows(10, 0).expect("rows");
        let (large, same_test) = plan.rows(40, 0).expect("rows");
        assert_eq!((small.len(), large.len(), test.len()), (10, 40, 10));
        assert_eq!(test, same_test);
        assert!(small.iter().all(|row| large.contains(row)));
        assert!(large.iter().all(|row| !test.contains(row)));
        assert_ne!(plan.rows(10, 1).expect("rows"), (small, test));
    }
}
