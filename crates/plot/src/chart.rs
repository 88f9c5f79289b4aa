//! Series over two axes.

use plotters::coord::cartesian::Cartesian2d;
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::prelude::{DrawingArea, SVGBackend};

use crate::axis::{Axis, FittedAxis};
use crate::canvas::{
    Anchor, Canvas, EDGE, FONT, LINE, LabelStyle, Layout, Plot, draw, fill, stroke, units,
};
use crate::color::Color;
use crate::series::{Point, Series, Shape};
use crate::text::{label, width};

/// The most series of a chart.
const SERIES_MAX: usize = 32;
/// The most marks of a chart.
const MARKS_MAX: usize = 64;

/// A straight line at a value, such as a limit or the time of a reload.
#[derive(Debug, Clone)]
pub struct Mark {
    at: f64,
    label: String,
    color: Color,
    is_vertical: bool,
}

impl Mark {
    /// A line across the chart at a value of the vertical axis.
    pub fn horizontal(at: f64, label: impl Into<String>, color: Color) -> Self {
        Self { at, label: label.into(), color, is_vertical: false }
    }

    /// A line from bottom to top at a value of the horizontal axis.
    pub fn vertical(at: f64, label: impl Into<String>, color: Color) -> Self {
        Self { at, label: label.into(), color, is_vertical: true }
    }
}

/// Lines, areas, bars and dots over a horizontal axis.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    marks: Vec<Mark>,
}

/// The drawing area of the series, with their coordinates.
type Field<'a> = DrawingArea<SVGBackend<'a>, Cartesian2d<FittedAxis, FittedAxis>>;

impl Chart {
    /// A chart without series.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Sets the horizontal axis.
    #[must_use]
    pub fn x(mut self, axis: Axis) -> Self {
        self.x = axis;
        self
    }

    /// Sets the vertical axis.
    #[must_use]
    pub fn y(mut self, axis: Axis) -> Self {
        self.y = axis;
        self
    }

    /// Adds a series. Those beyond 32 are not drawn.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds series.
    #[must_use]
    pub fn all(mut self, series: impl IntoIterator<Item = Series>) -> Self {
        self.series.extend(series);
        self
    }

    /// Adds a mark.
    #[must_use]
    pub fn mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    fn drawn(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().take(SERIES_MAX)
    }

    fn marks(&self, is_vertical: bool) -> impl Iterator<Item = &Mark> {
        self.marks.iter().take(MARKS_MAX).filter(move |mark| mark.is_vertical == is_vertical)
    }

    fn fit_x(&self, pixels: f64) -> FittedAxis {
        let bar = |series: &Series| match series.shape {
            Shape::Bars(width) if width.is_finite() => width,
            _ => 0.0,
        };
        let marks = self.marks(true).map(|mark| mark.at);
        let values = self.drawn().flat_map(|series| {
            series.points.iter().flat_map(move |point| [point.x, point.x + bar(series)])
        });
        self.x.fit(values.chain(marks), ticks(pixels / 92.0), false)
    }

    fn fit_y(&self, pixels: f64) -> FittedAxis {
        let marks = self.marks(false).map(|mark| mark.at);
        let values = self.drawn().flat_map(|series| series.points.iter().map(|point| point.y));
        self.y.fit(values.chain(marks), ticks(pixels / 44.0), true)
    }

    fn legend(&self) -> Vec<(&str, Color)> {
        let named = self.drawn().filter(|series| !series.name.is_empty());
        named.map(|series| (series.name.as_str(), series.color)).collect()
    }

    fn is_empty(&self) -> bool {
        let has_value = |point: &Point| point.x.is_finite() && point.y.is_finite();
        !self.drawn().any(|series| series.points.iter().any(has_value))
    }

