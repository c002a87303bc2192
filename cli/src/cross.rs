//! `fit --cv`: fits that each leave out a part of the rows, scored on that part; the fit to all rows follows elsewhere.

use super::args::FitArgs;
use super::progress::Progress;
use super::{fitting, interruption};
use sparsegp::Result;
use sparsegp::hyper::{Event, Session};
use sparsegp::options::FitOptions;
use sparsegp_tables::report::{CrossValidation, Evaluator};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::read_table_with;
use sparsegp_tables::tabular::{FitRequest, Fold, fit_table_in, folds};
use std::time::Instant;

/// Cross-validates the fit that the arguments ask for, in `count` parts.
pub fn validate(args: &FitArgs, count: usize, options: &FitOptions) -> Result<CrossValidation> {
    let table = read_table_with(&args.data, &args.columns.read_options())?;
    let columns = args.schema_options();
    let labelled = table.with_values(&columns.target);
    let folds = folds((&labelled, &columns.target), columns.split.as_ref(), (count, options.seed))?;
    let mut scores = CrossValidation::default();
    for (number, Fold { train, test }) in folds.iter().enumerate() {
        let (train, test) = (labelled.take(train), labelled.take(test));
        let request = FitRequest {
            table: &train,
            columns: &columns,
            options,
            test_fraction: 0.0,
            start: None,
            keep_posterior: false,
        };
        let what = format!("{}, part {} of {count} left out", args.data.display(), number + 1);
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
        scores.push(&evaluator.finish());
    }
    Ok(scores)
}
