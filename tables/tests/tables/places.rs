//! Places: chords against great circles, fits against hand-made coordinates, the date line, model files, missing cells, refusals.

use super::common::*;

/// Returns the longitude, latitude, month and temperature of places all over the sphere.
fn rows(n: usize) -> Vec<[f64; 4]> {
    let part = |i: usize, k: f64| ((i + 1) as f64 * k).fract();
    let row = |i: usize| {
        let (lon, lat) =
            (360.0 * part(i, 0.618_034) - 180.0, (2.0 * part(i, 0.754_878) - 1.0).asin().to_degrees());
        let month = 12.0 * part(i, 0.569_840);
        let y = 20.0 * lat.to_radians().cos()
            + 3.0 * (lon.to_radians() + 1.0).sin()
            + month / 6.0
            + part(i, 0.324_7);
        [lon, lat, month, y]
    };
    (0..n).map(row).collect()
}

fn table(names: &[&str], rows: &[Vec<f64>]) -> Table {
    numbers(names.iter().enumerate().map(|(at, name)| (*name, rows.iter().map(|row| row[at]).collect())))
}

fn places_table(rows: &[[f64; 4]]) -> Table {
    table(&["lon", "lat", "month", "y"], &rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>())
}

/// Returns the table of the same rows with hand-made coordinates of places.
fn coordinates_table(rows: &[[f64; 4]]) -> Table {
    let row = |&[lon, lat, month, y]: &[f64; 4]| {
        let (lon, lat) = (lon.to_radians(), lat.to_radians());
        let unit = [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()];
        vec![EARTH_RADIUS * unit[0], EARTH_RADIUS * unit[1], EARTH_RADIUS * unit[2], month, y]
    };
    table(&["x", "y0", "z", "month", "y"], &rows.iter().map(row).collect::<Vec<_>>())
}

fn degrees() -> Places {
    Places { columns: ["lon".into(), "lat".into()], surface: Surface::Sphere }
}

fn columns(places: Option<Places>, exclude: &[&str]) -> SchemaOptions {
    let exclude = exclude.iter().map(|name| (*name).to_owned()).collect();
    SchemaOptions { target: "y".into(), numbers: true, places, exclude, ..SchemaOptions::default() }
}

fn options(kernel: &str) -> FitOptions {
    FitOptions { objective: ObjectiveKind::Vfe, kernel: kernel.into(), ..small(20, 8) }
}

fn means(model: &TableModel, table: &Table) -> Vec<f64> {
    let predictions = model.predict(table, UnseenLevels::Error).expect("predictions");
    (0..table.rows()).map(|row| predictions.row(row).mean).collect()
}

#[test]
fn chords_belong_to_the_great_circles_of_the_haversine_formula() {
    let places: Vec<[f64; 2]> = rows(40).iter().map(|row| [row[0], row[1]]).collect();
    let all = places.iter().chain(&[[0.0, 90.0], [123.0, -90.0], [180.0, 0.0], [-180.0, 0.0], [350.0, 10.0]]);
    let all: Vec<[f64; 2]> = all.copied().collect();
    for a in &all {
        for b in &all {
            let [[lon1, lat1], [lon2, lat2]] = [a, b].map(|place| place.map(f64::to_radians));
            let half = |difference: f64| (difference / 2.0).sin().powi(2);
            let h = half(lat2 - lat1) + lat1.cos() * lat2.cos() * half(lon2 - lon1);
            let along = 2.0 * EARTH_RADIUS * h.sqrt().min(1.0).asin();
            let want = 2.0 * EARTH_RADIUS * (along / (2.0 * EARTH_RADIUS)).sin();
            let [p, q] = [a, b].map(|&place| Surface::Sphere.coordinates(place));
            let chord = p.iter().zip(q).map(|(p, q)| (p - q).powi(2)).sum::<f64>().sqrt();
            // If places coincide, both formulae lose half of the digits of the largest distance.
            let rounding = 1e-12 * EARTH_RADIUS + 1e-15 * EARTH_RADIUS.powi(2) / want.max(1e-3);
            assert!((chord - want).abs() < rounding, "{a:?} {b:?}");
        }
    }
}

