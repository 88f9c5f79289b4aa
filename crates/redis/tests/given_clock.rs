//! Every algorithm on a clock that the test sets: steps of the server's clock, numbers at the edges of
//! their ranges, and what is written.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::time::Duration;

use common::{keys, patient, runtime};
use slidegate::{Algorithm, Cost, Decision, ErrorKind, ManualClock, Policy, Quota, Receipt};
use slidegate_redis::{Redis, RedisLimiter};
use slidegate_testkit::server::RedisServer;
use slidegate_testkit::{Random, never_over};
use tokio::runtime::Runtime;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

/// The usual start of a test's clock.
const START: Duration = Duration::from_secs(1_700_000_000);

/// The first of January 2100.
const LATE: Duration = Duration::from_secs(4_102_444_800);

const UNITS_MAX: u64 = (1 << 53) - 1;
const WINDOW_MS: u64 = 1000;
const LIMIT: u64 = 10;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

/// A server and the clock that its scripts read.
struct Scene {
    server: RedisServer,
    clock: ManualClock,
    redis: Redis,
    runtime: Runtime,
}

impl Scene {
    fn start() -> Self {
        let (server, clock) = (RedisServer::start().unwrap(), ManualClock::new(START));
        let redis = patient(&server.url()).test_clock(clock.clone()).build().unwrap();
        Self { server, clock, redis, runtime: runtime() }
    }

    /// A limiter with quotas given as (units, milliseconds), on an empty server.
    fn limiter(&self, algorithm: Algorithm, quotas: &[(u64, u64)]) -> RedisLimiter {
        self.command::<()>("FLUSHALL");
        let quota = |&(limit, millis): &(u64, u64)| Quota::new(limit, ms(millis)).unwrap();
        let policy = Policy::builder("p").quotas(quotas.iter().map(quota)).algorithm(algorithm);
        self.redis.limiter(policy.build().unwrap()).deny_cache(0).build().unwrap()
    }

    fn command<T: redis::FromRedisValue>(&self, words: &str) -> T {
        let mut command = redis::Cmd::new();
        for word in words.split(' ') {
            command.arg(word);
        }
        command.query(&mut self.server.connection().unwrap()).unwrap()
    }

    /// Runs a command on the only key.
    fn of_key<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let keys = keys(&self.server);
        assert_eq!(keys.len(), 1, "{keys:?}");
        self.command(&format!("{command} {}", keys[0].0))
    }

    fn check(&self, now: Duration, limiter: &RedisLimiter, units: u64) -> Decision {
        self.clock.set(now);
        let decision = self.runtime.block_on(limiter.check_cost("k", cost(units)));
        assert!(!decision.is_degraded());
        decision
    }

    fn takes(&self, now: Duration, limiter: &RedisLimiter) -> bool {
        self.check(now, limiter, 1).is_allowed()
    }

    fn peek(&self, now: Duration, limiter: &RedisLimiter, key: &str, units: u64) -> Decision {
        self.clock.set(now);
        self.runtime.block_on(limiter.peek_cost(key, cost(units))).unwrap()
    }

    fn used(&self, now: Duration, limiter: &RedisLimiter) -> u64 {
        self.clock.set(now);
        self.runtime.block_on(limiter.usage("k")).unwrap().units(0)
    }
}

/// How much more than the limit an algorithm lets through in its worst window, as a factor.
fn factor(algorithm: Algorithm) -> u64 {
    match algorithm {
        Algorithm::Log | Algorithm::LogCapped { .. } | Algorithm::Segments { .. } => 1,
        _ => 2,
    }
}

/// Whether a step back moves the borders of the windows, so that one more limit may pass.
fn is_aligned(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Counter | Algorithm::Fixed)
}

