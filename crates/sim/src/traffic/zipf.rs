//! A few keys that make many requests, and many that make few.

use crate::Random;
use crate::number::to_float;

/// Draws ranks from Zipf's distribution: rank `k` has a weight of `1 / k^exponent`.
///
/// The method is rejection-inversion (Hörmann and Derflinger, 1996), which needs no table.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    ranks: f64,
    exponent: f64,
    low: f64,
    high: f64,
    near: f64,
}

impl Zipf {
    /// The distribution over `ranks` ranks.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        let ranks = to_float(ranks);
        let mut zipf = Self { ranks, exponent, low: 0.0, high: 0.0, near: 0.0 };
        zipf.low = zipf.area(1.5) - 1.0;
        zipf.high = zipf.area(ranks + 0.5);
        zipf.near = 2.0 - zipf.point(zipf.area(2.5) - 2.0_f64.powf(-exponent));
        zipf
    }

    /// The integral of the weight.
    fn area(&self, point: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { point.ln() } else { point.powf(power) / power }
    }

    /// The inverse of [`area`](Self::area).
    fn point(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { area.exp() } else { (area * power).powf(1.0 / power) }
    }

    /// A rank, from 1 on.
    pub fn draw(&self, random: &mut Random) -> f64 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let point = self.point(area);
            let rank = point.round().clamp(1.0, self.ranks);
            let weight = rank.powf(-self.exponent);
            if rank - point <= self.near || area >= self.area(rank + 0.5) - weight {
                return rank;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_get_their_shares() {
        for exponent in [0.8, 1.0, 1.2] {
            let zipf = Zipf::new(1000, exponent);
            let mut random = Random::new(4);
            let (mut first, mut ten) = (0.0, 0.0);
            for _ in 0..200_000 {
                let rank = zipf.draw(&mut random);
                first += f64::from(rank < 1.5) / 200_000.0;
                ten += f64::from(rank < 10.5) / 200_000.0;
            }
            let sum = |ranks: u32| -> f64 {
                (1..=ranks).map(|rank| f64::from(rank).powf(-exponent)).sum()
            };
            assert!((first - sum(1) / sum(1000)).abs() < 0.005, "{exponent}: {first}");
            assert!((ten - sum(10) / sum(1000)).abs() < 0.005, "{exponent}: {ten}");
        }
    }
}
