//! Grids as NetCDF and GeoTIFF from the command line: their numbers against CSV.

use sparsegp_testkit::program::Work;

/// Longitude, latitude, height, kind of ground and temperature of 200 places.
fn work() -> Work {
    let part = |i: usize, k: f64| ((i + 1) as f64 * k).fract();
    let row = |i: usize| {
        let (lon, lat) = (100.0 + 30.0 * part(i, 0.618_034), 40.0 + 20.0 * part(i, 0.754_878));
        let y = 40.0 - 0.5 * lat + 2.0 * (lon / 4.0).sin() + part(i, 0.324_7);
        let kind = ["mild", "cold"][usize::from(y < 15.0)];
        format!("{lon:.4},{lat:.4},{},{y:.3},{kind}\n", ["rock", "soil"][i % 2])
    };
    let rows: String = (0..200).map(row).collect();
    Work::with("stations.csv", &("lon,lat,ground,y,kind\n".to_owned() + &rows))
}

const FIT: &str = "fit stations.csv --places lon,lat --quiet --auto none --inducing 20 --epochs 5";

/// The last columns of a CSV file, column by column, with square roots of variances.
fn columns(work: &Work, name: &str, count: usize) -> Vec<Vec<f64>> {
    let csv = work.csv(name);
    let column = |name: &String| match name.contains("variance") {
        true => csv.numbers(name).into_iter().map(f64::sqrt).collect(),
        false => csv.numbers(name),
    };
    csv.names[csv.names.len() - count..].iter().map(column).collect()
}

/// The last values of a file of bands.
fn bands(work: &Work, name: &str, number: fn([u8; 8]) -> f64, count: usize, points: usize) -> Vec<Vec<f64>> {
    let bytes = std::fs::read(work.path(name)).expect("a file");
    let values = &bytes[bytes.len() - count * points * 8..];
    let values: Vec<f64> =
        values.chunks_exact(8).map(|value| number(value.try_into().expect("eight"))).collect();
    values.chunks_exact(points).map(<[f64]>::to_vec).collect()
}

#[test]
fn netcdf_and_geotiff_have_the_numbers_of_csv() {
    let work = work();
    work.run(&format!("{FIT} --target y --exclude kind --model-out m")).ok();
    // More points than a block of predictions has.
    let (across, up) = (121, 81);
    let grid = "predict m --grid lon=100:130:0.25,lat=40:60:0.25,ground=soil";
    for (options, count) in [("--latent --quantiles 0.1,0.9", 6), ("--average 2", 2)] {
        for name in ["g.csv", "g.nc", "g.tif"] {
            let run = work.run(&format!("{grid} {options} --out {name}")).ok();
            assert!(run.stderr().contains("grid: lon 121 × lat 81 × ground 1"), "{}", run.stderr());
        }
        let points = across * up;
        let netcdf = bands(&work, "g.nc", f64::from_be_bytes, count, points);
        let tiff = bands(&work, "g.tif", f64::from_le_bytes, count, points);
        for (band, values) in columns(&work, "g.csv", count).into_iter().enumerate() {
            let by_row = |row: usize| (0..across).map(move |column| column * up + row);
            let upwards: Vec<f64> = (0..up).flat_map(by_row).map(|point| values[point]).collect();
            let downwards: Vec<f64> = (0..up).rev().flat_map(by_row).map(|point| values[point]).collect();
            // The order of the points in a cell is that of the axes, so sums over cells are rounded differently.
            let tolerance = if options.contains("average") { 1e-9 } else { 0.0 };
            let agree = |found: &[f64], expected: &[f64]| {
                found.len() == expected.len()
                    && found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance * b.abs())
            };
            assert!(agree(&netcdf[band], &upwards), "{options}, band {band} of NetCDF");
            assert!(agree(&tiff[band], &downwards), "{options}, band {band} of GeoTIFF");
        }
    }
}
