//! What a replay says about the algorithms, compared with the definition and with counting by hand.

use std::collections::BTreeMap;

use slidegate::{Algorithm, Cost, Quota};
use slidegate_sim::definition::{Counting, KeyState, Moment, TickQuota};
use slidegate_sim::read::Timed;
use slidegate_sim::replay::{
    ALGORITHMS, BATCH, KeyedCost, LimiterOutcome, Outcome, Replay, Scenario,
};
use slidegate_sim::traffic::{TrafficKind, TrafficSpec};
use slidegate_sim::{Random, Source, never_over};

/// A request: time, key, units.
type Request = (u64, u64, u64);

fn replay(quotas: &[Quota], requests: &[Request]) -> Outcome {
    let scenario = Scenario { quotas: quotas.to_vec(), algorithms: ALGORITHMS.to_vec() };
    let mut replay = Replay::new(&[scenario]).unwrap();
    for part in requests.chunks(100) {
        let mut batch = Vec::new();
        for (at_ms, key, cost) in part {
            let slot = replay.keys().intern(&format!("key-{key}"));
            let cost = Cost::new(*cost).unwrap();
            batch.push(Timed { at_ms: *at_ms, item: KeyedCost { slot, cost } });
        }
        replay.play(&batch);
    }
    replay.finish()
}

fn counting(algorithm: Algorithm) -> Counting {
    match algorithm {
        Algorithm::Log => Counting::Log,
        Algorithm::Counter => Counting::Counter,
        Algorithm::Segments { count } => Counting::Segments(count.into()),
        Algorithm::Fixed => Counting::Fixed,
        Algorithm::Gcra => Counting::Gcra,
        Algorithm::LogCapped { .. } => panic!("not compared"),
    }
}

fn tick_quotas(quotas: &[Quota]) -> Vec<TickQuota> {
    let in_ticks = |quota: &Quota| TickQuota {
        limit: quota.limit(),
        window: u64::try_from(quota.window().as_millis()).unwrap(),
    };
    quotas.iter().map(in_ticks).collect()
}

/// What the definition decides, one flag per request.
fn decide(algorithm: Algorithm, quotas: &[TickQuota], requests: &[Request]) -> Vec<bool> {
    let longest = quotas.iter().map(|quota| quota.window).max().unwrap();
    let mut keys: BTreeMap<u64, KeyState> = BTreeMap::new();
    let one = |(now, key, cost): &Request| {
        let new = || KeyState::new(counting(algorithm), longest);
        let key = keys.entry(*key).or_insert_with(new);
        let fits = key.fits(quotas, *now, *cost);
        if fits {
            key.take(quotas, Moment::at(*now), *cost);
        }
        fits
    };
    requests.iter().map(one).collect()
}

/// Allowed, denied, wrongly allowed, wrongly denied, allowed and denied unlike the exact limiter, worst
/// excess: counted by hand from the definitions.
fn count(algorithm: Algorithm, quotas: &[TickQuota], requests: &[Request]) -> [u64; 7] {
    let decisions = decide(algorithm, quotas, requests);
    let exact = decide(Algorithm::Log, quotas, requests);
    let mut admitted: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut counts = [0; 7];
    for (((now, key, cost), allowed), exact) in requests.iter().zip(&decisions).zip(exact) {
        let own = admitted.entry(*key).or_default();
        let fits = quotas.iter().all(|quota| {
            let inside = own.iter().filter(|(at, _)| at + quota.window > *now);
            inside.map(|(_, units)| units).sum::<u64>() + cost <= quota.limit
        });
        counts[usize::from(!*allowed)] += 1;
        counts[2] += u64::from(*allowed && !fits);
        counts[3] += u64::from(!*allowed && fits);
        counts[4] += u64::from(*allowed && !exact);
        counts[5] += u64::from(!*allowed && exact);
        if *allowed {
            own.push((*now, *cost));
        }
    }
    for quota in quotas {
        for own in admitted.values() {
            let worst = never_over(own, quota.limit, quota.window);
            let excess = worst.map_or(0, |worst| u64::try_from(worst.units).unwrap() - quota.limit);
            counts[6] = counts[6].max(excess);
        }
    }
    counts
}

fn reported(limiter: &LimiterOutcome) -> [u64; 7] {
    [
        limiter.allowed,
        limiter.denied,
        limiter.wrongly_allowed,
        limiter.wrongly_denied,
        limiter.allowed_unlike_exact,
        limiter.denied_unlike_exact,
        limiter.worst_excess,
    ]
}

