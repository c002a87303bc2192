//! `fit --cv`: fits that each leave out a part of the rows and are scored on that part.

use super::args::{Contender, FitArgs};
use super::progress::Progress;
use super::{fitting, interruption, output};
use sparsegp::Result;
use sparsegp::hyper::{Clock, Event, Session};
use sparsegp::options::FitOptions;
use sparsegp_reports::{CrossValidation, Evaluation, Evaluator};
use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::Table;
use sparsegp_tables::tabular::{FitRequest, Fold, OutputsRequest, fit_outputs_in, fit_table_in, folds};
use std::time::Instant;

/// Cross-validates the fit of the targets and its contenders on `count` parts of a table, and returns the scores of each target. A time limit counts from `started`; every fit, and the later fit
/// to all rows, gets an equal part of the time that is left. Once no time is left, the remaining parts are left out, except the second.
pub fn validate(
    args: &FitArgs,
    (table, targets): (&Table, &[String]),
    count: usize,
    options: &FitOptions,
    started: Instant,
) -> Result<Vec<CrossValidation>> {
    let clock = fitting::clock(options, started);
    let labelled = table.with_any_value(targets);
    let folds = folds(&labelled, targets, args.schema_options().split.as_ref(), count, options.seed)?;
    // Contenders are fitted first, so that mistakes in their options are found early.
    let contestant = |args, what, options| {
        let scores = targets.iter().map(|_| Vec::new()).collect();
        Contestant { args, what, options, targets, scores }
    };
    let mut contestants = Vec::new();
    for Contender { words, args } in &args.contenders {
        let what = format!("{} with {words}", args.data.display());
        contestants.push(contestant(args, what, args.options(None)?));
    }
    contestants.push(contestant(args, args.data.display().to_string(), options.clone()));
    let mut left = count * contestants.len() + 1;
    for contestant in &mut contestants {
        // The share of the time bounds the size of the model.
        let share = |seconds: f64| seconds / left as f64;
        contestant.options.max_seconds = contestant.options.max_seconds.map(share);
    }
    for (number, fold) in folds.iter().enumerate() {
        let is_over = clock.and_then(|clock| clock.at(1.0)).is_some_and(|end| Instant::now() >= end);
        if number >= 2 && is_over {
            output::note(&format!(
                "--max-seconds ended the cross-validation after {number} of {count} parts"
            ));
            break;
        }
        for contestant in &mut contestants {
            contestant.score((number, count), fold, &labelled, clock.map(|clock| clock.for_next_of(left)))?;
            left -= 1;
        }
    }
    let own = contestants.pop().map(|own| own.scores).unwrap_or_default();
    let of_target = |(target, own): (usize, &Vec<Evaluation>)| {
        let mut scores = CrossValidation::of(own);
        for (Contender { words, .. }, contestant) in args.contenders.iter().zip(&contestants) {
            scores.push_contender(words.clone(), &contestant.scores[target]);
        }
        scores
    };
    Ok(own.iter().enumerate().map(of_target).collect())
}

/// Returns the start of the fit to all rows, to which `options` then leave the rest of the time. A limit that has passed still leaves a usable
/// model.
pub fn restarted(options: &mut FitOptions, started: Instant) -> Instant {
    let left = |seconds: f64| (seconds - started.elapsed().as_secs_f64()).max(1e-3);
    options.max_seconds = options.max_seconds.map(left);
    Instant::now()
}

struct Contestant<'a> {
    args: &'a FitArgs,
    what: String,
    options: FitOptions,
    targets: &'a [String],
    /// The scores of every target on the parts so far.
    scores: Vec<Vec<Evaluation>>,
}

impl Contestant<'_> {
    /// Fits without a part, number `number` of `count`, and scores the part.
    fn score(
        &mut self,
        (number, count): (usize, usize),
        Fold { train, test }: &Fold,
        table: &Table,
        clock: Option<Clock>,
    ) -> Result<()> {
        let columns = self.args.schema_options();
        let (train, test) = (table.take(train), table.take(test));
        let what = format!("{}, part {} of {count} left out", self.what, number + 1);
        let mut progress = Progress::of_one_of_several(what, self.args.quiet);
        let mut listener = |event: &Event| progress.show(event);
        // Only predictions are scored, so intervals of hyper-parameters are not needed.
        let mut session = Session::new(&mut listener)
            .without_intervals()
            .with_interrupt(interruption::flag())
            .with_clock(clock);
        let (options, targets) = (&self.options, self.targets);
        let models = match targets {
            [_] => {
                vec![fit_table_in(&FitRequest::new(&train, &columns, options), &mut session)?.model.into()]
            }
            _ => {
                let (table, columns, sharing) = (&train, &columns, self.args.sharing());
                let request = OutputsRequest {
                    table,
                    columns,
                    targets,
                    options,
                    test_fraction: 0.0,
                    sharing,
                    start: None,
                };
                fit_outputs_in(&request, &mut session)?.models.into_models()
            }
        };
        if let Some(last) = models.last() {
            progress.end(last.summary());
        }
        for (model, scores) in models.iter().zip(&mut self.scores) {
            let (target, known) = (model.schema().target_name().to_owned(), Some(model.schema().clone()));
            let test = test.with_values(&target);
            let own = SchemaOptions { target, known, ..columns.clone() };
            let baselines = fitting::baselines(&FitRequest::new(&train, &own, options), clock, model);
            let mut evaluator = Evaluator::new(model, baselines.as_ref());
            evaluator.push_table(&test, UnseenLevels::New)?;
            scores.push(evaluator.finish());
        }
        Ok(())
    }
}
