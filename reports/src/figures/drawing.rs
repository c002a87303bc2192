//! A figure as SVG text, the areas on which its marks are drawn, and the width of text: advances of the letters of DejaVu Sans, which place
//! labels so that none meets another.

use super::{INK, TEXT};
use crate::html::escape;
use std::cell::RefCell;
use std::fmt::Write;

/// The number of canvas units per pixel of the page, so that positions at whole units are finer than pixels.
const UNITS: u32 = 2;

/// The size of a letter's em square over ascent and descent together, as in DejaVu Sans.
const EM: f64 = 1.0 / 1.164;

/// A figure: marks in drawing order, with a title and a description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    pub(super) size: (u32, u32),
    marks: String,
    pub(crate) title: String,
    description: String,
    /// True for a map of pale colours, on which dark marks stay dark on a dark page.
    pub(crate) map: bool,
}

impl Drawing {
    /// Adds a title and a description, for readers who cannot see the figure.
    pub fn named(mut self, title: &str, description: &str) -> Drawing {
        (self.title, self.description) = (title.to_owned(), description.to_owned());
        self
    }

    /// Returns the figure as an SVG document on a white background, which has the class `ground`, so that a page can hide it.
    pub fn svg(&self) -> String {
        let (width, height) = self.size;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n<title>{}</title>\n<desc>{}</desc>\n\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n{}</svg>\n",
            width / UNITS,
            height / UNITS,
            escape(&self.title),
            escape(&self.description),
            self.marks
        )
    }
}

/// Returns the figure that `paint` draws on an empty canvas of a size in units.
pub(super) fn draw(size: (u32, u32), paint: impl FnOnce(Area<'_>)) -> Drawing {
    let marks = RefCell::new(String::new());
    paint(Area { marks: &marks, left: 0, top: 0, right: size.0 as i32, bottom: size.1 as i32 });
    Drawing { size, marks: marks.into_inner(), ..Drawing::default() }
}

/// A position on the canvas, in units from the upper left corner.
pub(super) type Place = (i32, i32);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    rgb: (u8, u8, u8),
    opacity: f64,
}

impl Ink {
    /// Creates an opaque colour from its parts of red, green and blue.
    pub(super) const fn new(red: u8, green: u8, blue: u8) -> Ink {
        Ink { rgb: (red, green, blue), opacity: 1.0 }
    }

    pub(super) fn faint(self, opacity: f64) -> Ink {
        Ink { opacity, ..self }
    }

    pub(super) fn map(self, part: impl Fn(u8) -> u8) -> Ink {
        let (red, green, blue) = self.rgb;
        Ink { rgb: (part(red), part(green), part(blue)), ..self }
    }

