//! Pairs of columns that are places, and the surface on which they lie.

use serde::{Deserialize, Serialize};
use sparsegp::kernels::Dimension;

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
