//! 95 % intervals of standard deviations, correlations and intraclass correlations, and these
//! quantities as functions of parameters.

use super::term::Effects;
use crate::likelihood::ObservationModel;
use serde::{Deserialize, Serialize};

/// Both ends of a 95 % interval. An interval that starts at 0 includes the model without this
/// effect.
#[doc(hidden)]
pub type Ends = [f64; 2];

/// The results of a fit with grouped effects that its parameters do not contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EffectSummary {
    /// The weighted mean of the training targets, on the scale the model sees. The variance of a count on the scale of the effects depends on it.
    pub target_mean: f64,
    /// The intervals. `None` if the fit trained no parameters, ended before the optimum, or did not maximise a likelihood (⟨beta⟩ other than 1).
    pub intervals: Option<EffectIntervals>,
}

/// Intervals of the variance components of a fit, on the scale the model sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EffectIntervals {
    /// The intervals of every term, in the order of the terms.
    pub terms: Vec<TermIntervals>,
    /// The interval of the standard deviation of Gaussian noise.
    pub noise: Option<Ends>,
}

/// Intervals of one term. Each is `None` if the parameters behind it are fixed, or if the likelihood does not determine it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TermIntervals {
    /// The standard deviation of every effect of a level.
    pub sd: Vec<Option<Ends>>,
    /// The correlations of the effects, row by row below the diagonal; empty for independent effects.
    pub correlations: Vec<Option<Ends>>,
    /// The intraclass correlation of the intercepts.
    pub share: Option<Ends>,
}

impl EffectSummary {
    /// Returns true if there are no intervals, or one for every quantity of these terms.
    pub(crate) fn fits(&self, effects: &Effects) -> bool {
        self.intervals.as_ref().is_none_or(|intervals| intervals.fits(effects))
    }
}

impl EffectIntervals {
    fn fits(&self, effects: &Effects) -> bool {
        let of_term = |(own, term): (&TermIntervals, &super::EffectTerm)| {
            let r = term.width();
            let pairs = if term.correlated { r * (r - 1) / 2 } else { 0 };
            own.sd.len() == r && own.correlations.len() == pairs
        };
        self.terms.len() == effects.terms().len() && self.terms.iter().zip(effects.terms()).all(of_term)
    }
}

/// A variance component of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VarianceComponent {
    /// The name of the grouping.
    pub group: String,
    /// The name of the effect: `intercept`, or the column of a slope.
    pub effect: String,
    /// The standard deviation of the effect over levels.
    pub sd: f64,
    /// Its 95 % interval, if it is known.
    pub interval: Option<Ends>,
    /// The correlations with the effects of the same grouping that come before; empty for independent effects.
    pub correlations: Vec<f64>,
    /// The 95 % intervals of the correlations, if they are known.
    pub correlation_intervals: Vec<Option<Ends>>,
}

