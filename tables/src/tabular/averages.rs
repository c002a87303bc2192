//! Averages of the predicted function over the cells of a grid, with their variances.

use super::model::TableModel;
use crate::schema::{Surface, UnseenLevels};
use crate::tables::{Column, Grid, NamedColumn, Table};
use faer::MatRef;
use rayon::prelude::*;
use sparsegp::error::{Error, Result};
use sparsegp::model::Model;

/// The average of the function over a cell, in units of the target, without the noise of single observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellAverage {
    /// Its mean.
    pub mean: f64,
    /// Its variance, which the correlation between the points of the cell determines.
    pub variance: f64,
}

impl TableModel {
    /// Returns the averages over the cells around the points `first..first + cells` of a grid, by block
    /// kriging with `parts` points per cell in every direction. The weights a_k of the points are
    /// proportional to the cosine of the latitude on the sphere, and equal otherwise. The average is
    /// `Σ a_k f_k` and its variance `Σ a_k a_l cov(f_k, f_l)`.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::check_averages`] and [`Model::joint`].
    pub fn averages(
        &self,
        grid: &Grid,
        first: u64,
        cells: usize,
        parts: usize,
        unseen: UnseenLevels,
    ) -> Result<Vec<CellAverage>> {
        let per_cell = self.check_averages(grid, parts)?;
        // The points of the grid have to lie on the sphere, but their cells may extend beyond a pole or a full turn.
        self.schema().design(&grid.block(first, cells)?, unseen)?;
        let points = grid.cells(first, cells, parts)?;
        let areas = self.areas(&points)?;
        let x = self.schema().design(&self.on_sphere(points)?, unseen)?;
        let average = |(cell, areas): (usize, &[f64])| {
            self.average(x.as_ref().subrows(cell * per_cell, per_cell), areas)
        };
        areas.par_chunks(per_cell).enumerate().map(average).collect()
    }

    /// Returns the number of points of a cell. Refuses models whose function is not in units of the target,
    /// and cells with too many points.
    ///
    /// # Errors
    ///
    /// A usage error that names ⟨average⟩.
    pub fn check_averages(&self, grid: &Grid, parts: usize) -> Result<usize> {
        let likelihood = &self.latent().likelihood;
        let of_target = likelihood.target_kind().is_standardised() && likelihood.functions() == 1;
        let is_mixture = likelihood.mixing().is_some();
        if !(of_target || is_mixture) {
            let name = likelihood.name();
            let needs = "⟨average⟩ needs a function in units of the target";
            let hint =
                "use Gaussian or Student-t noise; without ⟨average⟩ the grid has the predictions of points";
            return Err(
                Error::usage(format!("{needs}, which the {name} likelihood does not have")).hint(hint)
            );
        }
        let most = Model::MOST_JOINT_ROWS;
        let points = grid.points_of_cell(parts);
        points.filter(|points| (1..=most).contains(points)).ok_or_else(|| {
            let found = points.map_or("too many".to_owned(), |points| points.to_string());
            Error::usage(format!("⟨average {parts}⟩: a cell has {found} points, expected at most {most}"))
        })
    }

    /// The area around each point, up to a constant.
    fn areas(&self, points: &Table) -> Result<Vec<f64>> {
        match self.schema().places() {
            Some(places) if places.surface == Surface::Sphere => {
                let latitudes = points.numbers(&places.columns[1])?;
                Ok(latitudes.iter().map(|degrees| degrees.to_radians().cos().max(0.0)).collect())
            }
            _ => Ok(vec![1.0; points.rows()]),
        }
    }

    /// Moves points beyond a pole, whose area is 0, to the pole, and longitudes out of range by a full turn.
    fn on_sphere(&self, points: Table) -> Result<Table> {
        let Some(places) = self.schema().places().filter(|places| places.surface == Surface::Sphere) else {
            return Ok(points);
        };
        let moved = |NamedColumn { name, column }: &NamedColumn| {
            let within = |degrees: f64| match () {
                () if *name == places.columns[1] => degrees.clamp(-90.0, 90.0),
                () if degrees < -180.0 => degrees + 360.0,
                () if degrees > 360.0 => degrees - 360.0,
                () => degrees,
            };
            let column = match column {
                Column::Number(values) if places.has(name) => {
                    Column::Number(values.iter().copied().map(within).collect())
                }
                other => other.clone(),
            };
            NamedColumn { name: name.clone(), column }
        };
        Table::new(points.source(), points.columns().iter().map(moved).collect())
    }

    fn average(&self, x: MatRef<'_, f64>, areas: &[f64]) -> Result<CellAverage> {
        let (means, covariance) = self.joint(x)?;
        let total: f64 = areas.iter().sum();
        let (mut mean, mut variance) = (0.0, 0.0);
        for (k, area) in areas.iter().enumerate() {
            mean += area / total * means[k];
            let row: f64 =
                areas.iter().enumerate().map(|(l, other)| other / total * covariance[(k, l)]).sum();
            variance += area / total * row;
        }
        Ok(CellAverage { mean, variance: variance.max(0.0) })
    }
}
