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

/// The types of values.
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

struct Variable<'a> {
    name: String,
    /// Indices of dimensions.
    dimensions: Vec<usize>,
    attributes: Vec<Attribute>,
    values: Contents<'a>,
}

/// The contents of a variable.
enum Contents<'a> {
    Axis(&'a Axis),
    /// A zero, for a variable that only carries attributes.
    Zero,
    /// The predictions, at this number of points.
    Band(u64),
}

impl Contents<'_> {
    /// Returns the text of an axis whose only value is a text; `None` for all other variables.
    fn text(&self) -> Option<&str> {
        match self {
            Contents::Axis(Axis { values: Values::Text(text), .. }) => Some(text),
            _ => None,
        }
    }

    /// The number of bytes in the file.
    fn size(&self) -> u64 {
        match (self, self.text()) {
            (_, Some(text)) => text.len().next_multiple_of(4) as u64,
            (Contents::Axis(axis), None) => axis.values.count() * VALUE,
            (Contents::Zero, None) => VALUE,
            (Contents::Band(points), None) => points * VALUE,
        }
    }
}

/// The content of a header.
#[derive(Default)]
struct Header<'a> {
    names: HashSet<String>,
    dimensions: Vec<(String, u64)>,
    attributes: Vec<Attribute>,
    variables: Vec<Variable<'a>>,
}

impl<'a> Header<'a> {
    /// Adds a dimension for each axis with several values, with a variable of its name.
    fn add_dimensions(&mut self, raster: &'a Raster) {
        for axis in raster.varying() {
            let (name, index) = (self.name(&axis.name), self.dimensions.len());
            self.dimensions.push((name.clone(), axis.values.count()));
            let (attributes, values) = (of_axis(raster, axis), Contents::Axis(axis));
            self.variables.push(Variable { name, dimensions: vec![index], attributes, values });
        }
    }

    /// Adds the axes with one value as scalar coordinates, the coordinate system, and the bands.
    fn add_bands(&mut self, raster: &'a Raster, bands: &[Band]) {
        let of_band: Vec<usize> = (0..self.dimensions.len()).collect();
        let mut scalars = Vec::new();
        for axis in raster.constant() {
            let (name, mut attributes) = (self.name(&axis.name), of_axis(raster, axis));
            let (values, mut dimensions) = (Contents::Axis(axis), Vec::new());
            if let Some(text) = values.text() {
                let length = self.name(&format!("{name}_length"));
                dimensions.push(self.dimensions.len());
                self.dimensions.push((length, text.len() as u64));
                attributes.push(Attribute::text("_Encoding", "utf-8"));
            }
            scalars.push(name.clone());
            self.variables.push(Variable { name, dimensions, attributes, values });
        }
        let crs = raster.is_in_degrees().then(|| self.name("crs"));
        if let Some(name) = crs.clone() {
            let attributes = vec![
                Attribute::text("grid_mapping_name", "latitude_longitude"),
                Attribute::number("semi_major_axis", 6_378_137.0),
                Attribute::number("inverse_flattening", 298.257_223_563),
                Attribute::text("crs_wkt", WGS_84),
            ];
            self.variables.push(Variable {
                name,
                dimensions: Vec::new(),
                attributes,
                values: Contents::Zero,
            });
        }
        for band in bands {
            let long_name = Attribute::text("long_name", &band.long_name);
            let mut attributes = vec![long_name, Attribute::number("_FillValue", f64::NAN)];
            attributes.extend(crs.as_ref().map(|crs| Attribute::text("grid_mapping", crs)));
            if !scalars.is_empty() {
                attributes.push(Attribute::text("coordinates", &scalars.join(" ")));
            }
            let (name, values) = (self.name(&band.name), Contents::Band(raster.grid.points()));
            self.variables.push(Variable { name, dimensions: of_band.clone(), attributes, values });
        }
        self.attributes = vec![
            Attribute::text("Conventions", "CF-1.8"),
            Attribute::text("title", &format!("Predictions of {}", raster.targets.join(", "))),
            Attribute::text("source", concat!("sparsegp ", env!("CARGO_PKG_VERSION"))),
        ];
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
            || self.variables.iter().any(|variable| variable.values.size() > MOST_BYTES)
    }

    /// Encodes the header, for variables at these positions.
    fn encode(&self, positions: &[u64]) -> Vec<u8> {
        let wide = self.is_wide();
        let mut out = Encoder { bytes: vec![b'C', b'D', b'F', if wide { 5 } else { 2 }], wide };
        out.count(0);
        out.list(DIMENSIONS, self.dimensions.len());
        for (name, size) in &self.dimensions {
            out.name(name);
            out.count(*size);
        }
        out.attributes(&self.attributes);
        out.list(VARIABLES, self.variables.len());
        for (variable, position) in self.variables.iter().zip(positions) {
            out.name(&variable.name);
            out.count(variable.dimensions.len() as u64);
            variable.dimensions.iter().for_each(|dimension| out.count(*dimension as u64));
            out.attributes(&variable.attributes);
            out.number(if variable.values.text().is_some() { CHAR } else { DOUBLE });
            out.count(variable.values.size());
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
    header.add_dimensions(raster);
    header.add_bands(raster, bands);
    // The length of a header does not depend on the positions.
    let mut positions = vec![0; header.variables.len()];
    let mut position = header.encode(&positions).len() as u64;
    for (variable, start) in header.variables.iter().zip(&mut positions) {
        *start = position;
        position += variable.values.size();
    }
    out.write_all(&header.encode(&positions))?;
    header.variables.iter().try_for_each(|variable| write_values(out, &variable.values))?;
    Ok(positions.split_off(positions.len() - bands.len()))
}

/// Writes the values of a variable, except those of a band.
fn write_values(out: &mut impl Write, values: &Contents<'_>) -> Result<()> {
    match values {
        Contents::Axis(Axis { values: Values::Range(steps), .. }) => {
            (0..steps.count).try_for_each(|index| out.write_all(&steps.number(index).to_be_bytes()))
        }
        Contents::Axis(Axis { values: Values::Text(text), .. }) => {
            out.write_all(text.as_bytes())?;
            out.write_all(&[0; 3][..text.len().next_multiple_of(4) - text.len()])
        }
        Contents::Zero => out.write_all(&0f64.to_be_bytes()),
        Contents::Band(_) => Ok(()),
    }
}
