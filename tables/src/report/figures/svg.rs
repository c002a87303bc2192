//! A figure as SVG text.

use super::drawing::{Drawing, Ink, Lettering, Mark, Place, UNITS};
use crate::report::html::escape;
use std::fmt::Write;

/// The size of a letter's em square over ascent and descent together, as in DejaVu Sans.
const EM: f64 = 1.0 / 1.164;

/// Returns the document. Its background has the class `ground`, so that a page can hide it.
pub(super) fn document(drawing: &Drawing) -> String {
    let (width, height) = drawing.size;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n<title>{}</title>\n<desc>{}</desc>\n\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n",
        width / UNITS,
        height / UNITS,
        escape(drawing.title()),
        escape(drawing.description())
    );
    drawing.marks.iter().for_each(|mark| write_mark(&mut text, mark));
    text.push_str("</svg>\n");
    text
}

fn write_mark(text: &mut String, mark: &Mark) {
    let _ = match mark {
        Mark::Line(places, ink, width) => {
            let stroke = paint("stroke", *ink);
            writeln!(
                text,
                "<polyline fill=\"none\" {stroke} stroke-width=\"{width}\" points=\"{}\"/>",
                points(places)
            )
        }
        Mark::Area(places, ink) => {
            writeln!(text, "<polygon {} points=\"{}\"/>", paint("fill", *ink), points(places))
        }
        Mark::Box(from, to, ink, filled) => {
            let (x, y) = (from.0.min(to.0), from.1.min(to.1));
            let (width, height) = (from.0.abs_diff(to.0), from.1.abs_diff(to.1));
            let paint = painted(*ink, *filled);
            writeln!(text, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {paint}/>")
        }
        Mark::Circle((x, y), radius, ink, filled) => {
            let paint = painted(*ink, *filled);
            writeln!(text, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" {paint}/>")
        }
        Mark::Text(words, place, lettering) => writeln!(text, "{}", letters(words, *place, *lettering)),
    };
}

fn letters(words: &str, (x, y): Place, lettering: Lettering) -> String {
    let anchor = match lettering.across {
        ..=-1 => "start",
        0 => "middle",
        1.. => "end",
    };
    // The distance from the position to the baseline, in ems.
    let drop = match lettering.down {
        ..=-1 => 0.93,
        0 => 0.35,
        1.. => -0.23,
    };
    let turn = match lettering.quarters {
        0 => String::new(),
        quarters => format!(" transform=\"rotate({},{x},{y})\"", 90 * u32::from(quarters)),
    };
    format!(
        "<text x=\"{x}\" y=\"{y}\" dy=\"{drop}em\" text-anchor=\"{anchor}\" font-size=\"{:.1}\" {}{turn}>{}</text>",
        lettering.size * EM,
        paint("fill", lettering.ink),
        escape(words)
    )
}

fn painted(ink: Ink, filled: bool) -> String {
    match filled {
        true => paint("fill", ink),
        false => format!("fill=\"none\" {} stroke-width=\"{UNITS}\"", paint("stroke", ink)),
    }
}

fn paint(what: &str, Ink { rgb: (red, green, blue), opacity }: Ink) -> String {
    let colour = format!("{what}=\"#{red:02X}{green:02X}{blue:02X}\"");
    match opacity < 1.0 {
        true => format!("{colour} {what}-opacity=\"{}\"", (opacity * 1000.0).round() / 1000.0),
        false => colour,
    }
}

fn points(places: &[Place]) -> String {
    let mut text = String::with_capacity(9 * places.len());
    for (index, (x, y)) in places.iter().enumerate() {
        let _ = write!(text, "{}{x},{y}", if index == 0 { "" } else { " " });
    }
    text
}
