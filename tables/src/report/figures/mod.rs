//! Figures, and the canvas, colours and axes they share.

mod axis;
mod calibration;
mod curves;
mod drawing;
mod intervals;
mod png;
mod regression;
mod series;
mod surface;
mod svg;

pub use calibration::{calibration, coverage};
pub(crate) use calibration::{reliability, roc};
pub use curves::{CurveSeries, Curves, curves, trace};
pub use drawing::Drawing;
pub(crate) use intervals::{Interval, IntervalSeries, grouped, intervals};
pub use regression::Observed;
pub use series::Series;
pub(crate) use series::{Band, bands};
pub(crate) use surface::{Plane, Regions, Surface, regions, surface};

use axis::{Axis, Labels, Scale};
use drawing::Canvas;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::convert::Infallible;
use std::sync::Once;

/// The size of a figure in units; a pixel of the page has two units.
const SIZE: (u32, u32) = (960, 640);
/// The sum of ascent and descent of text.
const TEXT: i32 = 29;
/// The margin around a figure, the minimum margin on the right, and the minimum distance between labels below
/// the figure.
const MARGIN: u32 = 14;
const RIGHT: u32 = 26;
const APART: f64 = 16.0;
/// The height of a line of a legend.
const LEGEND_LINE: u32 = 38;
/// The widths of lines: of curves, and of bars and outlines.
const THICK: u32 = 4;
const THIN: u32 = 2;
/// The radius of a dot in a scatter plot.
const DOT: i32 = 4;

/// The colours that a dark page replaces; see `html`.
const INK: RGBColor = RGBColor(34, 34, 34);
const GREY: RGBColor = RGBColor(120, 120, 120);
const GRID: RGBColor = RGBColor(228, 228, 228);

/// Colours that are distinct with most kinds of colour vision: the palette of Okabe & Ito, with grey instead of yellow, which is invisible
/// on white.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(34, 34, 34),
    RGBColor(120, 120, 120),
];
const BLUE: RGBColor = COLOURS[0];
const ORANGE: RGBColor = COLOURS[1];

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

/// The font that measures the text of figures and draws the text of PNG files: DejaVu Sans, reduced to Latin
/// and Greek letters and signs.
const FONT: &[u8] = include_bytes!("font/DejaVuSans-subset.ttf");

type Area<'a> = DrawingArea<Canvas<'a>, Shift>;
type Failure = DrawingAreaErrorKind<Infallible>;
type Drawn = Result<(), Failure>;
type Chart<'a, 'b> = ChartContext<'a, Canvas<'b>, Cartesian2d<Scale, Scale>>;

/// Returns the range of finite values with a margin; `None` without finite values.
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

/// Draws on an empty canvas of a size in units; `None` if drawing failed.
fn draw(size: (u32, u32), paint: impl FnOnce(&Area<'_>) -> Drawn) -> Option<Drawing> {
    static REGISTERED: Once = Once::new();
    // If the font cannot be read, figures fail, which the tests detect.
    REGISTERED.call_once(|| drop(register_font("sans-serif", FontStyle::Normal, FONT)));
    let mut drawing = Drawing::empty(size);
    let done = paint(&Canvas(&mut drawing).into_drawing_area());
    done.ok().map(|()| drawing)
}

/// Returns the text style for a position at these parts of the text.
fn lettering(across: HPos, down: VPos) -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().color(&INK).pos(Pos::new(across, down))
}

/// Returns the width of text in units.
fn width(area: &Area<'_>, text: &str) -> Result<u32, Failure> {
    Ok(area.estimate_text_size(text, &lettering(HPos::Left, VPos::Center))?.0)
}

/// Returns the longest beginning of a text that is at most `most` units wide, with an ellipsis if the text is cut.
fn fitted(area: &Area<'_>, text: &str, most: u32) -> Result<String, Failure> {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if width(area, &clean)? <= most {
        return Ok(clean);
    }
    // No letter is narrower than a tenth of its height.
    let mut letters: Vec<char> = clean.chars().take(10 * most as usize / TEXT as usize).collect();
    while !letters.is_empty() {
        letters.pop();
        let cut = letters.iter().chain(&['…']).collect::<String>();
        if width(area, &cut)? <= most {
            return Ok(cut);
        }
    }
    Ok("…".to_owned())
}

