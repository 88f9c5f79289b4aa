//! Axes: which values they show, where their ticks are.

use core::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::unit::Unit;

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal distances for equal differences.
    #[default]
    Linear,
    /// Equal distances for equal ratios. Values that are not positive are shown at the lower end.
    Log,
    /// Equal distances from p90 to p99, to p99.9 and so on.
    Percentile,
}

/// What an axis shows.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
    pub(crate) label: String,
    pub(crate) from: Option<f64>,
    pub(crate) until: Option<f64>,
}

/// Values beyond this one, in either direction, are shown as this one.
const VALUE_MAX: f64 = 1e18;
/// The most ticks of an axis.
const TICKS_MAX: usize = 64;
/// The least value on a logarithmic axis, as a share of the greatest.
const LOG_SPAN: f64 = 1e-12;
/// Percentiles that have a tick.
const PERCENTILES: [f64; 8] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

impl Axis {
    /// An axis with equal distances.
    pub fn new(unit: Unit) -> Self {
        Self { unit, ..Self::default() }
    }

    /// An axis of times in milliseconds since the Unix epoch.
    pub fn time() -> Self {
        Self::new(Unit::Time)
    }

    /// An axis of percentiles from 0 to 100.
    pub fn percentile() -> Self {
        Self { unit: Unit::Percentile, scale: Scale::Percentile, ..Self::default() }
    }

    /// Makes the axis logarithmic.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }

    /// Sets the label.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets the lower end. By default it is the least value, or 0 for a vertical axis.
    #[must_use]
    pub fn from(mut self, value: f64) -> Self {
        self.from = Some(value);
        self
    }

    /// Sets the upper end. By default it is the greatest value.
    #[must_use]
    pub fn until(mut self, value: f64) -> Self {
        self.until = Some(value);
        self
    }

    /// Fits the axis to values. `ticks` is how many ticks there is room for, and `is_rounded` extends the ends to the next tick.
    pub(crate) fn fit(
        &self,
        values: impl Iterator<Item = f64>,
        ticks: usize,
        is_rounded: bool,
    ) -> FittedAxis {
        let is_usable =
            |value: &f64| value.is_finite() && (self.scale != Scale::Log || *value > 0.0);
        let set = [self.from, self.until].into_iter().flatten();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.chain(set).filter(is_usable) {
            let value = value.clamp(-VALUE_MAX, VALUE_MAX);
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        low = self.from.filter(is_usable).unwrap_or(low).max(-VALUE_MAX);
        high = self.until.filter(is_usable).unwrap_or(high).min(VALUE_MAX);
        match self.scale {
            Scale::Linear => self.fit_linear(low, high, ticks, is_rounded),
            Scale::Log => self.fit_log(low, high, ticks),
            Scale::Percentile => self.fit_percentile(high),
        }
    }

    fn fit_linear(&self, low: f64, high: f64, ticks: usize, is_rounded: bool) -> FittedAxis {
        let mut low = if is_rounded && self.from.is_none() { low.min(0.0) } else { low };
        let mut high = high;
        if high <= low {
            let room: f64 = match self.unit {
                Unit::Time => 1000.0,
                Unit::Share => 0.01,
                _ if is_rounded => 1.0,
                _ => 0.5,
            };
            // At 1e18, neighboring numbers are more than one unit away.
            let room = room.max(low.abs() * 1e-9);
            high = low + room;
            low = if is_rounded { low } else { low - room };
        }
        let count = f64::from(u32::try_from(ticks.clamp(1, TICKS_MAX)).unwrap_or(1));
        let mut step = self.unit.step((high - low) / count);
        if self.unit == Unit::Count && is_rounded {
            step = step.max(if high > 2.0 { 1.0 } else { 0.0 });
        }
        if is_rounded {
            high = if self.until.is_none() { (high / step).ceil() * step } else { high };
            low = if self.from.is_none() { (low / step).floor() * step } else { low };
        }
        let first = (low / step).ceil() * step;
        let tick =
            |number: usize| first + step * f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        let end = high + step * 1e-6;
        let values: Vec<f64> = (0..TICKS_MAX).map(tick).take_while(|value| *value <= end).collect();
        let ticks = values.iter().map(|value| (*value, self.unit.format(*value, step))).collect();
        FittedAxis { scale: self.scale, low, high, ticks }
    }

    fn fit_log(&self, low: f64, high: f64, ticks: usize) -> FittedAxis {
        let high = if high <= low { low * 10.0 } else { high };
        let low = low.max(high * LOG_SPAN);
        let (from, until) = (low.log10().floor(), high.log10().ceil());
        #[expect(clippy::cast_possible_truncation, reason = "a power of ten of a bounded number")]
        let powers = from as i32..=until as i32;
        let decades = powers.clone().count();
        let factors: &[f64] = if decades <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let values = powers
            .step_by(decades.div_ceil(2 * ticks.max(1)))
            .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        let low = if self.from.is_some() || decades <= 2 { low } else { 10_f64.powf(from) };
        let inside = low * 0.999..=high * 1.001;
        let ticks = values
            .filter(|value| inside.contains(value))
            .take(TICKS_MAX)
            .map(|value| (value, self.unit.format(value, value)))
            .collect();
        FittedAxis { scale: self.scale, low, high, ticks }
    }

    fn fit_percentile(&self, high: f64) -> FittedAxis {
        let (low, high) = (0.0, high.clamp(50.0, 99.999_999));
        let shown = PERCENTILES.into_iter().filter(|tick| *tick <= high);
        // Labels that would overlap are not drawn.
        let ticks = shown.map(|value| (value, self.unit.format(value, 0.0))).collect();
        FittedAxis { scale: self.scale, low, high, ticks }
    }
}

/// An axis with its ends and ticks.
#[derive(Debug, Clone)]
pub(crate) struct FittedAxis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Values and their labels.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl FittedAxis {
    /// Returns the place of a value between the ends, from 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let spread = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(self.low).log10(),
            Scale::Percentile => -(1.0 - value.min(self.high) / 100.0).log10(),
        };
        let (low, high) = (spread(self.low), spread(self.high));
        let place = (spread(value.clamp(-VALUE_MAX, VALUE_MAX)) - low) / (high - low);
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns the lower and the upper end.
    pub(crate) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}

