//! Median and quartiles.

/// The middle of many rounds and the quartiles around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) q1: f64,
    pub(crate) median: f64,
    pub(crate) q3: f64,
}

impl Summary {
    /// Sums up `values`; `None` when there are none. Between two values it interpolates.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            q1: quarter(&sorted, 1)?,
            median: quarter(&sorted, 2)?,
            q3: quarter(&sorted, 3)?,
        })
    }
}

/// The value below which `quarters` quarters of the sorted values lie.
fn quarter(sorted: &[f64], quarters: usize) -> Option<f64> {
    const PARTS: [f64; 4] = [0.0, 0.25, 0.5, 0.75];
    let scaled = sorted.len().checked_sub(1)? * quarters;
    let low = sorted.get(scaled / 4)?;
    let high = sorted.get(scaled.div_ceil(4))?;
    Some(low + (high - low) * PARTS[scaled % 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_and_even_numbers_of_values() {
        let summary = Summary::of([5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(summary, Some(Summary { q1: 2.0, median: 3.0, q3: 4.0 }));
        let summary = Summary::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(summary, Some(Summary { q1: 1.75, median: 2.5, q3: 3.25 }));
    }

    #[test]
    fn one_value_and_none() {
        assert_eq!(Summary::of([7.0]), Some(Summary { q1: 7.0, median: 7.0, q3: 7.0 }));
        assert_eq!(Summary::of([]), None);
    }
}
