//! Gates over several stores: all or nothing, failures, rollout and metrics.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod remote;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use remote::Remote;
use slidegate::{
    Clock, Cost, ErrorKind, FailureMode, Limiter, ManualClock, Mode, Policy, Quota, RetryAfter,
    Store,
};
use slidegate_gate::{
    ASKS_MAX, Ask, Caller, Gate, GateDecision, GateOutcome, Metrics, Rollout, Sleep, WaitOptions,
    check_all,
};

fn limiter(policy: slidegate::PolicyBuilder) -> Arc<Limiter> {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    Arc::new(Limiter::builder(policy.build().unwrap()).clock(clock).build().unwrap())
}

fn policy(name: &str, limit: u32) -> slidegate::PolicyBuilder {
    Policy::builder(name).quota(Quota::per_minute(limit))
}

fn remote(policy: slidegate::PolicyBuilder) -> (Remote, Arc<Limiter>, Arc<AtomicBool>) {
    let (limiter, is_down) = (limiter(policy), Arc::new(AtomicBool::new(false)));
    let store = Remote { limiter: Arc::clone(&limiter), is_down: Arc::clone(&is_down) };
    (store, limiter, is_down)
}

fn ask(gate: &Gate) -> Ask<'_> {
    Ask { gate, key: b"alice", tier: None, cost: Cost::ONE }
}

async fn check(gates: &[&Gate]) -> Vec<GateDecision> {
    let asks: Vec<Ask<'_>> = gates.iter().map(|gate| ask(gate)).collect();
    check_all(&asks, None, Caller::IN_PROCESS).await.unwrap()
}

fn outcomes(decided: &[GateDecision]) -> Vec<GateOutcome> {
    decided.iter().map(|decided| decided.outcome).collect()
}

// A denied request must report every gate: those checked, those not checked, and failed stores.
#[tokio::test]
async fn a_denial_across_stores_refunds_units_and_reports_every_gate() {
    let (first, first_limiter, is_down) = remote(policy("first", 9));
    let (last, last_limiter, _) = remote(policy("last", 9));
    let first = Gate::builder(first).build().unwrap();
    let narrow = Gate::from(limiter(policy("narrow", 1)));
    let last = Gate::builder(last).build().unwrap();
    let gates = [&first, &narrow, &last];

    assert_eq!(outcomes(&check(&gates).await), [GateOutcome::Allowed; 3]);
    let denied = check(&gates).await;
    let by_other = GateOutcome::DeniedByOther;
    assert_eq!(outcomes(&denied), [by_other, GateOutcome::Denied, by_other]);
    assert!(denied.iter().all(|decided| !decided.decision.is_allowed()));
    assert_eq!(denied[2].decision.remaining(), 8, "evaluated without taking units");
    assert_eq!(first_limiter.usage("alice").units(0), 1);
    assert_eq!(last_limiter.usage("alice").units(0), 1);

    is_down.store(true, Ordering::Relaxed);
    let denied = check(&gates).await;
    assert!(denied[0].decision.is_degraded(), "the failed store is still reported");
    assert!(!denied[0].decision.is_allowed());
    assert_eq!(denied[1].outcome, GateOutcome::Denied);
}

#[tokio::test]
async fn a_third_store_has_tiers_rollout_and_every_operation() {
    let (store, limiter, _) = remote(policy("api", 1));
    let gate = Gate::builder(store).tier("gold", [Quota::per_minute(5)]).build().unwrap();
    let gold = gate.tier("gold");
    for remaining in [4, 3] {
        let decided = gate.check(b"bob", gold, Cost::ONE, Caller::IN_PROCESS).await;
        assert_eq!(decided.decision.remaining(), remaining);
    }
    assert_eq!(gate.quotas(gold)[0].limit(), 5);
    let three = Cost::new(3).unwrap();
    assert_eq!(gate.peek(b"bob", gold, three).await.unwrap().remaining(), 3);
    let reserved = gate.check(b"bob", gold, three, Caller::IN_PROCESS).await;
    let receipt = reserved.decision.into_receipt().unwrap();
    assert_eq!(gate.settle(b"bob", gold, receipt, 1).await.unwrap(), 1);
    assert_eq!(gate.usage(b"bob", gold).await.unwrap().units(0), 3);
    assert_eq!(gate.history(b"bob", gold).await.unwrap().len(), 1);
    assert_eq!(gate.forgive(b"bob", gold, 1).await.unwrap(), 1);
    assert!(gate.reset(b"bob").await.unwrap());
    assert_eq!(limiter.usage("bob").units(0), 0);
}

