//! Commands and their replies.

use core::time::Duration;
use std::sync::Arc;

use slidegate::{Cost, Decision, Error, RetryAfter};
use slidegate_gate::{ASKS_MAX, Ask, Caller, Gate, GateDecision, TierId, check_all};

use super::parse::CommandArguments;
use super::reply::{Replies, millis, seconds, shown};
use super::throttle::{Throttles, until_full};
use crate::access::{Access, AccessError, Scope};
use crate::engine::{Engine, Plan, latest};
use crate::nearest;
use crate::receipt::{PortableReceipt, TEXT_MAX as RECEIPT_MAX};

/// What the connection does after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterCommand {
    Continue,
    Quit,
}

/// A command and what it needs.
pub(super) struct Call<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) input: &'a [u8],
    pub(super) arguments: &'a CommandArguments,
    pub(super) replies: &'a mut Replies,
    pub(super) throttles: &'a mut Throttles,
    /// The longest key, in bytes.
    pub(super) key_max: usize,
    pub(super) access: &'a Access,
    /// The token of the last `AUTH`, compared for each command, so that a replaced one is refused.
    pub(super) token: &'a mut Option<Box<[u8]>>,
    /// The longest time that a check may wait for units.
    pub(super) wait_max: Duration,
    /// Whether the command is part of a transaction, where no command waits.
    pub(super) in_transaction: bool,
}

/// The text of an error reply.
type ErrorReply = String;

/// The names that are suggested for an unknown one.
const NAMES: &str = "sg.check sg.peek sg.reserve sg.settle sg.refund sg.usage sg.history sg.reset \
    sg.all sg.policies cl.throttle ping echo hello select client command config info reset auth \
    readonly readwrite multi exec discard watch unwatch quit";

/// The length of the longest name.
const NAME_MAX: usize = 11;

const NO_WATCH: &str = "ERR WATCH is not supported: there are no keys to watch; SG.ALL checks all or \
    nothing";

const INFO: &str =
    concat!("# Server\r\nserver:slidegate\r\nversion:", env!("CARGO_PKG_VERSION"), "\r\n");

/// The methods of HTTP.
const METHODS: &str = "get head post put delete connect options trace patch";

/// Returns the scope that a command needs; `None` for those that any client may send.
fn scope(name: &[u8]) -> Option<Scope> {
    match name {
        b"sg.check" | b"cl.throttle" | b"sg.reserve" | b"sg.all" | b"sg.policies" => {
            Some(Scope::Check)
        }
        b"sg.peek" | b"sg.usage" | b"sg.history" => Some(Scope::Look),
        b"sg.settle" | b"sg.refund" | b"sg.reset" => Some(Scope::Change),
        _ => None,
    }
}

