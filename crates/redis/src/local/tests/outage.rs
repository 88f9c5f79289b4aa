//! A search for schedules of processes and outages that admit more than `failure-modes.md` derives.
//!
//! Redis is a limiter in memory, the processes are real fallbacks, and time is virtual: thousands of
//! schedules per second.

use std::collections::VecDeque;

use slidegate::ManualClock;
use slidegate_testkit::Random;

use super::*;

/// The processes and the limiter in place of Redis of one setting, for several schedules.
struct Stage {
    limit: u64,
    window: u64,
    clock: ManualClock,
    start: Instant,
    now: u64,
    redis: Limiter,
    locals: Vec<LocalFallback>,
    limits: Arc<ScriptLimits>,
}

/// What happens to one key. Times are milliseconds.
#[derive(Debug, Clone)]
struct Schedule {
    plans: Vec<Plan>,
    /// When Redis stops.
    outage: u64,
    until: u64,
    /// The longest time until a reply arrives.
    latency_max: u64,
    /// Of 100 replies, those that are lost.
    lost: u64,
}

/// The checks of a process.
#[derive(Debug, Clone)]
struct Plan {
    joins: u64,
    period: u64,
    restart: Option<u64>,
}

/// A process, for one schedule.
struct Process {
    key: Vec<u8>,
    tiered_key: TieredKey,
    due: u64,
    /// When the last reply that it has was executed.
    last_executed: Option<u64>,
    /// Replies on their way: when they arrive and were executed, and what Redis decided.
    replies: VecDeque<(u64, u64, Decision)>,
}

/// The result of a schedule.
#[derive(Debug)]
struct Outcomes {
    fullest: u64,
    bound: u64,
}

impl Stage {
    fn new(limit: u64, window: u64, nodes: usize) -> Self {
        let clock = ManualClock::new(Duration::from_secs(1_000_000));
        let quota = Quota::new(limit, Duration::from_millis(window)).unwrap();
        let policy = Policy::new("api", quota).unwrap();
        let limiter = |policy: Policy| {
            let limiter = Limiter::builder(policy).clock(clock.clone()).memory_limit(1 << 20);
            limiter.build().unwrap()
        };
        let nodes_count = nodes as u64;
        let share = shares(policy.quotas(), nodes_count).unwrap();
        let local = |_| {
            let policy = Policy::new("api", share[0]).unwrap();
            LocalFallback::of(limiter(policy), nodes_count, 1 << 20)
        };
        let tick = Duration::from_millis(1);
        let limits = ScriptLimits::new(policy.quotas(), Algorithm::Log, tick, quota.window());
        Self {
            limit,
            window,
            start: Instant::now(),
            now: 0,
            redis: limiter(policy),
            locals: (0..nodes).map(local).collect(),
            limits: Arc::new(limits.unwrap()),
            clock,
        }
    }

    fn at(&self, time: u64) -> Instant {
        self.start + Duration::from_millis(time)
    }

    fn run(&mut self, number: u64, schedule: &Schedule, random: &mut Random) -> Outcomes {
        let from = self.now;
        let key = number.to_be_bytes();
        let nodes = self.locals.len() as u64;
        let process = |(place, plan): (usize, &Plan)| Process {
            key: format!("{number} {place}").into(),
            tiered_key: TieredKey { key: number * 64 + place as u64, tier: 0 },
            due: plan.joins,
            last_executed: None,
            replies: VecDeque::new(),
        };
        let mut processes: Vec<Process> = schedule.plans.iter().enumerate().map(process).collect();
        // When each unit was admitted, and whether by Redis.
        let (mut admitted, mut restarts) = (Vec::new(), 0);
        for time in 0..schedule.until {
            self.now = from + time;
            self.clock.advance(Duration::from_millis(1));
            for (place, process) in processes.iter_mut().enumerate() {
                self.deliver(place, process, time, from);
                let plan = &schedule.plans[place];
                if plan.restart == Some(time) {
                    restarts += 1;
                    process.key.push(b'r');
                    process.tiered_key.tier += 1;
                    process.last_executed = None;
                    process.replies.clear();
                }
                if time < process.due {
                    continue;
                }
                process.due += plan.period;
                if time < schedule.outage {
                    let decision = self.redis.check(&key);
                    if random.chance(schedule.lost) {
                        // The unit is taken, and the local limiter decides the check.
                        admitted.extend(self.decide(place, process).then_some((time, false)));
                        continue;
                    }
                    admitted.extend(decision.is_allowed().then_some((time, true)));
                    if decision.is_allowed() {
                        self.locals[place].record_taken(&process.key, None, Cost::ONE);
                    }
                    let arrival = time + random.between(0, schedule.latency_max);
                    process.replies.push_back((arrival, time, decision));
                    self.deliver(place, process, time, from);
                } else {
                    admitted.extend(self.decide(place, process).then_some((time, false)));
                }
            }
        }
        self.now = from + schedule.until;
        // What the process with the oldest last reply cannot know.
        let oldest = processes.iter().map(|process| process.last_executed).min().flatten();
        let since = oldest.unwrap_or(schedule.outage.saturating_sub(self.window));
        let is_unknown = |(time, by_redis): &&(u64, bool)| {
            *by_redis && (*time > since || oldest.is_none() && *time == since)
        };
        let unknown = admitted.iter().filter(is_unknown).count() as u64;
        let share = share_of(self.limit, nodes);
        let unknown_share = (unknown * (nodes - 1)).div_ceil(nodes);
        let bound = self.limit + unknown_share + nodes - 1 + restarts * share;
        let fullest = admitted.iter().map(|(end, _)| {
            let inside = |(time, _): &&(u64, bool)| time <= end && *time + self.window > *end;
            admitted.iter().filter(inside).count() as u64
        });
        Outcomes { fullest: fullest.max().unwrap_or(0), bound }
    }

