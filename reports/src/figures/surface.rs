//! Figures over two inputs: a number as a map of colours, and the regions of classes, with data and
//! inducing inputs.

use super::chart::Point;
use super::{
    Area, Axis, Chart, DOT, Drawing, GREY, INK, Ink, Lettering, MOST_POINTS, SIZE, Sample, THIN, colour,
    cross, draw, ends, fitted, legend, legend_height, marker,
};
use std::ops::Range;

/// The maximum number of cells along either axis; more would only enlarge the file.
const MOST_CELLS: usize = 60;

/// The number of steps of the colour scale. Neighbouring cells of a row on the same step are drawn as one
/// rectangle.
const STEPS: f64 = 40.0;

/// The colours of the lowest and the highest number, with white half-way.
const ENDS: [Ink; 2] = [Ink::new(67, 147, 195), Ink::new(230, 145, 56)];

const SCALE: u32 = 150;

/// A rectangle of two inputs, divided into cells, with the points in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plane {
    pub axes: (String, String),
    pub x: (f64, f64),
    pub y: (f64, f64),
    pub resolution: (usize, usize),
    /// Data points: both inputs, and the index of the class in [`Plane::classes`]. Points outside the rectangle are left out.
    pub points: Vec<(f64, f64, usize)>,
    pub classes: Vec<String>,
    pub inducing: Vec<(f64, f64)>,
}

/// Draws a number over a rectangle as a map from blue for the lowest number over white to orange for the highest, with its scale, and
/// points with a marker for each class. `values` are the numbers at the centre of each cell, row after row from the lowest vertical input;
/// a cell without a number stays white. Colours go from the smallest to the largest number or, with a line at its middle, over `range`.
///
/// At most 60 × 60 cells and 2000 points are drawn, taken evenly from those given. `None` without cells, if their number does not match
/// the resolution, or if a range is empty.
pub(crate) fn surface(
    plane: &Plane,
    name: &str,
    values: &[f64],
    range: Option<(f64, f64)>,
) -> Option<Drawing> {
    let found = || ends(values.iter().copied().filter(|value| value.is_finite()));
    let (low, high) = range.unwrap_or_else(found);
    if !(high - low).is_finite() || high <= low {
        return None;
    }
    let cell = |cell: usize| {
        let share = ((values[cell] - low) / (high - low)).clamp(0.0, 1.0);
        (share, shade(share))
    };
    let cells = Cells::of(plane, values.len(), &cell)?;
    let contour = if range.is_some() { cells.contour() } else { Vec::new() };
    Some(draw_map(plane, &cells, contour, Some((name, low..high))))
}

/// Draws the region of every class in its colour, paler where the class is less probable, with points of all classes.
///
/// `cells` are the most probable class and its probability at the centre of each cell, row after row from the lowest. Cells and
/// points have the limits of [`surface`], which also explains `None`.
pub(crate) fn regions(plane: &Plane, cells: &[(usize, f64)]) -> Option<Drawing> {
    let classes = plane.classes.len().max(1) as f64;
    let paint = |cell: usize| {
        let (class, probability) = cells[cell];
        // The colour is white if the class is no more probable than the others.
        let strength = ((probability * classes - 1.0) / (classes - 1.0).max(1.0)).clamp(0.0, 1.0);
        let strength = (strength * STEPS / 4.0).round() / (STEPS / 4.0);
        (f64::NAN, mixed(colour(class), 0.1 + 0.5 * strength))
    };
    Some(draw_map(plane, &Cells::of(plane, cells.len(), &paint)?, Vec::new(), None))
}

/// Draws a map of pale colours with a contour, points and a legend, and the scale of its colours if it has one.
fn draw_map(
    plane: &Plane,
    cells: &Cells,
    contour: Vec<[Point; 2]>,
    scale: Option<(&str, Range<f64>)>,
) -> Drawing {
    let names = plane.names();
    let mut drawing = draw((SIZE.0, SIZE.1 + legend_height(&names)), |area| {
        let (upper, lower) = area.split_below(SIZE.1);
        let (map, beside) = upper.split_beside(SIZE.0 - scale.as_ref().map_or(0, |_| SCALE));
        let x = Axis::linear(&plane.axes.0, plane.x.0..plane.x.1);
        let chart = Chart::new(map, x, Axis::linear(&plane.axes.1, plane.y.0..plane.y.1));
        cells.draw(&chart);
        contour.into_iter().for_each(|ends| chart.line(ends, INK, THIN));
        plane.draw_points(&chart);
        if let Some((name, range)) = scale {
            draw_scale(&beside, name, range);
        }
        legend(&lower, &names);
    });
    drawing.map = true;
    drawing
}