/// Draws axes with their labels.
fn frame<'a, 'b>(area: &'a Area<'b>, x: Axis<'_>, y: Axis<'_>) -> Result<Chart<'a, 'b>, Failure> {
    let labels = y.labels();
    let widths: Vec<u32> =
        y.ticks().iter().map(|&tick| width(area, &labels.of(tick))).collect::<Result<_, _>>()?;
    let beside = widths.into_iter().max().unwrap_or(0) + if y.name.is_empty() { 20 } else { 66 };
    let (across, up) = area.dim_in_pixel();
    let names = (fitted(area, x.name, across * 8 / 10)?, fitted(area, y.name, up * 8 / 10)?);
    let below = XLabels::of(area, &x, beside)?;
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(below.right)
        .x_label_area_size(84)
        .y_label_area_size(beside)
        .build_cartesian_2d(x.scale(), y.scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).bold_line_style(GRID.stroke_width(THIN));
    mesh.axis_style(GREY.stroke_width(THIN));
    mesh.label_style(lettering(HPos::Center, VPos::Center)).x_label_offset(0);
    mesh.axis_desc_style(lettering(HPos::Center, VPos::Center));
    mesh.x_label_formatter(&|value| below.of_tick(*value))
        .y_label_formatter(&|value| labels.of(*value))
        .x_desc(names.0)
        .y_desc(names.1)
        .draw()?;
    Ok(chart)
}

/// The labels below a figure: whole, and apart from each other.
struct XLabels {
    labels: Labels,
    ticks: Vec<f64>,
    /// The number of ticks from one label to the next.
    every: usize,
    /// The margin on the right.
    right: u32,
}

impl XLabels {
    /// Places the labels of an axis that begins `beside` units from the left margin.
    fn of(area: &Area<'_>, axis: &Axis<'_>, beside: u32) -> Result<XLabels, Failure> {
        let (labels, ticks) = (axis.labels(), axis.ticks());
        let texts = ticks.iter().map(|&tick| width(area, &labels.of(tick)));
        let texts = texts.collect::<Result<Vec<u32>, _>>()?;
        let inner = f64::from(area.dim_in_pixel().0.saturating_sub(beside + MARGIN + RIGHT));
        let at = |tick: f64| inner * (tick - axis.range.start) / (axis.range.end - axis.range.start);
        let meets = |every: usize| {
            let shown: Vec<usize> = (0..ticks.len()).step_by(every).collect();
            shown.windows(2).any(|pair| {
                let apart = at(ticks[pair[1]]) - at(ticks[pair[0]]);
                apart < f64::from(texts[pair[0]] + texts[pair[1]]) / 2.0 + APART
            })
        };
        let every = (1..=ticks.len().max(1)).find(|&every| !meets(every)).unwrap_or(1);
        let last = ticks.len().checked_sub(1).map(|last| last - last % every);
        let beyond = last.map_or(0.0, |last| at(ticks[last]) + f64::from(texts[last]) / 2.0 - inner);
        Ok(XLabels { labels, ticks, every, right: RIGHT.max(beyond.max(0.0) as u32 + 4) })
    }

    /// Returns the label of a tick; it is empty if it would overlap another label.
    fn of_tick(&self, tick: f64) -> String {
        let index = self.ticks.iter().position(|known| *known == tick);
        match index.is_some_and(|index| !index.is_multiple_of(self.every)) {
            true => String::new(),
            false => self.labels.of(tick),
        }
    }
}

/// Draws the bar of an interval between two vertical positions.
fn whisker(area: &Area<'_>, low: (i32, i32), high: (i32, i32), colour: RGBColor) -> Drawn {
    let style = colour.stroke_width(THIN);
    area.draw(&PathElement::new([low, high], style))?;
    for (x, y) in [low, high] {
        area.draw(&PathElement::new([(x - 6, y), (x + 6, y)], style))?;
    }
    Ok(())
}

/// The sample beside a name in the legend.
#[derive(Clone, Copy)]
enum Sample {
    Line(RGBColor),
    Marker(RGBColor, usize),
    LineAndMarker(RGBColor, usize),
    Cross,
}

/// Draws a cross at a position.
fn cross(area: &Area<'_>, (x, y): (i32, i32)) -> Drawn {
    for ends in [[(x - 7, y - 7), (x + 7, y + 7)], [(x - 7, y + 7), (x + 7, y - 7)]] {
        area.draw(&PathElement::new(ends, INK.stroke_width(THIN)))?;
    }
    Ok(())
}

/// Returns the outline of a marker around a position.
fn marker((x, y): (i32, i32), which: usize) -> Vec<(i32, i32)> {
    MARKERS[which % MARKERS.len()].iter().map(|(dx, dy)| (x + dx, y + dy)).collect()
}

/// Returns the height of a legend with these names.
fn legend_height(names: &[(&str, Sample)]) -> u32 {
    LEGEND_LINE * names.len().div_ceil(legend_columns(names)) as u32 + if names.is_empty() { 0 } else { 10 }
}

/// Returns the number of columns of a legend: three if all names are short.
fn legend_columns(names: &[(&str, Sample)]) -> usize {
    let longest = names.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    if longest <= 16 {
        3.min(names.len().max(1))
    } else if longest <= 28 {
        2
    } else {
        1
    }
}

