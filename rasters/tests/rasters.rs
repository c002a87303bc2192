//! NetCDF and GeoTIFF files of predictions on a grid, read back by the specifications of the formats.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use sparsegp_rasters::{MapColumns, Raster};
use sparsegp_tables::tables::{PredictedRows, PredictedTable};

/// A cursor over a NetCDF header.
struct Bytes<'a> {
    rest: &'a [u8],
    wide: bool,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        taken
    }

    fn number(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn long(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    fn count(&mut self) -> usize {
        (if self.wide { self.long() } else { self.number().into() }) as usize
    }

    fn padded(&mut self, count: usize) -> &'a [u8] {
        &self.take(count.next_multiple_of(4))[..count]
    }

    fn name(&mut self) -> String {
        let length = self.count();
        String::from_utf8(self.padded(length).to_vec()).unwrap()
    }

    /// The length of a list with this tag.
    fn list(&mut self, tag: u32) -> usize {
        let (found, length) = (self.number(), self.count());
        assert!(found == tag || (found == 0 && length == 0), "{found}");
        length
    }

    fn attributes(&mut self) -> BTreeMap<String, String> {
        let length = self.list(12);
        let one = |_| {
            let (name, kind, count) = (self.name(), self.number(), self.count());
            let value = match kind {
                2 => String::from_utf8(self.padded(count).to_vec()).unwrap(),
                6 => f64::from_be_bytes(self.padded(8 * count).try_into().unwrap()).to_string(),
                _ => panic!("{kind}"),
            };
            (name, value)
        };
        (0..length).map(one).collect()
    }
}

#[derive(Debug, Default)]
struct NetCdf {
    version: u8,
    dimensions: Vec<(String, usize)>,
    attributes: BTreeMap<String, String>,
    variables: HashMap<String, Variable>,
}

#[derive(Debug)]
struct Variable {
    dimensions: Vec<String>,
    attributes: BTreeMap<String, String>,
    size: usize,
    begin: usize,
}

impl NetCdf {
    fn of(bytes: &[u8]) -> NetCdf {
        assert_eq!(&bytes[..3], b"CDF");
        let mut header = Bytes { rest: &bytes[4..], wide: bytes[3] == 5 };
        assert_eq!(header.count(), 0, "no records");
        let dimensions: Vec<_> = (0..header.list(10)).map(|_| (header.name(), header.count())).collect();
        let attributes = header.attributes();
        let mut variables = HashMap::new();
        for _ in 0..header.list(11) {
            let (name, rank) = (header.name(), header.count());
            let of = (0..rank).map(|_| dimensions[header.count()].0.clone()).collect();
            let (attributes, _) = (header.attributes(), header.number());
            let (size, begin) = (header.count(), header.long() as usize);
            assert!(begin % 4 == 0 && begin >= bytes.len() - header.rest.len());
            variables.insert(name, Variable { dimensions: of, attributes, size, begin });
        }
        NetCdf { version: bytes[3], dimensions, attributes, variables }
    }

    fn values(&self, bytes: &[u8], name: &str) -> Vec<f64> {
        let Variable { size, begin, .. } = self.variables[name];
        let numbers = bytes[begin..begin + size].chunks_exact(8);
        numbers.map(|number| f64::from_be_bytes(number.try_into().unwrap())).collect()
    }
}

/// The fields of a TIFF directory: type, number of values, and their bytes.
fn tiff_fields(bytes: &[u8]) -> BTreeMap<u16, (u16, u64, Vec<u8>)> {
    let big = bytes[2] == 43;
    assert_eq!((&bytes[..2], big || bytes[2] == 42), (&b"II"[..], true));
    let number = |at: usize, width: usize| {
        let mut eight = [0; 8];
        eight[..width].copy_from_slice(&bytes[at..at + width]);
        u64::from_le_bytes(eight)
    };
    let (long, counted, entry) = if big { (8, 8, 20) } else { (4, 2, 12) };
    let directory = number(if big { 8 } else { 4 }, long) as usize;
    let fields = number(directory, counted) as usize;
    let field = |index: usize| {
        let at = directory + counted + index * entry;
        let (tag, kind, count) = (number(at, 2) as u16, number(at + 2, 2) as u16, number(at + 4, long));
        let size = count as usize * [0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8][kind as usize];
        let value = at + 4 + long;
        let value = if size > long { number(value, long) as usize } else { value };
        (tag, (kind, count, bytes[value..value + size].to_vec()))
    };
    let tags: Vec<u16> = (0..fields).map(|index| field(index).0).collect();
    assert!(tags.is_sorted_by(|a, b| a < b), "{tags:?}");
    (0..fields).map(field).collect()
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|number| f64::from_le_bytes(number.try_into().unwrap())).collect()
}

