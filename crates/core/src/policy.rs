//! Named quotas, how they are counted, and what a denial means.

use crate::error::{Error, ErrorKind};
use crate::quota::Quota;

/// The most quotas one policy may have.
pub const QUOTAS_MAX: usize = 8;

/// Named quotas with their algorithm, mode and failure mode.
///
/// A policy has one to eight quotas; a request takes from all of them or from none.
///
/// ```
/// use slidegate::{Algorithm, Policy, Quota};
///
/// let policy = Policy::builder("api")
///     .quota(Quota::per_second(10)?)
///     .quota(Quota::per_hour(1000)?)
///     .algorithm(Algorithm::Log)
///     .build()?;
/// assert_eq!(policy.quotas().len(), 2);
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    name: Box<str>,
    quotas: Box<[Quota]>,
    algorithm: Algorithm,
    mode: Mode,
    failure_mode: FailureMode,
}

/// How units are counted.
///
/// | algorithm | over-admits | denies too much | memory a key |
/// |---|---|---|---|
/// | `Log` | never | never | 55 to 64 bytes, plus about a byte a request beyond the first few; some 660 bytes more with several quotas |
/// | `LogCapped` | never | for a merged span, at most `24 x window / bytes_max` from 4096 bytes on | as `Log`, at most `bytes_max` |
/// | `Counter` | up to twice the limit for bursts that straddle two windows in the worst case | up to one window | 37 to 43 bytes |
/// | `Segments` | never | for one segment | 46 to 54 bytes, plus `count + 1` counters of 1 to 8 bytes |
/// | `Gcra` | up to twice the limit (a full burst, then the refill) | never | 28 to 33 bytes |
/// | `Fixed` | up to twice the limit (two bursts around a boundary) | never | 28 to 33 bytes |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// Every request in the window, exactly.
    #[default]
    Log,
    /// The exact log, until it would take more than `bytes_max` bytes a key; then neighbouring
    /// requests are merged, dated at the later of them, so that it never admits too much.
    LogCapped {
        /// The most bytes the codes of one key may take, 64 to 65536.
        bytes_max: u32,
    },
    /// Two aligned windows, the previous one weighted by its overlap and rounded up.
    Counter,
    /// `count` sub-windows; the oldest, partly covered one counts whole.
    Segments {
        /// Sub-windows a window is cut into, 1 to 1024.
        count: u16,
    },
    /// The generic cell rate algorithm: a bucket that refills evenly.
    Gcra,
    /// One window aligned to the epoch. It leaks at the boundary; for comparison.
    Fixed,
}

/// What a denial means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Mode {
    /// A denial denies.
    #[default]
    Enforce,
    /// Judged, never denied. What would have been denied is not recorded, so that the counts are
    /// those that enforcing would give.
    Shadow,
}

/// What to answer when a store fails.
///
/// Memory never fails; this is for stores behind a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FailureMode {
    /// Let the request through.
    #[default]
    Allow,
    /// Deny the request.
    Deny,
    /// Judge by a limiter in this process.
    Local,
}

impl Policy {
    /// A policy of one quota, counted exactly and enforced.
    ///
    /// # Errors
    ///
    /// When the name is not usable, see [`Policy::builder`].
    pub fn new(name: &str, quota: Quota) -> Result<Self, Error> {
        Self::builder(name).quota(quota).build()
    }

    /// Starts a policy. A name has 1 to 64 characters out of `a-z A-Z 0-9 _ - . : / *` and starts
    /// with a letter, so that it can stand in a header field and in a metric as it is.
    pub fn builder(name: &str) -> PolicyBuilder {
        PolicyBuilder {
            name: name.into(),
            quotas: Vec::new(),
            algorithm: Algorithm::default(),
            mode: Mode::default(),
            failure_mode: FailureMode::default(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The quotas, in the order they were given.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// How units are counted.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What a denial means.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What to answer when the store fails.
    pub fn failure_mode(&self) -> FailureMode {
        self.failure_mode
    }
}

/// Builds a [`Policy`].
#[derive(Debug, Clone)]
pub struct PolicyBuilder {
    name: Box<str>,
    quotas: Vec<Quota>,
    algorithm: Algorithm,
    mode: Mode,
    failure_mode: FailureMode,
}

impl PolicyBuilder {
    /// Adds a quota.
    #[must_use]
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quotas.push(quota);
        self
    }

    /// Adds several quotas.
    #[must_use]
    pub fn quotas(mut self, quotas: impl IntoIterator<Item = Quota>) -> Self {
        self.quotas.extend(quotas);
        self
    }

    /// Chooses how units are counted; [`Algorithm::Log`] unless told.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Chooses what a denial means; [`Mode::Enforce`] unless told.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Chooses what to answer when the store fails; [`FailureMode::Allow`] unless told.
    #[must_use]
    pub fn failure_mode(mut self, failure_mode: FailureMode) -> Self {
        self.failure_mode = failure_mode;
        self
    }

    /// Checks everything and makes the policy.
    ///
    /// # Errors
    ///
    /// When the name is not usable, there is no quota or more than eight, or the algorithm's
    /// parameter is out of range.
    pub fn build(self) -> Result<Policy, Error> {
        check_name(&self.name)?;
        check_quotas(&self.quotas)?;
        check_algorithm(self.algorithm)?;
        Ok(Policy {
            name: self.name,
            quotas: self.quotas.into_boxed_slice(),
            algorithm: self.algorithm,
            mode: self.mode,
            failure_mode: self.failure_mode,
        })
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let first = name.bytes().next();
    let usable = first.is_some_and(|byte| byte.is_ascii_alphabetic())
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:/*".contains(&byte));
    if usable {
        return Ok(());
    }
    let message = format!(
        "policy name {name:?} is not usable: use 1 to 64 of a-z A-Z 0-9 _ - . : / *, a letter first"
    );
    Err(Error::new(ErrorKind::Policy, message))
}

pub(crate) fn check_quotas(quotas: &[Quota]) -> Result<(), Error> {
    if (1..=QUOTAS_MAX).contains(&quotas.len()) {
        return Ok(());
    }
    Err(Error::out_of_range(ErrorKind::Policy, "number of quotas", quotas.len(), "1 to 8"))
}

fn check_algorithm(algorithm: Algorithm) -> Result<(), Error> {
    match algorithm {
        Algorithm::LogCapped { bytes_max } if !(64..=65_536).contains(&bytes_max) => {
            Err(Error::out_of_range(ErrorKind::Policy, "bytes_max", bytes_max, "64 to 65536"))
        }
        Algorithm::Segments { count } if !(1..=1024).contains(&count) => {
            Err(Error::out_of_range(ErrorKind::Policy, "segment count", count, "1 to 1024"))
        }
        _ => Ok(()),
    }
}