/// Draws the legend: names beside samples, row by row.
fn legend(area: &Area<'_>, names: &[(&str, Sample)]) -> Drawn {
    let (columns, (left, top)) = (legend_columns(names), area.get_base_pixel());
    let wide = area.dim_in_pixel().0 / columns as u32;
    let root = area.use_screen_coord();
    for (index, (name, sample)) in names.iter().enumerate() {
        let column = (index % columns) as u32 * wide;
        let line = (index / columns) as u32 * LEGEND_LINE;
        let (x, y) = (left + column as i32 + 26, top + line as i32 + LEGEND_LINE as i32 / 2);
        if let Sample::Line(colour) | Sample::LineAndMarker(colour, _) = sample {
            root.draw(&PathElement::new([(x, y), (x + 48, y)], colour.stroke_width(THICK)))?;
        }
        if let Sample::Marker(colour, which) | Sample::LineAndMarker(colour, which) = sample {
            root.draw(&Polygon::new(marker((x + 24, y), *which), colour.filled()))?;
        }
        if let Sample::Cross = sample {
            cross(&root, (x + 24, y))?;
        }
        let text = fitted(&root, name, wide.saturating_sub(96))?;
        root.draw(&Text::new(text, (x + 62, y), lettering(HPos::Left, VPos::Center)))?;
    }
    Ok(())
}

/// Returns the SVG text of a figure, which must exist, after checks that hold for every figure.
#[cfg(test)]
fn checked(figure: Option<Drawing>) -> String {
    let svg = figure.expect("a figure").named("a & b", "what it shows").svg();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("<title>a &amp; b</title>") && svg.contains("role=\"img\""));
    for word in ["NaN", "inf\""] {
        assert!(!svg.contains(word), "{word} in {svg}");
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_fit_and_control_characters_are_blanks() {
        let mut found = Vec::new();
        draw(SIZE, |area| {
            found.push(fitted(area, "short\u{7}", 500)?);
            found.push(fitted(area, &"long ".repeat(100), 200)?);
            found.push(fitted(area, "nothing fits", 1)?);
            assert!(width(area, &found[1])? <= 200 && width(area, "WWWW")? > width(area, "iiii")?);
            Ok(())
        });
        assert_eq!((found[0].as_str(), found[2].as_str()), ("short ", "…"));
        assert!(found[1].starts_with("long long") && found[1].ends_with('…'), "{found:?}");
    }

    /// Returns the SVG text of an empty figure with this horizontal axis.
    fn below(range: std::ops::Range<f64>) -> String {
        draw(SIZE, |area| frame(area, Axis::linear("x", range), Axis::linear("y", 0.0..1.0)).map(|_| ()))
            .expect("a figure")
            .svg()
    }

    #[test]
    fn labels_below_a_figure_are_whole_and_do_not_meet() {
        for end in [1.0, 610_000.0, 600_000.0, 6_100_000.0, 61_000_000.0, 1e12] {
            let mut reached = 0.0;
            let svg = below(0.0..end);
            let labels = svg.lines().filter(|line| line.contains("dy=\"0.93em\" text-anchor=\"middle\""));
            for label in labels.filter(|line| !line.contains("rotate") && !line.contains(">x<")) {
                let x: f64 = label.split('"').nth(1).and_then(|x| x.parse().ok()).expect("a position");
                let words = label.split('>').nth(1).and_then(|rest| rest.split('<').next()).expect("words");
                let mut half = 0.0;
                draw(SIZE, |area| {
                    half = f64::from(width(area, words)?) / 2.0;
                    Ok(())
                });
                assert!(x - half >= reached && x + half <= f64::from(SIZE.0), "{words} of {end}");
                reached = x + half;
            }
            assert!(reached > 0.0, "{svg}");
        }
    }

    #[test]
    fn a_png_file_has_the_dots_of_the_drawing() {
        let drawing = draw((40, 20), |area| {
            area.draw(&Rectangle::new([(10, 5), (30, 15)], BLUE.filled()))?;
            area.draw(&Text::new("a", (0, 0), lettering(HPos::Left, VPos::Top)))
        });
        let file = drawing.expect("a drawing").png();
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n") && file.ends_with(b"IEND\xaeB`\x82"));
        let mut dots = Vec::new();
        let length = u32::from_be_bytes(file[33..37].try_into().expect("four bytes")) as usize;
        assert_eq!(&file[37..41], b"IDAT");
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&file[41..41 + length]), &mut dots)
            .expect("zlib");
        assert_eq!(dots.len(), 20 * (1 + 3 * 40));
        let at = |x: usize, y: usize| &dots[y * 121 + 1 + 3 * x..][..3];
        assert_eq!(at(20, 10), [0, 114, 178]);
        assert_eq!(at(35, 18), [255; 3]);
        assert!((0..10).any(|x| (0..20).any(|y| at(x, y)[0] < 128)), "the letter");
    }
}
