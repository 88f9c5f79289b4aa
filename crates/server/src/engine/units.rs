//! Limits that requests bring along: made when they are asked for.

use slidegate::{Error, Quota};

use super::limit::Limit;
use crate::spec::Unit;

/// A limit of every unit in a domain's store, of which others are made.
#[derive(Debug)]
pub struct Units {
    /// In the order of [`Unit::ALL`].
    pub(super) limits: Vec<Limit>,
}

impl Units {
    /// A limit of `requests` in a unit. It shares its state with all others of that unit.
    ///
    /// # Errors
    ///
    /// When `requests` is zero.
    pub fn limit(&self, requests: u32, unit: Unit) -> Result<Limit, Error> {
        let quota = Quota::new(u64::from(requests), unit.window())?;
        self.limits[unit as usize].with_quotas(&[quota])
    }
}
