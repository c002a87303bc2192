//! Compares the square loss, whose hyper-parameters no evidence restrains, with the ELBO by short fits to parts of the rows.

use super::row_buffer::RowBuffer;
use super::rows::TrainingData;
use super::run::{Job, fit_from};
use super::start::{Prototype, Start, initial_model};
use crate::collapsed::Dataset;
use crate::data::{Moments, Purpose, generator};
use crate::hyper::Session;
use crate::model::Warning;
use crate::options::{FitOptions, LossKind, ObjectiveKind, Plan, Way};
use rand::seq::SliceRandom;

/// The number of parts. Each part is left out once.
const PARTS: usize = 5;

/// The maximum number of epochs of a short fit.
const EPOCHS: usize = 50;

/// The minimum number of rows, …
const FEWEST_ROWS: usize = 50;

/// … and the number of rows for every trained number from which on overfitting is unlikely.
const ROWS_A_NUMBER: usize = 10;

/// The difference from the ELBO, in standard errors, that shows worse predictions.
const SURE: f64 = 2.0;

/// Warns if short fits by the square loss predict rows that were left out worse than short fits by the ELBO do. Fits with validation rows
/// see overfitting themselves, and fits with a time limit are not checked, because the short fits together take as long as a fit.
pub(super) fn about_square_loss(
    data: &TrainingData<'_>,
    plan: &Plan,
    (options, prototype): (&FitOptions, &Prototype),
    session: &mut Session<'_>,
) -> Option<Warning> {
    let n = data.train.len();
    let numbers = options.inducing_for(n) * (1 + usize::from(!options.fix_inducing) * data.train.x.ncols());
    let applies = plan.loss == LossKind::Square && matches!(plan.way, Way::Collapsed(_)) && plan.hyper.trains;
    let has_limits = data.validation.is_some() || plan.limits.seconds.is_some();
    if !applies || has_limits || n < FEWEST_ROWS || n >= ROWS_A_NUMBER * numbers {
        return None;
    }
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut generator(options.seed, Purpose::Choices, 0));
    let (mut own, mut rises, mut training) = (Moments::default(), Moments::default(), [0.0; 2]);
    for part in 0..PARTS {
        let (held, rest): (Vec<_>, Vec<_>) = (0..n).partition(|i| i % PARTS == part);
        let [rest, held] = [rest, held]
            .map(|part| RowBuffer::taken(data.train, &Vec::from_iter(part.into_iter().map(|i| rows[i]))));
        let short = FitOptions { epochs: Some(plan.limits.epochs.min(EPOCHS)), ..options.clone() };
        let square = errors_of(&short, prototype, [&rest, &held], session)?;
        let short = FitOptions { objective: ObjectiveKind::Elbo, beta: 1.0, ..short };
        let elbo = errors_of(&short, prototype, [&rest, &held], session)?;
        for (sum, [of_rest, _]) in training.iter_mut().zip([&square, &elbo]) {
            *sum += of_rest.iter().sum::<f64>();
        }
        for (square, elbo) in square[1].iter().zip(&elbo[1]) {
            own.push(*square);
            rises.push(square - elbo);
        }
    }
    let (square, rise) = (own.mean()?, rises.mean()?);
    let warning =
        || Warning::SquareLoss { ratio: square / (square - rise), training: training[0] / training[1] };
    (rise > SURE * rises.standard_error()?).then(warning)
}

/// Returns the squared errors of the rows of a fit and of left-out rows, times their weights; `None` if the fit fails or is interrupted.
fn errors_of(
    options: &FitOptions,
    prototype: &Prototype,
    [rest, held]: [&RowBuffer; 2],
    session: &mut Session<'_>,
) -> Option<[Vec<f64>; 2]> {
    let rows = TrainingData { validation: None, ..TrainingData::of(rest.data()) };
    let plan = Plan::new(options, &prototype.likelihood, rest.y.len()).ok()?;
    let model = initial_model(rest.data(), &plan, prototype).ok()?;
    let job = Job { rows: &rows, plan: &plan, fresh: true };
    let fitted = fit_from(Start { model, q: None }, &job, &mut session.aside()).ok()?;
    let errors = |rows: &RowBuffer| {
        let Dataset { x, targets } = rows.data();
        let means = fitted.posterior.means(x);
        let error = |(i, mean): (usize, &f64)| (targets.y[i] - mean).powi(2) * targets.weight(i);
        means.iter().enumerate().map(error).collect()
    };
    Some([errors(rest), errors(held)])
}
