//! How many requests arrive in a step of time.

use core::f64::consts::TAU;

use crate::random::Random;
use crate::rounding::to_whole;

/// Draws from the Poisson distribution.
///
/// Exact below a mean of 256. From there on it uses a rounded normal distribution with the same
/// mean and variance: the benchmarks need the spread of arrivals, not their far tails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Poisson {
    mean: f64,
    none: f64,
}

const EXACT_BELOW: f64 = 256.0;

impl Poisson {
    /// With `mean` arrivals per draw.
    pub(crate) fn new(mean: f64) -> Self {
        Self { mean, none: (-mean).exp() }
    }

    /// Arrivals in one step.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        if self.mean >= EXACT_BELOW {
            let radius = (-2.0 * random.unit().ln()).sqrt();
            let normal = radius * (TAU * random.unit()).cos();
            return to_whole(self.mean + normal * self.mean.sqrt());
        }
        // Knuth's algorithm: multiply uniform numbers until the product drops below e^-mean.
        let mut arrivals = 0;
        let mut product = random.unit();
        while product > self.none {
            arrivals += 1;
            product *= random.unit();
        }
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounding::to_float;

    #[test]
    fn mean_and_variance_agree() {
        for mean in [0.1, 1.0, 16.7, 63.0, 167.0, 8333.0] {
            let mut random = Random::new(3);
            let poisson = Poisson::new(mean);
            let draws: Vec<f64> =
                (0..40_000).map(|_| to_float(poisson.draw(&mut random))).collect();
            let average = draws.iter().sum::<f64>() / 40_000.0;
            let squares = draws.iter().map(|draw| (draw - average).powi(2)).sum::<f64>();
            let variance = squares / 40_000.0;
            assert!((average / mean - 1.0).abs() < 0.03, "mean {average}, not {mean}");
            assert!((variance / mean - 1.0).abs() < 0.05, "variance {variance}, not {mean}");
        }
    }
}
