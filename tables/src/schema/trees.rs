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

/// Boosted trees whose scores are inputs of a model: the standardised mean of each target, or its log odds, its log rate, or the scores of its classes.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeScores {
    /// The trees of every target.
    forests: Arc<Vec<Forest>>,
    /// The classes or the targets, if there are several scores.
    names: Vec<String>,
}

/// The form in model files: the trees are hexadecimal digits, those of several targets with a space between them.
#[derive(Serialize, Deserialize)]
struct Stored {
    forest: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "classes")]
    names: Vec<String>,
}

impl Serialize for TreeScores {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let digits = |forest| postcard::to_allocvec(forest).map(|bytes| digits(&bytes));
        let all: std::result::Result<Vec<String>, _> = self.forests.iter().map(digits).collect();
        let forest = all.map_err(serde::ser::Error::custom)?.join(" ");
        Stored { forest, names: self.names.clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TreeScores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let Stored { forest, names } = Stored::deserialize(deserializer)?;
        let read = |digits: &str| {
            let bytes =
                bytes_of(digits).ok_or_else(|| de::Error::custom("the trees are not hexadecimal digits"))?;
            let forest: Forest = postcard::from_bytes(&bytes).map_err(de::Error::custom)?;
            forest.check().map_err(de::Error::custom).map(|()| forest)
        };
        let forests = forest.split(' ').map(read).collect::<std::result::Result<Vec<Forest>, _>>()?;
        let scores = TreeScores { forests: Arc::new(forests), names };
        if !scores.names.is_empty() && scores.names.len() != scores.count() {
            return Err(de::Error::custom("the trees have another number of scores than names"));
        }
        Ok(scores)
    }
}

impl TreeScores {
    /// Returns the trees of every target.
    pub fn forests(&self) -> &[Forest] {
        &self.forests
    }

    /// Returns the number of scores; each score is an input.
    pub fn count(&self) -> usize {
        self.forests.iter().map(Forest::scores).sum()
    }

    /// Returns the names of the inputs of a feature with this name.
    pub(super) fn input_names(&self, name: &str) -> Vec<String> {
        match self.names.is_empty() {
            true => vec![name.to_owned(); self.count()],
            false => self.names.iter().map(|of| format!("{name}={of}")).collect(),
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
        let columns = self.tree_columns(Mat::zeros(0, self.dims()).as_ref()).len();
        inputs.end == self.feature_dims() && scores.forests.iter().all(|forest| forest.columns() == columns)
    }

    /// Returns the schema with the trees of this target as its last feature, in place of earlier trees.
    pub(crate) fn with_trees(&self, forest: Forest) -> Schema {
        let classes = if forest.scores() > 1 { self.encoding.levels().to_vec() } else { Vec::new() };
        self.with_trees_of(vec![forest], classes)
    }

    /// Returns the schema with trees as its last feature, in place of earlier trees. Several scores have names.
    pub(crate) fn with_trees_of(&self, forests: Vec<Forest>, names: Vec<String>) -> Schema {
        let mut schema = self.without_trees();
        let taken = |name: &str| schema.uses(name);
        let name = std::iter::successors(Some(NAME.to_owned()), |name| Some(format!("{name}_")));
        let name = name.into_iter().find(|name| !taken(name)).unwrap_or_default();
        let scores = TreeScores { forests: Arc::new(forests), names };
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
    pub fn write_trees(&self, x: MatMut<'_, f64>) {
        self.write_scores(x, &|forest, columns| forest.predict(columns));
    }

    /// Writes the scores of the trees that did not see the folds of the rows.
    pub(crate) fn write_held_out_trees(&self, x: MatMut<'_, f64>, folds: &[usize]) {
        self.write_scores(x, &|forest, columns| forest.predict_held_out(columns, folds));
    }

    fn write_scores(&self, mut x: MatMut<'_, f64>, predict: &dyn Fn(&Forest, &[Values]) -> Vec<f64>) {
        let Some((scores, inputs)) = self.trees() else { return };
        let columns = self.tree_columns(x.as_ref());
        let mut first = inputs.start;
        for forest in scores.forests() {
            let all = predict(forest, &columns);
            for (row, scores) in all.chunks_exact(forest.scores()).enumerate() {
                (first..).zip(scores).for_each(|(input, score)| x[(row, input)] = *score);
            }
            first += forest.scores();
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
