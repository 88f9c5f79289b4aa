//! Looking at a key, and taking nothing.

use slidegate::{Cost, Decision, Error, Event, Usage};

use super::Inner;
use super::tier::RedisTier;
use crate::script::{KeyOp, KeyReply, Op};

impl Inner {
    pub(super) async fn peek(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Result<Decision, Error> {
        let op = Op::Peek { cost: cost.get() };
        let called = self.run_op(key, &self.limits(tier), op).await?;
        Ok(self.apply_mode(called.reply.decision(0)?))
    }

    pub(super) async fn usage(&self, key: &[u8], tier: Option<&RedisTier>) -> Result<Usage, Error> {
        let called = self.run_op(key, &self.limits(tier), Op::Peek { cost: 1 }).await?;
        match called.reply {
            KeyReply::Decision { used, .. } => Ok(Usage::new(&used)),
            other => Err(other.unexpected().into()),
        }
    }

    pub(super) async fn history(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
    ) -> Result<Vec<Event>, Error> {
        let limits = self.limits(tier);
        let op = KeyOp::new(&limits, Op::History)?.op;
        match self.run_op(key, &limits, op).await?.reply {
            KeyReply::History(entries) => Ok(entries
                .into_iter()
                .map(|(tick, units)| Event::new(limits.duration(tick), units))
                .collect()),
            other => Err(other.unexpected().into()),
        }
    }
}
