//! Places from the command line: averages over cells, training from disk, grids compared with files and as NetCDF and GeoTIFF.

use sparsegp_testkit::program::{Csv, Work, csv_text};

/// A table of longitude, latitude, elevation, kind of ground and temperature for 300 places.
fn work() -> Work {
    let part = |i: usize, k: f64| ((i + 1) as f64 * k).fract();
    let text = csv_text("lon,lat,height,ground,y", 0..300, |i| {
        let (lon, lat) = (100.0 + 30.0 * part(i, 0.618_034), 40.0 + 20.0 * part(i, 0.754_878));
        let (height, ground) = (1000.0 * part(i, 0.569_840), ["rock", "soil"][i % 2]);
        let y = 40.0 - 0.5 * lat + 2.0 * (lon / 4.0).sin() - height / 150.0 + part(i, 0.324_7);
        format!("{lon:.4},{lat:.4},{height:.1},{ground},{y:.3}")
    });
    Work::with("stations.csv", text)
}

const FIT: &str = "fit stations.csv --target y --places lon,lat --quiet --inducing 30 --auto none";
const GRID: &str = "predict m --grid lon=105:115:5,lat=42:50:4,height=300,ground=soil";

fn modelled() -> Work {
    let work = work();
    work.run(&format!("{FIT} --epochs 10 --model-out m")).ok();
    work
}

#[test]
fn training_from_disk_finds_the_same_columns_and_scales() {
    let work = work();
    // A coordinate may hold rows out, too.
    work.prints(&format!("{FIT} --epochs 2 --split-by lon --test-fraction 0.2"), &["places"]);
    // A row without a place, which an input marks.
    work.write("stations.csv", work.read("stations.csv") + ",50,100,rock,12\n");
    let fit = format!("{FIT} --epochs 2 --objective elbo --batch-size 100 --model-out m");
    let [(memory, length), (disk, other)] = ["", "--shuffle-buffer 100"].map(|how| {
        work.run(&format!("{fit} {how}")).ok();
        let text = work.text("inspect m");
        let line = text.lines().find(|line| line.starts_with("places")).expect("places");
        let length = line.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).next_back();
        (text.split("features").nth(1).expect("features").to_owned(), length.expect("a number"))
    });
    assert_eq!(memory, disk);
    assert!((length / other).ln().abs() < 0.5, "{length} {other}");
}

#[test]
fn predictions_on_a_grid_equal_those_for_a_file_of_its_points() {
    let work = modelled();
    let words = ["grid: lon 3 × lat 3 × height 1 × ground 1 = 9 points"];
    let grid = work.tells(&format!("{GRID} --out - --quantiles 0.1"), &words);
    let point = |i: usize| format!("{},{},300,soil", 105 + 5 * (i / 3), 42 + 4 * (i % 3));
    work.write("points.csv", csv_text("lon,lat,height,ground", 0..9, point));
    let file = "predict m points.csv --keep lon,lat,height,ground --out - --quantiles 0.1";
    assert_eq!(grid.stdout(), work.text(file));
    // Predictions in several blocks equal those of single rows.
    let count = work.text("predict m --grid lon=101:129:0.2,lat=41:59:0.2,height=0,ground=rock --out -");
    assert_eq!(count.lines().count(), 1 + 141 * 91);
}

#[test]
fn averages_over_cells_have_the_columns_of_the_grid_and_end_at_the_poles() {
    let work = modelled();
    let cells =
        work.tells(&format!("{GRID} --average 3 --out -"), &["= 9 points, averaged over cells"]).csv();
    let names = "lon,lat,height,ground,mean,variance";
    assert_eq!((cells.names.join(",").as_str(), cells.rows.len()), (names, 9));
    // Cells beyond a pole and the date line are on the sphere: its first and last meridians are the same.
    let globe = "predict m --grid lon=-180:180:60,lat=-90:90:30,height=300,ground=soil --average 2 --out -";
    let globe = work.run(globe).csv();
    let [lon, lat, mean, variance] = ["lon", "lat", "mean", "variance"].map(|name| globe.numbers(name));
    for (first, last) in (0..7).zip(42..) {
        assert_eq!((lon[first], lon[last], lat[first]), (-180.0, 180.0, lat[last]));
        assert!((mean[first] - mean[last]).abs() < 1e-9 && variance[first] > 0.0, "{globe:?}");
    }
    let beyond = work.run(&format!("{} --average 2 --out g.csv", GRID.replace("42:50:4", "86:94:4")));
    assert!(beyond.code() == 3 && beyond.stderr().contains("found 94, expected a latitude"));
    work.refuses(2, "predict m stations.csv --out g.csv", &[("--average 3", &["--grid"])]);
    let cases: [(&str, &[&str]); 2] =
        [("--average 0", &["--average"]), ("--average 3 --latent", &["--average", "--latent"])];
    work.refuses(2, &format!("{GRID} --out g.csv"), &cases);
}

