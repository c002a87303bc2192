//! A figure as the bytes of a PNG file, drawn by the bitmap backend of plotters with an embedded
//! font.

use super::drawing::{Drawing, Ink, Lettering, Mark, Place};
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use plotters::prelude::{DrawingBackend, FontTransform, IntoFont, RGBColor, TextStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{BackendColor, BackendStyle};
use plotters_bitmap::BitMapBackend;
use std::io::Write;

/// The number of dots per unit and direction while drawing. A dot of the file is the mean of a square of
/// these dots, so that edges are smooth.
const FINER: i32 = 3;

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];

/// Returns the bytes of the file.
pub(super) fn file(drawing: &Drawing) -> Vec<u8> {
    let (width, height) = drawing.size;
    let fine = (width * FINER as u32, height * FINER as u32);
    let mut dots = vec![255; 3 * fine.0 as usize * fine.1 as usize];
    {
        let mut bitmap = BitMapBackend::with_buffer(&mut dots, fine);
        // A mark that cannot be drawn is left out. Only text can fail, and its font is embedded in the
        // program.
        drawing.marks.iter().for_each(|mark| {
            let _ = draw(&mut bitmap, mark);
        });
    }
    encoded((width, height), &reduced(&dots, (width as usize, height as usize)))
}

/// A colour with a width.
struct Pen(Ink, u32);

impl BackendStyle for Pen {
    fn color(&self) -> BackendColor {
        BackendColor { alpha: self.0.opacity, rgb: self.0.rgb }
    }

    fn stroke_width(&self) -> u32 {
        self.1
    }
}

fn finer((x, y): Place) -> Place {
    (FINER * x, FINER * y)
}

fn draw<B: DrawingBackend>(bitmap: &mut B, mark: &Mark) -> Option<()> {
    let width = FINER as u32;
    match mark {
        Mark::Line(places, ink, wide) => {
            bitmap.draw_path(places.iter().copied().map(finer), &Pen(*ink, width * wide)).ok()
        }
        Mark::Area(places, ink) => bitmap.fill_polygon(places.iter().copied().map(finer), &Pen(*ink, 1)).ok(),
        Mark::Box(from, to, ink, true) => {
            let (to, from) = (finer(*to), finer(*from));
            bitmap.draw_rect(from, (to.0 - 1, to.1 - 1), &Pen(*ink, 1), true).ok()
        }
        Mark::Box((left, top), (right, bottom), ink, false) => {
            let corners = [(*left, *top), (*right, *top), (*right, *bottom), (*left, *bottom), (*left, *top)];
            bitmap.draw_path(corners.map(finer), &Pen(*ink, 2 * width)).ok()
        }
        Mark::Circle(centre, radius, ink, filled) => {
            bitmap.draw_circle(finer(*centre), radius * width, &Pen(*ink, 2 * width), *filled).ok()
        }
        Mark::Text(words, place, lettering) => {
            bitmap.draw_text(words, &style(*lettering), finer(*place)).ok()
        }
    }
}

fn style(lettering: Lettering) -> TextStyle<'static> {
    let across = match lettering.across {
        ..=-1 => HPos::Left,
        0 => HPos::Center,
        1.. => HPos::Right,
    };
    let down = match lettering.down {
        ..=-1 => VPos::Top,
        0 => VPos::Center,
        1.. => VPos::Bottom,
    };
    let turn = match lettering.quarters {
        0 => FontTransform::None,
        1 => FontTransform::Rotate90,
        2 => FontTransform::Rotate180,
        _ => FontTransform::Rotate270,
    };
    let (red, green, blue) = lettering.ink.rgb;
    let font = ("sans-serif", f64::from(FINER) * lettering.size).into_font().transform(turn);
    font.color(&RGBColor(red, green, blue)).pos(Pos::new(across, down))
}

/// Returns the means of squares of dots.
fn reduced(dots: &[u8], (width, height): (usize, usize)) -> Vec<u8> {
    let side = FINER as usize;
    let mut small = Vec::with_capacity(3 * width * height);
    for row in 0..height {
        for column in 0..width {
            let corner = 3 * (row * side * width * side + column * side);
            for channel in 0..3 {
                let line = |down: usize| corner + channel + 3 * down * width * side;
                let sum: usize = (0..side)
                    .flat_map(|down| (0..side).map(move |right| line(down) + 3 * right))
                    .map(|at| usize::from(dots[at]))
                    .sum();
                small.push((sum / (side * side)) as u8);
            }
        }
    }
    small
}

/// Returns the file with these red, green and blue dots (PNG specification, third edition).
fn encoded((width, height): (u32, u32), dots: &[u8]) -> Vec<u8> {
    let mut file = SIGNATURE.to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    // Eight bits of each colour, the only method of compression and of filters, not interlaced.
    header.extend([8, 2, 0, 0, 0]);
    chunk(&mut file, b"IHDR", &header);
    let mut lines = ZlibEncoder::new(Vec::new(), Compression::default());
    let line = 3 * width.max(1) as usize;
    // A line starts with its filter, here none. Writing to memory cannot fail.
    dots.chunks_exact(line).for_each(|dots| {
        let _ = lines.write_all(&[0]).and_then(|()| lines.write_all(dots));
    });
    chunk(&mut file, b"IDAT", &lines.finish().unwrap_or_default());
    chunk(&mut file, b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    file.extend((content.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend(name);
    file.extend(content);
    let mut sum = Crc::new();
    sum.update(&file[start..]);
    file.extend(sum.sum().to_be_bytes());
}
