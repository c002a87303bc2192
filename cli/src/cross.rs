//! `fit --cv`: fits that each leave out a part of the rows and are scored on that part.

use super::args::{Contender, FitArgs};
use super::progress::Progress;
use super::{fitting, interruption, output};
use sparsegp::Result;
use sparsegp::hyper::{Clock, Event, Session};
use sparsegp::options::FitOptions;
use sparsegp_reports::{CrossValidation, Evaluation, Evaluator};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::Table;
use sparsegp_tables::tabular::{FitRequest, Fold, fit_table_in, folds};
use std::time::Instant;

/// Cross-validates the fit and its contenders on `count` parts of a table. A time limit counts from `started`; every fit, and the later fit
/// to all rows, gets an equal part of the time that is left. Once no time is left, the remaining parts are left out, except the second.
///
/// # Errors
///
/// Returns the errors of a fit, and a usage error if the rows cannot be split into the parts.
pub fn validate(
    args: &FitArgs,
    table: &Table,
    count: usize,
    options: &FitOptions,
    started: Instant,
) -> Result<CrossValidation> {
    let clock = fitting::clock(options, started);
    let columns = args.schema_options();
    let labelled = table.with_values(&columns.target);
    let folds = folds(&labelled, &columns.target, columns.split.as_ref(), count, options.seed)?;
    // Contenders are fitted first, so that mistakes in their options are found early.
    let mut contestants = Vec::new();
    for Contender { words, args } in &args.contenders {
        let what = format!("{} with {words}", args.data.display());
        contestants.push(Contestant { args, what, options: args.options(None)?, scores: Vec::new() });
    }
    let (what, options) = (args.data.display().to_string(), options.clone());
    contestants.push(Contestant { args, what, options, scores: Vec::new() });
    let mut left = count * contestants.len() + 1;
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
    let mut scores = CrossValidation::of(&own);
    for (Contender { words, .. }, contestant) in args.contenders.iter().zip(&contestants) {
        scores.push_contender(words.clone(), &contestant.scores);
    }
    Ok(scores)
}

/// A fit that is cross-validated.
struct Contestant<'a> {
    args: &'a FitArgs,
    /// The name of the fit in progress messages.
    what: String,
    options: FitOptions,
    /// The scores on the parts so far.
    scores: Vec<Evaluation>,
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
        let request = FitRequest::new(&train, &columns, &self.options);
        let what = format!("{}, part {} of {count} left out", self.what, number + 1);
        let mut progress = Progress::of_one_of_several(what, self.args.output.quiet);
        let mut listener = |event: &Event| progress.show(event);
        // Only predictions are scored, so intervals of hyper-parameters are not needed.
        let mut session = Session::new(&mut listener)
            .without_intervals()
            .with_interrupt(interruption::flag())
            .with_clock(clock);
        let fit = fit_table_in(&request, &mut session)?;
        progress.end(fit.model.summary());
        let baselines = fitting::baselines(&request, clock, &fit.model);
        let mut evaluator = Evaluator::new(&fit.model, baselines.as_ref());
        evaluator.push_table(&test, UnseenLevels::New)?;
        self.scores.push(evaluator.finish());
        Ok(())
    }
}
