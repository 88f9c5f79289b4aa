//! Looking at a key, and taking nothing.

use core::time::Duration;

use slidegate::{Cost, Decision, Error, Event, Usage};

use super::{Inner, RedisLimiter, RedisTier, unexpected};
use crate::script::{Answer, Ask, Op};

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
        let answer = self.ask(key, &self.limits(tier), op).await?;
        Ok(self.finish(answer.decision(0)?))
    }

    async fn usage(&self, key: &[u8], tier: Option<&RedisTier>) -> Result<Usage, Error> {
        let answer = self.ask(key, &self.limits(tier), Op::Peek { cost: 1 }).await?;
        match answer.only()? {
            Answer::Decided { used, .. } => Ok(Usage::new(used)),
            other => Err(unexpected(other)),
        }
    }

    async fn history(&self, key: &[u8], tier: Option<&RedisTier>) -> Result<Vec<Event>, Error> {
        let limits = self.limits(tier);
        let ask = Ask::new(&limits, Op::History)?;
        let answer = self.redis.ask(&[self.name(key)], &[ask]).await?;
        let event = |(at, units): &(u64, u64)| Event::new(times(self.tick, *at), *units);
        match answer.only()? {
            Answer::History(events) => Ok(events.iter().map(event).collect()),
            other => Err(unexpected(other)),
        }
    }
}

fn times(tick: Duration, count: u64) -> Duration {
    let nanos = tick.as_nanos().saturating_mul(u128::from(count));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
