//! Clients and a server limited by Slidegate, with latency, in simulated time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use slidegate::{Algorithm, Limiter, ManualClock, Policy, Quota};
use slidegate_client::{Answer, Next, Pacing, Random, Repeat, Scope, Settings, Step, Ticket};
use slidegate_http::{Fields, Form, PolicyDecision, Reset};

use crate::driver::{START, millis, seconds};

/// A server, some programs and their requests in flight.
struct World {
    now: Duration,
    server: Limiter,
    clock: ManualClock,
    fields: Fields,
    random: Random,
    /// The maximum latency of a request or a response. The minimum is half of it.
    latency: Duration,
    programs: Vec<Program>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    next: u64,
    counts: Counts,
}

/// A process: a state machine, and workers that always have another request.
struct Program {
    pacing: Pacing,
    tickets: Vec<Option<Ticket>>,
    is_waiting: Vec<bool>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    allowed: u64,
    denied: u64,
}

/// The indexes of a program and its worker.
type Worker = (usize, usize);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Asks(Worker),
    Arrives(Worker),
    Answered(Worker, u16, Vec<(String, String)>),
}

impl World {
    fn new(policy: Policy, fields: Fields, latency: Duration) -> Self {
        let clock = ManualClock::new(START);
        let server = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
        Self {
            now: START,
            server,
            clock,
            fields,
            random: Random::from_seed(7),
            latency,
            programs: Vec::new(),
            events: BinaryHeap::new(),
            next: 0,
            counts: Counts::default(),
        }
    }

    fn program(&mut self, workers: usize) {
        let program = self.programs.len();
        self.programs.push(Program {
            pacing: Pacing::new(Settings::default()),
            tickets: (0..workers).map(|_| None).collect(),
            is_waiting: vec![false; workers],
        });
        for worker in 0..workers {
            self.later(Duration::ZERO, Event::Asks((program, worker)));
        }
    }

    fn run(&mut self, time: Duration) -> Counts {
        self.counts = Counts::default();
        let end = self.now + time;
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at >= end {
                self.events.push(Reverse((at, 0, event)));
                break;
            }
            self.now = at;
            match event {
                Event::Asks(worker) => self.ask(worker),
                Event::Arrives(worker) => self.decide(worker),
                Event::Answered(worker, status, fields) => self.answer(worker, status, &fields),
            }
        }
        self.now = end;
        self.counts
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.next += 1;
        self.events.push(Reverse((self.now + after, self.next, event)));
    }

    fn trip(&mut self) -> Duration {
        let half = u64::try_from(self.latency.as_nanos()).unwrap() / 2;
        Duration::from_nanos(half + self.random.below(half + 1))
    }

    fn ask(&mut self, (program, worker): Worker) {
        let now = self.now;
        let Program { pacing, tickets, is_waiting } = &mut self.programs[program];
        let scope = || Scope::new("api.example.com");
        let ticket = tickets[worker].get_or_insert_with(|| pacing.begin(scope(), now));
        is_waiting[worker] = false;
        match pacing.ask(ticket, now, &mut self.random) {
            Step::Go => {
                let trip = self.trip();
                self.later(trip, Event::Arrives((program, worker)));
            }
            Step::Wait(wait) => {
                is_waiting[worker] = true;
                self.later(wait, Event::Asks((program, worker)));
            }
            Step::Refuse(error) => panic!("{error}"),
        }
    }

    fn decide(&mut self, worker: Worker) {
        self.clock.set(self.now);
        let decision = self.server.check("client");
        let wall = SystemTime::UNIX_EPOCH + self.now;
        let decisions = [PolicyDecision::new(self.server.policy(), &decision)];
        let pairs = self.fields.pairs(&decisions, wall);
        let text = |(name, value): &(http::HeaderName, http::HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        let status = if decision.is_allowed() { 200 } else { 429 };
        let trip = self.trip();
        self.later(trip, Event::Answered(worker, status, pairs.iter().map(text).collect()));
    }

    fn answer(&mut self, (program, worker): Worker, status: u16, fields: &[(String, String)]) {
        let now = self.now;
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: http::HeaderName = name.parse().unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        let answer = Answer::read(StatusCode::from_u16(status).unwrap(), &headers, now);
        self.counts.allowed += u64::from(status == 200);
        self.counts.denied += u64::from(status == 429);
        let Program { pacing, tickets, is_waiting } = &mut self.programs[program];
        let mut ticket = tickets[worker].take().unwrap();
        if pacing.answer(&mut ticket, &answer, Repeat::Always, now, &mut self.random) == Next::Again
        {
            tickets[worker] = Some(ticket);
        } else {
            pacing.end(&mut ticket);
        }
        let has_news = pacing.take_news();
        let woken: Vec<usize> =
            (0..is_waiting.len()).filter(|w| has_news && is_waiting[*w]).collect();
        for other in woken {
            // Its timer is still set, and then does nothing.
            self.wake((program, other));
        }
        self.later(Duration::ZERO, Event::Asks((program, worker)));
    }

    /// Checks again early.
    fn wake(&mut self, worker: Worker) {
        let is_its = |event: &Event| matches!(event, Event::Asks(asks) if *asks == worker);
        self.events.retain(|Reverse((_, _, event))| !is_its(event));
        self.later(Duration::ZERO, Event::Asks(worker));
    }
}

