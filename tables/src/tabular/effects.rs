//! The grouped effects of a table model by the names of groupings, levels and columns.

use super::model::TableModel;
use super::outputs::TableOutputs;
use crate::tables::{Column, PredictedRows, PredictedTable};
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
        let levels: Vec<Vec<String>> =
            self.schema().groups().iter().map(|group| group.level_names().collect()).collect();
        let latent = self.model.latent();
        let (terms, functions) = (latent.effects.terms(), latent.likelihood.function_names());
        let named = |value: LevelEffect| NamedEffect {
            group: match functions.get(value.function).filter(|_| functions.len() > 1) {
                Some(function) => format!("{function}.{}", terms[value.term].name),
                None => terms[value.term].name.clone(),
            },
            level: levels[value.term][value.level].clone(),
            effect: terms[value.term].effect_names()[value.effect].to_owned(),
            value,
        };
        self.model.level_effects().into_iter().map(named).collect()
    }
}

impl TableOutputs {
    /// Returns the estimates as a table with the columns group, level, effect, estimate and sd, after the target if there are several.
    ///
    /// # Errors
    ///
    /// A data error for models without grouped effects.
    pub fn effects_table(&self) -> Result<(PredictedTable, PredictedRows)> {
        let several = self.models().len() > 1;
        let names = several.then_some("target").into_iter().chain(["group", "level", "effect"]);
        let leading: Vec<(String, bool)> = names.map(|name| (name.to_owned(), true)).collect();
        let (mut texts, mut numbers) = (vec![Vec::new(); leading.len()], Vec::new());
        for model in self.models() {
            let target = several.then(|| model.schema().target_name().to_owned());
            for NamedEffect { group, level, effect, value } in model.effects() {
                let own = target.clone().into_iter().chain([group, level, effect]);
                texts.iter_mut().zip(own).for_each(|(texts, own)| texts.push(own));
                numbers.extend([value.estimate, value.sd]);
            }
        }
        if numbers.is_empty() {
            return Err(Error::data("the model has no grouped effects").hint("fit it with ⟨group⟩"));
        }
        let rows = numbers.len() / 2;
        let columns = texts.iter().map(|texts| Column::of_labels(texts, (0..rows).map(Some))).collect();
        let numbers_of = ["estimate", "sd"].map(str::to_owned).to_vec();
        let table = PredictedTable { leading, numbers: numbers_of, csv_safe: false };
        Ok((table, PredictedRows { leading: columns, numbers, rows }))
    }
}
