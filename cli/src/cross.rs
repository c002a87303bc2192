//! `fit --cv`: fits that each leave out a part of the rows, scored on that part; the fit to all rows follows elsewhere.

use super::args::{Contender, FitArgs};
use super::progress::Progress;
use super::{fitting, interruption};
use sparsegp::Result;
use sparsegp::hyper::{Event, Session};
use sparsegp::options::FitOptions;
use sparsegp_tables::report::{CrossValidation, Evaluation, Evaluator};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::{Table, read_table_with};
use sparsegp_tables::tabular::{FitRequest, Fold, fit_table_in, folds};
use std::time::Instant;

/// Cross-validates the fit that the arguments ask for, in `count` parts, and those that it is compared with. All fits together have the
/// seconds of the options, of which the last one, to all rows, gets the same share; the options for it are returned.
///
/// # Errors
///
/// As for a fit; usage errors for parts that the rows cannot be split into.
pub fn validate(args: &FitArgs, count: usize, options: &FitOptions) -> Result<(CrossValidation, FitOptions)> {
    let fits = count * (1 + args.contenders.len()) + 1;
    let share = |options: FitOptions| {
        let max_seconds = options.max_seconds.map(|seconds| seconds / fits as f64);
        FitOptions { max_seconds, ..options }
    };
    let options = share(options.clone());
    let contenders: Vec<(&Contender, FitOptions)> =
        args.contenders.iter().map(|contender| (contender, share(contender.args.options(None)))).collect();
    for (contender, options) in &contenders {
        options.validate().and_then(|()| contender.args.check(options))?;
    }
    let table = read_table_with(&args.data, &args.columns.read_options())?;
    let columns = args.schema_options();
    let labelled = table.with_values(&columns.target);
    let folds = folds((&labelled, &columns.target), columns.split.as_ref(), (count, options.seed))?;
    let mut scores = CrossValidation::default();
    // First the others: a mistake in their options is found before the rest is fitted.
    for (contender, options) in &contenders {
        let what = format!(" with {}", contender.words);
        let folds =
            scored(&contender.args, &what, options, (&labelled, &folds)).collect::<Result<Vec<_>>>()?;
        scores.push_contender(contender.words.clone(), &folds);
    }
    for fold in scored(args, "", &options, (&labelled, &folds)) {
        scores.push(&fold?);
    }
    Ok((scores, options))
}

/// Fits without each of the parts, one after the other, and returns the scores on it.
fn scored<'a>(
    args: &'a FitArgs,
    with: &'a str,
    options: &'a FitOptions,
    (table, folds): (&'a Table, &'a [Fold]),
) -> impl Iterator<Item = Result<Evaluation>> + 'a {
    let columns = args.schema_options();
    folds.iter().enumerate().map(move |(number, Fold { train, test })| {
        let (train, test) = (table.take(train), table.take(test));
        let request = FitRequest {
            table: &train,
            columns: &columns,
            options,
            test_fraction: 0.0,
            start: None,
            keep_posterior: false,
        };
        let of = folds.len();
        let what = format!("{}{with}, part {} of {of} left out", args.data.display(), number + 1);
        let mut progress = Progress::of_one_of_several(what, args.output.quiet);
        let started = Instant::now();
        let mut listener = |event: &Event| progress.show(event);
        let mut session = Session::new(&mut listener)
            .with_interrupt(interruption::flag())
            .with_clock(fitting::clock(options, started));
        let fit = fit_table_in(&request, &mut session)?;
        progress.end(fit.model.summary());
        let baselines = fitting::baselines((&request, started), &fit.model);
        let mut evaluator = Evaluator::new(&fit.model, baselines.as_ref());
        evaluator.push_table(&test, UnseenLevels::New)?;
        Ok(evaluator.finish())
    })
}
