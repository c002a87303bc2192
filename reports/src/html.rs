//! One self-contained HTML page of tables and figures, for light and dark screens, phones and paper; all text is escaped here.

use super::figures::Drawing;
use sparsegp::model::Severity;
use std::fmt::Write;

/// The style sheet. On a dark screen it replaces the colours of `figures`, which it refers to by their
/// values.
const STYLE: &str = include_str!("style.css");

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// The parts of the page; several parts have headings, and links to them at the top.
    pub parts: Vec<PagePart>,
    /// The last section.
    pub end: Section,
}

/// A part of a page, about one fit.
#[derive(Clone, Debug, Default)]
pub struct PagePart {
    /// The heading of the part.
    pub title: String,
    /// The subject of the part, in a sentence or two.
    pub lead: String,
    /// The most important numbers.
    pub cards: Vec<Card>,
    /// Its sections.
    pub sections: Vec<Section>,
}

/// An important number.
#[derive(Clone, Debug, Default)]
pub struct Card {
    /// The name of the number.
    pub name: String,
    /// The number.
    pub value: String,
    /// The numbers to compare it with.
    pub beside: String,
}

/// A heading and the blocks below it.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// A block of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A message of a severity.
    Message(Severity, String),
    /// A table.
    Table(TableBlock),
    /// A table whose last column explains the rows; on a narrow screen the explanation is below its row.
    Explained(TableBlock),
    /// Figures, side by side if there is room.
    Figures(Vec<Figure>),
    /// Text to copy unchanged.
    Code(String),
    /// Blocks that open with a click on their name.
    Details(String, Vec<Block>),
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct TableBlock {
    /// The caption; may be empty.
    pub caption: String,
    /// Rows of cells; the first row is the header.
    pub rows: Vec<Vec<String>>,
}

/// A figure with its caption.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its file, without an extension: letters, digits and dashes.
    pub name: String,
    /// The drawing, with its title.
    pub drawing: Drawing,
    /// The caption, which explains how to read the figure.
    pub caption: String,
}

impl Figure {
    /// Creates a figure, if there is a drawing.
    pub fn of(name: &str, title: &str, caption: &str, drawing: Option<Drawing>) -> Option<Figure> {
        let drawing = drawing?.named(title, caption);
        Some(Figure { name: slug(name), drawing, caption: caption.to_owned() })
    }
}

impl Page {
    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        let several = self.parts.len() > 1;
        if several {
            page.push_str("<nav>\n");
            for (index, part) in self.parts.iter().enumerate() {
                let _ = writeln!(page, "<a href=\"#part{index}\">{}</a>", escape(&part.title));
            }
            page.push_str("</nav>\n");
        }
        for (index, part) in self.parts.iter().enumerate() {
            if several {
                let _ = writeln!(page, "<h2 class=\"part\" id=\"part{index}\">{}</h2>", escape(&part.title));
            }
            part.write(&mut page, several);
        }
        self.end.write(&mut page, "h2");
        page.push_str("</body>\n</html>\n");
        page
    }
}

impl PagePart {
    /// Returns the figures in order.
    pub fn figures(&self) -> Vec<&Figure> {
        let mut all = Vec::new();
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.for_each(|block| block.add_figures(&mut all));
        all
    }

    fn write(&self, page: &mut String, below: bool) {
        if !self.lead.is_empty() {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(page, "<p class=\"lead\">{}</p>", escape(&self.lead));
        }
        if !self.cards.is_empty() {
            page.push_str("<div class=\"cards\">\n");
            for Card { name, value, beside } in &self.cards {
                let [name, value, beside] = [name, value, beside].map(|text| escape(text));
                let _ = writeln!(
                    page,
                    "<div class=\"card\"><span>{name}</span><strong>{value}</strong><small>{beside}</small></div>"
                );
            }
            page.push_str("</div>\n");
        }
        let tag = if below { "h3" } else { "h2" };
        self.sections.iter().for_each(|section| section.write(page, tag));
    }
}

impl Section {
    /// Creates a section.
    pub fn new(title: &str, blocks: Vec<Block>) -> Section {
        Section { title: title.to_owned(), blocks }
    }

    fn write(&self, page: &mut String, tag: &str) {
        if self.blocks.is_empty() {
            return;
        }
        let _ = writeln!(page, "<section>\n<{tag}>{}</{tag}>", escape(&self.title));
        self.blocks.iter().for_each(|block| block.write(page));
        page.push_str("</section>\n");
    }
}

impl Block {
    fn add_figures<'a>(&'a self, all: &mut Vec<&'a Figure>) {
        match self {
            Block::Figures(figures) => all.extend(figures),
            Block::Details(_, blocks) => blocks.iter().for_each(|block| block.add_figures(all)),
            _ => {}
        }
    }

    fn write(&self, page: &mut String) {
        let _ = match self {
            Block::Text(text) => writeln!(page, "<p>{}</p>", escape(text)),
            Block::Message(severity, text) => {
                let (class, word) = match severity {
                    Severity::Problem => ("problem", "Problem: "),
                    Severity::Warning => ("warning", "Warning: "),
                    Severity::Note => ("note", ""),
                };
                writeln!(page, "<p class=\"{class}\" role=\"note\">{word}{}</p>", escape(text))
            }
            Block::Code(text) => writeln!(page, "<pre><code>{}</code></pre>", escape(text)),
            Block::Table(table) | Block::Explained(table) => {
                table.write(page, matches!(self, Block::Explained(_)));
                Ok(())
            }
            Block::Figures(figures) => {
                page.push_str("<div class=\"figures\">\n");
                figures.iter().for_each(|figure| figure.write(page));
                page.push_str("</div>\n");
                Ok(())
            }
            Block::Details(name, blocks) => {
                let _ = writeln!(page, "<details>\n<summary>{}</summary>", escape(name));
                blocks.iter().for_each(|block| block.write(page));
                writeln!(page, "</details>")
            }
        };
    }
}

