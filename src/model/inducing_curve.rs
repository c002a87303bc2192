//! The numbers of inducing inputs that a search tried, the rule by which it stops, and the
//! certificate of the result.

use serde::{Deserialize, Serialize};

/// The criterion that decides if the inducing inputs are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[doc(hidden)]
pub enum Criterion {
    /// The gap between an upper and a lower bound on the log evidence, and the gain in the lower bound.
    Gap,
    /// The gain in the log density of held-out rows.
    Validation,
}

/// The reason why the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[doc(hidden)]
pub enum GrowthEnd {
    /// The gap was within the tolerance, and the next size gained less than the tolerance.
    Tolerance,
    /// The maximum number was reached.
    Most,
    /// The inducing inputs explain every row up to the jitter, so there is no row to add.
    Exhausted,
    /// Half of the time limit was spent.
    OutOfTime,
    /// The next size could not be evaluated.
    Failed,
}

/// A size that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct InducingPoint {
    /// The number of inducing inputs.
    pub m: usize,
    /// The lower bound on the log evidence (the ELBO) per datum.
    pub lower: Option<f64>,
    /// An upper bound on the log evidence per datum, with Gaussian noise.
    pub upper: Option<f64>,
    /// The upper bound minus the lower bound.
    pub gap: Option<f64>,
    /// The mean log loss of held-out rows, if the criterion is [`Criterion::Validation`].
    pub validation: Option<f64>,
    /// Seconds since the start.
    pub(crate) seconds: f64,
}

impl InducingPoint {
    /// A point with this lower bound; the search sets the other fields.
    pub(crate) fn of(lower: Option<f64>) -> InducingPoint {
        InducingPoint { m: 0, lower, upper: None, gap: None, validation: None, seconds: 0.0 }
    }
}

/// The search for the number of inducing inputs. All values are on the scale the model sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct InducingCurve {
    /// The criterion of the search.
    pub criterion: Criterion,
    /// The tolerance of the criterion, in nats per datum.
    pub tolerance: f64,
    /// The maximum number of inducing inputs.
    pub most: usize,
    /// The number of held-out rows, if the criterion is [`Criterion::Validation`].
    pub validation_rows: usize,
    /// The sizes that were tried, ascending.
    pub points: Vec<InducingPoint>,
    /// The chosen size: the last one, or the one before if the last one only served to measure the gain.
    pub chosen: usize,
    /// The reason why the search ended.
    pub end: GrowthEnd,
    /// Bounds for the final posterior, at the final hyper-parameters.
    pub certificate: Option<Certificate>,
    /// The number of steps that the search took back or shortened.
    pub rollbacks: usize,
}

/// Bounds on the log evidence at the final hyper-parameters. Their difference bounds the divergence of the sparse posterior q from the
/// exact one: `KL(q ‖ p) = log p(y) − ELBO(q)` (Burt, Rasmussen & van der Wilk 2020).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Certificate {
    /// The lower bound (the ELBO of q), a sum over the data.
    pub lower: f64,
    /// The upper bound, a sum.
    pub upper: f64,
    /// The upper bound minus the lower bound, which bounds `KL(q ‖ p)`, in nats.
    pub kl: f64,
    /// `kl` per datum.
    pub kl_per_row: f64,
}

impl Certificate {
    pub(crate) fn new(lower: f64, upper: f64, n: usize) -> Option<Certificate> {
        // If the bounds are equal, rounding may put the upper one below the lower one.
        let kl = (upper - lower).max(0.0);
        kl.is_finite().then(|| Certificate { lower, upper, kl, kl_per_row: kl / n as f64 })
    }

    pub(crate) fn words(&self) -> String {
        format!(
            "the posterior is within {:.3} nats ({:.2e} per row) of that of the exact GP with these hyper-parameters, in Kullback-Leibler divergence",
            self.kl, self.kl_per_row
        )
    }
}

