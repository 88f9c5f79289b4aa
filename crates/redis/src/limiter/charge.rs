//! Units recorded without a check.

use super::Inner;
use super::tier::RedisTier;
use crate::script::{CHARGES_MAX, Charge, Op};
use crate::servers::Failure;

impl Inner {
    /// Records units that were admitted elsewhere, whether they fit or not. Returns the number that
    /// still counts: units older than the longest window are not recorded.
    ///
    /// `charges` must be sorted, oldest first. More than [`CHARGES_MAX`] take several calls. After
    /// an error, some of them may have been recorded.
    pub(super) async fn charge(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        charges: &[Charge],
    ) -> Result<u64, Failure> {
        let limits = self.limits(tier);
        let mut recorded = 0_u64;
        for charges in charges.chunks(CHARGES_MAX) {
            let called = self.run_op(key, &limits, Op::Charge { charges }).await?;
            recorded = recorded.saturating_add(called.reply.units()?);
        }
        Ok(recorded)
    }
}
