//! The conformance traces over gRPC, as far as Envoy's protocol can express them.

use std::time::Duration;

use slidegate::{Algorithm, ManualClock};
use slidegate_server::domain::Options;
use slidegate_server::grpc::message::{
    DescriptorEntry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
};
use slidegate_server::spec::{DescriptorSpec, DomainSpec, LimitSpec, RateSpec, Spec, Unit};
use slidegate_testkit::{
    Algorithm as Named, Answer, Mode, Op, QuotaStatus, Step, Subject, SubjectError, Trace,
    load_all, run,
};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use super::grpc::{ask, channel};
use super::served::Served;

struct GrpcSubject<'a> {
    runtime: &'a Runtime,
    channel: Channel,
    clock: &'a ManualClock,
    domain: &'a str,
}

impl Subject for GrpcSubject<'_> {
    type Receipt = ();

    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError> {
        self.clock.set(now);
        Ok(())
    }

    fn check(
        &mut self,
        key: &str,
        _: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<()>), SubjectError> {
        let entry = DescriptorEntry { key: "key".to_owned(), value: key.to_owned() };
        let descriptor = RateLimitDescriptor {
            entries: vec![entry],
            hits_addend: Some(cost),
            ..RateLimitDescriptor::default()
        };
        let request = RateLimitRequest {
            domain: self.domain.to_owned(),
            descriptors: vec![descriptor],
            hits_addend: 0,
        };
        let asked = self.runtime.block_on(ask(&self.channel, request));
        let response = asked.map_err(|status| SubjectError::Failed(status.to_string()))?;
        Ok((answer(&response), None))
    }
}

fn answer(response: &RateLimitResponse) -> Answer {
    let [status] = &*response.statuses else { unreachable!("one descriptor, one status") };
    assert_eq!(response.overall_code, status.code);
    let allowed = status.code == 1;
    let until = status.duration_until_reset.unwrap();
    let until = Duration::try_from(until).unwrap();
    let standing = QuotaStatus {
        limit: u64::from(status.current_limit.as_ref().unwrap().requests_per_unit),
        remaining: u64::from(status.limit_remaining),
        retry_after: Some(if allowed { Duration::ZERO } else { until }),
        reset_after: until,
    };
    Answer { allowed, shadow_denied: false, quotas: vec![standing] }
}

/// A limit of a descriptor is a number in one of seven units, so not every policy can be one.
fn rate(trace: &Trace) -> Option<RateSpec> {
    let policy = &trace.policy;
    let [quota] = &*policy.quotas else { return None };
    let window = Duration::from_millis(quota.window_ms);
    let algorithm = match policy.algorithm {
        Named::Log => {
            policy.bytes_max.map_or(Algorithm::Log, |bytes_max| Algorithm::LogCapped { bytes_max })
        }
        Named::Counter => Algorithm::Counter,
        Named::Segments => Algorithm::Segments { count: policy.segments? },
        Named::Gcra => Algorithm::Gcra,
        Named::Fixed => Algorithm::Fixed,
    };
    let unit = Unit::ALL.into_iter().find(|unit| unit.window() == window)?;
    let is_plain = policy.mode != Mode::Shadow && policy.tick_ms == 1;
    let requests = u32::try_from(quota.limit).ok().filter(|_| is_plain)?;
    Some(RateSpec { requests, unit, algorithm })
}

/// Returns the steps before the first one that the protocol cannot express. Expectations that it cannot
/// report are removed: receipts, remaining units of a denial, costs that can never pass, second waits.
fn expressible(trace: &Trace) -> Vec<Step> {
    let is_spoken = |step: &&Step| matches!(step.op, Op::Check | Op::Clock) && step.tier.is_none();
    let mut steps: Vec<Step> = trace
        .steps
        .iter()
        .filter(|step| !matches!(step.op, Op::Peek | Op::Usage | Op::History))
        .take_while(is_spoken)
        .cloned()
        .collect();
    for Step { expect, .. } in &mut steps {
        expect.receipt = None;
        if expect.allowed != Some(true) {
            expect.remaining = None;
            expect.reset_after_ms = None;
        }
        if expect.retry_after_ms == Some(None) || expect.allowed.is_none() {
            expect.retry_after_ms = None;
        }
        // Waits are whole seconds, rounded up.
        let seconds_up = |ms: &mut u64| *ms = ms.next_multiple_of(1000);
        expect.retry_after_ms.iter_mut().flatten().for_each(seconds_up);
        expect.reset_after_ms.iter_mut().for_each(seconds_up);
    }
    steps
}

fn domain(name: &str, rate: RateSpec) -> DomainSpec {
    let limit = LimitSpec { rate: Some(rate), name: None, replaces: Vec::new() };
    let key = DescriptorSpec { key: "key".to_owned(), limit: Some(limit), ..Default::default() };
    DomainSpec::new(name, vec![key])
}

#[test]
fn traces_through_grpc() {
    let traces = load_all().unwrap();
    let played: Vec<(Trace, RateSpec)> = traces
        .into_iter()
        .filter_map(|trace| rate(&trace).map(|rate| (trace, rate)))
        .map(|(trace, rate)| (Trace { steps: expressible(&trace), ..trace }, rate))
        .filter(|(trace, _)| !trace.steps.is_empty())
        .collect();
    assert!(played.len() >= 60, "{}", played.len());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut passed = 0;
    for (trace, rate) in &played {
        // Domains with the same unit share their state, in which time never goes back: every trace
        // starts with a new engine.
        let spec = Spec { domains: vec![domain(&trace.name, *rate)], ..Spec::default() };
        let served = runtime.block_on(Served::start(&spec, Options::default()));
        let mut subject = GrpcSubject {
            runtime: &runtime,
            channel: runtime.block_on(channel(&served)),
            clock: &served.clock,
            domain: &trace.name,
        };
        let report = run(trace, &mut subject);
        passed += report.unwrap_or_else(|mismatch| unreachable!("{mismatch}")).passed;
    }
    assert!(passed >= 200, "only {passed} steps could be played");
}
