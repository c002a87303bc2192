//! Named intervals one below the other, as of coefficients; no estimates.

use super::{Axis, BLUE_LINE, GREY, SIZE, draw, range};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The width of the names in pixels, about how many characters fit, and the height of a row.
const NAMES: i32 = 150;
const MOST_CHARACTERS: usize = 24;
const ROW: u32 = 18;

/// A number with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// What it is of.
    pub name: String,
    /// The number.
    pub middle: f64,
    /// The lower and the upper end.
    pub ends: (f64, f64),
}

/// Intervals in their order from the top, with a line at 0; `axis` says what they are of. `None` when there are none, or one is
/// not finite.
pub fn intervals(axis: &str, intervals: &[Interval]) -> Option<String> {
    let numbers = || intervals.iter().flat_map(|i| [i.ends.0, i.middle, i.ends.1]);
    if intervals.is_empty() || !numbers().all(f64::is_finite) {
        return None;
    }
    let x = Axis::linear(axis, range(numbers().chain([0.0]))?);
    let count = intervals.len() as f64;
    let y = Axis::linear("", 0.0..count);
    let height = 70 + ROW * u32::try_from(intervals.len()).ok()?;
    draw((SIZE.0, height), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(38)
            .y_label_area_size(NAMES)
            .build_cartesian_2d(x.scale(), y.scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).disable_y_mesh().disable_y_axis();
        // Sizes that do not shrink with the figure.
        let font = || ("sans-serif", 12).into_font();
        mesh.label_style(font()).axis_desc_style(font());
        mesh.x_label_formatter(&|value| x.label(*value)).x_desc(axis).draw()?;
        chart.draw_series(LineSeries::new([(0.0, 0.0), (0.0, count)], GREY))?;
        let style = font().color(&BLACK).pos(Pos::new(HPos::Right, VPos::Center));
        for (row, interval) in intervals.iter().enumerate() {
            let level = count - row as f64 - 0.5;
            let (low, high) = interval.ends;
            chart.draw_series(LineSeries::new([(low, level), (high, level)], BLUE_LINE))?;
            chart.draw_series([Circle::new((interval.middle, level), 3, BLUE_LINE.filled())])?;
            let (_, pixel) = chart.backend_coord(&(0.0, level));
            area.draw_text(&short(&interval.name), &style, (NAMES, pixel))?;
        }
        Ok(())
    })
}

/// A name that fits.
fn short(name: &str) -> String {
    if name.chars().count() <= MOST_CHARACTERS {
        return name.to_owned();
    }
    name.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::checked;
    use super::*;

    fn interval(name: &str, middle: f64) -> Interval {
        Interval { name: name.into(), middle, ends: (middle - 1.0, middle + 2.0) }
    }

    #[test]
    fn every_interval_has_its_name_and_its_circle() {
        let long = "a column with a name that is too long";
        let svg = checked(intervals("effect", &[interval("a<b", 3.0), interval(long, -4.0)]));
        assert_eq!(svg.matches("<circle").count(), 2);
        for text in ["a&lt;b", "a column with a name th…", "effect"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }

    #[test]
    fn what_has_no_finite_interval_has_no_figure() {
        assert_eq!(intervals("effect", &[]), None);
        assert_eq!(intervals("effect", &[interval("a", f64::NAN)]), None);
        assert_eq!(intervals("effect", &[interval("a", 1.0), interval("b", f64::INFINITY)]), None);
    }
}