/// Draws the colour scale, with the numbers at both ends and in the middle.
fn draw_scale(area: &Area<'_>, name: &str, range: Range<f64>) {
    let Area { left, top, .. } = *area;
    let (low, width) = (range.start, range.end - range.start);
    let (from, to) = (SIZE.1 as i32 - 98, 56);
    let steps = STEPS as i32;
    for step in 0..steps {
        let level = |step: i32| top + from - (from - to) * step / steps;
        let corners = [(left, level(step)), (left + 30, level(step + 1))];
        area.rectangle(corners, shade((f64::from(step) + 0.5) / STEPS));
    }
    area.outline([(left, top + to), (left + 30, top + from)], GREY);
    for (tick, label) in Axis::linear("", range).labelled_ticks() {
        let place = top + from - (f64::from(from - to) * (tick - low) / width).round() as i32;
        area.text(&label, (left + 38, place), Lettering::START);
    }
    let name = fitted(name, SCALE + 60);
    area.text(&name, (left + SCALE as i32 - 16, top + 24), Lettering::END);
}

impl Plane {
    pub fn centre(&self, cell: usize) -> [f64; 2] {
        let (columns, rows) = self.resolution;
        let at = |(low, high): (f64, f64), index: usize, count: usize| {
            low + (high - low) * (index as f64 + 0.5) / count as f64
        };
        [at(self.x, cell % columns, columns), at(self.y, cell / columns, rows)]
    }

    fn names(&self) -> Vec<(&str, Sample)> {
        let classes = self.classes.iter().enumerate();
        let classes = classes.map(|(class, name)| (name.as_str(), Sample::Marker(dark(class), class)));
        let inducing = (!self.inducing.is_empty()).then_some(("inducing inputs", Sample::Cross));
        classes.chain(inducing).collect()
    }

    fn draw_points(&self, chart: &Chart<'_>) {
        let inside =
            |x: f64, y: f64| (self.x.0..=self.x.1).contains(&x) && (self.y.0..=self.y.1).contains(&y);
        let points: Vec<_> = self.points.iter().filter(|point| inside(point.0, point.1)).collect();
        for &&(x, y, class) in points.iter().step_by(points.len().div_ceil(MOST_POINTS).max(1)) {
            let at = chart.place((x, y));
            if self.classes.is_empty() {
                chart.whole.disc(at, DOT - 1, INK.faint(0.6));
            } else {
                let small = marker((0, 0), class).map(|(dx, dy)| (at.0 + dx * 2 / 3, at.1 + dy * 2 / 3));
                chart.whole.polygon(small, dark(class).faint(0.8));
            }
        }
        let stride = self.inducing.len().div_ceil(MOST_POINTS).max(1);
        for &(x, y) in self.inducing.iter().filter(|at| inside(at.0, at.1)).step_by(stride) {
            cross(&chart.whole, chart.place((x, y)));
        }
    }
}

/// Returns the darker shade for points of a class on its region.
fn dark(class: usize) -> Ink {
    colour(class).map(|part| (f64::from(part) * 0.6).round() as u8)
}

fn mixed(colour: Ink, strength: f64) -> Ink {
    colour.map(|part| (255.0 + strength * (f64::from(part) - 255.0)).round() as u8)
}

struct Cells {
    columns: usize,
    rows: usize,
    /// The share of each cell, whose contour may be drawn, and its colour.
    values: Vec<(f64, Ink)>,
    low: (f64, f64),
    size: (f64, f64),
}

impl Cells {
    /// Samples `count` cells; `value` returns the share and the colour of a cell.
    fn of(plane: &Plane, count: usize, value: &dyn Fn(usize) -> (f64, Ink)) -> Option<Cells> {
        let (all_columns, all_rows) = plane.resolution;
        if count == 0 || all_columns.checked_mul(all_rows) != Some(count) {
            return None;
        }
        let (columns, rows) = (all_columns.min(MOST_CELLS), all_rows.min(MOST_CELLS));
        let width = |(low, high): (f64, f64)| {
            let width: f64 = high - low;
            (width.is_finite() && width > 0.0).then_some(width)
        };
        let size = (width(plane.x)? / columns as f64, width(plane.y)? / rows as f64);
        // The index of the given cell that contains the centre of the drawn cell.
        let nearest = |index: usize, drawn: usize, all: usize| (2 * index + 1) * all / (2 * drawn);
        let cell = |index: usize| {
            let (row, column) =
                (nearest(index / columns, rows, all_rows), nearest(index % columns, columns, all_columns));
            value(row * all_columns + column)
        };
        let values = (0..columns * rows).map(cell).collect();
        Some(Cells { columns, rows, values, low: (plane.x.0, plane.y.0), size })
    }

    /// Returns the inputs at a distance, in cells, from the lower left corner.
    fn place(&self, column: f64, row: f64) -> Point {
        (self.low.0 + column * self.size.0, self.low.1 + row * self.size.1)
    }

