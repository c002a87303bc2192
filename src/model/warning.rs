//! Warnings about a fit: one type with the evidence, the words and the option to try.

use crate::error::{Say, rust_name, spoken};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An input of the model, by index and, if columns have names, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Input {
    /// The index, from 0.
    pub index: usize,
    /// The column, or column and category.
    pub name: Option<String>,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "'{name}'"),
            None => write!(f, "{}", self.index),
        }
    }
}

/// The severity of a message about a fit, from a note to a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A choice that was made, or a way to save time; predictions are as good as the figures suggest.
    Note,
    /// Predictions may improve with other options.
    Warning,
    /// Predictions are worse than the figures suggest, or no better than without inputs.
    Problem,
}

/// A possible problem of a fit, with the evidence for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Warning {
    /// An anomaly in the data.
    #[doc(hidden)]
    Data {
        /// The message.
        text: String,
    },
    /// The user asked for a posterior of the hyper-parameters, but the fit has none.
    #[doc(hidden)]
    SingleHyperparameters {
        /// The reason.
        why: String,
    },
    /// The chosen number of inducing inputs is not known to be enough.
    #[doc(hidden)]
    Inducing {
        /// The message.
        text: String,
    },
    /// The inputs were not found to predict the target.
    #[doc(hidden)]
    NoiseExplainsAll {
        /// The noise variance divided by the variance of the target.
        share: f64,
        /// True if the model is a sparse GP.
        sparse: bool,
    },
    /// The target is a nearly exact function of the inputs.
    #[doc(hidden)]
    NoiseAtFloor {
        /// The noise variance.
        noise: f64,
    },
    /// The log evidence of an exact GP hardly determines the noise variance.
    #[doc(hidden)]
    OpenNoise {
        /// The variance of the highest evidence.
        mode: f64,
        /// The expectation that replaces it.
        expected: f64,
    },
    /// `K_uu` has lost most digits.
    #[doc(hidden)]
    IllConditioned {
        /// An estimate of its condition number.
        condition: f64,
        /// The relative jitter that was needed, if the requested one was too small.
        raised_to: Option<f64>,
        /// The number of pairs of inducing inputs that are closer than a tenth of a lengthscale.
        close_pairs: usize,
        /// The number of inducing inputs.
        inducing: usize,
    },
    /// Many inducing inputs nearly coincide with others.
    #[doc(hidden)]
    NearDuplicates {
        /// The number of inducing inputs that nearly coincide with another one.
        duplicates: usize,
        /// The number of inducing inputs.
        inducing: usize,
        /// The distance of the closest pair, in lengthscales.
        closest: f64,
    },
    /// Inputs that f hardly depends on.
    #[doc(hidden)]
    Irrelevant {
        /// The inputs.
        inputs: Vec<Input>,
    },
    /// Rows are nearly independent of their neighbours.
    #[doc(hidden)]
    Memorised {
        /// The input that separates neighbours most.
        input: Input,
        /// The median correlation of f at a row and at its nearest neighbour.
        correlation: f64,
    },
    /// Counts vary more than Poisson counts do.
    #[doc(hidden)]
    Overdispersed {
        /// The variance of the counts divided by the variance of Poisson counts with the same mean.
        dispersion: f64,
    },
    /// Steps on hyper-parameters reached points that could not be evaluated.
    #[doc(hidden)]
    HyperSteps {
        /// The number of these steps.
        count: usize,
        /// The number of all steps.
        of: usize,
        /// True if each of them halved Adam's learning rate.
        halved: bool,
    },
    /// Steps on q were shrunk or taken back.
    #[doc(hidden)]
    QSteps {
        /// The number of these steps.
        count: usize,
        /// The number of all steps.
        of: usize,
    },
    /// The fit ended because plain steps on q, whose size no guard limits, were refused.
    #[doc(hidden)]
    Refused {
        /// A step with a proof of convergence, if the curvature of the losses is bounded.
        proven: Option<f64>,
    },
    /// The fit failed with the automatic choices and was repeated without some of them.
    #[doc(hidden)]
    FellBack {
        /// The error of the first fit.
        error: String,
        /// The settings of the repeated fit.
        instead: String,
    },
    /// Training did not improve on its start.
    #[doc(hidden)]
    NoProgress,
    /// The epoch limit came while the objective was still falling.
    #[doc(hidden)]
    EpochLimit {
        /// The fall of the objective, in nats per datum, …
        fall: f64,
        /// … over this number of epochs.
        epochs: usize,
    },
    /// The bounds on the log evidence are far apart: there are too few inducing inputs.
    #[doc(hidden)]
    LooseBound {
        /// The distance between the bounds, in nats per datum.
        gap: f64,
        /// The number of inducing inputs.
        inducing: usize,
        /// True if held-out rows showed that neighbours do not improve predictions.
        #[serde(default)]
        without_neighbours: bool,
    },
    /// Predictions of held-out rows are far worse than those of training rows.
    #[doc(hidden)]
    Overfitted {
        /// NLL per training row, on the scale the model sees.
        training: f64,
        /// NLL per validation row.
        validation: f64,
        /// The standard error of their difference.
        error: f64,
    },
    /// Short fits by the square loss predict left-out rows worse than short fits by the ELBO.
    #[doc(hidden)]
    SquareLoss {
        /// The ratio of their mean squared errors, …
        ratio: f64,
        /// … and that of their own rows.
        training: f64,
    },
}

