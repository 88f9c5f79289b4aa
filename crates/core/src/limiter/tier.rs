//! Other quotas for some keys.

use crate::error::{Error, ErrorKind};
use crate::policy::{Algorithm, Policy, check_quotas};
use crate::quota::Quota;
use crate::time::TickScale;
use crate::window::Limits;

/// Quotas that some keys have instead of the policy's, ready to use: see
/// [`Limiter::tier`](crate::Limiter::tier).
///
/// ```
/// use slidegate::{Cost, Limiter, Policy, Quota};
///
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(10)?)?)?;
/// let gold = limiter.tier(&[Quota::per_minute(1000)?])?;
///
/// assert_eq!(limiter.check("alice").remaining(), 9);
/// assert_eq!(limiter.check_tier("bob", &gold, Cost::ONE).remaining(), 999);
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tier {
    quotas: Box<[Quota]>,
    pub(super) limits: Limits,
}

impl Tier {
    pub(super) fn new(quotas: &[Quota], policy: &Policy, scale: &TickScale) -> Result<Self, Error> {
        check_quotas(quotas)?;
        let log = matches!(policy.algorithm(), Algorithm::Log | Algorithm::LogCapped { .. });
        let fits = if log {
            quotas.len() <= policy.quotas().len()
        } else {
            quotas.len() == policy.quotas().len()
        };
        if !fits {
            let message = format!(
                "a tier of {} quotas does not fit policy {:?} of {}: with {:?} use {}",
                quotas.len(),
                policy.name(),
                policy.quotas().len(),
                policy.algorithm(),
                if log { "as many or fewer" } else { "as many" },
            );
            return Err(Error::new(ErrorKind::Policy, message));
        }
        Ok(Self { quotas: quotas.into(), limits: Limits::new(quotas, policy.algorithm(), scale) })
    }

    /// The quotas.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }
}
