//! Built-in traffic patterns.

mod zipf;

use core::f64::consts::TAU;

use slidegate::Quota;

pub use self::zipf::Zipf;
use crate::Random;
use crate::number::{to_float, to_whole};

/// When built-in traffic begins: 2026-01-01T00:00:00Z, where windows of every named length except the
/// week begin.
const START_MS: u64 = 1_767_225_600_000;

const DAY_MS: f64 = 86_400_000.0;

/// A pattern of requests over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficKind {
    /// One limit's worth of requests just before a window boundary, and one just after it.
    Boundary,
    /// Requests at equal intervals.
    Steady,
    /// Independent requests.
    Poisson,
    /// Independent requests of keys that follow Zipf's distribution.
    Zipf,
    /// Short bursts above the limit, with pauses between them.
    Bursts,
    /// Independent requests whose rate follows the time of day.
    Diurnal,
    /// Independent requests whose rate rises twentyfold for a while.
    FlashCrowd,
    /// One request from each of many addresses.
    OneOff,
    /// Logins of many users, and one client that tries passwords.
    BruteForce,
}

impl TrafficKind {
    /// Names and descriptions, as on the command line.
    pub const NAMES: [(&'static str, Self, &'static str); 9] = [
        ("boundary", Self::Boundary, "a full limit just before and just after a window boundary"),
        ("steady", Self::Steady, "requests at equal intervals, at 90 % of the limit"),
        ("poisson", Self::Poisson, "independent requests, at 80 % of the limit on average"),
        ("zipf", Self::Zipf, "as poisson, with a few busy keys and many idle ones"),
        ("bursts", Self::Bursts, "bursts of 1.5 limits within a second, with pauses"),
        ("diurnal", Self::Diurnal, "as poisson, with a rate that follows the time of day"),
        ("flash-crowd", Self::FlashCrowd, "as poisson, with 20 times the rate for a while"),
        ("one-off", Self::OneOff, "a million addresses with one request each"),
        (
            "brute-force",
            Self::BruteForce,
            "logins of many users, and a client that tries passwords",
        ),
    ];

    /// Returns the name, as on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind, _)| *kind == self).map_or("", |(name, ..)| name)
    }
}