// Units that seem to be younger than they are may be counted too long, never too short. The test's
// own time goes on evenly; the server's clock shows that time and an offset, which jumps.
#[test]
fn clock_that_steps_back_never_admits_more_than_the_limit() {
    let scene = Scene::start();
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let algorithm = random.pick(&ALGORITHMS);
        let limiter = scene.limiter(algorithm, &[(LIMIT, WINDOW_MS)]);
        let mut real = Duration::from_secs(1_000_000);
        let mut offset = START;
        let (mut admitted, mut steps) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            real += Duration::from_micros(random.pick(&[0, 10, 999, 1000, 40_000, 300_000]));
            if random.chance(8) {
                offset -= ms(random.pick(&[1, 10, 500, 999, 1000, 1001, 5000, 100_000]));
                steps.push((nanos(real), 1));
            }
            let units = random.pick(&[1, 1, 2, 5]);
            if scene.check(real + offset, &limiter, units).is_allowed() {
                admitted.push((nanos(real), units));
            }
        }
        // The most steps that one window saw.
        let window = WINDOW_MS * 1_000_000;
        let most_steps = never_over(&steps, 0, window).map_or(0, |fullest| fullest.units);
        let extra = if is_aligned(algorithm) { u64::try_from(most_steps).unwrap() } else { 0 };
        let most = LIMIT * (factor(algorithm) + extra);
        let violation = never_over(&admitted, most, window);
        assert_eq!(violation, None, "{algorithm:?}, seed {seed}");
    }
}

/// The windows after which at least one unit is available again, whatever was taken.
fn windows_locked(algorithm: Algorithm) -> u64 {
    // A counter weighs what is behind it for another window; a segment counts whole.
    match algorithm {
        Algorithm::Counter | Algorithm::Segments { .. } => 2,
        _ => 1,
    }
}

// Without the shift, a clock that is set back by an hour would lock every key for an hour, or for
// ever if each peek counted the units again.
#[test]
fn no_key_is_locked_for_more_than_a_window_after_a_step_back() {
    let scene = Scene::start();
    for algorithm in ALGORITHMS {
        for (back_ms, keeps_peeking) in [(1, true), (900, false), (5000, true), (3_600_000, true)] {
            let limiter = scene.limiter(algorithm, &[(LIMIT, WINDOW_MS)]);
            let mut now = START + ms(321);
            for _ in 0..LIMIT {
                assert!(scene.takes(now, &limiter), "{algorithm:?}");
            }
            now -= ms(back_ms);
            assert!(!scene.takes(now, &limiter), "{algorithm:?} is empty, back {back_ms}");
            let end = now + ms(windows_locked(algorithm) * WINDOW_MS) + ms(2);
            while keeps_peeking && now + ms(200) < end {
                now += ms(90);
                let wait = scene.peek(now, &limiter, "k", 1).retry_after().duration().unwrap();
                assert!(now + wait <= end, "{algorithm:?}, back {back_ms}: {wait:?} at {now:?}");
            }
            assert!(scene.takes(end, &limiter), "{algorithm:?} is locked, back {back_ms}");
        }
    }
}

// The units that a receipt names have been moved: it must not give back those of others.
#[test]
fn receipts_are_void_after_a_step_back() {
    let scene = Scene::start();
    for algorithm in ALGORITHMS {
        let limiter = scene.limiter(algorithm, &[(LIMIT, WINDOW_MS)]);
        let receipt = scene.check(START, &limiter, 3).into_receipt().unwrap();
        let back = START.saturating_sub(ms(5000));
        assert!(scene.takes(back, &limiter), "{algorithm:?}");
        let given = scene.runtime.block_on(limiter.refund("k", receipt)).unwrap();
        assert_eq!((given, scene.used(back, &limiter)), (0, 4), "{algorithm:?}");
    }
}

