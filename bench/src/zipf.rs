//! Zipf's distribution: a few keys that are checked often and many that are checked rarely.

use crate::random::Random;

/// Draws from Zipf's distribution with exponent 1: rank `k` is drawn in proportion to `1 / k`.
///
/// By rejection-inversion (Hörmann and Derflinger, 1996): no table, so no memory traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zipf {
    ranks: f64,
    low: f64,
    high: f64,
    /// Below this distance to the rank no second look is needed.
    near: f64,
}

impl Zipf {
    /// Over `ranks` ranks.
    pub(crate) fn new(ranks: u32) -> Self {
        let ranks = f64::from(ranks);
        Self {
            ranks,
            low: 1.5_f64.ln() - 1.0,
            high: (ranks + 0.5).ln(),
            near: 2.0 - (2.5_f64.ln() - 0.5).exp(),
        }
    }

    /// A rank, counted from zero.
    #[expect(clippy::cast_possible_truncation, reason = "clamped to the ranks, which are u32")]
    #[expect(clippy::cast_sign_loss, reason = "clamped to one and above")]
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let point = area.exp();
            let rank = point.round().clamp(1.0, self.ranks);
            if rank - point <= self.near || area >= (rank + 0.5).ln() - 1.0 / rank {
                return rank as u32 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_gets_its_share() {
        // With a million ranks the harmonic sum is 14.3927: the first gets 6.95 %, the first
        // hundred (5.1874) together 36.0 %.
        let zipf = Zipf::new(1_000_000);
        let mut random = Random::new(4);
        let draws: Vec<u32> = (0..200_000).map(|_| zipf.draw(&mut random)).collect();
        let share = |ranks: u32| {
            let hits = draws.iter().filter(|rank| **rank < ranks).count();
            f64::from(u32::try_from(hits).unwrap()) / 200_000.0
        };
        assert!((share(1) - 0.0695).abs() < 0.003, "{}", share(1));
        assert!((share(100) - 0.360).abs() < 0.005, "{}", share(100));
        assert!((share(1_000_000) - 1.0).abs() < f64::EPSILON);
    }
}
