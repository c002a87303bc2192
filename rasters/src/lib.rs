//! Predictions on a grid as NetCDF and GeoTIFF files: the order of the points, the bands, and their writer.
//!
//! This crate may know tables and models of tables ([`sparsegp_tables`]). Both formats begin with a short header, and values lie at known
//! positions behind it, so that predictions are written block by block.

mod geotiff;
mod netcdf;

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sparsegp::error::{Error, Result};
use sparsegp::files::{AtomicFile, write_error};
use sparsegp_tables::schema::Surface;
use sparsegp_tables::tables::grid::{Axis, Grid, Values};
use sparsegp_tables::tables::{Column, PredictedTable, PredictionWriter, RowWriter, number_text};
use sparsegp_tables::tabular::TableOutputs;

/// The size of a value in bytes: all values are 64-bit floating-point numbers, as in CSV.
const VALUE: u64 = 8;

/// A format of files that hold values on a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RasterFormat {
    /// NetCDF in its classic format, with the attributes of the CF conventions.
    NetCdf,
    /// GeoTIFF: two axes, north up.
    GeoTiff,
}

impl RasterFormat {
    /// Returns the format that the extension of a file names: `.nc`, `.tif` or `.tiff`.
    pub fn of(path: &Path) -> Option<RasterFormat> {
        let ending = path.extension()?.to_string_lossy().to_lowercase();
        match ending.as_str() {
            "nc" => Some(RasterFormat::NetCdf),
            "tif" | "tiff" => Some(RasterFormat::GeoTiff),
            _ => None,
        }
    }
}

/// The two columns that are the coordinates of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapColumns {
    /// The columns of the horizontal coordinate, which rises to the right, and of the vertical one, which rises upwards.
    pub names: [String; 2],
    /// True for longitude and latitude in degrees, false for coordinates in a plane.
    pub degrees: bool,
}

/// The layout of a file of predictions on a grid.
///
/// ```
/// use sparsegp_rasters::Raster;
/// use sparsegp_tables::tables::Grid;
///
/// let grid: Grid = "lon=-96:-95:0.5,lat=34:36:1".parse()?;
/// let raster = Raster::new("map.tif".as_ref(), &grid, None, vec!["wind".to_owned()])?;
/// // Row by row, from the north.
/// let table = raster.map_or(grid, |raster| raster.grid().clone()).block(0, 4)?;
/// assert_eq!(*table.numbers("lon")?, [-96.0, -95.5, -95.0, -96.0]);
/// assert_eq!(*table.numbers("lat")?, [36.0, 36.0, 36.0, 35.0]);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Raster {
    format: RasterFormat,
    grid: Grid,
    map: Option<MapColumns>,
    targets: Vec<String>,
}

impl Raster {
    /// Returns the layout of a file for predictions of `targets` on a grid, or `None` if the name of the file is of another format.
    ///
    /// The axes are in the opposite order of the grid, and those of the map come last: the first column of `lon=…,lat=…,month=…` changes
    /// fastest in the file.
    ///
    /// # Errors
    ///
    /// For GeoTIFF, if the grid does not have exactly two columns with several values.
    pub fn new(
        path: &Path,
        grid: &Grid,
        map: Option<MapColumns>,
        targets: Vec<String>,
    ) -> Result<Option<Raster>> {
        let Some(format) = RasterFormat::of(path) else { return Ok(None) };
        let mut grid = grid.clone();
        grid.axes.reverse();
        let [x, y] = map.as_ref().map_or([None; 2], |map| map.names.each_ref().map(Some));
        grid.axes.sort_by_key(|axis| match Some(&axis.name) {
            name if name == x => 2,
            name if name == y => 1,
            _ => 0,
        });
        let mut raster = Raster { format, grid, map, targets };
        if format == RasterFormat::GeoTiff {
            raster.turn_north_up(path)?;
        }
        Ok(Some(raster))
    }

    /// Like [`Raster::new`], for predictions of these models.
    ///
    /// # Errors
    ///
    /// As for [`Raster::new`].
    pub fn of_models(path: &Path, grid: &Grid, models: &TableOutputs) -> Result<Option<Raster>> {
        let places = models.models().find_map(|model| model.schema().places());
        let map = places.map(|places| MapColumns {
            degrees: places.surface == Surface::Sphere,
            names: places.columns.clone(),
        });
        let targets = models.models().map(|model| model.schema().target_name().to_owned()).collect();
        Raster::new(path, grid, map, targets)
    }

    /// Creates the file, with everything except the values of the bands. Rows have to come in the order of the [grid](Raster::grid).
    /// Leading columns are not written, and columns of variances become standard deviations.
    ///
    /// # Errors
    ///
    /// If the file cannot be created, or has no room for the points or columns.
    pub fn create(&self, path: &Path, columns: PredictedTable) -> Result<PredictionWriter> {
        let bands: Vec<Band> =
            columns.numbers.iter().map(|column| Band::new(column, &self.targets)).collect();
        let size = self.grid.points().checked_mul(VALUE * bands.len() as u64);
        // The values may take half of the bytes that positions can address; the rest is room for everything else.
        if size.is_none_or(|size| size > i64::MAX as u64 / 2) {
            return Err(Error::usage(format!(
                "{}: ⟨grid⟩ has more points than a file holds",
                path.display()
            )));
        }
        if self.format == RasterFormat::GeoTiff && bands.len() > usize::from(u16::MAX) {
            return Err(Error::usage(format!(
                "{}: found {} columns of predictions, expected at most {} for GeoTIFF",
                path.display(),
                bands.len(),
                u16::MAX
            ))
            .hint("write NetCDF (.nc)"));
        }
        let mut out = AtomicFile::create(path)?;
        let positions = match self.format {
            RasterFormat::NetCdf => netcdf::begin(&mut out, self, &bands),
            RasterFormat::GeoTiff => geotiff::begin(&mut out, self, &bands),
        };
        let positions = positions.map_err(|error| write_error(path, &error))?;
        let (name, format) = (path.to_owned(), self.format);
        let writer = RasterWriter { name, out, positions, bands, format, block: Vec::new() };
        Ok(PredictionWriter::of(Box::new(writer), columns))
    }

