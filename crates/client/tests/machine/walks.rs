//! Any responses in any order: no panic, no wait past the deadline, no request before the server's
//! time.

use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use slidegate_client::{Answer, Pacing, Random, Repeat, Scope, Settings, Step, Ticket};

use crate::driver::{START, seconds};

#[derive(Debug, Clone)]
enum Operation {
    Begin(u8),
    Ask(usize),
    Answer(usize, u16, Vec<(usize, String)>),
    End(usize),
    Advance(u64),
}

const NAMES: [&str; 11] = [
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "date",
    "age",
];

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0u32..100).prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => "[ -~]{0,24}",
        1 => Just("99999999999999999999999".to_owned()),
        1 => Just("Fri, 31 Dec 9999 23:59:59 GMT".to_owned()),
        1 => Just("Tue, 14 Nov 2023 22:14:20 GMT".to_owned()),
        3 => (0u8..3, 0u64..50, 0u64..100)
            .prop_map(|(name, left, time)| format!(r#""p{name}";r={left};t={time}"#)),
        3 => (0u8..3, 0u64..50, 0u64..100)
            .prop_map(|(name, limit, window)| format!(r#""p{name}";q={limit};w={window}"#)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let status = prop_oneof![Just(200u16), Just(429), Just(503), Just(500)];
    prop_oneof![
        2 => (0u8..6).prop_map(Operation::Begin),
        5 => (0usize..8).prop_map(Operation::Ask),
        4 => (0usize..8, status, vec((0..NAMES.len(), value()), 0..5))
            .prop_map(|(ticket, status, fields)| Operation::Answer(ticket, status, fields)),
        1 => (0usize..8).prop_map(Operation::End),
        3 => prop_oneof![0u64..2_000, 0u64..200_000, Just(u64::MAX / 2)].prop_map(Operation::Advance),
    ]
}

/// The invariants, tracked independently of the state machine.
struct Walk {
    pacing: Pacing,
    random: Random,
    now: Duration,
    tickets: Vec<Request>,
    held: HashMap<u8, Duration>,
}

struct Request {
    ticket: Ticket,
    host: u8,
    began: Duration,
    is_out: bool,
}

const DEADLINE: Duration = Duration::from_secs(120);
const HOLD_MAX: Duration = Duration::from_secs(3600);

impl Walk {
    fn new() -> Self {
        let settings = Settings::builder().scopes_max(4).waiters_max(3).refusals(9, seconds(50));
        let pacing = Pacing::new(settings.deadline(DEADLINE).hold_max(HOLD_MAX).build().unwrap());
        let (tickets, held) = (Vec::new(), HashMap::new());
        Self { pacing, random: Random::from_seed(3), now: START, tickets, held }
    }

    fn step(&mut self, operation: Operation) {
        match operation {
            Operation::Begin(host) if self.tickets.len() < 8 => {
                let ticket = self.pacing.begin(Scope::new(&host.to_string()), self.now);
                self.tickets.push(Request { ticket, host, began: self.now, is_out: false });
            }
            Operation::Ask(index) => self.ask(index),
            Operation::Answer(index, status, fields) => self.answer(index, status, &fields),
            Operation::End(index) if index < self.tickets.len() => {
                let mut request = self.tickets.remove(index);
                self.pacing.end(&mut request.ticket);
            }
            Operation::Begin(_) | Operation::End(_) => {}
            Operation::Advance(millis) => {
                self.now = self.now.saturating_add(Duration::from_millis(millis));
            }
        }
        let stats = self.pacing.stats();
        assert!(stats.scopes <= 4 && stats.waiting <= 3, "{stats:?}");
    }

    fn ask(&mut self, index: usize) {
        let Some(request) = self.tickets.get_mut(index) else { return };
        match self.pacing.ask(&mut request.ticket, self.now, &mut self.random) {
            Step::Go => {
                request.is_out = true;
                let held = self.held.get(&request.host).copied().unwrap_or_default();
                assert!(self.now >= held, "held until {held:?}, and it is {:?}", self.now);
            }
            Step::Wait(wait) => {
                assert!(!wait.is_zero(), "a wait of nothing is a busy loop");
                assert!(
                    self.now + wait <= request.began + DEADLINE,
                    "{wait:?} is past the deadline"
                );
            }
            Step::Refuse(error) => assert!(!error.to_string().is_empty()),
        }
    }

    fn answer(&mut self, index: usize, status: u16, fields: &[(usize, String)]) {
        let Some(request) = self.tickets.get_mut(index) else { return };
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.append(HeaderName::from_static(NAMES[*name]), value);
            }
        }
        let status = StatusCode::from_u16(status).unwrap();
        let answer = Answer::read(status, &headers, self.now);
        let ticket = &mut request.ticket;
        self.pacing.answer(ticket, &answer, Repeat::Always, self.now, &mut self.random);
        // A response without a waiting request may not be stored.
        let is_out = std::mem::take(&mut request.is_out);
        if let Some(wait) = answer.limits().retry_after().filter(|_| answer.is_refused())
            && is_out
        {
            let until = self.now.saturating_add(wait.min(HOLD_MAX));
            let held = self.held.entry(request.host).or_default();
            *held = until.max(*held);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn any_answers_in_any_order(operations in vec(operation(), 1..120)) {
        let mut walk = Walk::new();
        for operation in operations {
            walk.step(operation);
        }
    }
}
