//! The header and the coordinates of a NetCDF file in the classic format, with attributes of the CF conventions 1.8.
//!
//! Positions have 64 bits (CDF-2); beyond 4 GiB for a variable, sizes have 64 bits too (CDF-5). Everything is big-endian and padded to four
//! bytes. Source: NetCDF File Format Specifications, Unidata. The crates that write this format hold all values in memory.

use std::collections::HashSet;
use std::io::{Result, Write};

use super::{Band, Raster, VALUE};
use sparsegp_tables::tables::grid::{Axis, Values};

/// The tags of the lists of a header.
const DIMENSIONS: u32 = 10;
const VARIABLES: u32 = 11;
const ATTRIBUTES: u32 = 12;

/// The largest size of a dimension in CDF-2, and that of a variable in bytes.
const MOST_VALUES: u64 = i32::MAX as u64;
const MOST_BYTES: u64 = u32::MAX as u64 - 3;

const CHAR: u32 = 2;
const DOUBLE: u32 = 6;

/// EPSG:4326 as well-known text.
const WGS_84: &str = "GEOGCS[\"WGS 84\",DATUM[\"WGS_1984\",SPHEROID[\"WGS 84\",6378137,298.257223563]],\
    PRIMEM[\"Greenwich\",0],UNIT[\"degree\",0.0174532925199433],AUTHORITY[\"EPSG\",\"4326\"]]";

/// An attribute with its type, the number of its values, and their bytes.
struct Attribute(&'static str, u32, u64, Vec<u8>);

impl Attribute {
    fn text(name: &'static str, text: &str) -> Attribute {
        Attribute(name, CHAR, text.len() as u64, text.into())
    }

    fn number(name: &'static str, number: f64) -> Attribute {
        Attribute(name, DOUBLE, 1, number.to_be_bytes().into())
    }
}

struct Variable {
    name: String,
    /// Indices of dimensions.
    dimensions: Vec<usize>,
    attributes: Vec<Attribute>,
    kind: u32,
    /// The values with padding; empty for a band, whose values are written later.
    values: Vec<u8>,
    /// The number of bytes of the values in the file.
    size: u64,
}

impl Variable {
    /// Creates a variable with known values, which are numbers.
    fn of_numbers(
        name: String,
        dimensions: Vec<usize>,
        attributes: Vec<Attribute>,
        numbers: impl Iterator<Item = f64>,
    ) -> Variable {
        let values: Vec<u8> = numbers.flat_map(f64::to_be_bytes).collect();
        Variable { name, dimensions, attributes, kind: DOUBLE, size: values.len() as u64, values }
    }
}

#[derive(Default)]
struct Header {
    names: HashSet<String>,
    dimensions: Vec<(String, u64)>,
    variables: Vec<Variable>,
}

impl Header {
    /// Adds a dimension, and returns its index.
    fn add_dimension(&mut self, name: String, size: u64) -> usize {
        self.dimensions.push((name, size));
        self.dimensions.len() - 1
    }

    /// Adds an axis as a variable: with a dimension of its name if it has several values, otherwise as a scalar. Returns its name.
    fn add_axis(&mut self, raster: &Raster, axis: &Axis) -> String {
        let (name, mut attributes) = (self.name(&axis.name), of_axis(raster, axis));
        let variable = match &axis.values {
            Values::Range(steps) => {
                let several = steps.count > 1;
                let dimension = several.then(|| self.add_dimension(name.clone(), steps.count));
                let numbers = (0..steps.count).map(|index| steps.number(index));
                Variable::of_numbers(name.clone(), Vec::from_iter(dimension), attributes, numbers)
            }
            Values::Text(text) => {
                let length = self.name(&format!("{name}_length"));
                let dimensions = vec![self.add_dimension(length, text.len() as u64)];
                attributes.push(Attribute::text("_Encoding", "utf-8"));
                let mut values = text.clone().into_bytes();
                values.resize(values.len().next_multiple_of(4), 0);
                let size = values.len() as u64;
                Variable { name: name.clone(), dimensions, attributes, kind: CHAR, values, size }
            }
        };
        self.variables.push(variable);
        name
    }

    fn add_variables(&mut self, raster: &Raster, bands: &[Band]) {
        raster.varying().for_each(|axis| drop(self.add_axis(raster, axis)));
        let of_band: Vec<usize> = (0..self.dimensions.len()).collect();
        let scalars: Vec<String> = raster.constant().map(|axis| self.add_axis(raster, axis)).collect();
        let crs = raster.is_in_degrees().then(|| self.name("crs"));
        if let Some(name) = crs.clone() {
            let attributes = vec![
                Attribute::text("grid_mapping_name", "latitude_longitude"),
                Attribute::number("semi_major_axis", 6_378_137.0),
                Attribute::number("inverse_flattening", 298.257_223_563),
                Attribute::text("crs_wkt", WGS_84),
            ];
            // Its value, 0, has no meaning.
            self.variables.push(Variable::of_numbers(name, Vec::new(), attributes, [0.0].into_iter()));
        }
        for band in bands {
            let long_name = Attribute::text("long_name", &band.long_name);
            let mut attributes = vec![long_name, Attribute::number("_FillValue", f64::NAN)];
            attributes.extend(crs.as_ref().map(|crs| Attribute::text("grid_mapping", crs)));
            if !scalars.is_empty() {
                attributes.push(Attribute::text("coordinates", &scalars.join(" ")));
            }
            let (name, size) = (self.name(&band.name), raster.grid.points() * VALUE);
            let (dimensions, values) = (of_band.clone(), Vec::new());
            self.variables.push(Variable { name, dimensions, attributes, kind: DOUBLE, values, size });
        }
    }

    /// Returns a name that the format allows and that is not in use yet.
    fn name(&mut self, name: &str) -> String {
        let allowed = |c: char| c.is_alphanumeric() || "_.-+@".contains(c);
        let mut known: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
        if !known.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            known.insert(0, '_');
        }
        while !self.names.insert(known.clone()) {
            known.push('_');
        }
        known
    }

    /// Returns true if CDF-2 cannot count the bytes of a variable.
    fn is_wide(&self) -> bool {
        self.dimensions.iter().any(|(_, size)| *size > MOST_VALUES)
            || self.variables.iter().any(|variable| variable.size > MOST_BYTES)
    }

    /// Encodes the header of a file with these attributes, for variables at these positions.
    fn encode(&self, attributes: &[Attribute], positions: &[u64]) -> Vec<u8> {
        let wide = self.is_wide();
        let mut out = Encoder { bytes: vec![b'C', b'D', b'F', if wide { 5 } else { 2 }], wide };
        out.count(0);
        out.list(DIMENSIONS, self.dimensions.len());
        for (name, size) in &self.dimensions {
            out.name(name);
            out.count(*size);
        }
        out.attributes(attributes);
        out.list(VARIABLES, self.variables.len());
        for (variable, position) in self.variables.iter().zip(positions) {
            out.name(&variable.name);
            out.count(variable.dimensions.len() as u64);
            variable.dimensions.iter().for_each(|dimension| out.count(*dimension as u64));
            out.attributes(&variable.attributes);
            out.number(variable.kind);
            out.count(variable.size);
            out.bytes.extend(position.to_be_bytes());
        }
        out.bytes
    }
}