    fn paint(&self, canvas: &Canvas<'_>, layout: &Layout) {
        let (right, bottom) = (f64::from(layout.width) - 14.0, f64::from(layout.height));
        canvas.heading(&self.title, layout);
        let mut top = layout.top();
        if layout.has_legend {
            top += canvas.legend(&self.legend(), (layout.left(), top), right);
        }
        let title_row = if self.y.label.is_empty() { 8.0 } else { LINE + 5.0 };
        let bottom = bottom - LINE - if self.x.label.is_empty() { 2.0 } else { LINE };
        let y = self.fit_y(bottom - top - title_row);
        let labels = y.ticks.iter().map(|(_, label)| width(label, FONT)).fold(12.0, f64::max);
        let left = layout.left() + labels + 8.0;
        if !self.y.label.is_empty() {
            canvas.text(
                &self.y.label,
                (layout.left(), top + LINE / 2.0 - 3.0),
                LabelStyle::label(Anchor::Start),
            );
        }
        let top = top + title_row;
        let frame =
            Frame { left, right: right.max(left + 10.0), top, bottom: bottom.max(top + 10.0) };
        let x = self.fit_x(frame.right - frame.left);
        if self.is_empty() {
            frame.draw_empty(canvas);
            return;
        }
        frame.draw_grid(canvas, &x, &y);
        if !self.x.label.is_empty() {
            let at = (frame.right, frame.bottom + LINE * 1.5);
            canvas.text(&self.x.label, at, LabelStyle::label(Anchor::End));
        }
        let field = canvas.root.clone().apply_coord_spec(Cartesian2d::new(
            x.clone(),
            y.clone(),
            (units(frame.left)..units(frame.right), units(frame.bottom)..units(frame.top)),
        ));
        for series in self.drawn() {
            draw_series(&field, series, y.ends().0);
        }
        for mark in self.marks.iter().take(MARKS_MAX).filter(|mark| mark.at.is_finite()) {
            frame.draw_mark(canvas, mark, &x, &y);
        }
    }
}

/// How many ticks there is room for.
fn ticks(room: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
    let count = room.clamp(2.0, 12.0) as usize;
    count
}

impl Plot for Chart {
    fn title(&self) -> &str {
        &self.title
    }

    fn to_svg(&self, layout: &Layout) -> String {
        let layout = layout.bounded();
        let size = (f64::from(layout.width), f64::from(layout.height));
        draw(&self.title, size, |canvas| self.paint(canvas, &layout))
    }
}

/// The edges of the area with the series, in pixels.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn at_x(&self, axis: &FittedAxis, value: f64) -> f64 {
        self.left + axis.place(value) * (self.right - self.left)
    }

    fn at_y(&self, axis: &FittedAxis, value: f64) -> f64 {
        self.bottom - axis.place(value) * (self.bottom - self.top)
    }

    fn draw_empty(&self, canvas: &Canvas<'_>) {
        for place in [self.top, f64::midpoint(self.top, self.bottom), self.bottom] {
            let line = [(self.left, place), (self.right, place)];
            canvas.line(&line, stroke(Color::Grid, 1.0, 1.0));
        }
        let middle = f64::midpoint(self.left, self.right);
        let above = f64::midpoint(self.top, self.bottom) - LINE / 2.0;
        canvas.text("No data", (middle, above), LabelStyle::label(Anchor::Middle));
    }

    fn draw_grid(&self, canvas: &Canvas<'_>, x: &FittedAxis, y: &FittedAxis) {
        for (value, text) in &y.ticks {
            let at = self.at_y(y, *value);
            canvas.line(&[(self.left, at), (self.right, at)], stroke(Color::Grid, 1.0, 1.0));
            canvas.text(text, (self.left - 8.0, at), LabelStyle::label(Anchor::End));
        }
        let mut free = 0.0;
        for (value, text) in &x.ticks {
            let at = self.at_x(x, *value);
            canvas
                .line(&[(at, self.bottom), (at, self.bottom + 4.0)], stroke(Color::Grid, 1.0, 1.0));
            let half = width(text, FONT) / 2.0;
            // A label at the end keeps inside the drawing.
            let middle = at.min(self.right + 12.0 - half).max(half + EDGE);
            if middle - half >= free {
                let place = (middle, self.bottom + 4.0 + LINE / 2.0);
                canvas.text(text, place, LabelStyle::label(Anchor::Middle));
                free = middle + half + 6.0;
            }
        }
        let base = [(self.left, self.bottom), (self.right, self.bottom)];
        canvas.line(&base, stroke(Color::Muted, 1.0, 0.6));
    }

    fn draw_mark(&self, canvas: &Canvas<'_>, mark: &Mark, x: &FittedAxis, y: &FittedAxis) {
        let style = stroke(mark.color, 1.25, 0.9);
        let text = label(&mark.label, 40);
        let letters = LabelStyle { color: mark.color, ..LabelStyle::label(Anchor::End) };
        if mark.is_vertical {
            let at = self.at_x(x, mark.at);
            canvas.line(&[(at, self.top), (at, self.bottom)], style);
            let is_left = at - width(&text, FONT) - 8.0 < self.left;
            let anchor = if is_left { Anchor::Start } else { Anchor::End };
            let aside = if is_left { at + 5.0 } else { at - 5.0 };
            canvas.text(&text, (aside, self.top + 6.0), LabelStyle { anchor, ..letters });
        } else {
            let at = self.at_y(y, mark.at);
            canvas.line(&[(self.left, at), (self.right, at)], style);
            let above = if at - LINE < self.top { at + 9.0 } else { at - 8.0 };
            canvas.text(&text, (self.right - 2.0, above), letters);
        }
    }
}

