//! Coordinates of places in a table, and facts about those of some rows.

use super::facts::{Misfit, keep_earlier};
use super::spread::Spread;
use super::surface::{Places, Surface};
use crate::tables::column::number_text;
use crate::tables::table::Table;
use serde::{Deserialize, Serialize};
use sparsegp::data::Affine;
use sparsegp::error::{Error, Result};
use std::borrow::Cow;

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

    /// Returns true if one of the two cells is missing.
    pub(super) fn is_missing(&self, row: usize) -> bool {
        self.values.iter().any(|values| values[row].is_nan())
    }

    /// The coordinates of a row; `None` if a cell is missing.
    ///
    /// Fails if a number is infinite, or a longitude or latitude is out of range.
    pub(super) fn at(&self, table: &Table, row: usize) -> Result<Option<[f64; 3]>> {
        if self.is_missing(row) {
            return Ok(None);
        }
        let [a, b] = [self.values[0][row], self.values[1][row]];
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
        let found = number_text(value);
        let error = Error::data(format!("{}: found {found}, expected {expected}", table.place(row, name)));
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

    /// Shift and scale of every coordinate over the training rows; rows without a place count as rows at the centre.
    pub(super) fn affines(&self) -> Vec<Affine> {
        let spreads = &self.spreads[..self.places.surface.dims()];
        spreads.iter().map(|spread| spread.affine_with(self.gaps.1)).collect()
    }

    /// Returns for each coordinate true if it varies among the training rows.
    pub(super) fn varies(&self) -> Vec<bool> {
        self.spreads[..self.places.surface.dims()].iter().map(Spread::varies).collect()
    }
}