fn policy(limit: u64, window: Duration, algorithm: Algorithm) -> Policy {
    let quota = Quota::new(limit, window).unwrap();
    Policy::builder("api").quota(quota).algorithm(algorithm).build().unwrap()
}

fn percent(part: u64, whole: u64) -> u64 {
    part * 100 / whole.max(1)
}

// More workers than the limit allows, and latency that varies between requests.
#[test]
fn a_saturating_program_gets_its_share_and_is_rarely_refused() {
    let quotas = [(100, 1), (10, 1), (1, 1), (1000, 60), (60, 60), (5, 10)];
    for (limit, window) in quotas {
        for latency in [1, 20, 80] {
            let policy = policy(limit, seconds(window), Algorithm::Log);
            let mut world = World::new(policy, Fields::new(), millis(latency));
            world.program(50);
            let windows = 40;
            let counts = world.run(seconds(window * windows));
            let all = counts.allowed + counts.denied;
            let what = format!("{limit} in {window} s, {latency} ms: {counts:?}");
            assert!(counts.denied * 100 <= all, "{what}");
            assert!(percent(counts.allowed, limit * windows) >= 90, "{what}");
        }
    }
}

// If the server counts differently than the client, it must still rarely refuse. Segments admit at
// most ten elevenths of the limit, so a client that aims at 95 % of it is sometimes refused.
#[test]
fn servers_with_other_algorithms_rarely_refuse() {
    let algorithms = [
        (Algorithm::Counter, 75),
        (Algorithm::Gcra, 90),
        (Algorithm::Fixed, 90),
        (Algorithm::Segments { count: 10 }, 60),
    ];
    for (algorithm, least) in algorithms {
        let mut world = World::new(policy(100, seconds(1), algorithm), Fields::new(), millis(20));
        world.program(50);
        let counts = world.run(seconds(40));
        let all = counts.allowed + counts.denied;
        assert!(counts.denied * 20 <= all, "{algorithm:?}: {counts:?}");
        assert!(percent(counts.allowed, 4000) >= least, "{algorithm:?}: {counts:?}");
    }
}

// Without a window the client knows only the remaining units, and sends one probe at a time when
// they are used up.
#[test]
fn fields_without_a_window_are_enough() {
    let forms = [
        Fields::none().x_ratelimit(Reset::Delta).retry_after(true),
        Fields::none().x_ratelimit(Reset::Epoch).retry_after(true),
    ];
    for fields in forms {
        let mut world = World::new(policy(20, seconds(10), Algorithm::Log), fields, millis(20));
        world.program(10);
        let counts = world.run(seconds(400));
        assert!(counts.denied * 20 <= counts.allowed, "{counts:?}");
        assert!(percent(counts.allowed, 800) >= 60, "{counts:?}");
    }
    for form in [Form::Dictionary, Form::Triple] {
        let fields = Fields::none().ratelimit(form);
        let mut world = World::new(policy(20, seconds(10), Algorithm::Log), fields, millis(20));
        world.program(10);
        let counts = world.run(seconds(400));
        assert!(counts.denied * 100 <= counts.allowed, "{form:?}: {counts:?}");
        assert!(percent(counts.allowed, 800) >= 90, "{form:?}: {counts:?}");
    }
}

#[test]
fn two_independent_programs_share_a_quota() {
    let mut world = World::new(policy(100, seconds(10), Algorithm::Log), Fields::new(), millis(20));
    world.program(10);
    world.program(10);
    let counts = world.run(seconds(600));
    let all = counts.allowed + counts.denied;
    assert!(counts.denied * 20 <= all, "{counts:?}");
    assert!(percent(counts.allowed, 6000) >= 75, "{counts:?}");
}