/// A pattern with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficSpec {
    /// The pattern.
    pub kind: TrafficKind,
    /// Requests in total.
    pub requests: u64,
    /// Different keys.
    pub keys: u64,
    /// Requests per second of all keys together.
    pub rate: f64,
    /// The exponent of Zipf's distribution; 0 for keys that are all alike.
    pub zipf: f64,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl TrafficSpec {
    /// Parses a name with parameters, such as `poisson:requests=10000000,keys=1000,seed=7`. Parameters
    /// that are not given follow from the quota.
    ///
    /// # Errors
    ///
    /// Returns what is allowed if the name or a parameter is not usable.
    pub fn parse(text: &str, quota: Quota) -> Result<Self, String> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let Some((_, kind, _)) = TrafficKind::NAMES.iter().find(|(known, ..)| *known == name)
        else {
            let names = TrafficKind::NAMES.map(|(name, ..)| name).join(", ");
            return Err(format!("traffic {name:?} is unknown: use one of {names}"));
        };
        let mut spec = Self::with_defaults(*kind, quota);
        let unused: &[&str] = match kind {
            TrafficKind::Boundary => &["rate", "zipf"],
            TrafficKind::Steady | TrafficKind::OneOff => &["zipf"],
            _ => &[],
        };
        let mut rate = None;
        for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
            let wrong = || {
                format!(
                    "traffic parameter {parameter:?} is not usable: use requests, keys, rate (per \
                     second), zipf (0 to 5) or seed, with a number, such as requests=1000000"
                )
            };
            let (name, value) = parameter.split_once('=').ok_or_else(wrong)?;
            if unused.contains(&name) {
                return Err(format!(
                    "traffic parameter {parameter:?} has no effect on {}: leave it out",
                    kind.name()
                ));
            }
            let whole = || value.replace('_', "").parse::<u64>().map_err(|_| wrong());
            let positive =
                |value: &str| value.parse().ok().filter(|number: &f64| number.is_finite());
            match name {
                "requests" => spec.requests = whole()?,
                "keys" => spec.keys = whole()?.clamp(1, 1 << 40),
                "seed" => spec.seed = whole()?,
                "rate" => {
                    let given = positive(value).filter(|rate| (1e-6..=1e9).contains(rate));
                    rate = Some(given.ok_or_else(wrong)?);
                }
                "zipf" => {
                    let given = positive(value).filter(|zipf| (0.0..=5.0).contains(zipf));
                    spec.zipf = given.ok_or_else(wrong)?;
                }
                _ => return Err(wrong()),
            }
        }
        spec.rate = rate.unwrap_or_else(|| spec.usual_rate(quota));
        Ok(spec)
    }

    fn with_defaults(kind: TrafficKind, quota: Quota) -> Self {
        let limit = quota.limit().max(1);
        let (requests, keys) = match kind {
            TrafficKind::Boundary => (limit.saturating_mul(20), 1),
            TrafficKind::Steady => (100_000, 10),
            TrafficKind::Bursts => (limit.saturating_mul(3000).min(1_000_000), 100),
            TrafficKind::OneOff => (1_000_000, 1_000_000),
            TrafficKind::BruteForce => (200_000, 1000),
            TrafficKind::Zipf => (1_000_000, 100_000),
            TrafficKind::Poisson | TrafficKind::Diurnal | TrafficKind::FlashCrowd => {
                (1_000_000, 1000)
            }
        };
        let zipf = if kind == TrafficKind::Zipf { 1.0 } else { 0.0 };
        Self { kind, requests, keys, rate: 1.0, zipf, seed: 1 }
    }

    /// A rate at which the limit matters to some keys.
    fn usual_rate(&self, quota: Quota) -> f64 {
        let per_key = to_float(quota.limit().max(1)) / quota.window().as_secs_f64();
        let keys = to_float(self.keys);
        match self.kind {
            TrafficKind::Steady => 0.9 * per_key * keys,
            TrafficKind::FlashCrowd => 0.2 * per_key * keys,
            TrafficKind::Zipf => 0.05 * per_key * keys,
            TrafficKind::Bursts => 0.3 * per_key * keys,
            TrafficKind::OneOff => 1000.0,
            TrafficKind::BruteForce => 0.1 * per_key * keys,
            TrafficKind::Boundary | TrafficKind::Poisson | TrafficKind::Diurnal => {
                0.8 * per_key * keys
            }
        }
    }

    /// Starts the requests.
    pub fn start(&self, quota: Quota) -> Traffic {
        Traffic {
            zipf: Zipf::new(self.keys, if self.zipf > 0.0 { self.zipf } else { 1.0 }),
            random: Random::new(self.seed),
            window_ms: to_float(u64::try_from(quota.window().as_millis()).unwrap_or(u64::MAX)),
            limit: quota.limit().max(1),
            spec: self.clone(),
            made: 0,
            now_ms: 0.0,
            burst: (0, 0),
        }
    }
}

/// The requests of a pattern, one after another.
#[derive(Debug)]
pub struct Traffic {
    spec: TrafficSpec,
    random: Random,
    zipf: Zipf,
    window_ms: f64,
    limit: u64,
    made: u64,
    /// Milliseconds since the start.
    now_ms: f64,
    /// The key of the current burst, and the requests that are left of it.
    burst: (u64, u64),
}

impl Traffic {
    /// Returns the share that has been made, from 0 to 1.
    pub fn progress(&self) -> f64 {
        crate::number::share(self.made, self.spec.requests)
    }

    fn key(&mut self) -> u64 {
        if self.spec.zipf > 0.0 {
            return to_whole(self.zipf.draw(&mut self.random)) - 1;
        }
        self.random.between(0, self.spec.keys - 1)
    }

    /// Advances by an exponentially distributed time, at `times` the usual rate.
    fn advance(&mut self, times: f64) {
        self.now_ms += -self.random.unit().ln() / (self.spec.rate * times) * 1000.0;
    }

    /// The time of a request of the boundary attack: `limit` in the last twentieth of every second
    /// window, and `limit` in the first twentieth of the next.
    fn boundary(&mut self) -> u64 {
        let per_key = self.made / self.spec.keys;
        let (attack, place) = (per_key / (2 * self.limit), per_key % (2 * self.limit));
        let (side, place) = (place / self.limit, place % self.limit);
        let step = self.window_ms / 20.0 / to_float(self.limit);
        let boundary = self.window_ms * to_float(2 * attack + 1);
        let offset = if side == 0 { self.limit - place } else { place };
        let sign = if side == 0 { -1.0 } else { 1.0 };
        self.now_ms = boundary + sign * step * to_float(offset);
        self.made % self.spec.keys
    }

