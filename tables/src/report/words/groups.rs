//! Grouped effects in words: standard deviations, correlations, intraclass correlations; no estimates of levels.

use super::{count, number};
use crate::tabular::TableModel;
use sparsegp::options::{ModelKind, ObjectiveKind};

/// The groupings of a model, the noise beside them and the log likelihood, as rows of a name and words; none for models without.
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
            words.push_str(&format!("; sd{effect} {}", number(component.sd)));
            if !component.correlations.is_empty() && index > 0 {
                let correlations: Vec<String> = component.correlations.iter().map(|c| number(*c)).collect();
                words.push_str(&format!(" (correlation {})", correlations.join(", ")));
            }
        }
        if let Some((_, share)) = shares.iter().find(|(name, _)| *name == term.name) {
            words.push_str(&format!("; intraclass correlation {}", number(*share)));
        }
        rows.push(row("group", words));
    }
    if !terms.is_empty() {
        rows.extend(model.residual_deviation().map(|sd| row("noise", format!("sd {}", number(sd)))));
        let exact = model.latent().noise_variance().is_some();
        let (name, exact) = match (model.model_kind(), model.options().objective) {
            (ModelKind::Glm, _) if model.options().reml => ("restricted log likelihood", exact),
            (ModelKind::Glm, _) => ("log likelihood", exact),
            (ModelKind::Gp, ObjectiveKind::Fitc) => ("log evidence", exact),
            (ModelKind::Gp, _) => ("log evidence", false),
        };
        let bound = if exact { "" } else { "at least " };
        let value = model.grouped_log_likelihood();
        rows.extend(value.map(|value| row(name, format!("{bound}{}", number(value)))));
    }
    rows
}
