//! The algorithms.

use core::fmt;
use core::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The algorithm that counts units.
///
/// | algorithm | over-admits | denies too much | memory per key |
/// |---|---|---|---|
/// | `Log` | never | never | 56 to 70 bytes, plus about a byte per request beyond the first few; some 660 bytes more with several quotas |
/// | `LogCapped` | never | for a merged span, at most `24 x window / bytes_max` from 4096 bytes on | as `Log`, at most `bytes_max` |
/// | `Counter` | up to twice the limit for bursts that straddle two windows in the worst case | up to one window | 38 to 48 bytes |
/// | `Segments` | never | for one segment | 47 to 59 bytes, plus `count + 1` counters of 1 to 8 bytes |
/// | `Gcra` | up to twice the limit (a full burst and the refill of a window) | never | 29 to 36 bytes |
/// | `Fixed` | up to twice the limit (two bursts around a boundary) | never | 29 to 36 bytes |
///
/// As text, an algorithm is its name, followed by its parameter if it has one:
///
/// ```
/// use slidegate::Algorithm;
///
/// assert_eq!("gcra".parse(), Ok(Algorithm::Gcra));
/// assert_eq!("segments: 60".parse(), Ok(Algorithm::Segments { count: 60 }));
/// assert_eq!(Algorithm::LogCapped { bytes_max: 4096 }.to_string(), "log_capped: 4096");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// Every request in the window, exactly.
    #[default]
    Log,
    /// The exact log, until it would take more than `bytes_max` bytes per key. Then neighboring
    /// requests are merged at the later time, so that it never over-admits.
    LogCapped {
        /// The maximum bytes for the codes of one key, 64 to 65536.
        bytes_max: u32,
    },
    /// Two aligned windows, the previous one weighted by its overlap and rounded up.
    Counter,
    /// `count` sub-windows. The oldest, partly covered one counts in full.
    Segments {
        /// The number of sub-windows per window, 1 to 1024.
        count: u16,
    },
    /// The generic cell rate algorithm: a bucket that refills evenly.
    Gcra,
    /// One window aligned to the epoch. It over-admits at the boundary, and is meant for
    /// comparison.
    Fixed,
}

impl Algorithm {
    /// Every algorithm. Those with a parameter have a usual one.
    pub const ALL: [Self; 6] = [
        Self::Log,
        Self::LogCapped { bytes_max: 4096 },
        Self::Counter,
        Self::Segments { count: 60 },
        Self::Gcra,
        Self::Fixed,
    ];

    /// The minimum of `bytes_max` of [`Algorithm::LogCapped`].
    pub const LOG_BYTES_MIN: u32 = 64;

    /// The maximum of `bytes_max` of [`Algorithm::LogCapped`].
    pub const LOG_BYTES_MAX: u32 = 65_536;

    /// The maximum of `count` of [`Algorithm::Segments`].
    pub const SEGMENTS_MAX: u16 = 1024;

