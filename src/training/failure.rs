//! The reasons of failed fits: the cause in data, parameters, `K_uu` or steps, and a suggestion.

use super::geometry::Crowding;
use super::run::TakenBack;
use crate::collapsed::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::latent::inducing::FactorizationFailure;
use crate::model::LatentPrior;
use faer::MatRef;

/// The size of numbers above which repeated squaring overflows.
const HUGE: f64 = 1e100;

/// The reason why not even the start could be evaluated, and a suggestion.
pub(super) struct Cause {
    why: String,
    advice: String,
}

impl Cause {
    /// Creates the error with this cause.
    pub(super) fn error(self, what: &str) -> Error {
        Error::fit(format!("{what}: {}", self.why)).hint(self.advice)
    }
}

/// Creates the error of a start that cannot be evaluated, before the cause is known.
pub(super) fn failed_start() -> Error {
    Error::fit("the objective is not finite at the starting point")
        .hint("check the data's scale, or fix the noise variance with ⟨fix likelihood.noise_variance=VALUE⟩")
}

/// Creates the error of an update whose new rows have no finite objective.
pub(super) fn new_rows_not_finite() -> Error {
    Error::fit("the objective is not finite at the new rows")
        .hint("check their scale: it should be that of the rows that the model was fitted to")
}

/// Creates the error of training that ended at a point without finite values, after these rollbacks.
pub(super) fn diverged(taken_back: TakenBack) -> Error {
    let TakenBack { hyper, q, .. } = taken_back;
    Error::fit(format!(
        "training ended where the objective is not finite; {hyper} steps on hyper-parameters and {q} on q had been taken back"
    ))
    .hint("try a smaller ⟨learning_rate⟩ or ⟨q_step⟩, or ⟨bounds⟩ on the hyper-parameters")
}

/// Creates the error of a start whose `K_uu` has no Cholesky factor.
pub(super) fn singular_start(
    failure: &FactorizationFailure,
    model: &LatentPrior,
    train: Dataset<'_>,
) -> Error {
    let cause = huge_data(train).or_else(|| out_of_range(model)).unwrap_or_else(|| singular(failure, model));
    cause.error("the starting point cannot be evaluated")
}

/// Returns the result, or `None` if a fit failed numerically; other errors are passed on.
pub(super) fn unless_failed<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::Fit => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds the cause to an error, if one is found at the start of the fit, `model`.
pub(super) fn explained(error: Error, model: &LatentPrior, train: Dataset<'_>) -> Error {
    if error.kind() != ErrorKind::Fit {
        return error;
    }
    match huge_data(train).or_else(|| out_of_range(model)).or_else(|| ill_conditioned(model)) {
        Some(cause) => cause.error(error.marked()),
        None => error,
    }
}

/// Finds a hyper-parameter so large or small that formulae lose all digits.
fn out_of_range(model: &LatentPrior) -> Option<Cause> {
    let beyond =
        |value: f64| !(value.is_finite() && value.abs() < HUGE && (value == 0.0 || value.abs() > 1.0 / HUGE));
    let (name, value) = model.named_values().into_iter().find(|&(_, value)| beyond(value))?;
    Some(Cause {
        why: format!("{name} is {value:e}, which is too large or too small to compute with"),
        advice: format!("give it a value with ⟨fix {name}=VALUE⟩, or a range with ⟨bounds {name}=LO,HI⟩"),
    })
}

/// Finds inputs or targets whose squares overflow.
pub(super) fn huge_data(train: Dataset<'_>) -> Option<Cause> {
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |most: f64, x| most.max(x.abs()));
    let y = largest(&mut train.targets.y.iter().copied());
    let (what, size) = if y > HUGE {
        ("the target".to_owned(), y)
    } else {
        let column = |input: usize| largest(&mut train.x.col(input).iter().copied());
        let input = (0..train.x.ncols()).find(|&input| column(input) > HUGE)?;
        (format!("input {input}, counted from 0,"), column(input))
    };
    Some(Cause {
        why: format!("{what} reaches {size:.0e} on the scale the model sees"),
        advice: "check the data, or leave ⟨standardize false⟩ out".to_owned(),
    })
}

/// Describes close inducing inputs as a contributing cause.
fn crowding_words(model: &LatentPrior) -> String {
    let Some(layer) = model.layer().inducing() else { return String::new() };
    let Crowding { close_pairs, closest, .. } = Crowding::of(layer.kernel(), layer.z());
    match close_pairs {
        0 => ", although no two inducing inputs are close to each other".to_owned(),
        pairs => format!(
            ", with {pairs} pairs of inducing inputs closer than 0.1 lengthscales (the closest: {closest:.1e})"
        ),
    }
}

fn singular(failure: &FactorizationFailure, model: &LatentPrior) -> Cause {
    if failure.not_finite || !all_finite(model) {
        return Cause {
            why: "the kernel matrix K_uu holds values that are not finite".to_owned(),
            advice: "check the scale of the inputs, or leave ⟨standardize false⟩ out".to_owned(),
        };
    }
    Cause {
        why: format!(
            "K_uu is singular, even with a jitter of {:e} of its diagonal{}",
            failure.jitter,
            crowding_words(model)
        ),
        advice:
            "try fewer ⟨inducing⟩, or start values for the kernel, such as ⟨kernel 'rbf(lengthscales=0.5)'⟩"
                .to_owned(),
    }
}

fn all_finite(model: &LatentPrior) -> bool {
    let finite = |z: MatRef<'_, f64>| z.col_iter().all(|column| column.iter().all(|x| x.is_finite()));
    model.layer().inducing().is_none_or(|layer| finite(layer.z()))
}

/// Finds a start whose `K_uu` could be factorised, but is ill-conditioned.
fn ill_conditioned(model: &LatentPrior) -> Option<Cause> {
    let layer = model.layer().inducing()?;
    let condition = layer.factorised().ok()?.condition_estimate();
    (condition > 1e12).then(|| Cause {
        why: format!("K_uu has a condition number of {condition:.0e}{}", crowding_words(model)),
        advice: "try a larger ⟨jitter⟩ or fewer ⟨inducing⟩".to_owned(),
    })
}
