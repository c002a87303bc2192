//! Named intervals one below the other, as of coefficients; no estimates.

use super::{Axis, BLUE, Drawing, GREY, GRID, SIZE, THICK, THIN, draw, fitted, lettering, range, width};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// The maximum width of the names, and the height of a row: of a few intervals, and of many.
const NAMES: u32 = 2 * SIZE.0 / 5;
const ROW: u32 = 46;
const NARROW_ROW: u32 = 34;
const MANY: usize = 20;

/// A number with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interval {
    /// The name of the number.
    pub name: String,
    /// The number.
    pub middle: f64,
    /// The lower and the upper end of the interval.
    pub ends: (f64, f64),
}

/// Draws intervals from top to bottom, with a line at 0 if the range contains it. `axis` names the numbers; with `from_zero`, a bar from 0
/// shows each number. `None` without intervals, or if one is not finite.
pub(crate) fn intervals(axis: &str, intervals: &[Interval], from_zero: bool) -> Option<Drawing> {
    let numbers = || intervals.iter().flat_map(|i| [i.ends.0, i.middle, i.ends.1]);
    if intervals.is_empty() || !numbers().all(f64::is_finite) {
        return None;
    }
    let zero = from_zero.then_some(0.0);
    let x = Axis::linear(axis, range(numbers().chain(zero))?);
    let (shows_zero, count) = (x.range.contains(&0.0), intervals.len() as f64);
    let y = Axis::linear("", 0.0..count);
    let row = if intervals.len() > MANY { NARROW_ROW } else { ROW };
    let height = 124 + row * u32::try_from(intervals.len()).ok()?;
    draw((SIZE.0, height), |area| {
        let names = intervals.iter().map(|interval| fitted(area, &interval.name, NAMES));
        let names: Vec<String> = names.collect::<Result<_, _>>()?;
        let widths = names.iter().map(|name| width(area, name)).collect::<Result<Vec<u32>, _>>()?;
        let beside = widths.into_iter().max().unwrap_or(0) + 30;
        let axis = fitted(area, axis, (SIZE.0 - beside).max(SIZE.0 / 2))?;
        let labels = x.labels();
        let mut chart = ChartBuilder::on(area)
            .margin(14)
            .margin_right(30)
            .x_label_area_size(84)
            .y_label_area_size(beside)
            .build_cartesian_2d(x.scale(), y.scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).bold_line_style(GRID.stroke_width(THIN));
        mesh.axis_style(GREY.stroke_width(THIN)).disable_y_mesh().disable_y_axis();
        mesh.label_style(lettering(HPos::Center, VPos::Center));
        mesh.axis_desc_style(lettering(HPos::Center, VPos::Center));
        mesh.x_label_formatter(&|value| labels.of(*value)).x_desc(axis).draw()?;
        if shows_zero {
            chart.draw_series(LineSeries::new([(0.0, 0.0), (0.0, count)], GREY.stroke_width(THIN)))?;
        }
        for (row, (interval, name)) in intervals.iter().zip(&names).enumerate() {
            let level = count - row as f64 - 0.5;
            let (low, high) = interval.ends;
            if from_zero {
                let bar = [(0.0, level - 0.3), (interval.middle, level + 0.3)];
                chart.draw_series([Rectangle::new(bar, BLUE.mix(0.35).filled())])?;
            }
            chart.draw_series(LineSeries::new([(low, level), (high, level)], BLUE.stroke_width(THICK)))?;
            chart.draw_series([Circle::new((interval.middle, level), 8, BLUE.filled())])?;
            let (_, place) = chart.backend_coord(&(interval.middle, level));
            let style = lettering(HPos::Right, VPos::Center);
            area.draw_text(name, &style, (beside as i32, place))?;
        }
        Ok(())
    })
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
        let long = "a column with a name that is too long by far to stand beside anything";
        let both = intervals("effect", &[interval("a<b", 3.0), interval(long, -4.0)], true);
        assert_eq!(both.as_ref().map(|figure| figure.size.1), Some(124 + 2 * ROW));
        let svg = checked(both);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("<rect").count(), 1 + 2);
        for text in ["a&lt;b", ">a column with a name", "…<", "effect"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(!svg.contains(long));
    }

    #[test]
    fn what_has_no_finite_interval_has_no_figure() {
        assert_eq!(intervals("effect", &[], true), None);
        assert_eq!(intervals("effect", &[interval("a", f64::NAN)], false), None);
        assert_eq!(intervals("effect", &[interval("a", 1.0), interval("b", f64::INFINITY)], true), None);
    }
}
