//! One HTML page of tables and inline figures that needs nothing else to show; all text is escaped here.

use std::fmt::Write;

/// A part of the page: a heading, a table of names and values, and figures.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Rows of cells; the first row is the header.
    pub table: Vec<Vec<String>>,
    /// More tables, each with what it is of; the first row is the header.
    pub tables: Vec<(String, Vec<Vec<String>>)>,
    /// Sentences under the tables.
    pub notes: Vec<String>,
    /// Figures as SVG, each with its caption. The markup is trusted: it comes from this module's neighbours, which
    /// escape what they draw.
    pub figures: Vec<(String, String)>,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .75rem;border-bottom:1px solid #ddd;text-align:left}\
figure{display:inline-block;margin:.5rem 1rem .5rem 0}figcaption{color:#555;font-size:.9rem}svg{max-width:100%;height:auto}";

/// The page.
pub fn page(title: &str, sections: &[Section]) -> String {
    let title = escape(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for section in sections {
        section.write(&mut page);
    }
    page.push_str("</body>\n</html>\n");
    page
}

impl Section {
    // Writing to a string cannot fail, so the results are not looked at.
    fn write(&self, page: &mut String) {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", escape(&self.title));
        write_table(page, &self.table);
        for (about, table) in &self.tables {
            let _ = writeln!(page, "<h3>{}</h3>", escape(about));
            write_table(page, table);
        }
        for note in &self.notes {
            let _ = writeln!(page, "<p>{}</p>", escape(note));
        }
        for (svg, caption) in &self.figures {
            let _ =
                writeln!(page, "<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>", escape(caption));
        }
        page.push_str("</section>\n");
    }
}

fn write_table(page: &mut String, table: &[Vec<String>]) {
    if table.is_empty() {
        return;
    }
    page.push_str("<table>\n");
    for (index, row) in table.iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<{tag}>{}</{tag}>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

/// Text as it may stand between tags.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters have no place in HTML.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_text_cannot_become_markup() {
        let section = Section {
            title: "<script>alert(1)</script>".into(),
            table: vec![vec!["a&b".into()], vec!["\"<img src=x>\"".into()]],
            tables: vec![("<i>".into(), vec![vec!["<u>".into()]])],
            notes: vec!["it's\u{0}".into()],
            figures: vec![("<svg></svg>".into(), "<b>".into())],
        };
        let page = page("a < b", &[section]);
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<b>"), "{page}");
        assert!(!page.contains("<i>") && !page.contains("<u>"), "{page}");
        for text in
            ["a &lt; b", "a&amp;b", "&quot;&lt;img src=x&gt;&quot;", "it&#39;s\u{fffd}", "<svg></svg>"]
        {
            assert!(page.contains(text), "{text} in {page}");
        }
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = page("t", &[Section::default()]);
        for word in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
