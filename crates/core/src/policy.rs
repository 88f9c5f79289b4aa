//! Policies: named quotas with an algorithm and a mode.

use core::fmt;
use core::str::FromStr;

use crate::error::{Error, ErrorKind};
use crate::quota::Quota;

pub use crate::algorithm::Algorithm;

/// [`Policy::QUOTAS_MAX`], for the sizes of arrays.
pub(crate) const QUOTAS_MAX: usize = Policy::QUOTAS_MAX;

/// Named quotas with their algorithm, mode and failure mode.
///
/// A policy has one to eight quotas. A request takes units from all of them or from none.
///
/// ```
/// use slidegate::{Algorithm, Policy, Quota};
///
/// let policy = Policy::builder("api")
///     .quota(Quota::per_second(10))
///     .quota(Quota::per_hour(1000))
///     .algorithm(Algorithm::Log)
///     .build()?;
/// assert_eq!(policy.quotas().len(), 2);
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "PolicyBuilder"))]
pub struct Policy {
    name: Box<str>,
    quotas: Box<[Quota]>,
    algorithm: Algorithm,
    mode: Mode,
    failure_mode: FailureMode,
}

/// Whether denials are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Mode {
    /// Denials are enforced.
    #[default]
    Enforce,
    /// Requests are evaluated and never denied. A request that would be denied is not recorded, so
    /// the counts are the same as with enforcement.
    Shadow,
}

/// The decision when a store fails.
///
/// Memory never fails. This is for stores behind a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum FailureMode {
    /// Allows the request.
    #[default]
    Allow,
    /// Denies the request.
    Deny,
    /// Decides with a limiter in this process.
    Local,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 2] = [Self::Enforce, Self::Shadow];

    /// Returns the name, as in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
        }
    }
}

impl FailureMode {
    /// Every failure mode.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Deny, Self::Local];

    /// Returns the name, as in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Local => "local",
        }
    }
}

/// Implements `Display` and `FromStr` by name.
macro_rules! text_by_name {
    ($($named:ty => $what:literal),*) => {$(
        impl fmt::Display for $named {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $named {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Error::find_name($what, text, &Self::ALL, Self::name)
            }
        }
    )*};
}

text_by_name!(Mode => "mode", FailureMode => "failure mode");

impl Policy {
    /// The maximum number of quotas in one policy.
    pub const QUOTAS_MAX: usize = 8;

    /// The maximum length of a name, in bytes.
    pub const NAME_LENGTH_MAX: usize = 64;

    /// Creates a policy with one quota, counted exactly and enforced.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is invalid, see [`Policy::builder`].
    pub fn new(name: &str, quota: Quota) -> Result<Self, Error> {
        Self::builder(name).quota(quota).build()
    }

    /// Returns a builder. A name has 1 to 64 characters of `a-z A-Z 0-9 _ - . : / *` and starts
    /// with a letter, so that it is valid in header fields and metrics.
    pub fn builder(name: &str) -> PolicyBuilder {
        PolicyBuilder {
            name: name.into(),
            quotas: Vec::new(),
            algorithm: Algorithm::default(),
            mode: Mode::default(),
            failure_mode: FailureMode::default(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the quotas, in the order they were added.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns whether denials are enforced.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the failure mode.
    pub fn failure_mode(&self) -> FailureMode {
        self.failure_mode
    }
}

/// Builds a [`Policy`].
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename = "Policy", deny_unknown_fields))]
pub struct PolicyBuilder {
    name: Box<str>,
    quotas: Vec<Quota>,
    #[cfg_attr(feature = "serde", serde(default))]
    algorithm: Algorithm,
    #[cfg_attr(feature = "serde", serde(default))]
    mode: Mode,
    #[cfg_attr(feature = "serde", serde(default))]
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

    /// Sets the algorithm. The default is [`Algorithm::Log`].
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Sets whether denials are enforced. The default is [`Mode::Enforce`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the decision when the store fails. The default is [`FailureMode::Allow`].
    #[must_use]
    pub fn failure_mode(mut self, failure_mode: FailureMode) -> Self {
        self.failure_mode = failure_mode;
        self
    }

    /// Checks the settings and builds the policy.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is invalid, there is no quota or more than eight, or the
    /// parameter of the algorithm is out of range.
    pub fn build(self) -> Result<Policy, Error> {
        check_name(&self.name)?;
        check_quotas(&self.quotas)?;
        self.algorithm.check_parameter()?;
        Ok(Policy {
            name: self.name,
            quotas: self.quotas.into_boxed_slice(),
            algorithm: self.algorithm,
            mode: self.mode,
            failure_mode: self.failure_mode,
        })
    }
}

impl TryFrom<PolicyBuilder> for Policy {
    type Error = Error;

    fn try_from(builder: PolicyBuilder) -> Result<Self, Error> {
        builder.build()
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let first = name.bytes().next();
    let usable = first.is_some_and(|byte| byte.is_ascii_alphabetic())
        && name.len() <= Policy::NAME_LENGTH_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:/*".contains(&byte));
    if usable {
        return Ok(());
    }
    let message = format!(
        "invalid policy name {name:?}: use 1 to 64 of a-z A-Z 0-9 _ - . : / *, a letter first"
    );
    Err(Error::new(ErrorKind::Policy, message))
}

pub(crate) fn check_quotas(quotas: &[Quota]) -> Result<(), Error> {
    if (1..=QUOTAS_MAX).contains(&quotas.len()) {
        return Ok(());
    }
    Err(Error::out_of_range(ErrorKind::Policy, "number of quotas", quotas.len(), "1 to 8"))
}