/// A map of measurements with known errors is of the surface: it needs no errors, and its variance has no noise.
#[test]
fn a_map_of_measurements_with_errors_is_of_the_surface() {
    let work = work();
    let with = |line: (usize, &str)| match line.0 {
        0 => format!("{},error", line.1),
        row => format!("{},{}", line.1, if row % 2 == 0 { 0.1 } else { 2.0 }),
    };
    let text = work.read("stations.csv");
    let lines: Vec<String> = text.lines().enumerate().map(with).collect();
    work.write("stations.csv", lines.join("\n") + "\n");
    let errors = "--noise-std error --noise-std-only --epochs 10 --model-out m";
    work.run(&format!("{FIT} {errors}")).ok();
    let map = work.run(&format!("{GRID} --latent --out -")).csv();
    // The least noise is 1e-5 standard deviations of the target, about 4.
    for (variance, latent) in map.numbers("variance").into_iter().zip(map.numbers("latent_variance")) {
        assert!((0.0..4e-9).contains(&(variance - latent)), "{variance} {latent}");
    }
    let point = |i: usize| format!("{},{},300,soil,2", 105 + 5 * (i / 3), 42 + 4 * (i % 3));
    work.write("points.csv", csv_text("lon,lat,height,ground,error", 0..9, point));
    let again = work.run("predict m points.csv --out -").csv();
    assert_eq!(again.numbers("mean"), map.numbers("mean"));
    for (measured, own) in again.numbers("variance").into_iter().zip(map.numbers("variance")) {
        assert!((measured - own - 4.0).abs() < 4e-9, "{measured} {own}");
    }
    // Averages over cells of 10 m are those of points.
    let cells = GRID.replace("105:115:5,lat=42:50:4", "105:105.0002:0.0001,lat=42:42.0002:0.0001");
    let cells = work.run(&format!("{cells} --average 2 --out -")).csv();
    assert!((cells.numbers("mean")[0] - map.numbers("mean")[0]).abs() < 1e-3, "{cells:?}");
    let ratio = cells.numbers("variance")[0] / map.numbers("variance")[0];
    assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
}

/// The last columns of a CSV file, column by column, with square roots of variances.
fn columns(csv: &Csv, count: usize) -> Vec<Vec<f64>> {
    let column = |name: &String| match name.contains("variance") {
        true => csv.numbers(name).into_iter().map(f64::sqrt).collect(),
        false => csv.numbers(name),
    };
    csv.names[csv.names.len() - count..].iter().map(column).collect()
}

/// The last values of a file of bands.
fn bands(bytes: &[u8], number: fn([u8; 8]) -> f64, count: usize, points: usize) -> Vec<Vec<f64>> {
    let values = bytes[bytes.len() - count * points * 8..].chunks_exact(8);
    let values: Vec<f64> = values.map(|value| number(value.try_into().expect("eight"))).collect();
    values.chunks_exact(points).map(<[f64]>::to_vec).collect()
}

#[test]
fn netcdf_and_geotiff_have_the_numbers_of_csv() {
    let work = modelled();
    // More points than a block of predictions has.
    let (across, up) = (121, 81);
    let grid = "predict m --grid lon=100:130:0.25,lat=40:60:0.25,height=300,ground=soil";
    for (options, count) in [("--latent --quantiles 0.1,0.9", 6), ("--average 2", 2)] {
        for name in ["g.csv", "g.nc", "g.tif"] {
            let words = ["grid: lon 121 × lat 81 × height 1 × ground 1"];
            work.tells(&format!("{grid} {options} --out {name}"), &words);
        }
        let netcdf = bands(&work.bytes("g.nc"), f64::from_be_bytes, count, across * up);
        let tiff = bands(&work.bytes("g.tif"), f64::from_le_bytes, count, across * up);
        for (band, values) in columns(&work.csv("g.csv"), count).into_iter().enumerate() {
            let by_row = |row: usize| (0..across).map(move |column| column * up + row);
            let upwards: Vec<f64> = (0..up).flat_map(by_row).map(|point| values[point]).collect();
            let downwards: Vec<f64> = (0..up).rev().flat_map(by_row).map(|point| values[point]).collect();
            // The order of the points in a cell is that of the axes, so sums over cells are rounded differently.
            let tolerance = if options.contains("average") { 1e-9 } else { 0.0 };
            for (found, expected) in [(&netcdf[band], upwards), (&tiff[band], downwards)] {
                let close = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * b.abs();
                assert!(
                    found.len() == expected.len() && found.iter().zip(&expected).all(close),
                    "{options}, {band}"
                );
            }
        }
    }
}
