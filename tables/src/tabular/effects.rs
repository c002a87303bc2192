//! The grouped effects of a table model by the names of groupings, levels and columns.

use super::model::TableModel;
use super::outputs::TableOutputs;
use crate::tables::csv_text;
use sparsegp::error::{Error, Result};
use sparsegp::model::LevelEffect;

/// The estimate of one effect of one level, by names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedEffect {
    /// The grouping, such as `school`.
    pub group: String,
    /// The level, such as a school.
    pub level: String,
    /// `intercept`, or the column of a slope.
    pub effect: String,
    /// The estimate with its standard deviation.
    pub value: LevelEffect,
}

impl TableModel {
    /// The estimates of all levels, grouping by grouping and level by level; empty for models without grouped effects.
    pub fn effects(&self) -> Vec<NamedEffect> {
        let terms = self.model.latent().effects.terms();
        let levels: Vec<Vec<String>> =
            self.schema().groups().iter().map(|group| group.level_names().collect()).collect();
        let named = |value: LevelEffect| NamedEffect {
            group: terms[value.term].name.clone(),
            level: levels[value.term][value.level].clone(),
            effect: terms[value.term].effect_names()[value.effect].to_owned(),
            value,
        };
        self.model.level_effects().into_iter().map(named).collect()
    }
}

impl TableOutputs {
    /// Returns the estimates as the text of a CSV file with the columns group, level, effect, estimate and sd, after the target if there are
    /// several.
    ///
    /// # Errors
    ///
    /// A data error for models without grouped effects.
    pub fn effects_csv(&self) -> Result<String> {
        let several = self.models().len() > 1;
        let target = several.then_some("target");
        let header: Vec<String> = target
            .into_iter()
            .chain(["group", "level", "effect", "estimate", "sd"])
            .map(str::to_owned)
            .collect();
        let mut rows = Vec::new();
        for model in self.models() {
            let target = several.then(|| model.schema().target_name().to_owned());
            rows.extend(model.effects().into_iter().map(|NamedEffect { group, level, effect, value }| {
                let own = [group, level, effect, value.estimate.to_string(), value.sd.to_string()];
                target.clone().into_iter().chain(own).collect::<Vec<String>>()
            }));
        }
        if rows.is_empty() {
            return Err(Error::data("the model has no grouped effects").hint("fit it with ⟨group⟩"));
        }
        csv_text(&header, rows.into_iter())
    }
}
