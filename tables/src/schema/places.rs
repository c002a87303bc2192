//! Places: two columns of degrees or of plane coordinates that together make one input.

use super::columns::{Feature, FeatureKind, Schema, SchemaOptions, special};
use super::surface::Places;
use super::table_facts::TableFacts;
use crate::tables::table::quoted;
use sparsegp::error::{Error, Result};
use std::ops::Range;

impl Schema {
    /// The columns that say where a row is, if two columns do.
    pub fn places(&self) -> Option<&Places> {
        self.place_inputs().map(|(places, _)| places)
    }

    /// Returns true if every place has as many mean coordinates as its surface has; a damaged file may contradict this.
    pub(crate) fn places_are_consistent(&self) -> bool {
        self.features.iter().all(|feature| match &feature.kind {
            FeatureKind::Place { places, centre } => centre.len() == places.surface.dims(),
            _ => true,
        })
    }

    /// The columns that say where a row is, and the range of their coordinates among the inputs, if there are such columns.
    pub fn place_inputs(&self) -> Option<(&Places, Range<usize>)> {
        self.feature_inputs().find_map(|(feature, inputs)| match &feature.kind {
            FeatureKind::Place { places, .. } => {
                Some((places, inputs.start..inputs.start + places.surface.dims()))
            }
            _ => None,
        })
    }
}

impl SchemaOptions {
    pub(super) fn is_place(&self, name: &str) -> bool {
        self.places.as_ref().is_some_and(|places| places.has(name))
    }

    /// The names of features, with the columns of places, which need not be named as features.
    pub(super) fn with_place<'a>(&'a self, mut names: Vec<&'a str>) -> Vec<&'a str> {
        let columns = self.places.iter().flat_map(|places| &places.columns);
        let more: Vec<&str> = columns.map(String::as_str).filter(|name| !names.contains(name)).collect();
        names.extend(more);
        names
    }
}

/// The numbers of rows in which a feature is missing: among all rows, and among the training rows.
pub(super) fn gaps(facts: &TableFacts, feature: &Feature) -> Result<(usize, usize)> {
    match feature.kind {
        FeatureKind::Place { .. } => Ok(facts.require_place()?.gaps),
        _ => Ok(facts.require(&feature.name)?.gaps),
    }
}

/// Checks that the columns of places exist and have no other role.
pub(super) fn check_places(facts: &TableFacts, options: &SchemaOptions) -> Result<()> {
    let Some(places) = &options.places else { return Ok(()) };
    places.columns.iter().try_for_each(|name| facts.require_name(name))?;
    let [first, second] = &places.columns;
    let option = places.surface.option();
    if first == second {
        return Err(Error::usage(format!("⟨{option}⟩ names the column {} twice", quoted(first))));
    }
    let mut others = special(options)
        .chain(options.exclude.iter().map(|name| ("excluded", name.as_str())))
        .chain(options.categorical.iter().map(|name| ("categorical", name.as_str())))
        .chain(options.ordered.iter().map(|(name, _)| ("ordered", name.as_str())));
    others.find(|(_, name)| places.has(name)).map_or(Ok(()), |(role, name)| {
        let name = quoted(name);
        Err(Error::usage(format!("the column {name} cannot be both {role} and a coordinate of ⟨{option}⟩")))
    })
}

/// The feature of two columns that say where rows are.
pub(super) fn infer_place(facts: &TableFacts, places: &Places) -> Result<Feature> {
    for name in &places.columns {
        let column = facts.require(name)?;
        column.check_numbers()?;
        if column.calendar.is_some() {
            let found = format!("{}: column {} holds dates", facts.source, quoted(name));
            return Err(Error::data(format!("{found}, expected a coordinate of a place")));
        }
    }
    let known = facts.require_place()?;
    // The facts complete dates and places.
    let kind = FeatureKind::Place { places: places.clone(), centre: Vec::new() };
    Ok(Feature { name: places.name(), kind, missing: known.gaps.1 > 0 })
}