    /// Returns the attributes of SVG that paint an element's `what`.
    pub(super) fn paint(self, what: &str) -> String {
        let (red, green, blue) = self.rgb;
        let colour = format!("{what}=\"#{red:02X}{green:02X}{blue:02X}\"");
        match self.opacity < 1.0 {
            true => format!("{colour} {what}-opacity=\"{}\"", (self.opacity * 1000.0).round() / 1000.0),
            false => colour,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Lettering {
    /// Ascent and descent together, in units.
    pub(super) size: i32,
    /// The part of the line that stands at its position, in the words of SVG.
    pub(super) anchor: &'static str,
    /// The distance from the position to the baseline, in ems.
    pub(super) drop: f64,
    pub(super) upwards: bool,
}

impl Lettering {
    /// Level text beside its position, which is half-way between the text's top and bottom.
    pub(super) const START: Lettering = Lettering { size: TEXT, anchor: "start", drop: 0.35, upwards: false };
    pub(super) const MIDDLE: Lettering = Lettering { anchor: "middle", ..Lettering::START };
    pub(super) const END: Lettering = Lettering { anchor: "end", ..Lettering::START };
    /// Text below and above its position, which is in the middle of the line.
    pub(super) const BELOW: Lettering = Lettering { drop: 0.93, ..Lettering::MIDDLE };
    pub(super) const ABOVE: Lettering = Lettering { drop: -0.23, ..Lettering::MIDDLE };
}

/// A rectangle of a canvas. Marks outside of it are moved to its edge.
#[derive(Clone, Copy)]
pub(super) struct Area<'a> {
    pub(super) marks: &'a RefCell<String>,
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

impl<'a> Area<'a> {
    pub(super) fn size(&self) -> (u32, u32) {
        (self.left.abs_diff(self.right), self.top.abs_diff(self.bottom))
    }

    /// Returns the area down to a height, and the rest below it.
    pub(super) fn split_below(&self, height: u32) -> (Area<'a>, Area<'a>) {
        let edge = self.top + height as i32;
        (Area { bottom: edge, ..*self }, Area { top: edge, ..*self })
    }

    /// Returns the area up to a width, and the rest beside it.
    pub(super) fn split_beside(&self, width: u32) -> (Area<'a>, Area<'a>) {
        let edge = self.left + width as i32;
        (Area { right: edge, ..*self }, Area { left: edge, ..*self })
    }

    fn inside(&self, (x, y): Place) -> Place {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }

    fn add(&self, mark: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.marks.borrow_mut(), "{mark}");
    }

    fn points(&self, places: impl IntoIterator<Item = Place>) -> Vec<String> {
        places.into_iter().map(|place| self.inside(place)).map(|(x, y)| format!("{x},{y}")).collect()
    }

    pub(super) fn line(&self, places: impl IntoIterator<Item = Place>, ink: Ink, width: u32) {
        let mut points = self.points(places);
        points.dedup();
        if points.len() > 1 {
            let (stroke, points) = (ink.paint("stroke"), points.join(" "));
            self.add(format_args!(
                "<polyline fill=\"none\" {stroke} stroke-width=\"{width}\" points=\"{points}\"/>"
            ));
        }
    }

    pub(super) fn polygon(&self, places: impl IntoIterator<Item = Place>, ink: Ink) {
        let points = self.points(places).join(" ");
        self.add(format_args!("<polygon {} points=\"{points}\"/>", ink.paint("fill")));
    }

    pub(super) fn rectangle(&self, corners: [Place; 2], ink: Ink) {
        self.rect(corners, &ink.paint("fill"));
    }

    pub(super) fn outline(&self, corners: [Place; 2], ink: Ink) {
        self.rect(corners, &format!("fill=\"none\" {} stroke-width=\"{UNITS}\"", ink.paint("stroke")));
    }

    fn rect(&self, corners: [Place; 2], paint: &str) {
        let [from, to] = corners.map(|corner| self.inside(corner));
        let (x, y) = (from.0.min(to.0), from.1.min(to.1));
        let (width, height) = (from.0.abs_diff(to.0), from.1.abs_diff(to.1));
        self.add(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {paint}/>"));
    }

    pub(super) fn disc(&self, place: Place, radius: i32, ink: Ink) {
        let (x, y) = self.inside(place);
        self.add(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" {}/>", ink.paint("fill")));
    }

    pub(super) fn text(&self, words: &str, (x, y): Place, style: Lettering) {
        if words.is_empty() {
            return;
        }
        let Lettering { anchor, drop, .. } = style;
        let turn = if style.upwards { format!(" transform=\"rotate(270,{x},{y})\"") } else { String::new() };
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"{drop}em\" text-anchor=\"{anchor}\" font-size=\"{:.1}\" {}{turn}>{}</text>",
            f64::from(style.size) * EM,
            INK.paint("fill"),
            escape(words)
        ));
    }
}

/// Returns the longest beginning of a text that is at most `most` units wide, with an ellipsis if the text is cut.
pub(super) fn fitted(text: &str, most: u32) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if width(&clean, TEXT) <= most {
        return clean;
    }
    // No letter is narrower than a tenth of its height.
    let mut letters: Vec<char> = clean.chars().take(10 * most as usize / TEXT as usize).collect();
    while !letters.is_empty() {
        letters.pop();
        let cut = letters.iter().chain(&['…']).collect::<String>();
        if width(&cut, TEXT) <= most {
            return cut;
        }
    }
    "…".to_owned()
}

