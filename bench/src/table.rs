//! Results as a table.

use core::iter::repeat_n;

/// Rows of cells; the first column to the left, the others to the right. Valid Markdown.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a line of headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints all rows in aligned columns.
    pub(crate) fn print(&self) {
        print!("{}", self.render());
    }

    fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let blanks = repeat_n(' ', width - cell.chars().count());
                text.push_str("| ");
                if column == 0 {
                    text.push_str(cell);
                    text.extend(blanks);
                } else {
                    text.extend(blanks);
                    text.push_str(cell);
                }
                text.push(' ');
            }
            text.push_str("|\n");
            if index == 0 {
                text.push_str(&rule(&widths));
            }
        }
        text
    }
}

/// The line under the headings.
fn rule(widths: &[usize]) -> String {
    let mut text = String::new();
    for (column, width) in widths.iter().enumerate() {
        text.push('|');
        text.extend(repeat_n('-', width + 1));
        text.push(if column == 0 { '-' } else { ':' });
    }
    text.push_str("|\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["subject", "ns"]);
        table.row(vec!["floor".to_owned(), "25.0".to_owned()]);
        assert_eq!(table.render(), "| subject |   ns |\n|---------|-----:|\n| floor   | 25.0 |\n");
    }
}
