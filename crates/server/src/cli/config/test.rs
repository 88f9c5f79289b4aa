//! `config test`: runs timed requests against the real engine, with a simulated clock.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::json;
use slidegate::{Decision, ManualClock, format_duration};
use slidegate_gate::{Ask, Caller, check_all};

use super::rule::AuthRequest;
use super::written;
use crate::cli::exit;
use crate::config::report::{write_json, write_text};
use crate::config::scenario::{HttpRequest, Scenario, ScenarioRequest, Step, Test, read};
use crate::config::{InvalidConfig, Loaded, Request, load};
use crate::domain::{Code, Descriptor, Domain, Entry, LimitRequest, Options, answer};
use crate::engine::Engine;
use crate::gates::NoRestore;
use crate::http::auth::{MatchedRule, matching_rules};
use crate::nearest::hint;
use crate::spec::{MEMORY, Spec, StoreSpec};

/// The tests to run, and the output format.
#[derive(Debug, Clone)]
pub struct TestOptions {
    /// Test files.
    pub files: Vec<PathBuf>,
    /// The configuration of test files that name none. Its variables and flags apply to all.
    pub request: Request,
    /// Writes one JSON object per line, for programs.
    pub json: bool,
    /// Whether to write in colors.
    pub colors: bool,
}

/// Runs all tests of all files. Returns exit code 1 if one fails, and 78 if a file is invalid.
pub fn test(options: &TestOptions, out: &mut dyn Write) -> u8 {
    let mut tally = Tally { passed: 0, failed: 0, code: exit::OK };
    for file in &options.files {
        let played = match read(file) {
            Ok(scenario) => play(options, &scenario, &mut tally, out),
            Err(refused) => tally.refuse(&refused, options, out),
        };
        if let Err(error) = played {
            return written(Err(error), exit::FAILED);
        }
    }
    let Tally { passed, failed, code } = tally;
    let summary = if options.json {
        writeln!(out, "{}", json!({"passed": passed, "failed": failed}))
    } else {
        writeln!(out, "{passed} passed, {failed} failed")
    };
    written(summary, code)
}

struct Tally {
    passed: usize,
    failed: usize,
    code: u8,
}

impl Tally {
    fn refuse(
        &mut self,
        refused: &InvalidConfig,
        options: &TestOptions,
        out: &mut dyn Write,
    ) -> Result<(), io::Error> {
        self.code = exit::CONFIG;
        if options.json {
            write_json(out, &refused.findings)
        } else {
            write_text(out, &refused.findings, options.colors)
        }
    }

    fn count(&mut self, failure: Option<&Failure>) {
        match failure {
            None => self.passed += 1,
            Some(_) => {
                self.failed += 1;
                self.code = self.code.max(exit::FAILED);
            }
        }
    }
}

/// The place and reason of a failed test.
struct Failure {
    line: usize,
    what: String,
}

