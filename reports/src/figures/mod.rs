//! Figures, and the canvas, colours and axes they share.

mod axis;
mod calibration;
mod chart;
mod curves;
mod drawing;
mod intervals;
mod regression;
mod series;
mod surface;

pub(crate) use calibration::{calibration, coverage, reliability, roc, survival};
pub(crate) use curves::trace;
pub use curves::{CurveSeries, Curves, curves};
pub use drawing::Drawing;
pub(crate) use intervals::{Interval, grouped, intervals};
pub use regression::Observed;
pub use series::{Band, Series};
pub(crate) use surface::{Plane, regions, surface};

use axis::Axis;
use chart::Chart;
use drawing::{Area, Ink, Lettering, Place, draw, fitted, width};

/// The size of a figure in units; a pixel of the page has two units.
const SIZE: (u32, u32) = (960, 640);
/// The sum of ascent and descent of text.
const TEXT: i32 = 29;
const LEGEND_LINE: u32 = 38;
const THICK: u32 = 4;
const THIN: u32 = 2;
const DOT: i32 = 4;

/// The colours that a dark page replaces; see `html`.
const INK: Ink = Ink::new(34, 34, 34);
const GREY: Ink = Ink::new(120, 120, 120);
const GRID: Ink = Ink::new(228, 228, 228);

/// Colours that are distinct with most kinds of colour vision: the palette of Okabe & Ito, with grey instead of yellow, which is invisible
/// on white.
const COLOURS: [Ink; 8] = [
    Ink::new(0, 114, 178),
    Ink::new(213, 94, 0),
    Ink::new(0, 158, 115),
    Ink::new(204, 121, 167),
    Ink::new(230, 159, 0),
    Ink::new(86, 180, 233),
    Ink::new(34, 34, 34),
    Ink::new(120, 120, 120),
];
const BLUE: Ink = COLOURS[0];
const ORANGE: Ink = COLOURS[1];

/// The outlines of markers. The numbers of markers and colours have no common factor, so forty series differ in at least one of them.
const MARKERS: [&[(i32, i32)]; 5] = [
    &[(8, 4), (4, 8), (-4, 8), (-8, 4), (-8, -4), (-4, -8), (4, -8), (8, -4)],
    &[(-8, 6), (8, 6), (0, -10)],
    &[(-6, -6), (6, -6), (6, 6), (-6, 6)],
    &[(-10, 0), (0, -10), (10, 0), (0, 10)],
    &[(-8, -6), (8, -6), (0, 10)],
];

/// The maximum number of points of a scatter plot; more would only enlarge the file.
const MOST_POINTS: usize = 2000;

/// Returns the smallest and the largest value; ∞ and −∞ without values.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

fn is_finite(&(x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

/// Returns the range of finite values with a margin; `None` without finite values.
fn range(values: impl Iterator<Item = f64>) -> Option<std::ops::Range<f64>> {
    let (low, high) = ends(values.filter(|value| value.is_finite()));
    if low > high {
        return None;
    }
    let margin = if high > low { 0.04 * (high - low) } else { 0.5 * low.abs().max(1e-3) };
    let range = low - margin..high + margin;
    // Axes need a representable, non-empty range.
    ((range.end - range.start).is_finite() && range.start < range.end).then_some(range)
}

fn colour(index: usize) -> Ink {
    COLOURS[index % COLOURS.len()]
}

/// Returns the figure that `paint` draws on axes, with a legend below if there are names.
fn plot(x: Axis<'_>, y: Axis<'_>, names: &[(&str, Sample)], paint: impl FnOnce(&Chart<'_>)) -> Drawing {
    draw((SIZE.0, SIZE.1 + legend_height(names)), |area| {
        let (upper, lower) = area.split_below(SIZE.1);
        paint(&Chart::new(upper, x, y));
        legend(&lower, names);
    })
}

#[derive(Clone, Copy)]
enum Sample {
    /// A line, which may have a marker.
    Line(Ink, Option<usize>),
    Marker(Ink, usize),
    Cross,
}

/// Returns the legend of series of these names; a single series may have no name, and then no sample.
fn named<'a>(all: impl Iterator<Item = (&'a str, Sample)>) -> Vec<(&'a str, Sample)> {
    all.filter(|(name, _)| !name.is_empty()).collect()
}

fn cross(area: &Area<'_>, (x, y): Place) {
    area.line([(x - 7, y - 7), (x + 7, y + 7)], INK, THIN);
    area.line([(x - 7, y + 7), (x + 7, y - 7)], INK, THIN);
}

fn marker((x, y): Place, which: usize) -> impl Iterator<Item = Place> {
    MARKERS[which % MARKERS.len()].iter().map(move |(dx, dy)| (x + dx, y + dy))
}

fn legend_height(names: &[(&str, Sample)]) -> u32 {
    LEGEND_LINE * names.len().div_ceil(legend_columns(names)) as u32 + if names.is_empty() { 0 } else { 10 }
}

/// Returns the number of columns of a legend: three if all names are short.
fn legend_columns(names: &[(&str, Sample)]) -> usize {
    match names.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) {
        ..=16 => names.len().clamp(1, 3),
        17..=28 => 2,
        _ => 1,
    }
}

fn legend(area: &Area<'_>, names: &[(&str, Sample)]) {
    let columns = legend_columns(names);
    let wide = area.size().0 / columns as u32;
    for (index, (name, sample)) in names.iter().enumerate() {
        let column = (index % columns) as u32 * wide;
        let line = (index / columns) as u32 * LEGEND_LINE;
        let (x, y) = (area.left + column as i32 + 26, area.top + (line + LEGEND_LINE / 2) as i32);
        if let Sample::Line(colour, _) = *sample {
            area.line([(x, y), (x + 48, y)], colour, THICK);
        }
        match *sample {
            Sample::Marker(colour, which) | Sample::Line(colour, Some(which)) => {
                area.polygon(marker((x + 24, y), which), colour);
            }
            Sample::Line(_, None) => {}
            Sample::Cross => cross(area, (x + 24, y)),
        }
        area.text(&fitted(name, wide.saturating_sub(96)), (x + 62, y), Lettering::START);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_fit_and_control_characters_are_blanks() {
        assert_eq!(fitted("short\u{7}", 500), "short ");
        let cut = fitted(&"long ".repeat(100), 200);
        assert!(cut.starts_with("long long") && cut.ends_with('…'), "{cut}");
        assert!(width(&cut, TEXT) <= 200 && width("WWWW", TEXT) > width("iiii", TEXT));
        assert_eq!(fitted("nothing fits", 1), "…");
    }
}
