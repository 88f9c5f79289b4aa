//! Events in rows over time.

use crate::axis::{Axis, FittedAxis};
use crate::canvas::{Anchor, Canvas, FONT, LINE, LabelStyle, Layout, Plot, draw, fill, stroke};
use crate::color::Color;
use crate::text::{label, width};

/// The most rows.
const ROWS_MAX: usize = 64;
/// The most events and spans of a row. With more, every second or third of them is drawn, and so on.
const EVENTS_MAX: usize = 1500;
/// The height of a row.
const ROW: f64 = 24.0;

/// Something that happened at a time.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// When, on the horizontal axis.
    pub at: f64,
    /// The color of the dot.
    pub color: Color,
}

/// A part of the time.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// The start.
    pub from: f64,
    /// The end.
    pub until: f64,
    /// The color.
    pub color: Color,
    /// How strong the color is, from 0 to 1.
    pub strength: f64,
}

/// Events of one kind or of one key.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The label on the left.
    pub name: String,
    /// A text on the right.
    pub note: String,
    /// Dots.
    pub events: Vec<Event>,
    /// Bars behind the dots.
    pub spans: Vec<Span>,
}

/// Rows of events over a common time axis.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    title: String,
    x: Axis,
    rows: Vec<Row>,
    marks: Vec<(f64, String, Color)>,
    legend: Vec<(String, Color)>,
}

impl Timeline {
    /// A timeline without rows.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), x: Axis::time(), ..Self::default() }
    }

    /// Sets the horizontal axis, which is a time axis by default.
    #[must_use]
    pub fn x(mut self, axis: Axis) -> Self {
        self.x = axis;
        self
    }

    /// Adds a row. Rows beyond 64 are not drawn.
    #[must_use]
    pub fn row(mut self, row: Row) -> Self {
        self.rows.push(row);
        self
    }

    /// Adds a vertical line at a time.
    #[must_use]
    pub fn mark(mut self, at: f64, label: impl Into<String>, color: Color) -> Self {
        self.marks.push((at, label.into(), color));
        self
    }

    /// Explains a color.
    #[must_use]
    pub fn explain(mut self, name: impl Into<String>, color: Color) -> Self {
        self.legend.push((name.into(), color));
        self
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().take(ROWS_MAX)
    }

    fn paint(&self, canvas: &Canvas<'_>, layout: &Layout, top: f64, bottom: f64) {
        let full = f64::from(layout.width);
        let shown = if layout.width < 500 { 18 } else { 32 };
        let wide = |text: &str| width(&label(text, shown), FONT);
        let names = self.rows().map(|row| wide(&row.name)).fold(0.0, f64::max);
        let notes = self.rows().map(|row| wide(&row.note)).fold(0.0, f64::max);
        let left = layout.left() + names + 10.0;
        let right = (full - 14.0 - if notes > 0.0 { notes + 8.0 } else { 0.0 }).max(left + 20.0);
        let values = self.rows().flat_map(|row| {
            let spans = row.spans.iter().flat_map(|span| [span.from, span.until]);
            row.events.iter().map(|event| event.at).chain(spans)
        });
        let marks = self.marks.iter().map(|mark| mark.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is bounded"
        )]
        let ticks = ((right - left) / 92.0).clamp(2.0, 12.0) as usize;
        let axis = self.x.fit(values.chain(marks), ticks, false);
        let at = |value: f64| left + axis.place(value) * (right - left);
        for (place, row) in self.rows().enumerate() {
            let y = top + ROW * f64::from(u32::try_from(place).unwrap_or(0)) + ROW / 2.0;
            canvas.line(&[(left, y), (right, y)], stroke(Color::Grid, 1.0, 1.0));
            let letters = LabelStyle::value(Anchor::End);
            canvas.text(&label(&row.name, shown), (left - 10.0, y), letters);
            if !row.note.is_empty() {
                let letters = LabelStyle::label(Anchor::End);
                canvas.text(&label(&row.note, shown), (full - 12.0, y), letters);
            }
            draw_row(canvas, row, y, at);
        }
        self.draw_marks(canvas, top, bottom, at);
        draw_axis(canvas, &axis, bottom, (left, right));
    }

    fn draw_marks(&self, canvas: &Canvas<'_>, top: f64, bottom: f64, at: impl Fn(f64) -> f64) {
        for (value, text, color) in self.marks.iter().take(ROWS_MAX) {
            if !value.is_finite() {
                continue;
            }
            let x = at(*value);
            canvas.line(&[(x, top - 4.0), (x, bottom)], stroke(*color, 1.25, 0.8));
            let letters = LabelStyle { color: *color, ..LabelStyle::label(Anchor::Middle) };
            canvas.text(&label(text, 24), (x, top - 11.0), letters);
        }
    }
}