#[test]
fn a_fit_with_places_is_the_isotropic_fit_of_hand_made_coordinates_bit_for_bit() {
    let rows = rows(150);
    let (by_degrees, by_hand) = (places_table(&rows), coordinates_table(&rows));
    let unscaled = |kernel| FitOptions { standardize: false, ..options(kernel) };
    let places =
        fit(&by_degrees, &columns(Some(degrees()), &["month"]), &unscaled("matern32(ard)")).expect("a fit");
    let hand = fit(&by_hand, &columns(None, &["month"]), &unscaled("matern32")).expect("a fit");
    assert_eq!(places.hyperparameters(), hand.hyperparameters());
    assert_eq!(means(&places, &by_degrees), means(&hand, &by_hand));
    assert_eq!(
        place_lengthscales(&places),
        [("kernel.lengthscales".to_owned(), hand.hyperparameters()[1].1)]
    );
}

/// The lengthscales along both columns of a place, in the unit of its surface.
fn place_lengthscales(model: &TableModel) -> Vec<(String, f64)> {
    let of_place = model.in_units().into_iter().filter(|(_, columns)| columns.len() == 2);
    of_place.map(|(of, _)| (of.name, of.value.expect("alike coordinates"))).collect()
}

/// Constraints name the lengthscale of a place by its columns, in km.
#[test]
fn constraints_on_places_are_in_km() {
    let table = places_table(&rows(80));
    let with = |text: &str| {
        let fix = vec![text.parse().expect("a constraint")];
        let constraints = Constraints { fix, ..Constraints::default() };
        FitOptions { constraints, ..options("matern32(ard)") }
    };
    for name in ["lon, lat", "lon,lat"] {
        let options = with(&format!("kernel.lengthscales[{name}]=300"));
        let model = fit(&table, &columns(Some(degrees()), &[]), &options).expect("a fit");
        let [(_, lengthscale)] = place_lengthscales(&model)[..] else { panic!("one lengthscale") };
        assert!((lengthscale - 300.0).abs() < 1e-9, "{lengthscale}");
    }
    let alone = with("kernel.lengthscales[lon, lat (x)]=300");
    let error = fit(&table, &columns(Some(degrees()), &[]), &alone).map(|_| ()).expect_err("one coordinate");
    let advice = "the coordinates of a place have one lengthscale: [lon, lat]";
    assert_eq!(error.advice().as_deref(), Some(advice));
}

#[test]
fn predictions_are_continuous_at_the_date_line_and_have_period_360() {
    let rows = rows(200);
    let model =
        fit(&places_table(&rows), &columns(Some(degrees()), &[]), &options("matern32(ard)")).expect("a fit");
    let at = |lon: f64| means(&model, &places_table(&[[lon, 12.0, 5.0, 0.0]]))[0];
    assert!((at(180.0) - at(-180.0)).abs() < 1e-9);
    assert!((at(179.999_9) - at(-179.999_9)).abs() < 1e-3);
    assert!((at(190.0) - at(-170.0)).abs() < 1e-9);
    assert!((at(359.999_9) - at(-0.000_1)).abs() < 1e-9);
}

