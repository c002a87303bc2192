//! The elements of a figure: marks that the crate plotters draws on a canvas, written as SVG or
//! PNG.

use super::svg;
use plotters::prelude::DrawingBackend;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind, FontTransform,
};
use std::convert::Infallible;

/// The number of canvas units per pixel of the page, so that positions at whole units are finer than pixels.
pub(super) const UNITS: u32 = 2;

/// A figure: marks in drawing order, with a title and a description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// Width and height in units.
    pub(super) size: (u32, u32),
    pub(super) marks: Vec<Mark>,
    title: String,
    description: String,
    /// True for a map of pale colours, on which dark marks stay dark.
    map: bool,
}

/// A position on the canvas, in units from the upper left corner.
pub(super) type Place = BackendCoord;

/// A mark.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mark {
    /// A line through positions, with a width.
    Line(Vec<Place>, Ink, u32),
    /// The area inside a line through positions.
    Area(Vec<Place>, Ink),
    /// A rectangle from its upper left to its lower right corner, filled or as an outline.
    Box(Place, Place, Ink, bool),
    /// A circle with a radius, filled or as an outline.
    Circle(Place, u32, Ink, bool),
    /// Text at a position.
    Text(String, Place, Lettering),
}

/// A colour and its opacity, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    pub(super) rgb: (u8, u8, u8),
    pub(super) opacity: f64,
}

/// The style of text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lettering {
    pub(super) ink: Ink,
    /// Ascent and descent together, in units.
    pub(super) size: f64,
    /// The part of the text at its position: −1 the beginning, 0 the middle, 1 the end.
    pub(super) across: i8,
    /// The vertical part of the text at its position: −1 the top, 0 the middle, 1 the bottom.
    pub(super) down: i8,
    /// Quarters of a turn to the right.
    pub(super) quarters: u8,
}

impl Drawing {
    /// Creates an empty canvas of a size in units.
    pub(super) fn empty(size: (u32, u32)) -> Drawing {
        Drawing { size, ..Drawing::default() }
    }

    /// Adds a title and a description, for readers who cannot see the figure.
    pub fn named(mut self, title: &str, description: &str) -> Drawing {
        (self.title, self.description) = (title.to_owned(), description.to_owned());
        self
    }

    /// Marks the figure as a map of pale colours.
    pub(super) fn into_map(self) -> Drawing {
        Drawing { map: true, ..self }
    }

    /// Returns true for a map of pale colours, on which dark marks stay dark on a dark page.
    pub(in crate::report) fn is_map(&self) -> bool {
        self.map
    }

    /// Returns the title.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Returns the description.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// Returns the figure as an SVG document on a white background.
    pub fn svg(&self) -> String {
        svg::document(self)
    }

    /// Returns the figure as a PNG file on a white background, with two dots per pixel of the page.
    pub fn png(&self) -> Vec<u8> {
        super::png::file(self)
    }
}

/// The canvas that plotters draws on.
pub(super) struct Canvas<'a>(pub(super) &'a mut Drawing);

fn ink(colour: BackendColor) -> Ink {
    Ink { rgb: colour.rgb, opacity: colour.alpha }
}

type Done = Result<(), DrawingErrorKind<Infallible>>;

impl Canvas<'_> {
    /// Adds a mark, unless it is invisible.
    fn keep(&mut self, colour: BackendColor, mark: Mark) -> Done {
        if colour.alpha > 0.0 {
            self.0.marks.push(mark);
        }
        Ok(())
    }
}

impl DrawingBackend for Canvas<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.0.size
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        Ok(())
    }

    fn draw_pixel(&mut self, place: BackendCoord, colour: BackendColor) -> Done {
        self.keep(colour, Mark::Box(place, (place.0 + 1, place.1 + 1), ink(colour), true))
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done {
        let colour = style.color();
        self.keep(colour, Mark::Box(upper_left, bottom_right, ink(colour), fill))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done {
        let mut places: Vec<Place> = path.into_iter().collect();
        places.dedup();
        if places.len() < 2 {
            return Ok(());
        }
        let colour = style.color();
        self.keep(colour, Mark::Line(places, ink(colour), style.stroke_width()))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Done {
        let colour = style.color();
        self.keep(colour, Mark::Circle(center, radius, ink(colour), fill))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        vert: I,
        style: &S,
    ) -> Done {
        let colour = style.color();
        self.keep(colour, Mark::Area(vert.into_iter().collect(), ink(colour)))
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, pos: BackendCoord) -> Done {
        if text.is_empty() {
            return Ok(());
        }
        let colour = style.color();
        let lettering = Lettering {
            ink: ink(colour),
            size: style.size(),
            across: match style.anchor().h_pos {
                HPos::Left => -1,
                HPos::Center => 0,
                HPos::Right => 1,
            },
            down: match style.anchor().v_pos {
                VPos::Top => -1,
                VPos::Center => 0,
                VPos::Bottom => 1,
            },
            quarters: match style.transform() {
                FontTransform::None => 0,
                FontTransform::Rotate90 => 1,
                FontTransform::Rotate180 => 2,
                FontTransform::Rotate270 => 3,
            },
        };
        self.keep(colour, Mark::Text(text.to_owned(), pos, lettering))
    }
}
