//! Independent checks that go to the server in one call.
//!
//! To be called, and to read its clock, takes a server two fifths of what a check takes it. So a
//! check that comes while others are under way lets everybody else who is ready have a turn, and goes
//! with those who ask meanwhile. It waits for nobody's answer and for no timer, and one that comes
//! alone goes at once.

use core::mem;

use parking_lot::Mutex;
use redis::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::redis::Redis;
use crate::script::{self, Ask, Kind};
use crate::servers::{Answered, Failure, FailureKind};

/// Those who are about to ask, by the script that answers them.
#[derive(Debug)]
pub(crate) struct Together {
    lines: [Line; KINDS.len()],
    /// The most that go in one call; one if everybody goes alone.
    most: usize,
}

#[derive(Debug)]
struct Line {
    kind: Kind,
    waiting: Mutex<Vec<Waiting>>,
}

/// One who is about to ask.
#[derive(Debug)]
struct Waiting {
    name: Vec<u8>,
    argument: Vec<u8>,
    until: Instant,
    tell: oneshot::Sender<Told>,
}

type Told = Result<Answered, Failure>;

const KINDS: [Kind; 4] = [Kind::Log, Kind::Counter, Kind::Gcra, Kind::Fixed];

impl Together {
    pub(crate) fn new(most: usize) -> Self {
        let line = |kind| Line { kind, waiting: Mutex::default() };
        Self { lines: KINDS.map(line), most }
    }

    fn line(&self, kind: Kind) -> Option<&Line> {
        self.lines.iter().find(|line| line.kind == kind).filter(|_| self.most > 1)
    }
}

impl Redis {
    /// Asks together with others, for one who has entered; none if this ask has to go alone.
    pub(crate) async fn ask_together(
        &self,
        name: &[u8],
        ask: &Ask<'_>,
        until: Instant,
    ) -> Option<Told> {
        let servers = &self.shared.servers;
        if !ask.is_short() || servers.is_cluster() {
            return None;
        }
        let (now, call) = (Instant::now(), servers.timing.call);
        // One with little time left would take it from the others.
        if until.saturating_duration_since(now) < call / 4 * 3 {
            return None;
        }
        let line = self.shared.together.line(ask.limits.kind())?;
        let (tell, told) = oneshot::channel();
        let new = Waiting { name: name.to_vec(), argument: ask.argument(), until, tell };
        self.line_up(line, new, now + call / 2);
        let told = match timeout_at(until, told).await {
            Ok(Ok(told)) => told,
            Ok(Err(_)) => Err(Failure::unknown("the runtime ended before there was an answer")),
            Err(_) => Err(Failure::unknown("it took too long to ask together with others")),
        };
        match &told {
            Ok(Answered { value: Value::BulkString(bytes), .. }) if bytes == script::ALONE => None,
            Err(failure) if failure.kind == FailureKind::Apart => None,
            _ => Some(told),
        }
    }

    /// Puts one in line. Whoever is first sees to it that all go; if that one has to be back by
    /// `late`, its runtime has ended or stands still, and whoever comes does it.
    fn line_up(&self, line: &Line, new: Waiting, late: Instant) {
        let mut waiting = line.waiting.lock();
        let goes = waiting.first().is_none_or(|first| first.until < late);
        waiting.push(new);
        let full = (waiting.len() >= self.shared.together.most).then(|| mem::take(&mut *waiting));
        drop(waiting);
        let (redis, kind) = (self.clone(), line.kind);
        // On tasks of their own: one who goes away must not take the others along.
        if let Some(waiting) = full {
            tokio::spawn(async move { redis.send_together(kind, waiting).await });
        } else if goes {
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                let waiting = redis.shared.together.line(kind).map(Line::take);
                redis.send_together(kind, waiting.unwrap_or_default()).await;
            });
        }
    }

    /// Sends all in one call, and tells each what became of it.
    async fn send_together(&self, kind: Kind, mut waiting: Vec<Waiting>) {
        // Who has gone, or has no time left, is not charged.
        let now = Instant::now();
        waiting.retain(|waiting| !waiting.tell.is_closed() && waiting.until > now);
        let Some(until) = waiting.iter().map(|waiting| waiting.until).min() else {
            return;
        };
        let (mut names, mut arguments, mut tells) = (Vec::new(), Vec::new(), Vec::new());
        for Waiting { name, argument, tell, .. } in waiting {
            names.push(name);
            arguments.push(argument);
            tells.push(tell);
        }
        arguments.extend(self.test_time().map(script::time));
        let callers = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let script = script::script_for_many(kind).filter(|_| callers > 1);
        let script = script.unwrap_or_else(|| script::script(kind));
        let servers = &self.shared.servers;
        let answered = servers.run_for(callers, script, &names, &arguments, until).await;
        for (told, tell) in split(answered, tells.len()).zip(tells) {
            // Who does not want it any more has been charged all the same.
            let _ = tell.send(told);
        }
    }
}

