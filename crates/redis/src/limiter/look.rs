//! Looking at a key, and taking nothing.

use core::time::Duration;

use slidegate::{Cost, Decision, Error, Event, Usage};

use super::tier::RedisTier;
use super::{Inner, unexpected};
use crate::script::{Answer, Ask, Op};

impl Inner {
    pub(super) async fn peek(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Result<Decision, Error> {
        let op = Op::Peek { cost: cost.get() };
        let answer = self.ask(key, &self.limits(tier), op).await?;
        Ok(self.finish(answer.decision(0)?))
    }

    pub(super) async fn usage(&self, key: &[u8], tier: Option<&RedisTier>) -> Result<Usage, Error> {
        let answer = self.ask(key, &self.limits(tier), Op::Peek { cost: 1 }).await?;
        match answer.only()? {
            Answer::Decided { used, .. } => Ok(Usage::new(used)),
            other => Err(unexpected(other)),
        }
    }

    pub(super) async fn history(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
    ) -> Result<Vec<Event>, Error> {
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
