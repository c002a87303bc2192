//! Figures of curves: the trace of a fit, and several named series with error bars and a legend; no data points.

use super::{Axis, BLUE_LINE, Drawing, Drawn, SIZE, draw, frame, range};
use crate::hyper::Record;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Distinct with most kinds of colour vision: those of Okabe & Ito, with a grey instead of the yellow that white swallows.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(120, 120, 120),
];

/// The outlines of the markers in pixels. Their number has no factor in common with that of the colours, so that forty
/// series differ in one or the other.
const MARKERS: [&[(i32, i32)]; 5] = [
    &[(4, 2), (2, 4), (-2, 4), (-4, 2), (-4, -2), (-2, -4), (2, -4), (4, -2)],
    &[(-4, 3), (4, 3), (0, -5)],
    &[(-3, -3), (3, -3), (3, 3), (-3, 3)],
    &[(-5, 0), (0, -5), (5, 0), (0, 5)],
    &[(-4, -3), (4, -3), (0, 5)],
];

/// The height of a line of the legend in pixels.
const LEGEND_LINE: u32 = 18;

/// The most points of a series that are marked; more would hide the line.
const MOST_MARKED: usize = 200;

/// The longest name, in characters, of which two fit side by side.
const SHORT_NAME: usize = 34;

/// The objective against the epoch; `None` without a finite one.
pub fn trace(records: &[Record]) -> Option<String> {
    let points: Vec<(f64, f64)> = records
        .iter()
        .filter(|record| record.objective.is_finite())
        .map(|record| (record.epoch as f64, record.objective))
        .collect();
    let (x, y) = (range(points.iter().map(|p| p.0))?, range(points.iter().map(|p| p.1))?);
    draw(SIZE, |area| {
        let mut chart = frame(area, Axis::linear("epoch", x), Axis::linear("objective per row", y))?;
        chart.draw_series(LineSeries::new(points, BLUE_LINE.stroke_width(2))).map(|_| ())
    })
}

/// Several series in the same axes.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    /// The names of the axes.
    pub axes: (String, String),
    /// Whether the horizontal axis is logarithmic; points that are not above 0 are left out then.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic; points that are not above 0 are left out then, and bars that reach to 0 or
    /// below end at the edge of the figure.
    pub log_y: bool,
    /// The series. Colour and marker go by the place in this list.
    pub series: Vec<CurveSeries>,
}

/// One of the series of a figure.
#[derive(Clone, Debug, Default)]
pub struct CurveSeries {
    /// What the legend calls it.
    pub name: String,
    /// Position, mean and standard error in the order they are joined in; no bar where the standard error is NaN. More than
    /// 200 of them are a line without markers.
    pub points: Vec<(f64, f64, f64)>,
}

/// A series as it is drawn.
struct Shown<'a> {
    name: &'a str,
    colour: RGBColor,
    /// None for a series of many points.
    marker: Option<&'static [(i32, i32)]>,
    points: Vec<Point>,
}

/// A point in the units of the axes, which are logarithms to base 10 where the axis is logarithmic.
struct Point {
    x: f64,
    y: f64,
    /// The ends of the bar, unless the standard error is 0 or unknown; one of −∞ is beyond the figure.
    bar: Option<(f64, f64)>,
}

/// The series with bars of one standard error to either side and a legend below; `None` without points.
pub fn curves(curves: &Curves) -> Option<String> {
    let all = curves.series.iter().enumerate().map(|(index, series)| curves.shown(index, series));
    let series: Vec<Shown<'_>> = all.filter(|series| !series.points.is_empty()).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let heights =
        points().flat_map(|point| [Some(point.y), point.bar.map(|bar| bar.0), point.bar.map(|bar| bar.1)]);
    let (x, y) = (range(points().map(|point| point.x))?, range(heights.flatten())?);
    let bottom = y.start;
    let x = Axis { name: &curves.axes.0, range: x, logarithmic: curves.log_x };
    let y = Axis { name: &curves.axes.1, range: y, logarithmic: curves.log_y };
    let columns = if series.iter().all(|series| series.name.chars().count() <= SHORT_NAME) { 2 } else { 1 };
    let lines = series.len().div_ceil(columns);
    let size = (SIZE.0, SIZE.1 + LEGEND_LINE * lines as u32);
    draw(size, |area| {
        let (upper, lower) = area.split_vertically(SIZE.1);
        let mut chart = frame(&upper, x, y)?;
        for series in &series {
            let line = series.points.iter().map(|point| (point.x, point.y));
            chart.draw_series(LineSeries::new(line, series.colour.stroke_width(2)))?;
            for point in &series.points {
                let place = |y: f64| chart.backend_coord(&(point.x, y.max(bottom)));
                if let Some((low, high)) = point.bar {
                    bar(area, place(low), place(high), series.colour)?;
                }
                mark(area, place(point.y), series)?;
            }
        }
        legend(&lower, &series, columns)
    })
}