fn play(
    options: &TestOptions,
    scenario: &Scenario,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<(), io::Error> {
    let mut request = options.request.clone();
    if let Some(config) = &scenario.config {
        request.paths = vec![config.clone()];
    }
    // No real store is used, so its secrets are not needed.
    request.secrets = false;
    let mut loaded = match load(&request) {
        Ok(loaded) => loaded,
        Err(refused) => return tally.refuse(&refused, options, out),
    };
    into_memory(&mut loaded.spec);
    for test in &scenario.tests {
        let failure = run(&loaded, test).err();
        tally.count(failure.as_ref());
        print(test, failure.as_ref(), options.json, out)?;
    }
    Ok(())
}

/// Replaces all stores by memory: the limits are tested, not the network.
pub(in crate::cli) fn into_memory(spec: &mut Spec) {
    spec.stores.retain(|store| matches!(store, StoreSpec::Memory(_)));
    for policy in &mut spec.policies {
        MEMORY.clone_into(&mut policy.store);
    }
    for domain in &mut spec.domains {
        MEMORY.clone_into(&mut domain.store);
    }
}

fn print(
    test: &Test,
    failure: Option<&Failure>,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), io::Error> {
    let name = &test.name;
    match (failure, json) {
        (None, true) => writeln!(out, "{}", json!({"test": name, "passed": true})),
        (Some(Failure { line, what }), true) => {
            let object = json!({"test": name, "passed": false, "line": line, "why": what});
            writeln!(out, "{object}")
        }
        (None, false) => writeln!(out, "pass  {name}"),
        (Some(Failure { line, what }), false) => {
            writeln!(out, "FAIL  {name}\n      line {line}: {what}")
        }
    }
}

/// The start time of tests. Windows of every named length start at this time, so that aligned
/// windows (`fixed`, `counter`) start with the test.
const START: Duration = Duration::from_secs(7 * 30 * 73 * 86_400);

/// Runs one test with empty counts.
fn run(loaded: &Loaded, test: &Test) -> Result<(), Failure> {
    let clock = ManualClock::new(START);
    let engine = Engine::with_clock(&loaded.spec, Some(clock.clone()), &mut NoRestore)
        .map_err(|error| Failure { line: 0, what: error.to_string() })?;
    let mut now = Duration::ZERO;
    for step in &test.steps {
        clock.advance(step.at.saturating_sub(now));
        now = step.at;
        for turn in 1..=step.times {
            let seen = ask(loaded, &engine, &step.ask)
                .map_err(|what| Failure { line: step.line, what })?;
            compare(step, turn, &seen)?;
        }
    }
    Ok(())
}

/// The result of a step.
struct ActualDecision {
    allowed: bool,
    remaining: Option<u64>,
    retry_after: Option<Duration>,
}

impl ActualDecision {
    const FREE: Self = Self { allowed: true, remaining: None, retry_after: None };

    fn of(decisions: &[&Decision]) -> Self {
        let denied = decisions.iter().filter(|decision| !decision.is_allowed());
        Self {
            allowed: decisions.iter().all(|decision| decision.is_allowed()),
            remaining: decisions.iter().map(|decision| decision.remaining()).min(),
            // One denial denies the request: the longest wait counts.
            retry_after: denied.filter_map(|decision| decision.retry_after().duration()).max(),
        }
    }
}

fn ask(
    loaded: &Loaded,
    engine: &Engine,
    asked: &ScenarioRequest,
) -> Result<ActualDecision, String> {
    match asked {
        ScenarioRequest::Policy { policy, key, tier, cost } => {
            let plan = engine.plan();
            let gate = plan.gate(policy).ok_or_else(|| {
                let hint = hint(policy, plan.gates().iter().map(|gate| gate.name()));
                format!("unknown policy `{policy}`{hint}")
            })?;
            let tier = match tier {
                None => None,
                Some(name) => Some(
                    gate.tier(name)
                        .ok_or_else(|| format!("the policy `{policy}` has no tier `{name}`"))?,
                ),
            };
            let check = gate.check(key.as_bytes(), tier, *cost, Caller::IN_PROCESS);
            Ok(ActualDecision::of(&[&ready(check)?.decision]))
        }
        ScenarioRequest::Request(request) => ask_rules(loaded, engine, request),
        ScenarioRequest::Descriptors { domain, descriptors, hits } => {
            ask_domain(loaded, engine, domain, descriptors, *hits)
        }
    }
}

fn ask_rules(
    loaded: &Loaded,
    engine: &Engine,
    request: &HttpRequest,
) -> Result<ActualDecision, String> {
    let (plan, caller) = (engine.plan(), Caller::IN_PROCESS);
    let request = AuthRequest::new(request, &loaded.settings);
    let Ok(rules) = matching_rules(&plan, &request.source(), &request.headers, caller) else {
        return Ok(ActualDecision { allowed: false, ..ActualDecision::FREE });
    };
    let asks: Vec<Ask<'_>> = rules.iter().map(MatchedRule::ask).collect();
    let all = ready(check_all(&asks, None, caller))?.map_err(|error| error.to_string())?;
    let decisions: Vec<&Decision> = all.iter().map(|decided| &decided.decision).collect();
    Ok(ActualDecision::of(&decisions))
}

fn ask_domain(
    loaded: &Loaded,
    engine: &Engine,
    domain: &str,
    descriptors: &[Vec<(String, String)>],
    hits: u32,
) -> Result<ActualDecision, String> {
    let plan = engine.plan();
    if plan.domains().get(domain).is_none() {
        let hint = hint(domain, plan.domains().iter().map(Domain::name));
        return Err(format!("unknown domain `{domain}`{hint}"));
    }
    let descriptors = descriptors.iter().map(|entries| Descriptor {
        entries: entries.iter().map(|(key, value)| Entry { key, value }).collect(),
        ..Descriptor::default()
    });
    let limit_request =
        LimitRequest { domain, descriptors: descriptors.collect(), hits_addend: hits };
    let options = Options::from(&loaded.settings);
    let response = ready(answer(plan.domains(), &limit_request, &options, Caller::IN_PROCESS))?
        .map_err(|error| error.to_string())?;
    let limited = || response.statuses.iter().filter(|status| status.limit.is_some());
    let over = limited().filter(|status| status.code == Code::OverLimit);
    Ok(ActualDecision {
        allowed: response.overall == Code::Ok,
        remaining: limited().map(|status| u64::from(status.remaining)).min(),
        retry_after: over.filter_map(|status| status.until).max(),
    })
}

/// Returns the result of a future that never waits, as in memory.
pub(in crate::cli) fn ready<T>(answer: impl Future<Output = T>) -> Result<T, String> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => Err("internal error: a test used a store other than memory".to_owned()),
    }
}

fn compare(step: &Step, turn: u32, seen: &ActualDecision) -> Result<(), Failure> {
    let word = |allowed: bool| if allowed { "allow" } else { "deny" };
    let which =
        if step.times > 1 { format!(" (time {turn} of {})", step.times) } else { String::new() };
    let at = format_duration(step.at);
    let failure = |what: String| Err(Failure { line: step.line, what });
    let expect = &step.expect;
    if seen.allowed != expect.allowed {
        let wait = seen.retry_after.map(|wait| format!(", again in {}", format_duration(wait)));
        let (expected, got) = (word(expect.allowed), word(seen.allowed));
        let wait = wait.unwrap_or_default();
        return failure(format!("at {at}{which}: expected {expected}, got {got}{wait}"));
    }
    if expect.remaining.is_some() && turn == step.times && seen.remaining != expect.remaining {
        let shown =
            |units: Option<u64>| units.map_or("no limit".to_owned(), |units| units.to_string());
        let (expected, got) = (shown(expect.remaining), shown(seen.remaining));
        return failure(format!("at {at}{which}: expected {expected} remaining, got {got}"));
    }
    if expect.retry_after.is_some() && seen.retry_after != expect.retry_after {
        let shown = |wait: Option<Duration>| wait.map_or("never".to_owned(), format_duration);
        let (expected, got) = (shown(expect.retry_after), shown(seen.retry_after));
        return failure(format!("at {at}{which}: expected retry_after {expected}, got {got}"));
    }
    Ok(())
}