#[test]
fn every_count_is_what_naive_models_and_the_definitions_give() {
    let mut wrong = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let quotas: Vec<Quota> = (0..random.between(1, 2))
            .map(|_| {
                let window = core::time::Duration::from_millis(random.between(50, 2000));
                Quota::new(random.between(1, 12), window).unwrap()
            })
            .collect();
        let mut now = 1_700_000_000_000 + random.between(0, 5000);
        let requests: Vec<Request> = (0..400)
            .map(|_| {
                now += random.pick(&[0, 0, 1, 3, 10, 40, 41, 500]);
                let cost = if random.chance(80) { 1 } else { random.between(1, 4) };
                (now, random.between(1, 3), cost)
            })
            .collect();
        let in_ticks = tick_quotas(&quotas);
        let outcome = replay(&quotas, &requests);
        assert_eq!((outcome.requests, outcome.keys), (400, 3));
        for limiter in &outcome.limiters {
            let expected = count(limiter.algorithm, &in_ticks, &requests);
            assert_eq!(reported(limiter), expected, "seed {seed}, {}", limiter.algorithm);
            wrong += expected[2] + expected[3];
        }
    }
    assert!(wrong > 1000, "the requests were too easy: {wrong}");
}

/// Replays built-in traffic.
fn traffic(text: &str, quota: Quota) -> (Outcome, usize) {
    let spec = TrafficSpec::parse(text, quota).unwrap();
    let mut source = Source::traffic(spec.start(quota));
    let scenario = Scenario { quotas: vec![quota], algorithms: ALGORITHMS.to_vec() };
    let mut replay = Replay::new(&[scenario]).unwrap();
    let mut batch = Vec::new();
    loop {
        source.fill(&mut batch, BATCH, replay.keys());
        if batch.is_empty() {
            let slots = replay.keys().capacity();
            return (replay.finish(), slots);
        }
        replay.play(&batch);
    }
}

#[test]
fn each_algorithm_errs_only_as_documented_on_every_pattern() {
    for (name, ..) in TrafficKind::NAMES {
        let (outcome, _) =
            traffic(&format!("{name}:requests=20000,keys=40"), Quota::per_minute(20));
        for limiter in &outcome.limiters {
            let LimiterOutcome { wrongly_allowed, wrongly_denied, worst_excess, .. } = *limiter;
            let what = format!("{name}, {}: {limiter:?}", limiter.algorithm);
            match limiter.algorithm {
                Algorithm::Log => {
                    assert_eq!(
                        (wrongly_allowed, wrongly_denied, worst_excess),
                        (0, 0, 0),
                        "{what}"
                    );
                    assert!(limiter.mean_rate_error.abs() < 1e-12, "{what}");
                }
                Algorithm::Segments { .. } => {
                    assert_eq!((wrongly_allowed, worst_excess), (0, 0), "{what}");
                }
                Algorithm::Gcra | Algorithm::Fixed => {
                    assert_eq!(wrongly_denied, 0, "{what}");
                    assert!(worst_excess <= 20, "{what}");
                }
                _ => assert!(worst_excess <= 20, "{what}"),
            }
            assert_eq!(limiter.allowed + limiter.denied, 20_000, "{what}");
        }
    }
}

#[test]
fn a_boundary_attack_gets_twice_the_limit_from_a_fixed_window_alone() {
    let (outcome, _) = traffic("boundary", Quota::per_minute(100));
    for limiter in &outcome.limiters {
        let expected = if limiter.algorithm == Algorithm::Fixed { 100 } else { 0 };
        let allows_bursts = matches!(limiter.algorithm, Algorithm::Gcra | Algorithm::Counter);
        if !allows_bursts {
            assert_eq!(limiter.worst_excess, expected, "{}", limiter.algorithm);
        }
        let hit = &limiter.hits.first();
        assert_eq!(hit.is_some_and(|hit| &*hit.key == "client-0"), limiter.denied > 0);
    }
    let fixed = outcome.limiters.last().unwrap();
    assert_eq!((fixed.allowed, fixed.wrongly_allowed), (2000, 1000));
}

#[test]
fn keys_that_are_idle_for_a_window_take_no_memory() {
    let (outcome, slots) =
        traffic("one-off:requests=60000,keys=60000,rate=1000", Quota::per_second(5));
    assert_eq!((outcome.requests, outcome.keys), (60_000, 60_000));
    assert!(slots < 20_000, "{slots}");
}

#[test]
fn a_late_key_is_one_key_and_its_denials_are_dated() {
    // The key comes back long after it was forgotten.
    let mut requests: Vec<Request> = Vec::new();
    for minute in [0, 60, 600] {
        requests.extend((0..5).map(|number| (1_700_000_000_000 + minute * 60_000 + number, 1, 1)));
    }
    let outcome = replay(&[Quota::per_second(3)], &requests);
    let log = &outcome.limiters[0];
    assert_eq!((outcome.keys, log.keys_denied, log.denied), (1, 1, 6));
    let hit = &log.hits[0];
    assert_eq!((hit.denied, hit.first_ms), (6, 1_700_000_000_003));
    assert_eq!(hit.last_ms, 1_700_000_000_004 + 600 * 60_000);
    let denials: u64 = outcome.timeline.denials(0).iter().sum();
    assert_eq!(denials, 6);
}