#[tokio::test]
async fn the_failure_mode_applies_tiers_when_a_store_fails() {
    let quotas = [Quota::per_minute(2)];
    for (mode, outcomes) in [
        (FailureMode::Allow, [GateOutcome::Allowed; 3]),
        (FailureMode::Deny, [GateOutcome::StoreFailed; 3]),
        (FailureMode::Local, [GateOutcome::Allowed, GateOutcome::Allowed, GateOutcome::Denied]),
    ] {
        let (store, _, is_down) = remote(policy("api", 1).failure_mode(mode));
        let gate = Gate::builder(store).tier("two", quotas).build().unwrap();
        is_down.store(true, Ordering::Relaxed);
        for outcome in outcomes {
            let tier = gate.tier("two");
            let decided = gate.check(b"bob", tier, Cost::ONE, Caller::IN_PROCESS).await;
            assert_eq!(decided.outcome, outcome, "{mode:?}");
            assert!(decided.decision.is_degraded());
        }
        let store: &dyn Store = &**gate.store();
        assert!(!store.applies_failure_mode());
    }
}

#[tokio::test]
async fn gate_with_other_quotas_applies_them_when_a_store_fails() {
    let (store, _, is_down) = remote(policy("api", 1).failure_mode(FailureMode::Local));
    let one = Gate::builder(store).build().unwrap();
    let two = one.with_quotas(&[Quota::per_minute(2)]).unwrap();
    is_down.store(true, Ordering::Relaxed);
    let outcomes = [
        outcomes(&check(&[&two]).await)[0],
        outcomes(&check(&[&two]).await)[0],
        outcomes(&check(&[&two]).await)[0],
        outcomes(&check(&[&one]).await)[0],
    ];
    let (allowed, denied) = (GateOutcome::Allowed, GateOutcome::Denied);
    assert_eq!(outcomes, [allowed, allowed, denied, denied], "both count in one place");
}

// Such a store is checked again and again. The time of these checks, and of timers that fire late, counts.
#[tokio::test]
async fn request_waits_no_longer_than_the_maximum_at_a_store_without_a_queue() {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let policy = Policy::builder("api").quota(Quota::per_second(1)).build().unwrap();
    let limiter = Arc::new(Limiter::builder(policy).clock(clock.clone()).build().unwrap());
    let store = Remote { limiter: Arc::clone(&limiter), is_down: Arc::default() };
    let gate = Gate::builder(store).clock(Arc::new(clock.clone())).build().unwrap();
    assert!(limiter.check("alice").is_allowed());
    let began = clock.now();
    let late = clock.clone();
    let sleep = Sleep::new(move |_| {
        late.advance(Duration::from_secs(5));
        // Another request is always faster.
        assert!(limiter.check("alice").is_allowed());
        async {}
    });
    let wait = WaitOptions::new(Duration::from_secs(10), sleep);
    let decided = check_all(&[ask(&gate)], Some(&wait), Caller::IN_PROCESS).await.unwrap();
    assert_eq!(outcomes(&decided), [GateOutcome::Denied]);
    assert_eq!(Duration::from_nanos(clock.now() - began), Duration::from_secs(10));
}

#[tokio::test]
async fn shadow_mode_of_policy_and_gate_are_equal() {
    let metrics = Arc::new(Metrics::new());
    let by_policy = limiter(policy("by_policy", 1).mode(Mode::Shadow));
    let by_policy = Gate::builder(by_policy).metrics(&metrics).build().unwrap();
    let by_gate = Gate::builder(limiter(policy("by_gate", 1))).rollout(Rollout::Shadow);
    let by_gate = by_gate.metrics(&metrics).build().unwrap();
    for gate in [&by_policy, &by_gate] {
        for outcome in [GateOutcome::Allowed, GateOutcome::ShadowDenied] {
            let decided = gate.check(b"bob", None, Cost::ONE, Caller::IN_PROCESS).await;
            assert_eq!((decided.outcome, decided.is_enforced), (outcome, false));
            assert!(decided.decision.is_allowed());
        }
    }
    let text = metrics.render();
    for policy in ["by_policy", "by_gate"] {
        let line = format!(
            r#"rate_limit_requests_total{{policy="{policy}",mode="shadow",outcome="shadow_denied"}} 1"#
        );
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn metrics_have_unique_series_and_outlive_their_gates() {
    let metrics = Arc::new(Metrics::new());
    let gate = || Gate::builder(limiter(policy("api", 2))).metrics(&metrics).build().unwrap();
    for _ in 0..2 {
        gate().check(b"bob", None, Cost::ONE, Caller::IN_PROCESS).await;
    }
    let last = gate();
    let text = metrics.render();
    let allowed = r#"rate_limit_requests_total{policy="api",mode="enforce",outcome="allowed"} 2"#;
    assert!(text.lines().any(|line| line == allowed), "{text}");
    let keys = r#"rate_limit_keys{store="memory",policy="api",algorithm="log"} 0"#;
    assert!(text.lines().any(|line| line == keys), "only the existing store: {text}");
    let mut series: Vec<&str> =
        text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    let lines = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), lines, "Prometheus rejects a page with a series twice");
    drop(last);
}

