//! Axes with ticks, labels and a grid, and marks at positions on them.

use super::axis::Axis;
use super::drawing::{Area, Ink, Lettering, Place, fitted};
use super::{GREY, GRID, TEXT, THIN, marker, width};
use std::ops::Range;

/// The margin around a figure, the minimum margin on the right, and the minimum distance between labels below
/// the figure.
const MARGIN: u32 = 14;
const RIGHT: u32 = 26;
const APART: f64 = 16.0;

const BELOW: u32 = 84;

pub(super) type Point = (f64, f64);

pub(super) struct Chart<'a> {
    /// The area of the figure, to which marks at points are cut.
    pub(super) whole: Area<'a>,
    area: Area<'a>,
    x: Range<f64>,
    y: Range<f64>,
}

impl<'a> Chart<'a> {
    pub(super) fn new(area: Area<'a>, x: Axis<'_>, y: Axis<'_>) -> Chart<'a> {
        let ticks = y.labelled_ticks();
        let widest = ticks.iter().map(|(_, label)| width(label, TEXT)).max().unwrap_or(0);
        let beside = widest + if y.name.is_empty() { 20 } else { 66 };
        let (across, up) = area.size();
        let below = XLabels::of(&area, &x, beside);
        let chart = Chart::between(area, &x, &y, beside, below.right);
        let inner = chart.area;
        let left = Lettering { upwards: true, ..Lettering::BELOW };
        let (high, middle) = (inner.size().1 as i32, MARGIN as i32 + area.left);
        inner.text(&fitted(y.name, up * 8 / 10), (middle, inner.top + high / 2), left);
        chart.frame_x(&x, across * 8 / 10);
        let levels: Vec<i32> = ticks.iter().map(|(tick, _)| chart.place((0.0, *tick)).1).collect();
        for &level in &levels {
            inner.line([(inner.left, level), (inner.right - 1, level)], GRID, THIN);
        }
        let (edge, tick) = (inner.left - 1, chart.tick());
        area.line([(edge, inner.top), (edge, inner.bottom - 1)], GREY, THIN);
        for (&level, (_, label)) in levels.iter().zip(&ticks) {
            area.text(label, (inner.left - 2 * tick, level), Lettering::END);
            area.line([(edge - tick, level), (edge, level)], GREY, THIN);
        }
        chart.label_x(&below);
        chart
    }

    /// Draws a horizontal axis above named rows, which take `beside` units on the left.
    pub(super) fn of_rows(area: Area<'a>, x: Axis<'_>, rows: Range<f64>, beside: u32) -> Chart<'a> {
        let below = XLabels::of(&area, &x, beside);
        let chart = Chart::between(area, &x, &Axis::linear("", rows), beside, below.right);
        chart.frame_x(&x, (area.size().0 - beside).max(area.size().0 / 2));
        chart.label_x(&below);
        chart
    }