/// Draws a series. Drawing into a string cannot fail, so errors are ignored.
fn draw_series(field: &Field<'_>, series: &Series, floor: f64) {
    let points = series.reduced();
    let color = series.color;
    match series.shape {
        Shape::Bars(width) => {
            let width = if width.is_finite() { width } else { 0.0 };
            for point in points.iter().filter(|point| point.y.is_finite()) {
                let corners = [(point.x, point.y), (point.x + width, point.base.max(floor))];
                let _ = field.draw(&Rectangle::new(corners, fill(color, 0.85)));
            }
        }
        Shape::Dots => {
            for point in points.iter().filter(|point| point.y.is_finite()) {
                let dot = Circle::new((point.x, point.y), units(3.0), fill(color, 0.9));
                let _ = field.draw(&dot);
            }
        }
        Shape::Line | Shape::Step | Shape::Area | Shape::StepArea => {
            for part in points.split(|point| !point.y.is_finite()).filter(|part| !part.is_empty()) {
                draw_part(field, series, part, floor);
            }
        }
    }
}

/// Draws a part of a series without gaps.
fn draw_part(field: &Field<'_>, series: &Series, part: &[Point], floor: f64) {
    let color = series.color;
    let is_step = matches!(series.shape, Shape::Step | Shape::StepArea);
    let outline = |part: &[Point], value: fn(&Point) -> f64| path(part, is_step, value);
    if matches!(series.shape, Shape::Area | Shape::StepArea) {
        let base = outline(part, |point| point.base).into_iter().map(|(x, y)| (x, y.max(floor)));
        let corners: Vec<_> =
            outline(part, |point| point.y).into_iter().chain(base.rev()).collect();
        let _ = field.draw(&Polygon::new(corners, fill(color, 0.28)));
        for part in outlined(part) {
            draw_line(field, outline(part, |point| point.y), color);
        }
    } else {
        draw_line(field, outline(part, |point| point.y), color);
    }
}

/// Returns the parts of an area that have a height. Without one, its line would hide that of the series
/// below.
fn outlined(part: &[Point]) -> impl Iterator<Item = &[Point]> {
    let is_flat = |point: &Point| point.y <= point.base;
    let parts = part.chunk_by(move |one, other| !(is_flat(one) && is_flat(other)));
    parts.filter(move |part| part.iter().any(|point| !is_flat(point)))
}

fn draw_line(field: &Field<'_>, line: Vec<(f64, f64)>, color: Color) {
    if let [only] = line.as_slice() {
        let _ = field.draw(&Circle::new(*only, units(2.5), fill(color, 1.0)));
    } else {
        let _ = field.draw(&PathElement::new(line, stroke(color, 1.75, 1.0)));
    }
}

fn path(part: &[Point], is_step: bool, value: fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let mut path = Vec::with_capacity(part.len());
    let mut before: Option<f64> = None;
    for point in part {
        let at = value(point);
        if let Some(before) = before.filter(|before| is_step && (before - at).abs() > 0.0) {
            path.push((point.x, before));
        }
        path.push((point.x, at));
        before = Some(at);
    }
    path
}
