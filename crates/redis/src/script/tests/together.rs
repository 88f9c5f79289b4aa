//! Several keys in one call.

use slidegate::{Algorithm, Cost, Limiter, ManualClock, Mode, Policy, Quota, check_all};
use slidegate_testkit::Random;

use super::super::{Answer, Ask, Op, ScriptLimits};
use super::{ALGORITHMS, Caller, START, Server, decided, limits, ms};

fn used(caller: &mut Caller, key: &str, limits: &ScriptLimits) -> u64 {
    decided(&caller.ask(START, key, limits, Op::Peek { cost: 1 }).unwrap()).2
}

// A key that was charged for what another denied would be half a request.
#[test]
fn all_or_nothing() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    let wide = limits(Algorithm::Log, &[(5, 60_000)]);
    let tight = limits(Algorithm::Log, &[(1, 60_000)]);
    let check = Op::Check { cost: 1 };
    let asks = [Ask::new(&wide, check).unwrap(), Ask::new(&tight, check).unwrap()];
    let first = caller.call(START, &["a", "b"], &asks).unwrap();
    assert!(first.answers.iter().all(|answer| decided(answer).0));
    let second = caller.call(START, &["a", "b"], &asks).unwrap();
    assert!(second.answers.iter().all(|answer| !decided(answer).0));
    // The one that was not in the way says so.
    assert_eq!(super::retry_after(&second.answers[0]), Some(ms(0)));
    assert_eq!(super::retry_after(&second.answers[1]), Some(ms(60_000)));
    assert_eq!((used(&mut caller, "a", &wide), used(&mut caller, "b", &tight)), (1, 1));
}

#[test]
fn a_shadow_stands_in_nobodys_way() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    let wide = limits(Algorithm::Gcra, &[(5, 60_000)]);
    let tight = limits(Algorithm::Fixed, &[(1, 60_000)]);
    let asks = [
        Ask::new(&wide, Op::Check { cost: 1 }).unwrap(),
        Ask::new(&tight, Op::Shadow { cost: 1 }).unwrap(),
    ];
    let allowed = |caller: &mut Caller| -> Vec<bool> {
        let reply = caller.call(START, &["a", "b"], &asks).unwrap();
        reply.answers.iter().map(|answer| decided(answer).0).collect()
    };
    assert_eq!(allowed(&mut caller), [true, true]);
    assert_eq!(allowed(&mut caller), [true, false]);
    assert_eq!((used(&mut caller, "a", &wide), used(&mut caller, "b", &tight)), (2, 1));
}

// Whoever wrote second would undo the first.
#[test]
fn a_key_named_twice_is_refused() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    let limits = limits(Algorithm::Counter, &[(5, 60_000)]);
    let ask = Ask::new(&limits, Op::Check { cost: 1 }).unwrap();
    let error = caller.call(START, &["a", "a"], &[ask, ask]).unwrap_err();
    assert!(error.is_store() && error.to_string().contains("named twice"), "{error}");
}

#[test]
fn a_fault_in_one_key_leaves_the_others_as_they_were() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    let limits = limits(Algorithm::Log, &[(5, 60_000)]);
    let asks = [Ask::new(&limits, Op::Check { cost: 1 }).unwrap(); 2];
    redis::cmd("SET").arg("b").arg("\u{2}something").exec(caller.connection()).unwrap();
    let error = caller.call(START, &["a", "b"], &asks).unwrap_err();
    assert!(error.to_string().contains("unknown version"), "{error}");
    let there: bool = redis::cmd("EXISTS").arg("a").query(caller.connection()).unwrap();
    assert!(!there);
    redis::cmd("DEL").arg("b").exec(caller.connection()).unwrap();
    redis::cmd("RPUSH").arg("b").arg("x").exec(caller.connection()).unwrap();
    let error = caller.call(START, &["a", "b"], &asks).unwrap_err();
    assert!(error.to_string().contains("not a string"), "{error}");
}