impl InducingCurve {
    /// Returns true if a size is enough, given the next one. A small gap alone does not suffice,
    /// because it refers to the current hyper-parameters: with few inducing inputs, training
    /// prefers much noise and long lengthscales, for which few inducing inputs are enough.
    pub(crate) fn is_enough(&self, point: &InducingPoint, next: &InducingPoint) -> bool {
        let close =
            self.criterion == Criterion::Validation || point.gap.is_some_and(|gap| gap <= self.tolerance);
        close && self.gain(point, next).is_some_and(|gain| gain <= self.tolerance)
    }

    /// Returns the value by which sizes are compared, per datum; higher is better.
    pub(crate) fn value(&self, point: &InducingPoint) -> Option<f64> {
        match self.criterion {
            Criterion::Gap => point.lower,
            Criterion::Validation => point.validation.map(|loss| -loss),
        }
    }

    /// Returns the gain of the next size in the lower bound or in the log density of held-out rows, in nats per datum and doubling of the
    /// number of inducing inputs.
    fn gain(&self, point: &InducingPoint, next: &InducingPoint) -> Option<f64> {
        Some((self.value(next)? - self.value(point)?) / (next.m as f64 / point.m as f64).log2())
    }

    /// Returns the result of the search in one sentence.
    pub fn words(&self) -> String {
        let InducingCurve { chosen, tolerance, .. } = self;
        let why = match (self.end, self.criterion) {
            (GrowthEnd::Tolerance, Criterion::Gap) => format!(
                "where the bounds on the log evidence were within {tolerance} nats per row and more inputs did not raise them by that"
            ),
            (GrowthEnd::Tolerance, Criterion::Validation) => format!(
                "after which {} held-out rows gained less than {tolerance} nats per row and doubling",
                self.validation_rows
            ),
            (GrowthEnd::Most, _) => "the most allowed".to_owned(),
            (GrowthEnd::Exhausted, _) => "which explain all the variance that the jitter allows".to_owned(),
            (GrowthEnd::OutOfTime, _) => "reached when half of the time limit was over".to_owned(),
            (GrowthEnd::Failed, _) => "because more could not be evaluated".to_owned(),
        };
        let known = self.certificate.map_or(String::new(), |known| format!("; {}", known.words()));
        format!("{chosen} inducing inputs, {why}{known}")
    }

    /// Returns a warning if the tolerance was not reached.
    pub(crate) fn warning(&self) -> Option<String> {
        let (m, tolerance) = (self.chosen, self.tolerance);
        let gap = self.points.last().and_then(|point| point.gap).filter(|_| self.criterion == Criterion::Gap);
        let gain = match self.points[..] {
            [.., before, last] => self.gain(&before, &last),
            _ => None,
        };
        let left = [
            gap.map(|gap| format!("the bounds on the log evidence are {gap:.4} nats per row apart")),
            gain.map(|gain| format!("the last ones gained {gain:.4} nats per row and doubling")),
        ];
        let left: Vec<String> = left.into_iter().flatten().collect();
        let left = format!("{} (tolerance {tolerance})", left.join(", "));
        match self.end {
            GrowthEnd::Tolerance => None,
            GrowthEnd::Exhausted if gap.is_none_or(|gap| gap <= tolerance) => None,
            GrowthEnd::Exhausted => Some(format!(
                "{m} inducing inputs explain all the variance that the jitter allows: {left}; try a smaller ⟨jitter⟩"
            )),
            GrowthEnd::Most => Some(format!(
                "{m} inducing inputs, the most allowed, are not known to be enough: {left}; try more ⟨max_inducing⟩ or a larger ⟨inducing_tolerance⟩"
            )),
            GrowthEnd::OutOfTime => Some(format!(
                "half of ⟨max_seconds⟩ was over at {m} inducing inputs, which are not known to be enough: {left}"
            )),
            GrowthEnd::Failed => Some(format!(
                "more than {m} inducing inputs could not be evaluated: {left}; try a larger ⟨jitter⟩"
            )),
        }
    }
}
