//! The figure of a probability over two inputs with the data on it; no models.

use super::{Axis, MOST_POINTS, SIZE, draw, frame};
use plotters::prelude::*;

/// The most cells drawn along either axis; more only make the file larger.
const MOST_CELLS: usize = 60;

/// The number of steps of the colour scale; neighbours in a row on the same step are drawn as one.
const STEPS: f64 = 40.0;

/// The colours of the probabilities 0 and 1, with white half-way.
const ENDS: [RGBColor; 2] = [RGBColor(67, 147, 195), RGBColor(230, 145, 56)];

/// The colours of negative and positive points, darker than the map.
const CLASSES: [RGBColor; 2] = [RGBColor(8, 48, 107), RGBColor(127, 39, 4)];

/// The probability of the positive class over a rectangle of two inputs, and data points of both classes.
#[derive(Clone, Debug, Default)]
pub struct Surface {
    /// The names of the axes.
    pub axes: (String, String),
    /// The range of the horizontal input.
    pub x: (f64, f64),
    /// The range of the vertical input.
    pub y: (f64, f64),
    /// The numbers of columns and rows of cells.
    pub resolution: (usize, usize),
    /// The probability at the centre of each cell: row after row, the one of the lowest vertical input first. A cell that
    /// is not a number stays white.
    pub probability: Vec<f64>,
    /// Data points: both inputs and whether the class is the positive one. Those outside the rectangle are left out.
    pub points: Vec<(f64, f64, bool)>,
}

/// The map from blue at 0 over white to orange at 1, its contour at one half, negative points as blue circles and positive
/// ones as brown triangles.
///
/// At most 60 × 60 cells and 2000 points are drawn, taken evenly from those given. `None` when there are no cells, when
/// their number is not that of the resolution, or when a range is empty.
pub fn surface(surface: &Surface) -> Option<String> {
    let cells = Cells::of(surface)?;
    let inside = |&&(x, y, _): &&(f64, f64, bool)| {
        (surface.x.0..=surface.x.1).contains(&x) && (surface.y.0..=surface.y.1).contains(&y)
    };
    let points: Vec<_> = surface.points.iter().filter(inside).collect();
    let stride = points.len().div_ceil(MOST_POINTS).max(1);
    let shown = |class: bool| points.iter().step_by(stride).filter(move |point| point.2 == class);
    draw(SIZE, |area| {
        let x = Axis::linear(&surface.axes.0, surface.x.0..surface.x.1);
        let mut chart = frame(area, x, Axis::linear(&surface.axes.1, surface.y.0..surface.y.1))?;
        chart.draw_series((0..cells.rows).flat_map(|row| cells.runs(row)))?;
        let contour = cells.contour();
        chart.draw_series(contour.into_iter().map(|ends| PathElement::new(ends, BLACK)))?;
        let [negative, positive] = CLASSES.map(|colour| colour.filled());
        chart.draw_series(shown(false).map(|point| Circle::new((point.0, point.1), 2, negative)))?;
        let triangles = shown(true).map(|point| TriangleMarker::new((point.0, point.1), 4, positive));
        chart.draw_series(triangles).map(|_| ())
    })
}

/// The cells that are drawn.
struct Cells {
    columns: usize,
    rows: usize,
    probability: Vec<f64>,
    low: (f64, f64),
    /// The size of a cell.
    size: (f64, f64),
}

impl Cells {
    fn of(surface: &Surface) -> Option<Cells> {
        let (all_columns, all_rows) = surface.resolution;
        if surface.probability.is_empty()
            || all_columns.checked_mul(all_rows) != Some(surface.probability.len())
        {
            return None;
        }
        let (columns, rows) = (all_columns.min(MOST_CELLS), all_rows.min(MOST_CELLS));
        let width = |(low, high): (f64, f64)| {
            let width: f64 = high - low;
            (width.is_finite() && width > 0.0).then_some(width)
        };
        let size = (width(surface.x)? / columns as f64, width(surface.y)? / rows as f64);
        // The given cell in which the centre of the drawn one lies.
        let nearest = |index: usize, drawn: usize, all: usize| (2 * index + 1) * all / (2 * drawn);
        let cell = |index: usize| {
            let (row, column) =
                (nearest(index / columns, rows, all_rows), nearest(index % columns, columns, all_columns));
            surface.probability[row * all_columns + column].clamp(0.0, 1.0)
        };
        let probability = (0..columns * rows).map(cell).collect();
        Some(Cells { columns, rows, probability, low: (surface.x.0, surface.y.0), size })
    }