impl Ranged for FittedAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (from, until) = (f64::from(limit.0), f64::from(limit.1));
        #[expect(clippy::cast_possible_truncation, reason = "it is between the limits")]
        let at = (from + self.place(*value) * (until - from)).round() as i32;
        at
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(value, _)| *value).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for FittedAxis {
    fn format_ext(&self, value: &f64) -> String {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64], is_rounded: bool) -> Vec<String> {
        let fitted = axis.fit(values.iter().copied(), 5, is_rounded);
        fitted.ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_cover_the_values() {
        let counts = Axis::new(Unit::Count);
        assert_eq!(labels(&counts, &[3.0, 97.0], true), ["0", "20", "40", "60", "80", "100"]);
        let latency = Axis::new(Unit::Seconds).log();
        assert_eq!(
            labels(&latency, &[0.000_2, 0.5], true),
            ["100 \u{b5}s", "1 ms", "10 ms", "100 ms"]
        );
        let times = Axis::time();
        assert_eq!(
            labels(&times, &[0.0, 60_000.0], false),
            ["00:00:00", "00:00:15", "00:00:30", "00:00:45", "00:01:00"]
        );
        let percentiles = Axis::percentile().fit([99.99].into_iter(), 10, false);
        let labels: Vec<&str> = percentiles.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["p0", "p50", "p90", "p99", "p99.9", "p99.99"]);
        let distance = |from, until| percentiles.place(until) - percentiles.place(from);
        assert!((distance(90.0, 99.0) - distance(99.0, 99.9)).abs() < 1e-9);
    }

    #[test]
    fn odd_values_do_not_break_an_axis() {
        for axis in [
            Axis::new(Unit::Count),
            Axis::time(),
            Axis::percentile(),
            Axis::new(Unit::Seconds).log(),
            Axis::new(Unit::Bytes).from(f64::NAN),
        ] {
            for values in [
                vec![],
                vec![f64::NAN],
                vec![f64::INFINITY, f64::NEG_INFINITY],
                vec![f64::MAX, f64::MIN],
                vec![f64::MIN_POSITIVE, -0.0],
                vec![-5.0, -5.0],
            ] {
                for is_rounded in [false, true] {
                    let fitted = axis.fit(values.iter().copied(), 5, is_rounded);
                    assert!(fitted.ticks.len() <= TICKS_MAX);
                    assert!(fitted.ends().0 < fitted.ends().1, "{axis:?} {values:?} {fitted:?}");
                    for value in &values {
                        assert!((0.0..=1.0).contains(&fitted.place(*value)));
                    }
                }
            }
        }
    }
}