fn draw_row(canvas: &Canvas<'_>, row: &Row, y: f64, at: impl Fn(f64) -> f64) {
    let skip = row.spans.len().div_ceil(EVENTS_MAX).max(1);
    for span in row.spans.iter().step_by(skip) {
        if span.from.is_finite() && span.until.is_finite() {
            let (from, until) = (at(span.from), at(span.until));
            let strength =
                if span.strength.is_finite() { span.strength.clamp(0.0, 1.0) } else { 1.0 };
            let until = until.max(from + 1.5);
            canvas.rectangle((from, y - 7.0), (until, y + 7.0), fill(span.color, strength));
        }
    }
    let skip = row.events.len().div_ceil(EVENTS_MAX).max(1);
    for event in row.events.iter().step_by(skip).filter(|event| event.at.is_finite()) {
        canvas.dot((at(event.at), y), 3.5, fill(event.color, 0.85));
    }
}

fn draw_axis(canvas: &Canvas<'_>, axis: &FittedAxis, bottom: f64, (left, right): (f64, f64)) {
    canvas.line(&[(left, bottom), (right, bottom)], stroke(Color::Muted, 1.0, 0.6));
    let mut free = 0.0;
    for (value, text) in &axis.ticks {
        let x = left + axis.place(*value) * (right - left);
        let half = width(text, FONT) / 2.0;
        let middle = x.min(right + 12.0 - half);
        canvas.line(&[(x, bottom), (x, bottom + 4.0)], stroke(Color::Grid, 1.0, 1.0));
        if middle - half >= free {
            let place = (middle, bottom + 4.0 + LINE / 2.0);
            canvas.text(text, place, LabelStyle::label(Anchor::Middle));
            free = middle + half + 6.0;
        }
    }
}

impl Plot for Timeline {
    fn title(&self) -> &str {
        &self.title
    }

    fn to_svg(&self, layout: &Layout) -> String {
        let layout = layout.bounded();
        let rows = f64::from(u32::try_from(self.rows.len().clamp(1, ROWS_MAX)).unwrap_or(1));
        let right = f64::from(layout.width) - 14.0;
        let legend: Vec<(&str, Color)> =
            self.legend.iter().take(8).map(|(name, color)| (name.as_str(), *color)).collect();
        let has_legend = layout.has_legend && !legend.is_empty();
        let top = layout.top();
        let head = top + if has_legend { LINE + 4.0 } else { 0.0 };
        let head = head + if self.marks.is_empty() { 0.0 } else { LINE };
        let bottom = head + rows * ROW;
        draw(&self.title, (f64::from(layout.width), bottom + LINE + 6.0), |canvas| {
            canvas.heading(&self.title, &layout);
            if has_legend {
                canvas.legend(&legend, (layout.left(), top), right);
            }
            if self.rows.is_empty() {
                canvas.text(
                    "No data",
                    (right / 2.0, head + ROW / 2.0),
                    LabelStyle::label(Anchor::Middle),
                );
                return;
            }
            self.paint(canvas, &layout, head, bottom);
        })
    }
}
