//! Looking at a key, and taking nothing.

use slidegate::{Cost, Decision, Error, Event, Usage};

use super::{Inner, RedisLimiter, RedisTier};
use crate::script::{KeyOp, KeyReply, Op};

impl RedisLimiter {
    /// Decides as if asked, and takes nothing: `remaining` is what is left now.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn peek(&self, key: impl AsRef<[u8]>, cost: Cost) -> Result<Decision, Error> {
        self.inner.peek(key.as_ref(), None, cost).await
    }

    /// As [`peek`](RedisLimiter::peek), for a key that has other quotas than the policy.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn peek_tier(
        &self,
        key: impl AsRef<[u8]>,
        tier: &RedisTier,
        cost: Cost,
    ) -> Result<Decision, Error> {
        self.inner.peek(key.as_ref(), Some(tier), cost).await
    }

    /// Units that count against each quota now.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn usage(&self, key: impl AsRef<[u8]>) -> Result<Usage, Error> {
        self.inner.usage(key.as_ref(), None).await
    }

    /// As [`usage`](RedisLimiter::usage), for a key that has other quotas than the policy.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn usage_tier(
        &self,
        key: impl AsRef<[u8]>,
        tier: &RedisTier,
    ) -> Result<Usage, Error> {
        self.inner.usage(key.as_ref(), Some(tier)).await
    }

    /// Every request that is still in the longest window, oldest first, for audits.
    ///
    /// # Errors
    ///
    /// When the algorithm is not a log, or Redis gave no answer.
    pub async fn history(&self, key: impl AsRef<[u8]>) -> Result<Vec<Event>, Error> {
        self.inner.history(key.as_ref(), None).await
    }

    /// As [`history`](RedisLimiter::history), for a key that has other quotas than the policy.
    ///
    /// # Errors
    ///
    /// When the algorithm is not a log, or Redis gave no answer.
    pub async fn history_tier(
        &self,
        key: impl AsRef<[u8]>,
        tier: &RedisTier,
    ) -> Result<Vec<Event>, Error> {
        self.inner.history(key.as_ref(), Some(tier)).await
    }
}

impl Inner {
    async fn peek(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Result<Decision, Error> {
        let op = Op::Peek { cost: cost.get() };
        let called = self.run_op(key, &self.limits(tier), op).await?;
        Ok(self.apply_mode(called.reply.decision(0)?))
    }

    async fn usage(&self, key: &[u8], tier: Option<&RedisTier>) -> Result<Usage, Error> {
        let called = self.run_op(key, &self.limits(tier), Op::Peek { cost: 1 }).await?;
        match called.reply {
            KeyReply::Decision { used, .. } => Ok(Usage::new(&used)),
            other => Err(other.unexpected().into()),
        }
    }

    async fn history(&self, key: &[u8], tier: Option<&RedisTier>) -> Result<Vec<Event>, Error> {
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
