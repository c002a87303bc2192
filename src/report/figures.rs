//! Figures as SVG text: the trace, predictions against observations, calibration, a forecast; no files, no HTML.

use crate::hyper::Record;
use crate::metrics::{Compared, Report};
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (480, 320);
const BLUE_LINE: RGBColor = RGBColor(31, 119, 180);
const GREY: RGBColor = RGBColor(120, 120, 120);

/// The most points of a scatter plot; more only make the file larger.
const MOST_POINTS: usize = 2000;

type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Compared rows for the figures, thinned evenly once there are many.
#[derive(Clone, Debug)]
pub struct Observed {
    points: Vec<(f64, f64)>,
    seen: usize,
    stride: usize,
}

impl Default for Observed {
    fn default() -> Self {
        Observed { points: Vec::new(), seen: 0, stride: 1 }
    }
}

impl Observed {
    /// Adds a row.
    pub fn push(&mut self, row: &Compared) {
        if self.seen.is_multiple_of(self.stride) {
            self.points.push((row.target, row.mean));
        }
        self.seen += 1;
        if self.points.len() > MOST_POINTS {
            // Every other point stays, and from here on every other row.
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Predicted mean against observed target; `None` without points.
    pub fn figure(&self) -> Option<String> {
        let values = || self.points.iter().flat_map(|&(y, mean)| [y, mean]);
        let range = range(values())?;
        draw(|area| {
            let mut chart = frame(area, range.clone(), range.clone(), ("observed", "predicted mean"))?;
            chart.draw_series(LineSeries::new([(range.start, range.start), (range.end, range.end)], GREY))?;
            let points = self.points.iter().map(|&point| Circle::new(point, 2, BLUE_LINE.mix(0.5).filled()));
            chart.draw_series(points).map(|_| ())
        })
    }
}

/// The objective against the epoch; `None` without a finite one.
pub fn trace(records: &[Record]) -> Option<String> {
    let points: Vec<(f64, f64)> = records
        .iter()
        .filter(|record| record.objective.is_finite())
        .map(|record| (record.epoch as f64, record.objective))
        .collect();
    let (x, y) = (range(points.iter().map(|p| p.0))?, range(points.iter().map(|p| p.1))?);
    draw(|area| {
        let mut chart = frame(area, x, y, ("epoch", "objective per row"))?;
        chart.draw_series(LineSeries::new(points, BLUE_LINE.stroke_width(2))).map(|_| ())
    })
}

/// The histogram of probability integral transforms, flat when the predictions are calibrated.
pub fn calibration(report: &Report) -> Option<String> {
    let bins = report.pit?;
    let top = bins.iter().fold(0.2f64, |top, &share| top.max(share));
    draw(|area| {
        let axes = ("predicted probability of a smaller value", "share of rows");
        let mut chart = frame(area, 0.0..1.0, 0.0..1.05 * top, axes)?;
        let width = 1.0 / bins.len() as f64;
        let bars = bins.iter().enumerate().map(|(bin, &share)| {
            let left = bin as f64 * width;
            Rectangle::new([(left, 0.0), (left + 0.95 * width, share)], BLUE_LINE.mix(0.6).filled())
        });
        chart.draw_series(bars)?;
        chart.draw_series(LineSeries::new([(0.0, width), (1.0, width)], GREY)).map(|_| ())
    })
}

/// A series in one input with its forecast.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The names of the axes.
    pub axes: (String, String),
    /// Observed points.
    pub observed: Vec<(f64, f64)>,
    /// Input, mean, lower and upper end of the central 95 % interval, in the order of the input.
    pub forecast: Vec<(f64, f64, f64, f64)>,
}

impl Series {
    /// The figure; `None` without points.
    pub fn figure(&self) -> Option<String> {
        let x = range(self.observed.iter().map(|p| p.0).chain(self.forecast.iter().map(|f| f.0)))?;
        let band = self.forecast.iter().flat_map(|f| [f.2, f.3]);
        let y = range(self.observed.iter().map(|p| p.1).chain(band))?;
        draw(|area| {
            let mut chart = frame(area, x, y, (&self.axes.0, &self.axes.1))?;
            let upper = self.forecast.iter().map(|f| (f.0, f.3));
            let outline = upper.chain(self.forecast.iter().rev().map(|f| (f.0, f.2)));
            chart.draw_series([Polygon::new(outline.collect::<Vec<_>>(), BLUE_LINE.mix(0.25))])?;
            chart.draw_series(LineSeries::new(self.forecast.iter().map(|f| (f.0, f.1)), BLUE_LINE))?;
            let points = self.observed.iter().map(|&point| Circle::new(point, 1, BLACK.filled()));
            chart.draw_series(points).map(|_| ())
        })
    }
}

/// The range of finite values with a margin; `None` when there are none.
fn range(values: impl Iterator<Item = f64>) -> Option<std::ops::Range<f64>> {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return None;
    }
    let margin = if high > low { 0.04 * (high - low) } else { 0.5 * low.abs().max(1e-3) };
    let range = low - margin..high + margin;
    // Axes need a representable, non-empty range.
    ((range.end - range.start).is_finite() && range.start < range.end).then_some(range)
}

/// Draws on an empty canvas; `None` if the drawing failed.
fn draw(paint: impl FnOnce(&Drawing<'_>) -> Drawn) -> Option<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).ok()?;
        paint(&area).ok()?;
        area.present().ok()?;
    }
    Some(svg)
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

/// Axes with their names.
fn frame<'a, 'b>(
    area: &'a Drawing<'b>,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    (x_name, y_name): (&str, &str),
) -> Result<Chart<'a, 'b>, DrawingAreaErrorKind<std::io::Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(60)
        .build_cartesian_2d(x, y)?;
    let number = |value: &f64| short(*value);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .x_desc(x_name)
        .y_desc(y_name)
        .draw()?;
    Ok(chart)
}

/// A number for a tick: few digits, an exponent where it would be long.
fn short(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:.1e}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