    /// The inputs so many cells from the low corner.
    fn place(&self, column: f64, row: f64) -> (f64, f64) {
        (self.low.0 + column * self.size.0, self.low.1 + row * self.size.1)
    }

    /// The coloured rectangles of a row, in the order of drawing.
    fn runs(&self, row: usize) -> Vec<Rectangle<(f64, f64)>> {
        let probability = &self.probability[row * self.columns..][..self.columns];
        let colours: Vec<RGBColor> = probability.iter().map(|&probability| colour(probability)).collect();
        let (mut runs, mut start) = (Vec::new(), 0);
        for run in colours.chunk_by(|left, right| left == right) {
            let end = start + run.len();
            // Each reaches under its neighbours, which are drawn later: no seams where a viewer scales the figure.
            let right = (end as f64 + 0.5).min(self.columns as f64);
            let top = (row as f64 + 1.5).min(self.rows as f64);
            let corners = [self.place(start as f64, row as f64), self.place(right, top)];
            runs.push(Rectangle::new(corners, run[0].filled()));
            start = end;
        }
        runs
    }

    /// The lines on which the probability is one half, in pieces (marching squares on the centres of the cells).
    fn contour(&self) -> Vec<[(f64, f64); 2]> {
        let mut pieces = Vec::new();
        for row in 1..self.rows {
            for column in 1..self.columns {
                self.square(column - 1, row - 1, &mut pieces);
            }
        }
        pieces
    }

    /// The pieces between the centres of four cells, of which the lower left one is given.
    fn square(&self, column: usize, row: usize, pieces: &mut Vec<[(f64, f64); 2]>) {
        // Around the square from the lower left: an edge lies between each corner and the next.
        let corners = [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(right, up)| {
            let (column, row) = (column + right, row + up);
            (column as f64 + 0.5, row as f64 + 0.5, self.probability[row * self.columns + column] - 0.5)
        });
        if corners.iter().any(|corner| corner.2.is_nan()) {
            return;
        }
        let crossing = |edge: usize| {
            let (from, to) = (corners[edge], corners[(edge + 1) % 4]);
            let share = from.2 / (from.2 - to.2);
            let crosses = (from.2 >= 0.0) != (to.2 >= 0.0);
            crosses.then(|| self.place(from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1)))
        };
        let crossings: Vec<(f64, f64)> = (0..4).filter_map(crossing).collect();
        match crossings[..] {
            [a, b] => pieces.push([a, b]),
            // A saddle: the lower left corner is joined to the opposite one when the middle is on their side.
            [bottom, right, top, left] => {
                let middle: f64 = corners.iter().map(|corner| corner.2).sum();
                let joined = (middle >= 0.0) == (corners[0].2 >= 0.0);
                let ends = if joined { [right, left] } else { [left, right] };
                pieces.extend([[bottom, ends[0]], [top, ends[1]]]);
            }
            _ => {}
        }
    }
}

/// The colour of a probability, white when it is not a number.
fn colour(probability: f64) -> RGBColor {
    if probability.is_nan() {
        return WHITE;
    }
    let probability = (probability * STEPS).round() / STEPS;
    let end = ENDS[usize::from(probability >= 0.5)];
    let strength = (2.0 * probability - 1.0).abs();
    let mix = |end: u8| (255.0 + strength * (f64::from(end) - 255.0)).round() as u8;
    RGBColor(mix(end.0), mix(end.1), mix(end.2))
}

#[cfg(test)]
mod tests {
    use super::super::checked;
    use super::*;