    fn between(area: Area<'a>, x: &Axis<'_>, y: &Axis<'_>, beside: u32, right: u32) -> Chart<'a> {
        let inner = Area {
            left: area.left + (MARGIN + beside) as i32,
            top: area.top + MARGIN as i32,
            right: area.right - right as i32,
            bottom: area.bottom - (MARGIN + BELOW) as i32,
            ..area
        };
        Chart { whole: area, area: inner, x: x.range.clone(), y: y.range.clone() }
    }

    /// Returns the length of a tick, which is shorter in a small figure.
    fn tick(&self) -> i32 {
        let (width, height) = self.area.size();
        (0.05 * f64::from(width.min(height))).round().min(5.0) as i32
    }

    /// Draws the name of the horizontal axis, which is at most `most` units wide, and its grid.
    fn frame_x(&self, x: &Axis<'_>, most: u32) {
        let Area { left, bottom, .. } = self.area;
        let place = (left + self.area.size().0 as i32 / 2, bottom + BELOW as i32);
        self.area.text(&fitted(x.name, most), place, Lettering::ABOVE);
        for tick in x.ticks() {
            let (at, _) = self.place((tick, 0.0));
            self.area.line([(at, self.area.bottom - 1), (at, self.area.top)], GRID, THIN);
        }
    }

    fn label_x(&self, labels: &XLabels) {
        let Area { left, right, bottom, .. } = self.area;
        let below = Area { top: bottom, bottom: bottom + BELOW as i32, ..self.area };
        below.line([(left, bottom), (right - 1, bottom)], GREY, THIN);
        for (index, (tick, label)) in labels.ticks.iter().enumerate() {
            let (at, _) = self.place((*tick, 0.0));
            if index.is_multiple_of(labels.every) {
                below.text(label, (at, bottom + 2 * self.tick()), Lettering::BELOW);
            }
            below.line([(at, bottom), (at, bottom + self.tick())], GREY, THIN);
        }
    }

    pub(super) fn place(&self, (x, y): Point) -> Place {
        let share = |value: f64, range: &Range<f64>| (value - range.start) / (range.end - range.start);
        let Area { left, top, right, bottom, .. } = self.area;
        // Rounding errors do not move a point past a unit.
        let across = (f64::from(right - 1 - left) * share(x, &self.x) + 1e-3).floor() as i32;
        let up = (f64::from(bottom - 1 - top) * share(y, &self.y) + 1e-3).floor() as i32;
        (left.saturating_add(across), (bottom - 1).saturating_sub(up))
    }

    pub(super) fn line(&self, points: impl IntoIterator<Item = Point>, ink: Ink, width: u32) {
        self.area.line(points.into_iter().map(|point| self.place(point)), ink, width);
    }

    pub(super) fn polygon(&self, points: impl IntoIterator<Item = Point>, ink: Ink) {
        self.area.polygon(points.into_iter().map(|point| self.place(point)), ink);
    }

    pub(super) fn rectangle(&self, corners: [Point; 2], ink: Ink) {
        self.area.rectangle(corners.map(|corner| self.place(corner)), ink);
    }

    pub(super) fn disc(&self, point: Point, radius: i32, ink: Ink) {
        self.area.disc(self.place(point), radius, ink);
    }

    pub(super) fn marker(&self, point: Point, which: usize, ink: Ink) {
        self.whole.polygon(marker(self.place(point), which), ink);
    }

    /// Draws the bar of an interval between two vertical positions.
    pub(super) fn whisker(&self, x: f64, (low, high): (f64, f64), ink: Ink) {
        let ends = [low, high].map(|y| self.place((x, y)));
        self.whole.line(ends, ink, THIN);
        for (x, y) in ends {
            self.whole.line([(x - 6, y), (x + 6, y)], ink, THIN);
        }
    }

    /// Draws a mark at the lower edge for each input inside the figure.
    pub(super) fn marks(&self, inputs: &[f64], height: i32, ink: Ink) {
        for &input in inputs.iter().filter(|input| self.x.contains(input)) {
            let (x, foot) = self.place((input, self.y.start));
            self.whole.line([(x, foot), (x, foot - height)], ink, THIN);
        }
    }
}

/// The labels below a figure: whole, and apart from each other.
struct XLabels {
    ticks: Vec<(f64, String)>,
    /// The number of ticks from one label to the next.
    every: usize,
    right: u32,
}

impl XLabels {
    /// Places the labels of an axis that begins `beside` units from the left margin.
    fn of(area: &Area<'_>, axis: &Axis<'_>, beside: u32) -> XLabels {
        let ticks = axis.labelled_ticks();
        let texts: Vec<u32> = ticks.iter().map(|(_, label)| width(label, TEXT)).collect();
        let inner = f64::from(area.size().0.saturating_sub(beside + MARGIN + RIGHT));
        let at = |tick: f64| inner * (tick - axis.range.start) / (axis.range.end - axis.range.start);
        let meets = |every: usize| {
            let shown: Vec<usize> = (0..ticks.len()).step_by(every).collect();
            shown.windows(2).any(|pair| {
                let apart = at(ticks[pair[1]].0) - at(ticks[pair[0]].0);
                apart < f64::from(texts[pair[0]] + texts[pair[1]]) / 2.0 + APART
            })
        };
        let every = (1..=ticks.len().max(1)).find(|&every| !meets(every)).unwrap_or(1);
        let last = ticks.len().checked_sub(1).map(|last| last - last % every);
        let beyond = last.map_or(0.0, |last| at(ticks[last].0) + f64::from(texts[last]) / 2.0 - inner);
        XLabels { ticks, every, right: RIGHT.max(beyond.max(0.0) as u32 + 4) }
    }
}