    /// Returns the name without the parameter, as in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::LogCapped { .. } => "log_capped",
            Self::Counter => "counter",
            Self::Segments { .. } => "segments",
            Self::Gcra => "gcra",
            Self::Fixed => "fixed",
        }
    }

    /// Returns the bytes of a capped log or the number of segments, or `None` for the others.
    pub const fn parameter(self) -> Option<u32> {
        match self {
            Self::LogCapped { bytes_max } => Some(bytes_max),
            Self::Segments { count } => Some(count as u32),
            Self::Log | Self::Counter | Self::Gcra | Self::Fixed => None,
        }
    }

    /// Returns the algorithm with this name and parameter, both as [`name`](Algorithm::name) and
    /// [`parameter`](Algorithm::parameter) return them.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is unknown, or the parameter is missing, out of range or not
    /// expected.
    pub fn from_parts(name: &str, parameter: Option<u64>) -> Result<Self, Error> {
        let named = Error::find_name("algorithm", name, &Self::ALL, Self::name)?;
        match (named.parameter(), parameter) {
            (Some(_), None) => {
                let message = format!("algorithm {name} needs a number: use {named}, for example");
                return Err(Error::new(ErrorKind::Policy, message));
            }
            (None, Some(number)) => {
                let message = format!("algorithm {name} has no number {number}: use {name} alone");
                return Err(Error::new(ErrorKind::Policy, message));
            }
            (_, number) => named.check_bounds(number.unwrap_or(0))?,
        }
        let number = parameter.unwrap_or(0);
        Ok(match named {
            Self::LogCapped { .. } => {
                Self::LogCapped { bytes_max: u32::try_from(number).unwrap_or(u32::MAX) }
            }
            Self::Segments { .. } => {
                Self::Segments { count: u16::try_from(number).unwrap_or(u16::MAX) }
            }
            Self::Log | Self::Counter | Self::Gcra | Self::Fixed => named,
        })
    }

    /// Returns `true` if units can be recorded in the future, so that callers can wait in order and
    /// processes can take leases.
    pub const fn supports_future_entries(self) -> bool {
        match self {
            Self::Log | Self::LogCapped { .. } | Self::Gcra => true,
            Self::Counter | Self::Segments { .. } | Self::Fixed => false,
        }
    }

    /// Returns `true` if each request is stored with its time, so that there is a history, and a
    /// tier may have fewer quotas than its policy.
    pub const fn keeps_entries(self) -> bool {
        match self {
            Self::Log | Self::LogCapped { .. } => true,
            Self::Counter | Self::Segments { .. } | Self::Gcra | Self::Fixed => false,
        }
    }

    pub(crate) fn check_parameter(self) -> Result<(), Error> {
        self.check_bounds(self.parameter().map_or(0, u64::from))
    }

    fn check_bounds(self, value: u64) -> Result<(), Error> {
        let (what, least, most) = match self {
            Self::LogCapped { .. } => ("bytes_max", Self::LOG_BYTES_MIN, Self::LOG_BYTES_MAX),
            Self::Segments { .. } => ("segment count", 1, Self::SEGMENTS_MAX.into()),
            Self::Log | Self::Counter | Self::Gcra | Self::Fixed => return Ok(()),
        };
        if (least.into()..=most.into()).contains(&value) {
            return Ok(());
        }
        let allowed = format!("{least} to {most}");
        Err(Error::out_of_range(ErrorKind::Policy, what, value, &allowed))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parameter() {
            Some(parameter) => write!(f, "{}: {parameter}", self.name()),
            None => f.pad(self.name()),
        }
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let Some((name, parameter)) = text.split_once(':') else {
            return Self::from_parts(text.trim(), None);
        };
        let parameter = parameter.trim();
        let number = parameter.parse().map_err(|_| {
            let message = format!("algorithm parameter {parameter:?} is not a whole number");
            Error::new(ErrorKind::Policy, message)
        })?;
        Self::from_parts(name.trim(), Some(number))
    }
}

/// A string, or a map such as `{"segments": 60}` if there is a parameter.
#[cfg(feature = "serde")]
mod as_serde {
    use core::fmt;

    use serde::de::{Error, MapAccess, Visitor};
    use serde::ser::SerializeMap;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Algorithm;

    impl Serialize for Algorithm {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let Some(parameter) = self.parameter() else {
                return serializer.serialize_str(self.name());
            };
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(self.name(), &parameter)?;
            map.end()
        }
    }

    impl<'de> Deserialize<'de> for Algorithm {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(NameOrMap)
        }
    }

    struct NameOrMap;

    impl<'de> Visitor<'de> for NameOrMap {
        type Value = Algorithm;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an algorithm, such as \"log\" or {\"segments\": 60}")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Algorithm, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Algorithm, A::Error> {
            let Some((name, parameter)) = map.next_entry::<String, u64>()? else {
                return Err(A::Error::invalid_length(0, &self));
            };
            if let Some((second, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                let message = format!("expected one algorithm, found {name} and {second}");
                return Err(A::Error::custom(message));
            }
            Algorithm::from_parts(&name, Some(parameter)).map_err(A::Error::custom)
        }
    }
}