impl Effects {
    /// Returns the standard deviations and correlations of all terms, with their intervals if
    /// `intervals` are given. `scale` is the unit of the target; there is also one unit for each
    /// column behind the inputs of f.
    pub(crate) fn variance_components(
        &self,
        scale: f64,
        units: &[f64],
        intervals: Option<&EffectIntervals>,
    ) -> Vec<VarianceComponent> {
        let mut out = Vec::new();
        for (index, term) in self.terms().iter().enumerate() {
            let covariance = self.covariance_at_origin(index);
            let own: Vec<f64> = term.units(units).iter().map(|unit| scale / unit).collect();
            let correlation = |i: usize, j: usize| {
                let size = (covariance[(i, i)] * covariance[(j, j)]).sqrt();
                if size > 0.0 { covariance[(i, j)] / size } else { 0.0 }
            };
            let known = intervals.and_then(|all| all.terms.get(index));
            let interval =
                |i: usize| known?.sd.get(i).copied().flatten().map(|ends| ends.map(|end| own[i] * end));
            let of_correlation =
                |i: usize, j: usize| known?.correlations.get(i * (i.max(1) - 1) / 2 + j).copied().flatten();
            out.extend(term.effect_names().iter().enumerate().map(|(i, effect)| VarianceComponent {
                group: term.name.clone(),
                effect: (*effect).to_owned(),
                sd: own[i] * covariance[(i, i)].sqrt(),
                interval: interval(i),
                correlations: (0..i).filter(|_| term.correlated).map(|j| correlation(i, j)).collect(),
                correlation_intervals:
                    (0..i).filter(|_| term.correlated).map(|j| of_correlation(i, j)).collect(),
            }));
        }
        out
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quantity {
    /// The standard deviation of an effect.
    Sd { term: usize, effect: usize },
    /// The correlation of two effects of a term, `effect` and the earlier effect `other`.
    Correlation { term: usize, effect: usize, other: usize },
    /// The standard deviation of the noise.
    Noise,
    /// The intraclass correlation of a term's intercepts.
    Share { term: usize },
}

impl Quantity {
    pub fn all(effects: &Effects) -> Vec<Quantity> {
        let mut out = Vec::new();
        for (term, of) in effects.terms().iter().enumerate() {
            out.extend((0..of.width()).map(|effect| Quantity::Sd { term, effect }));
            if of.correlated {
                let pairs = (0..of.width()).flat_map(|effect| (0..effect).map(move |other| (effect, other)));
                out.extend(pairs.map(|(effect, other)| Quantity::Correlation { term, effect, other }));
            }
            out.extend(of.intercept.then_some(Quantity::Share { term }));
        }
        out.push(Quantity::Noise);
        out
    }

    /// Returns the value of the quantity for a number on the whole line, which is log σ, artanh ρ
    /// or the logit of a share.
    pub fn bounded(self, value: f64) -> f64 {
        match self {
            Quantity::Sd { .. } | Quantity::Noise => value.exp(),
            Quantity::Correlation { .. } => value.tanh(),
            Quantity::Share { .. } => 1.0 / (1.0 + (-value).exp()),
        }
    }
}

/// The effects and the likelihood, whose parameters determine every [`Quantity`].
#[derive(Clone, Debug)]
pub(crate) struct Components {
    pub effects: Effects,
    pub likelihood: ObservationModel,
    /// The mean of the targets.
    pub target_mean: f64,
}

impl Components {
    /// Returns the number on the whole line that represents a quantity, see [`Quantity::bounded`];
    /// `None` if it is undefined.
    pub fn value(&self, quantity: Quantity) -> Option<f64> {
        let value = match quantity {
            Quantity::Sd { term, effect } => {
                0.5 * self.effects.covariance_at_origin(term)[(effect, effect)].ln()
            }
            Quantity::Correlation { term, effect, other } => {
                let covariance = self.effects.covariance_at_origin(term);
                let size = (covariance[(effect, effect)] * covariance[(other, other)]).sqrt();
                (covariance[(effect, other)] / size).atanh()
            }
            Quantity::Noise => 0.5 * self.likelihood.gaussian_noise()?.ln(),
            Quantity::Share { term } => {
                let share = self.share(term)?;
                (share / (1.0 - share)).ln()
            }
        };
        value.is_finite().then_some(value)
    }

    /// Returns the intraclass correlation of a term: the share of the variance of its intercepts in the sum of the variances of all intercepts
    /// and of an observation on the scale of the effects. `None` for terms without intercepts, and if the likelihood has no such variance.
    pub fn share(&self, term: usize) -> Option<f64> {
        let observation = self.likelihood.one()?.observation_variance(self.target_mean)?;
        let effects = &self.effects;
        let own =
            |term: usize| effects.terms()[term].intercept.then(|| effects.covariance_at_origin(term)[(0, 0)]);
        let all: f64 = (0..self.effects.terms().len()).filter_map(own).sum();
        Some(own(term)? / (all + observation))
    }
}
