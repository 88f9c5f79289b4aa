//! Charts as SVG, and self-contained HTML reports that contain them.
//!
//! * [`Chart`] draws lines, steps, areas, bars and dots over time or numbers, [`BarChart`] compares named values,
//!   and [`Timeline`] shows events in rows. All of them implement [`Plot`].
//! * [`Page`] is the frame of a report: sections with text, tables and figures, for screen and print.
//!
//! An SVG refers to its colors as CSS variables with a fallback, so the same text is right in a light and in a
//! dark page: include [`STYLE`] in the page. It has no script and no style of its own, which a strict content security policy
//! would refuse. [`Plot::to_file`] returns a file that can be shown without a page.
//!
//! ```
//! use slidegate_plot::{Axis, Chart, Color, Layout, Plot, Series, Unit};
//!
//! let points = [(0.0, 10.0), (1000.0, 12.0), (2000.0, 9.0)];
//! let chart = Chart::new("Decisions")
//!     .x(Axis::time())
//!     .y(Axis::new(Unit::Count).label("requests per second"))
//!     .series(Series::area("allowed", Color::Allowed, points));
//! let svg = chart.to_svg(&Layout::WIDE);
//! assert!(svg.starts_with("<svg"));
//! ```

#![forbid(unsafe_code)]

mod axis;
mod bars;
mod canvas;
mod chart;
mod color;
mod page;
mod series;
mod text;
mod timeline;
mod unit;

pub use axis::{Axis, Scale};
pub use bars::BarChart;
pub use canvas::{Layout, Plot};
pub use chart::{Chart, Mark};
pub use color::{Color, STYLE};
pub use page::{Cell, Page, Section, Table};
pub use series::{Point, Series, Shape};
pub use text::escape;
pub use timeline::{Event, Row, Span, Timeline};
pub use unit::Unit;

/// Compiles and runs the code of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