    /// Draws the cells row by row, with one rectangle for neighbouring cells of one colour.
    fn draw(&self, chart: &Chart<'_>) {
        for (row, values) in self.values.chunks(self.columns).enumerate() {
            let mut start = 0;
            for run in values.chunk_by(|left, right| left.1 == right.1) {
                let end = start + run.len();
                // Each rectangle extends below the next one, which is drawn later, so that no seams appear if a
                // viewer scales the figure.
                let right = (end as f64 + 0.5).min(self.columns as f64);
                let top = (row as f64 + 1.5).min(self.rows as f64);
                chart.rectangle([self.place(start as f64, row as f64), self.place(right, top)], run[0].1);
                start = end;
            }
        }
    }

    /// Returns the lines at which the share is one half, in pieces (marching squares on the centres of the cells).
    fn contour(&self) -> Vec<[Point; 2]> {
        let lower_left = (1..self.rows).flat_map(|row| (1..self.columns).map(move |column| (column, row)));
        lower_left.flat_map(|(column, row)| self.square(column - 1, row - 1)).collect()
    }

    /// Returns the pieces between the centres of four cells; `column` and `row` are the lower left cell.
    fn square(&self, column: usize, row: usize) -> Vec<[Point; 2]> {
        // Around the square from the lower left: an edge lies between each corner and the next.
        let corners = [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(right, up)| {
            let (column, row) = (column + right, row + up);
            (column as f64 + 0.5, row as f64 + 0.5, self.values[row * self.columns + column].0 - 0.5)
        });
        if corners.iter().any(|corner| corner.2.is_nan()) {
            return Vec::new();
        }
        let crossing = |edge: usize| {
            let (from, to) = (corners[edge], corners[(edge + 1) % 4]);
            let share = from.2 / (from.2 - to.2);
            let crosses = (from.2 >= 0.0) != (to.2 >= 0.0);
            crosses.then(|| self.place(from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1)))
        };
        let crossings: Vec<Point> = (0..4).filter_map(crossing).collect();
        match crossings[..] {
            [a, b] => vec![[a, b]],
            // A saddle: the lower left corner is joined to the opposite corner if the middle is on their side
            // of the contour.
            [bottom, right, top, left] => {
                let middle: f64 = corners.iter().map(|corner| corner.2).sum();
                let joined = (middle >= 0.0) == (corners[0].2 >= 0.0);
                let ends = if joined { [right, left] } else { [left, right] };
                vec![[bottom, ends[0]], [top, ends[1]]]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the colour of a share of the way from the lowest to the highest number; white for NaN.
fn shade(share: f64) -> Ink {
    if share.is_nan() {
        return Ink::new(255, 255, 255);
    }
    let share = (share * STEPS).round() / STEPS;
    mixed(ENDS[usize::from(share >= 0.5)], (2.0 * share - 1.0).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the contour of a function of both inputs on [0, 1]².
    fn contour(resolution: (usize, usize), share: impl Fn(f64, f64) -> f64) -> Vec<[Point; 2]> {
        let plane = Plane { x: (0.0, 1.0), y: (0.0, 1.0), resolution, ..Plane::default() };
        let value = |cell: usize| {
            let [x, y] = plane.centre(cell);
            (share(x, y), INK)
        };
        Cells::of(&plane, resolution.0 * resolution.1, &value).expect("cells").contour()
    }

    #[test]
    fn the_contour_is_where_the_probability_is_one_half() {
        let radius = |x: f64, y: f64| (x - 0.5).hypot(y - 0.5);
        let pieces = contour((50, 50), |x, y| (0.5 + (radius(x, y) - 0.3)).clamp(0.0, 1.0));
        assert!(pieces.len() > 50);
        for (x, y) in pieces.iter().flatten() {
            assert!((radius(*x, *y) - 0.3).abs() < 1e-3, "({x}, {y})");
        }
        // A closed line: every end is an end of exactly two pieces.
        let near = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1) < 1e-9;
        for end in pieces.iter().flatten() {
            assert_eq!(pieces.iter().flatten().filter(|other| near(end, other)).count(), 2);
        }
    }

    #[test]
    fn a_saddle_has_two_pieces_that_part_the_lesser_diagonal() {
        // Both pieces cut off the corners on the lower right and the upper left, or the other two.
        for (corner, joined) in [(0.9, true), (0.6, false)] {
            let pieces = contour((2, 2), |x, y| if (x < 0.5) == (y < 0.5) { corner } else { 0.25 });
            assert_eq!(pieces.len(), 2);
            for [a, b] in pieces {
                let falls = (b.0 - a.0) * (b.1 - a.1) < 0.0;
                assert_eq!(falls, !joined, "{corner}: {a:?} {b:?}");
            }
        }
    }
}