// The mixed script, and single ones for several keys, decide as memory does.
#[test]
fn together_as_in_memory() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    for seed in 0..60 {
        redis::cmd("FLUSHALL").exec(caller.connection()).unwrap();
        let mut random = Random::new(seed);
        let clock = ManualClock::new(START);
        let members: Vec<_> = (0..random.between(1, 5))
            .map(|_| Member::new(&mut random, &clock, seed % 2 == 0))
            .collect();
        for step in 0..80 {
            clock.advance(ms(random.pick(&[0, 0, 1, 5, 40, 300])));
            let keys: Vec<_> = members.iter().map(|_| random.pick(&["x", "y"])).collect();
            let costs: Vec<_> = members.iter().map(|_| random.between(1, 4)).collect();
            let told = caller.together(&clock, &members, &keys, &costs);
            let asks: Vec<_> = members
                .iter()
                .zip(&keys)
                .zip(&costs)
                .map(|((member, key), cost)| {
                    slidegate::Ask::new(&member.memory, *key, Cost::new(*cost).unwrap())
                })
                .collect();
            let expected: Vec<_> = check_all(&asks)
                .unwrap()
                .iter()
                .map(|decision| {
                    let allowed = decision.is_allowed() && !decision.is_shadow_denied();
                    (allowed, decision.quotas().to_vec())
                })
                .collect();
            assert_eq!(told, expected, "seed {seed}, step {step}");
        }
    }
}

/// The same policy in memory and in the server.
struct Member {
    memory: Limiter,
    limits: ScriptLimits,
    shadow: bool,
}

impl Member {
    fn new(random: &mut Random, clock: &ManualClock, mixed: bool) -> Self {
        let algorithm = if mixed { random.pick(&ALGORITHMS) } else { ALGORITHMS[0] };
        let quotas: Vec<_> = (0..random.between(1, 2))
            .map(|_| (random.between(2, 20), random.between(20, 2000)))
            .collect();
        let shadow = random.chance(20);
        let quota = |&(limit, millis): &(u64, u64)| Quota::new(limit, ms(millis)).unwrap();
        let policy = Policy::builder("p")
            .quotas(quotas.iter().map(quota))
            .algorithm(algorithm)
            .mode(if shadow { Mode::Shadow } else { Mode::Enforce });
        let memory =
            Limiter::builder(policy.build().unwrap()).clock(clock.clone()).build().unwrap();
        Self { memory, limits: limits(algorithm, &quotas), shadow }
    }
}

impl Caller {
    fn together(
        &mut self,
        clock: &ManualClock,
        members: &[Member],
        keys: &[&str],
        costs: &[u64],
    ) -> Vec<(bool, Vec<slidegate::QuotaDecision>)> {
        let asks: Vec<_> = members
            .iter()
            .zip(costs)
            .map(|(member, &cost)| {
                let op = if member.shadow { Op::Shadow { cost } } else { Op::Check { cost } };
                Ask::new(&member.limits, op).unwrap()
            })
            .collect();
        let names: Vec<_> = keys.iter().enumerate().map(|(at, key)| format!("{at}{key}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let now = core::time::Duration::from_nanos(slidegate::Clock::now(clock));
        let reply = self.call(now, &names, &asks).unwrap();
        let told = |answer: Answer| match answer {
            Answer::Decided { allowed, quotas, .. } => (allowed, quotas),
            other => panic!("{other:?} is no decision"),
        };
        // In shadow mode who would be denied goes on, so memory only says that it was noted.
        let shadows = members.iter().map(|member| member.shadow);
        let denied = members.iter().zip(&reply.answers).any(|(m, a)| !m.shadow && !decided(a).0);
        reply
            .answers
            .into_iter()
            .map(told)
            .zip(shadows)
            .map(|((allowed, quotas), shadow)| {
                let fits = quotas.iter().all(|quota| quota.retry_after() == Some(ms(0)));
                (if shadow && denied { fits } else { allowed }, quotas)
            })
            .collect()
    }
}