// A step forward can cost one limit more; it must neither fail nor lock a key.
#[test]
fn clock_that_jumps_about_fails_nothing() {
    let scene = Scene::start();
    for seed in 0..120 {
        let mut random = Random::new(1000 + seed);
        let algorithm = random.pick(&ALGORITHMS);
        let quotas = [(LIMIT, WINDOW_MS), (3 * LIMIT, 7 * WINDOW_MS)];
        let limiter = scene.limiter(algorithm, &quotas);
        let start = random.pick(&[0, 5, 5000, 1_700_000_000_000, 4_102_444_800_000]);
        let mut now = ms(start);
        let (mut steps, mut admitted) = (1, 0);
        for _ in 0..150 {
            let jump = ms(random.pick(&[1, 999, 1001, 60_000, 100_000_000]));
            match random.between(0, 19) {
                0 => now = now.saturating_sub(jump),
                1 => {
                    now += jump;
                    steps += 1;
                }
                _ => now += Duration::from_micros(random.between(0, 900)),
            }
            admitted += u64::from(scene.takes(now, &limiter));
        }
        // All of it lasts far less than a window of real time.
        let most = steps * LIMIT * factor(algorithm);
        assert!(admitted <= most, "{algorithm:?}, seed {seed}: {admitted} in {steps} steps");
        now += ms(16 * WINDOW_MS);
        assert!(scene.takes(now, &limiter), "{algorithm:?}, seed {seed}: locked");
    }
}

// Doubles are exact up to 2^53, and times in microseconds come near it.
#[test]
fn limits_at_the_edges_are_exact_to_the_unit() {
    let scene = Scene::start();
    for start in [START, LATE] {
        for algorithm in ALGORITHMS {
            for limit in
                [1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, UNITS_MAX - 1, UNITS_MAX]
            {
                let limiter = scene.limiter(algorithm, &[(limit, 60_000)]);
                let check = |units| {
                    let decision = scene.check(start, &limiter, units);
                    let taken = decision.receipt().map_or(0, Receipt::units);
                    let wait = decision.retry_after().duration();
                    ((decision.is_allowed(), taken, limit - decision.remaining()), wait)
                };
                let what = format!("{algorithm:?}, {limit}");
                if limit < UNITS_MAX {
                    assert_eq!(check(limit + 1), ((false, 0, 0), None), "{what}");
                }
                if limit > 1 {
                    assert_eq!(check(limit - 1).0, (true, limit - 1, limit - 1), "{what}");
                    let (denied, wait) = check(2);
                    assert_eq!(denied, (false, 0, limit - 1), "{what}");
                    assert!(wait.is_some_and(|wait| !wait.is_zero()), "{what}");
                }
                assert_eq!(check(1).0, (true, 1, limit), "{what}");
                assert_eq!(check(1).0, (false, 0, limit), "{what}");
            }
        }
    }
}

// Ticks of other lengths, and instants that fall between them: `now` is rounded down, dates up.
#[test]
fn ticks_are_rounded_so_that_units_count_for_a_whole_window() {
    let scene = Scene::start();
    let limiter = |window: Duration, tick: Duration| {
        scene.command::<()>("FLUSHALL");
        let policy = Policy::builder("p").quota(Quota::new(1, window).unwrap());
        let policy = policy.algorithm(Algorithm::Log).build().unwrap();
        scene.redis.limiter(policy).deny_cache(0).tick(tick).build()
    };
    for micros in [100, 137, 1000, 999_999, 1_000_000] {
        let tick = Duration::from_micros(micros);
        let limiter = limiter(tick * 10, tick).unwrap();
        // The tick that LATE falls into begins at most a tick before.
        let begin = LATE.as_micros() / u128::from(micros) * u128::from(micros);
        let begin = Duration::from_micros(u64::try_from(begin).unwrap());
        let micro = Duration::from_micros(1);
        assert!(scene.takes(begin + micro, &limiter));
        // Dated at the next tick, so it counts until eleven ticks after the begin of this one.
        assert!(!scene.takes((begin + tick * 11).saturating_sub(micro), &limiter), "{tick:?}");
        assert!(scene.takes(begin + tick * 11, &limiter), "{tick:?}");
    }
    for tick in [ms(0), ms(1001), Duration::from_nanos(100_500), Duration::from_micros(99)] {
        let error = limiter(ms(10), tick).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{tick:?}");
    }
}

