//! The surface that charts are drawn on.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontStyle, IntoFont, ShapeStyle, TextStyle};

use crate::color::{Color, file_style, name_colors};
use crate::text::{escape, label, width};

/// Units of the drawing per pixel. Plotters draws at whole units, which would bend lines at whole pixels.
const UNITS: f64 = 4.0;
/// The size of a label in pixels.
pub(crate) const FONT: f64 = 11.0;
/// The height of a line of text in pixels.
pub(crate) const LINE: f64 = 18.0;
/// The width between the edge and what is drawn.
pub(crate) const EDGE: f64 = 2.0;
/// The least and the greatest size in pixels.
const SIZES: core::ops::RangeInclusive<u32> = 80..=4000;

/// The size of a drawing, and what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels. Plots with rows are as high as their rows need.
    pub height: u32,
    /// Whether the title is drawn. It is the accessible name in any case.
    pub has_title: bool,
    /// Whether the names of series are drawn.
    pub has_legend: bool,
}

impl Layout {
    /// For a report on a screen or on paper. The title belongs into the caption of the figure.
    pub const WIDE: Self = Self { width: 760, height: 280, has_title: false, has_legend: true };
    /// For a phone.
    pub const NARROW: Self = Self { width: 350, height: 240, has_title: false, has_legend: true };

    /// Sets the size in pixels.
    #[must_use]
    pub const fn size(mut self, width: u32, height: u32) -> Self {
        self.width = width;
        self.height = height;
        self
    }

    /// Draws the title above the plot.
    #[must_use]
    pub const fn with_title(mut self) -> Self {
        self.has_title = true;
        self
    }

    /// Leaves the legend out, for a page that shows it once for several plots.
    #[must_use]
    pub const fn without_legend(mut self) -> Self {
        self.has_legend = false;
        self
    }

    /// Where text starts. A file has a background, whose edge needs some room.
    pub(crate) fn left(&self) -> f64 {
        if self.has_title { EDGE + 12.0 } else { EDGE }
    }

    /// Where the first line below the title starts.
    pub(crate) fn top(&self) -> f64 {
        if self.has_title { 38.0 } else { EDGE }
    }

    pub(crate) fn bounded(self) -> Self {
        let (least, greatest) = (*SIZES.start(), *SIZES.end());
        self.size(self.width.clamp(least, greatest), self.height.clamp(least, greatest))
    }
}

/// A chart that can be drawn.
pub trait Plot {
    /// Returns the title.
    fn title(&self) -> &str;

    /// Returns the plot as SVG for a page that includes [`STYLE`](crate::STYLE).
    fn to_svg(&self, layout: &Layout) -> String;

    /// Returns the plot as an SVG file with title, colors and background, for light and dark.
    fn to_file(&self, layout: &Layout) -> String {
        let svg = self.to_svg(&layout.with_title());
        let background = format!(
            "<style>{}</style><rect width=\"100%\" height=\"100%\" rx=\"32\" fill=\"{}\"/>",
            file_style(),
            Color::Surface.css()
        );
        match svg.find("</title>") {
            Some(title) => {
                let (head, body) = svg.split_at(title + "</title>".len());
                format!("{head}{background}{body}\n")
            }
            None => svg,
        }
    }
}

/// Where a text is, relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LabelStyle {
    pub(crate) color: Color,
    pub(crate) size: f64,
    pub(crate) is_bold: bool,
    pub(crate) anchor: Anchor,
}

impl LabelStyle {
    pub(crate) const fn label(anchor: Anchor) -> Self {
        Self { color: Color::Muted, size: FONT, is_bold: false, anchor }
    }

    pub(crate) const fn value(anchor: Anchor) -> Self {
        Self { color: Color::Text, size: FONT, is_bold: false, anchor }
    }
}

/// A drawing in progress, in pixels.
pub(crate) struct Canvas<'a> {
    pub(crate) root: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Draws an SVG with a title.