    /// A map of a function of both inputs on [0, 1]².
    fn of(columns: usize, rows: usize, probability: impl Fn(f64, f64) -> f64) -> Surface {
        let centre = |index: usize, of: usize| (index as f64 + 0.5) / of as f64;
        let cell =
            |index: usize| probability(centre(index % columns, columns), centre(index / columns, rows));
        Surface {
            axes: ("first".into(), "second".into()),
            x: (0.0, 1.0),
            y: (0.0, 1.0),
            resolution: (columns, rows),
            probability: (0..columns * rows).map(cell).collect(),
            points: vec![(0.2, 0.3, true), (0.8, 0.1, false), (0.5, 0.5, false), (2.0, 0.5, true)],
        }
    }

    #[test]
    fn it_holds_cells_contour_points_and_names() {
        let svg = checked(surface(&of(4, 3, |x, _| x)));
        assert!(svg.contains("first") && svg.contains("second"));
        assert_eq!(svg.matches("<rect").count(), 1 + 12);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("<polygon").count(), 1);
        assert!(svg.contains("#08306B") && svg.contains("#7F2704"));
    }

    #[test]
    fn nothing_to_draw_is_no_figure() {
        assert_eq!(surface(&Surface::default()), None);
        let whole = of(4, 3, |x, _| x);
        let broken = [
            Surface { resolution: (3, 3), ..whole.clone() },
            Surface { resolution: (usize::MAX, 2), ..whole.clone() },
            Surface { x: (1.0, 1.0), ..whole.clone() },
            Surface { y: (0.0, f64::NAN), ..whole },
        ];
        for surface_ in broken {
            assert_eq!(surface(&surface_), None, "{surface_:?}");
        }
    }

    #[test]
    fn cells_that_are_not_numbers_stay_white() {
        let map = of(4, 4, |x, y| if x < 0.5 { f64::NAN } else { y });
        // Each row is one white half and one of the row's colour; the background is white too.
        let svg = checked(surface(&map));
        assert_eq!(svg.matches("<rect").count(), 1 + 2 * 4);
        let white = svg.lines().filter(|line| line.starts_with("<rect") && line.contains("#FFFFFF"));
        assert_eq!(white.count(), 1 + 4);
    }

    #[test]
    fn fine_maps_and_many_points_stay_small() {
        let mut map = of(400, 300, |x, y| 0.5 + 0.5 * (9.0 * x).sin() * (9.0 * y).cos());
        map.points = (0..50_000).map(|i| (i as f64 / 5e4, 0.5, i % 2 == 0)).collect();
        let svg = checked(surface(&map));
        assert!(svg.matches("<rect").count() <= 1 + MOST_CELLS * MOST_CELLS);
        let points = svg.matches("<circle").count() + svg.matches("<polygon").count();
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&points), "{points}");
        assert!(svg.len() < 900_000, "{}", svg.len());
    }

    #[test]
    fn the_contour_is_where_the_probability_is_one_half() {
        let radius = |x: f64, y: f64| (x - 0.5).hypot(y - 0.5);
        let map = of(50, 50, |x, y| (0.5 + (radius(x, y) - 0.3)).clamp(0.0, 1.0));
        let pieces = Cells::of(&map).expect("cells").contour();
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
        let saddle = |corner: f64| Surface {
            x: (0.0, 2.0),
            y: (0.0, 2.0),
            resolution: (2, 2),
            probability: vec![corner, 0.25, 0.25, corner],
            ..Surface::default()
        };
        // Both pieces cut off the corners on the lower right and the upper left, or the other two.
        for (corner, joined) in [(0.9, true), (0.6, false)] {
            let pieces = Cells::of(&saddle(corner)).expect("cells").contour();
            assert_eq!(pieces.len(), 2);
            for [a, b] in pieces {
                let falls = (b.0 - a.0) * (b.1 - a.1) < 0.0;
                assert_eq!(falls, !joined, "{corner}: {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn colours_run_from_blue_over_white_to_orange() {
        assert_eq!([colour(0.0), colour(1.0)], ENDS);
        assert_eq!(colour(0.5), RGBColor(255, 255, 255));
    }
}