    /// Hands the replies that have arrived to the process, in the order of their arrival.
    fn deliver(&self, place: usize, process: &mut Process, now: u64, from: u64) {
        let Process { key, tiered_key, replies, last_executed, .. } = process;
        let mut arrived: Vec<_> = replies.iter().filter(|reply| reply.0 <= now).cloned().collect();
        replies.retain(|reply| reply.0 > now);
        arrived.sort_by_key(|reply| reply.0);
        for (arrival, executed, decision) in arrived {
            let times = ReplyTimes {
                sent: self.at(from + executed),
                received: self.at(from + arrival),
                server: Duration::from_millis(from + executed),
                into_tick: Duration::ZERO,
            };
            self.locals[place].note_reply(key, *tiered_key, &decision, times);
            *last_executed = (*last_executed).max(Some(executed));
        }
    }

    fn decide(&self, place: usize, process: &Process) -> bool {
        let key = LocalKey {
            key: &process.key,
            tiered_key: process.tiered_key,
            tier: None,
            limits: &self.limits,
        };
        let (prior, name) = (PriorCall::None, || process.key.clone());
        let now = self.at(self.now);
        self.locals[place].decide(key, name, Cost::ONE, (prior, Duration::ZERO), now).is_allowed()
    }
}

impl Schedule {
    fn random(random: &mut Random, nodes: usize, window: u64) -> Self {
        let outage = random.between(window / 4, window * 3);
        let plan = |random: &mut Random| {
            let is_busy = random.chance(50);
            Plan {
                joins: random.between(0, outage + window / 2),
                period: random.between(1, if is_busy { 8 } else { window / 3 }),
                restart: random.chance(10).then(|| random.between(outage, outage + window)),
            }
        };
        Self {
            plans: (0..nodes).map(|_| plan(random)).collect(),
            outage,
            until: outage + window * 5 / 2,
            latency_max: if random.chance(50) { 0 } else { random.between(1, 12) },
            lost: if random.chance(80) { 0 } else { random.between(1, 20) },
        }
    }
}

// One process checks rarely, another joins later and checks often. Its knowledge of what the first has
// taken must last as long as the units do.
#[test]
fn a_process_that_joins_later_remembers_the_units_of_others() {
    let mut stage = Stage::new(10, 4000, 2);
    let plan = |joins, period| Plan { joins, period, restart: None };
    let schedule = Schedule {
        plans: vec![plan(0, 400), plan(4000, 50)],
        outage: 7700,
        until: 12_000,
        latency_max: 0,
        lost: 0,
    };
    let outcomes = stage.run(0, &schedule, &mut Random::new(0));
    assert!(outcomes.fullest <= 11, "{outcomes:?}");
}

#[test]
fn no_schedule_admits_more_than_the_bound() {
    const SETTINGS: u64 = 60;
    const SCHEDULES: u64 = 40;
    let mut fullest = (0.0, String::new());
    for setting in 0..SETTINGS {
        let mut random = Random::new(setting);
        let (limit, window) = (random.between(1, 60), random.between(40, 250));
        let nodes = random.index(3) + 2;
        let mut stage = Stage::new(limit, window, nodes);
        for number in 0..SCHEDULES {
            let schedule = Schedule::random(&mut random, nodes, window);
            let outcomes = stage.run(number, &schedule, &mut random);
            let case =
                format!("{limit} per {window} ms, {outcomes:?}, setting {setting}: {schedule:?}");
            assert!(outcomes.fullest <= outcomes.bound, "{case}");
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let over = outcomes.fullest as f64 / limit as f64;
            if limit >= 20 && over > fullest.0 {
                fullest = (over, case);
            }
        }
    }
    println!("{} schedules; {:.2} limits: {}", SETTINGS * SCHEDULES, fullest.0, fullest.1);
}