// The checks beyond the maximum were not evaluated, and the results of the others were all allowed.
#[tokio::test]
async fn more_checks_than_the_maximum_are_an_error_and_take_nothing() {
    let limiter = limiter(policy("wide", 100));
    let (wide, banned) =
        (Gate::from(Arc::clone(&limiter)), Gate::from(self::limiter(policy("banned", 0))));
    let of = |place| if place < ASKS_MAX { &wide } else { &banned };
    let asks: Vec<Ask<'_>> = (0..70).map(|place| ask(of(place))).collect();
    for count in [ASKS_MAX + 1, 70] {
        let error = check_all(&asks[..count], None, Caller::IN_PROCESS).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert_eq!(limiter.usage("alice").units(0), 0);
    }
    let decided = check_all(&asks[..ASKS_MAX], None, Caller::IN_PROCESS).await.unwrap();
    assert_eq!(decided.len(), ASKS_MAX);
}

// A tier was a bare index: one gate's smallest tier was another gate's largest.
#[tokio::test]
async fn the_tier_of_another_gate_is_an_error() {
    let store = limiter(policy("one", 1));
    let gate = Gate::builder(Arc::clone(&store)).tier("huge", [Quota::per_minute(1000)]);
    let gate = gate.build().unwrap();
    let other = Gate::builder(limiter(policy("two", 1))).tier("free", [Quota::per_minute(1)]);
    let other = other.build().unwrap();
    // A gate with other quotas has no tiers.
    let narrow = gate.with_quotas(&[Quota::per_minute(2)]).unwrap();
    for (gate, foreign) in [(&gate, other.tier("free")), (&narrow, gate.tier("huge"))] {
        let decided = gate.check(b"alice", foreign, Cost::ONE, Caller::IN_PROCESS).await;
        assert!(!decided.decision.is_allowed());
        assert_eq!(decided.decision.retry_after(), RetryAfter::Never);
        assert_eq!(decided.outcome, GateOutcome::ForeignTier);
        assert!(gate.quotas(foreign).is_empty());
        assert_eq!(foreign.and_then(|tier| gate.tier_name(tier)), None);

        let both = [ask(gate), Ask { tier: foreign, ..ask(gate) }];
        let own = Gate::from(Arc::clone(&store));
        for asks in [&both[..], &both[1..], &[ask(&own), both[1]]] {
            assert!(check_all(asks, None, Caller::IN_PROCESS).await.is_err());
        }
        assert!(gate.peek(b"alice", foreign, Cost::ONE).await.is_err());
        assert!(gate.charge(b"alice", foreign, 1).await.is_err());
        assert!(gate.forgive(b"alice", foreign, 1).await.is_err());
        assert!(gate.usage(b"alice", foreign).await.is_err());
        assert!(gate.history(b"alice", foreign).await.is_err());
        let receipt = gate.receipt(b"alice", 1, 1, 1);
        assert!(gate.settle(b"alice", foreign, receipt, 2).await.is_err());
        let receipt = gate.receipt(b"alice", 1, 1, 1);
        assert!(gate.refund(b"alice", foreign, receipt).await.is_err());
    }
    assert_eq!(store.usage("alice").units(0), 0);
    // Clones have the same tiers.
    let huge = gate.tier("huge");
    let decided = gate.clone().check(b"alice", huge, Cost::ONE, Caller::IN_PROCESS).await;
    assert_eq!(decided.decision.remaining(), 999);
}

#[tokio::test]
async fn the_tier_of_another_gate_does_not_deny_in_shadow_mode() {
    let other = Gate::builder(limiter(policy("two", 1))).tier("free", [Quota::per_minute(1)]);
    let free = other.build().unwrap().tier("free");
    let gate = Gate::from(limiter(policy("one", 1).mode(Mode::Shadow)));
    let decided = gate.check(b"alice", free, Cost::ONE, Caller::IN_PROCESS).await;
    assert!(decided.decision.is_allowed());
    assert_eq!(decided.outcome, GateOutcome::ShadowDenied);
}
