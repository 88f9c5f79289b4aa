//! Trees made in code, and short ways to ask them.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slidegate::{Algorithm, ManualClock};
use slidegate_gate::Caller;
use slidegate_server::domain::{
    self, AnswerError, Code, Descriptor, Entry, LimitRequest, Options, Response, Status,
};
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::spec::{DescriptorSpec, DomainSpec, LimitSpec, RateSpec, Spec, Unit};

/// An engine in memory with a manual clock.
pub(crate) struct TestEngine {
    pub(crate) engine: Engine,
    pub(crate) clock: ManualClock,
    pub(crate) options: Options,
}

pub(crate) const DOMAIN: &str = "shop";

impl TestEngine {
    pub(crate) fn new(descriptors: Vec<DescriptorSpec>) -> Self {
        let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
        let engine = Engine::with_clock(&spec(descriptors), Some(clock.clone()), &mut NoRestore);
        Self { engine: engine.unwrap(), clock, options: Options::default() }
    }

    pub(crate) fn options(mut self, set: impl FnOnce(&mut Options)) -> Self {
        set(&mut self.options);
        self
    }

    pub(crate) fn ask(&self, descriptors: Vec<Descriptor<'_>>) -> Response {
        self.try_ask(&LimitRequest { domain: DOMAIN, descriptors, hits_addend: 0 }).unwrap()
    }

    pub(crate) fn try_ask(&self, request: &LimitRequest<'_>) -> Result<Response, AnswerError> {
        now(domain::answer(
            self.engine.plan().domains(),
            request,
            &self.options,
            Caller::IN_PROCESS,
        ))
    }

    /// The status of a single descriptor.
    pub(crate) fn one(&self, entries: &[(&str, &str)]) -> Status {
        let mut response = self.ask(vec![descriptor(entries)]);
        let status = response.statuses.remove(0);
        assert_eq!(response.overall, status.code, "one descriptor, one code");
        status
    }

    /// How often a descriptor passes before it is over the limit; at most a hundred.
    pub(crate) fn passes(&self, entries: &[(&str, &str)]) -> usize {
        (0..100).take_while(|_| self.one(entries).code == Code::Ok).count()
    }

    /// What was counted under a name: total, over, near, within, shadow.
    pub(crate) fn counted(&self, name: &str) -> [u64; 5] {
        let plan = self.engine.plan();
        let series = plan.domains().get(DOMAIN).unwrap().statistics().series();
        let names: Vec<_> = series.iter().map(|(name, _)| name.clone()).collect();
        let Some((_, counts)) = series.iter().find(|(found, _)| found == name) else {
            unreachable!("{name} is not among {names:?}")
        };
        [
            counts.total_hits.get(),
            counts.over_limit.get(),
            counts.near_limit.get(),
            counts.within_limit.get(),
            counts.shadow_mode.get(),
        ]
    }
}

/// In memory nothing waits.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("in memory nothing waits"),
    }
}

pub(crate) fn spec(descriptors: Vec<DescriptorSpec>) -> Spec {
    Spec { domains: vec![DomainSpec::new(DOMAIN, descriptors)], ..Spec::default() }
}

/// Why a tree is refused.
pub(crate) fn refused(descriptors: Vec<DescriptorSpec>) -> String {
    Engine::new(&spec(descriptors), &mut NoRestore).unwrap_err().to_string()
}

/// A key, or `key=value`.
pub(crate) fn key(text: &str) -> DescriptorSpec {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text, None),
    };
    DescriptorSpec { key: key.to_owned(), value, ..DescriptorSpec::default() }
}

pub(crate) fn limited(text: &str, requests: u32, unit: Unit) -> DescriptorSpec {
    DescriptorSpec { limit: Some(rate(requests, unit)), ..key(text) }
}

pub(crate) fn minute(text: &str, requests: u32) -> DescriptorSpec {
    limited(text, requests, Unit::Minute)
}

pub(crate) fn rate(requests: u32, unit: Unit) -> LimitSpec {
    let rate = RateSpec { requests, unit, algorithm: Algorithm::Log };
    LimitSpec { rate: Some(rate), name: None, replaces: Vec::new() }
}

pub(crate) fn unlimited() -> LimitSpec {
    LimitSpec { rate: None, name: None, replaces: Vec::new() }
}

pub(crate) fn with(
    mut spec: DescriptorSpec,
    set: impl FnOnce(&mut DescriptorSpec),
) -> DescriptorSpec {
    set(&mut spec);
    spec
}

pub(crate) fn named(text: &str, requests: u32, name: &str, replaces: &[&str]) -> DescriptorSpec {
    let names = replaces.iter().map(|name| (*name).to_owned()).collect();
    let limit =
        LimitSpec { name: Some(name.to_owned()), replaces: names, ..rate(requests, Unit::Minute) };
    DescriptorSpec { limit: Some(limit), ..key(text) }
}

pub(crate) fn above(text: &str, below: Vec<DescriptorSpec>) -> DescriptorSpec {
    DescriptorSpec { descriptors: below, ..key(text) }
}

pub(crate) fn descriptor<'a>(entries: &[(&'a str, &'a str)]) -> Descriptor<'a> {
    let entries = entries.iter().map(|(key, value)| Entry { key, value }).collect();
    Descriptor { entries, ..Descriptor::default() }
}

pub(crate) fn hits<'a>(entries: &[(&'a str, &'a str)], hits: u64) -> Descriptor<'a> {
    Descriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

pub(crate) fn codes(response: &Response) -> Vec<Code> {
    response.statuses.iter().map(|status| status.code).collect()
}

pub(crate) fn remaining(response: &Response) -> Vec<u32> {
    response.statuses.iter().map(|status| status.remaining).collect()
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
