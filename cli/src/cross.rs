//! `fit --cv`: fits that each leave out a part of the rows and are scored on that part.

use super::args::{Contender, FitArgs};
use super::progress::Progress;
use super::{fitting, interruption};
use sparsegp::Result;
use sparsegp::hyper::{Event, Session};
use sparsegp::options::FitOptions;
use sparsegp_reports::{CrossValidation, Evaluation, Evaluator};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::Table;
use sparsegp_tables::tabular::{FitRequest, Fold, fit_table_in, folds};
use std::time::Instant;

/// Cross-validates the fit and its contenders on `count` parts of a table. Returns the scores, and the options for the later fit to all
/// rows. The time limit of these options is the share of `--max-seconds` that every fit gets, including the fit to all rows.
///
/// # Errors
///
/// Returns the errors of a fit, and a usage error if the rows cannot be split into the parts.
pub fn validate(
    args: &FitArgs,
    table: &Table,
    count: usize,
    options: &FitOptions,
) -> Result<(CrossValidation, FitOptions)> {
    let fits = count * (1 + args.contenders.len()) + 1;
    let share = |options: FitOptions| {
        let max_seconds = options.max_seconds.map(|seconds| seconds / fits as f64);
        FitOptions { max_seconds, ..options }
    };
    let options = share(options.clone());
    let columns = args.schema_options();
    let labelled = table.with_values(&columns.target);
    let folds = folds(&labelled, &columns.target, columns.split.as_ref(), count, options.seed)?;
    // Contenders are fitted first, so that mistakes in their options are found early.
    let fitted = args.contenders.iter().map(|Contender { words, args }| {
        let what = format!("{} with {words}", args.data.display());
        scored(args, &what, &share(args.options(None)?), &labelled, &folds)
    });
    let others = fitted.collect::<Result<Vec<_>>>()?;
    let mut scores =
        CrossValidation::of(&scored(args, &args.data.display().to_string(), &options, &labelled, &folds)?);
    for (contender, tests) in args.contenders.iter().zip(&others) {
        scores.push_contender(contender.words.clone(), tests);
    }
    Ok((scores, options))
}

/// Fits without each part in turn, and returns the scores on that part. `what` names the fit in progress messages.
fn scored(
    args: &FitArgs,
    what: &str,
    options: &FitOptions,
    table: &Table,
    folds: &[Fold],
) -> Result<Vec<Evaluation>> {
    let columns = args.schema_options();
    let score = |(number, Fold { train, test }): (usize, &Fold)| {
        let (train, test) = (table.take(train), table.take(test));
        let request = FitRequest {
            table: &train,
            columns: &columns,
            options,
            test_fraction: 0.0,
            start: None,
            keep_posterior: false,
        };
        let what = format!("{what}, part {} of {} left out", number + 1, folds.len());
        let mut progress = Progress::of_one_of_several(what, args.output.quiet);
        let started = Instant::now();
        let mut listener = |event: &Event| progress.show(event);
        // Only predictions are scored, so intervals of hyper-parameters are not needed.
        let mut session = Session::new(&mut listener)
            .without_intervals()
            .with_interrupt(interruption::flag())
            .with_clock(fitting::clock(options, started));
        let fit = fit_table_in(&request, &mut session)?;
        progress.end(fit.model.summary());
        let baselines = fitting::baselines(&request, started, &fit.model);
        let mut evaluator = Evaluator::new(&fit.model, baselines.as_ref());
        evaluator.push_table(&test, UnseenLevels::New)?;
        Ok(evaluator.finish())
    };
    folds.iter().enumerate().map(score).collect()
}