impl Curves {
    fn shown<'a>(&self, index: usize, series: &'a CurveSeries) -> Shown<'a> {
        let points: Vec<Point> = series.points.iter().filter_map(|point| self.point(point)).collect();
        let marker = (points.len() <= MOST_MARKED).then(|| MARKERS[index % MARKERS.len()]);
        Shown { name: &series.name, colour: COLOURS[index % COLOURS.len()], marker, points }
    }

    /// `None` for what is not finite, such as the logarithm of what is not above 0.
    fn point(&self, &(x, y, error): &(f64, f64, f64)) -> Option<Point> {
        let height = |y: f64| if self.log_y { y.max(0.0).log10() } else { y };
        let x = if self.log_x { x.log10() } else { x };
        let bar = (error > 0.0 && error.is_finite()).then(|| (height(y - error), height(y + error)));
        let y = height(y);
        (x.is_finite() && y.is_finite()).then_some(Point { x, y, bar })
    }
}

/// The bar of a standard error, in pixels.
fn bar(area: &Drawing<'_>, low: (i32, i32), high: (i32, i32), colour: RGBColor) -> Drawn {
    area.draw(&PathElement::new([low, high], colour))?;
    for (x, y) in [low, high] {
        area.draw(&PathElement::new([(x - 3, y), (x + 3, y)], colour))?;
    }
    Ok(())
}

/// The marker of a series, if it has one, in pixels.
fn mark(area: &Drawing<'_>, (x, y): (i32, i32), series: &Shown<'_>) -> Drawn {
    let Some(marker) = series.marker else { return Ok(()) };
    let outline: Vec<_> = marker.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    area.draw(&Polygon::new(outline, series.colour.filled()))
}

