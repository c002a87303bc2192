//! Inputs that boosted trees predict from the other inputs of a row.

use super::columns::{Feature, FeatureKind, Schema};
use faer::{Mat, MatMut, MatRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sparsegp::files::{bytes_of, digits};
use sparsegp::likelihood::TargetKind;
use sparsegp_trees::{Forest, Loss, Values};
use std::ops::Range;
use std::sync::Arc;

/// The name of the inputs, unless a column has it.
const NAME: &str = "trees";

/// Boosted trees whose scores are inputs of a model: the standardised mean of the target, or its log odds, its log rate, or the scores of its classes.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeScores {
    forest: Arc<Forest>,
    /// The classes, if each has a score.
    classes: Vec<String>,
}

/// The form in model files: the trees are hexadecimal digits.
#[derive(Serialize, Deserialize)]
struct Stored {
    forest: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    classes: Vec<String>,
}

impl Serialize for TreeScores {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let bytes = postcard::to_allocvec(&*self.forest).map_err(serde::ser::Error::custom)?;
        Stored { forest: digits(&bytes), classes: self.classes.clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TreeScores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let Stored { forest, classes } = Stored::deserialize(deserializer)?;
        let bytes =
            bytes_of(&forest).ok_or_else(|| de::Error::custom("the trees are not hexadecimal digits"))?;
        let forest: Forest = postcard::from_bytes(&bytes).map_err(de::Error::custom)?;
        forest.check().map_err(de::Error::custom)?;
        if !classes.is_empty() && classes.len() != forest.scores() {
            return Err(de::Error::custom("the trees have another number of scores than classes"));
        }
        Ok(TreeScores { forest: Arc::new(forest), classes })
    }
}

impl TreeScores {
    /// Returns the trees.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Returns the number of scores; each score is an input.
    pub fn count(&self) -> usize {
        self.forest.scores()
    }

    /// Returns the names of the inputs of a feature with this name.
    pub(super) fn input_names(&self, name: &str) -> Vec<String> {
        match self.classes.is_empty() {
            true => vec![name.to_owned(); self.count()],
            false => self.classes.iter().map(|class| format!("{name}={class}")).collect(),
        }
    }
}

impl Schema {
    /// Returns the trees and their inputs, if the schema has them.
    pub fn trees(&self) -> Option<(&TreeScores, Range<usize>)> {
        self.feature_inputs().find_map(|(feature, inputs)| match &feature.kind {
            FeatureKind::Trees { scores } => Some((scores, inputs)),
            _ => None,
        })
    }

    /// Returns true if trees that were read from a file are the last feature, and were boosted on as many columns as the others make.
    pub(crate) fn trees_are_consistent(&self) -> bool {
        let Some((scores, inputs)) = self.trees() else { return true };
        let none = Mat::zeros(0, self.dims());
        inputs.end == self.feature_dims() && self.tree_columns(none.as_ref()).len() == scores.forest.columns()
    }

    /// Returns the schema with trees as its last feature, in place of earlier trees.
    pub(crate) fn with_trees(&self, forest: Forest) -> Schema {
        let mut schema = self.without_trees();
        let taken = |name: &str| schema.uses(name);
        let name = std::iter::successors(Some(NAME.to_owned()), |name| Some(format!("{name}_")));
        let name = name.into_iter().find(|name| !taken(name)).unwrap_or_default();
        let classes = if forest.scores() > 1 { schema.encoding.levels().to_vec() } else { Vec::new() };
        let scores = TreeScores { forest: Arc::new(forest), classes };
        schema.features.push(Feature { name, kind: FeatureKind::Trees { scores }, missing: false });
        schema
    }

    /// Returns the schema without trees.
    pub(crate) fn without_trees(&self) -> Schema {
        let mut schema = self.clone();
        schema.features.retain(|feature| !matches!(feature.kind, FeatureKind::Trees { .. }));
        schema.fills.truncate(schema.features.len());
        schema
    }

    /// Returns the columns that trees see, made of the inputs x (`n × D`) of the other features: numbers, in which marked cells are missing,
    /// and levels.
    pub(crate) fn tree_columns(&self, x: MatRef<'_, f64>) -> Vec<Values> {
        let mut columns = Vec::new();
        for (feature, inputs) in self.feature_inputs() {
            match &feature.kind {
                FeatureKind::Trees { .. } => {}
                FeatureKind::Categorical { coded: true, .. } => {
                    columns
                        .push(Values::Levels(x.col(inputs.start).iter().map(|&code| code as u32).collect()));
                }
                FeatureKind::Categorical { .. } => {
                    let level = |row: usize| inputs.clone().position(|input| x[(row, input)] == 1.0);
                    let codes = (0..x.nrows()).map(|row| level(row).map_or(0, |level| level as u32 + 1));
                    columns.push(Values::Levels(codes.collect()));
                }
                FeatureKind::Numeric | FeatureKind::Date { .. } | FeatureKind::Place { .. } => {
                    let marker = feature.tells_missing().then(|| inputs.end - 1);
                    let is_missing = |row: usize| marker.is_some_and(|marker| x[(row, marker)] == 1.0);
                    for input in inputs.start..marker.unwrap_or(inputs.end) {
                        let cell = |row: usize| if is_missing(row) { f64::NAN } else { x[(row, input)] };
                        columns.push(Values::Numbers((0..x.nrows()).map(cell).collect()));
                    }
                }
            }
        }
        columns
    }

    /// Writes the scores of the trees into the inputs x (`n × D`), computed from the other features.
    pub fn write_trees(&self, mut x: MatMut<'_, f64>) {
        let Some((scores, inputs)) = self.trees() else { return };
        let all = scores.forest.predict(&self.tree_columns(x.as_ref()));
        for (row, scores) in all.chunks_exact(inputs.len()).enumerate() {
            inputs.clone().zip(scores).for_each(|(input, score)| x[(row, input)] = *score);
        }
    }

    /// Returns the loss that trees minimise for the target.
    pub(crate) fn tree_loss(&self) -> Loss {
        match self.encoding.kind() {
            TargetKind::Real
            | TargetKind::Measured
            | TargetKind::Censored
            | TargetKind::Positive
            | TargetKind::Lifetime
            | TargetKind::Ordinal => Loss::Squared,
            TargetKind::UnitInterval | TargetKind::Share | TargetKind::Binary | TargetKind::Trials => {
                Loss::Logistic
            }
            TargetKind::Count | TargetKind::CensoredCount | TargetKind::Amount => Loss::Poisson,
            TargetKind::Class => Loss::Softmax { classes: self.encoding.levels().len() },
        }
    }
}
