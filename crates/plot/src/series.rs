//! Values over an axis.

use crate::color::Color;

/// The most points of a series that are drawn. With more, the least and the greatest of neighbors are drawn.
const POINTS_MAX: usize = 1000;

/// A value at a place of the horizontal axis. A value that is not a number is a gap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// Where an area or a bar starts.
    pub base: f64,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// A line between the points.
    Line,
    /// A line that keeps its value until the next point.
    Step,
    /// A line with the area below it.
    Area,
    /// A step line with the area below it.
    StepArea,
    /// A bar to the right of each point, with this width on the horizontal axis.
    Bars(f64),
    /// A dot per point.
    Dots,
}

/// Named values.
#[derive(Debug, Clone)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) color: Color,
    pub(crate) shape: Shape,
    pub(crate) points: Vec<Point>,
}

impl Series {
    /// A series of a shape. The points are in the order of the horizontal axis.
    pub fn new(
        name: impl Into<String>,
        color: Color,
        shape: Shape,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, base: 0.0 }).collect();
        Self { name: name.into(), color, shape, points }
    }

    /// A line.
    pub fn line(
        name: impl Into<String>,
        color: Color,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Self::new(name, color, Shape::Line, points)
    }

    /// A line that keeps its value until the next point.
    pub fn step(
        name: impl Into<String>,
        color: Color,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Self::new(name, color, Shape::Step, points)
    }

    /// A line with the area below it.
    pub fn area(
        name: impl Into<String>,
        color: Color,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Self::new(name, color, Shape::Area, points)
    }

    /// Puts each series on top of those before it. The points of all of them are at the same places.
    #[must_use]
    pub fn stack(mut series: Vec<Self>) -> Vec<Self> {
        let mut heights: Vec<f64> = Vec::new();
        for one in &mut series {
            heights.resize(heights.len().max(one.points.len()), 0.0);
            for (point, height) in one.points.iter_mut().zip(&mut heights) {
                point.base = *height;
                *height += if point.y.is_finite() { point.y } else { 0.0 };
                point.y = *height;
            }
        }
        series
    }

    /// Returns the points to draw: at most [`POINTS_MAX`], in the same order.
    pub(crate) fn reduced(&self) -> Vec<Point> {
        let points: Vec<Point> =
            self.points.iter().copied().filter(|point| point.x.is_finite()).collect();
        if points.len() <= POINTS_MAX {
            return points;
        }
        let mut reduced = Vec::with_capacity(POINTS_MAX);
        for part in points.chunks(points.len().div_ceil(POINTS_MAX / 2)) {
            let values = || part.iter().enumerate().filter(|(_, point)| point.y.is_finite());
            let least = values().min_by(|one, other| one.1.y.total_cmp(&other.1.y));
            let greatest = values().max_by(|one, other| one.1.y.total_cmp(&other.1.y));
            match (least, greatest) {
                (Some(one), Some(other)) if one.0 == other.0 => reduced.push(*one.1),
                (Some(one), Some(other)) => {
                    let (first, second) = if one.0 < other.0 { (one, other) } else { (other, one) };
                    reduced.extend([*first.1, *second.1]);
                }
                // Nothing but gaps.
                _ => reduced.extend(part.first().copied()),
            }
        }
        reduced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_survive_the_reduction() {
        let value = |place: u32| {
            if place == 77_777 {
                9.0
            } else if place == 5 {
                -9.0
            } else {
                0.0
            }
        };
        let points = (0..100_000_u32).map(|place| (f64::from(place), value(place)));
        let reduced = Series::line("a", Color::Allowed, points).reduced();
        assert!(reduced.len() <= POINTS_MAX);
        assert!(reduced.iter().any(|point| (point.x, point.y) == (77_777.0, 9.0)));
        assert!(reduced.iter().any(|point| (point.x, point.y) == (5.0, -9.0)));
        assert!(reduced.is_sorted_by(|one, other| one.x < other.x));
    }

    #[test]
    fn gaps_survive_the_reduction() {
        let value = |place: u32| if place < 5000 { f64::NAN } else { 1.0 };
        let points = (0..10_000_u32).map(|place| (f64::from(place), value(place)));
        let reduced = Series::line("a", Color::Allowed, points).reduced();
        assert!(reduced[0].y.is_nan());
        assert!(reduced.last().is_some_and(|point| point.y > 0.5));
    }

    #[test]
    fn stacked_series_start_where_the_one_below_ends() {
        let one = |name: &str, values: [f64; 2]| {
            Series::area(name, Color::Allowed, [(0.0, values[0]), (1.0, values[1])])
        };
        let stacked = Series::stack(vec![one("a", [1.0, f64::NAN]), one("b", [2.0, 3.0])]);
        assert_eq!(
            stacked[1].points,
            [Point { x: 0.0, y: 3.0, base: 1.0 }, Point { x: 1.0, y: 3.0, base: 0.0 }]
        );
    }
}