#[test]
fn averages_over_cells_are_weighted_sums_of_joint_predictions() {
    let train = places_table(&rows(60));
    for (places, neighbours) in [(Some(degrees()), None), (None, None), (Some(degrees()), Some(8))] {
        let options = FitOptions { neighbours, objective: ObjectiveKind::Elbo, ..options("matern32(ard)") };
        let model = fit(&train, &columns(places.clone(), &["month"]), &options).expect("a fit");
        let grid: Grid = "lon=10:50:20,lat=40:70:30".parse().expect("a grid");
        let averages = model.averages(&grid, 3, 2, 2, UnseenLevels::Error).expect("averages");
        // The cell around 30° and 70°: longitudes 20 to 40, latitudes 55 to 85.
        let points = [[25.0, 62.5], [25.0, 77.5], [35.0, 62.5], [35.0, 77.5]].map(Vec::from);
        let x = model.schema().design(&table(&["lon", "lat"], &points), UnseenLevels::Error);
        let (means, covariance) = model.joint(x.expect("inputs").as_ref()).expect("joint predictions");
        let area = |point: &Vec<f64>| if places.is_some() { point[1].to_radians().cos() } else { 1.0 };
        let total: f64 = points.iter().map(area).sum();
        let share: Vec<f64> = points.iter().map(|point| area(point) / total).collect();
        let mean: f64 = share.iter().zip(&means).map(|(share, mean)| share * mean).sum();
        let pairs = (0..4).flat_map(|k| (0..4).map(move |l| (k, l)));
        let variance: f64 = pairs.map(|(k, l)| share[k] * share[l] * covariance[(k, l)]).sum();
        let near = |found: f64, expected: f64, size: f64| {
            assert!((found - expected).abs() < 1e-9 * size, "{found}, expected {expected} ({neighbours:?})");
        };
        near(averages[0].mean, mean, mean.abs());
        near(averages[0].variance, variance, covariance[(0, 0)]);
        let largest = (0..4).map(|k| covariance[(k, k)]).fold(0.0, f64::max);
        assert!(averages[0].variance < largest, "{averages:?} below the variances of the points");
        let points = model.averages(&grid, 0, 6, 1, UnseenLevels::Error).expect("points");
        for (k, point) in points.iter().enumerate() {
            let centre = grid.block(k as u64, 1).expect("a table");
            let x = model.schema().design(&centre, UnseenLevels::Error).expect("inputs");
            let (mean, covariance) = model.joint(x.as_ref()).expect("a joint prediction");
            near(point.mean, mean[0], mean[0].abs());
            near(point.variance, covariance[(0, 0)], covariance[(0, 0)]);
        }
        let refused = model.averages(&grid, 0, 1, 50, UnseenLevels::Error).expect_err("too many points");
        assert!(refused.to_string().contains("a cell has 2500 points, expected at most 2000"), "{refused}");
    }
}

#[test]
fn a_missing_cell_has_the_mean_place_and_an_input_marks_it() {
    let mut rows = rows(120);
    (rows[3][0], rows[50][1]) = (f64::NAN, f64::NAN);
    let table = places_table(&rows);
    let model = fit(&table, &columns(Some(degrees()), &["month"]), &options("rbf(ard)")).expect("a fit");
    assert_eq!(
        model.schema().input_names(),
        ["lon, lat (x)", "lon, lat (y)", "lon, lat (z)", "lon, lat is missing"]
    );
    let Feature { kind: FeatureKind::Place { centre, .. }, missing: true, .. } =
        &model.schema().features()[0]
    else {
        panic!("a place")
    };
    let design = model.schema().design(&table, UnseenLevels::Error).expect("a design");
    assert!((0..3).all(|d| design[(3, d)] == centre[d] && design[(50, d)] == centre[d]));
    assert_eq!((design[(3, 3)], design[(4, 3)]), (1.0, 0.0));
    assert!(means(&model, &table).iter().all(|mean| mean.is_finite()));
}

#[test]
fn invalid_places_are_refused_in_one_line() {
    let good = rows(60);
    let fixed = FitOptions { hyper: Some(Hyper::Fixed), ..options("rbf(ard)") };
    let plain = columns(Some(degrees()), &[]);
    let refused = |table: &Table, options: &FitOptions, words: &[&str]| {
        let text = fit(table, &plain, options).err().expect("an error").to_string();
        assert!(words.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{text}");
    };
    for (place, words) in [
        ([10.0, 90.5], ["'lat'", "found 90.5"]),
        ([-181.0, 3.0], ["'lon'", "found -181"]),
        ([10.0, f64::INFINITY], ["'lat'", "row 8"]),
    ] {
        let mut rows = good.clone();
        (rows[7][0], rows[7][1]) = (place[0], place[1]);
        refused(&places_table(&rows), &fixed, &words);
    }
    let table = places_table(&good);
    let half = FitOptions { kernel: "rbf[lon] + rbf[month]".into(), ..fixed.clone() };
    refused(&table, &half, &["lon and lat are the coordinates of one place"]);
    let whole = FitOptions { kernel: "rbf[lat, lon] * rbf[month]".into(), ..fixed };
    let model = fit(&table, &plain, &whole).expect("a fit");
    let kernel = &model.options().kernel;
    assert_eq!(kernel, "rbf[0:3] * rbf[3]");
    assert_eq!(model.schema().kernel_in_names(kernel), "rbf[lon, lat] * rbf[month]");
}
