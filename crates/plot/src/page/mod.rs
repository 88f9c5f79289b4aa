//! The frame of a self-contained HTML report.

mod table;

use core::fmt::Write as _;

pub use self::table::{Cell, Table};
use crate::canvas::{Layout, Plot};
use crate::color::STYLE;
use crate::text::escape;

/// The rules of a report.
const PAGE_STYLE: &str = include_str!("page.css");

/// A report: a title, the most important numbers, and sections.
///
/// Everything is in one file that loads nothing and runs no script.
#[derive(Debug, Clone, Default)]
pub struct Page {
    title: String,
    lead: String,
    facts: Vec<(String, String, bool)>,
    sections: Vec<Section>,
    footer: String,
}

impl Page {
    /// A page without sections.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Sets the sentence below the title.
    #[must_use]
    pub fn lead(mut self, text: impl Into<String>) -> Self {
        self.lead = text.into();
        self
    }

    /// Adds a number that is shown large, with its name.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.push((name.into(), value.into(), false));
        self
    }

    /// Adds a number that is shown large and as a problem.
    #[must_use]
    pub fn warning(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.push((name.into(), value.into(), true));
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Sets the last line, such as the command that made the report.
    #[must_use]
    pub fn footer(mut self, text: impl Into<String>) -> Self {
        self.footer = text.into();
        self
    }

    /// Returns the page.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}\n{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n"
        );
        if !self.lead.is_empty() {
            let _ = writeln!(html, "<p class=\"lead\">{}</p>", escape(&self.lead));
        }
        html.push_str("</header>\n");
        if !self.facts.is_empty() {
            html.push_str("<dl class=\"facts\">\n");
            for (name, value, is_warning) in &self.facts {
                let class = if *is_warning { " class=\"warning\"" } else { "" };
                let (name, value) = (escape(name), escape(value));
                let _ = writeln!(html, "<div{class}><dt>{name}</dt><dd>{value}</dd></div>");
            }
            html.push_str("</dl>\n");
        }
        for section in &self.sections {
            let _ = write!(
                html,
                "<section>\n<h2>{}</h2>\n{}</section>\n",
                escape(&section.title),
                section.body
            );
        }
        if !self.footer.is_empty() {
            let _ = writeln!(html, "<footer>{}</footer>", escape(&self.footer));
        }
        html.push_str("</main>\n</body>\n</html>\n");
        html
    }
}

/// A part of a page with a heading.
#[derive(Debug, Clone, Default)]
pub struct Section {
    title: String,
    /// Finished HTML.
    body: String,
}

impl Section {
    /// A section without content.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), body: String::new() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
        self
    }

    /// Adds a plot with its title as caption, for wide and narrow screens.
    #[must_use]
    pub fn figure(mut self, plot: &dyn Plot) -> Self {
        let (wide, narrow) = (plot.to_svg(&Layout::WIDE), plot.to_svg(&Layout::NARROW));
        let _ = writeln!(
            self.body,
            "<figure>\n<figcaption>{}</figcaption>\n<div class=\"wide\">{wide}</div>\n\
             <div class=\"narrow\">{narrow}</div>\n</figure>",
            escape(plot.title())
        );
        self
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: &Table) -> Self {
        self.body.push_str(&table.to_html());
        self
    }

    /// Adds text as it is, such as a configuration file.
    #[must_use]
    pub fn code(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<pre tabindex=\"0\"><code>{}</code></pre>", escape(text));
        self
    }
}
