//! Independent checks in one call: the script for many, beside those for one.

use redis::Value;
use slidegate::Algorithm;
use slidegate_testkit::Random;

use super::super::{ALONE, Ask, Clock, Kind, Op, ScriptLimits, compose_for_many, parse, time};
use super::{Caller, START, Server, decided, limits, ms};

/// Those that have a short cut.
const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Gcra,
    Algorithm::Fixed,
];

/// What the script for many replies to each.
fn ask_many(
    caller: &mut Caller,
    now: core::time::Duration,
    keys: &[String],
    asks: &[Ask<'_>],
) -> Vec<Vec<u8>> {
    let script = compose_for_many(Kind::of(asks), Clock::Given).unwrap();
    let script = redis::Script::new(script.text());
    let mut call = script.prepare_invoke();
    for key in keys {
        call.key(key);
    }
    for ask in asks {
        call.arg(ask.argument());
    }
    call.arg(time(now)).invoke(caller.connection()).unwrap()
}

// Who goes with others must get what they would have got alone, and leave behind the same.
#[test]
fn many_at_once_are_as_one_after_the_other() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    for algorithm in ALGORITHMS {
        redis::cmd("FLUSHALL").exec(caller.connection()).unwrap();
        let tight = limits(algorithm, &[(5, 2_000)]);
        let wide = limits(algorithm, &[(40, 60_000)]);
        let (mut random, mut now) = (Random::new(11), START);
        let (mut asked, mut alone) = (0_u32, 0_u32);
        for _ in 0..400 {
            // Now and then longer than a gap of two bytes, or than any window.
            let most = random.pick(&[30, 300, 3_000, 20_000, 70_000]);
            now += ms(random.between(0, most));
            let users: Vec<usize> = (0..8).filter(|_| random.chance(50)).collect();
            let of = |user: usize| if user.is_multiple_of(2) { &tight } else { &wide };
            let costs: Vec<u64> = users.iter().map(|_| 1 + random.between(0, 2) / 2).collect();
            let asks: Vec<Ask<'_>> = users
                .iter()
                .zip(&costs)
                .map(|(user, cost)| Ask::new(of(*user), Op::Check { cost: *cost }).unwrap())
                .collect();
            let names: Vec<String> = users.iter().map(|user| format!("many:{user}")).collect();
            if asks.is_empty() {
                continue;
            }
            let replies = ask_many(&mut caller, now, &names, &asks);
            assert_eq!(replies.len(), asks.len());
            for (((user, ask), name), reply) in users.iter().zip(&asks).zip(&names).zip(replies) {
                asked += 1;
                let told = if reply == ALONE {
                    alone += 1;
                    caller.call(now, &[name], &[*ask]).unwrap()
                } else {
                    parse(Value::BulkString(reply), &[*ask]).unwrap()
                };
                let expected = caller.call(now, &[&format!("one:{user}")], &[*ask]).unwrap();
                assert_eq!(told, expected, "{algorithm:?}, {user} at {now:?}");
            }
            for user in users {
                let [many, one] = ["many", "one"].map(|set| -> Vec<u8> {
                    let name = format!("{set}:{user}");
                    redis::cmd("GET").arg(name).query(caller.connection()).unwrap()
                });
                assert_eq!(many, one, "{algorithm:?}, {user} at {now:?}");
            }
        }
        assert!(alone * 5 < asked, "{algorithm:?}: {alone} of {asked} had to go alone");
    }
}

// Unlike where all or nothing is asked, a key may come several times: each sees those before it.
#[test]
fn a_key_that_comes_often_in_one_call_gets_its_limit() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    for algorithm in ALGORITHMS {
        redis::cmd("FLUSHALL").exec(caller.connection()).unwrap();
        let limits: ScriptLimits = limits(algorithm, &[(10, 60_000)]);
        let asks = [Ask::new(&limits, Op::Check { cost: 1 }).unwrap(); 32];
        let names = vec!["k".to_owned(); 32];
        let mut admitted = 0;
        for reply in ask_many(&mut caller, START, &names, &asks) {
            let reply = parse(Value::BulkString(reply), &asks[..1]).unwrap();
            admitted += u32::from(decided(&reply.answers[0]).0);
        }
        assert_eq!(admitted, 10, "{algorithm:?}");
    }
}

// One key that is damaged, or not ours, is nobody else's trouble.
#[test]
fn a_key_that_cannot_be_read_goes_alone() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    for algorithm in ALGORITHMS {
        redis::cmd("FLUSHALL").exec(caller.connection()).unwrap();
        redis::cmd("RPUSH").arg("list").arg("x").exec(caller.connection()).unwrap();
        redis::cmd("SET").arg("text").arg("x".repeat(100)).exec(caller.connection()).unwrap();
        let limits: ScriptLimits = limits(algorithm, &[(10, 60_000)]);
        let asks = [Ask::new(&limits, Op::Check { cost: 1 }).unwrap(); 4];
        let names = ["list", "a", "text", "b"].map(str::to_owned);
        let replies = ask_many(&mut caller, START, &names, &asks);
        let is_alone: Vec<bool> = replies.iter().map(|reply| reply == ALONE).collect();
        assert_eq!(is_alone, [true, false, true, false], "{algorithm:?}");
    }
}