/// The names of the series beside a piece of their lines, filled row by row.
fn legend(area: &Drawing<'_>, series: &[Shown<'_>], columns: usize) -> Drawn {
    let text = ("sans-serif", 14).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    let (left, top) = area.get_base_pixel();
    let root = area.use_screen_coord();
    for (index, series) in series.iter().enumerate() {
        let column = (index % columns) as u32 * (SIZE.0 / columns as u32);
        let line = (index / columns) as u32 * LEGEND_LINE;
        let (x, y) = (left + column as i32 + 14, top + line as i32 + 6);
        root.draw(&PathElement::new([(x, y), (x + 24, y)], series.colour.stroke_width(2)))?;
        mark(&root, (x + 12, y), series)?;
        root.draw(&Text::new(series.name, (x + 32, y), text.clone()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::checked;
    use super::*;

    fn series(name: &str, points: &[(f64, f64, f64)]) -> CurveSeries {
        CurveSeries { name: name.to_owned(), points: points.to_vec() }
    }

    fn of(log_x: bool, series: Vec<CurveSeries>) -> Curves {
        Curves { axes: ("training rows".into(), "test NLL".into()), log_x, log_y: false, series }
    }

    #[test]
    fn every_series_has_its_name_colour_points_and_bars() {
        let both = vec![
            series("beta < 1", &[(100.0, 1.0, 0.1), (200.0, 0.8, f64::NAN), (500.0, 0.7, 0.05)]),
            series("exact", &[(100.0, 0.9, f64::NAN), (200.0, f64::NAN, 0.1), (500.0, 0.6, f64::INFINITY)]),
        ];
        let svg = checked(curves(&of(true, both)));
        for text in ["beta &lt; 1", "exact", "training rows", "test NLL", "#0072B2", "#D55E00"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        // Three and two points, and a marker each in the legend.
        assert_eq!(svg.matches("<polygon").count(), 3 + 2 + 2);
        // A bar is a line with two caps.
        let thin = "fill=\"none\" opacity=\"1\" stroke=\"#0072B2\" stroke-width=\"1\"";
        assert_eq!(svg.matches(thin).count(), 2 * 3);
        assert_eq!(svg.matches(&thin.replace("0072B2", "D55E00")).count(), 0);
        for tick in ["100", "200", "500"] {
            assert!(svg.contains(&format!(">\n{tick}\n<")), "{tick} in {svg}");
        }
    }

    #[test]
    fn nothing_to_draw_is_no_figure() {
        assert_eq!(curves(&Curves::default()), None);
        assert_eq!(curves(&of(false, vec![series("a", &[])])), None);
        assert_eq!(curves(&of(false, vec![series("a", &[(f64::NAN, 1.0, 0.1)])])), None);
        assert_eq!(curves(&of(true, vec![series("a", &[(0.0, 1.0, 0.1), (-1.0, 1.0, 0.1)])])), None);
    }

    #[test]
    fn a_logarithmic_vertical_axis_leaves_out_what_is_not_above_zero_and_clips_bars() {
        let points =
            [(1.0, 1e-8, f64::NAN), (2.0, 0.0, 1.0), (3.0, -1.0, 2.0), (4.0, 0.5, 0.7), (5.0, 1e3, 1.0)];
        let svg = checked(curves(&Curves { log_y: true, ..of(false, vec![series("distance", &points)]) }));
        // Three points and the legend's, two bars of a line and two caps.
        assert_eq!(svg.matches("<polygon").count(), 3 + 1);
        assert_eq!(svg.matches("stroke=\"#0072B2\" stroke-width=\"1\"").count(), 2 * 3);
        for tick in ["1e-8", "1e-4", "1", "100"] {
            assert!(svg.contains(&format!(">\n{tick}\n<")), "{tick} in {svg}");
        }
        let none = Curves { log_y: true, ..of(false, vec![series("a", &points[1..3])]) };
        assert_eq!(curves(&none), None);
    }

    #[test]
    fn many_points_are_a_line_without_markers() {
        let line =
            |count: u32| (0..count).map(|k| (f64::from(k), f64::from(k % 7), f64::NAN)).collect::<Vec<_>>();
        let svg = checked(curves(&of(false, vec![series("few", &line(200)), series("many", &line(201))])));
        assert_eq!(svg.matches("<polygon").count(), 200 + 1);
        assert_eq!(svg.matches("#D55E00").count(), 2, "the line and the legend's piece of it");
    }

    #[test]
    fn a_series_without_points_is_not_in_the_legend_and_keeps_its_colour() {
        let one = series("there", &[(1.0, 2.0, 0.5)]);
        let svg = checked(curves(&of(false, vec![series("absent", &[]), one])));
        assert!(!svg.contains("absent") && svg.contains("there"));
        assert!(svg.contains("#D55E00") && !svg.contains("#0072B2"));
    }

    #[test]
    fn the_legend_is_inside_the_canvas() {
        let names = |name: &str| (0..9).map(|i| series(&format!("{name} {i}"), &[(1.0, 2.0, 0.5)])).collect();
        let height = |series| {
            let svg = checked(curves(&of(false, series)));
            let rest = svg.split("height=\"").nth(1).expect("a height");
            rest.split('"').next().and_then(|text| text.parse::<u32>().ok()).expect("a number")
        };
        assert_eq!(height(names("short")), SIZE.1 + 5 * LEGEND_LINE);
        assert_eq!(height(names("one that is too long to stand beside another")), SIZE.1 + 9 * LEGEND_LINE);
    }

    #[test]
    fn the_trace_leaves_out_what_is_not_finite() {
        let record = |epoch, objective| Record::of(epoch, 0.5, f64::into(objective), None);
        assert_eq!(trace(&[]), None);
        assert_eq!(trace(&[record(1, f64::NAN)]), None);
        let svg = checked(trace(&[record(1, -2.0), record(2, f64::NAN), record(3, -1.0)]));
        assert!(svg.contains("epoch") && svg.contains("objective per row"));
    }
}