impl Warning {
    /// The severity.
    pub fn severity(&self) -> Severity {
        match self {
            Warning::NoiseExplainsAll { .. }
            | Warning::NoiseAtFloor { .. }
            | Warning::Memorised { .. }
            | Warning::Overdispersed { .. }
            | Warning::NoProgress
            | Warning::Overfitted { .. }
            | Warning::SquareLoss { .. } => Severity::Problem,
            Warning::Inducing { .. }
            | Warning::IllConditioned { .. }
            | Warning::NearDuplicates { .. }
            | Warning::HyperSteps { .. }
            | Warning::QSteps { .. }
            | Warning::Refused { .. }
            | Warning::EpochLimit { .. }
            | Warning::SingleHyperparameters { .. }
            | Warning::LooseBound { .. } => Severity::Warning,
            Warning::Data { .. }
            | Warning::OpenNoise { .. }
            | Warning::Irrelevant { .. }
            | Warning::FellBack { .. } => Severity::Note,
        }
    }

    /// Returns the options that may help, by name, some with a value to try.
    #[doc(hidden)]
    pub fn options(&self) -> &'static [&'static str] {
        match self {
            Warning::Data { .. } | Warning::FellBack { .. } => &[],
            Warning::SingleHyperparameters { .. } => &["hyper_posterior laplace"],
            Warning::Inducing { .. } => &["inducing"],
            Warning::NoiseExplainsAll { sparse: true, .. } => &["kernel", "seed"],
            Warning::NoiseExplainsAll { sparse: false, .. } => &["features", "model gp"],
            Warning::NoiseAtFloor { .. } => &["exclude"],
            Warning::OpenNoise { .. } => &["fix"],
            Warning::IllConditioned { .. } => &["inducing", "jitter", "bounds"],
            Warning::NearDuplicates { .. } => &["inducing", "fix_inducing"],
            Warning::Irrelevant { .. } => &["exclude"],
            Warning::Memorised { .. } => &["prior", "bounds"],
            Warning::Overdispersed { .. } => &["likelihood negative-binomial"],
            Warning::HyperSteps { halved: true, .. } => &["learning_rate"],
            Warning::HyperSteps { halved: false, .. } => &["bounds"],
            Warning::QSteps { .. } => &["q_step"],
            Warning::Refused { .. } => &["q_step", "q_guard trust"],
            Warning::NoProgress => &["learning_rate", "q_step", "q_guard trust"],
            Warning::EpochLimit { .. } => &["epochs"],
            Warning::LooseBound { without_neighbours: true, .. } => &["inducing"],
            Warning::LooseBound { .. } => &["neighbours auto", "inducing"],
            Warning::Overfitted { .. } => &["inducing", "beta", "objective elbo", "prior"],
            Warning::SquareLoss { training, .. } if *training >= 1.0 => &["beta", "betas auto"],
            Warning::SquareLoss { .. } => &["objective elbo", "betas auto", "fix_inducing", "inducing"],
        }
    }

    /// Returns the text, in which `say` spells the options.
    #[doc(hidden)]
    pub fn words_with(&self, say: &Say<'_>) -> String {
        spoken(&self.marked(), say)
    }

    fn marked(&self) -> String {
        match self {
            Warning::Data { text } | Warning::Inducing { text } => text.clone(),
            Warning::SingleHyperparameters { why } => {
                format!(
                    "⟨hyper_posterior laplace⟩ has no effect: hyper-parameters keep single values, because {why}"
                )
            }
            Warning::NoiseExplainsAll { share, sparse } => {
                let advice = if *sparse {
                    "another ⟨kernel⟩ or ⟨seed⟩"
                } else {
                    "other columns, or ⟨model gp⟩"
                };
                // The noise of a fit to few rows, or around a trained mean, may exceed the variance of the target.
                let part = if *share < 0.9995 { format!("{:.1} %", 100.0 * share) } else { "all".to_owned() };
                format!(
                    "the noise variance explains {part} of the target's variance: the inputs were not found to predict it; try {advice}"
                )
            }
            Warning::OpenNoise { mode, expected } => format!(
                "the rows hardly tell noise from a rough function: the noise variance is set to its expectation {expected:.1e}, not to its likeliest value {mode:.1e}; if it is known, use ⟨fix likelihood.noise_variance=VALUE⟩"
            ),
            Warning::NoiseAtFloor { noise } => format!(
                "the noise variance {noise:.1e} is nearly 0: the target is a nearly exact function of the inputs, or of a column that gives it away; check with ⟨exclude⟩"
            ),
            Warning::IllConditioned { condition, raised_to, close_pairs, inducing } => {
                let raised = raised_to
                    .map(|jitter| format!(", and the jitter had to be raised to {jitter:.0e}"))
                    .unwrap_or_default();
                let why = match close_pairs {
                    0 => String::from(
                        "lengthscales or the variance are very large; try ⟨bounds⟩ on them, or a larger ⟨jitter⟩",
                    ),
                    pairs => format!(
                        "{pairs} {} of the {inducing} inducing inputs are closer than 0.1 lengthscales; try fewer ⟨inducing⟩ or a larger ⟨jitter⟩",
                        if *pairs == 1 { "pair" } else { "pairs" }
                    ),
                };
                format!("K_uu has a condition number of {condition:.0e}{raised}: {why}")
            }
            Warning::NearDuplicates { duplicates, inducing, closest } => format!(
                "{duplicates} of {inducing} inducing inputs nearly repeat others (the closest two are {closest:.1e} lengthscales apart): try fewer ⟨inducing⟩, or ⟨fix_inducing⟩"
            ),
            Warning::Irrelevant { inputs } => irrelevant(inputs),
            Warning::Memorised { input, correlation } => format!(
                "f at a row has a correlation of {correlation:.2} with f at its nearest neighbour, mostly because of the lengthscale of input {input}: rows are memorised, not learned from; try a ⟨prior⟩ or ⟨bounds⟩ on the lengthscales"
            ),
            Warning::Overdispersed { dispersion } => format!(
                "the counts vary {dispersion:.1} times as much as Poisson counts would: intervals are too narrow; try ⟨likelihood negative-binomial⟩"
            ),
            Warning::HyperSteps { count, of, halved: true } => format!(
                "{count} of {of} steps on hyper-parameters could not be evaluated or raised the objective far beyond its noise, and were taken back, each halving the learning rate; try a smaller ⟨learning_rate⟩"
            ),
            Warning::HyperSteps { count, of, halved: false } => format!(
                "{count} of {of} trial points of hyper-parameters could not be evaluated; try ⟨bounds⟩ on the hyper-parameter that diverges"
            ),
            Warning::QSteps { count, of } => {
                format!("{count} of {of} steps on q were taken back or shrunk; try a smaller ⟨q_step⟩")
            }
            Warning::Refused { proven } => {
                let proven = proven.map(|step| {
                    format!(" such as const:{step:.1e}, for which convergence is proven (Kumar et al. 2025, Theorem 2)")
                });
                format!(
                    "the steps on q were too long and were refused, which ended the fit; try a smaller ⟨q_step⟩{}, or ⟨q_guard trust⟩",
                    proven.unwrap_or_default()
                )
            }
            Warning::FellBack { error, instead } => {
                format!("the fit with the chosen options failed ({error}): it was made again with {instead}")
            }
            Warning::NoProgress => String::from(
                "training did not improve on its start, which was kept; try a smaller ⟨learning_rate⟩ or ⟨q_step⟩, or ⟨q_guard trust⟩",
            ),
            Warning::EpochLimit { fall, epochs } => format!(
                "the objective still fell by {fall:.2} nats per row over the last {epochs} epochs when their limit came; try more ⟨epochs⟩"
            ),
            Warning::LooseBound { gap, inducing, without_neighbours } => format!(
                "the bounds on the log evidence are {gap:.2} nats per row apart: {inducing} inducing inputs carry only a part of what the data say; try {}more ⟨inducing⟩",
                if *without_neighbours { "" } else { "⟨neighbours auto⟩, or " }
            ),
            Warning::Overfitted { training, validation, error } => format!(
                "validation rows have an NLL of {validation:.2}, training rows {training:.2} (difference ± {error:.2}): the model overfits; try fewer ⟨inducing⟩, a larger ⟨beta⟩ or ⟨objective elbo⟩, or a ⟨prior⟩ on the lengthscales"
            ),
            Warning::SquareLoss { ratio, training } => {
                let (overfits, advice) = match *training < 1.0 {
                    true => {
                        (" overfits", "⟨objective elbo⟩, ⟨betas auto⟩, ⟨fix_inducing⟩ or fewer ⟨inducing⟩")
                    }
                    false => (" with this ⟨beta⟩ fits too little", "a smaller ⟨beta⟩, or ⟨betas auto⟩"),
                };
                format!(
                    "training by the square loss{overfits}: in short fits to four fifths of the rows, its mean squared error is {training:.2} times that of the ELBO there, and {ratio:.2} times on the other rows; try {advice}"
                )
            }
        }
    }

    /// Sets the names of inputs, so that the text contains them.
    #[doc(hidden)]
    pub fn name_inputs(&mut self, names: &[String]) {
        let name = |input: &mut Input| input.name = names.get(input.index).cloned();
        match self {
            Warning::Irrelevant { inputs } => inputs.iter_mut().for_each(name),
            Warning::Memorised { input, .. } => name(input),
            _ => {}
        }
    }
}

