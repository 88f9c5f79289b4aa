//! Tables of a report.

use core::fmt::Write as _;

use crate::text::escape;

/// The most rows of a table. The page shows the number of further rows.
const ROWS_MAX: usize = 1000;

/// A cell of a table.
#[derive(Debug, Clone)]
pub enum Cell {
    /// Text, aligned left.
    Text(String),
    /// A number, aligned right.
    Number(String),
    /// A number that shows a problem.
    Warning(String),
}

impl Cell {
    /// Text, aligned left.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number, aligned right.
    pub fn number(text: impl Into<String>) -> Self {
        Self::Number(text.into())
    }

    /// A number that shows a problem if `is_problem`.
    pub fn checked(text: impl Into<String>, is_problem: bool) -> Self {
        if is_problem { Self::Warning(text.into()) } else { Self::Number(text.into()) }
    }
}

/// A table with a header.
#[derive(Debug, Clone, Default)]
pub struct Table {
    caption: String,
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows. The first column names its row.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { header, ..Self::default() }
    }

    /// Sets the caption.
    #[must_use]
    pub fn caption(mut self, text: impl Into<String>) -> Self {
        self.caption = text.into();
        self
    }

    /// Adds a row.
    #[must_use]
    pub fn row(mut self, cells: impl IntoIterator<Item = Cell>) -> Self {
        self.rows.push(cells.into_iter().collect());
        self
    }

    /// Returns the table. It can be scrolled sideways on its own, also with the keyboard.
    pub(crate) fn to_html(&self) -> String {
        let mut html = "<div class=\"scroll\" tabindex=\"0\"><table>\n".to_owned();
        if !self.caption.is_empty() {
            let _ = writeln!(html, "<caption>{}</caption>", escape(&self.caption));
        }
        html.push_str("<thead><tr>");
        for (place, name) in self.header.iter().enumerate() {
            let is_text = self
                .rows
                .first()
                .and_then(|row| row.get(place))
                .is_none_or(|cell| matches!(cell, Cell::Text(_)));
            let class = if is_text { "" } else { " class=\"number\"" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(name));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in self.rows.iter().take(ROWS_MAX) {
            html.push_str("<tr>");
            for (place, cell) in row.iter().enumerate() {
                let _ = match cell {
                    Cell::Text(text) if place == 0 => {
                        write!(html, "<th scope=\"row\">{}</th>", escape(text))
                    }
                    Cell::Text(text) => write!(html, "<td>{}</td>", escape(text)),
                    Cell::Number(text) => {
                        write!(html, "<td class=\"number\">{}</td>", escape(text))
                    }
                    Cell::Warning(text) => {
                        write!(html, "<td class=\"number warning\">{}</td>", escape(text))
                    }
                };
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table></div>\n");
        if let Some(more) = self.rows.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
            let _ = writeln!(html, "<p>{more} more rows are not shown.</p>");
        }
        html
    }
}
