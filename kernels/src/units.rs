//! The units of parameter values, and the conversion of values to the scale that a model sees.

use crate::kernel::{Kernel, value_names};

/// The unit of a parameter value: a power of the unit of the target times a power of the unit of some columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unit {
    /// The power of the unit of the target: 2 for a variance.
    pub target: f64,
    /// The power of the unit of the columns: 1 for a length.
    pub input: f64,
    /// The columns of the points, counted from 0; empty if `input` is 0.
    pub columns: Vec<usize>,
    /// True for a position on the column, which moves with the origin of the column.
    pub position: bool,
}

impl Unit {
    /// A power of the unit of the target.
    pub fn of_target(power: f64) -> Unit {
        Unit { target: power, ..Unit::default() }
    }

    /// A power of the unit of some columns.
    pub fn of_columns(power: f64, columns: Vec<usize>) -> Unit {
        Unit { input: if columns.is_empty() { 0.0 } else { power }, columns, ..Unit::default() }
    }

    /// The unit of the target, on which the value is a position.
    pub fn level() -> Unit {
        Unit { position: true, ..Unit::of_target(1.0) }
    }

    /// Returns the factor from values that a model sees to values of the user, and the value of the user that it sees as 0. The size of
    /// several columns is their geometric mean; the last value is true if they are alike.
    fn scale(&self, columns: &[Axis], target: Axis) -> (f64, f64, bool) {
        let axes = || self.columns.iter().filter_map(|&column| columns.get(column));
        let count = axes().count().max(1) as f64;
        let size = (axes().map(|axis| axis.size.ln()).sum::<f64>() / count).exp();
        let alike = self.input == 0.0 || axes().all(|axis| (axis.size / size - 1.0).abs() < 1e-9);
        let axis = if self.target == 0.0 { axes().next().copied() } else { Some(target) };
        let origin = axis.filter(|_| self.position).map_or(0.0, |axis| axis.origin);
        (target.size.powf(self.target) * size.powf(self.input), origin, alike)
    }

    /// Returns the value that a model sees for a value in units of the user.
    pub fn to_scale(&self, value: f64, columns: &[Axis], target: Axis) -> f64 {
        let (factor, origin, _) = self.scale(columns, target);
        (value - origin) / factor
    }

    /// Returns, in units of the user, a value that a model sees; `None` if it belongs to columns of different sizes.
    pub fn of_user(&self, value: f64, columns: &[Axis], target: Axis) -> Option<f64> {
        let (factor, origin, alike) = self.scale(columns, target);
        alike.then_some(origin + factor * value)
    }

    /// Returns the columns along which the value is a length; empty for other values.
    pub fn length(self) -> Vec<usize> {
        let is_length = self.input == 1.0 && self.target == 0.0 && !self.position;
        if is_length { self.columns } else { Vec::new() }
    }
}

/// The origin and the unit of a column or of the target: a model sees `(value − origin) / size`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// The value that the model sees as 0.
    pub origin: f64,
    /// The difference that the model sees as 1, above 0.
    pub size: f64,
}

/// Converts the values that were [given](crate::Parameter::given) or are fixed from units of the user to the scale that a model sees, for
/// points with these columns. A value that belongs to several columns of different sizes is converted by their geometric mean.
///
/// # Errors
/// If a fixed value belongs to columns of different sizes, and so has no equivalent.
pub fn to_scale(kernel: &mut dyn Kernel, columns: &[Axis], target: Axis) -> Result<(), String> {
    let (mut units, mut names) = (kernel.units(columns.len()).into_iter(), value_names(kernel).into_iter());
    let mut outcome = Ok(());
    kernel.for_each_parameter_mut(&mut |parameter| {
        for value in &mut parameter.values {
            let (Some(unit), Some(name)) = (units.next(), names.next()) else { return };
            if !(parameter.given || parameter.fixed) {
                continue;
            }
            if parameter.fixed && !unit.scale(columns, target).2 {
                outcome = Err(format!(
                    "{name} is fixed, but belongs to columns that are scaled differently, expected one value for each column"
                ));
            }
            *value = unit.to_scale(*value, columns, target);
        }
    });
    outcome
}