impl Figure {
    fn write(&self, page: &mut String) {
        let class = if self.drawing.map { " class=\"map\"" } else { "" };
        let _ = writeln!(
            page,
            "<figure{class}>\n{}<figcaption><strong>{}</strong> {}</figcaption>\n</figure>",
            self.drawing.svg(),
            escape(&self.drawing.title),
            escape(&self.caption)
        );
    }
}

impl TableBlock {
    /// Creates a table with a caption, which may be empty.
    pub fn new(caption: &str, rows: Vec<Vec<String>>) -> TableBlock {
        TableBlock { caption: caption.to_owned(), rows }
    }

    fn write(&self, page: &mut String, explained: bool) {
        let Some((header, rows)) = self.rows.split_first() else { return };
        // On a narrow screen the rows are grids, which lose their table roles unless these are given.
        let role = |name: &str| if explained { format!(" role=\"{name}\"") } else { String::new() };
        let (group, line) = (role("rowgroup"), role("row"));
        let columns = header.len().saturating_sub(2);
        let class = match explained {
            true => format!(" class=\"explained\" style=\"--columns:{columns}\""),
            false => String::new(),
        };
        let _ = writeln!(page, "<div class=\"scroll\" tabindex=\"0\">\n<table{class}{}>", role("table"));
        if !self.caption.is_empty() {
            let _ = writeln!(page, "<caption>{}</caption>", escape(&self.caption));
        }
        let _ = write!(page, "<thead{group}><tr{line}>");
        header.iter().for_each(|cell| {
            let _ = write!(page, "<th scope=\"col\"{}>{}</th>", role("columnheader"), escape(cell));
        });
        let _ = write!(page, "</tr></thead>\n<tbody{group}>\n");
        for row in rows {
            let _ = write!(page, "<tr{line}>");
            for (column, cell) in row.iter().enumerate() {
                let cell = escape(cell);
                let _ = match column {
                    0 => write!(page, "<th scope=\"row\"{}>{cell}</th>", role("rowheader")),
                    _ => write!(page, "<td{}>{cell}</td>", role("cell")),
                };
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
    }
}

/// Escapes text for use between tags of HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Characters that HTML and XML do not allow.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns a block of the figures that exist, if any.
pub(crate) fn figures(all: impl IntoIterator<Item = Option<Figure>>) -> Vec<Block> {
    let figures: Vec<Figure> = all.into_iter().flatten().collect();
    if figures.is_empty() { Vec::new() } else { vec![Block::Figures(figures)] }
}

/// Returns a file name: lower-case letters and digits, with dashes between them.
pub(super) fn slug(text: &str) -> String {
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let slug: String = words.collect::<Vec<_>>().join("-").chars().take(48).collect();
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(blocks: Vec<Block>) -> Page {
        let section = Section::new("<script>alert(1)</script>", blocks);
        let card = Card { name: "<i>".into(), value: "<u>".into(), beside: "<s>".into() };
        let part =
            PagePart { title: "<em>".into(), lead: "<q>".into(), cards: vec![card], sections: vec![section] };
        Page { title: "a < b".into(), parts: vec![part.clone(), part], end: Section::default() }
    }

    #[test]
    fn user_text_cannot_become_markup() {
        let rows = vec![vec!["a&b".into(), "c".into()], vec!["\"<img src=x>\"".into(), "<tt>".into()]];
        let evil = || "<script>it's\u{0}\u{ffff}</script>".to_owned();
        let blocks = vec![
            Block::Explained(TableBlock { caption: "<a>".into(), rows }),
            Block::Text(evil()),
            Block::Message(Severity::Problem, evil()),
            Block::Message(Severity::Note, evil()),
            Block::Code(evil()),
            Block::Details(evil(), vec![Block::Text(evil())]),
        ];
        let figure = figures([Figure::of(&evil(), &evil(), &evil(), Some(Drawing::default()))]);
        let page = of([blocks, figure].concat()).html();
        for tag in ["script", "img", "i", "u", "s", "em", "q", "tt", "a"] {
            assert!(
                !page.contains(&format!("<{tag}>")) && !page.contains(&format!("<{tag} src")),
                "{tag}: {page}"
            );
        }
        for text in ["a &lt; b", "a&amp;b", "&quot;&lt;img src=x&gt;&quot;", "it&#39;s\u{fffd}\u{fffd}&lt;"] {
            assert!(page.contains(text), "{text} in {page}");
        }
    }

    #[test]
    fn names_of_files_are_letters_digits_and_dashes() {
        assert_eq!([slug("A/b <c>..d "), slug("über"), slug("..")], ["a-b-c-d", "ber", ""]);
        assert!(slug(&"ab ".repeat(99)).len() <= 48);
    }
}