    /// Returns the grid in the order of the file.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The axes with several values, in the order of the file.
    fn varying(&self) -> impl Iterator<Item = &Axis> {
        self.grid.axes.iter().filter(|axis| axis.values.count() > 1)
    }

    /// The axes with one value.
    fn constant(&self) -> impl Iterator<Item = &Axis> {
        self.grid.axes.iter().filter(|axis| axis.values.count() == 1)
    }

    /// The index of an axis among the columns of the map: 0 for x, 1 for y.
    fn index_in_map(&self, axis: &Axis) -> Option<usize> {
        self.map.as_ref()?.names.iter().position(|name| *name == axis.name)
    }

    /// True if the columns of the map are longitude and latitude.
    fn is_in_degrees(&self) -> bool {
        self.map.as_ref().is_some_and(|map| map.degrees)
    }

    /// Orders the points from the left to the right and from the top to the bottom.
    fn turn_north_up(&mut self, path: &Path) -> Result<()> {
        let name = path.display();
        let mut varying: Vec<&mut Axis> =
            self.grid.axes.iter_mut().filter(|axis| axis.values.count() > 1).collect();
        let [y, x] = &mut varying[..] else {
            let names: Vec<&str> = varying.iter().rev().map(|axis| axis.name.as_str()).collect();
            let found = if names.is_empty() { "no column".to_owned() } else { names.join(", ") };
            return Err(Error::usage(format!(
                "{name}: found {found} with several values in ⟨grid⟩, expected two columns for GeoTIFF"
            ))
            .hint("write NetCDF (.nc), or give two columns a range and every other column one value"));
        };
        for (axis, sign) in [(x, 1.0), (y, -1.0)] {
            if axis.values.count() > u64::from(u32::MAX) {
                return Err(Error::usage(format!(
                    "{name}: found {} values of {}, expected at most {} for GeoTIFF",
                    axis.values.count(),
                    axis.name,
                    u32::MAX
                )));
            }
            if let Values::Range(steps) = &mut axis.values {
                steps.reversed = steps.step * sign < 0.0;
            }
        }
        Ok(())
    }
}

/// Returns the value of an axis with a single value, as text.
fn constant_text(axis: &Axis) -> String {
    match &axis.values {
        Values::Range(steps) => number_text(steps.number(0)).into_owned(),
        Values::Text(text) => text.clone(),
    }
}

/// A column of predictions as a variable on the grid.
#[derive(Debug)]
struct Band {
    name: String,
    long_name: String,
    /// True if the column has variances, of which the band has the square roots.
    is_root: bool,
}

impl Band {
    fn new(column: &str, targets: &[String]) -> Band {
        let is_root = ["variance", "latent_variance"].iter().any(|start| column.starts_with(start));
        let name = if is_root { column.replacen("variance", "standard_deviation", 1) } else { column.into() };
        Band { long_name: long_name(&name, targets), name, is_root }
    }
}

/// Describes a band in words.
fn long_name(name: &str, targets: &[String]) -> String {
    // With several targets, names end in the name of a target.
    let parts = targets.iter().filter_map(|target| match targets {
        [_] => Some((name, target)),
        _ => Some((name.strip_suffix(target.as_str())?.strip_suffix('_')?, target)),
    });
    let Some((name, target)) = parts.min_by_key(|(name, _)| name.len()) else { return name.into() };
    let quantile = name.strip_prefix('q').filter(|p| p.parse::<f64>().is_ok());
    match (quantile, name.strip_prefix("probability_"), name.strip_prefix("covariance_")) {
        (Some(p), ..) => format!("{p} quantile of {target}"),
        (_, Some(level), _) if !level.starts_with("of_") => format!("probability that {target} is {level}"),
        (_, _, Some(other)) => format!("covariance of the latent functions of {other} and {target}"),
        _ => format!("{} of {target}", name.replace('_', " ")),
    }
}

/// Writes predictions in the order of the [grid of a raster](Raster::grid) to the places of their bands, block by block.
#[derive(Debug)]
struct RasterWriter {
    name: PathBuf,
    out: AtomicFile,
    /// The position in the file of the next value of each band.
    positions: Vec<u64>,
    bands: Vec<Band>,
    format: RasterFormat,
    block: Vec<u8>,
}

impl RowWriter for RasterWriter {
    fn write_rows(&mut self, _leading: &[Column], numbers: &[f64], rows: usize) -> Result<()> {
        let width = self.bands.len();
        for (index, (band, position)) in self.bands.iter().zip(&mut self.positions).enumerate() {
            self.block.clear();
            for row in numbers.chunks_exact(width) {
                let value = if band.is_root { row[index].sqrt() } else { row[index] };
                self.block.extend(match self.format {
                    RasterFormat::NetCdf => value.to_be_bytes(),
                    RasterFormat::GeoTiff => value.to_le_bytes(),
                });
            }
            let written =
                self.out.seek(SeekFrom::Start(*position)).and_then(|_| self.out.write_all(&self.block));
            written.map_err(|error| write_error(&self.name, &error))?;
            *position += rows as u64 * VALUE;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<AtomicFile> {
        Ok(self.out)
    }
}