struct Encoder {
    bytes: Vec<u8>,
    /// True if counts have eight bytes.
    wide: bool,
}

impl Encoder {
    fn number(&mut self, number: u32) {
        self.bytes.extend(number.to_be_bytes());
    }

    fn count(&mut self, count: u64) {
        match self.wide {
            true => self.bytes.extend(count.to_be_bytes()),
            false => self.number(count as u32),
        }
    }

    fn list(&mut self, tag: u32, length: usize) {
        self.number(if length == 0 { 0 } else { tag });
        self.count(length as u64);
    }

    fn bytes(&mut self, count: u64, bytes: &[u8]) {
        self.count(count);
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn name(&mut self, name: &str) {
        self.bytes(name.len() as u64, name.as_bytes());
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        self.list(ATTRIBUTES, attributes.len());
        for Attribute(name, kind, count, bytes) in attributes {
            self.name(name);
            self.number(*kind);
            self.bytes(*count, bytes);
        }
    }
}

/// Returns the attributes of a coordinate.
fn of_axis(raster: &Raster, axis: &Axis) -> Vec<Attribute> {
    let index = raster.index_in_map(axis);
    let mut attributes = Vec::from_iter(index.map(|index| Attribute::text("axis", ["X", "Y"][index])));
    if let (Some(index), true) = (index, raster.is_in_degrees()) {
        let name = ["longitude", "latitude"][index];
        attributes.push(Attribute::text("standard_name", name));
        attributes.push(Attribute::text("long_name", name));
        attributes.push(Attribute::text("units", ["degrees_east", "degrees_north"][index]));
    } else {
        attributes.push(Attribute::text("long_name", &axis.name));
    }
    attributes
}

/// Writes everything except the predictions, and returns the position of the first value of each band.
pub(super) fn begin(out: &mut impl Write, raster: &Raster, bands: &[Band]) -> Result<Vec<u64>> {
    let mut header = Header::default();
    header.add_variables(raster, bands);
    let attributes = [
        Attribute::text("Conventions", "CF-1.8"),
        Attribute::text("title", &format!("Predictions of {}", raster.targets.join(", "))),
        Attribute::text("source", concat!("sparsegp ", env!("CARGO_PKG_VERSION"))),
    ];
    // The length of a header does not depend on the positions.
    let mut positions = vec![0; header.variables.len()];
    let mut position = header.encode(&attributes, &positions).len() as u64;
    for (variable, start) in header.variables.iter().zip(&mut positions) {
        *start = position;
        position += variable.size;
    }
    out.write_all(&header.encode(&attributes, &positions))?;
    header.variables.iter().try_for_each(|variable| out.write_all(&variable.values))?;
    Ok(positions.split_off(positions.len() - bands.len()))
}