pub(crate) fn draw(
    title: &str,
    (width, height): (f64, f64),
    paint: impl FnOnce(&Canvas<'_>),
) -> String {
    let mut svg = String::new();
    {
        let size = (units(width).unsigned_abs(), units(height).unsigned_abs());
        let canvas = Canvas { root: SVGBackend::with_string(&mut svg, size).into_drawing_area() };
        paint(&canvas);
        // The writer ends the document; a string has no other errors.
        let _ = canvas.root.present();
    }
    finish(&svg, title, width, height)
}

/// Replaces the root element, and shortens what repeats in every element.
fn finish(svg: &str, title: &str, width: f64, height: f64) -> String {
    let body = svg.split_once('>').map_or("</svg>", |(_, body)| body);
    let body = body.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "");
    let body = name_colors(&body.replace("\n</text>", "</text>").replace(" stroke=\"none\"", ""));
    let name = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" aria-label=\"{name}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {} {}\" \
         font-family=\"system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif\" \
         stroke-linejoin=\"round\" stroke-linecap=\"round\"><title>{name}</title>{}",
        units(width),
        units(height),
        body.trim_end(),
    )
}

/// Pixels as units of the drawing.
#[expect(clippy::cast_possible_truncation, reason = "pixels are bounded by the layout")]
pub(crate) fn units(pixels: f64) -> i32 {
    (pixels * UNITS).round() as i32
}

fn point((x, y): (f64, f64)) -> (i32, i32) {
    (units(x), units(y))
}

/// A line or an outline. The width is in pixels.
pub(crate) fn stroke(color: Color, pixels: f64, opacity: f64) -> ShapeStyle {
    ShapeStyle {
        color: color.marker().mix(opacity),
        filled: false,
        stroke_width: units(pixels).unsigned_abs(),
    }
}

/// A filled shape.
pub(crate) fn fill(color: Color, opacity: f64) -> ShapeStyle {
    ShapeStyle { color: color.marker().mix(opacity), filled: true, stroke_width: 0 }
}

// Drawing into a string cannot fail: errors of the writer are ignored below.
impl Canvas<'_> {
    pub(crate) fn line(&self, points: &[(f64, f64)], style: ShapeStyle) {
        let points: Vec<_> = points.iter().copied().map(point).collect();
        let _ = self.root.draw(&PathElement::new(points, style));
    }

    pub(crate) fn rectangle(&self, from: (f64, f64), until: (f64, f64), style: ShapeStyle) {
        let _ = self.root.draw(&Rectangle::new([point(from), point(until)], style));
    }

    pub(crate) fn dot(&self, center: (f64, f64), radius: f64, style: ShapeStyle) {
        let _ = self.root.draw(&Circle::new(point(center), units(radius), style));
    }

    /// Writes a text whose middle line is at the point.
    pub(crate) fn text(&self, text: &str, at: (f64, f64), letters: LabelStyle) {
        let horizontal = match letters.anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        // The SVG writer divides by the same number.
        let font = ("sans-serif", letters.size * UNITS * 1.24).into_font();
        let font = if letters.is_bold { font.style(FontStyle::Bold) } else { font };
        let color = letters.color.marker();
        let style = TextStyle::from(font).color(&color).pos(Pos::new(horizontal, VPos::Center));
        let _ = self.root.draw(&Text::new(label(text, usize::MAX), point(at), style));
    }

    /// Draws names with a swatch of their color, in as many lines as they need. Returns the height.
    pub(crate) fn legend(&self, names: &[(&str, Color)], at: (f64, f64), right: f64) -> f64 {
        let (left, top) = at;
        let (mut x, mut y) = at;
        for (name, color) in names {
            let name = label(name, 40);
            let needed = 14.0 + width(&name, FONT) + 14.0;
            if x > left && x + needed > right {
                (x, y) = (left, y + LINE);
            }
            let middle = y + LINE / 2.0;
            self.rectangle((x, middle - 4.5), (x + 9.0, middle + 4.5), fill(*color, 1.0));
            self.text(&name, (x + 14.0, middle), LabelStyle::value(Anchor::Start));
            x += needed;
        }
        if names.is_empty() { 0.0 } else { y + LINE - top + 4.0 }
    }

    /// Draws the title, if the layout has one.
    pub(crate) fn heading(&self, title: &str, layout: &Layout) {
        if layout.has_title {
            let letters =
                LabelStyle { color: Color::Text, size: 14.0, is_bold: true, anchor: Anchor::Start };
            self.text(title, (layout.left(), 20.0), letters);
        }
    }
}
