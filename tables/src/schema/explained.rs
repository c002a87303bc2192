//! The columns of a schema as explanations know them: ranges of inputs with names; no predictions.

use super::columns::{Feature, Schema};
use crate::tables::Reading;
use sparsegp::explain::{InputColumn, InputKind};

impl Schema {
    /// Returns the columns that explanations of a model with this schema describe, one for each feature.
    pub(crate) fn input_columns(&self) -> Vec<InputColumn> {
        let mut start = 0;
        let column = |feature: &Feature| {
            let inputs = start..start + self.width(feature);
            start = inputs.end;
            let kind = match feature {
                Feature::Numeric { .. } => InputKind::Number,
                Feature::Date { .. } => InputKind::Date,
                Feature::Place { .. } => InputKind::Place,
                Feature::Categorical { levels, missing, coded, .. } => {
                    let names: Vec<String> =
                        levels.iter().cloned().chain(missing.then(|| "(missing)".to_owned())).collect();
                    match coded {
                        true => InputKind::Codes { names },
                        false => InputKind::Categories { names, first_is_none: self.drops_first() },
                    }
                }
            };
            InputColumn { name: feature.name().to_owned(), inputs, kind }
        };
        self.features().iter().map(column).collect()
    }

    /// The levels of a column of ordered levels, lowest first; its input is the position of the level.
    pub(crate) fn ordered_levels(&self, name: &str) -> Option<&[String]> {
        match self.readings.get(name)? {
            Reading::Ordered { levels, .. } => Some(levels),
            Reading::Number { .. } | Reading::Date { .. } => None,
        }
    }
}