// At the cap neighbors are merged at the later date: never over the limit, never beyond the cap.
#[test]
fn log_at_its_cap_is_never_over_and_never_larger() {
    let scene = Scene::start();
    for (seed, bytes_max) in (0..24).zip([64, 100, 512, 4096].into_iter().cycle()) {
        let mut random = Random::new(seed);
        let quotas: &[(u64, u64)] =
            if seed % 2 == 0 { &[(300, 3000)] } else { &[(300, 3000), (90, 500)] };
        let limiter = scene.limiter(Algorithm::LogCapped { bytes_max }, quotas);
        let mut now = ms(0);
        let mut admitted = Vec::new();
        assert!(scene.takes(START, &limiter));
        let mut connection = scene.server.connection().unwrap();
        let name = keys(&scene.server).remove(0).0;
        for _ in 0..1500 {
            now += Duration::from_micros(random.pick(&[0, 500, 1000, 3000, 20_000]));
            let units = random.pick(&[1, 1, 1, 3]);
            if scene.check(START + now, &limiter, units).is_allowed() {
                admitted.push((nanos(now), units));
            }
            let bytes: u32 = redis::cmd("STRLEN").arg(&name).query(&mut connection).unwrap();
            assert!(bytes <= bytes_max + 90, "seed {seed}: {bytes} bytes");
        }
        for &(limit, millis) in quotas {
            let violation = never_over(&admitted, limit, millis * 1_000_000);
            assert_eq!(violation, None, "seed {seed}, cap {bytes_max}");
        }
        // It still admits: merged entries expire in time.
        let all: u64 = admitted.iter().map(|(_, units)| units).sum();
        assert!(all > 400, "seed {seed}, cap {bytes_max}: {all}");
    }
}

// Debts that are too large to be merged become entries of one tick.
#[test]
fn capped_log_takes_debts_beyond_all_numbers() {
    let scene = Scene::start();
    let limiter = scene.limiter(Algorithm::LogCapped { bytes_max: 64 }, &[(100, 60_000)]);
    let receipt = |step| scene.check(START + ms(step), &limiter, 1).into_receipt().unwrap();
    let receipts: Vec<Receipt> = (0..20).map(receipt).collect();
    for (step, receipt) in (100..).step_by(10).zip(receipts) {
        scene.clock.set(START + ms(step));
        let charged = scene.runtime.block_on(limiter.settle("k", receipt, UNITS_MAX));
        assert_eq!(charged.unwrap(), UNITS_MAX);
    }
    // Once the limit is used up without the newest entry, debts join it, up to the most units of an entry.
    assert_eq!(scene.used(START + ms(300), &limiter), 2 * UNITS_MAX + 19);
    assert!(!scene.takes(START + ms(60_000), &limiter));
    assert!(scene.takes(START + ms(60_300), &limiter));
}

// A flood of denied requests must neither load replicas nor extend anything.
#[test]
fn denied_checks_and_peeks_write_nothing() {
    let scene = Scene::start();
    let changes = || {
        let info: String = scene.command("INFO persistence");
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    for algorithm in ALGORITHMS {
        let limiter = scene.limiter(algorithm, &[(3, 1000), (5, 60_000)]);
        for _ in 0..3 {
            assert!(scene.takes(START, &limiter), "{algorithm:?}");
        }
        let before = changes();
        for at in [0, 1, 500, 999] {
            let now = START + ms(at);
            assert!(!scene.check(now, &limiter, 4).is_allowed(), "{algorithm:?} at {at}");
            assert!(scene.peek(now, &limiter, "k", 1).remaining() < 3);
            assert!(scene.peek(now, &limiter, "new", 1).is_allowed());
            let denied = scene.runtime.block_on(limiter.check_cost("new", cost(6)));
            assert!(!denied.is_allowed() && !denied.is_degraded());
            assert!(!scene.runtime.block_on(limiter.reset("new")).unwrap());
        }
        assert_eq!(changes(), before, "{algorithm:?}");
    }
}

/// The log renews its TTL only now and then; it must never run low.
#[test]
fn ttl_of_a_log_never_falls_below_a_window() {
    // How much longer keys live than their content under the test clock, in milliseconds.
    const SLACK: u64 = 3_600_000;
    let scene = Scene::start();
    let limiter = scene.limiter(Algorithm::Log, &[(1_000_000, 60_000)]);
    let mut connection = scene.server.connection().unwrap();
    let (mut name, mut expires) = (String::new(), 0);
    for step in 0..2000_u64 {
        let now = step * 97;
        assert!(scene.takes(START + ms(now), &limiter));
        if step == 0 {
            name = keys(&scene.server).remove(0).0;
        }
        // The server's clock hardly moves, the given one does: the last PEXPIRE counts from then on.
        let ttl: u64 = redis::cmd("PTTL").arg(&name).query(&mut connection).unwrap();
        let renewed = ttl > 120_000 + SLACK - 5000;
        if step == 0 || (renewed && expires < now + 60_000 + 100) {
            expires = now + 120_000;
        }
        assert!(expires >= now + 60_000, "step {step}: lives until {expires}, it is {now}");
    }
    let info: String = scene.command("INFO commandstats");
    let calls = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name)).unwrap_or("calls=0,");
        let count = line.split("calls=").nth(1).and_then(|rest| rest.split(',').next());
        count.unwrap().parse::<u64>().unwrap()
    };
    let renewals = calls("cmdstat_pexpire:");
    assert!(renewals < 10, "the TTL was renewed {renewals} times");
    assert!(calls("cmdstat_setrange:") >= 1900, "a check is written in place");
}