impl From<String> for Warning {
    fn from(text: String) -> Self {
        Warning::Data { text }
    }
}

/// The text, with options spelled as in Rust.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words_with(&rust_name))
    }
}

/// The maximum number of inputs that are named.
const MOST_NAMED: usize = 5;

/// Returns the text about inputs that f hardly depends on.
fn irrelevant(inputs: &[Input]) -> String {
    let mut names: Vec<String> = inputs.iter().take(MOST_NAMED).map(Input::to_string).collect();
    if inputs.len() > MOST_NAMED {
        names.push(format!("{} more", inputs.len() - MOST_NAMED));
    }
    let one = inputs.len() == 1;
    let (noun, verb, range, them) =
        if one { ("input", "changes", "its", "it") } else { ("inputs", "change", "their", "them") };
    format!(
        "{noun} {} hardly {verb} the prediction over {range} whole range (a very long lengthscale): leaving {them} out with ⟨exclude⟩ is quicker",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suggested_option_is_in_the_text() {
        let input = Input { index: 3, name: None };
        let warnings = [
            Warning::NoiseExplainsAll { share: 0.99, sparse: true },
            Warning::NoiseAtFloor { noise: 1e-6 },
            Warning::OpenNoise { mode: 1e-9, expected: 1e-2 },
            Warning::IllConditioned { condition: 1e12, raised_to: None, close_pairs: 0, inducing: 9 },
            Warning::NearDuplicates { duplicates: 3, inducing: 9, closest: 1e-4 },
            Warning::Irrelevant { inputs: vec![input.clone()] },
            Warning::Memorised { input, correlation: 0.1 },
            Warning::Overdispersed { dispersion: 3.0 },
            Warning::HyperSteps { count: 1, of: 9, halved: true },
            Warning::HyperSteps { count: 1, of: 9, halved: false },
            Warning::QSteps { count: 1, of: 9 },
            Warning::Refused { proven: Some(8.4e-4) },
            Warning::NoProgress,
            Warning::EpochLimit { fall: 0.04, epochs: 10 },
            Warning::LooseBound { gap: 0.5, inducing: 80, without_neighbours: false },
            Warning::LooseBound { gap: 0.5, inducing: 80, without_neighbours: true },
            Warning::Overfitted { training: 0.0, validation: 1.0, error: 0.1 },
            Warning::SquareLoss { ratio: 1.7, training: 0.4 },
            Warning::SquareLoss { ratio: 1.7, training: 1.4 },
        ];
        for warning in warnings {
            let text = warning
                .words_with(&|name, value| value.map_or(name.to_owned(), |value| format!("{name} {value}")));
            let named = warning.options().iter().filter(|option| text.contains(**option)).count();
            assert!(named > 0 && !text.contains('\n'), "{text}");
            let stored = serde_json::to_string(&warning).expect("JSON");
            assert_eq!(serde_json::from_str::<Warning>(&stored).expect("a warning"), warning);
        }
    }
}
