//! One question to Redis, and its answer.

use core::time::Duration;

use slidegate::{Decision, Outcome, Receipt};
use tokio::time::Instant;

use super::Inner;
use crate::deny::Times;
use crate::lease::Granted;
use crate::redis::Redis;
use crate::script::{self, Answer, Ask, Kind, Op, ScriptLimits};
use crate::servers::{Answered, Failure, Reading};

/// What a script answered, and when it was asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) answers: Vec<Answer>,
    pub(super) times: Times,
}

impl Inner {
    /// Asks about one key.
    pub(super) async fn ask(
        &self,
        key: &[u8],
        limits: &ScriptLimits,
        op: Op,
    ) -> Result<Asked, Failure> {
        self.ask_until(key, limits, op, self.redis.deadline(Instant::now())).await
    }

    /// The same for one who has waited for something else already.
    pub(super) async fn ask_until(
        &self,
        key: &[u8],
        limits: &ScriptLimits,
        op: Op,
        until: Instant,
    ) -> Result<Asked, Failure> {
        let (name, ask) = (self.name(key), Ask { limits, op });
        let servers = &self.redis.shared.servers;
        // Only if there are others already, which is to be known before this one counts too.
        let is_busy = servers.is_busy();
        let _permit = servers.enter()?;
        if is_busy && let Some(told) = self.redis.ask_together(&name, &ask, until).await {
            return self.redis.understand(told?, &[ask]);
        }
        self.redis.ask_entered(&[name], &[ask], until).await
    }

    /// What a key is called in Redis.
    pub(super) fn name(&self, key: &[u8]) -> Vec<u8> {
        self.redis.shared.names.name(&self.stored_as, key, self.secret_keys)
    }
}

impl Redis {
    /// Asks about keys of one slot, in one script.
    pub(super) async fn ask(&self, names: &[Vec<u8>], asks: &[Ask<'_>]) -> Result<Asked, Failure> {
        self.ask_until(names, asks, self.deadline(Instant::now())).await
    }

    /// Until when whoever comes now is answered.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        now + self.shared.servers.timing.call
    }

    async fn ask_until(
        &self,
        names: &[Vec<u8>],
        asks: &[Ask<'_>],
        until: Instant,
    ) -> Result<Asked, Failure> {
        let _permit = self.shared.servers.enter()?;
        self.ask_entered(names, asks, until).await
    }

    /// The same for one who has entered already.
    async fn ask_entered(
        &self,
        names: &[Vec<u8>],
        asks: &[Ask<'_>],
        until: Instant,
    ) -> Result<Asked, Failure> {
        let arguments = script::arguments(asks, self.test_time());
        let script = script::script(Kind::of(asks));
        let answered = self.shared.servers.run_for(1, script, names, &arguments, until).await?;
        self.understand(answered, asks)
    }

    /// Reads an answer that has just come.
    fn understand(&self, answered: Answered, asks: &[Ask<'_>]) -> Result<Asked, Failure> {
        let received = Instant::now();
        let reply = script::parse(answered.value, asks).map_err(|error| {
            answered.node.distrust();
            Failure::unknown(format!("an answer that makes no sense: {error}"))
        })?;
        if self.test_time().is_none() {
            let reading = Reading { server: reply.server_time, sent: answered.sent, received };
            answered.node.note_time(reading);
        }
        let into_tick =
            asks.first().map_or(Duration::ZERO, |ask| ask.limits.within_tick(reply.server_time));
        let times = Times { sent: answered.sent, received, into_tick };
        Ok(Asked { answers: reply.answers, times })
    }

    #[cfg(feature = "test-clock")]
    pub(crate) fn test_time(&self) -> Option<Duration> {
        use slidegate::Clock;
        self.shared.clock.as_ref().map(|clock| Duration::from_nanos(clock.now()))
    }

    #[cfg(not(feature = "test-clock"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the clock of tests")]
    pub(crate) fn test_time(&self) -> Option<Duration> {
        None
    }
}

impl Asked {
    /// The only answer.
    pub(super) fn only(&self) -> Result<&Answer, Failure> {
        match self.answers.as_slice() {
            [only] => Ok(only),
            others => Err(Failure::answer(format!("{} answers instead of one", others.len()))),
        }
    }

    /// The only answer as a decision for a key with this fingerprint.
    pub(super) fn decision(&self, fingerprint: u64) -> Result<Decision, Failure> {
        decision(self.only()?, fingerprint)
    }

    /// The units of a lease; none if it was denied.
    pub(super) fn granted(&self) -> Result<Option<Granted<'_>>, Failure> {
        match self.only()? {
            Answer::Decided { allowed: true, tick, epoch, units, quotas, .. } => {
                Ok(Some(Granted {
                    units: *units,
                    tick: *tick,
                    epoch: *epoch,
                    quotas,
                    sent: self.times.sent,
                }))
            }
            Answer::Decided { allowed: false, .. } => Ok(None),
            other => Err(Failure::answer(format!("answered another question: {other:?}"))),
        }
    }
}

/// An answer as a decision.
pub(super) fn decision(answer: &Answer, fingerprint: u64) -> Result<Decision, Failure> {
    match answer {
        Answer::Decided { allowed: true, tick, epoch, units, quotas, .. } => {
            let taken = *units > 0;
            let receipt = taken.then(|| Receipt::new(fingerprint, *tick, *units, *epoch));
            Ok(Decision::new(Outcome::Allow, quotas, receipt))
        }
        Answer::Decided { allowed: false, quotas, .. } => {
            Ok(Decision::new(Outcome::Deny, quotas, None))
        }
        other => Err(Failure::answer(format!("answered another question: {other:?}"))),
    }
}
