//! Places from the command line: averages over cells, training from disk, grids compared with files and as NetCDF and GeoTIFF.

use sparsegp_testkit::program::{Work, csv_text};

/// Returns a table of longitude, latitude, elevation, kind of ground and temperature for 300 places.
fn stations() -> String {
    let part = |i: usize, k: f64| ((i + 1) as f64 * k).fract();
    csv_text("lon,lat,height,ground,y", 0..300, |i| {
        let (lon, lat) = (100.0 + 30.0 * part(i, 0.618_034), 40.0 + 20.0 * part(i, 0.754_878));
        let (height, ground) = (1000.0 * part(i, 0.569_840), ["rock", "soil"][i % 2]);
        let y = 40.0 - 0.5 * lat + 2.0 * (lon / 4.0).sin() - height / 150.0 + part(i, 0.324_7);
        format!("{lon:.4},{lat:.4},{height:.1},{ground},{y:.3}")
    })
}

fn work() -> Work {
    Work::with("stations.csv", &stations())
}

const FIT: &str = "fit stations.csv --target y --places lon,lat --quiet --inducing 30";

#[test]
fn training_from_disk_finds_the_same_columns_and_scales() {
    let work = work();
    // A coordinate may hold rows out, too.
    let split = format!("{FIT} --auto none --epochs 2 --split-by lon --test-fraction 0.2");
    assert!(work.run(&split).ok().stdout().contains("places"));
    // A row without a place, which an input marks.
    work.write("stations.csv", &(stations() + ",50,100,rock,12\n"));
    let fit = format!("{FIT} --auto none --epochs 2 --objective elbo --batch-size 100");
    work.run(&format!("{fit} --model-out memory")).ok();
    work.run(&format!("{fit} --shuffle-buffer 100 --model-out disk")).ok();
    let described = |model: &str| {
        let text = work.run(&format!("inspect {model}")).ok().stdout();
        text.split("features").nth(1).expect("features").to_owned()
    };
    assert_eq!(described("memory"), described("disk"));
    let lengths = |model: &str| {
        let text = work.run(&format!("inspect {model}")).ok().stdout();
        let line = text.lines().find(|line| line.starts_with("places")).expect("places").to_owned();
        line.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).next_back().expect("a number")
    };
    let (memory, disk) = (lengths("memory"), lengths("disk"));
    assert!((memory / disk).ln().abs() < 0.5, "{memory} {disk}");
}

#[test]
fn predictions_on_a_grid_equal_those_for_a_file_of_its_points() {
    let work = work();
    work.run(&format!("{FIT} --auto none --epochs 10 --model-out m")).ok();
    let run = work.run("predict m --grid lon=105:115:5,lat=42:50:4,height=300,ground=soil --out grid.csv --quantiles 0.1").ok();
    assert!(
        run.stderr().contains("grid: lon 3 × lat 3 × height 1 × ground 1 = 9 points"),
        "{}",
        run.stderr()
    );
    let mut points = "lon,lat,height,ground\n".to_owned();
    for lon in [105, 110, 115] {
        for lat in [42, 46, 50] {
            points.push_str(&format!("{lon},{lat},300,soil\n"));
        }
    }
    work.write("points.csv", &points);
    work.run("predict m points.csv --keep lon,lat,height,ground --out file.csv --quantiles 0.1").ok();
    assert_eq!(work.read("grid.csv"), work.read("file.csv"));
    // Predictions in several blocks equal those of single rows.
    let count = work
        .run("predict m --grid lon=101:129:0.2,lat=41:59:0.2,height=0,ground=rock --out - ")
        .ok()
        .stdout();
    assert_eq!(count.lines().count(), 1 + 141 * 91);
}

#[test]
fn averages_over_cells_have_the_columns_of_the_grid_and_end_at_the_poles() {
    let work = work();
    work.run(&format!("{FIT} --auto none --epochs 10 --model-out m")).ok();
    let grid = "predict m --grid lon=105:115:5,lat=42:50:4,height=300,ground=soil";
    let run = work.run(&format!("{grid} --average 3 --out cells.csv")).ok();
    assert!(run.stderr().contains("= 9 points, averaged over cells"), "{}", run.stderr());
    let cells = work.csv("cells.csv");
    assert_eq!(
        (cells.names.join(",").as_str(), cells.rows.len()),
        ("lon,lat,height,ground,mean,variance", 9)
    );
    // Cells beyond a pole and the date line are on the sphere: its first and last meridians are the same.
    let globe = "predict m --grid lon=-180:180:60,lat=-90:90:30,height=300,ground=soil --average 2 --out -";
    let globe = work.run(globe).csv();
    let [lon, lat, mean, variance] = ["lon", "lat", "mean", "variance"].map(|name| globe.numbers(name));
    for (first, last) in (0..7).zip(42..) {
        assert_eq!((lon[first], lon[last], lat[first]), (-180.0, 180.0, lat[last]));
        assert!((mean[first] - mean[last]).abs() < 1e-9 && variance[first] > 0.0, "{globe:?}");
    }
    let beyond = work.run(&format!("{} --average 2 --out g.csv", grid.replace("42:50:4", "86:94:4")));
    assert!(beyond.code() == 3 && beyond.stderr().contains("found 94, expected a latitude"));
    work.refuses(2, "predict m stations.csv --out g.csv", &[("--average 3", &["--grid"])]);
    let cases: [(&str, &[&str]); 2] =
        [("--average 0", &["--average"]), ("--average 3 --latent", &["--average", "--latent"])];
    work.refuses(2, &format!("{grid} --out g.csv"), &cases);
}

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
    work.run(&format!("{FIT} --auto none --epochs 5 --model-out m")).ok();
    // More points than a block of predictions has.
    let (across, up) = (121, 81);
    let grid = "predict m --grid lon=100:130:0.25,lat=40:60:0.25,height=300,ground=soil";
    for (options, count) in [("--latent --quantiles 0.1,0.9", 6), ("--average 2", 2)] {
        for name in ["g.csv", "g.nc", "g.tif"] {
            let run = work.run(&format!("{grid} {options} --out {name}")).ok();
            assert!(
                run.stderr().contains("grid: lon 121 × lat 81 × height 1 × ground 1"),
                "{}",
                run.stderr()
            );
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
