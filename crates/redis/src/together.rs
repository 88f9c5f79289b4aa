//! Independent checks that go to the server in one call.
//!
//! To be called costs a server as much as to decide. So a check that comes while others are under way
//! lets everybody else who is ready have a turn, and goes with those who ask meanwhile. It waits for
//! nobody's answer and for no timer, and one that comes alone goes at once: nothing gets slower.

use core::mem;

use parking_lot::Mutex;
use redis::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::redis::Redis;
use crate::script::{self, Ask, Kind};
use crate::servers::{Answered, Failure};

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
    /// Asks together with others, if there are others; none if this ask goes alone.
    pub(crate) async fn ask_together(
        &self,
        name: &[u8],
        ask: &Ask<'_>,
        until: Instant,
    ) -> Option<Told> {
        let servers = &self.shared.servers;
        if !ask.is_short() || servers.is_cluster() || !servers.is_busy() {
            return None;
        }
        // One with little time left would take it from the others.
        let left = until.saturating_duration_since(Instant::now());
        if left < servers.timing.call / 4 * 3 {
            return None;
        }
        let line = self.shared.together.line(ask.limits.kind())?;
        let permit = match servers.enter() {
            Ok(permit) => permit,
            Err(failure) => return Some(Err(failure)),
        };
        let (tell, told) = oneshot::channel();
        self.line_up(line, Waiting { name: name.to_vec(), argument: ask.argument(), until, tell });
        let ended = |_| Err(Failure::unknown("the runtime ended before there was an answer"));
        let told = told.await.unwrap_or_else(ended);
        drop(permit);
        match &told {
            Ok(Answered { value: Value::BulkString(bytes), .. }) if bytes == script::ALONE => None,
            _ => Some(told),
        }
    }

    fn line_up(&self, line: &Line, new: Waiting) {
        let mut waiting = line.waiting.lock();
        waiting.push(new);
        let is_first = waiting.len() == 1;
        let full = (waiting.len() >= self.shared.together.most).then(|| mem::take(&mut *waiting));
        drop(waiting);
        let (redis, kind) = (self.clone(), line.kind);
        // On tasks of their own: one who goes away must not take the others along.
        if let Some(waiting) = full {
            tokio::spawn(async move { redis.send_together(kind, waiting).await });
        } else if is_first {
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                let waiting = redis.shared.together.line(kind).map(Line::take);
                redis.send_together(kind, waiting.unwrap_or_default()).await;
            });
        }
    }

    /// Sends all in one call, and tells each what became of it.
    async fn send_together(&self, kind: Kind, waiting: Vec<Waiting>) {
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
    async fn only_those_with_time_left_go_together_and_only_if_there_are_others() {
        // Nobody listens there.
        let redis = Redis::single("redis://127.0.0.1:1").unwrap();
        let redis = redis.deadline(Duration::from_secs(8)).build().unwrap();
        let quota = Quota::per_minute(5).unwrap();
        let (limits, wide) = (limits(&[quota]), limits(&[quota, Quota::per_hour(9).unwrap()]));
        let check = Ask { limits: &limits, op: Op::Check { cost: 1 } };
        let seconds = |left| Instant::now() + Duration::from_secs(left);
        assert!(redis.ask_together(b"k", &check, seconds(8)).await.is_none(), "alone");

        let _other = redis.shared.servers.enter().unwrap();
        assert!(matches!(redis.ask_together(b"k", &check, seconds(8)).await, Some(Err(_))));
        assert!(redis.ask_together(b"k", &check, seconds(5)).await.is_none(), "in a hurry");
        let peek = Ask { op: Op::Peek { cost: 1 }, ..check };
        assert!(redis.ask_together(b"k", &peek, seconds(8)).await.is_none(), "only looks");
        let several = Ask { limits: &wide, ..check };
        assert!(redis.ask_together(b"k", &several, seconds(8)).await.is_none(), "two quotas");
    }
}
