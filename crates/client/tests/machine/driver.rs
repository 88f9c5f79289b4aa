//! The state machine with simulated time.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use slidegate_client::{
    Answer, Error, Next, Pacing, Random, Repeat, Scope, Settings, SettingsBuilder, Step, Ticket,
};

/// A time in November 2023.
pub(crate) const START: Duration = Duration::from_secs(1_700_000_000);

/// [`Pacing`] with simulated time and randomness, for one host by default.
pub(crate) struct Machine {
    pub(crate) pacing: Pacing,
    pub(crate) random: Random,
    pub(crate) now: Duration,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(Settings::builder())
    }

    pub(crate) fn with(settings: SettingsBuilder) -> Self {
        let pacing = Pacing::new(settings.build().unwrap());
        Self { pacing, random: Random::from_seed(42), now: START }
    }

    pub(crate) fn begin(&mut self) -> Ticket {
        self.begin_at("api.example.com")
    }

    pub(crate) fn begin_at(&mut self, host: &str) -> Ticket {
        self.pacing.begin(Scope::new(host), self.now)
    }

    pub(crate) fn ask(&mut self, ticket: &mut Ticket) -> Step {
        self.pacing.ask(ticket, self.now, &mut self.random)
    }

    /// Returns a request that was sent immediately.
    pub(crate) fn sent(&mut self) -> Ticket {
        let mut ticket = self.begin();
        assert_eq!(self.ask(&mut ticket), Step::Go);
        ticket
    }

    /// Returns the wait of a request.
    pub(crate) fn wait(&mut self, ticket: &mut Ticket) -> Duration {
        match self.ask(ticket) {
            Step::Wait(wait) => wait,
            step => panic!("{step:?} and no wait"),
        }
    }

    /// Returns the error of a request.
    pub(crate) fn refused(&mut self, ticket: &mut Ticket) -> Error {
        match self.ask(ticket) {
            Step::Refuse(error) => error,
            step => panic!("{step:?} and no error"),
        }
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        self.now += time;
    }

    pub(crate) fn answer(
        &mut self,
        ticket: &mut Ticket,
        status: u16,
        fields: &[(&str, &str)],
    ) -> Next {
        self.answer_with(ticket, status, fields, Repeat::Always)
    }

    pub(crate) fn answer_with(
        &mut self,
        ticket: &mut Ticket,
        status: u16,
        fields: &[(&str, &str)],
        repeat: Repeat,
    ) -> Next {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = Answer::read(status, &headers(fields), self.now);
        self.pacing.answer(ticket, &answer, repeat, self.now, &mut self.random)
    }
}

pub(crate) fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
