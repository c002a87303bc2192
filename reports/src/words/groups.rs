//! Grouped effects in words: standard deviations, correlations and intraclass correlations with
//! intervals.

use super::{count, number};
use sparsegp::effects::{Ends, VarianceComponent};
use sparsegp::options::{ModelKind, ObjectiveKind};
use sparsegp_tables::tabular::TableModel;

/// Formats a number with its 95 % interval, if the interval is known.
pub(crate) fn with_interval(value: f64, interval: Option<Ends>) -> String {
    match interval {
        Some([lower, upper]) => format!("{} (95 % {} to {})", number(value), number(lower), number(upper)),
        None => number(value),
    }
}

/// Formats an interval, or a dash if it is unknown.
pub(crate) fn interval_words(interval: Option<Ends>) -> String {
    interval.map_or("–".to_owned(), |[lower, upper]| format!("{} to {}", number(lower), number(upper)))
}

/// Returns the correlations of an effect with the effects before it.
pub(crate) fn correlations(component: &VarianceComponent) -> Vec<String> {
    let of_pairs = component.correlations.iter().zip(&component.correlation_intervals);
    of_pairs.map(|(value, interval)| with_interval(*value, *interval)).collect()
}

/// Returns the groupings of a model, the noise and the log likelihood, as rows of a name and words; empty for models without groups.
pub fn group_rows(model: &TableModel) -> Vec<Vec<String>> {
    let terms = model.latent().effects.terms();
    let (components, shares) = (model.variance_components(), model.intraclass_correlations());
    let row = |name: &str, words: String| vec![name.to_owned(), words];
    let mut rows = Vec::new();
    for term in terms {
        let mut words = format!("{}, {} levels", term.name, count(term.levels));
        let own = components.iter().filter(|component| component.group == term.name);
        for (index, component) in own.enumerate() {
            let effect = if component.effect == "intercept" {
                String::new()
            } else {
                format!(" of slope {}", component.effect)
            };
            words.push_str(&format!("; sd{effect} {}", with_interval(component.sd, component.interval)));
            if !component.correlations.is_empty() && index > 0 {
                words.push_str(&format!("; correlation {}", correlations(component).join(", ")));
            }
        }
        if let Some(own) = shares.iter().find(|own| own.group == term.name) {
            words.push_str(&format!("; intraclass correlation {}", with_interval(own.share, own.interval)));
        }
        rows.push(row("group", words));
    }
    if !terms.is_empty() {
        let noise = model.residual_deviation();
        let noise = noise.map(|sd| format!("sd {}", with_interval(sd, model.residual_interval())));
        rows.extend(noise.map(|words| row("noise", words)));
        let exact = model.latent().noise_variance().is_some();
        let (name, exact) = match (model.model_kind(), model.options().objective) {
            (ModelKind::Glm, _) if model.options().reml => ("restricted log likelihood", exact),
            (ModelKind::Glm, _) => ("log likelihood", exact),
            (ModelKind::Gp, ObjectiveKind::Fitc) => ("log evidence", exact),
            (ModelKind::Gp, _) if model.neighbours().is_some() => ("log evidence", exact),
            (ModelKind::Gp, _) => ("log evidence", false),
        };
        let bound = if exact { "" } else { "at least " };
        let value = model.grouped_log_likelihood();
        rows.extend(value.map(|value| row(name, format!("{bound}{}", number(value)))));
    }
    rows
}
