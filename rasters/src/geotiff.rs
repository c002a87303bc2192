//! The directory of a GeoTIFF file: TIFF 6.0, or BigTIFF beyond 4 GiB, with the tags of OGC GeoTIFF 1.1 and GDAL.
//!
//! Everything is little-endian. Bands follow each other uncompressed, row by row. The crate `tiff` borrows a file until a directory is
//! complete, and has no type of images with any number of bands.

use std::io::{Result, Write};

use super::{Band, Raster, VALUE, constant_text};
use sparsegp_tables::tables::grid::{Axis, Values};

/// The bytes of a strip, as far as a row has fewer.
const STRIP_BYTES: u64 = 1 << 16;

/// The GeoKeys of longitude and latitude: their version, and for each the key, where its value is (0: here), how many values it has and the
/// value. 1024: the coordinates are geographic. 1025: pixels are areas, which is the default. 2048: WGS 84. 2054: degrees.
const DEGREES: [u16; 20] = [1, 1, 0, 4, 1024, 0, 1, 2, 1025, 0, 1, 1, 2048, 0, 1, 4326, 2054, 0, 1, 9102];

struct Field {
    tag: u16,
    kind: u16,
    count: u64,
    bytes: Vec<u8>,
}

impl Field {
    fn short(tag: u16, values: &[u16]) -> Field {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Field { tag, kind: 3, count: values.len() as u64, bytes }
    }

    fn double(tag: u16, values: &[f64]) -> Field {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Field { tag, kind: 12, count: values.len() as u64, bytes }
    }

    fn text(tag: u16, text: &str) -> Field {
        let bytes = [text.as_bytes(), &[0]].concat();
        Field { tag, kind: 2, count: bytes.len() as u64, bytes }
    }

    /// A field of positions or sizes.
    fn long(tag: u16, values: impl Iterator<Item = u64>, big: bool) -> Field {
        let width = if big { 8 } else { 4 };
        let bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect();
        Field { tag, kind: if big { 16 } else { 4 }, count: (bytes.len() / width) as u64, bytes }
    }
}

/// The size of an image and its position.
struct Image<'a> {
    raster: &'a Raster,
    bands: &'a [Band],
    width: u64,
    height: u64,
    /// The number of rows of all strips of a band but the last.
    strip_rows: u64,
    x: &'a Axis,
    y: &'a Axis,
}