impl Call<'_> {
    /// Runs the command and writes its reply.
    pub(super) async fn run(&mut self) -> AfterCommand {
        let Some(name) = self.arguments.get(self.input, 0) else { return AfterCommand::Continue };
        if self.is_http(name) {
            self.replies.error("ERR this is the Redis protocol, not HTTP: connection closed");
            return AfterCommand::Quit;
        }
        // Names are compared in lower case, without an allocation.
        let mut lower = [0; NAME_MAX];
        let lower = &mut lower[..name.len().min(NAME_MAX)];
        lower.copy_from_slice(&name[..lower.len()]);
        lower.make_ascii_lowercase();
        let known = if name.len() > NAME_MAX { &[] } else { &*lower };
        self.execute(known).await.unwrap_or_else(|error| {
            self.replies.error(&error);
            AfterCommand::Continue
        })
    }

    /// Returns `true` if the input is HTTP, as from a browser. The body of a request could contain commands.
    fn is_http(&self, name: &[u8]) -> bool {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        if self.input.first() == Some(&b'*') {
            return is("post") || is("host:");
        }
        let is_version = self.argument(2).starts_with(b"HTTP/");
        is_version || is("host:") || METHODS.split(' ').any(is)
    }

    async fn execute(&mut self, name: &[u8]) -> Result<AfterCommand, ErrorReply> {
        if let Some(scope) = scope(name) {
            self.access.check(scope, self.token.as_deref()).map_err(refused)?;
        }
        match name {
            b"sg.check" => self.check().await?,
            b"cl.throttle" => self.throttle().await?,
            b"sg.peek" => self.peek().await?,
            b"sg.reserve" => self.reserve().await?,
            b"sg.settle" => self.settle().await?,
            b"sg.refund" => self.refund().await?,
            b"sg.usage" => self.usage().await?,
            b"sg.history" => self.history().await?,
            b"sg.reset" => self.reset().await?,
            b"sg.all" => self.all().await?,
            b"sg.policies" => self.policies(),
            b"ping" => self.ping(),
            b"echo" => self.replies.bulk(self.argument(1)),
            b"hello" => self.hello()?,
            b"select" if self.argument(1) == b"0" => self.replies.simple("OK"),
            b"select" => return Err("ERR there is one database, 0".to_owned()),
            b"client" => self.client()?,
            // Clients send these when they connect, and do not need the reply.
            b"command" | b"config" => self.replies.array(0),
            b"info" => self.replies.bulk(INFO.as_bytes()),
            b"reset" => {
                *self.token = None;
                self.replies.simple("RESET");
            }
            b"auth" => self.auth()?,
            b"readonly" | b"readwrite" | b"unwatch" => self.replies.simple("OK"),
            b"watch" => return Err(NO_WATCH.to_owned()),
            b"quit" => {
                self.replies.simple("OK");
                return Ok(AfterCommand::Quit);
            }
            _ => return Err(unknown(self.argument(0))),
        }
        Ok(AfterCommand::Continue)
    }

    fn ping(&mut self) {
        match self.arguments.get(self.input, 1) {
            Some(text) => self.replies.bulk(text),
            None => self.replies.simple("PONG"),
        }
    }

    /// `AUTH token` or `AUTH user token`. The user is ignored.
    fn auth(&mut self) -> Result<(), ErrorReply> {
        let count = self.arguments.len();
        if !(2..=3).contains(&count) {
            return Err(self.wrong_number("[user] token"));
        }
        self.log_in(count - 1)?;
        self.replies.simple("OK");
        Ok(())
    }

    fn log_in(&mut self, index: usize) -> Result<(), ErrorReply> {
        let token = self.argument(index);
        self.access.log_in(token).map_err(|refusal| match refusal {
            Some(refusal) => refused(refusal),
            None => "ERR AUTH without any token configured: add one to `access.tokens`".to_owned(),
        })?;
        *self.token = Some(token.into());
        Ok(())
    }

    /// `HELLO [2|3 [AUTH user token] [SETNAME name]]`
    fn hello(&mut self) -> Result<(), ErrorReply> {
        let is_resp3 = match self.arguments.get(self.input, 1) {
            None => self.replies.is_resp3,
            Some(b"2") => false,
            Some(b"3") => true,
            Some(_) => return Err("NOPROTO use 2 or 3".to_owned()),
        };
        let mut at = 2;
        while at < self.arguments.len() {
            let word = self.argument(at);
            if word.eq_ignore_ascii_case(b"auth") && at + 2 < self.arguments.len() {
                self.log_in(at + 2)?;
                at += 3;
            } else if word.eq_ignore_ascii_case(b"setname") && at + 1 < self.arguments.len() {
                at += 2;
            } else {
                return Err(self.wrong_number("[2|3 [AUTH user token] [SETNAME name]]"));
            }
        }
        self.replies.is_resp3 = is_resp3;
        let protocol = if self.replies.is_resp3 { 3 } else { 2 };
        self.replies.map(4);
        for (name, value) in [
            ("server", "slidegate"),
            ("version", env!("CARGO_PKG_VERSION")),
            ("mode", "standalone"),
        ] {
            self.replies.bulk(name.as_bytes());
            self.replies.bulk(value.as_bytes());
        }
        self.replies.bulk(b"proto");
        self.replies.integer(protocol);
        Ok(())
    }

    fn client(&mut self) -> Result<(), ErrorReply> {
        match &*self.argument(1).to_ascii_lowercase() {
            b"id" => self.replies.integer(1),
            b"getname" => self.replies.null(),
            b"setname" | b"setinfo" | b"no-evict" | b"no-touch" | b"reply" => {
                self.replies.simple("OK");
            }
            _ => {
                let known = "use ID, GETNAME, SETNAME or SETINFO";
                return Err(format!("ERR unknown subcommand: {known}"));
            }
        }
        Ok(())
    }

    /// `SG.CHECK policy key [COST n] [TIER name] [WAIT milliseconds]`
    async fn check(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let (ask, wait) = self.ask_and_wait(&plan)?;
        let decided = self.decide(ask, wait).await;
        self.decision(&decided.decision);
        Ok(())
    }

    /// Checks, and waits for units for up to `wait`.
    async fn decide(&self, ask: Ask<'_>, wait: Duration) -> GateDecision {
        let Ask { gate, key, tier, cost } = ask;
        let mut decided = if wait.is_zero() {
            gate.check(key, tier, cost, Caller::RESP).await
        } else {
            let waiting = self.engine.waiting(wait);
            // Boxed, so that checks that do not wait do not carry it.
            Box::pin(self.engine.check_or_wait(ask, &waiting, Caller::RESP)).await
        };
        self.access.hide(&mut decided.decision, self.token.as_deref());
        decided
    }

    /// `SG.PEEK policy key [COST n] [TIER name]`
    async fn peek(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let ask = self.ask(&plan, "policy key [COST n] [TIER name]")?;
        let decision = ask.gate.peek(ask.key, ask.tier, ask.cost).await.map_err(failed)?;
        self.decision(&decision);
        Ok(())
    }

    /// `SG.RESERVE policy key [COST n] [TIER name] [WAIT milliseconds]`: as `SG.CHECK`, with the
    /// receipt as the sixth item.
    async fn reserve(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let (ask, wait) = self.ask_and_wait(&plan)?;
        let GateDecision { decision, .. } = self.decide(ask, wait).await;
        self.replies.array(6);
        self.five(&decision);
        match PortableReceipt::of(&decision) {
            Some(receipt) => {
                let mut text = [0; RECEIPT_MAX];
                self.replies.bulk(receipt.encode(&mut text));
            }
            None => self.replies.null(),
        }
        Ok(())
    }

    /// `SG.REFUND policy key receipt [TIER name]`
    async fn refund(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let (gate, key) = self.limit_and_key(&plan, 4, "policy key receipt [TIER name]")?;
        let receipt = self.receipt(3)?;
        let (_, tier) = self.options(gate, 4, None)?;
        let units = receipt.refund(gate, key, tier).await.map_err(failed)?;
        self.replies.units(units);
        Ok(())
    }

    /// `SG.SETTLE policy key receipt actual [TIER name]`
    async fn settle(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let (gate, key) = self.limit_and_key(&plan, 5, "policy key receipt actual [TIER name]")?;
        let receipt = self.receipt(3)?;
        let actual = self.number(4)?;
        let (_, tier) = self.options(gate, 5, None)?;
        let units = receipt.settle(gate, key, tier, actual).await.map_err(failed)?;
        self.replies.units(units);
        Ok(())
    }

    /// `SG.USAGE policy key [TIER name]`
    async fn usage(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let ask = self.ask(&plan, "policy key [TIER name]")?;
        let usage = ask.gate.usage(ask.key, ask.tier).await.map_err(failed)?;
        self.replies.array(usage.as_slice().len());
        for units in usage.as_slice() {
            self.replies.units(*units);
        }
        Ok(())
    }

    /// `SG.HISTORY policy key [TIER name]`: milliseconds since 1970 and units, oldest first.
    async fn history(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let ask = self.ask(&plan, "policy key [TIER name]")?;
        let events = ask.gate.history(ask.key, ask.tier).await.map_err(failed)?;
        let events = latest(&events);
        self.replies.array(events.len());
        for event in events {
            self.replies.array(2);
            self.replies.units(u64::try_from(event.at.as_millis()).unwrap_or(u64::MAX));
            self.replies.units(event.units);
        }
        Ok(())
    }

    /// `SG.RESET policy key`
    async fn reset(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let (gate, key) = self.limit_and_key(&plan, 3, "policy key")?;
        let found = gate.reset(key).await.map_err(failed)?;
        self.replies.integer(i64::from(found));
        Ok(())
    }

    /// `SG.ALL policy key cost [policy key cost ...] [WAIT milliseconds]`: all or nothing; one reply
    /// for each check.
    async fn all(&mut self) -> Result<(), ErrorReply> {
        let plan = self.engine.plan();
        let mut rest = self.arguments.len() - 1;
        let mut wait = Duration::ZERO;
        if rest % 3 == 2 && self.argument(rest - 1).eq_ignore_ascii_case(b"wait") {
            wait = self.wait(rest)?;
            rest -= 2;
        }
        if rest == 0 || !rest.is_multiple_of(3) || rest / 3 > ASKS_MAX {
            let wanted = format!("policy key cost, one to {ASKS_MAX} times, [WAIT milliseconds]");
            return Err(self.wrong_number(&wanted));
        }
        let mut asks = Vec::with_capacity(rest / 3);
        for at in (1..=rest).step_by(3) {
            let gate = self.gate(&plan, at)?;
            let (key, cost) = (self.key(at + 1)?, self.cost(at + 2)?);
            asks.push(Ask { gate, key, tier: None, cost });
        }
        let waiting = (!wait.is_zero()).then(|| self.engine.waiting(wait));
        let all = check_all(&asks, waiting.as_ref(), Caller::RESP).await.map_err(failed)?;
        self.replies.array(all.len());
        for mut decided in all {
            self.access.hide(&mut decided.decision, self.token.as_deref());
            self.decision(&decided.decision);
        }
        Ok(())
    }

    /// `SG.POLICIES`: name and quotas of each.
    fn policies(&mut self) {
        let plan = self.engine.plan();
        let policies = &plan.spec().policies;
        self.replies.array(policies.len());
        for policy in policies {
            self.replies.array(2);
            self.replies.bulk(policy.name.as_bytes());
            self.replies.array(policy.quotas.len());
            for quota in &policy.quotas {
                self.replies.array(2);
                self.replies.units(quota.limit());
                self.replies.integer(millis(quota.window()));
            }
        }
    }

    /// `CL.THROTTLE key max_burst count period [quantity]`, as redis-cell has it.
    async fn throttle(&mut self) -> Result<(), ErrorReply> {
        if !(5..=6).contains(&self.arguments.len()) {
            return Err(self.wrong_number("key max_burst count period [quantity]"));
        }
        let key = self.key(1)?;
        let rate = [self.number(2)?, self.number(3)?, self.number(4)?];
        let quantity = if self.arguments.len() == 6 { self.number(5)? } else { 1 };
        if quantity == 0 {
            self.access.check(Scope::Look, self.token.as_deref()).map_err(refused)?;
        }
        let gate = self.throttles.get(self.engine, rate).await?;
        let mut decision = match Cost::new(quantity) {
            Ok(cost) => gate.check(key, None, cost, Caller::RESP).await.decision,
            // Takes nothing, and returns the current state.
            Err(_) if quantity == 0 => gate.peek(key, None, Cost::ONE).await.map_err(failed)?,
            Err(error) => return Err(format!("ERR {error}")),
        };
        self.access.hide(&mut decision, self.token.as_deref());
        let allowed = decision.is_allowed() || quantity == 0;
        self.replies.array(5);
        self.replies.integer(i64::from(!allowed));
        self.replies.units(rate[0] + 1);
        self.replies.units(decision.remaining());
        self.replies.integer(match decision.retry_after() {
            RetryAfter::After(wait) if !allowed => seconds(wait),
            _ => -1,
        });
        self.replies.integer(seconds(until_full(gate, &decision)));
        Ok(())
    }

    fn decision(&mut self, decision: &Decision) {
        self.replies.array(5);
        self.five(decision);
    }

    /// Writes 1 if allowed, limit, remaining units, milliseconds until the check would be allowed (-1 for
    /// never) and until more units are available. The limit is that of the quota with the fewest left.
    fn five(&mut self, decision: &Decision) {
        let tightest = decision.quotas().iter().min_by_key(|quota| quota.remaining());
        self.replies.integer(i64::from(decision.is_allowed()));
        self.replies.units(tightest.map_or(0, slidegate::QuotaDecision::limit));
        self.replies.units(decision.remaining());
        self.replies.integer(match decision.retry_after() {
            _ if decision.is_allowed() => 0,
            RetryAfter::Now => 0,
            RetryAfter::After(wait) => millis(wait),
            RetryAfter::Never => -1,
        });
        self.replies.integer(millis(decision.reset_after()));
    }
}

