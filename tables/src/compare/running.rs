//! The fits of a comparison: several at a time, each on one thread; every finished unit is
//! recorded.

use super::plan::{Contender, Plan, Seen, Unit};
use super::results::{FitOutcome, Results, Role, Row};
use super::store::Store;
use crate::schema::UnseenLevels;
use crate::tables::Table;
use crate::tabular::{FitRequest, TableModel, fit_grid, fit_table, refit_best};
use sparsegp::error::{Error, ErrorKind, Result};
use sparsegp::hyper::Session;
use sparsegp::metrics::Metrics;
use sparsegp::options::{Betas, FitOptions};
use sparsegp::training::search::{GridFit, grid_validation};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// A message about a finished unit.
pub struct Finished<'a> {
    /// The number of finished units, including those of earlier runs.
    pub done: usize,
    /// The number of all units.
    pub total: usize,
    /// The fit that represents the unit; `None` in the first message of a continued comparison.
    pub row: Option<&'a Row>,
}

/// Runs every fit that is not in the folder yet, at most `threads` at a time. Calls `listener` after every
/// unit, and once at the start if earlier runs have finished units.
///
/// Every fit runs on one thread, so the results do not depend on the number of threads. The ELBO fits run
/// first, because other fits start from them. The other fits read the ELBO models from the folder, so the
/// results do not depend on the run that fitted these models. A unit that fails is recorded with its error.
///
/// # Errors
///
/// Usage errors for options that no fit accepts; data errors if the folder cannot be written.
pub fn run(
    plan: &Plan<'_>,
    store: &Store,
    threads: usize,
    listener: &mut dyn FnMut(Finished<'_>),
) -> Result<Results> {
    let phases = plan.phases();
    let total = phases.iter().map(Vec::len).sum();
    let mut known: HashMap<Unit, Vec<Row>> = HashMap::new();
    for &unit in phases.iter().flatten() {
        known.extend(store.load(unit, plan.settings.kept_starts()).map(|rows| (unit, rows)));
    }
    if !known.is_empty() {
        listener(Finished { done: known.len(), total, row: None });
    }
    let work = Work { plan, store };
    for mut units in phases {
        units.retain(|unit| !known.contains_key(unit));
        // The longest fits start first, so that only short fits remain at the end.
        units.sort_by_key(|unit| std::cmp::Reverse(unit.size));
        work.run_all(&units, threads, &mut |unit, rows| {
            let done = known.len() + 1;
            let row = rows.iter().find(|row| row.role != Role::Grid);
            listener(Finished { done, total, row });
            known.insert(unit, rows);
        })?;
    }
    let rows = plan.reported().into_iter().filter_map(|unit| known.remove(&unit)).flatten();
    Ok(Results { rows: rows.collect() })
}

/// The data that the threads share.
struct Work<'a> {
    plan: &'a Plan<'a>,
    store: &'a Store,
}