impl Line {
    fn take(&self) -> Vec<Waiting> {
        mem::take(&mut *self.waiting.lock())
    }
}

/// What each of `count` is told.
fn split(answered: Told, count: usize) -> Box<dyn Iterator<Item = Told> + Send> {
    match answered {
        Ok(Answered { value: Value::Array(values), sent, node }) if values.len() == count => {
            Box::new(
                values.into_iter().map(move |value| {
                    Ok(Answered { value, sent, node: std::sync::Arc::clone(&node) })
                }),
            )
        }
        Ok(answered) if count > 1 => {
            answered.node.distrust();
            let failure = Failure::unknown("one answer to many questions");
            Box::new(core::iter::repeat_n(Err(failure), count))
        }
        other => Box::new(core::iter::repeat_n(other, count)),
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use slidegate::{Algorithm, Quota};

    use super::*;
    use crate::script::{Op, ScriptLimits};

    fn limits(quotas: &[Quota]) -> ScriptLimits {
        let tick = Duration::from_millis(1);
        ScriptLimits::new(quotas, Algorithm::Log, tick, tick).unwrap()
    }

    // Who goes with others shares their deadline, so all must have about the same.
    #[tokio::test]
    async fn only_those_with_time_left_go_together_and_only_plain_checks() {
        let redis = nowhere();
        let quota = Quota::per_minute(5).unwrap();
        let (limits, wide) = (limits(&[quota]), limits(&[quota, Quota::per_hour(9).unwrap()]));
        let check = Ask { limits: &limits, op: Op::Check { cost: 1 } };
        assert!(matches!(redis.ask_together(b"k", &check, seconds(8)).await, Some(Err(_))));
        assert!(redis.ask_together(b"k", &check, seconds(5)).await.is_none(), "in a hurry");
        let peek = Ask { op: Op::Peek { cost: 1 }, ..check };
        assert!(redis.ask_together(b"k", &peek, seconds(8)).await.is_none(), "only looks");
        let several = Ask { limits: &wide, ..check };
        assert!(redis.ask_together(b"k", &several, seconds(8)).await.is_none(), "two quotas");
    }

    // One runtime stops while its check is first in line: those of others must not wait for it.
    #[tokio::test]
    async fn one_who_never_goes_holds_nobody_up() {
        let redis = nowhere();
        let limits = limits(&[Quota::per_minute(5).unwrap()]);
        let check = Ask { limits: &limits, op: Op::Check { cost: 1 } };
        let (tell, stuck) = oneshot::channel();
        let (name, argument) = (b"k".to_vec(), check.argument());
        let line = redis.shared.together.line(Kind::Log).unwrap();
        line.waiting.lock().push(Waiting { name, argument, until: seconds(3), tell });
        let began = Instant::now();
        let told = redis.ask_together(b"k", &check, seconds(8)).await;
        assert!(matches!(told, Some(Err(_))));
        assert!(began.elapsed() < Duration::from_secs(7), "waited for its deadline");
        assert!(stuck.await.is_ok_and(|told| told.is_err()), "the other one went too");
    }

    /// Nobody listens there.
    fn nowhere() -> Redis {
        let redis = Redis::single("redis://127.0.0.1:1").unwrap();
        redis.deadline(Duration::from_secs(8)).build().unwrap()
    }

    fn seconds(left: u64) -> Instant {
        Instant::now() + Duration::from_secs(left)
    }
}