impl<'a> Call<'a> {
    /// Returns `true` if the command may wait for units. The connection is watched while it waits.
    pub(super) fn may_wait(&self) -> bool {
        let is_wait = |at| self.argument(at).eq_ignore_ascii_case(b"wait");
        !self.in_transaction && (3..self.arguments.len()).any(is_wait)
    }

    /// Returns an error if there is no command of this name.
    pub(super) fn unknown(name: &[u8]) -> Option<ErrorReply> {
        let is_known = NAMES.split(' ').any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        (!is_known).then(|| unknown(name))
    }

    /// `policy key [COST n] [TIER name] [WAIT milliseconds]`
    fn ask_and_wait<'p>(&self, plan: &'p Plan) -> Result<(Ask<'p>, Duration), ErrorReply>
    where
        'a: 'p,
    {
        let wanted = "policy key [COST n] [TIER name] [WAIT milliseconds]";
        let count = self.arguments.len();
        if !(3..=9).contains(&count) || count.is_multiple_of(2) {
            return Err(self.wrong_number(wanted));
        }
        let (gate, key) = (self.gate(plan, 1)?, self.key(2)?);
        let mut wait = Duration::ZERO;
        let (cost, tier) = self.options(gate, 3, Some(&mut wait))?;
        Ok((Ask { gate, key, tier, cost }, wait))
    }

    fn ask<'p>(&self, plan: &'p Plan, wanted: &str) -> Result<Ask<'p>, ErrorReply>
    where
        'a: 'p,
    {
        let count = self.arguments.len();
        if !(3..=7).contains(&count) || count.is_multiple_of(2) {
            return Err(self.wrong_number(wanted));
        }
        let (gate, key) = (self.gate(plan, 1)?, self.key(2)?);
        let (cost, tier) = self.options(gate, 3, None)?;
        Ok(Ask { gate, key, tier, cost })
    }

    fn limit_and_key<'p>(
        &self,
        plan: &'p Plan,
        least: usize,
        wanted: &str,
    ) -> Result<(&'p Gate, &'a [u8]), ErrorReply> {
        if self.arguments.len() < least {
            return Err(self.wrong_number(wanted));
        }
        Ok((self.gate(plan, 1)?, self.key(2)?))
    }

    fn argument(&self, index: usize) -> &'a [u8] {
        self.arguments.get(self.input, index).unwrap_or_default()
    }

    fn gate<'p>(&self, plan: &'p Plan, index: usize) -> Result<&'p Gate, ErrorReply> {
        let name = self.argument(index);
        let found = core::str::from_utf8(name).ok().and_then(|name| plan.gate(name));
        found.map(|limit| &**limit).ok_or_else(|| {
            let names = plan.spec().policies.iter().map(|policy| policy.name.as_str());
            let name = shown(name);
            let meant = match nearest(&name, names) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "SG.POLICIES lists the policies".to_owned(),
            };
            format!("ERR no policy '{name}': {meant}")
        })
    }

    fn key(&self, index: usize) -> Result<&'a [u8], ErrorReply> {
        let key = self.argument(index);
        if (1..=self.key_max).contains(&key.len()) {
            return Ok(key);
        }
        let (len, max) = (key.len(), self.key_max);
        Err(format!("ERR a key of {len} bytes is out of range: use 1 to {max}"))
    }

    /// `COST n`, `TIER name` and, if the command takes it, `WAIT milliseconds`, in any order.
    fn options(
        &self,
        gate: &Gate,
        from: usize,
        mut wait: Option<&mut Duration>,
    ) -> Result<(Cost, Option<TierId>), ErrorReply> {
        let (mut cost, mut tier) = (Cost::ONE, None);
        for at in (from..self.arguments.len()).step_by(2) {
            let word = self.argument(at);
            if word.eq_ignore_ascii_case(b"cost") {
                cost = self.cost(at + 1)?;
            } else if word.eq_ignore_ascii_case(b"tier") {
                let name = shown(self.argument(at + 1));
                let found = gate.tier(&name);
                let unknown = || format!("ERR policy '{}' has no tier '{name}'", gate.name());
                tier = Some(found.ok_or_else(unknown)?);
            } else if let (true, Some(wait)) = (word.eq_ignore_ascii_case(b"wait"), &mut wait) {
                **wait = self.wait(at + 1)?;
            } else {
                // It is not shown: it may be a key in the wrong place.
                let known = if wait.is_some() { "COST, TIER or WAIT" } else { "COST or TIER" };
                return Err(format!("ERR argument {at} is not an option: use {known}"));
            }
        }
        Ok((cost, tier))
    }

    /// The time of `WAIT`. In a transaction, no command waits.
    fn wait(&self, index: usize) -> Result<Duration, ErrorReply> {
        let wait = Duration::from_millis(self.number(index)?);
        if wait > self.wait_max {
            let most = self.wait_max.as_millis();
            return Err(format!(
                "ERR WAIT is out of range: use 0 to {most} milliseconds (`limits.wait_max`)"
            ));
        }
        Ok(if self.in_transaction { Duration::ZERO } else { wait })
    }

    fn cost(&self, index: usize) -> Result<Cost, ErrorReply> {
        Cost::new(self.number(index)?).map_err(|error| format!("ERR {error}"))
    }

    fn number(&self, index: usize) -> Result<u64, ErrorReply> {
        let text = self.argument(index);
        let read = core::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        read.ok_or_else(|| format!("ERR argument {index} is not a number from 0 to {}", u64::MAX))
    }

    fn receipt(&self, index: usize) -> Result<PortableReceipt, ErrorReply> {
        let text = shown(self.argument(index));
        PortableReceipt::parse(&text)
            .ok_or_else(|| format!("ERR argument {index} is not a receipt of SG.RESERVE"))
    }

    fn wrong_number(&self, wanted: &str) -> ErrorReply {
        let name = shown(self.argument(0)).to_lowercase();
        format!("ERR wrong number of arguments for '{name}': use {wanted}")
    }
}

fn unknown(name: &[u8]) -> ErrorReply {
    let name = shown(name);
    let near = nearest(&name, NAMES.split(' '));
    let meant = near.map(|near| format!(": did you mean '{near}'?")).unwrap_or_default();
    format!("ERR unknown command '{name}'{meant}")
}

fn refused(refusal: AccessError) -> ErrorReply {
    let code = match refusal {
        AccessError::UnknownToken => "WRONGPASS",
        AccessError::TokenNeeded(_) => "NOAUTH",
        AccessError::ScopeMissing(_) | AccessError::Off(_) => "NOPERM",
    };
    format!("{code} {refusal}")
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: Error) -> ErrorReply {
    format!("ERR {error}")
}