impl Work<'_> {
    /// Runs units on several threads. After the first error, the units in progress finish, and no new one starts.
    fn run_all(&self, units: &[Unit], threads: usize, hear: &mut dyn FnMut(Unit, Vec<Row>)) -> Result<()> {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        let mut failed = None;
        std::thread::scope(|scope| {
            for _ in 0..threads.min(units.len()) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some(&unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = on_one_thread(|| self.unit(unit));
                        if outcome.is_err() {
                            next.store(units.len(), Ordering::Relaxed);
                        }
                        // The receiver lives as long as the threads.
                        let _ = sender.send((unit, outcome));
                    }
                });
            }
            drop(sender);
            for (unit, outcome) in receiver {
                match outcome {
                    Ok(rows) => hear(unit, rows),
                    Err(error) => failed = failed.take().or(Some(error)),
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// Runs a unit and records it.
    fn unit(&self, unit: Unit) -> Result<Vec<Row>> {
        let rows = match self.fit(unit) {
            Ok((rows, model)) => {
                if unit.contender == Contender::Elbo {
                    model.save(&self.store.model_path(unit, Seen::All))?;
                    self.fit_inner(unit)?;
                }
                rows
            }
            // A usage error would repeat in every unit.
            Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
            Err(error) => {
                let gridded = self.plan.settings.grid_of(unit.contender).is_some();
                let role = if gridded { Role::Selected } else { Role::Single };
                vec![Row { error: Some(error.to_string()), ..Row::new(self.plan, unit, role) }]
            }
        };
        self.store.save(unit, &rows)?;
        Ok(rows)
    }

    /// Returns the fits of a unit, and the model that represents it.
    fn fit(&self, unit: Unit) -> Result<(Vec<Row>, TableModel)> {
        let settings = &self.plan.settings;
        let (train, test) = self.plan.tables(unit.size, unit.repeat)?;
        let follows = unit.contender.follows_elbo();
        let start = follows.then(|| self.start(unit, Seen::All)).transpose()?;
        let options = settings.options(unit.contender, unit.repeat);
        let request = FitRequest::new(&train, &settings.columns, &options);
        let request = FitRequest { start: start.as_ref(), keep_posterior: true, ..request };
        match settings.grid_of(unit.contender) {
            Some(betas) => {
                let inner = follows.then(|| self.start(unit, Seen::AllButValidation)).transpose()?;
                self.grid(unit, &request, betas, inner.as_ref(), &test)
            }
            None => {
                let fit = fit_table(&request, &mut |_| {})?;
                Ok((vec![self.row(unit, Role::Single, &fit.model, &test)?], fit.model))
            }
        }
    }

    /// Fits the ELBO without the rows that judge β; grids start from this fit.
    fn fit_inner(&self, unit: Unit) -> Result<()> {
        let settings = &self.plan.settings;
        if settings.betas.is_none() {
            return Ok(());
        }
        let (train, _) = self.plan.tables(unit.size, unit.repeat)?;
        let options = settings.options(unit.contender, unit.repeat);
        let options = FitOptions { validation_fraction: grid_validation(&settings.options), ..options };
        let request = FitRequest::new(&train, &settings.columns, &options);
        match fit_table(&request, &mut |_| {}) {
            Ok(fit) => fit.model.save(&self.store.model_path(unit, Seen::AllButValidation)),
            Err(error) if error.kind() == ErrorKind::Usage => Err(error),
            // Grids that start from this fit report that it is missing.
            Err(_) => Ok(()),
        }
    }

    /// Returns the ELBO fit to the same rows.
    fn start(&self, unit: Unit, seen: Seen) -> Result<TableModel> {
        let elbo = Unit { contender: Contender::Elbo, ..unit };
        TableModel::load(&self.store.model_path(elbo, seen)).map_err(|error| {
            Error::fit(format!("the ELBO fit that this fit starts from is missing: {}", error.marked()))
        })
    }

    /// Fits with every β from the model `inner`, if there is one, and returns the best fit.
    fn grid(
        &self,
        unit: Unit,
        request: &FitRequest<'_>,
        betas: &Betas,
        inner: Option<&TableModel>,
        test: &Table,
    ) -> Result<(Vec<Row>, TableModel)> {
        let fits = fit_grid(&FitRequest { start: inner, ..*request }, betas, &mut Session::new(&mut |_| {}))?;
        let mut rows = Vec::new();
        for beta in betas.grid(request.table.rows()) {
            rows.push(match fits.iter().find(|fit| fit.point.beta == beta) {
                Some(GridFit { point, fit }) => {
                    Row { validation_score: point.score, ..self.row(unit, Role::Grid, &fit.model, test)? }
                }
                None => Row {
                    beta: Some(beta),
                    error: Some("this β could not be fitted".to_owned()),
                    ..Row::new(self.plan, unit, Role::Grid)
                },
            });
        }
        let (fit, curve) = refit_best(request, &fits, &mut Session::new(&mut |_| {}))?;
        let score = curve.points.iter().find(|point| point.beta == curve.chosen).and_then(|best| best.score);
        let row = self.row(unit, Role::Selected, &fit.model, test)?;
        rows.push(Row { validation_score: score, ..row });
        Ok((rows, fit.model))
    }

    fn row(&self, unit: Unit, role: Role, model: &TableModel, test: &Table) -> Result<Row> {
        let mut metrics = Metrics::new(model.task());
        let rows = model.rows(test, UnseenLevels::New)?;
        model.predict_part(&rows).compare(&rows.targets).iter().for_each(|row| metrics.push(row));
        Ok(Row {
            beta: Some(model.options().beta),
            fit: Some(FitOutcome::of(model)),
            test: metrics.report(),
            reliability: metrics.reliability().unwrap_or_default(),
            ..Row::new(self.plan, unit, role)
        })
    }
}

/// Runs a task in a pool of one thread, which limits all parallel code inside.
///
/// # Errors
///
/// If no thread can be started, and the error of the task.
pub fn on_one_thread<T: Send>(task: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.map_err(|error| Error::fit(format!("no thread could be started: {error}")))?.install(task)
}
