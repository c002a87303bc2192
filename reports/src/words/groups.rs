//! Grouped effects in words: standard deviations, correlations and intraclass correlations with
//! intervals.

use super::{count, number, row};
use sparsegp::effects::{EffectTerm, Ends, VarianceComponent};
use sparsegp::options::{ModelKind, ObjectiveKind};
use sparsegp_tables::tabular::TableModel;

/// Formats a number with its 95 % interval, if the interval is known.
pub(crate) fn with_interval(value: f64, interval: Option<Ends>) -> String {
    let words = interval.map(|ends| format!(" (95 % {})", interval_words(Some(ends))));
    number(value) + &words.unwrap_or_default()
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
    if terms.is_empty() {
        return Vec::new();
    }
    let (components, shares) = (model.variance_components(), model.intraclass_correlations());
    let of_term = |term: &EffectTerm| {
        let mut words = format!("{}, {} levels", term.name, count(term.levels));
        let own = components.iter().filter(|component| component.group == term.name);
        for (index, component) in own.enumerate() {
            if component.effect == "intercept" {
                words.push_str("; sd ");
            } else {
                words.push_str(&format!("; sd of slope {} ", component.effect));
            }
            words.push_str(&with_interval(component.sd, component.interval));
            if !component.correlations.is_empty() && index > 0 {
                words.push_str(&format!("; correlation {}", correlations(component).join(", ")));
            }
        }
        if let Some(own) = shares.iter().find(|own| own.group == term.name) {
            words.push_str(&format!("; intraclass correlation {}", with_interval(own.share, own.interval)));
        }
        row("group", words)
    };
    let mut rows: Vec<Vec<String>> = terms.iter().map(of_term).collect();
    let noise = model.residual_deviation();
    rows.extend(noise.map(|sd| row("noise", format!("sd {}", with_interval(sd, model.residual_interval())))));
    let is_gp = model.model_kind() == ModelKind::Gp;
    let name = match (is_gp, model.options().reml) {
        (true, _) => "log evidence",
        (false, true) => "restricted log likelihood",
        (false, false) => "log likelihood",
    };
    let closed = !is_gp || model.options().objective == ObjectiveKind::Fitc || model.neighbours().is_some();
    let exact = closed && model.latent().noise_variance().is_some();
    let bound = if exact { "" } else { "at least " };
    let value = model.grouped_log_likelihood();
    rows.extend(value.map(|value| row(name, format!("{bound}{}", number(value)))));
    rows
}
