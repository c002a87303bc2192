//! The columns of a schema as explanations know them: ranges of inputs with names.

use super::columns::{Feature, FeatureKind, Schema};
use super::group_formula::Grouping;
use crate::explain::{InputColumn, InputKind};
use crate::tables::Reading;
use std::ops::Range;

impl Schema {
    /// Returns the columns that explanations of a model with this schema describe: one for each feature, each grouping, and each column of
    /// slopes that is not a feature.
    pub fn input_columns(&self) -> Vec<InputColumn> {
        let (of_f, slopes) = (self.feature_dims(), self.slope_columns());
        let slope = |name: &str| {
            slopes.iter().position(|slope| *slope == name).map(|at| of_f + self.groups().len() + at)
        };
        let column = |(feature, inputs): (&Feature, Range<usize>)| {
            let kind = match &feature.kind {
                FeatureKind::Numeric => InputKind::Number,
                FeatureKind::Date { .. } => InputKind::Date,
                FeatureKind::Place { .. } => InputKind::Place,
                FeatureKind::Categorical { levels, coded, .. } => {
                    let missing = feature.missing.then(|| "(missing)".to_owned());
                    let names = levels.iter().cloned().chain(missing).collect();
                    match coded {
                        true => InputKind::Codes { names },
                        false => InputKind::Categories { names, first_is_none: self.drops_first() },
                    }
                }
            };
            InputColumn { name: feature.name.clone(), inputs, slope: slope(&feature.name), kind }
        };
        let mut columns: Vec<InputColumn> = self.feature_inputs().map(column).collect();
        let grouping = |(at, group): (usize, &Grouping)| {
            let (inputs, names) = (of_f + at..of_f + at + 1, group.level_names().collect());
            InputColumn { name: group.name(), inputs, slope: None, kind: InputKind::Codes { names } }
        };
        let alone = |name: &&str| columns.iter().all(|column| column.name != *name);
        let alone: Vec<InputColumn> = slopes
            .iter()
            .filter(|name| alone(name))
            .filter_map(|name| Some(InputColumn::number(name, slope(name)?)))
            .collect();
        columns.extend(self.groups().iter().enumerate().map(grouping));
        columns.extend(alone);
        columns
    }

    /// The levels of a column of ordered levels, lowest first; its input is the position of the level.
    pub fn ordered_levels(&self, name: &str) -> Option<&[String]> {
        match self.readings.get(name)? {
            Reading::Ordered { levels, .. } => Some(levels),
            Reading::Number { .. } | Reading::Date { .. } => None,
        }
    }
}
