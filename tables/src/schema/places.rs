//! Places: two columns of degrees or of plane coordinates that together make one input, and the facts about those of some rows.

use super::columns::{Feature, FeatureKind, Schema, SchemaOptions, special};
use super::facts::{Misfit, keep_earlier};
use super::spread::Spread;
use super::table_facts::TableFacts;
use crate::tables::column::number_text;
use crate::tables::table::{Table, quoted};
use serde::{Deserialize, Serialize};
use sparsegp::data::Affine;
use sparsegp::error::{Error, Result};
use sparsegp::kernels::Dimension;
use std::borrow::Cow;
use std::ops::Range;

/// The mean radius of the Earth in km (R₁ of the International Union of Geodesy and Geophysics).
pub const EARTH_RADIUS: f64 = 6371.0088;

/// The two columns that say where a row is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The names of the columns: longitude and latitude, or the two coordinates in the plane.
    pub columns: [String; 2],
    /// The surface that the places are on.
    pub surface: Surface,
}

/// The surface that places are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// The Earth as a sphere. Longitude and latitude in degrees make three coordinates in km, whose distance is the straight line through
    /// the Earth (the chord): kernels of distances stay positive definite, which they need not be for distances along the surface.
    Sphere,
    /// A plane: the two columns are coordinates in a common unit.
    Plane,
}

impl Surface {
    pub(crate) fn dims(self) -> usize {
        match self {
            Surface::Sphere => 3,
            Surface::Plane => 2,
        }
    }

    /// The coordinates of a place, in km on the sphere; the third is 0 in the plane.
    pub fn coordinates(self, [a, b]: [f64; 2]) -> [f64; 3] {
        match self {
            Surface::Plane => [a, b, 0.0],
            Surface::Sphere => {
                let ((sin_a, cos_a), (sin_b, cos_b)) = (a.to_radians().sin_cos(), b.to_radians().sin_cos());
                [cos_b * cos_a, cos_b * sin_a, sin_b].map(|unit| EARTH_RADIUS * unit)
            }
        }
    }

    /// The unit of distances, in words.
    pub fn unit(self) -> &'static str {
        match self {
            Surface::Sphere => "km",
            Surface::Plane => "in the units of its columns",
        }
    }

    /// The option that declares places on this surface.
    pub(super) fn option(self) -> &'static str {
        match self {
            Surface::Sphere => "places",
            Surface::Plane => "plane",
        }
    }

    /// The kinds of the inputs, which are the coordinates of one point.
    pub(crate) fn dimensions(self) -> impl Iterator<Item = Dimension> {
        (0..self.dims()).map(|d| Dimension::Coordinate { first: d == 0 })
    }
}

impl Places {
    /// The name of the input made from the two columns.
    pub(crate) fn name(&self) -> String {
        self.columns.join(", ")
    }

    pub(crate) fn input_names(&self) -> Vec<String> {
        match self.surface {
            Surface::Sphere => ["x", "y", "z"].map(|axis| format!("{} ({axis})", self.name())).to_vec(),
            Surface::Plane => self.columns.to_vec(),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column == name)
    }
}

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
        FeatureKind::Trees { .. } => Ok((0, 0)),
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

/// The cells of two columns that say where each row is.
pub(super) struct PlaceCells<'a> {
    places: &'a Places,
    values: [Cow<'a, [f64]>; 2],
}

impl<'a> PlaceCells<'a> {
    pub(super) fn of(table: &'a Table, places: &'a Places) -> Result<PlaceCells<'a>> {
        let [a, b] = &places.columns;
        Ok(PlaceCells { places, values: [table.numbers(a)?, table.numbers(b)?] })
    }

    /// The coordinates of a row; `None` if a cell is missing.
    ///
    /// Fails if a number is infinite, or a longitude or latitude is out of range.
    pub(super) fn at(&self, table: &Table, row: usize) -> Result<Option<[f64; 3]>> {
        let [a, b] = [self.values[0][row], self.values[1][row]];
        if a.is_nan() || b.is_nan() {
            return Ok(None);
        }
        for (column, value) in self.places.columns.iter().zip([a, b]) {
            table.finite(row, column, value)?;
        }
        if self.places.surface == Surface::Sphere {
            self.check_degrees(table, row, [a, b])?;
        }
        Ok(Some(self.places.surface.coordinates([a, b])))
    }

    fn check_degrees(&self, table: &Table, row: usize, [longitude, latitude]: [f64; 2]) -> Result<()> {
        let [first, second] = &self.places.columns;
        let (name, value, expected) = if !(-180.0..=360.0).contains(&longitude) {
            (first, longitude, "a longitude from -180 to 360")
        } else if latitude.abs() > 90.0 {
            (second, latitude, "a latitude from -90 to 90")
        } else {
            return Ok(());
        };
        let error = table.unfit(row, name, &number_text(value), expected);
        let swapped = (-180.0..=360.0).contains(&latitude) && longitude.abs() <= 90.0;
        Err(error.hint(if swapped {
            format!("the longitude comes first; if the columns are swapped, use ⟨places {second},{first}⟩")
        } else {
            "⟨places⟩ takes degrees; ⟨plane⟩ takes coordinates in a plane".to_owned()
        }))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PlaceFacts {
    places: Places,
    /// The coordinates of training rows.
    spreads: [Spread; 3],
    /// The numbers of rows without a place: among all rows, and among the training rows.
    pub(super) gaps: (usize, usize),
    /// The first place that cannot be used.
    pub(super) misfit: Option<Misfit>,
}

impl PlaceFacts {
    pub(super) fn new(places: &Places) -> PlaceFacts {
        PlaceFacts { places: places.clone(), spreads: Default::default(), gaps: (0, 0), misfit: None }
    }

    /// Adds the next rows. Columns that hold no numbers are ignored here; `infer_place` refuses them.
    pub(super) fn push(&mut self, table: &Table, training: Option<&[bool]>) {
        let Ok(cells) = PlaceCells::of(table, &self.places) else { return };
        for row in 0..table.rows() {
            let trains = training.is_none_or(|training| training[row]);
            match cells.at(table, row) {
                Ok(Some(place)) if trains => {
                    self.spreads.iter_mut().zip(place).for_each(|(spread, value)| spread.push(value));
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.gaps = (self.gaps.0 + 1, self.gaps.1 + usize::from(trains));
                }
                Err(error) => {
                    self.misfit.get_or_insert_with(|| Misfit { row: table.row(row), error });
                }
            }
        }
    }

    pub(super) fn merge(&mut self, later: PlaceFacts) {
        self.spreads.iter_mut().zip(later.spreads).for_each(|(own, later)| own.merge(later));
        self.gaps = (self.gaps.0 + later.gaps.0, self.gaps.1 + later.gaps.1);
        keep_earlier(&mut self.misfit, later.misfit);
    }

    /// The mean of every coordinate over the training rows.
    pub(super) fn centre(&self) -> Vec<f64> {
        let dims = self.places.surface.dims();
        self.spreads[..dims].iter().map(|spread| spread.affine().shift).collect()
    }

    /// Shift and scale of every coordinate over the training rows, and true if it is constant; rows without a place count as rows at the
    /// centre.
    pub(super) fn affines(&self) -> impl Iterator<Item = (Affine, bool)> {
        let spreads = &self.spreads[..self.places.surface.dims()];
        spreads.iter().map(|spread| (spread.affine_with(self.gaps.1), !spread.varies()))
    }
}