fn integers(field: &(u16, u64, Vec<u8>)) -> Vec<u64> {
    let width = field.2.len() / field.1 as usize;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    field.2.chunks_exact(width).map(number).collect()
}

fn places(degrees: bool) -> Option<MapColumns> {
    Some(MapColumns { names: ["lon".into(), "lat".into()], degrees })
}

fn raster(name: &str, grid: &str, map: Option<MapColumns>) -> Raster {
    let targets = vec!["wind".to_owned()];
    Raster::new(Path::new(name), &grid.parse().unwrap(), map, targets).unwrap().unwrap()
}

fn columns(names: &[&str]) -> PredictedTable {
    let numbers = names.iter().map(|name| (*name).to_owned()).collect();
    PredictedTable { numbers, ..PredictedTable::default() }
}

/// The numbers of a point: a mean and a variance that only the point determines.
fn numbers(lon: f64, lat: f64, month: f64) -> [f64; 2] {
    [lon + 1000.0 * lat + 1e6 * month, (lon + lat / 7.0 + month).powi(2)]
}

/// Writes a file in blocks of seven points, and returns its bytes.
fn written(name: &str, grid: &str, map: Option<MapColumns>) -> Vec<u8> {
    let (folder, raster) = (tempfile::tempdir().unwrap(), raster(name, grid, map));
    let path = folder.path().join(name);
    let mut writer = raster.create(&path, columns(&["mean", "variance"])).unwrap();
    for block in raster.grid().clone().blocks(7) {
        let block = block.unwrap();
        let column =
            |name: &str| block.numbers(name).map_or(vec![0.0; block.rows()], |numbers| numbers.into_owned());
        let (lon, lat, month) = (column("lon"), column("lat"), column("month"));
        let numbers = (0..block.rows()).flat_map(|row| numbers(lon[row], lat[row], month[row])).collect();
        writer.write_rows(&PredictedRows { leading: Vec::new(), numbers, rows: block.rows() }).unwrap();
    }
    assert!(!path.exists());
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn a_netcdf_file_has_a_dimension_for_each_range_and_scalars_for_constants() {
    let grid = "lon=-96:-91:1,lat=37:34:-1,month=1:3:1,the height=7.5,ground=über";
    let bytes = written("m.nc", grid, places(true));
    let file = NetCdf::of(&bytes);
    assert_eq!(file.version, 2);
    let sizes = [("month", 3), ("lat", 4), ("lon", 6), ("ground_length", 5)];
    assert_eq!(file.dimensions, sizes.map(|(name, size)| (name.to_owned(), size)));
    assert_eq!(file.attributes["Conventions"], "CF-1.8");
    assert_eq!(file.attributes["title"], "Predictions of wind");
    assert_eq!(file.values(&bytes, "lon"), [-96.0, -95.0, -94.0, -93.0, -92.0, -91.0]);
    assert_eq!(file.values(&bytes, "lat"), [37.0, 36.0, 35.0, 34.0]);
    assert_eq!(file.values(&bytes, "month"), [1.0, 2.0, 3.0]);
    assert_eq!(file.values(&bytes, "the_height"), [7.5]);
    let ground = &file.variables["ground"];
    assert_eq!(&bytes[ground.begin..ground.begin + 5], "über".as_bytes());
    let attribute = |variable: &str, name: &str| file.variables[variable].attributes[name].clone();
    assert_eq!(
        ["units", "standard_name", "axis"].map(|name| attribute("lon", name)),
        ["degrees_east", "longitude", "X"]
    );
    assert_eq!(
        ["units", "standard_name", "axis"].map(|name| attribute("lat", name)),
        ["degrees_north", "latitude", "Y"]
    );
    assert_eq!(attribute("the_height", "long_name"), "the height");
    assert_eq!(attribute("crs", "grid_mapping_name"), "latitude_longitude");
    assert!(attribute("crs", "crs_wkt").ends_with("AUTHORITY[\"EPSG\",\"4326\"]]"));
    assert!(!file.variables["month"].attributes.contains_key("axis"));
    for (name, words) in [("mean", "mean of wind"), ("standard_deviation", "standard deviation of wind")] {
        assert_eq!(file.variables[name].dimensions, ["month", "lat", "lon"]);
        assert_eq!(attribute(name, "long_name"), words);
        assert_eq!(attribute(name, "_FillValue"), "NaN");
        assert_eq!(attribute(name, "grid_mapping"), "crs");
        assert_eq!(attribute(name, "coordinates"), "ground the_height");
    }
    let (means, deviations) = (file.values(&bytes, "mean"), file.values(&bytes, "standard_deviation"));
    assert_eq!((means.len(), deviations.len()), (72, 72));
    for point in 0..72 {
        let (lon, lat) = ((point % 6) as f64 - 96.0, 37.0 - (point / 6 % 4) as f64);
        let [mean, variance] = numbers(lon, lat, (point / 24 + 1) as f64);
        assert_eq!([means[point], deviations[point]], [mean, variance.sqrt()]);
    }
    assert_eq!(bytes.len(), file.variables["standard_deviation"].begin + 72 * 8);
}

#[test]
fn a_geotiff_file_is_north_up_with_its_pixels_around_the_points() {
    for grid in ["lon=-96:-91:1,lat=34:37:1,month=7", "month=7,lat=37:34:-1,lon=-91:-96:-1"] {
        let bytes = written("m.TIF", grid, places(true));
        let fields = tiff_fields(&bytes);
        let one = |tag: u16| integers(&fields[&tag]);
        assert_eq!((one(256), one(257), one(277), one(284)), (vec![6], vec![4], vec![2], vec![2]));
        assert_eq!((one(258), one(339), one(259)), (vec![64, 64], vec![3, 3], vec![1]));
        assert_eq!(doubles(&fields[&33550].2), [1.0, 1.0, 0.0]);
        assert_eq!(doubles(&fields[&33922].2), [0.0, 0.0, 0.0, -96.5, 37.5, 0.0]);
        assert_eq!(one(34735)[..8], [1, 1, 0, 4, 1024, 0, 1, 2]);
        assert_eq!(one(34735)[12..16], [2048, 0, 1, 4326]);
        assert_eq!(fields[&42113].2, b"nan\0");
        let metadata = String::from_utf8(fields[&42112].2.clone()).unwrap();
        assert!(metadata.contains("<Item name=\"month\">7</Item>"), "{metadata}");
        for band in ["sample=\"0\" role=\"description\">mean<", "sample=\"1\" role=\"description\">standard_"]
        {
            assert!(metadata.contains(band), "{metadata}");
        }
        let strips: Vec<u8> = one(273)
            .into_iter()
            .zip(one(279))
            .flat_map(|(at, size)| bytes[at as usize..][..size as usize].to_vec())
            .collect();
        let values = doubles(&strips);
        assert_eq!(values.len(), 48);
        for pixel in 0..24 {
            let (lon, lat) = ((pixel % 6) as f64 - 96.0, 37.0 - (pixel / 6) as f64);
            let [mean, variance] = numbers(lon, lat, 7.0);
            assert_eq!([values[pixel], values[pixel + 24]], [mean, variance.sqrt()]);
        }
    }
}

#[test]
fn files_beyond_four_gibibytes_have_wide_positions() {
    let folder = tempfile::tempdir().unwrap();
    let grid = "lon=0:40000:1,lat=0:40000:1";
    let begun = |name: &str| {
        let path = folder.path().join(name);
        let raster = raster(name, grid, places(false));
        raster.create(&path, columns(&["mean", "q0.1"])).unwrap().finish().unwrap();
        std::fs::read(path).unwrap()
    };
    let band = 40_001 * 40_001 * 8;
    let netcdf = NetCdf::of(&begun("m.nc"));
    assert_eq!(netcdf.version, 5);
    assert_eq!(netcdf.variables["mean"].size, band);
    assert_eq!(netcdf.variables["q0.1"].begin, netcdf.variables["mean"].begin + band);
    let tiff = begun("m.tif");
    assert_eq!(tiff[2], 43);
    let strips = integers(&tiff_fields(&tiff)[&273]);
    assert_eq!(strips.len(), 2 * 40_001);
    assert_eq!(strips[40_001] - strips[0], band as u64);
    assert_eq!(strips[0], tiff.len() as u64);
}