// Growing a string in place doubles what Redis allocates for it.
#[test]
fn long_log_takes_little_more_than_its_codes() {
    let scene = Scene::start();
    let limiter = scene.limiter(Algorithm::Log, &[(100_000, 60_000)]);
    for step in 0..5000_u64 {
        assert!(scene.takes(START + ms(step * 60), &limiter));
    }
    // A thousand entries of a byte.
    let bytes: u64 = scene.of_key("MEMORY USAGE");
    assert!((1000..1600).contains(&bytes), "{bytes} bytes");
    // A key that was idle is small again.
    assert!(scene.takes(START + ms(10_000_000), &limiter));
    let bytes: u64 = scene.of_key("MEMORY USAGE");
    assert!(bytes < 250, "{bytes} bytes");
}

// A receipt from before a reset, or from before the key was lost, must not give back units that were
// taken later.
#[test]
fn receipts_are_void_after_a_reset_and_after_data_loss() {
    let scene = Scene::start();
    for algorithm in ALGORITHMS {
        for lose in [false, true] {
            let limiter = scene.limiter(algorithm, &[(10, 60_000)]);
            let receipt = scene.check(START, &limiter, 3).into_receipt().unwrap();
            if lose {
                scene.command::<()>("FLUSHALL");
            } else {
                assert!(scene.runtime.block_on(limiter.reset("k")).unwrap());
            }
            let now = START + ms(1);
            assert!(scene.check(now, &limiter, 4).is_allowed());
            let given = scene.runtime.block_on(limiter.refund("k", receipt)).unwrap();
            assert_eq!((given, scene.used(now, &limiter)), (0, 4), "{algorithm:?}");
        }
    }
}

// The bound of the algorithm, as in memory: a burst late in its tick and the refill of a window are exactly
// twice the limit in less than a window.
#[test]
fn gcra_admits_up_to_twice_the_limit_in_a_window_and_no_more() {
    let scene = Scene::start();
    let limiter = scene.limiter(Algorithm::Gcra, &[(LIMIT, WINDOW_MS)]);
    let mut admitted = Vec::new();
    let mut ask = |now: Duration| {
        let is_allowed = scene.check(now, &limiter, 1).is_allowed();
        if is_allowed {
            admitted.push((nanos(now), 1));
        }
        is_allowed
    };
    for _ in 0..LIMIT {
        assert!(ask(START + Duration::from_micros(900)), "the burst is whole");
    }
    for refilled in 1..=3 * LIMIT {
        let at = START + ms(refilled * WINDOW_MS / LIMIT);
        assert!(!ask(at.saturating_sub(Duration::from_micros(1))));
        assert!(ask(at));
    }
    let window = nanos(ms(WINDOW_MS));
    assert!(never_over(&admitted, 2 * LIMIT - 1, window).is_some());
    assert_eq!(never_over(&admitted, 2 * LIMIT, window), None);
}
