//! Requests for decisions, independent of the form of the protocol: a list of descriptors.

use core::fmt;

use slidegate::{Cost, Quota};
use slidegate_gate::ASKS_MAX;

use crate::spec::{HitsUsage, Unit};

/// A request with a list of descriptors.
#[derive(Debug, Clone, Default)]
pub struct LimitRequest<'a> {
    /// The domain.
    pub domain: &'a str,
    /// The descriptors.
    pub descriptors: Vec<Descriptor<'a>>,
    /// Units for descriptors without their own. Zero means one.
    pub hits_addend: u32,
}

/// One path through the tree.
#[derive(Debug, Clone, Default)]
pub struct Descriptor<'a> {
    /// One entry per level.
    pub entries: Vec<Entry<'a>>,
    /// A limit that replaces the configured one.
    pub limit: Option<Override>,
    /// Units. Zero checks without taking.
    pub hits_addend: Option<u64>,
    /// Whether the units are refunded.
    pub is_negative_hits: bool,
}

/// A key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a str,
    /// The value, which may be empty.
    pub value: &'a str,
}

/// A limit in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// The limit. Zero denies every request.
    pub requests: u32,
    /// The window.
    pub unit: Unit,
}

/// The maximum number of descriptors in a request, which is the number of limits that can be
/// decided together.
pub const DESCRIPTORS_MAX: usize = ASKS_MAX;
/// The maximum number of levels of a tree. A request may have more entries, which match nothing.
pub const ENTRIES_MAX: usize = 128;
/// The maximum length of a key or a value in a tree, in bytes. Those of requests may be longer.
pub const TEXT_MAX: usize = 16 << 10;

/// The reason why a request is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid(String);

impl Invalid {
    /// Creates an error from a message with the value, the bound and the fix.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl core::error::Error for Invalid {}

/// The operation on one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hits {
    /// Takes units, all or none.
    Take(Cost),
    /// Records usage that has happened, above the limit if necessary.
    Report(Cost),
    Peek,
    GiveBack(u64),
}

impl LimitRequest<'_> {
    /// Returns whether a descriptor gives back units.
    pub fn gives_back(&self) -> bool {
        self.descriptors.iter().any(|descriptor| descriptor.is_negative_hits)
    }

    /// Checks what only the configuration of the proxy can get wrong. The length of texts and the
    /// number of entries are not bounded here, only by the size of the message: an error would lift
    /// the limit of clients that send long values.
    pub(super) fn check(&self, most: usize) -> Result<(), Invalid> {
        // The messages of the reference service, which monitoring may match.
        if self.domain.is_empty() {
            return Err(Invalid::new("rate limit domain must not be empty"));
        }
        if self.descriptors.is_empty() {
            return Err(Invalid::new("rate limit descriptor list must not be empty"));
        }
        let (count, most) = (self.descriptors.len(), most.min(DESCRIPTORS_MAX));
        if count > most {
            return Err(Invalid::new(format!(
                "{count} descriptors are too many: use {most} or fewer, or raise \
                 `limits.descriptors_max` (at most {DESCRIPTORS_MAX})"
            )));
        }
        Ok(())
    }

    pub(super) fn hits(&self, descriptor: &Descriptor<'_>, usage: HitsUsage) -> Hits {
        let of_request = (self.hits_addend > 0).then_some(u64::from(self.hits_addend));
        let given = descriptor.hits_addend.or(of_request);
        let units = given.unwrap_or(1);
        let is_report = match usage {
            HitsUsage::Check => false,
            HitsUsage::Report => given.is_some(),
            HitsUsage::ReportAboveOne => units > 1,
        };
        // More than any limit, and small enough to be counted.
        let fitting = units.min(u64::from(u32::MAX) + 1);
        match Cost::new(fitting) {
            _ if descriptor.is_negative_hits => Hits::GiveBack(fitting),
            Ok(_) if is_report => Hits::Report(Cost::saturating(units.min(Quota::LIMIT_MAX))),
            Ok(cost) => Hits::Take(cost),
            Err(_) => Hits::Peek,
        }
    }
}

/// Returns the unit of a number in the protocol. Requests have no week, but its number is accepted,
/// as in the reference service.
pub fn unit_of(number: i32) -> Option<Unit> {
    Unit::ALL.into_iter().find(|unit| number_of(*unit) == number)
}

/// Returns the number of a unit in the protocol.
pub fn number_of(unit: Unit) -> i32 {
    match unit {
        Unit::Second => 1,
        Unit::Minute => 2,
        Unit::Hour => 3,
        Unit::Day => 4,
        Unit::Month => 5,
        Unit::Year => 6,
        Unit::Week => 7,
    }
}

/// Returns the error for an unknown unit.
pub fn unknown_unit(given: impl fmt::Display) -> Invalid {
    Invalid::new(format!("unknown unit {given} of a limit: use SECOND to YEAR, 1 to 7"))
}
