//! Named values as horizontal bars.

use crate::axis::Axis;
use crate::canvas::{Anchor, Canvas, FONT, LINE, LabelStyle, Layout, Plot, draw, fill, stroke};
use crate::color::Color;
use crate::text::{label, width};
use crate::unit::Unit;

/// The most rows.
const ROWS_MAX: usize = 64;
/// The height of a bar, and the room between rows.
const BAR: f64 = 15.0;
const GAP: f64 = 9.0;

/// One or more values per name, side by side, with the values written next to the bars.
#[derive(Debug, Clone, Default)]
pub struct BarChart {
    title: String,
    unit: Unit,
    groups: Vec<(String, Color)>,
    rows: Vec<(String, Vec<f64>)>,
}

impl BarChart {
    /// A chart without rows.
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, ..Self::default() }
    }

    /// Adds a value that every row has.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>, color: Color) -> Self {
        self.groups.push((name.into(), color));
        self
    }

    /// Adds a row, with a value per group. Rows beyond 64 are not drawn.
    #[must_use]
    pub fn row(mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.rows.push((name.into(), values.into_iter().collect()));
        self
    }

    fn row_height(&self) -> f64 {
        let bars = u32::try_from(self.groups.len().clamp(1, 8)).unwrap_or(1);
        f64::from(bars) * BAR + GAP
    }

    fn paint(&self, canvas: &Canvas<'_>, layout: &Layout, top: f64) {
        let full = f64::from(layout.width);
        let rows = || self.rows.iter().take(ROWS_MAX);
        let names = rows().map(|(name, _)| width(&label(name, 28), FONT)).fold(0.0, f64::max);
        let left = layout.left() + names.min(full * 0.4) + 10.0;
        let values = || rows().flat_map(|(_, values)| values.iter().take(8).copied());
        let axis = Axis::new(self.unit).from(0.0).fit(values(), 4, true);
        let texts = values().map(|value| width(&self.unit.format(value, 0.0), FONT));
        let right = (full - 14.0 - texts.fold(0.0, f64::max)).max(left + 20.0);
        let mut y = top;
        for (name, values) in rows() {
            let middle = y + (self.row_height() - GAP) / 2.0;
            canvas.text(&label(name, 28), (left - 10.0, middle), LabelStyle::value(Anchor::End));
            for ((_, color), value) in self.groups.iter().zip(values).take(8) {
                let value = if value.is_finite() { value.max(0.0) } else { 0.0 };
                let end = left + axis.place(value) * (right - left);
                if value > 0.0 {
                    // Something is there, however small.
                    let end = end.max(left + 1.5);
                    canvas.rectangle((left, y + 1.0), (end, y + BAR - 1.0), fill(*color, 0.9));
                }
                let text = self.unit.format(value, 0.0);
                let at = (end.max(left) + 6.0, y + BAR / 2.0);
                canvas.text(&text, at, LabelStyle::label(Anchor::Start));
                y += BAR;
            }
            y += GAP;
        }
        canvas.line(&[(left, top - 3.0), (left, y - GAP + 3.0)], stroke(Color::Muted, 1.0, 0.6));
    }
}

impl Plot for BarChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn to_svg(&self, layout: &Layout) -> String {
        let layout = layout.bounded();
        let rows = u32::try_from(self.rows.len().clamp(1, ROWS_MAX)).unwrap_or(1);
        let right = f64::from(layout.width) - 14.0;
        let groups: Vec<(&str, Color)> =
            self.groups.iter().take(8).map(|(name, color)| (name.as_str(), *color)).collect();
        // The legend needs at most a line per group.
        let lines = f64::from(u32::try_from(groups.len()).unwrap_or(8));
        let needed: f64 = groups.iter().map(|(name, _)| width(&label(name, 40), FONT) + 28.0).sum();
        let lines = if needed < right - 12.0 { 1.0 } else { lines };
        let head = layout.top();
        let legend = if layout.has_legend && groups.len() > 1 { lines * LINE + 10.0 } else { 6.0 };
        let height = head + legend + f64::from(rows) * self.row_height();
        draw(&self.title, (f64::from(layout.width), height), |canvas| {
            canvas.heading(&self.title, &layout);
            if layout.has_legend && groups.len() > 1 {
                canvas.legend(&groups, (layout.left(), head), right);
            }
            if self.rows.is_empty() {
                let at = (right / 2.0, head + legend + 10.0);
                canvas.text("No data", at, LabelStyle::label(Anchor::Middle));
                return;
            }
            self.paint(canvas, &layout, head + legend);
        })
    }
}
