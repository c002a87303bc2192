//! Figures as SVG text, and the canvas and axes they share; no files, no HTML.

mod axis;
mod calibration;
mod curves;
mod intervals;
mod regression;
mod surface;

pub use calibration::{calibration, reliability};
pub use curves::{CurveSeries, Curves, curves, trace};
pub use intervals::{Interval, intervals};
pub use regression::{Observed, Series};
pub use surface::{Surface, surface};

use axis::{Axis, Scale};
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (480, 320);
const BLUE_LINE: RGBColor = RGBColor(31, 119, 180);
const GREY: RGBColor = RGBColor(120, 120, 120);

/// The most points of a scatter plot; more only make the file larger.
const MOST_POINTS: usize = 2000;

type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

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

/// Draws on an empty canvas of a size in pixels; `None` if the drawing failed.
fn draw(size: (u32, u32), paint: impl FnOnce(&Drawing<'_>) -> Drawn) -> Option<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).ok()?;
        paint(&area).ok()?;
        area.present().ok()?;
    }
    Some(svg)
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;

/// Axes with their names.
fn frame<'a, 'b>(
    area: &'a Drawing<'b>,
    x: Axis<'_>,
    y: Axis<'_>,
) -> Result<Chart<'a, 'b>, DrawingAreaErrorKind<std::io::Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(60)
        .build_cartesian_2d(x.scale(), y.scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|value| x.label(*value))
        .y_label_formatter(&|value| y.label(*value))
        .x_desc(x.name)
        .y_desc(y.name)
        .draw()?;
    Ok(chart)
}

/// The text of a figure that must be there, after checks that hold for every figure.
#[cfg(test)]
fn checked(figure: Option<String>) -> String {
    let svg = figure.expect("a figure");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for word in ["NaN", "inf"] {
        assert!(!svg.contains(word), "{word} in {svg}");
    }
    svg
}
