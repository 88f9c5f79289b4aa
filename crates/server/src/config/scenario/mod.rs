//! Test files: timed requests and their expected decisions.

mod read;

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::path::PathBuf;

use slidegate::Cost;

use super::table::leaves::{allow, text};
use super::table::{Leaf as Form, Pairs, keywords, section};
use crate::spec::units;
pub use read::read;

section! {
    /// A file of tests.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Scenario, FILE = "a test file" {
        /// The version of this format.
        key slidegate_test = Whole(1, 1), absent "this version", example "1";
        /// The configuration under test, relative to this file.
        config: Option<PathBuf> = Leaf(&PATH), absent "from the command line",
            example "slidegate.yaml";
        /// The tests. Each starts with empty counts.
        tests: Vec<Test> = List(&Section(&TEST), 10_000), required, example "[]";
    }
}

section! {
    /// Requests at their times, one after another.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Test, TEST = "a test" {
        /// The name of the test.
        name: String = Leaf(&TEXT), required, example "five logins per minute";
        /// Requests, ordered by time.
        key steps = List(&Section(&STEP), 100_000), required,
            example "[{at: 0s, policy: api, key: alice, expect: allow}]";
        /// Requests, ordered by time.
        let steps: Vec<Step> = read::steps, else Vec::new();
    }
}

section! {
    /// The keys of a step.
    struct StepKeys, STEP = "a step" {
        /// The time, from the start of the test.
        at: Option<Duration> = Time(Duration::ZERO, CENTURY), absent "the time of the step before",
            example "59s";
        /// Checks a policy.
        policy: Option<String> = Leaf(&NAME), absent "`request` or `domain` is set",
            example "login";
        /// The key that the policy checks.
        key: Option<String> = Leaf(&TEXT), absent "only without `policy`", example "alice";
        /// The tier of the key.
        tier: Option<String> = Leaf(&NAME), absent "the quotas of the policy", example "gold";
        /// Units that the policy checks.
        cost: Cost = Whole(1, LIMIT_MAX), default "1", example "5", via units;
        /// Checks a request by the rules.
        request: Option<HttpRequest> = Section(&REQUEST), absent "`policy` or `domain` is set",
            example "{method: POST, path: /login}";
        /// Checks a domain.
        domain: Option<String> = Leaf(&DOMAIN_NAME), absent "`policy` or `request` is set",
            example "shop";
        /// The descriptors that the domain checks: lists of entries.
        descriptors: Option<Vec<Vec<Pairs>>> =
            List(&List(&Named(&ENTRY_KEY, &Leaf(&TEXT), 1), 32), 64),
            absent "only without `domain`", example "[[{user: alice}, {path: /cart}]]";
        /// Units that the domain checks.
        hits: u32 = Whole(1, u32::MAX as u64), default "1", example "5";
        /// The number of repetitions. Each is expected to have the same decision.
        times: u32 = Whole(1, 1_000_000), default "1", example "5";
        /// The decision.
        key expect = Choice(ExpectedDecision::KEYWORDS), required, example "deny";
        /// Units left after the last of `times`, in the tightest quota.
        remaining: Option<u64> = Whole(0, LIMIT_MAX), absent "any", example "4";
        /// The wait of a denied request.
        retry_after: Option<Duration> = Time(Duration::ZERO, CENTURY), absent "any",
            example "1s";
        /// The decision. `None` has been reported.
        let expect: Option<ExpectedDecision> = read::expect, else None;
    }
}

const CENTURY: Duration = Duration::from_secs(100 * 366 * 86_400);

static ENTRY_KEY: Form = Form::new("a key", "^.+$", text);

keywords! {
    /// The expected decision.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ExpectedDecision {
        /// The request is allowed.
        Allow = "allow",
        /// The request is denied.
        Deny = "deny",
    }
}

/// A request, or several identical ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The time, from the start of the test.
    pub at: Duration,
    /// The check.
    pub ask: ScenarioRequest,
    /// The number of repetitions.
    pub times: u32,
    /// The expected result of each.
    pub expect: Expected,
    /// The line of the file.
    pub line: usize,
}

/// The check of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum ScenarioRequest {
    /// Checks a key of a policy.
    Policy {
        /// The policy.
        policy: String,
        /// The key.
        key: String,
        /// The tier of the key.
        tier: Option<String>,
        /// Units.
        cost: Cost,
    },
    /// Checks a request by the rules.
    Request(HttpRequest),
    /// Checks descriptors, which are lists of keys and values, in a domain.
    Descriptors {
        /// The domain.
        domain: String,
        /// Each a list of entries.
        descriptors: Vec<Vec<(String, String)>>,
        /// Units.
        hits: u32,
    },
}

section! {
    /// A request as a proxy reports it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HttpRequest, REQUEST = "a request" {
        /// The method.
        method: String = Leaf(&METHOD), default "GET", example "POST";
        /// The path, without a query.
        path: String = Leaf(&TEXT), required, example "/login";
        /// The host, without a port.
        host: String = Leaf(&HOST), default "localhost", example "api.example.com";
        /// The client's address.
        address: IpAddr = Leaf(&ADDRESS), default "192.0.2.1", example "203.0.113.9",
            via known;
        /// Header fields, with lowercase names.
        headers: Vec<(String, String)> = Named(&HEADER, &Leaf(&TEXT), 64), default "{}",
            example "{x-plan: gold}", via lowercase_names;
    }
}

static ADDRESS: Form = Form::new("an address", "^[0-9a-fA-F:.]+$", |text| {
    let help = "use an address such as 203.0.113.9 or 2001:db8::1";
    allow(text.parse::<IpAddr>().is_ok(), help)
});

fn known(address: Option<IpAddr>) -> IpAddr {
    address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

fn lowercase_names(Pairs(pairs): Pairs) -> Vec<(String, String)> {
    pairs.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

/// The expected result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Units left afterwards, in the tightest quota.
    pub remaining: Option<u64>,
    /// The wait of a denied request.
    pub retry_after: Option<Duration>,
}

impl HttpRequest {
    /// Returns a `GET` request with the defaults.
    pub fn get(path: &str) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }
}