    /// A request of the current burst, or of the next one.
    fn in_burst(&mut self) -> u64 {
        let size = self.limit + self.limit / 2 + 1;
        if self.burst.1 == 0 {
            self.advance(1.0 / to_float(size));
            self.burst = (self.key(), size);
        } else {
            self.now_ms += 1000.0 / to_float(size);
        }
        self.burst.1 -= 1;
        self.burst.0
    }
}

impl Iterator for Traffic {
    /// Time in milliseconds since the Unix epoch, and the number of the key.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.made >= self.spec.requests {
            return None;
        }
        let progress = self.progress();
        let key = match self.spec.kind {
            TrafficKind::Boundary => self.boundary(),
            TrafficKind::Steady => {
                self.now_ms = to_float(self.made) / self.spec.rate * 1000.0;
                self.made % self.spec.keys
            }
            TrafficKind::Poisson | TrafficKind::Zipf => {
                self.advance(1.0);
                self.key()
            }
            TrafficKind::Bursts => self.in_burst(),
            TrafficKind::Diurnal => {
                // Least at four in the morning, most at four in the afternoon.
                let turn = TAU * (self.now_ms / DAY_MS - 4.0 / 24.0);
                self.advance(1.0 - 0.9 * turn.cos());
                self.key()
            }
            TrafficKind::FlashCrowd => {
                self.advance(if (0.4..0.6).contains(&progress) { 20.0 } else { 1.0 });
                self.key()
            }
            TrafficKind::OneOff => {
                self.advance(1.0);
                self.made % self.spec.keys
            }
            TrafficKind::BruteForce => {
                self.advance(1.0);
                // Every third attempt is that of the attacker, from the first fifth on.
                if progress > 0.2 && self.random.chance(33) { 0 } else { self.key() }
            }
        };
        self.made += 1;
        Some((START_MS.saturating_add(to_whole(self.now_ms)), key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Result<TrafficSpec, String> {
        TrafficSpec::parse(text, Quota::per_minute(100))
    }

    #[test]
    fn every_pattern_is_in_order_repeatable_and_as_long_as_asked() {
        for (name, ..) in TrafficKind::NAMES {
            let spec = spec(&format!("{name}:requests=5000,keys=50")).unwrap();
            let quota = Quota::per_minute(100);
            let requests: Vec<_> = spec.start(quota).collect();
            assert_eq!(requests.len(), 5000, "{name}");
            assert!(requests.is_sorted_by_key(|(at, _)| *at), "{name}");
            assert!(requests.iter().all(|(at, key)| *at >= START_MS && *key < 50), "{name}");
            assert_eq!(requests, spec.start(quota).collect::<Vec<_>>(), "{name}");
        }
    }

    #[test]
    fn a_poisson_stream_has_its_rate() {
        let spec = spec("poisson:requests=100000,rate=500").unwrap();
        let (last, _) = spec.start(Quota::per_minute(100)).last().unwrap();
        let seconds = to_float(last - START_MS) / 1000.0;
        assert!((seconds - 200.0).abs() < 4.0, "{seconds}");
    }

    #[test]
    fn a_boundary_attack_sends_two_limits_within_a_tenth_of_a_window() {
        let spec = spec("boundary").unwrap();
        let requests: Vec<u64> =
            spec.start(Quota::per_minute(100)).map(|(at, _)| at - START_MS).take(200).collect();
        assert_eq!((requests[0], requests[100]), (57_000, 60_000));
        assert!(requests[199] < 63_000);
    }

    #[test]
    fn unusable_parameters_are_refused_with_what_is_allowed() {
        assert!(spec("storm").unwrap_err().contains("boundary, steady"));
        for text in [
            "poisson:requests",
            "poisson:rate=0",
            "poisson:rate=NaN",
            "poisson:zipf=9",
            "poisson:x=1",
        ] {
            assert!(spec(text).unwrap_err().contains("requests=1000000"), "{text}");
        }
        for text in ["boundary:rate=500", "boundary:zipf=1", "steady:zipf=1", "one-off:zipf=1"] {
            assert!(spec(text).unwrap_err().contains("leave it out"), "{text}");
        }
    }
}