/// Ascent and descent together, in the units of [`ADVANCES`].
const HEIGHT: f32 = 2384.0;

const OTHER: u16 = 1229;

/// Returns the width of text whose ascent and descent together are `size` units.
pub(super) fn width(text: &str, size: i32) -> u32 {
    let scale = size as f32 / HEIGHT;
    text.chars().map(|letter| scale * f32::from(advance(letter))).sum::<f32>() as u32
}

fn advance(letter: char) -> u16 {
    ADVANCES.iter().find(|(_, letters)| letters.contains(letter)).map_or(OTHER, |(advance, _)| *advance)
}

/// Advances, with the letters that have them: Latin and Greek letters, and signs.
#[rustfmt::skip]
const ADVANCES: [(u16, &str); 88] = [
    (366, "ⁱ"), (465, "′"), (563, "'"), (569, "ijlìíîïĩīĭįıĵĺļ"), (582, "ł"), (604, "IJÌÍÎÏĨĪĬĮİĴΙΪ"),
    (651, " ,.\u{a0}·‘’‚‛"), (690, "/:;\\|¦"), (693, "ίι"), (700, "ŀ"), (721, "fſ"), (739, "-\u{ad}‐\u{2011}"),
    (768, "ľ"), (799, "()[]"), (803, "tţťŧ"), (821, "!¡²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"), (842, "rŕŗř"), (942, "\""),
    (965, "ªº"), (1024, "*_`§¨¯°´¸–"), (1059, "∂"), (1061, "“”„‟"), (1067, "sśŝşš"), (1075, "zźżž"), (1087, "?¿"),
    (1107, "έε"), (1114, "ζ"), (1126, "cçćĉċč"), (1138, "ĳ"), (1141, "LĹĻĽĿΓ"), (1142, "ξ"), (1144, "ν"), (1151, "Ł"),
    (1178, "F"), (1183, "χ"), (1185, "ΰυ"), (1186, "kķĸ"), (1202, "ς"), (1207, "κ"), (1208, "Ĳ•"), (1212, "vxyýÿŷγλ"),
    (1233, "πτ"), (1235, "PΡ"), (1239, "Þ"), (1251, "TYÝŢŤŦŶŸΤΥΫ"), (1253, "o«»ðòóôõöøōŏőδθο"), (1255, "aàáâãäåāăą"),
    (1260, "eèéêëēĕėęě"), (1290, "ß"), (1294, "EÈÉÊËĒĔĖĘĚΕΞΣ"), (1298, "hnuñùúûüĥńņňŋũūŭůűųήησ"),
    (1300, "SbdgpqþďđĝğġģŚŜŞŠρ"), (1303, "$0123456789{}¢£¤¥µ¶μ‒€"), (1305, "√"), (1307, "β"), (1343, "KĶΚ"),
    (1350, "άα"), (1351, "φψ"), (1380, "∑"), (1401, "AVÀÁÂÃÄÅĀĂĄΑΔΛ"), (1403, "XZŹŻŽΖΧ"), (1405, "BΒ"),
    (1423, "RħŔŖŘ"), (1430, "CÇĆĈĊČ"), (1499, "UÙÚÛÜŨŪŬŮŰŲ"), (1532, "NÑŃŅŇŊΝ"), (1540, "HĤΗΠ"), (1565, "Ω"),
    (1577, "DĎ"), (1587, "GÐĐĜĞĠĢ"), (1597, "&"), (1612, "OQÒÓÔÕÖØŌŎŐΘΟΦΨ"), (1666, "ŉ"), (1675, "wŵ"), (1706, "∞"),
    (1715, "ω"), (1716, "#+<=>^~¬±×÷←↑→↓−≈≠≤≥"), (1767, "MΜ"), (1876, "Ħ"), (1946, "%"), (1985, "¼½¾"), (1995, "mÆ"),
    (2011, "æ"), (2025, "WŴ"), (2048, "@©®—―…"), (2095, "œ"), (2191, "Œ"), (2748, "‰"),
];