impl Image<'_> {
    fn band_bytes(&self) -> u64 {
        self.width * self.height * VALUE
    }

    /// Returns the position of the first row and the number of rows of each strip.
    fn strips(&self) -> impl Iterator<Item = (u64, u64)> {
        let rows = (0..self.height).step_by(self.strip_rows as usize);
        rows.map(|first| (first, self.strip_rows.min(self.height - first)))
    }

    /// Returns the fields in the order of their tags, for bands that begin at this position.
    fn fields(&self, start: u64, big: bool) -> Vec<Field> {
        let (bands, row_bytes) = (self.bands.len(), self.width * VALUE);
        let strips = || (0..bands as u64).flat_map(|band| self.strips().map(move |strip| (band, strip)));
        let position = |(band, (first, _))| start + band * self.band_bytes() + first * row_bytes;
        let ([x, dx], [y, dy]) = (first_and_step(self.x), first_and_step(self.y));
        let mut fields = vec![
            Field::long(256, [self.width].into_iter(), false),
            Field::long(257, [self.height].into_iter(), false),
            Field::short(258, &vec![8 * VALUE as u16; bands]), // bits of a value
            Field::short(259, &[1]),                           // no compression
            Field::short(262, &[1]),                           // black is zero
            Field::long(273, strips().map(position), big),
            Field::short(277, &[bands as u16]),
            Field::long(278, [self.strip_rows].into_iter(), false),
            Field::long(279, strips().map(|(_, (_, rows))| rows * row_bytes), big),
            Field::short(284, &[2]), // band after band
        ];
        if bands > 1 {
            fields.push(Field::short(338, &vec![0; bands - 1])); // the other bands are no colours
        }
        fields.extend([
            Field::short(339, &vec![3; bands]), // floating point
            Field::double(33550, &[dx, -dy, 0.0]),
            // The upper left corner of the first pixel, whose centre is a point of the grid.
            Field::double(33922, &[0.0, 0.0, 0.0, x - dx / 2.0, y - dy / 2.0, 0.0]),
        ]);
        // Readers make a system of unknown units of keys that name none.
        fields.extend(self.is_in_degrees().then(|| Field::short(34735, &DEGREES)));
        fields.extend([Field::text(42112, &self.metadata()), Field::text(42113, "nan")]);
        fields
    }

    /// True if x is the longitude and y the latitude.
    fn is_in_degrees(&self) -> bool {
        let index = |axis| self.raster.index_in_map(axis);
        self.raster.is_in_degrees() && (index(self.x), index(self.y)) == (Some(0), Some(1))
    }

    /// Returns the names of the bands and the columns with one value, as GDAL writes them.
    fn metadata(&self) -> String {
        let mut text = "<GDALMetadata>\n".to_owned();
        for axis in self.raster.constant() {
            let (name, value) = (escaped(&axis.name), escaped(&constant_text(axis)));
            text.push_str(&format!("  <Item name=\"{name}\">{value}</Item>\n"));
        }
        for (index, band) in self.bands.iter().enumerate() {
            let (name, words) = (escaped(&band.name), escaped(&band.long_name));
            let item = |of: &str| format!("  <Item name=\"{of}\" sample=\"{index}\"");
            text.push_str(&format!("{} role=\"description\">{name}</Item>\n", item("DESCRIPTION")));
            text.push_str(&format!("{}>{words}</Item>\n", item("long_name")));
        }
        text + "</GDALMetadata>\n"
    }

    /// Encodes the header and the directory, padded to eight bytes.
    fn encode(&self, start: u64, big: bool) -> Vec<u8> {
        let fields = self.fields(start, big);
        let long = |value: u64| value.to_le_bytes().into_iter().take(if big { 8 } else { 4 });
        let mut out = match big {
            true => vec![b'I', b'I', 43, 0, 8, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0],
            false => vec![b'I', b'I', 42, 0, 8, 0, 0, 0],
        };
        out.extend((fields.len() as u64).to_le_bytes().into_iter().take(if big { 8 } else { 2 }));
        let (entry, inline) = if big { (20, 8) } else { (12, 4) };
        // Values that an entry has no room for follow the directory and the position of the next one, which is 0.
        let mut behind = Vec::new();
        let behind_at = (out.len() + fields.len() * entry + inline).next_multiple_of(8);
        for field in fields {
            out.extend(field.tag.to_le_bytes().into_iter().chain(field.kind.to_le_bytes()));
            out.extend(long(field.count));
            if field.bytes.len() > inline {
                out.extend(long((behind_at + behind.len()) as u64));
                behind.extend(field.bytes);
                behind.resize(behind.len().next_multiple_of(8), 0);
            } else {
                out.extend(&field.bytes);
                out.resize(out.len() + inline - field.bytes.len(), 0);
            }
        }
        out.resize(behind_at, 0);
        out.extend(behind);
        out
    }
}

/// Returns the first value of an axis and the distance to the next one.
fn first_and_step(axis: &Axis) -> [f64; 2] {
    match &axis.values {
        Values::Range(steps) if steps.reversed => [steps.number(0), -steps.step],
        Values::Range(steps) => [steps.number(0), steps.step],
        Values::Text(_) => [0.0, 1.0],
    }
}

/// Escapes the special characters of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Writes the header and the directory, and returns the position of the first value of each band.
pub(super) fn begin(out: &mut impl Write, raster: &Raster, bands: &[Band]) -> Result<Vec<u64>> {
    let axes: Vec<&Axis> = raster.varying().collect();
    let [y, x] = axes[..] else { return Ok(Vec::new()) };
    let (width, height) = (x.values.count(), y.values.count());
    let strip_rows = (STRIP_BYTES / (width * VALUE)).clamp(1, height);
    let image = Image { raster, bands, width, height, strip_rows, x, y };
    let end = |big| {
        let start = image.encode(0, big).len() as u64;
        (start, start + bands.len() as u64 * image.band_bytes())
    };
    let big = end(false).1 > u64::from(u32::MAX);
    let start = end(big).0;
    out.write_all(&image.encode(start, big))?;
    Ok((0..bands.len() as u64).map(|band| start + band * image.band_bytes()).collect())
}
