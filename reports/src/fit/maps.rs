//! Maps of the prediction and its standard deviation, over longitude and latitude or a plane, for a model
//! whose rows have places.

use super::function::{CELLS, SPREAD, about_levels, at_new_levels, mean_and_sd, probability};
use crate::figures::{Plane, ends};
use crate::html::Figure;
use faer::Mat;
use sparsegp::likelihood::TargetKind;
use sparsegp_tables::explain::Rows;
use sparsegp_tables::schema::{EARTH_RADIUS, Surface};
use sparsegp_tables::tabular::TableModel;

/// The margin of a map on every side of the rows, as a share of their range.
const MARGIN: f64 = 0.03;

/// Draws the mean and the standard deviation, or the probability of a class, at the centres of cells. Other
/// inputs have the values of the row whose prediction is the median. Returns nothing without places, or with
/// more than two classes.
pub(super) fn of_places(model: &TableModel, rows: Rows<'_>) -> Vec<Option<Figure>> {
    let kind = model.schema().encoding().kind();
    let Some((places, inputs)) = model.schema().place_inputs() else { return Vec::new() };
    if matches!(kind, TargetKind::Class | TargetKind::Ordinal) {
        return Vec::new();
    }
    let of_row = |row: usize| inputs.clone().map(|input| rows.x[(row, input)]).collect::<Vec<f64>>();
    let points: Vec<[f64; 2]> =
        (0..rows.len()).filter_map(|row| on_map(places.surface, &of_row(row))).collect();
    let Some((x, y)) = extent(&points, places.surface) else { return Vec::new() };
    let typical = median_row(model, rows);
    let [across, up] = places.columns.clone();
    let plane = Plane {
        axes: (across, up),
        x,
        y,
        resolution: (CELLS, CELLS),
        points: points.iter().map(|&[a, b]| (turned(a, x.0, places.surface), b, 0)).collect(),
        ..Plane::default()
    };
    let cells = Mat::from_fn(model.schema().feature_dims(), CELLS * CELLS, |input, cell| {
        match input.checked_sub(inputs.start).filter(|_| inputs.contains(&input)) {
            Some(axis) => places.surface.coordinates(plane.centre(cell))[axis],
            None => rows.x[(typical, input)],
        }
    });
    let predictions = model.predict_rows(at_new_levels(model, cells).transpose(), Vec::new());
    let others = if inputs.len() < model.schema().feature_dims() {
        " Other inputs have the values of one row, whose prediction is the median."
    } else {
        ""
    };
    let others = format!("{others}{}", about_levels(model));
    let target = model.schema().target_name();
    let title = format!("Map of {target}");
    if kind == TargetKind::Binary {
        let caption = format!("The probability over the places. Markers are rows.{others}");
        return vec![Figure::of("map", &title, &caption, probability(&plane, &predictions))];
    }
    let [mean, sd] = mean_and_sd(&plane, target, &predictions);
    let about = format!("The predictive mean over the places. Markers are rows.{others}");
    vec![
        Figure::of("map", &title, &about, mean),
        Figure::of("map-sd", "Standard deviation on the map", SPREAD, sd),
    ]
}

/// Returns the position on a map of a place with these coordinates: longitude and latitude in degrees, or
/// both coordinates of the plane. Returns `None` for a missing place, whose coordinates are a mean inside the
/// sphere.
fn on_map(surface: Surface, coordinates: &[f64]) -> Option<[f64; 2]> {
    match (surface, coordinates) {
        (Surface::Plane, &[a, b]) => Some([a, b]),
        (Surface::Sphere, &[x, y, z]) => {
            let radius = (x * x + y * y + z * z).sqrt();
            let on_surface = (radius / EARTH_RADIUS - 1.0).abs() < 1e-9;
            on_surface.then(|| [y.atan2(x).to_degrees(), (z / radius).asin().to_degrees()])
        }
        _ => None,
    }
}

/// Returns a longitude as degrees east of the western edge of the map.
fn turned(longitude: f64, west: f64, surface: Surface) -> f64 {
    if surface == Surface::Sphere && longitude < west { longitude + 360.0 } else { longitude }
}

/// Returns the ranges of a map. On the sphere, the map begins east of the widest gap of longitudes, so that
/// places on both sides of the date line are next to each other.
fn extent(points: &[[f64; 2]], surface: Surface) -> Option<((f64, f64), (f64, f64))> {
    let mut longitudes: Vec<f64> = points.iter().map(|point| point[0]).collect();
    longitudes.sort_by(f64::total_cmp);
    let (&first, &last) = (longitudes.first()?, longitudes.last()?);
    let (mut west, mut east) = (first, last);
    if surface == Surface::Sphere {
        let mut widest = first + 360.0 - last;
        for pair in longitudes.windows(2).filter(|pair| pair[1] - pair[0] > 180.0) {
            if pair[1] - pair[0] > widest {
                (widest, west, east) = (pair[1] - pair[0], pair[1], pair[0] + 360.0);
            }
        }
    }
    let (south, north) = ends(points.iter().map(|point| point[1]));
    let wider = |low: f64, high: f64| {
        let margin = if high > low { MARGIN * (high - low) } else { 0.5 };
        (low - margin, high + margin)
    };
    Some((wider(west, east), wider(south, north)))
}

fn median_row(model: &TableModel, rows: Rows<'_>) -> usize {
    let predictions = model.predict_rows(rows.x, rows.exposure.to_vec());
    let mut order: Vec<(f64, usize)> = (0..rows.len()).map(|row| (predictions.row(row).mean, row)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order[order.len() / 2].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_from_coordinates_and_a_map_may_cross_the_date_line() {
        let places = [[170.0, -40.0], [179.5, -10.0], [-175.0, -20.0]];
        let found: Vec<[f64; 2]> = places
            .iter()
            .map(|&place| on_map(Surface::Sphere, &Surface::Sphere.coordinates(place)).expect("a place"))
            .collect();
        for (found, place) in found.iter().zip(places) {
            assert!(found.iter().zip(place).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?} {place:?}");
        }
        assert_eq!(on_map(Surface::Sphere, &[100.0, 0.0, 0.0]), None, "inside the Earth");
        let ((west, east), (south, north)) = extent(&found, Surface::Sphere).expect("places");
        assert!(west < 170.0 && west > 169.0 && east > 185.0 && east < 186.0, "{west} {east}");
        assert!(south < -40.0 && north > -10.0);
        assert!((turned(-175.0, west, Surface::Sphere) - 185.0).abs() < 1e-9);
    }
}
